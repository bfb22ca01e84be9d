package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// enter returns the ground of a foreign subject, or skips the test where this machine
// or this user cannot confine one.
func enter(t *testing.T, f foreign) ground {
	t.Helper()
	g, done, err := f.ground(t.Context(), t.TempDir())
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := done(); err != nil {
			t.Error(err)
		}
	})
	return g
}

var served = foreign{Stdio: true, Cmd: []string{"/proc/self/exe", "serve", "--stdio"}}

// TestReferenceFromOutside: the reference as a program of somebody else survives
// everything at every step of a delete.
func TestReferenceFromOutside(t *testing.T) {
	g := enter(t, served)
	m, err := fsbench.Explore(t.Context(), g.arena, explore.Bases(spec.CallDelete)[0], explore.Options{Denials: true})
	if err != nil || m.Err() != nil {
		t.Fatal(err, m.Err())
	}
	for _, f := range m.Findings {
		t.Errorf("%s at %v: got %s", f.Rule, m.Points[f.Point].Strikes, f.Got)
	}
	if len(m.Steps) != 4 || m.Struck() < 90 || m.Unknown() == 0 {
		t.Errorf("%d steps, %d points struck, %d unknown, want 4, at least 90, and some", len(m.Steps), m.Struck(), m.Unknown())
	}
	if fired := m.Fired(); fired.Kernel < 2 || fired.Synthetic < 80 {
		t.Errorf("%+v struck, want at least 2 of the kernel, and 80 in its place", fired)
	}
	for _, s := range m.Steps {
		if s.Call == "" || !strings.HasPrefix(s.Key, "1/0 ") {
			t.Errorf("step %+v: want the system call, and a key of call 1 and process 0", s)
		}
	}
}

// TestControlsFromOutside: what is known to be bad is found bad at the step where it is.
func TestControlsFromOutside(t *testing.T) {
	g := enter(t, served)
	for _, ctl := range explore.Controls {
		arena, err := g.control(ctl.Mutant)
		if err != nil {
			t.Fatal(err)
		}
		m, err := fsbench.Explore(t.Context(), arena, explore.Bases("")[0], explore.Options{Only: ctl.At})
		if err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
		if _, red := ctl.Red(m); !red {
			t.Errorf("%s is green, want %s", ctl.Mutant, ctl)
		}
	}
}

// TestHandlesFromOutside: a server that leaves a file open at each write is found out by
// its first.
func TestHandlesFromOutside(t *testing.T) {
	g := enter(t, served)
	arena, err := g.control("keeps-handles")
	if err != nil {
		t.Fatal(err)
	}
	none := func(faults.Step) bool { return false }
	m, err := fsbench.Explore(t.Context(), arena, explore.Bases("")[0], explore.Options{Only: none, Replays: 10})
	if err != nil || m.Err() != nil {
		t.Fatal(err, m.Err())
	}
	if len(m.Findings) != 1 || m.Findings[0].Rule != "AT-026" || m.Findings[0].Got != "ws/d/f is still open" || m.Findings[0].Again != 10 {
		t.Errorf("want AT-026 alone, each time: %+v", m.Findings)
	}
}

// TestStrangerFromOutside: a program that knows nothing of any of this truncates a file
// and then writes it. A reader sees that, and each finding shows again.
func TestStrangerFromOutside(t *testing.T) {
	g := enter(t, foreign{Exec: true, Cmd: []string{"tee", "{path}"}})
	opens := func(s faults.Step) bool { return s.Class == faults.Create }
	m, err := fsbench.Explore(t.Context(), g.arena, explore.Bases("")[0], explore.Options{Only: opens, Replays: 3})
	if err != nil || m.Err() != nil {
		t.Fatal(err, m.Err())
	}
	for _, want := range []spec.RuleID{"AT-007", "AT-024", "PR-005"} {
		if !slices.ContainsFunc(m.Findings, func(f explore.Finding) bool { return f.Rule == want }) {
			t.Errorf("%s is not among the findings: %+v", want, m.Findings)
		}
	}
	for _, f := range m.Findings {
		if f.Again != 3 || f.Of != 3 {
			t.Errorf("%s at %v shows again in %d of %d, want 3 of 3", f.Rule, m.Points[f.Point].Strikes, f.Again, f.Of)
		}
	}
	back, err := scenarios.Parse("f", m.Findings[0].Scenario.Name, []byte(m.Findings[0].Scenario.String()))
	if err != nil {
		t.Fatal(err)
	}
	if j := fsbench.Judge(t.Context(), g.arena, back); len(j.Verdict.Findings) == 0 {
		t.Errorf("%s is not found again from its file", m.Findings[0].Rule)
	}
}

