package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// binaryVar names the program that an ordinary user's run of a test is given: that
// user may not be able to build it.
const binaryVar = "FSBENCH_TEST_BINARY"

// TestAKilledRunLeavesNothing ends the whole program at moments that it does not
// choose. Whatever it was doing, neither a process nor a mount nor a folder of it
// may be there soon after.
func TestAKilledRunLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program and runs it many times")
	}
	if os.Getenv(binaryVar) == "" {
		t.Setenv(binaryVar, build(t))
	}
	alsoAsUser(t)
	for _, tc := range []struct {
		name    string
		signals []syscall.Signal
	}{
		{"killed", []syscall.Signal{syscall.SIGKILL}},
		{"interrupted", []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			moments := rand.New(rand.NewPCG(1, uint64(len(tc.signals))))
			waits := make(chan time.Duration, 20)
			for range cap(waits) {
				waits <- time.Duration(moments.Int64N(int64(500 * time.Millisecond)))
			}
			close(waits)
			dirs := []string{publicDir(t), publicDir(t), publicDir(t), publicDir(t)}
			for _, dir := range dirs { // all before anything is started, which would hold a copy that is being written
				duplicate(t, os.Getenv(binaryVar), filepath.Join(dir, "program"))
			}
			var running sync.WaitGroup
			var mu sync.Mutex
			most := 0 // bench, janitor, and what stands in front of a subject
			for _, dir := range dirs {
				running.Go(func() {
					for wait := range waits {
						n := endAt(t, dir, wait, tc.signals[int(wait)%len(tc.signals)])
						mu.Lock()
						most = max(most, n)
						mu.Unlock()
					}
				})
			}
			running.Wait()
			if most < 3 { // a machine that has much else to do
				most = endAt(t, dirs[0], 5*time.Second, tc.signals[0])
			}
			if most < 3 {
				t.Errorf("at most %d processes were at work when it ended: nothing was tried", most)
			}
		})
	}
}

// build makes the program, where every user can start it.
func build(t *testing.T) string {
	t.Helper()
	tool, err := exec.LookPath("go")
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	exe := filepath.Join(dir, "fsbench")
	out, err := exec.CommandContext(t.Context(), tool, "build", "-o", exe, "github.com/fsbench/fsbench/cmd/fsbench").CombinedOutput()
	if err == nil {
		err = os.Chmod(filepath.Dir(dir), 0o711)
	}
	if err == nil {
		err = os.Chmod(exe, 0o755)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// endAt starts a run, ends it after wait with sig, and looks for what is left. It
// returns how many processes there were before.
func endAt(t *testing.T, dir string, wait time.Duration, sig syscall.Signal) (atWork int) {
	t.Helper()
	exe := filepath.Join(dir, "program") // a file of its own to know its processes by
	tmp := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		t.Error(err)
		return 0
	}
	cmd := exec.CommandContext(t.Context(), exe, "run", "--sandbox", "disk", "--profile", "soak", "--seed", "1", "--out", filepath.Join(dir, "out"))
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Error(err)
		return 0
	}
	time.Sleep(wait)
	atWork = len(processesOf(t, exe))
	_ = cmd.Process.Signal(sig)
	start := time.Now()
	_ = cmd.Wait()
	what := fmt.Sprintf("%v after %v", sig, wait)
	if sig != syscall.SIGKILL {
		if ws := cmd.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() && ws.ExitStatus() != 130 {
			t.Errorf("%s: %v, want exit code 130", what, cmd.ProcessState)
		}
	}
	for time.Since(start) < 5*time.Second && left(t, exe, tmp) != "" {
		time.Sleep(20 * time.Millisecond)
	}
	if l := left(t, exe, tmp); l != "" {
		t.Errorf("%s: after %v there is still %s", what, time.Since(start), l)
	}
	return atWork
}

func duplicate(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// left says what there is of a run of the program exe with temporary folders in tmp.
func left(t *testing.T, exe, tmp string) string {
	t.Helper()
	if p := processesOf(t, exe); len(p) > 0 {
		return "process " + strings.Join(p, " ")
	}
	if m := mountsBelow(t, tmp); len(m) > 0 {
		return "mount " + strings.Join(m, " ")
	}
	folders, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil {
		return err.Error()
	}
	if len(folders) > 0 {
		return "folder " + strings.Join(folders, " ")
	}
	return ""
}

// processesOf returns the processes that run exe, in whatever namespaces.
func processesOf(t *testing.T, exe string) []string {
	t.Helper()
	var of, is unix.Stat_t
	if err := unix.Stat(exe, &of); err != nil {
		t.Error(err)
	}
	all, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		t.Error(err)
	}
	var found []string
	for _, p := range all {
		if unix.Stat(p, &is) == nil && is.Ino == of.Ino && is.Dev == of.Dev {
			found = append(found, filepath.Dir(p))
		}
	}
	return found
}
