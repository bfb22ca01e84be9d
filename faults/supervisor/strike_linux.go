//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// plan is a fault plan in force in an owner.
type plan struct {
	stepped bool
	inj     []*armed
}

// armed is one injection and how often it was due.
type armed struct {
	faults.Injection
	watch bool
	hits  int

	spent bool // of an order: it has been followed

	cut *place // what was interrupted, until it is done after all
}

func newPlan(p faults.Plan, watch []string) plan {
	out := plan{stepped: p.Stepped()}
	for _, in := range p.Injections {
		out.inj = append(out.inj, &armed{Injection: in, watch: slices.Contains(watch, in.ID)})
	}
	return out
}

// due returns the place of a call at which an injection strikes, and counts the
// match.
func (a *armed) due(u *use) (place, bool) {
	for _, p := range u.places {
		if !a.aims(p, u.key) {
			continue
		}
		a.hits++
		return p, a.When.Nth == 0 || a.When.Nth == a.hits
	}
	return place{}, false
}

func (a *armed) aims(p place, key string) bool {
	when := a.When
	if when.Step != "" && when.Step != key || when.Under != "" && when.Under != p.dir {
		return false
	}
	if p.hosts() && !strings.Contains(when.Under, spec.StateDir) {
		return false
	}
	if when.Name != "" {
		if ok, err := path.Match(when.Name, p.name); err != nil || !ok {
			return false
		}
	}
	if p.op == "" {
		// The port has nothing like it: it can be struck by its key alone, and only by
		// what may happen anywhere.
		return when.Step != "" && (a.Do.Swap != nil || a.Do.Crash || a.Do.Glimpse || a.Do.Orders())
	}
	return a.Concerns(p.op, p.class)
}

// enter deals with a thread that is stopped at a call.
func (w *owner) enter(t *thread) error {
	// In this kind of stop the number and the arguments are at the same places as at
	// the entry of a call.
	info, err := getCall(t.tid)
	if err != nil {
		return err
	}
	return w.arrive(t, info)
}

// arrive deals with a call that is about to be made.
func (w *owner) arrive(t *thread, info callInfo) error {
	c := lookup(info.nr())
	if c == nil {
		return w.engine.pass(t)
	}
	u, err := w.look(t, c, info)
	if errors.Is(err, errBlind) {
		err = w.bench.ask(report{Blind: c.name + ": " + err.Error()})
	}
	if err == nil && u == nil && w.rec != nil {
		return w.aside(t, c, info)
	}
	if err != nil || u == nil {
		return errors.Join(err, w.engine.pass(t))
	}
	if w.Free {
		return w.release(t, u)
	}
	w.hold(t, u)
	return nil
}

// release lets a thread make its call, with what is planned for it.
func (w *owner) release(t *thread, u *use) error {
	u.key = w.keys.next(t.proc.role, u.call.name, u.names)
	if w.plan.stepped {
		p := u.places[0]
		w.bench.step(faults.Step{Key: u.key, Op: p.op, Class: p.class, Path: p.path(), Call: u.call.name, Rivals: u.rivals})
	}
	ended, err := w.before(t, u)
	if err != nil || ended {
		return err
	}
	if err := w.drafted(t, u); err != nil {
		return err
	}
	return w.engine.perform(t, u)
}

// before carries out what is planned before a call.
func (w *owner) before(t *thread, u *use) (ended bool, err error) {
	for _, a := range w.plan.inj {
		if a.watch || a.When.After || a.Do.Orders() {
			continue
		}
		p, due := a.due(u)
		if !due {
			continue
		}
		switch {
		case a.Do.Short != nil:
			err = w.short(t, u, a, p)
		case a.Do.Errno != "":
			if faults.Errno(a.Do.Errno) == unix.EINTR {
				a.cut = &p
			}
			result := -int64(faults.Errno(a.Do.Errno))
			u.result = &result
			return false, w.fired(a, p, a.Do.Errno)
		default:
			ended, err = w.upset(a, p)
		}
		if err != nil || ended {
			return ended, err
		}
	}
	return false, nil
}

// short lets a write take fewer bytes than it has.
func (w *owner) short(t *thread, u *use, a *armed, p place) error {
	n := u.call.args.count
	if u.call.args.buf < 0 || n < 0 || u.info.arg(n) <= uint64(*a.Do.Short) {
		a.hits-- // there is nothing to cut: the next one may have it
		return nil
	}
	return errors.Join(w.fired(a, p, trace.EffectShort), setArg(t.tid, n, uint64(*a.Do.Short)))
}

