// Package runner executes a scenario against a subject and returns the record.
//
// It does not know what is right: it never sees the model, and it treats the
// reference as any other subject.
package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

// DefaultDeadline bounds one call. A subject that needs longer leaves its outcome
// unknown, and the rest of the scenario undone: it may still be at work.
const DefaultDeadline = 20 * time.Second

// Options say how a scenario is executed. The zero Options are the usual ones.
type Options struct {
	Deadline time.Duration // of one call; 0 means DefaultDeadline
}

// Run is the record of one execution: everything that may be looked at later.
type Run struct {
	Scenario scenarios.Scenario
	SUT      sut.Info
	Sandbox  string
	Events   []trace.Event
	Unfired  []string // injections that had no effect
	Skip     string   // why the scenario could not be brought about; empty if it was run
}

// Execute performs s against d in box and closes box. An error means that the
// bench failed; whatever the subject did is in the events, which are returned
// even then.
func Execute(ctx context.Context, d sut.Driver, box sandbox.Sandbox, s scenarios.Scenario, opt Options) (run Run, err error) {
	run = Run{Scenario: s, Sandbox: box.Name()}
	defer func() { err = errors.Join(err, box.Close()) }()
	if run.SUT, err = d.Info(ctx); err != nil {
		return run, fmt.Errorf("identify subject: %w", err)
	}
	if run.Skip = s.Unmet(box.Caps(), run.SUT.Wire); run.Skip != "" {
		return run, nil
	}
	x := &execution{
		driver: d, box: box, scenario: s, info: run.SUT, rec: &trace.Recorder{},
		deadline: cmp.Or(opt.Deadline, DefaultDeadline),
	}
	err = x.run(ctx)
	run.Events = x.rec.Events()
	if x.armed != nil {
		run.Unfired = x.armed.Unfired()
	}
	if errors.Is(err, sandbox.ErrCannot) || errors.Is(err, sut.ErrPolicy) {
		run.Skip, err = err.Error(), nil
	}
	return run, err
}

// execution is one run under way.
type execution struct {
	driver   sut.Driver
	box      sandbox.Sandbox
	scenario scenarios.Scenario
	info     sut.Info
	deadline time.Duration
	rec      *trace.Recorder
	armed    sandbox.Armed
	late     bool // a call ran into its deadline
	session  sut.Session
	versions map[spec.CallID]string
	logged   map[spec.SessionID]int // Log entries already in the trace
	skip     map[spec.SessionID]int // of those, how many a new process shows again
}

func (x *execution) run(ctx context.Context) error {
	x.rec.Emit(trace.Event{Actor: trace.ActorBench, Header: x.header()})
	if err := x.box.Build(x.world()); err != nil {
		return fmt.Errorf("build world: %w", err)
	}
	var err error
	if x.armed, err = x.box.Arm(x.scenario.Faults, x.rec); err != nil {
		return fmt.Errorf("arm faults: %w", err)
	}
	if err := x.observe(); err != nil {
		return err
	}
	if err := x.open(ctx); err != nil {
		return errors.Join(err, x.armed.Stop())
	}
	x.versions, x.logged, x.skip = map[spec.CallID]string{}, map[spec.SessionID]int{}, map[spec.SessionID]int{}
	for _, st := range x.scenario.Steps {
		if err = x.step(ctx, st); err != nil || x.late {
			break
		}
	}
	return errors.Join(err, x.armed.Stop(), x.session.Close())
}

func (x *execution) header() *trace.Header {
	h := &trace.Header{
		Format: trace.Format, Scenario: x.scenario.Name, Subject: x.info.Name, Version: x.info.Version,
		Sandbox: x.box.Name(), Root: x.box.Root(), Policies: spec.Policies{},
		Brokers: x.scenario.Brokers, Wire: x.info.Wire,
	}
	for name, value := range x.info.Policies {
		h.Policies[name] = value
	}
	for name, value := range x.scenario.Policies {
		h.Policies[name] = value
	}
	for _, r := range x.info.Roles {
		h.Claims = append(h.Claims, string(r))
	}
	h.Claims = append(h.Claims, x.info.Features...)
	return h
}

// world returns the initial World, with the state folder that a host expects to
// be able to write to even where the workspace refuses new entries.
func (x *execution) world() spec.World {
	w := x.scenario.Initial()
	if slices.Contains(x.info.Roles, sut.RoleHost) {
		state := spec.Workspace + "/" + spec.StateDir
		w[state] = spec.Node{Type: spec.TypeDir, Mode: 0o700}
		w[state+"/sessions"] = spec.Node{Type: spec.TypeDir, Mode: 0o700}
	}
	return w
}

