package exec

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	osexec "os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/suttest"
)

// The test binary is the command. The variable says which.
const childEnv = "FSBENCH_EXEC_CHILD"

func TestMain(m *testing.M) {
	if name := os.Getenv(childEnv); name != "" {
		commands[name]()
		return
	}
	os.Exit(m.Run())
}

func prints(text string) func() {
	return func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		fmt.Fprint(os.Stdout, text)
	}
}

var commands = map[string]func(){
	"plain":   plain,
	"echo":    echo,
	"applied": prints(`{"outcome":"applied"}`),
	"line":    prints("{\"outcome\":\"applied\"}\r\n"),
	"deaf":    func() { fmt.Fprint(os.Stdout, `{"outcome":"applied"}`) },
	"empty":   prints(""),
	"banner":  prints("done\n" + `{"outcome":"applied"}`),
	"two":     prints(`{"outcome":"applied"}` + "\n" + `{"outcome":"applied"}`),
	"list":    prints(`[{"outcome":"applied"}]`),
	"double":  prints(`{"outcome":"applied","outcome":"unknown"}`),
	"bytes":   prints("{\"outcome\":\"applied\",\"x\":\"\xff\"}"),
	"deep":    prints(`{"outcome":"applied","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`),
	"word":    prints(`{"outcome":"done"}`),
	"message": prints(`{"jsonrpc":"2.0","id":1,"result":{"outcome":"applied"}}`),
	"receipt": prints(`{"outcome":"applied","receipt":{"dst":"/etc/passwd"}}`),
	"long":    prints(`{"outcome":"applied","x":"` + strings.Repeat("x", wire.MaxLine) + `"}`),
	"fails": func() {
		fmt.Fprint(os.Stdout, `{"outcome":"applied"}`)
		fmt.Fprint(os.Stderr, "no \x1b[31mdisk")
		os.Exit(3)
	},
	"hangs": func() { fmt.Fprint(os.Stdout, `{"outcome":"applied"}`); <-make(chan struct{}) },
	"prints on": func() {
		for {
			fmt.Fprintln(os.Stdout, "noise")
		}
	},
	"grandchild":   grandchild,
	"closes early": func() { _ = os.Stdout.Close(); <-make(chan struct{}) },
}

// plain answers as the plain subject does, which keeps nothing from call to call.
func plain() {
	line, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var c wire.Call
	if err := wire.Decode(line, &c); err != nil {
		panic(err)
	}
	call, err := c.Spec(wire.ReadFile)
	if err != nil {
		panic(err)
	}
	s, err := suttest.Plain().Open(context.Background(), sut.Env{Root: os.Args[1]})
	if err != nil {
		panic(err)
	}
	o, err := s.Do(context.Background(), call)
	if err != nil {
		panic(err)
	}
	w, err := wire.FromOutcome(o)
	if err != nil {
		panic(err)
	}
	_ = json.NewEncoder(os.Stdout).Encode(w)
}

// echo says what it was asked.
func echo() {
	line, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	out, _ := json.Marshal(map[string]any{"outcome": "unknown", "error": map[string]string{"message": os.Args[1] + " " + line}})
	fmt.Fprint(os.Stdout, string(out))
}

// grandchild leaves one behind that holds the output.
func grandchild() {
	child := osexec.CommandContext(context.Background(), "/proc/self/exe")
	child.Env = append(os.Environ(), childEnv+"=hangs")
	child.Stdout = os.Stderr
	_ = child.Start()
	fmt.Fprint(os.Stdout, `{"outcome":"applied"}`)
}

func driver(t *testing.T, info sut.Info) *Driver {
	t.Helper()
	return New(Options{Command: Argv("/proc/self/exe", "{root}"), Info: info, ContentDir: t.TempDir()})
}

