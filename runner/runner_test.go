package runner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

var errTest = errors.New("something of the bench's own")

// mkdir has a subject make a directory by its port.
func mkdir(env sut.Env, name string) error {
	root, err := env.FS.OpenRoot(env.Root)
	if err != nil {
		return err
	}
	return errors.Join(root.Mkdir(name, 0o755), root.Close())
}

func TestOrder(t *testing.T) {
	s := parse(t, `title: everything that can be in a trace
-- world --
ws/a file content=old
-- brokers --
write honest
-- steps --
edit write ws/b content=b
edit remove ws/nothing
1 write x content=new
2 read a session=""
-- faults --
f1 op=mkdir under=ws nth=1 errno=EACCES
f2 op=mkdir under=ws nth=1 swap
	rename ws/b to=ws/c
	remove ws/nothing
`)
	d := &fake{info: sut.Info{Name: "fake"}}
	d.open = func(_ int, env sut.Env) (*session, error) {
		calls := 0
		return &session{logs: entries("l1", "l2"), do: func(_ context.Context, c spec.Call) (spec.Outcome, error) {
			if calls++; calls == 2 {
				env.WireFault("late", "line", "")
				return spec.Outcome{Status: spec.StatusFailed, Err: spec.ErrAccess}, nil
			}
			refused := mkdir(env, "d")
			r := spec.WriteRequest{Content: c.Content}
			r.Dst = env.Root + "/" + c.Path
			landed, err := env.Handlers[0].Write(t.Context(), r)
			env.Diag("WARN", fmt.Sprint(refused != nil, landed, err), nil)
			return spec.Outcome{Status: spec.StatusOK, Version: "v1"}, mkdir(env, "e")
		}}, nil
	}
	run, err := execute(t, d, newBox(nil), s, runner.Options{})
	if err != nil || run.Skip != "" || len(run.Unfired) > 0 {
		t.Errorf("%v, skipped %q, unfired %v", err, run.Skip, run.Unfired)
	}
	want := `0 bench header fake
0 world world ws ws/a
0 bench edit write ws/b content=b
0 world world ws ws/a ws/b
1 bench invoke write x
1 fault fault f1 ws/d EACCES
1 bench consult 1 acted=true landed
1 sut diag WARN true true <nil>
1 fault fault f2 ws/e swap
1 fault edit rename ws/b to=ws/c
1 sut log l1
1 sut log l2
1 world world ws ws/a ws/c ws/e ws/x
1 sut return 1 ok
2 bench invoke read a
2 bench wire late
2 world world ws ws/a ws/c ws/e ws/x
2 sut return 2 failed
`
	if diff := cmp.Diff(want, told(run.Events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestHeader(t *testing.T) {
	s := parse(t, "title: t\npolicies: links=follow\n-- brokers --\ndelete liar\n-- steps --\n1 read a\n")
	for _, host := range []bool{true, false} {
		d := &fake{info: sut.Info{
			Name: "n", Version: "v", Roles: []sut.Role{sut.RoleTools}, Features: []string{"log"}, Wire: true,
			Policies: spec.Policies{"links": "refuse", "hardlink": "break"},
		}}
		if host {
			d.info.Roles = append(d.info.Roles, sut.RoleHost)
		}
		run, err := execute(t, d, newBox(nil), s, runner.Options{})
		if err != nil {
			t.Fatal(err)
		}
		h := run.Events[0].Header
		want := trace.Header{
			Format: trace.Format, Scenario: "test", Subject: "n", Version: "v", Sandbox: "mem", Root: "/ws", Wire: true, Counted: true,
			Policies: spec.Policies{"links": "follow", "hardlink": "break"}, Claims: []string{"tools", "log"},
			Brokers: []spec.Broker{{Seam: spec.SeamDelete, Kind: spec.Liar}},
		}
		paths := "ws"
		if host {
			want.Claims, paths = []string{"tools", "host", "log"}, "ws ws/.pixir ws/.pixir/sessions"
		}
		if diff := cmp.Diff(want, *h); diff != "" {
			t.Errorf("header (-want +got):\n%s", diff)
		}
		if got := strings.Join(run.Events[1].World.Paths(), " "); got != paths {
			t.Errorf("host %v: the tree is %s, want %s", host, got, paths)
		}
	}
}

// TestSubstitutions expects that what a scenario says about a run is put into the
// words of the run, in calls, edits and faults, and in what is recorded of them.
func TestSubstitutions(t *testing.T) {
	s := parse(t, `title: t
-- world --
ws/a file content=a
-- steps --
1 write "{root}/a" content=new
2 read a
edit symlink ws/l to="{root}/a"
3 move "{root}/a" to="{root}/b" expect=@1
4 write a content="" expect=@2
5 write a content="" expect=absent
-- faults --
f1 op=mkdir under=ws nth=1 swap
	symlink ws/m to="{root}/a"
`)
	var calls []spec.Call
	d := &fake{}
	d.open = func(_ int, env sut.Env) (*session, error) {
		return &session{do: func(_ context.Context, c spec.Call) (spec.Outcome, error) {
			calls = append(calls, c)
			out := spec.Outcome{Status: spec.StatusOK, Call: 99}
			if c.ID == 1 {
				out.Version = "version of 1"
				return out, mkdir(env, "d")
			}
			return out, nil
		}}, nil
	}
	b := newBox(nil)
	run, err := execute(t, d, b, s, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, strings.Join([]string{c.Path, c.To, c.ExpectVersion}, " "))
	}
	want := []string{"/ws/a  ", "a  ", "/ws/a /ws/b version of 1", "a  none", "a  absent"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if to := b.edits[0].To; to != "/ws/a" {
		t.Errorf("the edit leads to %q", to)
	}
	if to := b.plan.Injections[0].Do.Swap[0].To; to != "/ws/a" {
		t.Errorf("the swap leads to %q", to)
	}
	if to := s.Faults.Injections[0].Do.Swap[0].To; to != "{root}/a" {
		t.Errorf("the scenario itself was changed: its swap leads to %q", to)
	}
	if text := told(run.Events); strings.Contains(text, "{root}") || strings.Count(text, "to=/ws/a") != 2 {
		t.Errorf("recorded:\n%s", text)
	}
	for _, e := range run.Events {
		if e.Return != nil && e.Return.Call != e.Call {
			t.Errorf("the answer to call %d says that it is to %d", e.Call, e.Return.Call)
		}
	}
}

// TestASubjectThatScribbles expects that the record keeps what was sent.
func TestASubjectThatScribbles(t *testing.T) {
	s := parse(t, "title: t\n-- brokers --\nwrite mutates\n-- steps --\n1 write a content=new\n")
	d := &fake{}
	d.open = func(_ int, env sut.Env) (*session, error) {
		return &session{do: func(ctx context.Context, c spec.Call) (spec.Outcome, error) {
			r := spec.WriteRequest{Content: slices.Clone(c.Content)}
			r.Dst = env.Root + "/a"
			clear(c.Content)
			if _, err := env.Handlers[0].Write(ctx, r); err != nil || string(r.Content) == "new" {
				t.Errorf("the broker left %q (%v)", r.Content, err)
			}
			clear(r.Content)
			return spec.Outcome{}, nil
		}}, nil
	}
	run, err := execute(t, d, newBox(nil), s, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range run.Events {
		if e.Invoke != nil && string(e.Invoke.Content) != "new" {
			t.Errorf("recorded call: %q", e.Invoke.Content)
		}
		if e.Consult != nil && string(e.Consult.Write.Content) != "new" {
			t.Errorf("recorded request: %q", e.Consult.Write.Content)
		}
	}
}

const crashing = `title: t
-- brokers --
write honest
-- steps --
1 read a
2 write x content=new
3 read a
4 read a
-- faults --
kill op=mkdir under=ws nth=1 crash
`

// TestCrash kills a subject in its second call. The next process shows its Log
// from the start, as far as it still has it.
func TestCrash(t *testing.T) {
	for _, tc := range []struct {
		name  string
		again []string // what the second process has in its Log at call 2
		later []string // and at call 3 on
		want  string   // Log entries in the trace, those of a call behind its number
	}{
		{"the whole Log", []string{"a", "b", "c"}, nil, "1ab 2c"},
		{"nothing new", []string{"a", "b"}, []string{"c"}, "1ab 3c"},
		{"shown late", nil, []string{"a", "b", "c"}, "1ab 3c"},
		{"an entry lost", []string{"a"}, []string{"c"}, "1ab 3c"},
		{"all lost", nil, []string{"c"}, "1ab 3c"},
		{"another one lost", []string{"b", "c"}, nil, "1ab 2bc"},
		{"changed", []string{"a", "x", "c"}, []string{"d"}, "1ab 2xc 3d"},
		{"one slipped in", []string{"a", "x", "b", "c"}, nil, "1ab 2xbc"},
		{"written twice", []string{"a", "b", "a", "b"}, nil, "1ab 2ab"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := &fake{}
			d.open = func(n int, env sut.Env) (*session, error) {
				s := &session{}
				s.logs = entries("a", "b")
				if n == 2 {
					s.logs = entries(tc.again...)
				}
				s.do = func(ctx context.Context, c spec.Call) (spec.Outcome, error) {
					if c.ID == 3 {
						s.logs = entries(tc.later...)
					}
					if c.ID != 2 {
						return spec.Outcome{Status: spec.StatusOK}, nil
					}
					// A process that is dead can do nothing more, whatever its code does.
					err := mkdir(env, "d")
					r := spec.WriteRequest{Content: c.Content}
					r.Dst = env.Root + "/x"
					landed, asked := env.Handlers[0].Write(ctx, r)
					if err == nil || landed || asked == nil {
						t.Errorf("after the kill: %v, %v, %v", err, landed, asked)
					}
					return spec.Outcome{Status: spec.StatusOK, Version: "v"}, nil
				}
				return s, nil
			}
			run, err := execute(t, d, newBox(nil), parse(t, crashing), runner.Options{})
			if err != nil || d.opened != 2 || len(run.Unfired) > 0 {
				t.Fatalf("%v, %d processes, unfired %v", err, d.opened, run.Unfired)
			}
			var logs []string
			var kinds []string
			for _, e := range run.Events {
				switch {
				case e.Log != nil:
					if n := len(logs); n == 0 || logs[n-1][0] != fmt.Sprint(e.Call)[0] {
						logs = append(logs, fmt.Sprint(e.Call))
					}
					logs[len(logs)-1] += e.Log.ID
				case e.Call == 2 && e.Return != nil:
					kinds = append(kinds, e.Return.Status.String())
					if e.Return.Version != "" || e.Return.Detail != "the process was killed" {
						t.Errorf("returned %+v", e.Return)
					}
				case e.Call == 2 && e.Consult != nil:
					t.Error("a dead process was heard")
				}
			}
			if got := strings.Join(logs, " "); got != tc.want {
				t.Errorf("Log %s, want %s", got, tc.want)
			}
			if !slices.Equal(kinds, []string{"unknown"}) {
				t.Errorf("the killed call ended %v", kinds)
			}
		})
	}
}

// TestNoSecondProcess expects that a subject which cannot be started again breaks
// the run: it has done things by then, and no reason makes them not worth judging.
func TestNoSecondProcess(t *testing.T) {
	for _, reason := range []error{errTest, sut.ErrPolicy, sandbox.ErrCannot} {
		d := &fake{}
		d.open = func(n int, env sut.Env) (*session, error) {
			if n == 2 {
				return nil, reason
			}
			return &session{do: func(_ context.Context, c spec.Call) (spec.Outcome, error) {
				if c.ID == 2 {
					_ = mkdir(env, "d")
				}
				return spec.Outcome{Status: spec.StatusOK}, nil
			}}, nil
		}
		run, err := execute(t, d, newBox(nil), parse(t, crashing), runner.Options{})
		if !errors.Is(err, reason) || run.Skip != "" || len(run.Events) < 5 {
			t.Errorf("%v: %v, skipped %q, %d events", reason, err, run.Skip, len(run.Events))
		}
	}
}

const two = "title: t\n-- steps --\n1 read a\n2 read b\n"

func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			name  string
			do    func(ctx context.Context, c spec.Call) (spec.Outcome, error)
			calls int
			first spec.Status
		}{
			{"in time", nil, 2, spec.StatusOK},
			{"never", func(ctx context.Context, _ spec.Call) (spec.Outcome, error) {
				<-ctx.Done()
				return spec.Outcome{}, nil
			}, 1, spec.StatusUnknown},
			{"at the last moment", func(ctx context.Context, _ spec.Call) (spec.Outcome, error) {
				<-ctx.Done()
				return spec.Outcome{Status: spec.StatusOK}, nil
			}, 2, spec.StatusOK},
			{"unknown, but in time", func(context.Context, spec.Call) (spec.Outcome, error) {
				return spec.Outcome{}, nil
			}, 2, spec.StatusUnknown},
		} {
			d := &fake{open: func(int, sut.Env) (*session, error) { return &session{do: tc.do}, nil }}
			start := time.Now()
			run, err := execute(t, d, newBox(nil), parse(t, two), runner.Options{Deadline: time.Minute})
			if took := time.Since(start); err != nil || took > 2*time.Minute {
				t.Errorf("%s: %v after %v", tc.name, err, took)
			}
			var ends []spec.Status
			for _, e := range run.Events {
				if e.Return != nil {
					ends = append(ends, e.Return.Status)
				}
			}
			if len(ends) != tc.calls || ends[0] != tc.first {
				t.Errorf("%s: the calls ended %v, want %d, the first %s", tc.name, ends, tc.calls, tc.first)
			}
		}
	})
}

