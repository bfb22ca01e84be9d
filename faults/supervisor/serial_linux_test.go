//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
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
