//go:build linux && (amd64 || arm64)

package supervisor

import (
	"cmp"
	"slices"

	"github.com/fsbench/fsbench/trace"
)

// pick returns the position of the held thread that is let go: the one with the
// smallest name, unless the plan has it wait for others.
func (w *owner) pick() (int, error) {
	slices.SortFunc(w.held, func(a, b waiting) int { return cmp.Compare(a.name, b.name) })
	if len(w.held) == 1 || !w.plan.stepped {
		return 0, nil
	}
	ahead := make([]string, len(w.held))
	for i, h := range w.held {
		ahead[i] = w.keys.ahead(h.t.proc.role, h.u.call.name, h.u.names)
	}
	i, err := w.ordered(ahead)
	if err != nil {
		return 0, err
	}
	rivals := slices.Concat(ahead[:i], ahead[i+1:])
	slices.Sort(rivals)
	w.held[i].u.rivals = slices.DeleteFunc(slices.Compact(rivals), func(key string) bool { return key == ahead[i] })
	return i, nil
}

// ordered goes through the held threads as they come, and passes over those that are
// to be late. If all of them are, the first is not.
func (w *owner) ordered(ahead []string) (int, error) {
	for i := range w.held {
		h := &w.held[i]
		if !h.turn {
			h.turn = true
			for _, a := range w.plan.inj {
				if _, due := a.late(h.u, ahead[i]); !due || a.Do.Delay == 0 {
					continue
				}
				if a.hits++; a.When.Nth == 0 || a.When.Nth == a.hits {
					h.late = a
				}
			}
		}
		if h.late != nil && h.passed < h.late.Do.Delay {
			continue
		}
		if err := w.passed(i); err != nil {
			return 0, err
		}
		return w.preferred(i, ahead)
	}
	return 0, nil
}

// passed counts that those before the i-th have let it pass.
func (w *owner) passed(i int) error {
	for j := range w.held[:i] {
		h := &w.held[j]
		if h.passed++; h.passed > 1 {
			continue
		}
		if err := w.fired(h.late, h.u.places[0], trace.EffectDelay); err != nil {
			return err
		}
	}
	return nil
}

// preferred returns whom the plan prefers to the i-th, if it is there.
func (w *owner) preferred(i int, ahead []string) (int, error) {
	for _, a := range w.plan.inj {
		p, due := a.late(w.held[i].u, ahead[i])
		j := slices.Index(ahead, a.Do.First)
		if !due || j < 0 || j == i {
			continue
		}
		a.spent = true
		return j, w.fired(a, p, trace.EffectDelay)
	}
	return i, nil
}

// late reports whether an order of the plan is about a call that is to have that key.
func (a *armed) late(u *use, key string) (place, bool) {
	if !a.Do.Orders() || a.spent {
		return place{}, false
	}
	for _, p := range u.places {
		if a.aims(p, key) {
			return p, true
		}
	}
	return place{}, false
}
