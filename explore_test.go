package fsbench_test

import (
	"testing"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/sut/inproc"
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
