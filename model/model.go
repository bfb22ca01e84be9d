// Package model is the oracle: it reads a trace and says which rules it breaks.
//
// It knows the contract and the trace, and nothing else: not the reference, not
// the port, not the faults that were planned, only those that struck. What the
// reference also has to know (which errno is a denial, where a path leads, what
// permission bits grant) is stated here a second time on purpose. An oracle that
// shared code with what it judges would agree with its bugs.
//
// Assumptions, and so blind spots: the subject runs as an ordinary user that is
// in no group of the tree; the bench saw the whole tree before and after every
// call, unless an observation is missing from the trace; nobody but the subject,
// the recorded brokers and the recorded edits changes the tree.
package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// State is one way that the sandbox may be. States are values: nothing here
// changes a State that it was given.
type State struct {
	World spec.World
}

// Branch is one behaviour that the contract allows next.
type Branch struct {
	Status spec.Status
	Errs   []spec.ErrKind // when Status is StatusFailed: any of these; empty means any at all
	Next   State

	// Content is what a successful read must return, if HasContent.
	Content    spec.Content
	HasContent bool

	// Rule is broken by a subject that answers so and leaves another tree; Must by
	// one that answers otherwise although nothing else is allowed.
	Rule, Must spec.RuleID

	// Spare are paths that may be there or not: directories made on the way.
	Spare []string

	// Torn are files that may hold any bytes: a subject that declares to write in
	// place was interrupted in them.
	Torn []string

	// Litter is set where a private file may be left beside the target: a crash,
	// or a fault that struck the clean-up itself.
	Litter bool

	// Loose is set where so much struck in one call (an adversary and a crash, an
	// adversary who took away what the call had made) that any tree may follow
	// inside the workspace. Outside it nothing may change all the same.
	Loose bool

	seen int // edits of the exchange that Next already holds
}

// Model enumerates allowed behaviour. It does not look at what happened: the
// engine does the matching, so that a finding can always list what was allowed.
type Model interface {
	// Init returns the state of an observed World.
	Init(w spec.World) State

	// Branches returns everything that may happen in the exchange x when it starts
	// in s. It is pure and its order is stable.
	Branches(s State, x *Exchange) []Branch
}

// Finding is one broken rule and the evidence for it.
type Finding struct {
	Rule spec.RuleID `json:"rule"`
	Call spec.CallID `json:"call"`
	Got  string      `json:"got"`
	Want []string    `json:"want"` // every allowed behaviour
	Seq  []uint64    `json:"seq"`  // the events that show it
}

// Check is an obligation about one exchange beyond its answer and its tree. It
// reports whether it applied: a rule that never applied was not kept.
type Check struct {
	Rule spec.RuleID
	Run  func(x *Exchange) (applied bool, broken []Finding)
}

// Exchange is one call with everything that happened in it.
type Exchange struct {
	Header   *trace.Header
	Call     spec.Call
	Fired    []trace.Fired
	Edits    []Swapped
	Consults []trace.Consult
	Diags    []trace.Diag
	Wire     []trace.WireFault
	Log      []spec.LogEntry
	Crashed  bool
	Glimpses []trace.Glimpse // what readers found during it
	Left     []string        // what it has left open
	Before   spec.World      // nil if it was not observed
	After    spec.World      // likewise
	Out      spec.Outcome
	Expect   Expectation
	Seq      []uint64 // of the call, of the last observation and of the answer

	trees []spec.World // Before, and what each edit then made of it
	known versions     // what the subject had called versions when the call began
}

// claims reports whether the subject claims a role or a feature.
func (x *Exchange) claims(what string) bool { return slices.Contains(x.Header.Claims, what) }

// policy returns what the subject declares, empty if it declares nothing.
func (x *Exchange) policy(name string) string { return x.Header.Policies[name] }

// versioned reports whether the call states an expectation that binds the subject.
func (x *Exchange) versioned() bool {
	return x.Call.ExpectVersion != "" && x.claims("expect_version")
}

// mustCreate reports whether the call may only make a new file.
func (x *Exchange) mustCreate() bool {
	return x.Call.Kind == spec.CallMove || x.versioned() && x.Call.ExpectVersion == spec.VersionAbsent
}

// Swapped is an edit by an adversary during a call, and the operation at which
// the adversary struck.
type Swapped struct {
	Edit spec.Edit
	At   trace.Fired
}

// Expectation says what a call's ExpectVersion means for its target as it stood
// before the call.
type Expectation uint8

// The meanings.
const (
	NoExpectation Expectation = iota
	ExpectCurrent             // the version is that of what is there
	ExpectStale               // it is not
	ExpectUnclear             // same bytes, but the file may be another one since
)

// String renders b for findings: the answer, then what the tree is to hold.
func (b Branch) String() string {
	var sb strings.Builder
	sb.WriteString(b.Status.String())
	if b.Status == spec.StatusFailed && len(b.Errs) == 0 {
		sb.WriteString(" with any error")
	}
	for i, e := range b.Errs {
		if i > 0 {
			sb.WriteString(" or")
		}
		sb.WriteString(" " + string(e))
	}
	if b.HasContent {
		fmt.Fprintf(&sb, " %s", quote(b.Content))
	}
	if b.Loose {
		return sb.String() + ", nothing changed outside the workspace"
	}
	sb.WriteString(", tree:" + describe(b.Next.World))
	for _, p := range b.Torn {
		sb.WriteString(", any bytes in " + p)
	}
	return sb.String()
}

// gotString renders what was seen, in the form of Branch.String.
func gotString(x *Exchange) string {
	var sb strings.Builder
	sb.WriteString(x.Out.Status.String())
	if x.Out.Err != "" {
		sb.WriteString(" " + string(x.Out.Err))
	}
	if x.Call.Kind == spec.CallRead && x.Out.Status == spec.StatusOK {
		fmt.Fprintf(&sb, " %s", quote(x.Out.Content))
	}
	if x.After != nil {
		sb.WriteString(", tree:" + describe(x.After))
	}
	return sb.String()
}

// describe lists the files and links of a tree; directories only where empty.
func describe(w spec.World) string {
	var sb strings.Builder
	paths := w.Paths()
	for _, p := range paths {
		if private(p) {
			continue
		}
		switch n := w[p]; n.Type {
		case spec.TypeFile:
			fmt.Fprintf(&sb, " %s=%s", p, quote(n.Content))
		case spec.TypeLink:
			fmt.Fprintf(&sb, " %s->%s", p, n.Link)
		case spec.TypeDir:
			if !slices.ContainsFunc(paths, func(q string) bool { return strings.HasPrefix(q, p+"/") }) {
				fmt.Fprintf(&sb, " %s/", p)
			}
		case spec.TypeFIFO, spec.TypeOther, spec.TypeHidden:
			fmt.Fprintf(&sb, " %s(%s)", p, n.Type)
		}
	}
	return sb.String()
}

// quote shortens what would not fit on a line.
func quote(c spec.Content) string {
	const most = 48
	s := c.String()
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q+%d bytes", s[:most], len(s)-most)
}

// private reports whether p belongs to the host and not to the workspace.
func private(p string) bool {
	const state = spec.Workspace + "/" + spec.StateDir
	return p == state || strings.HasPrefix(p, state+"/")
}