// TestInterrupted expects that a run which its caller ends is no run: the subject
// was not late.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	d := &fake{open: func(int, sut.Env) (*session, error) {
		return &session{do: func(ctx context.Context, _ spec.Call) (spec.Outcome, error) {
			cancel(errTest)
			<-ctx.Done()
			return spec.Outcome{}, nil
		}}, nil
	}}
	b := newBox(nil)
	run, err := runner.Execute(ctx, d, b, parse(t, two), runner.Options{})
	if !errors.Is(err, context.Canceled) || b.closed != 1 || d.sessions[0].closed != 1 {
		t.Errorf("%v; closed: sandbox %d, session %d", err, b.closed, d.sessions[0].closed)
	}
	if strings.Contains(told(run.Events), "return") {
		t.Errorf("an answer was recorded:\n%s", told(run.Events))
	}
}

func TestSkips(t *testing.T) {
	cannot := fmt.Errorf("%w: not here", sandbox.ErrCannot)
	policy := fmt.Errorf("%w: links=follow", sut.ErrPolicy)
	opens := func(err error) func(int, sut.Env) (*session, error) {
		return func(int, sut.Env) (*session, error) { return &session{}, err }
	}
	const edit = "title: t\n-- steps --\n1 read a\nedit write ws/a content=a\n2 read b\n"
	for _, tc := range []struct {
		name   string
		text   string
		driver *fake
		fail   map[string]error
		want   string
		err    error
	}{
		{"no such capability", "title: t\nneeds: durability\n-- steps --\n1 read a\n", &fake{}, nil, "capability durability", nil},
		{"no wire", "title: t\nneeds: wire\n-- steps --\n1 read a\n", &fake{}, nil, "there is no wire", nil},
		{"no such call", "title: t\nrules: AT-017\n-- steps --\n1 move a to=b\n", &fake{}, nil, "does not claim move", nil},
		{
			"no versions", "title: t\nrules: AT-009\n-- steps --\n1 write a content=x expect=absent\n",
			&fake{info: sut.Info{Features: []string{"write"}}}, nil, "does not claim expect_version", nil,
		},
		{"cannot be built", two, &fake{}, map[string]error{"build": cannot}, "build world: " + cannot.Error(), nil},
		{"cannot be armed", two, &fake{}, map[string]error{"arm": cannot}, "arm faults: " + cannot.Error(), nil},
		{"cannot be jailed", two, &fake{open: opens(cannot)}, nil, "open session: " + cannot.Error(), nil},
		{"no such policy", two, &fake{open: opens(policy)}, nil, "open session: " + policy.Error(), nil},
		{"cannot be edited", edit, &fake{}, map[string]error{"edit": cannot}, "edit write ws/a: " + cannot.Error(), nil},
		{"and cannot be closed", two, &fake{}, map[string]error{"build": cannot, "close": errTest}, "not here", errTest},
		{"and cannot be stopped", two, &fake{open: opens(policy)}, map[string]error{"stop": errTest}, "links=follow", errTest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run, err := execute(t, tc.driver, newBox(tc.fail), parse(t, tc.text), runner.Options{})
			if !strings.Contains(run.Skip, tc.want) || run.Skip == "" {
				t.Errorf("skipped for %q, want %q", run.Skip, tc.want)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
		})
	}
}

