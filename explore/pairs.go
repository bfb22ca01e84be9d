package explore

import (
	"slices"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
)

// pairs returns points of two effects: a first one that was tried alone, and struck,
// and a second one at a step that the subject made after it, which may be one that it
// only makes when something has gone wrong. Where there are more than Options.Pairs,
// they are thinned out evenly, and how many are left is kept.
func (x *exploration) pairs(singles []Point, traces [][]faults.Step) []Point {
	var out []Point
	for i := range singles {
		done := x.m.Points[1+i]
		if done.Verdict != Pass || !leads(done.Strikes[0].Effect) {
			continue
		}
		first := done.Strikes[0]
		at := slices.IndexFunc(traces[i], func(s faults.Step) bool { return s.Key == first.Step.Key })
		if at < 0 {
			continue
		}
		for _, s := range traces[i][at+1:] {
			if checkStep(s) != nil {
				continue
			}
			for _, e := range followers(x.m.Base, s, x.usual(s)) {
				out = append(out, Point{Strikes: []Strike{first, {s, e}}})
			}
		}
	}
	if n := x.opt.Pairs; len(out) > n {
		x.m.Left = len(out) - n
		thin := make([]Point, n)
		for i := range thin {
			thin[i] = out[i*len(out)/n]
		}
		out = thin
	}
	return out
}

// usual reports whether the subject makes a step when nobody disturbs it, too.
func (x *exploration) usual(s faults.Step) bool {
	return slices.ContainsFunc(x.m.Steps, func(u faults.Step) bool { return u.Key == s.Key })
}

// leads reports whether a second effect after e can tell more than e alone: nothing
// follows a crash, and of the errnos one that is a denial, one that is none and one
// that hides something stand for the others.
func leads(e Effect) bool {
	switch e.Group {
	case Crash:
		return false
	case Errno:
		return e.Do.Errno == "EACCES" || e.Do.Errno == "ENOSPC" || e.Do.Errno == "EIO"
	case After:
		return e.Do.Errno == "EIO"
	case Look, Order, Denial:
		return false // somebody who only looks changes nothing for what follows; orders have pairs of their own
	case Short, Swap:
	}
	return true
}

// followers returns the effects that come second: a failure, a failure that is none, a
// crash; and an adversary at a step that only an upset brings about, as clean-up is:
// the other steps have met every adversary alone.
func followers(base scenarios.Scenario, s faults.Step, usual bool) []Effect {
	return slices.DeleteFunc(Effects(base, s), func(e Effect) bool {
		switch e.Group {
		case Errno, After:
			return e.Do.Errno != "EIO" && (e.Group == After || e.Do.Errno != "EACCES")
		case Crash:
			return e.After
		case Short:
			return false
		case Swap, Look:
			return usual
		case Order, Denial:
		}
		return true
	})
}
