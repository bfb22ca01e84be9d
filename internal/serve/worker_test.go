package serve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/sut/stdio"
	"github.com/fsbench/fsbench/sut/suttest"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// validate checks every line that was overheard against the schemas.
func (w *wiretap) validate(t *testing.T) {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	files, _ := fs.Glob(wire.Schemas, "schema/*.json")
	for _, name := range files {
		text, _ := wire.Schemas.ReadFile(name)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(doc.(map[string]any)["$id"].(string), doc); err != nil {
			t.Fatal(err)
		}
	}
	check := func(ref string, raw json.RawMessage) {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
		if err == nil {
			err = compiler.MustCompile(ref).Validate(doc)
		}
		if err != nil {
			t.Errorf("%.300s: %v", raw, err)
		}
	}
	methods := map[string]string{} // by who asked, and the id
	for _, line := range w.lines {
		side, raw := line[:1], []byte(line[2:])
		check(wire.SchemaBase+"message.json", raw)
		m, fault := wire.Parse(raw)
		switch {
		case fault != nil:
			t.Errorf("%.300s: %v", raw, fault)
		case m.Request():
			check(wire.SchemaOf(m.Method, "params"), m.Params)
			methods[side+string(m.ID)] = m.Method
		case m.Result != nil:
			asker := map[string]string{">": "<", "<": ">"}[side]
			check(wire.SchemaOf(methods[asker+string(m.ID)], "result"), m.Result)
		}
		if m.Request() && m.ID != nil && strings.Contains(line, `"session":null`) {
			t.Errorf("%s: absent is not null", line)
		}
	}
	if len(w.lines) == 0 {
		t.Error("nothing was overheard")
	}
}

// port is an FS that is only there to be recognised.
type port struct {
	vfs.FS
	name string
}

// striker is a worker whose first call strikes, edits and strikes again.
type striker struct {
	opt    serve.Options
	driver *fake
	armed  string
}

func newStriker() *striker {
	s := &striker{}
	var emit func(faults.Message) error
	var edit func(spec.Edit) (bool, error)
	s.driver = &fake{Driver: suttest.Plain(), do: func(_ context.Context, c spec.Call) (spec.Outcome, error) {
		o := spec.Outcome{Call: c.ID, Status: spec.StatusOK, Detail: s.driver.env.FS.(*port).name}
		if emit == nil {
			return o, nil
		}
		strike := func(n int) error {
			return emit(faults.Message{Event: trace.Event{
				Seq: uint64(n), Actor: trace.ActorFault, Fault: &trace.Fired{Injection: fmt.Sprint(n), By: trace.Synthetic},
			}})
		}
		var errs []error
		for n := range 20 {
			errs = append(errs, strike(n))
		}
		done, err := edit(spec.Edit{Op: spec.EditSymlink, Path: "a", To: "../b"})
		if err == nil && !done {
			err = errors.New("the edit was not done")
		}
		errs = append(errs, err, strike(20))
		if err := errors.Join(errs...); err != nil {
			return spec.Outcome{}, err
		}
		return o, nil
	}}
	s.opt = serve.Options{
		Driver: s.driver, FS: &port{name: "sound"},
		Arm: func(plan json.RawMessage, root string, e func(faults.Message) error, d func(spec.Edit) (bool, error)) (vfs.FS, func() []string, error) {
			if string(plan) == `{"bad":true}` {
				return nil, nil, errors.New("want injections")
			}
			s.armed = string(plan) + " over " + root
			emit, edit = e, d
			return &port{name: "faulty"}, func() []string { return []string{"never"} }, nil
		},
	}
	return s
}

