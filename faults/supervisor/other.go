//go:build !linux || !(amd64 || arm64)

package supervisor

import (
	"os/exec"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Files is the number of descriptors that a wrapped command needs.
const Files = 0

// Supervisor cannot be made on this system.
type Supervisor struct{}

// New says that.
func New(Options) (*Supervisor, error) { return nil, ErrCannot }

// Probe says that too.
func Probe(Engine, string, func(*exec.Cmd) error) error { return ErrCannot }

// Wrap is never called.
func (*Supervisor) Wrap(*exec.Cmd) error { return ErrCannot }

// Steps lists nothing.
func (*Supervisor) Steps() []faults.Step { return nil }

// Records lists nothing.
func (*Supervisor) Records() []faults.Record { return nil }

// Unfired lists nothing.
func (*Supervisor) Unfired() []string { return nil }

// Crashed is false.
func (*Supervisor) Crashed() bool { return false }

// Revive does nothing.
func (*Supervisor) Revive() {}

// Rearm is never called.
func (*Supervisor) Rearm(faults.Plan, []string, trace.Sink) error { return ErrCannot }

// Begin does nothing.
func (*Supervisor) Begin(spec.CallID) {}

// End does nothing.
func (*Supervisor) End() {}

// Touched lists nothing.
func (*Supervisor) Touched() []faults.Touch { return nil }

// Left lists nothing.
func (*Supervisor) Left() []string { return nil }

// Stop does nothing.
func (*Supervisor) Stop() error { return nil }
