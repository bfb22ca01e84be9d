//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "sixteen" {
		sixteenWriters()
		os.Exit(0)
	}
	if len(os.Args) == 3 && os.Args[1] == "ask" {
		askOften(os.Args[2])
		os.Exit(0)
	}
	if len(os.Args) == 2 && os.Args[1] == "rivals" {
		rivals()
		os.Exit(0)
	}
	program()
	os.Exit(m.Run())
}

// lab is a tree with a plan in force around what runs in it:
//
//	ws/a    "old"
//	ws/d/   empty
//	out/c   "keep"
type lab struct {
	t    *testing.T
	base string
	rec  trace.Recorder
	sup  *supervisor.Supervisor

	crowd atomic.Bool
}

func newLab(t *testing.T, plan string, names ...string) *lab {
	t.Helper()
	l, err := newLabOf(t, supervisor.Ptrace, plan, names...)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// newLabOf fails with ErrCannot where an engine cannot carry out the plan.
func newLabOf(t *testing.T, e supervisor.Engine, plan string, names ...string) (*lab, error) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, base: base}
	for _, dir := range []string{"ws/d", "out"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	l.put("ws/a", "old")
	l.put("out/c", "keep")
	p, err := faults.ParsePlan("plan", 1, plan)
	if err != nil {
		t.Fatal(err)
	}
	p.Trace, p.Names = true, append([]string{"ws", "a", "b", "d", "out", "c"}, names...)
	l.sup, err = supervisor.New(supervisor.Options{Engine: e, Base: base, Plan: p, Sink: &l.rec, Hands: l.hands, Crowd: &l.crowd})
	return l, err
}

// inEachEngine runs a test in each engine that works here.
func inEachEngine(t *testing.T, f func(t *testing.T, e supervisor.Engine)) {
	t.Helper()
	for _, e := range supervisor.Engines {
		t.Run(string(e), func(t *testing.T) {
			if err := supervisor.Probe(e, t.TempDir(), func(*exec.Cmd) error { return nil }); err != nil {
				t.Skip(err)
			}
			f(t, e)
		})
	}
}

func (l *lab) put(name, content string) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.base, name), []byte(content), 0o644); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) hands(e spec.Edit) (bool, error) {
	at := func(p string) string { return filepath.Join(l.base, p) }
	edits := map[spec.EditOp]func() error{
		spec.EditSymlink: func() error { return os.Symlink(e.To, at(e.Path)) },
		spec.EditRename:  func() error { return os.Rename(at(e.Path), at(e.To)) },
		spec.EditRemove:  func() error { return os.Remove(at(e.Path)) },
	}
	if edits[e.Op] == nil {
		return false, nil
	}
	err := edits[e.Op]()
	return err == nil, nil
}

// content of a file of the tree, or what is wrong with it.
func (l *lab) content(name string) string {
	data, err := os.ReadFile(filepath.Join(l.base, name))
	if err != nil {
		return errors.Unwrap(err).Error()
	}
	return string(data)
}

// run runs a command in the workspace and returns what it printed and how it ended.
func (l *lab) run(argv ...string) (out, state string) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(l.base, "ws")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := l.sup.Wrap(cmd); err != nil {
		l.t.Fatal(err)
	}
	err := cmd.Run()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		l.t.Fatal(err)
	}
	if err := l.sup.Stop(); err != nil {
		l.t.Error(err)
	}
	return strings.ReplaceAll(said.String(), l.base, ""), cmd.ProcessState.String()
}

// steps lists the keys of what changed something.
func (l *lab) steps(classes ...faults.Class) []string {
	var out []string
	for _, s := range l.sup.Steps() {
		for _, c := range classes {
			if s.Class == c {
				out = append(out, s.Key)
			}
		}
	}
	return out
}

func (l *lab) fired() []string {
	var out []string
	for _, e := range l.rec.Events() {
		if f := e.Fault; f != nil {
			s := strings.Join([]string{f.Injection, f.Op, f.Class, f.Path, f.Effect, string(f.By)}, " ")
			if f.After {
				s += " after"
			}
			out = append(out, s)
		}
	}
	return out
}

func TestStepsOfAShell(t *testing.T) {
	l := newLab(t, "")
	if out, state := l.run("/bin/sh", "-c", "echo new > tmp$$ && mv tmp$$ a && rm -f d/nothing"); state != "exit status 0" {
		t.Fatalf("%s: %s", state, out)
	}
	want := []string{
		"0/0 openat ws/new1 1", "0/0 write ws/new1 1", "0/0.1 renameat2 ws/a ws/new1 1", "0/0.1 renameat ws/a ws/new1 1",
		"0/0.2 unlinkat ws/d/new2 1",
	}
	if diff := cmp.Diff(want, l.steps(faults.Create, faults.Modify, faults.Remove)); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := l.content("ws/a"); got != "new\n" {
		t.Errorf("content is %q, want new", got)
	}
	if got := l.sup.Unfired(); got != nil {
		t.Errorf("Unfired = %q, want none", got)
	}
}

// TestTouches: what a subject goes for outside the sandbox is told once, with whether
// it wanted to change it.
func TestTouches(t *testing.T) {
	l := newLab(t, "")
	l.run("/bin/sh", "-c", "cat /etc/hostname /etc/hostname a >/dev/null; cd /; true > /proc/nothing; mkdir "+l.base+"-not/x")
	var reads, writes []string
	l.sup.Steps()
	for _, touch := range l.sup.Touched() {
		switch {
		case touch.Writes:
			writes = append(writes, strings.TrimPrefix(touch.Path, l.base))
		case touch.Path == "/etc/hostname":
			reads = append(reads, touch.Path)
		}
	}
	if diff := cmp.Diff([]string{"/etc/hostname"}, reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"/dev/null", "/proc/nothing", "-not/x"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}
