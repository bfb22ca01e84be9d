package faults

import (
	"fmt"
	"path"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// Step is one operation that a subject made in the sandbox while a plan was in
// force. Its key names it in the next run of the same scenario too, as long as
// nothing before it went another way.
type Step struct {
	Key   string     `json:"key"`
	Op    vfs.OpKind `json:"op"`
	Class Class      `json:"class"`
	Path  string     `json:"path"`           // in the sandbox, as it was called in this run
	Call  string     `json:"call,omitempty"` // the system call, where one was seen

	// Rivals are the keys of steps that other threads of the subject wanted to make when
	// this one was let go: each could have come in its place.
	Rivals []string `json:"rivals,omitempty"`
}

// Touch is something outside the sandbox that a subject went for by name, whatever
// came of it.
type Touch struct {
	Path   string `json:"path"`             // absolute
	Writes bool   `json:"writes,omitempty"` // it wanted to change it
}

// The placeholders that edits of a swap may have in their paths: the entry that the
// struck operation is about, which may have a name that nobody can foresee, and the
// directory that holds it.
const (
	StepHere   = "{step}"
	StepParent = "{parent}"
)

// AtStep returns e with the placeholders of its paths filled in for an operation on
// the entry at.
func AtStep(e spec.Edit, at string) spec.Edit {
	fill := strings.NewReplacer(StepHere, at, StepParent, path.Dir(at)).Replace
	e.Path, e.To = fill(e.Path), fill(e.To)
	return e
}

// steps numbers the operations of a run and keeps them.
type steps struct {
	call spec.CallID    // under way; 0 before the first
	seen map[string]int // uses of a key so far, in the call
	list []Step
}

func (s *steps) begin(call spec.CallID) {
	s.call = call
	clear(s.seen)
}

// note takes in an operation. Its key is the call in which it is, what it is, on what,
// and the how-manieth of these it is.
func (s *steps) note(at place) Step {
	if s.seen == nil {
		s.seen = map[string]int{}
	}
	p := path.Join(at.dir, at.name)
	what := fmt.Sprintf("%d %s %s %s", s.call, at.op, at.class, p)
	s.seen[what]++
	step := Step{Key: fmt.Sprintf("%s %d", what, s.seen[what]), Op: at.op, Class: at.class, Path: p}
	s.list = append(s.list, step)
	return step
}

// Message is what a worker tells of a plan in force: an event, or a step that it is
// about to make.
type Message struct {
	trace.Event
	Step *Step `json:"step,omitempty"`
}
