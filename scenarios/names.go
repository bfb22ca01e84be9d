package scenarios

import (
	"maps"
	"slices"
	"strings"
)

// Names lists every name that the scenario speaks of, sorted: of the entries of its
// World, and of what its steps and swaps are about.
func (s Scenario) Names() []string {
	names := map[string]bool{}
	add := func(paths ...string) {
		for _, p := range paths {
			for name := range strings.SplitSeq(p, "/") {
				names[name] = true
			}
		}
	}
	for p, n := range s.Initial() {
		add(p, n.Link)
	}
	for _, st := range s.Steps {
		if st.Call != nil {
			add(st.Call.Path, st.Call.To)
		}
		if st.Edit != nil {
			add(st.Edit.Path, st.Edit.To)
		}
	}
	for _, in := range s.Faults.Injections {
		for _, e := range in.Do.Swap {
			add(e.Path, e.To)
		}
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