// upset changes the tree, or ends the subject.
func (w *owner) upset(a *armed, p place) (ended bool, err error) {
	if a.Do.Glimpse {
		return false, w.bench.ask(report{Glimpse: &glimpse{a.ID, fmt.Sprintf("%s of %s", p.op, p.path())}})
	}
	if a.Do.Swap != nil {
		done, err := w.bench.swap(report{Swap: a.event(p, trace.EffectSwap, trace.Synthetic)})
		return false, errors.Join(err, w.swapped(done))
	}
	err = w.fired(a, p, trace.EffectCrash)
	if err == nil {
		err = w.bench.ask(report{Event: &trace.Event{Actor: trace.ActorFault, Crash: &trace.Crash{Model: trace.ProcessKill}}})
	}
	w.engine.kill()
	return true, err
}

// awaited reports whether the end of a call matters: to stop there costs as much as to
// stop before it.
func (w *owner) awaited(u *use) bool {
	return w.rec != nil || w.After || slices.ContainsFunc(w.plan.inj, func(a *armed) bool {
		return a.watch || a.cut != nil || a.When.After && (a.When.Step == "" || a.When.Step == u.key)
	})
}

// leave deals with the end of a call.
func (w *owner) leave(t *thread) error {
	u := t.use
	t.use = nil
	if u == nil {
		return resume(t.tid, 0)
	}
	info, err := getCall(t.tid)
	if err != nil {
		return err
	}
	if u.result != nil {
		return errors.Join(setResult(t.tid, *u.result), resume(t.tid, 0))
	}
	if err := w.made(u, info.result()); err != nil {
		return err
	}
	ended, err := w.after(t, u, info.result())
	if err != nil || ended {
		return err
	}
	return resume(t.tid, 0)
}

// after carries out what is planned after a call, and recognises what the kernel
// itself has refused as planned.
func (w *owner) after(t *thread, u *use, result int64) (ended bool, err error) {
	for _, a := range w.plan.inj {
		if result >= 0 && a.cut != nil && slices.Contains(u.places, *a.cut) {
			if err := w.fired(a, *a.cut, trace.EffectAgain); err != nil {
				return false, err
			}
			a.cut = nil
		}
		switch {
		case a.watch && a.full(u, result):
			return false, w.refused(a, u.places[0], trace.EffectShort)
		case a.watch && result < 0:
			if p, ok := a.foresaw(u, result); ok {
				return false, w.refused(a, p, a.Do.Errno)
			}
			continue
		case a.watch || !a.When.After || result < 0:
			continue
		}
		p, due := a.due(u)
		switch {
		case !due:
			continue
		case a.Do.Errno != "":
			if u.call.opens {
				w.orphans[descriptor(t.proc.pid, uint64(result))] = true
			}
			return false, errors.Join(w.fired(a, p, a.Do.Errno), setResult(t.tid, -int64(faults.Errno(a.Do.Errno))))
		}
		if ended, err = w.upset(a, p); err != nil || ended {
			return ended, err
		}
	}
	return false, nil
}

// foresaw returns what of a call was refused, if that is what the tree was prepared
// for. Preparation is coarser than a plan: it covers what is below the directory as
// well.
func (a *armed) foresaw(u *use, result int64) (place, bool) {
	for _, p := range u.places {
		changes := p.class == faults.Create || p.class == faults.Remove || p.class == faults.Modify
		if changes && a.below(p) && unix.Errno(-result) == faults.Errno(a.Do.Errno) {
			return p, true
		}
	}
	return place{}, false
}

// full reports whether a write took less than it was given, because there is no room
// or a file must not get any bigger: it is the first half of that refusal.
func (a *armed) full(u *use, result int64) bool {
	n := u.call.args.count
	return (a.Do.Errno == "EFBIG" || a.Do.Errno == "ENOSPC") && result >= 0 && u.call.args.buf >= 0 && n >= 0 && uint64(result) < u.info.arg(n) &&
		u.places[0].class == faults.Modify && a.below(u.places[0])
}

// below reports whether a place is in the directory that the plan names, or in one
// below it.
func (a *armed) below(p place) bool { return strings.HasPrefix(p.dir+"/", a.When.Under+"/") }

// refused notes what the kernel itself has done.
func (w *owner) refused(a *armed, p place, effect string) error {
	return w.bench.ask(report{Event: &trace.Event{Actor: trace.ActorFault, Fault: a.event(p, effect, trace.Kernel)}})
}

func (w *owner) fired(a *armed, p place, effect string) error {
	return w.bench.ask(report{Event: &trace.Event{Actor: trace.ActorFault, Fault: a.event(p, effect, trace.Synthetic)}})
}

func (a *armed) event(p place, effect string, by trace.Maker) *trace.Fired {
	op := p.op
	if op == "" {
		op = vfs.OpKind("other")
	}
	return &trace.Fired{
		Injection: a.ID, By: by, Op: string(op), Class: string(p.class), Path: p.path(), Effect: effect, After: a.When.After,
	}
}