// as makes the command what name says, and keeps it.
func as(name string, born *[]*osexec.Cmd) func(*osexec.Cmd) error {
	var mu sync.Mutex
	return func(cmd *osexec.Cmd) error {
		cmd.Env = append(os.Environ(), childEnv+"="+name, "GORACE=atexit_sleep_ms=0")
		mu.Lock()
		defer mu.Unlock()
		*born = append(*born, cmd)
		return nil
	}
}

func TestCommands(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   spec.Status
		faults []string
		diags  []string
	}{
		{"applied", spec.StatusOK, nil, nil},
		{"line", spec.StatusOK, nil, nil},
		{"deaf", spec.StatusOK, nil, nil},
		{"empty", spec.StatusUnknown, []string{"not-json: "}, nil},
		{"banner", spec.StatusUnknown, []string{`not-json: done\x0a{"outcome":"applied"}`}, nil},
		{"two", spec.StatusUnknown, []string{`not-json: {"outcome":"applied"}\x0a{"outcome":"applied"}`}, nil},
		{"list", spec.StatusUnknown, []string{`not-object: [{"outcome":"applied"}]`}, nil},
		{"double", spec.StatusUnknown, []string{`duplicate-key: {"outcome":"applied","outcome":"unknown"}`}, nil},
		{"bytes", spec.StatusUnknown, []string{`bad-utf8: {"outcome":"applied","x":"\xff"}`}, nil},
		{"deep", spec.StatusUnknown, []string{`too-deep: {"outcome":"applied","x":` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + `}`}, nil},
		{"word", spec.StatusUnknown, []string{`bad-outcome: {"outcome":"done"}`}, nil},
		{"message", spec.StatusUnknown, []string{`bad-outcome: {"jsonrpc":"2.0","id":1,"result":{"outcome":"applied"}}`}, nil},
		{"receipt", spec.StatusUnknown, []string{`bad-receipt: {"outcome":"applied","receipt":{"dst":"/etc/passwd"}}`}, nil},
		{"long", spec.StatusUnknown, []string{`line-too-long: {"outcome":"applied","x":"` + strings.Repeat("x", 174)}, nil},
		{"prints on", spec.StatusUnknown, []string{`line-too-long: ` + strings.Repeat(`noise\x0a`, 33) + "no"}, nil},
		{"fails", spec.StatusUnknown, nil, []string{`ERROR the command failed map[state:exit status 3 stderr:no \x1b[31mdisk]`}},
		{"hangs", spec.StatusUnknown, nil, nil},
		{"closes early", spec.StatusUnknown, nil, nil},
		{"grandchild", spec.StatusOK, nil, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := driver(t, sut.Info{Name: tc.name})
			var born []*osexec.Cmd
			var faults, diags []string
			s, err := d.Open(t.Context(), sut.Env{
				Root: "/r", Wrap: as(tc.name, &born),
				WireFault: func(kind, line, _ string) { faults = append(faults, kind+": "+line) },
				Diag: func(level, msg string, attrs map[string]string) {
					diags = append(diags, fmt.Sprint(level, " ", msg, " ", attrs))
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			deadline := 20 * time.Second
			if tc.want == spec.StatusUnknown && tc.faults == nil && tc.diags == nil {
				deadline = time.Second // these never end by themselves
			}
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			o, err := s.Do(ctx, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "f", Content: spec.Content("x")})
			if diff := cmp.Diff(spec.Outcome{Call: 1, Status: tc.want}, o); err != nil || diff != "" {
				t.Errorf("outcome: %v (-want +got):\n%s", err, diff)
			}
			if diff := cmp.Diff(tc.faults, faults); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.diags, diags); diff != "" {
				t.Errorf("diagnostics (-want +got):\n%s", diff)
			}
			if err := errors.Join(s.Close(), s.Close(), d.Close()); err != nil {
				t.Error(err)
			}
			for _, cmd := range born {
				if err := syscall.Kill(cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
					t.Errorf("process %d is left: %v", cmd.Process.Pid, err)
				}
			}
		})
	}
}