// TestStrangerIsRefused: the kernel itself refuses what a program of somebody else
// does. One that writes in place is left with a torn file when no file may grow.
func TestStrangerIsRefused(t *testing.T) {
	g := enter(t, foreign{Exec: true, Cmd: []string{"tee", "{path}"}})
	none := func(faults.Step) bool { return false }
	m, err := fsbench.Explore(t.Context(), g.arena, explore.Bases("")[0], explore.Options{Only: none, Denials: true})
	if err != nil || m.Err() != nil {
		t.Fatal(err, m.Err())
	}
	for _, p := range m.Points[1:] {
		name := p.Strikes[0].Effect.Name
		switch {
		case name == "no file may grow: EFBIG":
			if p.Fired != (explore.Fired{Kernel: 2}) || !slices.Contains(p.Rules, "AT-002") {
				t.Errorf("%s: %+v struck, broken is %v, want a short write and an error of the kernel, and AT-002", name, p.Fired, p.Rules)
			}
		case name == "nothing to modify below the root: EACCES" && jail.CanLock() == nil:
			if p.Fired != (explore.Fired{Kernel: 1}) {
				t.Errorf("%s: %+v struck, want one of the kernel", name, p.Fired)
			}
		case strings.Contains(name, "EROFS"):
			if p.Fired != (explore.Fired{Kernel: 1}) {
				t.Errorf("%s: %+v struck, want one of the kernel", name, p.Fired)
			}
		case strings.Contains(name, "EPERM") && os.Geteuid() != 0:
			// The flag takes root. Who answers in the kernel's place goes by what the call
			// says that it would do: make the file.
			if p.Fired != (explore.Fired{Synthetic: 1}) {
				t.Errorf("%s: %+v struck, want one in the kernel's place", name, p.Fired)
			}
		case p.Fired != (explore.Fired{}):
			t.Errorf("%s: %+v struck, and it replaces nothing", name, p.Fired)
		}
	}
}

// TestPreparedSubject: a subject runs from the folder that it was prepared in, under the
// name that it was given; and what goes wrong before that is one line.
func TestPreparedSubject(t *testing.T) {
	f := foreign{
		Exec: true, Cmd: []string{"--", "{cache}/put", "{path}"},
		Prepare: `printf '#!/bin/sh\ncat > "$1"\n' > put; chmod 755 {cache}/put`,
	}
	g := enter(t, f)
	s := explore.Bases("")[0]
	j := fsbench.Judge(t.Context(), g.arena, s)
	if j.Err != nil || len(j.Verdict.Findings) > 0 {
		t.Errorf("%v, %+v", j.Err, j.Verdict.Findings)
	}
	if g.subject.Name != "{cache}/put" || !strings.Contains(g.replayed, "--prepare 'printf") || !strings.HasSuffix(g.replayed, "-- {cache}/put {path}") {
		t.Errorf("it is called %s, and replayed with %s", g.subject.Name, g.replayed)
	}
	f.Prepare = "echo one; echo two; exit 7"
	if _, _, err := f.ground(t.Context(), t.TempDir()); err == nil || err.Error() != `prepare "echo one; echo two; exit 7": exit status 7: two` {
		t.Errorf("a failure is told as %v", err)
	}
}

func TestForeignFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		f    foreign
		want string
	}{
		{"two ways", foreign{Stdio: true, MCP: true, Cmd: []string{"x"}}, "--stdio, --mcp and --exec: want one of them"},
		{"no command", foreign{Exec: true}, "want a command after --"},
		{"a binding without a server", foreign{Preset: "filesystem", Cmd: []string{"x"}}, "want --mcp with them"},
		{"a server without a binding", foreign{MCP: true, Cmd: []string{"x"}}, "want --binding FILE or --preset NAME"},
	} {
		if err := tt.f.check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	f := foreign{MCP: true, Preset: "filesystem", Read: []string{"a b"}, Cmd: []string{"--", "node", "it's", "{root}"}}
	if got, want := f.String(), `--mcp --preset filesystem --read 'a b' -- node 'it'\''s' {root}`; got != want {
		t.Errorf("String = %s, want %s", got, want)
	}
}

// TestRecordOfAStranger: what is kept of a run is enough to have the tree again that the
// bench saw at its end, in memory; where it is not, that is said.
func TestRecordOfAStranger(t *testing.T) {
	enter(t, foreign{Exec: true, Cmd: []string{"sed", "s/x/y/", "{path}"}})
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("s.txtar"), []byte(harm), 0o644); err != nil {
		t.Fatal(err)
	}
	replay := func(argv ...string) string {
		t.Helper()
		args := []string{"replay", at("s.txtar"), "--explain", "--keep", at("trace"), "--record", at("record"), "--exec", "--"}
		var out, errs bytes.Buffer
		if code := run(append(args, argv...), strings.NewReader(""), &out, &errs); code != reports.ExitFailed {
			t.Fatalf("exit %d: %s%s", code, &out, &errs)
		}
		return out.String()
	}
	if out := replay("sed", "-i", "s/g/another/", "{path}"); !strings.Contains(out, "content=another result=7\n") || strings.Contains(out, "record incomplete") {
		t.Errorf("it tells\n%s\nwant the write, and a complete record", out)
	}
	rec := readAll(t, at("record"), faults.ReadRecord)
	var trees []spec.World
	for _, e := range readAll(t, at("trace"), func(r io.Reader) ([]trace.Event, error) { return trace.Read(r, "trace") }) {
		if e.World != nil {
			trees = append(trees, e.World)
		}
	}
	again, err := mem.NewReplay(trees[0], rec)
	if err == nil {
		err = again.Rest()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := again.World()
	if diff := cmp.Diff(trees[len(trees)-1], got); err != nil || diff != "" || len(trees) != 2 {
		t.Errorf("of %d trees the last is (-seen +replayed) %v:\n%s", len(trees), err, diff)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	out := replay(python, "-c", `import mmap, sys; f = open(sys.argv[1], "r+b"); mmap.mmap(f.fileno(), 0)[0:1] = b"Z"`, "{path}")
	if !strings.Contains(out, "\nrecord incomplete for ws/g: it is mapped for writing") {
		t.Errorf("it tells\n%s\nwant that a store through memory is no step", out)
	}
}

func readAll[T any](t *testing.T, name string, read func(io.Reader) (T, error)) T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := read(f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
