// Package mutants holds wrong implementations: each is the reference but for one
// behaviour, and breaks one rule by it. A rule that no mutant breaks, or whose
// mutant nobody catches, is not checked at all.
//
// The package knows what each mutant does and which rule it is to break. It does
// not know how rules are checked.
package mutants

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut/inproc"
)

// Mutant is the reference with one behaviour changed.
type Mutant struct {
	Name   string
	Rule   spec.RuleID // that it breaks
	Breaks string      // what it does, in one line

	Variant inproc.Variant

	// Tamper stands between the protocol server and its output; nil leaves it alone.
	Tamper func(io.Writer) io.Writer
}

// All lists the mutants, in the order of the rules that they break.
var All = func() []Mutant {
	all := slices.Concat(atomicity, durability, fallbacks, outcomes, paths, protocol)
	slices.SortStableFunc(all, func(a, b Mutant) int { return strings.Compare(string(a.Rule), string(b.Rule)) })
	for i := range all {
		all[i].Variant.Name = "mutant:" + all[i].Name
	}
	return all
}()

// ByName returns a mutant, or an error that lists those that exist.
func ByName(name string) (Mutant, error) {
	names := make([]string, len(All))
	for i, m := range All {
		if m.Name == name {
			return m, nil
		}
		names[i] = m.Name
	}
	return Mutant{}, fmt.Errorf("mutant %q: want one of %s", name, strings.Join(names, ", "))
}

// ByRule returns the names of the mutants that break each rule.
func ByRule() map[spec.RuleID][]string {
	out := map[spec.RuleID][]string{}
	for _, m := range All {
		out[m.Rule] = append(out[m.Rule], m.Name)
	}
	return out
}