// TestErrors expects that what goes wrong with the bench, or with a driver, is an
// error and nothing else: no skip, and no answer of the subject's.
func TestErrors(t *testing.T) {
	const edit = "title: t\n-- steps --\nedit write ws/a content=a\n1 read a\n"
	failing := func(s session) func(int, sut.Env) (*session, error) {
		return func(int, sut.Env) (*session, error) { return &s, nil }
	}
	do := func(context.Context, spec.Call) (spec.Outcome, error) {
		return spec.Outcome{Status: spec.StatusOK}, errTest
	}
	for _, tc := range []struct {
		name   string
		text   string
		driver *fake
		fail   map[string]error
		step   string // of the error
	}{
		{"info", two, &fake{infoErr: errTest}, nil, "identify subject: "},
		{"build", two, &fake{}, map[string]error{"build": errTest}, "build world: "},
		{"arm", two, &fake{}, map[string]error{"arm": errTest}, "arm faults: "},
		{"observe", two, &fake{}, map[string]error{"observe": errTest}, "observe: "},
		{"open", two, &fake{open: func(int, sut.Env) (*session, error) { return nil, errTest }}, nil, "open session: "},
		{"edit", edit, &fake{}, map[string]error{"edit": errTest}, "edit write ws/a: "},
		{"do", two, &fake{open: failing(session{do: do})}, nil, "call 1: "},
		{"log", two, &fake{open: failing(session{logErr: errTest})}, nil, "call 1: read log: "},
		{"observe after a call", two, &fake{}, map[string]error{"observe again": errTest}, "call 1: observe: "},
		{"close", two, &fake{open: failing(session{closeErr: errTest})}, nil, ""},
		{"stop", two, &fake{}, map[string]error{"stop": errTest}, ""},
		{"close the sandbox", two, &fake{}, map[string]error{"close": errTest}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			run, err := execute(t, tc.driver, newBox(tc.fail), parse(t, tc.text), runner.Options{})
			if !errors.Is(err, errTest) || !strings.HasPrefix(err.Error(), tc.step) {
				t.Errorf("error %q, want it to begin with %q", err, tc.step)
			}
			if run.Skip != "" {
				t.Errorf("skipped for %q", run.Skip)
			}
			if answered := strings.Contains(told(run.Events), "return"); answered != (tc.step == "") {
				t.Errorf("recorded:\n%s", told(run.Events))
			}
		})
	}
}
