package explore

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

// The entries that every base has outside the workspace: a folder, and in it a file
// that nobody may touch.
const (
	outside = "out"
	canary  = "out/c"
)

// What an adversary writes who wants not to be noticed: as many bytes as the bases
// begin with, and their date.
const (
	oddBytes = "odd bytes"
	oldMtime = 1700000000 // seconds
)

// baseTexts are the calls that are explored, one each, in a world as small as it gets.
// A read comes before one that expects what it returned.
var baseTexts = []struct {
	name string
	kind spec.CallKind
	text string
}{
	{"write", spec.CallWrite, `title: a write over a file
rules: AT-001 AT-002 AT-007 PR-005
-- world --
out dir
out/c file content=canary
ws/d dir
ws/d/f file mode=0640 mtime=1700000000 content="old bytes"
-- steps --
1 write d/f content="the new bytes"
`},
	{"write-seen", spec.CallWrite, `title: a write over a file that was read before
rules: AT-009 AT-010 AT-011 PR-005
-- world --
out dir
out/c file content=canary
ws/d dir
ws/d/f file mode=0640 mtime=1700000000 content="old bytes"
-- steps --
1 read d/f
2 write d/f content="the new bytes" expect=@1
`},
	{"write-new", spec.CallWrite, `title: a write of a new file below a missing parent
rules: AT-001 AT-007 PR-005
-- world --
out dir
out/c file content=canary
ws/d dir
-- steps --
1 write d/n/f content="the new bytes"
`},
	{"delete", spec.CallDelete, `title: a delete
rules: OC-007 PR-005
-- world --
out dir
out/c file content=canary
ws/d dir
ws/d/f file mode=0640 mtime=1700000000 content="old bytes"
ws/d/g file content=neighbour
-- steps --
1 delete d/f
`},
	{"move", spec.CallMove, `title: a move to another folder
rules: AT-017 FB-023 FB-024 PR-005
-- world --
out dir
out/c file content=canary
ws/d dir
ws/d/f file mode=0640 mtime=1700000000 content="old bytes"
ws/e dir
-- steps --
1 move d/f to=e/g
`},
}

// Kinds lists the kinds of call that there is a base for.
func Kinds() []spec.CallKind {
	var out []spec.CallKind
	for _, b := range baseTexts {
		if !slices.Contains(out, b.kind) {
			out = append(out, b.kind)
		}
	}
	return out
}

// Bases returns the scenarios whose call is explored: one call, and nothing that goes
// wrong. An empty kind means all.
func Bases(kind spec.CallKind) []scenarios.Scenario {
	var out []scenarios.Scenario
	for _, b := range baseTexts {
		if kind != "" && b.kind != kind {
			continue
		}
		s, err := scenarios.Parse(b.name, b.name, []byte(b.text))
		if err != nil {
			panic("explore: a base cannot be read: " + err.Error())
		}
		out = append(out, s)
	}
	return out
}

// aim is an entry that the call of a base is about.
type aim struct {
	role string // "target"; of a move also "source"
	path string // in the World
}

// callOf returns the call that base is about, its last.
func callOf(base scenarios.Scenario) spec.Call {
	calls := base.Calls()
	return calls[len(calls)-1]
}

// aims returns what the call of a base, its last, is about. Only plain paths make
// sense there.
func aims(base scenarios.Scenario) []aim {
	c := callOf(base)
	if c.Kind == spec.CallMove {
		return []aim{{"source", spec.Workspace + "/" + c.Path}, {"target", spec.Workspace + "/" + c.To}}
	}
	return []aim{{"target", spec.Workspace + "/" + c.Path}}
}

func inside(p string) bool { return strings.HasPrefix(p, spec.Workspace+"/") }

// readers is the injection of those who look after every operation.
const readers = "readers"

// point returns the scenario of one point of base: what strikes, and where.
func point(base scenarios.Scenario, p Point) scenarios.Scenario {
	s := clone(base)
	s.Name = fmt.Sprintf("explore-%s-%03d", base.Name, p.Number)
	if p.Watched {
		// It comes first: what was performed is seen before it is said to have failed.
		s.Faults.Injections = append(s.Faults.Injections, faults.Injection{
			ID: readers, When: faults.When{After: true}, Do: faults.Effect{Glimpse: true},
		})
	}
	for i, st := range p.Strikes {
		s.Faults.Injections = append(s.Faults.Injections, st.injection(i))
		join := ": "
		if i > 0 {
			join = "; "
		}
		s.Title += join + st.String()
	}
	return s
}