func TestWhatTheCommandIsGiven(t *testing.T) {
	d := driver(t, sut.Info{Name: "echo"})
	var born []*osexec.Cmd
	s, err := d.Open(t.Context(), sut.Env{Root: "/r", Wrap: as("echo", &born)})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Do(t.Context(), spec.Call{ID: 4, Session: "s1", Kind: spec.CallWrite, Path: "p", Content: spec.Content{0xff}})
	if err != nil {
		t.Fatal(err)
	}
	want := `/r {"id":4,"session":"s1","kind":"write","path":"p","content_b64":"/w=="}` + "\n"
	if diff := cmp.Diff(want, o.Detail); diff != "" {
		t.Errorf("small (-want +got):\n%s", diff)
	}
	o, err = s.Do(t.Context(), spec.Call{ID: 5, Kind: spec.CallWrite, Path: "p", Content: make(spec.Content, wire.MaxInline+1)})
	if err != nil || !strings.Contains(o.Detail, `"content_file":"`+d.opt.ContentDir) {
		t.Errorf("large: %v, %s, want a file in %s", err, o.Detail, d.opt.ContentDir)
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(d.opt.ContentDir + "/*"); left != nil {
		t.Errorf("%v is left of the content", left)
	}
}

// wrapped runs every session's command as the plain subject.
type wrapped struct{ *Driver }

func (w wrapped) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	var born []*osexec.Cmd
	env.Wrap = as("plain", &born)
	return w.Driver.Open(ctx, env)
}

func TestAdaptorContract(t *testing.T) {
	d := driver(t, sut.Info{Name: "plain", Roles: []sut.Role{sut.RoleTools}, Features: []string{"read", "write"}, Policies: spec.Policies{"links": "refuse"}})
	var n atomic.Int32
	err := suttest.TestDriver(t.Context(), wrapped{d}, func() (string, error) { return fmt.Sprintf("/made/%d", n.Add(1)), nil })
	if err != nil {
		t.Error(err)
	}
}

func TestBenchFailures(t *testing.T) {
	refusal := errors.New("no jail here")
	for _, tc := range []struct {
		name string
		opt  Options
		wrap func(*osexec.Cmd) error
		call spec.Call
		want error // nil for any
	}{
		{"no command", Options{Command: Argv()}, nil, spec.Call{ID: 1, Kind: spec.CallRead}, nil},
		{"no such command", Options{Command: Argv("/no/such/command")}, nil, spec.Call{ID: 1, Kind: spec.CallRead}, nil},
		{"no jail", Options{Command: Argv("/bin/true")}, func(*osexec.Cmd) error { return refusal }, spec.Call{ID: 1, Kind: spec.CallRead}, refusal},
		{"unspeakable", Options{Command: Argv("/bin/true")}, nil, spec.Call{ID: 1, Kind: spec.CallRead, Path: "\xff"}, wire.ErrUnspeakable},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := New(tc.opt)
			s, err := d.Open(t.Context(), sut.Env{Root: "/r", Wrap: tc.wrap})
			if err != nil {
				t.Fatal(err)
			}
			o, err := s.Do(t.Context(), tc.call)
			if diff := cmp.Diff(spec.Outcome{}, o); err == nil || diff != "" {
				t.Errorf("%v, want an error and no outcome (-want +got):\n%s", err, diff)
			}
			if tc.want != nil && !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Close ends what is under way.
func TestCloseDuringACall(t *testing.T) {
	d := driver(t, sut.Info{Name: "hangs"})
	started := make(chan struct{})
	s, err := d.Open(t.Context(), sut.Env{Root: "/r", Wrap: func(cmd *osexec.Cmd) error {
		defer close(started)
		cmd.Env = append(os.Environ(), childEnv+"=hangs")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan spec.Outcome, 1)
	go func() {
		o, err := s.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallRead})
		if err != nil {
			t.Error(err)
		}
		done <- o
	}()
	<-started
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(spec.Outcome{Call: 1}, <-done); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	if _, err := s.Do(t.Context(), spec.Call{ID: 2}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed session: %v", err)
	}
}
