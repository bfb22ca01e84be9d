package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

// fake is a driver of a subject that does what a test says.
type fake struct {
	info    sut.Info
	infoErr error

	// open makes the session of the n-th process, from 1. Without it every session
	// answers ok to everything.
	open     func(n int, env sut.Env) (*session, error)
	sessions []*session
	opened   int
}

var _ sut.Driver = (*fake)(nil)

func (d *fake) Info(context.Context) (sut.Info, error) { return d.info, d.infoErr }

func (d *fake) Open(_ context.Context, env sut.Env) (sut.Session, error) {
	d.opened++
	s := &session{}
	if d.open != nil {
		var err error
		if s, err = d.open(d.opened, env); err != nil {
			return nil, err
		}
	}
	d.sessions = append(d.sessions, s)
	return s, nil
}

func (*fake) Close() error { return nil }

// session is one process of such a subject.
type session struct {
	do       func(ctx context.Context, c spec.Call) (spec.Outcome, error)
	logs     map[spec.SessionID][]spec.LogEntry // handed out once
	logErr   error
	closeErr error
	closed   int
}

var _ sut.Session = (*session)(nil)

func (s *session) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	if s.do == nil {
		return spec.Outcome{Status: spec.StatusOK}, nil
	}
	return s.do(ctx, c)
}

func (s *session) Log(_ context.Context, id spec.SessionID) ([]spec.LogEntry, bool, error) {
	entries := s.logs[id]
	delete(s.logs, id)
	return entries, true, s.logErr
}

func (*session) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	return spec.Confession{}, false, nil
}

func (s *session) Close() error {
	s.closed++
	return s.closeErr
}

// box is a sandbox in memory whose parts can be made to fail, and that counts how
// often it was closed.
type box struct {
	*mem.Sandbox
	fail   map[string]error // by method
	closed int
	worlds int // observed
	edits  []spec.Edit
	plan   faults.Plan
}

func newBox(fail map[string]error) *box { return &box{Sandbox: mem.New(), fail: fail} }

func (b *box) Build(w spec.World) error {
	if err := b.fail["build"]; err != nil {
		return err
	}
	return b.Sandbox.Build(w)
}

func (b *box) Observe() (spec.World, error) {
	if b.worlds++; b.worlds > 1 && b.fail["observe again"] != nil {
		return nil, b.fail["observe again"]
	}
	if err := b.fail["observe"]; err != nil {
		return nil, err
	}
	return b.Sandbox.Observe()
}

func (b *box) Edit(e spec.Edit) error {
	b.edits = append(b.edits, e)
	if err := b.fail["edit"]; err != nil {
		return err
	}
	return b.Sandbox.Edit(e)
}

func (b *box) Arm(plan faults.Plan, sink trace.Sink) (sandbox.Armed, error) {
	b.plan = plan
	if err := b.fail["arm"]; err != nil {
		return nil, err
	}
	a, err := b.Sandbox.Arm(plan, sink)
	return &armed{a, b}, err
}

func (b *box) Close() error {
	b.closed++
	return errors.Join(b.fail["close"], b.Sandbox.Close())
}

type armed struct {
	sandbox.Armed
	b *box
}

func (a *armed) Stop() error { return errors.Join(a.b.fail["stop"], a.Armed.Stop()) }

// parse reads a scenario. Its name and origin do not matter here.
func parse(t *testing.T, text string) scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Parse("test.txtar", "test", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// execute runs s and checks what must be so however it ends: everything is closed,
// and no session more than once.
func execute(t *testing.T, d *fake, b *box, s scenarios.Scenario, opt runner.Options) (runner.Run, error) {
	t.Helper()
	run, err := runner.Execute(t.Context(), d, b, s, opt)
	if b.closed != 1 {
		t.Errorf("the sandbox was closed %d times", b.closed)
	}
	for i, s := range d.sessions {
		if s.closed != 1 {
			t.Errorf("session %d was closed %d times", i+1, s.closed)
		}
	}
	for i, e := range run.Events {
		if e.Seq != uint64(i+1) {
			t.Errorf("event %d has number %d", i+1, e.Seq)
		}
	}
	return run, err
}

// told renders events, one a line.
func told(events []trace.Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %s ", e.Call, e.Actor)
		switch {
		case e.Header != nil:
			fmt.Fprintf(&b, "header %s", e.Header.Subject)
		case e.Invoke != nil:
			fmt.Fprintf(&b, "invoke %s %s", e.Invoke.Kind, e.Invoke.Path)
		case e.Fault != nil:
			fmt.Fprintf(&b, "fault %s %s %s", e.Fault.Injection, e.Fault.Path, e.Fault.Effect)
		case e.Edit != nil:
			fmt.Fprintf(&b, "edit %s", spec.FormatFields(e.Edit.Fields()))
		case e.Consult != nil:
			fmt.Fprintf(&b, "consult %d acted=%v %s", e.Consult.Handler, e.Consult.Acted, e.Consult.Answer)
		case e.Diag != nil:
			fmt.Fprintf(&b, "diag %s %s", e.Diag.Level, e.Diag.Msg)
		case e.Wire != nil:
			fmt.Fprintf(&b, "wire %s", e.Wire.Kind)
		case e.Crash != nil:
			fmt.Fprintf(&b, "crash %s", e.Crash.Model)
		case e.Log != nil:
			fmt.Fprintf(&b, "log %s", e.Log.ID)
		case e.World != nil:
			fmt.Fprintf(&b, "world %s", strings.Join(e.World.Paths(), " "))
		case e.Return != nil:
			fmt.Fprintf(&b, "return %d %s %s", e.Return.Call, e.Return.Status, e.Return.Detail)
		}
		b.WriteString("\n")
	}
	return strings.ReplaceAll(b.String(), " \n", "\n")
}

func entry(id string) spec.LogEntry {
	return spec.LogEntry{ID: id, Session: "s1", Seq: json.RawMessage("0"), Type: spec.LogToolCall, Data: json.RawMessage("{}")}
}

func entries(ids ...string) map[spec.SessionID][]spec.LogEntry {
	m := map[spec.SessionID][]spec.LogEntry{}
	for _, id := range ids {
		m["s1"] = append(m["s1"], entry(id))
	}
	return m
}
