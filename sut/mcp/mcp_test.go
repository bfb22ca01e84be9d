package mcp

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/suttest"
)

// bench is a driver of fake servers and what was seen of them.
type bench struct {
	*Driver
	root string
	env  sut.Env

	mu     sync.Mutex
	born   []*exec.Cmd
	faults []string
	diags  []string
}

func newBench(t *testing.T, server string, opt Options) *bench {
	t.Helper()
	if opt.Binding.Name == "" {
		opt.Binding = fakeBinding(os.Args[0])
	}
	d, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{Driver: d, root: realDir(t)}
	b.env = sut.Env{
		Root: b.root,
		Wrap: func(cmd *exec.Cmd) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.born = append(b.born, cmd)
			return again(cmd, server)
		},
		WireFault: func(kind, line, _ string) { b.faults = append(b.faults, kind+": "+line) },
		Diag: func(level, msg string, attrs map[string]string) {
			b.diags = append(b.diags, fmt.Sprint(level, " ", msg, " ", attrs))
		},
	}
	t.Cleanup(func() {
		closing := time.Now()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if took := time.Since(closing); took > 10*time.Second {
			t.Errorf("close took %v", took)
		}
		for _, cmd := range b.born {
			if cmd.Process != nil && cmd.ProcessState == nil {
				t.Errorf("process %d is left", cmd.Process.Pid)
			}
		}
	})
	return b
}

func (b *bench) open(t *testing.T) sut.Session {
	t.Helper()
	s, err := b.Open(t.Context(), b.env)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// do makes a call with a deadline and wants it to be an outcome.
func do(t *testing.T, s sut.Session, deadline time.Duration, c spec.Call) spec.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	o, err := s.Do(ctx, c)
	if err != nil {
		t.Fatalf("%s %s: %v", c.Kind, c.Path, err)
	}
	return o
}

func TestCalls(t *testing.T) {
	b := newBench(t, "plain", Options{})
	s := b.open(t)
	ok := spec.Outcome{Status: spec.StatusOK}
	for i, tc := range []struct {
		name string
		call spec.Call
		want spec.Outcome
	}{
		{"write", spec.Call{Kind: spec.CallWrite, Path: "f", Content: spec.Content("{path}")}, ok},
		{"read", spec.Call{Kind: spec.CallRead, Path: "f"}, spec.Outcome{Status: spec.StatusOK, Content: spec.Content("{path}")}},
		{"edit", spec.Call{Kind: spec.CallEdit, Path: "f", Content: spec.Content{0xff}}, ok},
		{"move", spec.Call{Kind: spec.CallMove, Path: "f", To: "g"}, ok},
		{"read it", spec.Call{Kind: spec.CallRead, Path: "g"}, spec.Outcome{Status: spec.StatusOK, Content: spec.Content("{path}/w==")}},
		{"view", spec.Call{Kind: spec.CallView, Path: "g"}, ok},
		{"tool", spec.Call{Kind: spec.CallTool, Tool: "put", Args: spec.Content(`{"at":"h","what":"x","mode":"over"}`)}, ok},
		{"read that", spec.Call{Kind: spec.CallRead, Path: "h"}, spec.Outcome{Status: spec.StatusOK, Content: spec.Content("x")}},
		{"delete", spec.Call{Kind: spec.CallDelete, Path: "g"}, ok},
		{"write nothing", spec.Call{Kind: spec.CallWrite, Path: "e"}, ok},
		{"read nothing", spec.Call{Kind: spec.CallRead, Path: "e"}, spec.Outcome{Status: spec.StatusOK, Content: spec.Content{}}},
		{"denied", spec.Call{Kind: spec.CallWrite, Path: "denied"}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrAccess, Errno: "EACCES", Detail: "EACCES: permission denied, open",
		}},
		{"refused by JSON-RPC", spec.Call{Kind: spec.CallWrite, Path: "refused"}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrAccess, Detail: "permission denied: refused",
		}},
		{"text that nobody knows", spec.Call{Kind: spec.CallDelete, Path: "odd"}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrOther, Detail: "it did not work",
		}},
		{"tool that nobody knows", spec.Call{Kind: spec.CallTool, Tool: "fly"}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrOther, Detail: `unknown tool "fly"`,
		}},
		{"content that is no text", spec.Call{Kind: spec.CallWrite, Path: "h", Content: spec.Content{0xff}}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrUnsupported, Detail: "the argument what of put is text, and what it was to hold is not",
		}},
		{"path that is no text", spec.Call{Kind: spec.CallRead, Path: "\xff"}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrUnsupported, Detail: "the argument at of take is text, and what it was to hold is not",
		}},
		{"arguments that are no JSON", spec.Call{Kind: spec.CallTool, Tool: "put", Args: spec.Content("{")}, spec.Outcome{
			Status: spec.StatusFailed, Err: spec.ErrUnsupported, Detail: "the tool or its arguments are not JSON",
		}},
	} {
		tc.call.ID = spec.CallID(i + 1)
		tc.want.Call = tc.call.ID
		if diff := cmp.Diff(tc.want, do(t, s, 20*time.Second, tc.call)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	o := do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallRead, Path: "none"})
	if o.Err != spec.ErrNotFound {
		t.Errorf("a file that is not there: %q, want the first pattern that matches %q", o.Err, o.Detail)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if b.faults != nil {
		t.Errorf("faults of an honest server: %q", b.faults)
	}
}

