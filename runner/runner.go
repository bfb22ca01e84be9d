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

	"github.com/fsbench/fsbench/faults"
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
	Unfired  []string       // injections that had no effect
	Touched  []faults.Touch // by the subject outside the tree, if somebody looks on
	Steps    []faults.Step  // of the subject while it served calls, if the plan asks for them

	// Records are what the processes of the subject did to the tree, in the order of their
	// start, if the plan asks for it and somebody looks on.
	Records []faults.Record
	Skip    string // why the scenario could not be brought about; empty if it was run
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
	if run.Skip = cmp.Or(s.Unmet(box.Caps(), run.SUT.Wire), unclaimed(s, run.SUT)); run.Skip != "" {
		return run, nil
	}
	x := &execution{
		driver: d, box: box, scenario: s, info: run.SUT, rec: &trace.Recorder{},
		deadline: cmp.Or(opt.Deadline, DefaultDeadline),
	}
	if err = x.run(ctx); err != nil && x.skip {
		run.Skip, err = err.Error(), nil
	}
	// What goes wrong from here on is the bench's, also where the scenario is skipped.
	err = errors.Join(err, x.end())
	run.Events = x.rec.Events()
	if x.armed != nil {
		run.Unfired, run.Steps, run.Touched = x.armed.Unfired(), x.steps, x.armed.Touched()
		run.Records = x.armed.Records()
	}
	return run, err
}

// unclaimed says which call of s the subject does not claim to serve, where s was
// written to try certain rules: they could not be tried. Drawn scenarios are run
// all the same, since the other calls in them are worth it.
func unclaimed(s scenarios.Scenario, info sut.Info) string {
	if len(s.Rules) == 0 {
		return ""
	}
	for _, c := range s.Calls() {
		if !slices.Contains(info.Features, string(c.Kind)) {
			return fmt.Sprintf("the subject does not claim %s", c.Kind)
		}
		if c.ExpectVersion != "" && !slices.Contains(info.Features, "expect_version") {
			return "the subject does not claim expect_version"
		}
	}
	return ""
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
	session  sut.Session
	late     bool // a call ran into its deadline
	skip     bool // run ended because the scenario cannot be brought about
	steps    []faults.Step
	versions map[spec.CallID]string
	logged   map[spec.SessionID][]spec.LogEntry // already in the trace
	again    map[spec.SessionID][]spec.LogEntry // of those, what a new process has yet to show again
}

func (x *execution) run(ctx context.Context) error {
	x.rec.Emit(trace.Event{Actor: trace.ActorBench, Header: x.header()})
	if err := x.box.Build(x.world()); err != nil {
		return x.cannot("build world", err)
	}
	var err error
	if x.armed, err = x.box.Arm(x.plan(), x.rec); err != nil {
		x.armed = nil
		return x.cannot("arm faults", err)
	}
	if err := x.observe(); err != nil {
		return err
	}
	if err := x.open(ctx); err != nil {
		return x.cannot("open session", err)
	}
	x.versions = map[spec.CallID]string{}
	x.logged, x.again = map[spec.SessionID][]spec.LogEntry{}, map[spec.SessionID][]spec.LogEntry{}
	for _, st := range x.scenario.Steps {
		if err := x.step(ctx, st); err != nil || x.late {
			return err
		}
	}
	return nil
}

// cannot wraps what ended the run. Only what the scenario asks of sandbox and
// subject before it has begun, or of the sandbox alone, can make it a skip: a
// subject must not talk its way out of what it has done already.
func (x *execution) cannot(step string, err error) error {
	x.skip = errors.Is(err, sandbox.ErrCannot) || errors.Is(err, sut.ErrPolicy)
	return fmt.Errorf("%s: %w", step, err)
}

// end lifts the faults and ends the subject, however far the run has come.
func (x *execution) end() error {
	var errs []error
	if x.armed != nil {
		errs = append(errs, x.armed.Stop())
	}
	if x.session != nil {
		errs = append(errs, x.session.Close())
	}
	return errors.Join(errs...)
}