// A plan reaches the subject's file system, and what it does reaches the runner
// in order, before what follows from it.
func TestWorkerRoundTrip(t *testing.T) {
	var tap wiretap
	synctest.Test(t, func(t *testing.T) {
		s := newStriker()
		d := stdio.Pipe(tap.main(func() serve.Options { return s.opt }), stdio.Options{})
		var told []string
		session, err := d.Open(t.Context(), sut.Env{Root: "/r", Worker: &sut.Worker{
			Plan: json.RawMessage(`{"injections":[]}`),
			Event: func(raw json.RawMessage) error {
				var e trace.Event
				if err := json.Unmarshal(raw, &e); err != nil {
					return err
				}
				told = append(told, e.Fault.Injection)
				return nil
			},
			Edit: func(e spec.Edit) (bool, error) {
				told = append(told, spec.FormatFields(e.Fields()))
				return true, nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		o, err := session.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
		want := spec.Outcome{Call: 1, Status: spec.StatusOK, Detail: "faulty"}
		if diff := cmp.Diff(want, o); err != nil || diff != "" {
			t.Errorf("outcome: %v (-want +got):\n%s", err, diff)
		}
		var order []string
		for n := range 20 {
			order = append(order, fmt.Sprint(n))
		}
		order = append(order, "symlink a to=../b", "20")
		if diff := cmp.Diff(order, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(`{"injections":[]} over /r`, s.armed); diff != "" {
			t.Errorf("armed (-want +got):\n%s", diff)
		}
		if err := errors.Join(session.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	tap.validate(t)
	if !strings.Contains(strings.Join(tap.lines, "\n"), `"result":{"unfired":["never"]}`) {
		t.Error("the runner was not told what never fired")
	}
}

func TestWorkerConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStriker()
		c := converse(t.Context(), t, s.opt)
		for _, x := range []exchange{
			{wire.MethodHello, hello, ""},
			{wire.MethodDisarm, `{}`, `"error":{"code":-32002,"message":"worker/disarm: no plan is armed"}`},
			{wire.MethodArm, `{}`, `"error":{"code":-32602,"message":"plan is missing"}`},
			{wire.MethodArm, `{"plan":{"bad":true}}`, `"result":{"unfired":[]}`},
			{wire.MethodOpen, openRun, `"error":{"code":-32602,"message":"plan: want injections"}`},
			{wire.MethodArm, `{"plan":{}}`, `"result":{"unfired":[]}`},
			{wire.MethodOpen, openRun, `"result":{}`},
			{wire.MethodArm, `{"plan":{}}`, `"error":{"code":-32002,"message":"worker/arm: want it before open"}`},
			{wire.MethodDisarm, `{}`, `"result":{"unfired":["never"]}`},
			{wire.MethodDisarm, `{}`, `"error":{"code":-32002,"message":"worker/disarm: no plan is armed"}`},
			{wire.MethodClose, `{}`, `"result":{}`},
			{wire.MethodOpen, openRun, `"result":{}`}, // a plan is for one session
		} {
			if got := c.ask(x.method, x.params); got != x.want && x.want != "" {
				t.Errorf("%s %s (-want +got):\n%s", x.method, x.params, cmp.Diff(x.want, got))
			}
		}
		if got := s.driver.env.FS.(*port).name; got != "sound" {
			t.Errorf("the second session has the port %s, want the sound one", got)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// The event has left the process before emit returns, or emit says so.
func TestEmitIsFlushed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStriker()
		c := converse(t.Context(), t, s.opt)
		c.ask(wire.MethodHello, hello)
		c.ask(wire.MethodArm, `{"plan":{}}`)
		c.ask(wire.MethodOpen, openRun)
		c.say(slowCall)
		synctest.Wait() // nobody reads: the call stands at its first event
		for n := range 20 {
			if line := c.hear(); !strings.Contains(line, fmt.Sprintf(`"injection":"%d"`, n)) {
				t.Errorf("event %d: %s", n, line)
			}
		}
		edit := c.hear()
		if !strings.Contains(edit, `"method":"worker/edit"`) {
			t.Errorf("want the edit, got %s", edit)
		}
		c.say(`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"the disk is gone"}}`)
		if line := c.hear(); !strings.Contains(line, `"injection":"20"`) {
			t.Errorf("the last event: %s", line)
		}
		if line := c.hear(); !strings.Contains(line, "do: edit: [1] the disk is gone") {
			t.Errorf("want the failure of the edit, got %s", line)
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

// What a subject warns of reaches the runner's trace, before the answer.
func TestDiagnosticsTravel(t *testing.T) {
	var tap wiretap
	synctest.Test(t, func(t *testing.T) {
		d := stdio.Pipe(tap.main(plain), stdio.Options{})
		var told []string
		session, err := d.Open(t.Context(), sut.Env{
			Root: "/r",
			Diag: func(level, msg string, attrs map[string]string) {
				told = append(told, fmt.Sprint(level, " ", msg, " ", attrs))
			},
			Handlers: []sut.Handler{{Seam: spec.SeamWrite, Write: func(context.Context, spec.WriteRequest) (bool, error) {
				return false, errors.New("boom")
			}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		o, err := session.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallWrite, Path: suttest.DeniedFile})
		if err != nil || o.Err != spec.ErrAccess {
			t.Errorf("%v, %v, want EACCES", o, err)
		}
		want := []string{"WARN a handler failed map[error:broker/write: [-32098] handler h1: boom handler:1]"}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("diagnostics (-want +got):\n%s", diff)
		}
		if err := errors.Join(session.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	tap.validate(t)
}

// A policy chosen on the command line is declared and passed on.
func TestChosenPolicy(t *testing.T) {
	var tap wiretap
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Driver: suttest.Plain()}
		chosen := spec.Policies{"links": "refuse"}
		d := stdio.Pipe(tap.main(func() serve.Options { return serve.Options{Driver: f, Policies: chosen} }), stdio.Options{Settable: []string{"links"}})
		session, err := d.Open(t.Context(), sut.Env{Root: "/r", Policies: chosen})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(chosen, f.env.Policies); diff != "" {
			t.Errorf("policies (-want +got):\n%s", diff)
		}
		if err := errors.Join(session.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
}

// TestWorkerTellsItsSteps: a worker that is asked for its steps tells them before the
// answer, numbered from the call in which they are.
func TestWorkerTellsItsSteps(t *testing.T) {
	order, err := json.Marshal(faults.Order{Plan: faults.Plan{Trace: true}, Base: "/"})
	if err != nil {
		t.Fatal(err)
	}
	store := memfs.New(memfs.Cred{})
	if err := store.Admin().Make("ws", memfs.Node{Type: fs.ModeDir, Bits: 0o755}); err != nil {
		t.Fatal(err)
	}
	base := store.As(memfs.Cred{})
	var tap wiretap
	synctest.Test(t, func(t *testing.T) {
		d := stdio.Pipe(tap.main(func() serve.Options {
			return serve.Options{Driver: &inproc.Driver{}, FS: base, Arm: serve.Worker(base)}
		}), stdio.Options{})
		var told []string
		session, err := d.Open(t.Context(), sut.Env{Root: "/ws", Worker: &sut.Worker{
			Plan: order,
			Event: func(raw json.RawMessage) error {
				var m faults.Message
				if err := json.Unmarshal(raw, &m); err != nil {
					return err
				}
				told = append(told, m.Step.Key)
				return nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		opened := len(told)
		for id := range spec.CallID(2) {
			if _, err := session.Do(t.Context(), spec.Call{ID: id + 1, Session: "s", Kind: spec.CallDelete, Path: "f"}); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"1 lstat read ws/f 1", "2 lstat read ws/f 1"}, told[opened:]); diff != "" || opened == 0 {
			t.Errorf("%d steps at the start, then (-want +got):\n%s", opened, diff)
		}
		if err := errors.Join(session.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	})
	tap.validate(t)
}
