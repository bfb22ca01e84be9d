package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// runScript returns a Driver of s as a function. Every child's actor is kept.
func runScript(s script, opt Options) (*Driver, *[]*actor) {
	var mu sync.Mutex
	var actors []*actor
	return Pipe(func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		a := &actor{ctx: ctx, in: bufio.NewReader(in), out: out, errs: errs}
		mu.Lock()
		actors = append(actors, a)
		a.life = len(actors)
		mu.Unlock()
		s.play(a)
		return nil
	}, opt), &actors
}

func open(t *testing.T, d *Driver, env sut.Env) *Session {
	t.Helper()
	s, err := d.Open(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	return s.(*Session)
}

func do(t *testing.T, s *Session, id spec.CallID) spec.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o, err := s.Do(ctx, spec.Call{ID: id, Kind: spec.CallRead, Path: "f"})
	if err != nil {
		t.Errorf("call %d: %v", id, err)
	}
	return o
}

func closed(t *testing.T, what ...io.Closer) {
	t.Helper()
	for _, c := range what {
		if err := errors.Join(c.Close(), c.Close()); err != nil {
			t.Errorf("close %T: %v", c, err)
		}
	}
}

// bubble runs one script in a bubble, with one session of it.
func bubble(t *testing.T, name string, run func(*Session, *witness)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := witness{t: t}
		d := asFunction(name, Options{})
		s := open(t, d, w.env("/r"))
		run(s, &w)
		closed(t, s, d)
	})
}

