package explore

import (
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// Control is a subject that is known to be bad, and where it must be found so. An
// exploration that does not find it finds nothing else either.
type Control struct {
	Mutant string // its name in the zoo
	Bad    string // what it does
	Rule   spec.RuleID
	Ops    []string // of the step, by its port or as it is seen from outside
	Path   string   // of the entry that it is about
	Effect string
}

// Controls lists a subject that races and one that is dishonest. Both are explored on
// the first of Bases.
var Controls = []Control{
	{
		Mutant: "walks-again", Bad: "goes by names that it has checked before",
		Rule: "PR-005", Ops: []string{"open-root", "open-dir"}, Path: "ws/d", Effect: "entry becomes a link",
	},
	{
		Mutant: "ignores-dir-fsync", Bad: "says ok although a flush has failed",
		Rule: "AT-023", Ops: []string{"sync-dir"}, Path: "ws/d", Effect: "EIO",
	},
}

// At reports whether a step is the one at which c must be found bad.
func (c Control) At(s faults.Step) bool {
	return slices.Contains(c.Ops, string(s.Op)) && s.Path == c.Path
}

// Red returns the finding of m that c must have, if it has.
func (c Control) Red(m Map) (Finding, bool) {
	for _, f := range m.Findings {
		strikes := m.Points[f.Point].Strikes
		if f.Rule != c.Rule || len(strikes) != 1 {
			continue
		}
		s := strikes[0]
		if c.At(s.Step) && s.Effect.Name == c.Effect {
			return f, true
		}
	}
	return Finding{}, false
}

// String says what is expected of c.
func (c Control) String() string {
	return fmt.Sprintf("%s by %s at %s of %s", c.Rule, c.Effect, c.Ops[0], c.Path)
}
