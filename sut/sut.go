// Package sut defines how the bench drives a system under test.
//
// Each adaptor is a sub-package that imports this one; nothing here knows which
// adaptors exist, what a scenario is, or how a run is judged.
package sut

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// ErrPolicy is wrapped by Open when the SUT cannot be opened with a policy that
// the scenario needs. It makes a skip, not a failure.
var ErrPolicy = errors.New("the subject does not offer this policy")

// Driver drives one implementation: the in-process reference, a broker spoken
// to over stdio, a server behind an adaptor.
//
// Errors returned by Driver and Session mean that the bench could not do its
// work, and make the run broken. A refusal by the SUT, its crash and its
// silence are not errors: they are Outcomes.
type Driver interface {
	// Info identifies the SUT. It does not change over the Driver's life.
	Info(ctx context.Context) (Info, error)

	// Open starts a session in a fresh sandbox.
	Open(ctx context.Context, env Env) (Session, error)

	// Close stops the SUT and waits for it.
	Close() error
}

// Session is one sandbox and one conversation with the SUT.
type Session interface {
	// Do performs a call and waits. If ctx ends or the SUT dies first, the
	// outcome has StatusUnknown and the error is nil: not knowing is an
	// observation. The bench never repeats a call by itself.
	Do(ctx context.Context, c spec.Call) (spec.Outcome, error)

	// Log returns the entries of the session Log written since the last Log, and
	// whether the SUT exposes a Log at all.
	Log(ctx context.Context, s spec.SessionID) (entries []spec.LogEntry, ok bool, err error)

	// Confession returns the SUT's own account, or ok false if it has none.
	Confession(ctx context.Context, s spec.SessionID) (c spec.Confession, ok bool, err error)

	Close() error
}

// Lasting is a Session whose process can serve another run in the same root. In
// between the root is emptied and filled again behind its back.
type Lasting interface {
	Session

	// Rest ends what the process does for the run, and Again makes the session as
	// new. They fail where the process cannot, and never start another.
	Rest(ctx context.Context) error
	Again(ctx context.Context) error
}

// Env is what a session runs in.
type Env struct {
	Root     string        // absolute; the only tree that the session may touch
	FS       vfs.FS        // faulty view of the tree for a SUT that takes one; nil otherwise
	Policies spec.Policies // the choices that the scenario needs; others are the SUT's

	// Handlers are registered in order. They may be called from any goroutine.
	Handlers []Handler

	// Wrap puts a child process into the sandbox before it starts; nil in process.
	Wrap func(*exec.Cmd) error

	// Lasting says that there will be other runs in this root, which its process may
	// serve too; see Reuse.
	Lasting bool

	// Worker arms a fault plan inside the reference's own child; nil for others.
	Worker *Worker

	// Diag receives the SUT's diagnostics at warn level and above, and WireFault
	// its departures from the protocol. Both may be nil, and may be called from
	// any goroutine until the session is closed.
	Diag      func(level, msg string, attrs map[string]string)
	WireFault func(kind, line, note string)
}

// Handler is one fallback handler that the bench supplies. The function of the
// other seam is nil. A handler that returns true has done exactly what was asked.
type Handler struct {
	Seam   spec.Seam
	Write  func(ctx context.Context, r spec.WriteRequest) (landed bool, err error)
	Delete func(ctx context.Context, r spec.DeleteRequest) (landed bool, err error)
}

// Worker is what the reference's child needs to meet the faults of a plan. The
// plan and the events are the sandbox's business; adaptors carry them.
type Worker struct {
	Plan json.RawMessage

	// Event receives one trace event, before its effect can be seen.
	Event func(json.RawMessage) error

	// Edit changes the tree as an adversary would. It is not done if the adversary
	// came too early or too late: nothing to act on, or the place taken.
	Edit func(spec.Edit) (done bool, err error)
}

// Role is a part of the contract that a SUT claims to play. Rules name the
// roles they bind; a rule for an unclaimed role is skipped, not failed.
type Role string

// The roles.
const (
	RoleTools     Role = "tools"     // the file tools
	RoleRegistry  Role = "registry"  // fallback dispatch
	RoleBroker    Role = "broker"    // performs one denied primitive
	RoleConfessor Role = "confessor" // folds a Log
	RoleHost      Role = "host"      // runs Turns and writes their Log
)

// Roles lists every Role.
var Roles = []Role{RoleTools, RoleRegistry, RoleBroker, RoleConfessor, RoleHost}

// Info identifies a SUT and says what it claims.
type Info struct {
	Name     string
	Version  string
	Roles    []Role
	Features []string      // call kinds and optional features
	Policies spec.Policies // declared; Open refuses a different value unless it is in Settable
	Settable []string      // policies that Env.Policies may choose
	Wire     bool          // it is spoken to over the protocol
}
