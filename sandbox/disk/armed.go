package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path"
	"slices"
	"sync"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// umask of every subject.
const umask = 0o022

// environment of every subject: nothing of the bench's own.
var environment = []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}

// armed is a plan in force.
type armed struct {
	s      *Sandbox
	plan   faults.Plan
	sink   trace.Sink
	watch  []string
	outset outset // guarded by the sandbox

	mu      sync.Mutex
	fired   map[string]bool
	crashed bool
	steps   []faults.Step
}

var _ sandbox.Armed = (*armed)(nil)

// Arm implements sandbox.Sandbox.
func (s *Sandbox) Arm(plan faults.Plan, sink trace.Sink) (sandbox.Armed, error) {
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("arm: %w", err)
	}
	a := &armed{s: s, plan: plan, sink: sink, fired: map[string]bool{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range plan.Injections {
		ok, err := a.prepare(in)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("arm: injection %s: %w", in.ID, err), a.undo())
		}
		if ok {
			a.watch = append(a.watch, in.ID)
		}
	}
	if s.foreign {
		w, err := a.supervised(sink)
		if err != nil {
			return nil, errors.Join(err, a.undo())
		}
		return w, nil
	}
	return a, nil
}

// Port implements sandbox.Armed.
func (*armed) Port() vfs.FS { return nil }

// Child implements sandbox.Armed.
func (a *armed) Child() *sandbox.Child {
	raw, err := json.Marshal(faults.Order{Plan: a.left(), Base: a.s.base, Watch: a.watch})
	if err != nil {
		panic("disk: a plan that was parsed does not encode: " + err.Error())
	}
	return &sandbox.Child{
		// Asked each time: a subject that ended by itself is started again, in a tree
		// that it may have changed.
		Wrap: func(cmd *exec.Cmd) error { return a.spec().Wrap(cmd) },
		Plan: raw, Event: a.event, Edit: sandbox.Attempt(a.s.Edit),
	}
}

// left is the plan for the next process: what has struck once and for all does
// not strike again, since a new process counts from one.
func (a *armed) left() faults.Plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := faults.Plan{Trace: a.plan.Trace}
	for _, in := range a.plan.Injections {
		if a.fired[in.ID] && (in.When.Nth > 0 || in.When.Step != "" || in.Do.Crash) {
			continue
		}
		p.Injections = append(p.Injections, in)
	}
	return p
}

// spec says how the next child is confined: the mounts are where their objects are
// now, since a rename before a crash may have moved them.
func (a *armed) spec() jail.Spec {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	ro := map[string]bool{}
	for _, m := range slices.Concat(a.s.mounts, a.outset.mounts) {
		if p, ok := a.s.hand.where(m.held); ok {
			ro[p] = m.kind == spec.MountReadOnly
		}
	}
	sp := a.s.lab.confine(a.s.base)
	sp.FileSize = a.outset.fileSize
	if a.s.group != nil {
		sp.Group = a.s.group.Descriptor()
	}
	for _, l := range a.outset.locks {
		l.Path = path.Join(a.s.base, l.Path)
		if l.But != "" {
			l.But = path.Join(a.s.base, l.But)
		}
		sp.Locked = append(sp.Locked, l)
	}
	state := path.Join(spec.Workspace, spec.StateDir)
	for _, p := range slices.Sorted(maps.Keys(ro)) {
		sp.Mounts = append(sp.Mounts, jail.Mount{Path: path.Join(a.s.base, p), ReadOnly: ro[p]})
		if p == spec.Workspace && ro[p] && a.s.hand.isDir(state) {
			// The host's own folder stays writable: a host without its Log runs nothing.
			sp.Mounts = append(sp.Mounts, jail.Mount{Path: path.Join(a.s.base, state)})
		}
	}
	return sp
}

// event takes in what the child reports, before its effect can be seen.
func (a *armed) event(raw json.RawMessage) error {
	var e faults.Message
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("event of the worker: %w", err)
	}
	a.mu.Lock()
	if e.Step != nil {
		a.steps = append(a.steps, *e.Step)
		a.mu.Unlock()
		return nil
	}
	if e.Fault != nil {
		a.fired[e.Fault.Injection] = true
	}
	if e.Crash != nil {
		a.crashed = true
	}
	a.mu.Unlock()
	if e.Glimpse != nil {
		// The worker waits: what is there now is what a reader finds after its step.
		w, err := a.s.Observe()
		if err != nil {
			return fmt.Errorf("glimpse: %w", err)
		}
		e.Glimpse.World = w
		a.mu.Lock()
		a.fired[e.Glimpse.Injection] = true
		a.mu.Unlock()
	}
	a.sink.Emit(e.Event)
	return nil
}

// Crashed implements sandbox.Armed.
func (a *armed) Crashed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.crashed
}

// Revive implements sandbox.Armed.
func (a *armed) Revive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashed = false
}

// Unfired implements sandbox.Armed.
func (a *armed) Unfired() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, in := range a.plan.Injections {
		if !a.fired[in.ID] {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

// Begin implements sandbox.Armed. A worker sees its calls itself.
func (*armed) Begin(spec.CallID) {}

// Steps implements sandbox.Armed.
func (a *armed) Steps() []faults.Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.steps)
}

// Touched implements sandbox.Armed.
func (*armed) Touched() []faults.Touch { return nil }

// Left implements sandbox.Armed. A worker tells it itself, as an event.
func (*armed) Left() []string { return nil }

// Records implements sandbox.Armed.
func (*armed) Records() []faults.Record { return nil }

// Stop implements sandbox.Armed. The tree is given back its modes and flags.
func (a *armed) Stop() error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.undo()
}

func (a *armed) undo() error {
	var errs []error
	for _, prep := range a.s.preps {
		errs = append(errs, prep.undo())
	}
	for _, m := range a.outset.mounts {
		m.close()
	}
	errs = append(errs, a.s.lift())
	a.s.preps, a.outset = nil, outset{}
	return errors.Join(errs...)
}
