package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
)

func init() { racer() }

// racer is a program that puts its standard input in the place of a file, if this
// process was started as it. Another thread of it puts the old bytes back if it finds
// the file untouched: it looks, and then it renames, and the new bytes are lost if they
// come in between. In the usual order they come first.
func racer() {
	if len(os.Args) != 3 || os.Args[1] != "race" {
		return
	}
	path, dir := os.Args[2], filepath.Dir(os.Args[2])
	content, err := io.ReadAll(os.Stdin)
	must(err)
	old, err := os.ReadFile(path)
	must(err)
	was := inode(path)
	runtime.GOMAXPROCS(8) // nobody has to take a processor from a thread that is held
	must(os.WriteFile(dir+"/.new", content, 0o640))
	must(os.WriteFile(dir+"/.old", old, 0o640))
	var both sync.WaitGroup
	both.Go(func() {
		runtime.LockOSThread()
		must(unix.Rename(dir+"/.new", path))
	})
	both.Go(func() {
		runtime.LockOSThread()
		if inode(path) != was {
			must(os.Remove(dir + "/.old"))
			return
		}
		must(unix.Rename(dir+"/.old", path))
	})
	both.Wait()
	os.Exit(0)
}

func inode(path string) uint64 {
	var st unix.Statx_t
	must(unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO, &st))
	return st.Ino
}

func must(err error) {
	if err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

// TestOrderThatLosesData: a race that the usual order hides is found in another, in each
// run, and each time that it is replayed.
func TestOrderThatLosesData(t *testing.T) {
	g := enter(t, foreign{Exec: true, Cmd: []string{"/proc/self/exe", "race", "{path}"}})
	find := func(again int) explore.Map {
		t.Helper()
		opt := explore.Options{Warm: g.warm, Schedules: 40, Replays: again, Only: func(faults.Step) bool { return false }}
		m, err := fsbench.Explore(t.Context(), g.arena, explore.Bases("")[0], opt)
		if err != nil || m.Err() != nil {
			t.Fatal(err, m.Err())
		}
		return m
	}
	m := find(10)
	if m.Points[0].Verdict != explore.Pass || m.Orders.Choices == 0 || m.Orders.Tried < 2 || m.Orders.Left > 0 {
		t.Fatalf("the usual order is %s, orders %+v; want pass, and some of few", m.Points[0].Verdict, m.Orders)
	}
	i := slices.IndexFunc(m.Findings, func(f explore.Finding) bool { return f.Rule == "AT-001" && m.Points[f.Point].Turns() })
	if i < 0 {
		t.Fatalf("no order loses the bytes: %+v", m.Findings)
	}
	f := m.Findings[i]
	if f.Again != 10 || f.Of != 10 {
		t.Errorf("it shows again in %d of %d, want 10 of 10", f.Again, f.Of)
	}
	if diff := cmp.Diff(m.Points, find(0).Points); diff != "" {
		t.Errorf("explored again it is otherwise (-first +again):\n%s", diff)
	}
	text := f.Scenario.String()
	back, err := scenarios.Parse("f", f.Scenario.Name, []byte(text))
	if err != nil || !bytes.Contains([]byte(text), []byte(" first=")) {
		t.Fatalf("%v in:\n%s", err, text)
	}
	if j := fsbench.Judge(t.Context(), g.arena, back); len(j.Verdict.Findings) == 0 {
		t.Errorf("it is not found again from its file: %v %v", j.Err, j.Run.Unfired)
	}
}