func TestDiagnostics(t *testing.T) {
	for _, tc := range []struct {
		name string
		want []string
	}{
		{"complains", []string{`WARN handler failed map[error:boom handler:2 where.dst:/r/a]`, `ERROR in two pieces map[]`}},
		{"refuses the call", []string{`WARN the child answered with an error map[code:-32603 message:out of order method:do]`}},
		{"late", []string{`WARN an answer came after its deadline map[line:{"jsonrpc":"2.0","id":3,"result":{"outcome":"applied"}} method:do]`}},
		{"dies in a call", []string{`ERROR the child ended map[state:returned]`}},
		{"unknown class", nil}, // a fault is no diagnostic
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.name, func(s *Session, w *witness) {
				do(w.t, s, 1)
				do(w.t, s, 2) // what came late, came before this answer
				if diff := cmp.Diff(tc.want, w.diags); diff != "" {
					w.t.Errorf("diagnostics (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestDiagnosticsHaveAnEnd(t *testing.T) {
	bubble(t, "complains without end", func(s *Session, w *witness) {
		do(w.t, s, 1)
		if diff := cmp.Diff("ERROR more diagnostics were left out map[]", w.diags[len(w.diags)-1]); diff != "" || len(w.diags) != maxDiags+1 {
			w.t.Errorf("%d diagnostics, the last (-want +got):\n%s", len(w.diags), diff)
		}
	})
}

func TestHandlers(t *testing.T) {
	for _, tc := range []struct{ name, child string }{
		{"handler that lands", `{"landed":true}`},
		{"handler that throws", `{"code":-32098,"message":"handler h2: boom"}`},
		{"prompt", `{"allowed":false}`},
		{"unknown method", `{"code":-32601,"message":"unknown-method: the runner serves no method \"fs/read\" here"}`},
		{"handler of other seam", `{"code":-32602,"message":"bad-params: handler: \"h1\" is none of the delete seam"}`},
		{"file of its choice", `{"code":-32602,"message":"bad-params: content_file: want a file that the runner handed out"}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			bubble(t, tc.name, func(s *Session, w *witness) {
				if diff := cmp.Diff(tc.child, do(w.t, s, 1).Detail); diff != "" {
					w.t.Errorf("what the child was answered (-want +got):\n%s", diff)
				}
				if tc.name != "handler that lands" {
					return
				}
				want := []spec.WriteRequest{{
					Denial:  spec.Denial{Session: "s1", Dst: "/r/a", Cause: spec.ErrNotPermitted},
					Content: spec.Content("A"), Exclusive: true,
				}}
				if diff := cmp.Diff(want, w.writes); diff != "" {
					w.t.Errorf("requests (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// An answer counts even if the end follows at once, every time.
func TestAnswerBeforeTheEnd(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			d := asFunction("answers and dies", Options{})
			s := open(t, d, sut.Env{Root: "/r"})
			if o := do(t, s, 1); o.Status != ok {
				t.Errorf("call 1: %v, want ok: it was answered", o.Status)
			}
			synctest.Wait() // until the end was noticed
			if o := do(t, s, 2); o.Status != ok {
				t.Errorf("call 2: %v, want ok: it goes to another child", o.Status)
			}
			closed(t, s, d)
		})
	}
}

// A child that says it is somebody else after a crash is not believed.
func TestAnotherIdentity(t *testing.T) {
	bubble(t, "changes its name", func(s *Session, w *witness) {
		for id := range spec.CallID(2) {
			if o := do(w.t, s, id+1); o.Status != unknown {
				w.t.Errorf("call %d: %v, want unknown", id+1, o.Status)
			}
		}
		if diff := cmp.Diff(faults(wire.BadOutcome), w.faults); diff != "" {
			w.t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}

func TestLogAndConfessionRefused(t *testing.T) {
	bubble(t, "refuses log and confession", func(s *Session, w *witness) {
		if entries, exposed, err := s.Log(w.t.Context(), "s1"); entries != nil || exposed || err != nil {
			w.t.Errorf("log: %v, %v, %v", entries, exposed, err)
		}
		if c, has, err := s.Confession(w.t.Context(), "s1"); has || err != nil {
			w.t.Errorf("confession: %v, %v, %v", c, has, err)
		}
		want := []string{
			"WARN the child answered with an error map[code:-32603 message:no Log method:log]",
			"ERROR the child did not give what it claims to have map[method:log]",
			"ERROR the child did not give what it claims to have map[method:confess]",
		}
		if diff := cmp.Diff(want, w.diags); diff != "" {
			w.t.Errorf("diagnostics (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(faults(wire.BadOutcome), w.faults); diff != "" {
			w.t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}

func TestLogGivesWhatIsNew(t *testing.T) {
	entry := func(n int) string {
		return fmt.Sprintf(`{"id":"%d","session_id":"s1","seq":%d,"ts":"","type":"tool_call","data":{}}`, n, n)
	}
	logs := []string{entry(0), entry(0) + "," + entry(1) + "," + entry(2), entry(0) + "," + entry(1), entry(0) + "," + entry(1) + "," + entry(2)}
	asked := 0
	s := script{wire.MethodLog: func(a *actor, m wire.Message) bool {
		asked++
		return a.answer(m, `{"entries":[`+logs[asked-1]+`]}`)
	}}
	synctest.Test(t, func(t *testing.T) {
		var w witness
		d, _ := runScript(s, Options{})
		session := open(t, d, w.env("/r"))
		var got [][]string
		for range logs {
			entries, exposed, err := session.Log(t.Context(), "s1")
			if !exposed || err != nil {
				t.Fatal(exposed, err)
			}
			var ids []string
			for _, e := range entries {
				ids = append(ids, e.ID)
			}
			got = append(got, ids)
		}
		if diff := cmp.Diff([][]string{{"0"}, {"1", "2"}, nil, {"2"}}, got); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"ERROR the Log has become shorter map[is:2 session:s1 was:3]"}, w.diags); diff != "" {
			t.Errorf("diagnostics (-want +got):\n%s", diff)
		}
		closed(t, session, d)
	})
}

func TestEchoHearsEverything(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		d, actors := runScript(echo, Options{Allow: []string{"{root}/a"}, ContentDir: dir})
		s := open(t, d, sut.Env{Root: "/r", Handlers: []sut.Handler{{Seam: spec.SeamWrite}}})
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		big := bytes.Repeat([]byte{0, 255}, 1<<19)
		for _, content := range [][]byte{nil, {}, {255}, big} {
			if _, err := s.Do(ctx, spec.Call{ID: 7, Session: "s1", Kind: spec.CallWrite, Path: "p", Content: content, Args: spec.Content(`{"a":[1.0]}`)}); err != nil {
				t.Error(err)
			}
		}
		files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%v, %v, want one file of content", files, err)
		}
		if got, err := os.ReadFile(files[0]); !bytes.Equal(got, big) {
			t.Errorf("%d bytes, %v, want the %d of the call", len(got), err, len(big))
		}
		brokers := s.Broker()
		denial := spec.Denial{Dst: "/r/a", Cause: spec.ErrReadOnly, Tool: "write", Target: "a", Gate: spec.GateOS}
		landed, err := brokers[0].Write(t.Context(), spec.WriteRequest{Denial: denial})
		if !landed || err != nil {
			t.Errorf("write: %v, %v", landed, err)
		}
		landed, err = brokers[1].Delete(t.Context(), spec.DeleteRequest{Denial: denial})
		if landed || err == nil || !strings.Contains(err.Error(), "not me") {
			t.Errorf("delete: %v, %v, want the child's error", landed, err)
		}
		c, has, err := s.ConfessEvents(t.Context(), []json.RawMessage{json.RawMessage(`{"seq":1.0}`)})
		if diff := cmp.Diff(spec.Confession{Status: "unavailable", Denials: []json.RawMessage{}}, c); !has || err != nil || diff != "" {
			t.Errorf("confession: %v, %v (-want +got):\n%s", has, err, diff)
		}
		if _, _, err := s.ConfessLog(t.Context(), nil); err != nil {
			t.Error(err)
		}
		closed(t, s, d)
		want := []string{
			`{"session":"s","root":"/r","allow":["/r/a"]}`,
			`{"call":{"id":7,"session":"s1","kind":"write","path":"p","args":{"a":[1.0]}},"deadline_ms":1500}`,
			`{"call":{"id":7,"session":"s1","kind":"write","path":"p","content_b64":"","args":{"a":[1.0]}},"deadline_ms":1500}`,
			`{"call":{"id":7,"session":"s1","kind":"write","path":"p","content_b64":"/w==","args":{"a":[1.0]}},"deadline_ms":1500}`,
			`{"call":{"id":7,"session":"s1","kind":"write","path":"p","content_file":"` + files[0] + `","args":{"a":[1.0]}},"deadline_ms":1500}`,
			`{"dst":"/r/a","content_b64":"","cause":{"class":"read_only_fs","errno":"EROFS"},"exclusive":false}`,
			`{"events":[{"seq":1.0}]}`,
			`{"log_b64":""}`,
		}
		if diff := cmp.Diff(want, (*actors)[0].heard); diff != "" {
			t.Errorf("the child heard (-want +got):\n%s", diff)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%v is left of the content", left)
		}
	})
}

func TestInfo(t *testing.T) {
	learned := sut.Info{
		Name: "scripted", Version: "1", Roles: []sut.Role{sut.RoleTools, sut.RoleRegistry},
		Features: []string{"confess", "log", "read", "write"}, Policies: spec.Policies{"links": "refuse"}, Wire: true,
	}
	synctest.Test(t, func(t *testing.T) {
		d := asFunction("good", Options{})
		for range 2 {
			got, err := d.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(learned, got); diff != "" {
				t.Errorf("learned (-want +got):\n%s", diff)
			}
		}
		closed(t, d)
	})
	synctest.Test(t, func(t *testing.T) {
		d := asFunction("dies at once", Options{Info: &sut.Info{Name: "given"}, Settable: []string{"links"}})
		got, err := d.Info(t.Context())
		if diff := cmp.Diff(sut.Info{Name: "given", Settable: []string{"links"}, Wire: true}, got); err != nil || diff != "" {
			t.Errorf("given: %v (-want +got):\n%s", err, diff)
		}
		closed(t, d)
	})
	synctest.Test(t, func(t *testing.T) {
		d := asFunction("version 99", Options{})
		if _, err := d.Info(t.Context()); !errors.Is(err, ErrChild) || !strings.Contains(err.Error(), "99") {
			t.Errorf("%v, want ErrChild and the version", err)
		}
		closed(t, d)
	})
}

func TestDiffers(t *testing.T) {
	sound := func() sut.Info {
		return sut.Info{
			Name: "n", Version: "1", Roles: []sut.Role{sut.RoleTools}, Features: []string{"read"},
			Policies: spec.Policies{"links": "refuse", "mode": "umask"}, Settable: []string{"links"},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*sut.Info)
		want   string
	}{
		{"nothing", func(*sut.Info) {}, ""},
		{"a policy that can be set", func(i *sut.Info) { i.Policies["links"] = "follow" }, ""},
		{"version", func(i *sut.Info) { i.Version = "2" }, "the implementation is not the one of the first greeting"},
		{"role", func(i *sut.Info) { i.Roles = nil }, "the roles are not those of the first greeting"},
		{"feature", func(i *sut.Info) { i.Features = nil }, "the capabilities are not those of the first greeting"},
		{"policy", func(i *sut.Info) { delete(i.Policies, "mode") }, "the policies are not those of the first greeting"},
	} {
		now := sound()
		tc.change(&now)
		if diff := cmp.Diff(tc.want, differs(sound(), now)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestPolicies(t *testing.T) {
	for _, tc := range []struct {
		name     string
		settable []string
		wanted   spec.Policies
		want     error
	}{
		{"declared", nil, spec.Policies{"links": "refuse"}, nil},
		{"declared otherwise", nil, spec.Policies{"links": "follow"}, sut.ErrPolicy},
		{"not declared", nil, spec.Policies{"xattr": "drop"}, sut.ErrPolicy},
		{"settable", []string{"links"}, spec.Policies{"links": "refuse"}, nil},
		{"settable, and not obeyed", []string{"links"}, spec.Policies{"links": "follow"}, sut.ErrPolicy},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := asFunction("good", Options{Settable: tc.settable})
				for range 2 { // before and after the greeting is known
					s, err := d.Open(t.Context(), sut.Env{Root: "/r", Policies: tc.wanted})
					if !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
						t.Errorf("%v, want %v", err, tc.want)
					}
					if err == nil {
						closed(t, s)
					}
				}
				closed(t, d)
			})
		})
	}
}

func TestChosenPoliciesReachTheCommandLine(t *testing.T) {
	var got spec.Policies
	d := New(Options{Settable: []string{"links"}, Command: func(root string, p spec.Policies) []string {
		got = p
		return []string{"/no/such/command", root}
	}})
	_, err := d.Open(t.Context(), sut.Env{Root: "/r", Policies: spec.Policies{"links": "follow"}})
	if err == nil || errors.Is(err, ErrChild) {
		t.Errorf("%v, want an error of the bench's", err)
	}
	if diff := cmp.Diff(spec.Policies{"links": "follow"}, got); diff != "" {
		t.Errorf("policies (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "--root=/r"}, Argv("a", "--root={root}")("/r", nil)); diff != "" {
		t.Errorf("command line (-want +got):\n%s", diff)
	}
	closed(t, d)
}

func TestMisuse(t *testing.T) {
	bubble(t, "good", func(s *Session, w *witness) {
		ctx, cancel := context.WithCancel(w.t.Context())
		cancel()
		o, err := s.Do(ctx, spec.Call{ID: 3, Kind: spec.CallRead})
		if diff := cmp.Diff(spec.Outcome{Call: 3}, o); err != nil || diff != "" {
			w.t.Errorf("ended context: %v (-want +got):\n%s", err, diff)
		}
		if _, err := s.Do(w.t.Context(), spec.Call{ID: 4, Kind: spec.CallRead, Path: "a\xff"}); !errors.Is(err, wire.ErrUnspeakable) {
			w.t.Errorf("a path that is not UTF-8: %v", err)
		}
		if _, err := s.Do(w.t.Context(), spec.Call{ID: 5, Kind: spec.CallRead, Path: strings.Repeat("a", wire.MaxLine)}); !errors.Is(err, wire.ErrUnspeakable) {
			w.t.Errorf("a path longer than a line: %v", err)
		}
		if o := do(w.t, s, 6); o.Status != ok {
			w.t.Errorf("the next call: %v", o.Status)
		}
		if err := s.Quiesce(w.t.Context()); err != nil {
			w.t.Error(err)
		}
		closed(w.t, s)
		if o, err := s.Do(w.t.Context(), spec.Call{ID: 7}); !errors.Is(err, ErrClosed) || o.Call != 0 {
			w.t.Errorf("a closed session: %v, %v", o, err)
		}
		closed(w.t, s.d)
		if _, err := s.d.Open(w.t.Context(), sut.Env{Root: "/r"}); !errors.Is(err, ErrClosed) {
			w.t.Errorf("a closed driver: %v", err)
		}
	})
}

// A child that takes nothing in any more holds up nobody: its queue fills, it
// counts as gone, and the next call goes to another.
func TestQueueFills(t *testing.T) {
	bubble(t, "stops reading", func(s *Session, w *witness) {
		path := strings.Repeat("p", 5<<20)
		for id := range spec.CallID(7) {
			ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
			o, err := s.Do(ctx, spec.Call{ID: id + 1, Kind: spec.CallRead, Path: path})
			cancel()
			if err != nil || o.Status != unknown && o.Status != ok {
				w.t.Errorf("call %d: %v, %v", id+1, o.Status, err)
			}
		}
		want := []string{`ERROR the child ended map[state:returned]`}
		if diff := cmp.Diff(want, w.diags); diff != "" {
			w.t.Errorf("diagnostics (-want +got):\n%s", diff)
		}
		if o := do(w.t, s, 8); o.Status != ok {
			w.t.Errorf("the call after it: %v, want ok", o.Status)
		}
	})
}

// Calls of different clients overlap, and each gets its own answer.
func TestOverlappingCalls(t *testing.T) {
	const n = 20
	var held []string
	var mu sync.Mutex
	s := script{wire.MethodDo: func(a *actor, m wire.Message) bool {
		mu.Lock()
		defer mu.Unlock()
		var params wire.Do
		if err := wire.Decode(m.Params, &params); err != nil {
			panic(err)
		}
		held = append(held, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":"applied","receipt":{"version":"%d"}}}`, m.ID, params.Call.ID))
		if len(held) < n {
			return true
		}
		for i := range held { // the last first
			a.say("%s", held[len(held)-1-i])
		}
		return true
	}}
	synctest.Test(t, func(t *testing.T) {
		d, _ := runScript(s, Options{})
		session := open(t, d, sut.Env{Root: "/r"})
		var calls sync.WaitGroup
		for id := range spec.CallID(n) {
			calls.Go(func() {
				if o := do(t, session, id+1); o.Call != id+1 || o.Version != fmt.Sprint(id+1) {
					t.Errorf("call %d got the answer of %s", id+1, o.Version)
				}
			})
		}
		calls.Wait()
		closed(t, session, d)
	})
}

// A function that does not end when it is killed is the bench's own failure.
func TestFunctionThatStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leave := make(chan struct{})
		d := Pipe(func(_ context.Context, in io.Reader, out, errs io.Writer) error {
			script{}.play(&actor{in: bufio.NewReader(in), out: out, errs: errs})
			<-leave
			return nil
		}, Options{})
		s := open(t, d, sut.Env{Root: "/r"})
		if err := s.Close(); err == nil {
			t.Error("no error, and it is still there")
		}
		close(leave)
		_ = d.Close()
	})
}
