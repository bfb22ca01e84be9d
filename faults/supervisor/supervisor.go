// Package supervisor makes a fault plan happen around an unmodified foreign
// process: before or after its k-th operation in the sandbox it meets an errno, a
// changed tree, its own end, or a write that was cut short.
//
// A process of this very program owns the subject: it starts it under a filter that
// stops every system call which takes a path, or a descriptor for changing
// something, and looks at the call before the kernel does (ptrace). Nothing is
// resumed before the bench has taken in what struck. When the owner ends, whatever
// it owned ends with it.
//
// The package knows neither the subject nor the sandbox; it is told where the tree
// is, and who carries out an adversary's edits.
package supervisor

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// ErrCannot is wrapped where this system, or this build, has no way to supervise a
// process.
var ErrCannot = errors.New("no process can be supervised here")

// Engine is a way to stop a subject at its steps.
type Engine string

// The engines.
const (
	Ptrace Engine = "ptrace" // stops it before and after each; what a step came to is seen, and can be changed
	Notify Engine = "notify" // has the kernel ask before each; see Limits
)

// Engines lists every Engine, the better ones first.
var Engines = []Engine{Ptrace, Notify}

// Limits says what an engine cannot do; empty if it can do everything.
func (e Engine) Limits() string {
	if e == Notify {
		return "no results, EINTR possible"
	}
	return ""
}

// check reports what is asked for that an engine cannot do. Left undone it would look
// like something that the subject has survived.
func (o Options) check() error {
	if err := o.Plan.Check(); err != nil {
		return fmt.Errorf("arm: %w", err)
	}
	if o.Engine != Notify {
		return nil
	}
	cannot := func(what string) error {
		return fmt.Errorf("%w: the engine notify sees no results: %s", ErrCannot, what)
	}
	if o.Record || o.After != nil {
		return cannot("nothing that the subject does can be recorded")
	}
	for _, in := range o.Plan.Injections {
		switch {
		case in.When.After:
			return cannot("injection " + in.ID + " comes after a step")
		case in.Do.Short != nil:
			return cannot("injection " + in.ID + " cuts a write short")
		case in.Do.Errno == "EINTR":
			return cannot("whether the call is made again after injection " + in.ID + " is not known")
		case slices.Contains(o.Watch, in.ID):
			return cannot("whether the kernel refuses " + in.ID + " is not known")
		}
	}
	return nil
}

// Options says what is to happen, and where.
type Options struct {
	Engine Engine // Ptrace if empty

	Base string // absolute path of the sandbox's tree, free of links
	Plan faults.Plan
	Sink trace.Sink

	// Watch names injections that the tree was prepared for, so that the kernel
	// itself refuses. They are not injected; a call that fails as planned is recorded
	// as theirs.
	Watch []string

	// Free lets the subject's threads run as they like. Otherwise they take their
	// steps in the sandbox one after the other, in the same order in every run.
	Free bool

	// Record asks for what the subject does to the tree. In a free run calls may
	// overlap, and the record says where it lost their order.
	Record bool

	// After is called after every call in the sandbox that is not only a look, with the
	// key of the step, while the subject is held: in a free run only the thread that made
	// it. What the call did is on record by then.
	After func(key string)

	// Look reads the tree for a glimpse, past every permission.
	Look func() (spec.World, error)

	// Crowd, if it is not nil, is set when a serial run has had several threads wait for
	// their steps at a time. Runs that begin after that take care from their first step
	// on: a thread that is not there yet may be one that only had no time so far.
	Crowd *atomic.Bool

	// Hands carries out the edits of a swap, past every permission.
	Hands func(spec.Edit) (done bool, err error)
}

// What the owner and its shim are called as. No user types them.
const (
	ownerName  = "fsbench-owner"
	shimName   = "fsbench-shim"
	keeperName = "fsbench-keeper" // between the two, where nobody may trace
	probeName  = "fsbench-probe"  // a subject that makes one step
)

// exitOwner is how an owner or a shim ends that could not start its subject.
const exitOwner = 125

// order is what an owner is told.
type order struct {
	Engine Engine

	Path string
	Argv []string
	Base string
	Plan faults.Plan
	Call spec.CallID // under way as the subject is started

	Crowd bool

	Free  bool
	Watch []string // injections that the tree was prepared for

	Record bool
	After  bool // the bench wants to look after every step
}

func (o order) argv(name string) ([]string, error) {
	var raw bytes.Buffer
	if err := gob.NewEncoder(&raw).Encode(o); err != nil {
		return nil, fmt.Errorf("describe the subject: %w", err)
	}
	return []string{name, base64.StdEncoding.EncodeToString(raw.Bytes())}, nil
}

func parseOrder(text string) (o order, err error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(raw)).Decode(&o)
	}
	if err != nil {
		return o, fmt.Errorf("read order: %w", err)
	}
	return o, nil
}

// report is one line of an owner. All but steps, touches and notes wait for an answer:
// what struck is on record before the subject can show it.
type report struct {
	Hello bool          `json:"hello,omitempty"`
	Steps []faults.Step `json:"steps,omitempty"`
	Event *trace.Event  `json:"event,omitempty"`
	Swap  *trace.Fired  `json:"swap,omitempty"` // the edits of the injection are due
	Blind string        `json:"blind,omitempty"`

	Glimpse *glimpse `json:"glimpse,omitempty"` // somebody is to look

	Touch *faults.Touch `json:"touch,omitempty"`
	Crowd bool          `json:"crowd,omitempty"` // several threads wait at a time
	Armed bool          `json:"armed,omitempty"` // what the bench armed is in force
	Left  []string      `json:"left,omitempty"`  // with Armed
	Note  *note         `json:"note,omitempty"`
	After string        `json:"after,omitempty"` // key of a step that was made
}

// silent reports whether no answer is waited for.
func (r report) silent() bool { return r.Steps != nil || r.Note != nil || r.Touch != nil || r.Crowd }

// note is what a recorder has to tell. A start begins another record.
type note struct {
	Start     []faults.Held     `json:"start,omitempty"`
	UID       uint32            `json:"uid,omitempty"`
	Mutations []faults.Mutation `json:"mutations,omitempty"`
	Gaps      []faults.Gap      `json:"gaps,omitempty"`
	End       bool              `json:"end,omitempty"` // nothing more is to come
}

func (n *note) empty() bool { return !n.End && len(n.Start)+len(n.Mutations)+len(n.Gaps) == 0 }

// answer says that a report was taken in, and of a swap, whether anything changed.
// Or it is no answer, and
// brings another plan or call.
type answer struct {
	Done bool    `json:"done,omitempty"`
	Arm  *arming `json:"arm,omitempty"`
}

// arming is what changes from run to run, or only from call to call.
type arming struct {
	Plan  faults.Plan `json:"plan"`
	Watch []string    `json:"watch,omitempty"`
	Crowd bool        `json:"crowd,omitempty"`
	Call  spec.CallID `json:"call,omitempty"` // it begins, under the plan that there is
	Left  bool        `json:"left,omitempty"` // nothing changes; what the call has left open is asked for
	Told  bool        `json:"told,omitempty"` // nothing changes; all that was done is asked for
}

// glimpse is one of an injection, and after what it comes.
type glimpse struct {
	Injection string `json:"injection"`
	After     string `json:"after"`
}
