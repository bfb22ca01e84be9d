//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/trace"
)

// TestEnginesAgree: programs of several kinds take the same steps in each engine, say the
// same, end in the same way and leave the same.
func TestEnginesAgree(t *testing.T) {
	sh := func(script string) []string { return []string{"/bin/sh", "-c", script} }
	python := func(script string) []string { return []string{"python3", "-c", script} }
	for _, tt := range []struct {
		name  string
		argv  []string
		crowd bool
	}{
		{"a shell", sh("echo new > tmp$$ && mv tmp$$ a && rm -f d/nothing; cat a; exit 3"), false},
		{"a pipe", sh("cat a | tr o 0 | tee b c; (cd d && echo x > y); ls"), false},
		{"in place", sh("sed -i s/old/new/ a; cp -p a b; ln b c; ln -s c e; chmod 600 a; touch -d @7 a"), false},
		{"a tree", sh("mkdir -p d/e/f; echo x > d/e/f/g; tar cf b d; rm -r d; tar xf b; find . | sort"), false},
		{"children in borrowed memory", python(`import os, subprocess
for i in range(3): subprocess.run(["touch", "x%d" % i], cwd="d", close_fds=False)
os.wait() if not os.posix_spawn("/usr/bin/touch", ["touch", "y"], os.environ) else os.waitpid(-1, 0)`), false},
		{"a daemon", python(`import os
r, w = os.pipe()
if os.fork():
    os.close(w); os.read(r, 1)
else:
    os.setsid(); os.stat("a") # without a call it would have no place in the tree of forks
    if os.fork(): os._exit(0)
    os.close(r)
    os.rename("a", "b"); os.mkdir("d/e"); os.unlink("b")
    os.write(w, b"x")`), false},
		{"killed", sh("echo x > b; kill -9 $$; echo y > c"), false},
		{"Node's pool", []string{"node", "-e", eightWriters}, true},
		{"goroutines", []string{"/proc/self/exe", "sixteen"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			need(t, tt.argv[0])
			var first seen
			inEachEngine(t, func(t *testing.T, e supervisor.Engine) {
				t.Helper()
				l, err := newLabOf(t, e, "", "x0", "x1", "x2", "y", "e", "f", "g")
				if err != nil {
					t.Fatal(err)
				}
				l.crowd.Store(tt.crowd)
				var got seen
				got.out, got.state = l.run(tt.argv...)
				got.steps = l.steps(faults.Classes...)
				got.tree = l.tree()
				if unseen := l.sup.Unfired(); len(got.steps) == 0 || len(unseen) > 0 {
					t.Fatalf("%d steps, and %q: %s", len(got.steps), unseen, got.out)
				}
				if first.steps == nil {
					first = got
					return
				}
				if diff := cmp.Diff(first, got, cmp.AllowUnexported(seen{})); diff != "" {
					t.Errorf("(-%s +%s):\n%s", supervisor.Engines[0], e, diff)
				}
			})
		})
	}
}

// seen is what is to be the same in each engine.
type seen struct {
	out, state  string
	steps, tree []string
}

// tree lists what is in the workspace, with the content of files.
func (l *lab) tree() []string {
	var out []string
	err := filepath.WalkDir(filepath.Join(l.base, "ws"), func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := fmt.Sprintf("%s %v", p[len(l.base):], info.Mode())
		if info.Mode().IsRegular() && filepath.Base(p) != "b" { // an archive has dates in it
			text, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %q", text)
		}
		out = append(out, line)
		return nil
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return out
}

// TestNotifyHasNoRecord: what cannot be known is refused before anything is started.
func TestNotifyHasNoRecord(t *testing.T) {
	for name, opt := range map[string]supervisor.Options{
		"a record": {Record: true}, "a look after each step": {After: func(string) {}},
		"a denial of the kernel": {Watch: []string{"f"}, Plan: faults.Plan{Injections: []faults.Injection{
			{ID: "f", When: faults.When{Class: faults.Create, Under: "ws"}, Do: faults.Effect{Errno: "EACCES"}},
		}}},
	} {
		opt.Engine, opt.Base, opt.Sink = supervisor.Notify, t.TempDir(), &trace.Recorder{}
		if _, err := supervisor.New(opt); !errors.Is(err, supervisor.ErrCannot) {
			t.Errorf("%s: %v, want that it cannot", name, err)
		}
	}
}

// TestNothingOutlivesItsKeeper: where the kernel does not end a subject by itself, one
// that has killed who keeps it ends all the same.
func TestNothingOutlivesItsKeeper(t *testing.T) {
	l, err := newLabOf(t, supervisor.Notify, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := supervisor.Probe(supervisor.Notify, l.base, func(*exec.Cmd) error { return nil }); err != nil {
		t.Skip(err)
	}
	marker := fmt.Sprintf("86400.%d9", os.Getpid())
	_, state := l.run("/bin/sh", "-c", fmt.Sprintf("(setsid sleep %s &); sleep 0.2; kill -9 $PPID; sleep %s", marker, marker))
	if state != "exit status 125" {
		t.Errorf("ended with %q, want that of an owner that could not go on", state)
	}
	for deadline := time.Now().Add(10 * time.Second); running(t, marker); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("something of the subject is still there 10 s after it killed its keeper")
		}
	}
	if got := l.sup.Unfired(); len(got) != 1 {
		t.Errorf("Unfired = %q, want that something was not seen", got)
	}
}