func (x *execution) header() *trace.Header {
	h := &trace.Header{
		Format: trace.Format, Scenario: x.scenario.Name, Subject: x.info.Name, Version: x.info.Version,
		Sandbox: x.box.Name(), Root: x.box.Root(), Policies: spec.Policies{},
		Brokers: x.scenario.Brokers, Wire: x.info.Wire, Counted: x.box.Counts(),
	}
	if box, ok := x.box.(interface{ Limits() string }); ok {
		h.Limits = box.Limits()
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

// plan returns the faults with this run's root in them.
func (x *execution) plan() faults.Plan {
	p := faults.Plan{Injections: slices.Clone(x.scenario.Faults.Injections), Trace: x.scenario.Faults.Trace, Record: x.scenario.Faults.Record}
	if p.Stepped() {
		p.Names = x.scenario.Names()
	}
	for i, in := range p.Injections {
		p.Injections[i].Do.Swap = slices.Clone(in.Do.Swap)
		for j, e := range in.Do.Swap {
			p.Injections[i].Do.Swap[j].To = x.rooted(e.To)
		}
	}
	return p
}

func (x *execution) rooted(text string) string {
	return strings.ReplaceAll(text, "{root}", x.box.Root())
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
		env.Wrap, env.Lasting = c.Wrap, c.Lasting
		if c.Plan != nil {
			env.Worker = &sut.Worker{Plan: c.Plan, Event: c.Event, Edit: c.Edit}
		}
	}
	session, err := x.driver.Open(ctx, env)
	if err == nil {
		x.session = session
	}
	return err
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
		e := *st.Edit
		e.To = x.rooted(e.To)
		err := x.box.Edit(e)
		if sandbox.Missed(err) {
			return nil // it found nothing to act on, or its place taken: no edit happened
		}
		if err != nil {
			return x.cannot(fmt.Sprintf("edit %s %s", e.Op, e.Path), err)
		}
		x.rec.Emit(trace.Event{Actor: trace.ActorBench, Edit: &e})
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
	c.Path, c.To = x.rooted(c.Path), x.rooted(c.To)
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
	x.armed.Begin(c.ID)
	before := len(x.armed.Steps())
	out, err := x.do(ctx, c)
	steps := x.armed.Steps()
	x.steps = append(x.steps, steps[min(before, len(steps)):]...)
	if err != nil {
		return err
	}
	if left := x.armed.Left(); len(left) > 0 && !x.late && !x.armed.Crashed() {
		x.rec.Emit(trace.Event{Actor: trace.ActorWorld, Left: &trace.Left{Paths: left}})
	}
	if x.armed.Crashed() {
		out = spec.Outcome{Call: c.ID, Detail: "the process was killed"}
		_ = x.session.Close() // of a dead process
		x.session = nil
		x.armed.Revive()
		x.again = maps.Clone(x.logged)
		if err := x.open(ctx); err != nil {
			return fmt.Errorf("open session again: %w", err)
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
	for i, e := range entries {
		if again := x.again[id]; len(again) > 0 && same(again[0], e) {
			x.again[id] = again[1:]
			continue
		}
		delete(x.again, id) // a Log that lost or changed what it had shows it from here on
		x.logged[id] = append(x.logged[id], e)
		x.rec.Emit(trace.Event{Actor: trace.ActorSUT, Log: &entries[i]})
	}
	return nil
}

func same(a, b spec.LogEntry) bool {
	return a.ID == b.ID && a.Session == b.Session && a.Time == b.Time && a.Type == b.Type &&
		bytes.Equal(a.Seq, b.Seq) && bytes.Equal(a.Data, b.Data)
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
	x.late = ctx.Err() != nil && out.Status == spec.StatusUnknown
	out.Call = c.ID
	return out, err
}