// TestHostile has servers misbehave in the middle of a call. Whatever they do,
// the next call finds one that serves.
func TestHostile(t *testing.T) {
	started := "ERROR the server ended map[state:exit status 3 stderr:out of memory]"
	for _, tc := range []struct {
		server   string
		deadline time.Duration
		want     spec.Status
		faults   []string
		diags    []string
		lives    int
	}{
		{"crashes", 20 * time.Second, spec.StatusUnknown, nil, []string{started}, 2},
		{"silent", time.Second, spec.StatusUnknown, nil, nil, 1},
		{"deaf", 20 * time.Second, spec.StatusOK, nil, nil, 1},
		{"prints", 20 * time.Second, spec.StatusOK, []string{`not-json: hello\n`, `not-object: [1]\n`, `not-jsonrpc: {}\n`, `bad-utf8: {\"x\":\"\xff\"}\n`}, nil, 1},
		{"storms", 20 * time.Second, spec.StatusOK, nil, nil, 1},
		{"raves", time.Second, spec.StatusUnknown, nil, nil, 1},
		{"logs", 20 * time.Second, spec.StatusOK, nil, []string{
			`WARN the server logged map[data:"it is full" logger:disk]`, `ERROR the server logged map[data:"it is full" logger:disk]`,
		}, 1},
		{"asks", 20 * time.Second, spec.StatusUnknown, nil, []string{
			"ERROR the server asks too much map[method:ping]", "ERROR the server ended map[state:signal: killed stderr:]",
		}, 2},
		{"long", 20 * time.Second, spec.StatusUnknown, []string{`line-too-long: ` + strings.Repeat("x", maxShown)}, []string{
			"ERROR the server ended map[state:signal: killed stderr:]",
		}, 2},
	} {
		t.Run(tc.server, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.server, Options{})
			s := b.open(t)
			asked := time.Now()
			got := do(t, s, tc.deadline, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad", Content: spec.Content("x")})
			if diff := cmp.Diff(spec.Outcome{Call: 1, Status: tc.want}, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if took := time.Since(asked); tc.deadline == time.Second && took > 5*time.Second {
				t.Errorf("the call took %v, its deadline was %v", took, tc.deadline)
			}
			if tc.server != "raves" { // which leaves no room for an answer
				got := do(t, s, 20*time.Second, spec.Call{ID: 2, Kind: spec.CallWrite, Path: "good"})
				if diff := cmp.Diff(spec.Outcome{Call: 2, Status: spec.StatusOK}, got); diff != "" {
					t.Errorf("the next call (-want +got):\n%s", diff)
				}
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(tc.faults, b.faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.diags, b.diags); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
			if len(b.born) != tc.lives {
				t.Errorf("%d servers were started, want %d", len(b.born), tc.lives)
			}
		})
	}
}

// A server that only prints is listened to for so long, and no longer.
func TestShouting(t *testing.T) {
	b := newBench(t, "shouts", Options{})
	s := b.open(t)
	got := do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad"})
	if diff := cmp.Diff(spec.Outcome{Call: 1}, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(b.faults) != maxFaults+1 {
		t.Errorf("%d faults, want %d", len(b.faults), maxFaults+1)
	}
}

// Answers that are no results are answers that nobody knows, and no reason to ask
// once more.
func TestAnswersOfTheWrongShape(t *testing.T) {
	for _, tc := range []struct {
		server string
		want   spec.Outcome
		fault  string
		diag   string
	}{
		{"shape", spec.Outcome{Call: 1}, "bad-outcome: ", ""},
		{"input", spec.Outcome{Call: 1}, "", "WARN the server wants an answer from somebody before it goes on map[]"},
		{"bytes", spec.Outcome{Call: 1, Status: spec.StatusOK, Content: spec.Content("a\x00\xff\xffz")}, "", ""},
	} {
		t.Run(tc.server, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.server, Options{})
			s := b.open(t)
			got := do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if calls, err := os.ReadFile(filepath.Join(b.root, "calls")); string(calls) != "call\n" {
				t.Errorf("%q, %v, want one call", calls, err)
			}
			if diff := cmp.Diff(tc.fault, strings.Join(b.faults, "; ")); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.diag, strings.Join(b.diags, "; ")); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	refusal := errors.New("no jail here")
	for _, tc := range []struct {
		name   string
		server string
		wrap   func(*exec.Cmd) error
		argv   string
		want   error
		text   string
	}{
		{"silent", "hangs", nil, "", ErrServer, "silent for 500ms"},
		{"dead", "dies", nil, "", ErrServer, "it ended: exit status 3: no licence"},
		{"other tools", "toolish", nil, "", errTools, `delete: no tool "drop" among ["other"]`},
		{"no jail", "plain", func(*exec.Cmd) error { return refusal }, "", refusal, ""},
		{"no program", "plain", func(*exec.Cmd) error { return nil }, filepath.Join(t.TempDir(), "none"), os.ErrNotExist, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			opt := Options{Patience: 20 * time.Second}
			if tc.name == "silent" {
				opt.Patience = 500 * time.Millisecond
			}
			if tc.argv != "" {
				opt.Binding = fakeBinding(tc.argv)
			}
			b := newBench(t, tc.server, opt)
			if tc.wrap != nil {
				b.env.Wrap = tc.wrap
			}
			s, err := b.Open(t.Context(), b.env)
			if s != nil || !errors.Is(err, tc.want) || !strings.Contains(fmt.Sprint(err), tc.text) {
				t.Errorf("%v, %v, want %v with %q", s, err, tc.want, tc.text)
			}
		})
	}
}

// A server that does not come up again is the subject's failure.
func TestDeadForGood(t *testing.T) {
	b := newBench(t, "", Options{})
	server := "crashes"
	b.env.Wrap = func(cmd *exec.Cmd) error { return again(cmd, server) }
	s := b.open(t)
	do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad"})
	server = "dies"
	got := do(t, s, 20*time.Second, spec.Call{ID: 2, Kind: spec.CallRead, Path: "f"})
	if diff := cmp.Diff(spec.Outcome{Call: 2}, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if len(b.diags) != 3 || !strings.Contains(b.diags[2], "it ended: exit status 3: no licence") {
		t.Errorf("diagnostics %q, want the last to say why", b.diags)
	}
}

// Close ends what is under way.
func TestCloseDuringACall(t *testing.T) {
	b := newBench(t, "silent", Options{})
	s := b.open(t)
	done := make(chan spec.Outcome, 1)
	go func() {
		o, err := s.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad"})
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	time.Sleep(100 * time.Millisecond) // either side of the request will do
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	select {
	case o := <-done:
		if diff := cmp.Diff(spec.Outcome{Call: 1}, o); diff != "" {
			t.Errorf("outcome (-want +got):\n%s", diff)
		}
	case <-time.After(20 * time.Second):
		t.Error("the call is still waiting")
	}
	if _, err := s.Do(t.Context(), spec.Call{ID: 2, Kind: spec.CallRead}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed session: %v", err)
	}
}

// wrapped runs every session's server as the plain one.
type wrapped struct{ *Driver }

func (w wrapped) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	env.Wrap = func(cmd *exec.Cmd) error { return again(cmd, "plain") }
	return w.Driver.Open(ctx, env)
}

func TestAdaptorContract(t *testing.T) {
	b := newBench(t, "plain", Options{})
	if err := suttest.TestDriver(t.Context(), wrapped{b.Driver}, func() (string, error) { return realDir(t), nil }); err != nil {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	b := newBench(t, "plain", Options{})
	got, err := b.Info(t.Context())
	want := sut.Info{
		Name: "fake", Version: "1", Roles: []sut.Role{sut.RoleTools}, Policies: spec.Policies{"links": "follow"},
		Features: []string{"delete", "dev_view", "edit", "move", "read", "tool", "write"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := New(Options{}); err == nil {
		t.Error("a driver without a binding")
	}
}

// What a server makes the bench write down has a limit, and after Close there is
// nobody to tell.
func TestReportsAreLimited(t *testing.T) {
	b := newBench(t, "plain", Options{})
	s, err := b.session(b.env)
	if err != nil {
		t.Fatal(err)
	}
	for range maxReports {
		s.fault("not-json", "", "")
	}
	for range 2 {
		s.report("WARN", "one more", nil)
	}
	if len(b.faults) != maxReports {
		t.Errorf("%d faults, want %d", len(b.faults), maxReports)
	}
	if diff := cmp.Diff([]string{"ERROR more diagnostics were left out map[]"}, b.diags); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	other, err := b.session(b.env)
	if err != nil {
		t.Fatal(err)
	}
	other.fail(errSample)
	if err := other.Close(); !errors.Is(err, errSample) {
		t.Errorf("close: %v, want what failed", err)
	}
	if _, err := other.live(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("a server for a closed session: %v", err)
	}
	other.report("WARN", "after close", nil)
	if len(b.diags) != 1 {
		t.Errorf("diagnostics after close: %q", b.diags)
	}
}

var errSample = errors.New("the bench could not do its part")

// A server that lives serves another run, with room for its diagnostics; one that
// does not is not started again for it.
func TestLasting(t *testing.T) {
	b := newBench(t, "crashes", Options{})
	s := b.open(t).(sut.Lasting)
	s.(*session).reports = maxReports
	if err := errors.Join(s.Rest(t.Context()), s.Again(t.Context())); err != nil {
		t.Error(err)
	}
	s.(*session).report("WARN", "of the next run", nil)
	if len(b.diags) != 1 {
		t.Errorf("diagnostics %q, want that of the next run", b.diags)
	}
	do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad"})
	if err := s.Again(t.Context()); !errors.Is(err, ErrServer) || len(b.born) != 1 {
		t.Errorf("after a crash: %v, and %d servers", err, len(b.born))
	}
}
