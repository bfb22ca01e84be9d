//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
)

// eightWriters replaces eight files at once, on the threads of Node's pool.
const eightWriters = `
const fs = require('fs').promises;
Promise.all([...Array(8).keys()].map(async (i) => {
  const tmp = 'f' + i + '.' + Math.random().toString(36).slice(2);
  const h = await fs.open(tmp, 'wx');
  await h.writeFile('new ' + i);
  await h.sync();
  await h.close();
  await fs.rename(tmp, 'f' + i);
}));`

// sixteenWriters replaces sixteen files at once, in as many goroutines.
func sixteenWriters() {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			name := fmt.Sprintf("f%d", i)
			f, err := os.CreateTemp(".", name+".*")
			if err == nil {
				_, err = fmt.Fprintf(f, "new %d", i)
			}
			if err == nil {
				err = f.Sync()
			}
			if err == nil {
				err = f.Close()
			}
			if err == nil {
				err = os.Rename(f.Name(), name)
			}
			if err != nil {
				panic(err)
			}
		})
	}
	all.Wait()
}

// TestOneOrder: threads that race take their steps in the same order in every run,
// although both processors are busy with something else.
func TestOneOrder(t *testing.T) {
	neighbour, end := context.WithCancel(t.Context())
	defer end()
	for range 2 {
		go func() {
			for neighbour.Err() == nil {
				runtime.Gosched()
			}
		}()
	}
	t.Run("Node's pool", func(t *testing.T) {
		node, err := exec.LookPath("node")
		if err != nil {
			t.Skip("node is not there")
		}
		oneOrder(t, 8, node, "-e", eightWriters)
	})
	t.Run("goroutines", func(t *testing.T) {
		oneOrder(t, 16, "/proc/self/exe", "sixteen")
	})
}

func oneOrder(t *testing.T, files int, argv ...string) {
	t.Helper()
	var first []string
	crowd := false
	for run := range 6 {
		l := newLab(t, "")
		l.crowd.Store(crowd)
		if out, state := l.run(argv...); state != "exit status 0" {
			t.Fatalf("%s: %s", state, out)
		}
		got := l.steps(faults.Create, faults.Modify, faults.Flush)
		for i := range files {
			if c := l.content(fmt.Sprintf("ws/f%d", i)); c != fmt.Sprintf("new %d", i) {
				t.Errorf("f%d is %q", i, c)
			}
		}
		if !l.crowd.Load() {
			t.Fatal("nobody saw that there are several threads")
		}
		if !crowd {
			crowd = true // the first run has shown that there is something to order
			continue
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("run %d takes another order (-first +this):\n%s", run+1, diff)
		}
	}
	if len(first) < files*4 {
		t.Errorf("%d steps, want at least %d: %q", len(first), files*4, first)
	}
}

// rivals makes three directories, each in a thread of its own.
func rivals() {
	runtime.GOMAXPROCS(8) // nobody has to take a processor from a thread that is held
	var all sync.WaitGroup
	for _, name := range []string{"a.d", "b.d", "c.d"} {
		all.Go(func() {
			runtime.LockOSThread()
			if err := os.Mkdir(name, 0o700); err != nil {
				panic(err)
			}
		})
	}
	all.Wait()
}

// TestOtherOrders: a plan changes the order of the steps by the count, and says so only
// where it did.
func TestOtherOrders(t *testing.T) {
	const a, b, c = "0/0 mkdirat ws/a.d 1", "0/0 mkdirat ws/b.d 1", "0/0 mkdirat ws/c.d 1"
	for _, tt := range []struct {
		name, plan string
		want       []string
		fired      int
	}{
		{"the usual one", "", []string{a, b, c}, 0},
		{"one comes first", `f delay=1 step="` + a + `"`, []string{b, a, c}, 1},
		{"all do", `f delay=9 step="` + a + `"`, []string{b, c, a}, 1},
		{"whatever it is called", "f delay=1 name=b.d", []string{a, c, b}, 1},
		{"the second of them", "f delay=1 op=mkdir nth=2", []string{a, c, b}, 1},
		{"one that is named", `f step="` + a + `" first="` + c + `"`, []string{c, a, b}, 1},
		{"one after the other", `f step="` + a + `" first="` + c + "\"\ng step=\"" + a + `" first="` + b + `"`, []string{c, b, a}, 2},
		{"one that is late already", `f delay=9 step="` + a + "\"\ng step=\"" + b + `" first="` + a + `"`, []string{a, b, c}, 2},
		{"all are late", "f delay=9 op=mkdir", []string{a, b, c}, 0},
		{"nobody is left", `f delay=1 step="` + c + `"`, []string{a, b, c}, 0},
		{"it was made before", `f step="` + b + `" first="` + a + `"`, []string{a, b, c}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, tt.plan, "a.d", "b.d", "c.d")
			l.crowd.Store(true)
			if out, state := l.run("/proc/self/exe", "rivals"); state != "exit status 0" {
				t.Fatalf("%s: %s", state, out)
			}
			if diff := cmp.Diff(tt.want, l.steps(faults.Create)); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
			if got := l.fired(); len(got) != tt.fired || (len(l.sup.Unfired()) > 0) != (tt.fired == 0 && tt.plan != "") {
				t.Errorf("fired %q, not %q", got, l.sup.Unfired())
			}
			if tt.plan != "" {
				return
			}
			rivals := [][]string{{b, c}, {c}, nil}
			for i, s := range l.sup.Steps() {
				if diff := cmp.Diff(rivals[i], s.Rivals); diff != "" {
					t.Errorf("rivals of %s (-want +got):\n%s", s.Key, diff)
				}
			}
		})
	}
}

// TestChildrenInBorrowedMemory: a parent that waits until its child starts a program
// does not keep the child from what it does before.
func TestChildrenInBorrowedMemory(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there")
	}
	l := newLab(t, "")
	out, state := l.run("timeout", "60", "python3", "-c", `
import os, subprocess
for i in range(3): subprocess.run(["touch", "x%d" % i], cwd="d", close_fds=False)
os.posix_spawn("/usr/bin/touch", ["touch", "y"], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "b", os.O_CREAT | os.O_WRONLY, 0o600)])
os.wait()`)
	if state != "exit status 0" {
		t.Fatalf("%s: %s", state, out)
	}
	for _, name := range []string{"ws/d/x2", "ws/y", "ws/b"} {
		if got := l.content(name); got != "" {
			t.Errorf("%s is %q, want an empty file", name, got)
		}
	}
}

// TestNoRest: a subject that never comes to rest is not held for ever, and what it
// shows proves nothing.
func TestNoRest(t *testing.T) {
	l := newLab(t, "")
	out, state := l.run("/bin/sh", "-c", "while :; do :; done & echo x > d/f; echo y > d/g; kill $!")
	if state != "exit status 0" || l.content("ws/d/g") != "y\n" {
		t.Errorf("%s: %s", state, out)
	}
	if got := l.sup.Unfired(); len(got) != 1 || !strings.Contains(got[0], "did not come to rest") {
		t.Errorf("Unfired = %q, want why nothing is known", got)
	}
}
