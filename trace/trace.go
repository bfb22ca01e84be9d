// Package trace records what happened in one run of one scenario, in one order.
//
// A trace is the only input of the oracle: what is not in it did not happen. It
// knows nothing of how the events came about, so that a recorded trace can be
// judged again by a later model without the subject.
package trace

import (
	"sync"

	"github.com/fsbench/fsbench/spec"
)

// Actor says who an event is about.
type Actor string

// The actors.
const (
	ActorBench Actor = "bench" // what the bench did
	ActorSUT   Actor = "sut"   // what the system under test said
	ActorFault Actor = "fault" // what an injection did
	ActorWorld Actor = "world" // what the bench saw in the tree, through its own eyes
)

// Event is one line of a trace. Exactly one of the fields after Call is set.
type Event struct {
	Seq   uint64      `json:"seq"` // dense from 1
	Actor Actor       `json:"actor"`
	Call  spec.CallID `json:"call,omitempty"` // the call under way; 0 between calls

	Header  *Header        `json:"header,omitempty"` // the first event of every trace
	Invoke  *spec.Call     `json:"invoke,omitempty"`
	Fault   *Fired         `json:"fault,omitempty"`
	Edit    *spec.Edit     `json:"edit,omitempty"` // by the scenario, or by the swap fired just before
	Consult *Consult       `json:"consult,omitempty"`
	Diag    *Diag          `json:"diag,omitempty"`
	Wire    *WireFault     `json:"wire,omitempty"`
	Crash   *Crash         `json:"crash,omitempty"`
	Glimpse *Glimpse       `json:"glimpse,omitempty"`
	Left    *Left          `json:"left,omitempty"`
	Log     *spec.LogEntry `json:"log,omitempty"`
	World   spec.World     `json:"world,omitempty"` // after the edit or call that it follows
	Return  *spec.Outcome  `json:"return,omitempty"`
}

// Header says what the rest of the trace is about.
type Header struct {
	Format   int           `json:"format"` // of the trace; 1
	Scenario string        `json:"scenario"`
	Subject  string        `json:"subject"`
	Version  string        `json:"version,omitempty"`
	Sandbox  string        `json:"sandbox"`
	Root     string        `json:"root"` // absolute; the folder spec.Workspace of every World
	Policies spec.Policies `json:"policies,omitempty"`
	Claims   []string      `json:"claims,omitempty"` // roles and features that the subject claims
	Brokers  []spec.Broker `json:"brokers,omitempty"`
	Wire     bool          `json:"wire,omitempty"` // the subject was spoken to over the protocol

	Counted bool   `json:"counted,omitempty"` // what the subject leaves open in the tree is told
	Limits  string `json:"limits,omitempty"`  // of what stops the subject, where a better one could not
}

// Format is the version of the trace format that this package writes.
const Format = 1

// Maker says who made a fault.
type Maker string

// The makers.
const (
	Kernel    Maker = "kernel"    // the tree was prepared so that the kernel itself refused
	Synthetic Maker = "synthetic" // the bench answered in the kernel's place
)

// Fired records one injection taking effect.
type Fired struct {
	Injection string `json:"injection"` // its id in the plan
	By        Maker  `json:"by"`
	Op        string `json:"op"`    // the port operation
	Class     string `json:"class"` // what the operation does to the tree
	Path      string `json:"path"`  // of the entry, below the sandbox
	Effect    string `json:"effect"`
	After     bool   `json:"after,omitempty"` // the operation was performed first
}

// Glimpse is what a reader found who looked during a call.
type Glimpse struct {
	Injection string     `json:"injection"` // that had the reader look
	After     string     `json:"after"`     // the operation, and the entry that it was about
	World     spec.World `json:"world"`
}

// Left is what a call has left open in the tree.
type Left struct {
	Paths []string `json:"paths"` // as they are called now, if they have a name
}

// Effects of a fired injection that are not an errno.
const (
	EffectShort = "short"
	EffectSwap  = "swap"
	EffectCrash = "crash"
	EffectDelay = "delay" // others went first
	EffectAgain = "again" // what the injection had interrupted was tried once more, and is done
)

// Answer is what a handler said.
type Answer string

// The answers.
const (
	Landed   Answer = "landed"
	Declined Answer = "declined"
	Threw    Answer = "threw"
)

// Consult records one handler being asked. Exactly one request is set.
type Consult struct {
	Handler int                 `json:"handler"` // 1-based position in Header.Brokers
	Write   *spec.WriteRequest  `json:"write,omitempty"`
	Delete  *spec.DeleteRequest `json:"delete,omitempty"`
	Acted   bool                `json:"acted,omitempty"` // the handler changed the tree
	Answer  Answer              `json:"answer"`
}

// Diag is one structured diagnostic line of the SUT at warn level or above.
type Diag struct {
	Level string            `json:"level"`
	Msg   string            `json:"msg"`
	Attrs map[string]string `json:"attrs,omitempty"`
}

// WireFault is one departure from the protocol.
type WireFault struct {
	Kind string `json:"kind"`
	Line string `json:"line,omitempty"` // the first 200 bytes, escaped
	Note string `json:"note,omitempty"`
}

// Crash says that execution stopped during the call, and what survives: with
// model process-kill everything that reached the kernel.
type Crash struct {
	Model string `json:"model"`
}

// ProcessKill is the persistence model of a killed process.
const ProcessKill = "process-kill"

// Sink receives events. Emit sets Seq and is safe for concurrent use.
type Sink interface{ Emit(Event) }

// Recorder is a Sink that keeps events in memory.
type Recorder struct {
	mu     sync.Mutex
	events []Event
	call   spec.CallID
}

var _ Sink = (*Recorder)(nil)

// Emit implements Sink. An event emitted during a call is stamped with it.
func (r *Recorder) Emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Seq = uint64(len(r.events) + 1)
	if e.Invoke != nil {
		r.call = e.Invoke.ID
	}
	if e.Call == 0 {
		e.Call = r.call
	}
	if e.Return != nil {
		r.call = 0
	}
	r.events = append(r.events, e)
}

// Events returns a copy of what was recorded so far.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Event(nil), r.events...)
}
