package disk

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// supervised is a plan in force around a foreign process.
type supervised struct {
	*armed
	sup *supervisor.Supervisor
}

var _ sandbox.Armed = (*supervised)(nil)

func (a *armed) supervised(sink trace.Sink) (sandbox.Armed, error) {
	if a.plan.Record {
		a.s.end() // of what rests here only a part would be on record
	} else if sup := a.s.sup; sup != nil {
		return &supervised{a, sup}, cannot(sup.Rearm(a.plan, a.watch, sink))
	}
	engine, err := a.s.lab.Engine()
	if err != nil {
		return nil, err
	}
	sup, err := supervisor.New(supervisor.Options{
		Engine: engine.Name, Base: a.s.base, Plan: a.plan, Sink: sink, Watch: a.watch, Hands: sandbox.Attempt(a.s.Edit), Look: a.s.Observe, Record: a.plan.Record, Crowd: &a.s.lab.crowd,
	})
	if err != nil {
		return nil, cannot(err)
	}
	a.s.sup = sup
	return &supervised{a, sup}, nil
}

// cannot says of what a supervisor cannot do that the sandbox cannot.
func cannot(err error) error {
	if errors.Is(err, supervisor.ErrCannot) {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, err)
	}
	return err
}

// Child implements sandbox.Armed. The owner is confined as its subject is.
func (w *supervised) Child() *sandbox.Child {
	// Mounts and limits are made when a process starts.
	lasting := w.outset.empty() && len(w.s.mounts) == 0
	return &sandbox.Child{Lasting: lasting, Wrap: func(cmd *exec.Cmd) error {
		if err := w.sup.Wrap(cmd); err != nil {
			return err
		}
		sp := w.spec()
		sp.Files = supervisor.Files
		if err := w.s.place(cmd, &sp); err != nil {
			return err
		}
		return sp.Wrap(cmd)
	}}
}

// Crashed implements sandbox.Armed.
func (w *supervised) Crashed() bool { return w.sup.Crashed() }

// Revive implements sandbox.Armed.
func (w *supervised) Revive() { w.sup.Revive() }

// Unfired implements sandbox.Armed.
func (w *supervised) Unfired() []string { return w.sup.Unfired() }

// Begin implements sandbox.Armed.
func (w *supervised) Begin(call spec.CallID) { w.sup.Begin(call) }

// Steps implements sandbox.Armed.
func (w *supervised) Steps() []faults.Step { return w.sup.Steps() }

// Touched implements sandbox.Armed.
func (w *supervised) Touched() []faults.Touch { return w.sup.Touched() }

// Left implements sandbox.Armed.
func (w *supervised) Left() []string { return w.sup.Left() }

// Records implements sandbox.Armed.
func (w *supervised) Records() []faults.Record { return w.sup.Records() }

// Stop implements sandbox.Armed.
func (w *supervised) Stop() error { return errors.Join(w.sup.Stop(), w.armed.Stop()) }
