//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults/supervisor"
)

// askOften looks at a file again and again, and prints how long one look took.
func askOften(path string) {
	runtime.LockOSThread()
	const times = 4000
	var st unix.Stat_t
	start := time.Now()
	for range times {
		if err := unix.Fstatat(unix.AT_FDCWD, path, &st, 0); err != nil {
			panic(err)
		}
	}
	fmt.Fprintln(os.Stdout, time.Since(start).Nanoseconds()/times)
}

// TestCostOfAStop compares what a stop costs with what another tracer takes for it, in
// turns: a stop outside the sandbox, of which no result is asked, and two stops inside,
// where what was done is put on record. Nothing is put in order here.
func TestCostOfAStop(t *testing.T) {
	if testing.Short() {
		t.Skip("a measurement")
	}
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not there")
	}
	base, err := os.MkdirTemp("/dev/shm", "") //nolint:usetesting // a tree is a file system of its own, as a rule
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	if err := os.Mkdir(filepath.Join(base, "ws"), 0o755); err != nil {
		t.Fatal(err)
	}
	const stranger, stop, record = "the other tracer", "a stop", "a step on record"
	least := map[string]float64{}
	note := func(who, printed string) {
		ns, err := strconv.ParseFloat(strings.TrimSpace(printed), 64)
		if err != nil {
			t.Fatalf("%s: it printed %q", who, printed)
		}
		if least[who] == 0 || ns < least[who] {
			least[who] = ns
		}
	}
	supervised := func(who, path string) {
		l := &lab{t: t, base: base}
		l.sup, err = supervisor.New(supervisor.Options{Base: base, Sink: &l.rec, Free: true, Record: who == record})
		if err != nil {
			t.Fatal(err)
		}
		out, state := l.run("/proc/self/exe", "ask", path)
		if state != "exit status 0" {
			t.Fatalf("%s: %s", state, out)
		}
		note(who, out)
	}
	most := map[string]float64{stop: 0.8, record: 1.5}
	dear := func(who string) bool { return least[who] > most[who]*least[stranger] }
	// What disturbs a measurement only makes it longer: the least of many is what counts.
	for round := 0; round < 3 || round < 40 && (dear(stop) || dear(record)); round++ {
		traced := exec.CommandContext(t.Context(), strace, "--seccomp-bpf", "-f", "-e", "trace=newfstatat", "-o", "/dev/null", self(t), "ask", "/etc")
		out, err := traced.Output()
		if err != nil {
			t.Skipf("strace: %v", err)
		}
		note(stranger, string(out))
		supervised(stop, "/etc")
		supervised(record, base+"/ws")
	}
	t.Logf("ns: %v", least)
	for who := range most {
		if dear(who) {
			t.Errorf("%s takes %.2f of what the other tracer takes, want at most %.2f", who, least[who]/least[stranger], most[who])
		}
	}
}

func self(t *testing.T) string {
	t.Helper()
	p, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
