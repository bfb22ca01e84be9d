// Package sandboxtest judges sandboxes: whether what the bench builds, changes and
// sees in one is what it means to.
//
// A sandbox that shows a tree other than it is, or does an edit in a way of its
// own, makes every verdict reached in it worthless, and no rule can tell. The
// checks return errors, joined, so that they can be run where no test is. They
// know nothing of how a sandbox is made.
package sandboxtest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// RoundTrip builds w in box and returns how what is then observed differs from it.
// It fails with an error matching sandbox.ErrCannot where w cannot be built.
func RoundTrip(box sandbox.Sandbox, w spec.World) error {
	if err := box.Build(w); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	got, err := box.Observe()
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	return Diff(Observed(w, box.Root()), got)
}

// Observed returns what is to be seen of w once it was built below root.
func Observed(w spec.World, root string) spec.World {
	names := map[string]int{}
	for _, n := range w {
		names[n.Hard]++
	}
	out := spec.World{}
	for p, n := range w {
		if hard := n.Hard; hard != "" {
			n = w[hard]
			n.Hard = hard
		} else if further := names[p]; further > 0 {
			n.Nlink = 1 + further
		}
		n.Mtime, n.Link = 0, strings.ReplaceAll(n.Link, "{root}", root)
		out[p] = n
	}
	return out
}

// Diff returns how got differs from want.
func Diff(want, got spec.World) error {
	paths := slices.Sorted(maps.Keys(want))
	for p := range got {
		if _, both := want[p]; !both {
			paths = append(paths, p)
		}
	}
	slices.Sort(paths)
	var errs []error
	for _, p := range paths {
		a, expected := want[p]
		b, there := got[p]
		switch {
		case !there:
			errs = append(errs, fmt.Errorf("%q is missing: want %s", p, node(a)))
		case !expected:
			errs = append(errs, fmt.Errorf("%q is there: %s", p, node(b)))
		case !alike(a, b):
			errs = append(errs, fmt.Errorf("%q is %s, want %s", p, node(b), node(a)))
		}
	}
	return errors.Join(errs...)
}

func alike(a, b spec.Node) bool {
	same := bytes.Equal(a.Content, b.Content) && len(a.Xattrs) == len(b.Xattrs)
	for name, value := range a.Xattrs {
		other, there := b.Xattrs[name]
		same = same && there && bytes.Equal(value, other)
	}
	a.Content, b.Content, a.Xattrs, b.Xattrs = nil, nil, nil, nil
	return same && reflect.DeepEqual(a, b)
}

// node renders n shortly.
func node(n spec.Node) string {
	if len(n.Content) > 40 {
		n.Content = slices.Concat(n.Content[:40], fmt.Appendf(nil, "+%d bytes", len(n.Content)-40))
	}
	return strings.ReplaceAll(fmt.Sprintf("%+v", n), " map[]", "")
}

// do carries out one step.
func do(box sandbox.Sandbox, s Step) error {
	switch {
	case s.Edit != nil:
		return box.Edit(*s.Edit)
	case s.Land != nil:
		r := *s.Land
		r.Dst = box.Root() + "/" + r.Dst
		return box.Land(r)
	}
	r := *s.Unlink
	r.Dst = box.Root() + "/" + r.Dst
	return box.Unlink(r)
}

// outcome is what of an error makes a difference to a run: whether there was one,
// and whether it says that nothing was there to be done.
func outcome(err error) string {
	switch {
	case err == nil:
		return "done"
	case sandbox.Missed(err):
		return "missed"
	}
	return "failed"
}

// Agree builds w in two sandboxes, takes every step in both, and returns the first
// difference in what they answer or in what is then seen. It fails with an error
// matching sandbox.ErrCannot where one of them cannot build w.
func Agree(a, b sandbox.Sandbox, w spec.World, steps []Step) error {
	for _, box := range []sandbox.Sandbox{a, b} {
		if err := RoundTrip(box, w); err != nil {
			return fmt.Errorf("%s: %w", box.Name(), err)
		}
	}
	for i, s := range steps {
		if e := s.Edit; e != nil && e.Op == spec.EditHardlink {
			// Which of a file's names is mounted on is more than a World can tell apart
			// where the names came later.
			if seen, err := a.Observe(); err != nil || seen[e.To].Mount != "" {
				continue
			}
		}
		errA, errB := do(a, s), do(b, s)
		if outcome(errA) != outcome(errB) {
			return fmt.Errorf("step %d, %s: in %s %s, in %s %s: %w", i+1, s, a.Name(), outcome(errA), b.Name(), outcome(errB), errors.Join(errA, errB))
		}
		if err := sameTree(a, b); err != nil {
			return fmt.Errorf("step %d, %s (%s): %w", i+1, s, outcome(errA), err)
		}
	}
	return nil
}

func sameTree(a, b sandbox.Sandbox) error {
	seenA, err := a.Observe()
	if err != nil {
		return fmt.Errorf("%s: %w", a.Name(), err)
	}
	seenB, err := b.Observe()
	if err != nil {
		return fmt.Errorf("%s: %w", b.Name(), err)
	}
	for p, n := range seenA {
		n.Link = strings.ReplaceAll(n.Link, a.Root(), b.Root())
		seenA[p] = n
	}
	if err := Diff(seenA, seenB); err != nil {
		return fmt.Errorf("%s differs from %s: %w", b.Name(), a.Name(), err)
	}
	return nil
}