func (x *execution) open(ctx context.Context) error {
	env := sut.Env{
		Root: x.box.Root(), FS: x.armed.Port(), Policies: x.scenario.Policies, Handlers: x.handlers(),
		Diag: func(level, msg string, attrs map[string]string) {
			x.rec.Emit(trace.Event{Actor: trace.ActorSUT, Diag: &trace.Diag{Level: level, Msg: msg, Attrs: attrs}})
		},
		WireFault: func(kind, line, note string) {
			x.rec.Emit(trace.Event{Actor: trace.ActorBench, Wire: &trace.WireFault{Kind: kind, Line: line, Note: note}})
		},
	}
	if c := x.armed.Child(); c != nil {
		env.Wrap = c.Wrap
		if c.Plan != nil {
			env.Worker = &sut.Worker{Plan: c.Plan, Event: c.Event, Edit: c.Edit}
		}
	}
	var err error
	if x.session, err = x.driver.Open(ctx, env); err != nil {
		return fmt.Errorf("open session: %w", err)
	}
	return nil
}

func (x *execution) observe() error {
	w, err := x.box.Observe()
	if err != nil {
		return fmt.Errorf("observe: %w", err)
	}
	x.rec.Emit(trace.Event{Actor: trace.ActorWorld, World: w})
	return nil
}

func (x *execution) step(ctx context.Context, st scenarios.Step) error {
	if st.Edit != nil {
		err := x.box.Edit(*st.Edit)
		if sandbox.Missed(err) {
			return nil // it found nothing to act on, or its place taken: no edit happened
		}
		if err != nil {
			return fmt.Errorf("edit %s %s: %w", st.Edit.Op, st.Edit.Path, err)
		}
		x.rec.Emit(trace.Event{Actor: trace.ActorBench, Edit: st.Edit})
		return x.observe()
	}
	if err := x.call(ctx, x.concrete(*st.Call)); err != nil {
		return fmt.Errorf("call %d: %w", st.Call.ID, err)
	}
	return nil
}

// concrete puts this run's root and versions in the place of the scenario's words
// for them.
func (x *execution) concrete(c spec.Call) spec.Call {
	c.Path = strings.ReplaceAll(c.Path, "{root}", x.box.Root())
	c.To = strings.ReplaceAll(c.To, "{root}", x.box.Root())
	if ref, ok := strings.CutPrefix(c.ExpectVersion, "@"); ok {
		var n spec.CallID
		fmt.Sscanf(ref, "%d", &n) //nolint:errcheck // Scenario.Check has read it
		c.ExpectVersion = x.versions[n]
		if c.ExpectVersion == "" {
			c.ExpectVersion = "none" // that call returned no version: this one expects what never was
		}
	}
	return c
}

// call performs one call and records, in this order: the call, what struck and
// who was asked during it, what the subject logged, what the bench then sees,
// and the answer.
func (x *execution) call(ctx context.Context, c spec.Call) error {
	x.rec.Emit(trace.Event{Actor: trace.ActorBench, Invoke: &c})
	out, err := x.do(ctx, c)
	if err != nil {
		return err
	}
	if x.armed.Crashed() {
		out = spec.Outcome{Call: c.ID, Detail: "the process was killed"}
		_ = x.session.Close() // of a dead process
		x.armed.Revive()
		x.skip = maps.Clone(x.logged)
		if err := x.open(ctx); err != nil {
			return err
		}
	}
	if err := x.log(ctx, c.Session); err != nil {
		return err
	}
	if err := x.observe(); err != nil {
		return err
	}
	x.versions[c.ID] = out.Version
	x.rec.Emit(trace.Event{Actor: trace.ActorSUT, Call: c.ID, Return: &out})
	return nil
}

// log records what was added to the session's Log.
func (x *execution) log(ctx context.Context, id spec.SessionID) error {
	if id == "" {
		return nil
	}
	entries, _, err := x.session.Log(ctx, id)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	seen := min(x.skip[id], len(entries))
	x.skip[id] -= seen
	for i := range entries[seen:] {
		x.rec.Emit(trace.Event{Actor: trace.ActorSUT, Log: &entries[seen+i]})
	}
	x.logged[id] += len(entries) - seen
	return nil
}

func (x *execution) do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, x.deadline)
	defer cancel()
	c.Content = bytes.Clone(c.Content) // a subject that scribbles must not write into the record
	out, err := x.session.Do(ctx, c)
	if outer.Err() != nil {
		return out, outer.Err() // it was not the subject that was late
	}
	x.late = ctx.Err() != nil
	out.Call = c.ID
	return out, err
}
