package fsbench_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/vfs"
)

// TestExploreReference: the reference survives everything at every step of every call
// alone, and a good many pairs.
func TestExploreReference(t *testing.T) {
	arena := fsbench.Memory(&inproc.Driver{})
	points, struck, unknown := 0, 0, 0
	for _, b := range explore.Bases("") {
		m, err := fsbench.Explore(t.Context(), arena, b, explore.Options{Pairs: 1500})
		if err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
		for _, f := range m.Findings {
			t.Errorf("%s broken by %s\n got %s", f.Rule, f.Scenario.Title, f.Got)
		}
		if len(m.Steps) < 4 || m.Struck() < 80 {
			t.Errorf("%s: %d steps, %d points struck: want at least 4 and 80", b.Name, len(m.Steps), m.Struck())
		}
		groups := map[explore.Group]int{}
		for _, p := range m.Points {
			if len(p.Strikes) == 1 {
				groups[p.Strikes[0].Effect.Group]++
			}
		}
		for _, g := range explore.Groups {
			never := g == explore.Short && b.Name == "delete" || g == explore.Order // its calls have one thread
			if groups[g] == 0 && !never {
				t.Errorf("%s: no effect of the group %s", b.Name, g)
			}
		}
		points, struck, unknown = points+len(m.Points), struck+m.Struck(), unknown+m.Unknown()
	}
	// A hundred points of the reference hide from it what became of the call, and it
	// says so.
	if points < 6000 || struck*100 < points*95 || unknown < 100 {
		t.Errorf("%d points, %d struck, %d unknown: want at least 6000, 95 %%, and 100", points, struck, unknown)
	}
}

// TestControlsAreRed: the seeded bad subjects are found bad at the very step and by
// the very effect, and the reference is not.
func TestControlsAreRed(t *testing.T) {
	b := explore.Bases("")[0]
	good, err := fsbench.Explore(t.Context(), fsbench.Memory(&inproc.Driver{}), b, explore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range explore.Controls {
		mutant, err := mutants.ByName(c.Mutant)
		if err != nil {
			t.Fatal(err)
		}
		m, err := fsbench.Explore(t.Context(), fsbench.Memory(&inproc.Driver{Variant: mutant.Variant}), b, explore.Options{Replays: 3})
		if err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
		f, red := c.Red(m)
		if !red || f.Again != 3 {
			t.Errorf("%s: not found as %s (and again in %d of %d)", c.Mutant, c, f.Again, f.Of)
		}
		if _, red := c.Red(good); red {
			t.Errorf("%s: the reference is found so too", c)
		}
	}
}

// overwrite truncates the file of the first base and writes to it.
func overwrite(env sut.Env, content []byte) error {
	root, err := env.FS.OpenRoot(env.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	d, err := root.OpenDir("d")
	if err != nil {
		return err
	}
	defer d.Close()
	f, err := d.OpenFile("f", vfs.WriteOnly|vfs.Truncate, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Close())
}

// TestReadersBesideFaults: a subject that keeps the old file whole as long as nothing goes
// wrong, and writes in place when something does, is seen by those who look then.
func TestReadersBesideFaults(t *testing.T) {
	inPlace := func(next inproc.Do, env sut.Env) inproc.Do {
		return func(ctx context.Context, c spec.Call) spec.Outcome {
			out := next(ctx, c)
			if out.Err == spec.ErrIO && overwrite(env, c.Content) == nil {
				out = spec.Outcome{Call: c.ID, Status: spec.StatusOK, Version: "v"}
			}
			return out
		}
	}
	arena := fsbench.Memory(&inproc.Driver{Variant: inproc.Variant{Do: inPlace}})
	writes := func(s faults.Step) bool { return s.Op == "write" }
	for _, look := range []bool{false, true} {
		m, err := fsbench.Explore(t.Context(), arena, explore.Bases("")[0], explore.Options{Only: writes, Readers: look, Replays: 10})
		if err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
		seen := false
		for _, f := range m.Findings {
			if f.Rule != "AT-024" {
				continue
			}
			seen = true
			if name := m.Points[f.Point].Strikes[0].Effect.Name; !strings.HasPrefix(name, "EIO") || f.Again != 10 {
				t.Errorf("AT-024 by %s, and again in %d of 10: want it by EIO, each time", name, f.Again)
			}
		}
		if seen != look {
			t.Errorf("with readers %v, AT-024 is broken: %v", look, seen)
		}
		for _, p := range m.Points {
			if p.Verdict == explore.Inconclusive && strings.Contains(p.Why, "readers") {
				t.Errorf("%s is inconclusive since nobody looked", p)
			}
		}
	}
}
