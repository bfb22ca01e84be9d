//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsbench/fsbench/faults/supervisor"
)

// running reports whether a process has word among its arguments.
func running(t *testing.T, word string) bool {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		text, err := os.ReadFile(file)
		return err == nil && slices.Contains(strings.Split(string(text), "\x00"), word)
	})
}

// TestNothingOutlivesItsOwner: a subject that has left its group and its session,
// and whose parent is gone, ends all the same when its owner is killed.
func TestNothingOutlivesItsOwner(t *testing.T) { inEachEngine(t, outlives) }

func outlives(t *testing.T, e supervisor.Engine) {
	t.Helper()
	l, err := newLabOf(t, e, "")
	if err != nil {
		t.Fatal(err)
	}
	marker := fmt.Sprintf("86400.%d%d", os.Getpid(), len(e))
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", fmt.Sprintf("(setsid sh -c 'sleep %s & wait' &); echo up; sleep %s", marker, marker))
	if err := l.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 3)); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); !running(t, marker); {
		if time.Now().After(deadline) {
			t.Fatal("the subject never came up")
		}
		time.Sleep(time.Millisecond)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(10 * time.Second); running(t, marker); {
		if time.Now().After(deadline) {
			t.Fatal("something of the subject is still there 10 s after its owner was killed")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestUnseenIsSaid: where the memory of a subject cannot be read there are no steps,
// and that must not look like a subject that touches nothing.
func TestUnseenIsSaid(t *testing.T) { inEachEngine(t, unseen) }

func unseen(t *testing.T, e supervisor.Engine) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not there")
	}
	l, err := newLabOf(t, e, "")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/usr/bin/env", "python3", "-c", `
import ctypes, os
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # not dumpable
try:
    os.mkdir("x")
except OSError:
    pass
`)
	cmd.Dir = filepath.Join(l.base, "ws")
	if os.Getuid() == 0 {
		// Root may read all memory. Another user may not, and has no business here.
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := l.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	l.sup.Steps()
	if got := l.sup.Unfired(); !slices.ContainsFunc(got, func(s string) bool { return strings.Contains(s, "could not be seen") }) {
		t.Errorf("Unfired = %q, want what could not be seen", got)
	}
}

// TestSetuidGivesNothing: a program that would run as its owner runs as who started it, and
// its steps are seen like those of any other.
func TestSetuidGivesNothing(t *testing.T) { inEachEngine(t, setuid) }

func setuid(t *testing.T, e supervisor.Engine) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("it takes another user's file")
	}
	l, err := newLabOf(t, e, "")
	if err != nil {
		t.Fatal(err)
	}
	for d := l.base; len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	program := filepath.Join(l.base, "ws/touch")
	text, err := os.ReadFile("/usr/bin/touch")
	if err != nil {
		t.Skip(err)
	}
	l.put("ws/touch", string(text))
	for _, err := range []error{os.Chmod(program, 0o755|os.ModeSetuid), os.Chmod(filepath.Join(l.base, "ws/d"), 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), program, "d/b")
	cmd.Dir = filepath.Join(l.base, "ws")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := l.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	info, err := os.Stat(filepath.Join(l.base, "ws/d/b"))
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != 65534 {
		t.Errorf("the file that it made: %v, %+v; want one of its own", err, info)
	}
	if got := l.steps("create"); len(got) == 0 || len(l.sup.Unfired()) > 0 {
		t.Errorf("steps %q, and %q could not be seen", got, l.sup.Unfired())
	}
}

// TestNoInterruptionIsInvented: a timer that fires all the time, with a handler that
// does not ask for calls to be restarted, interrupts no call that it would not have
// interrupted.
func TestNoInterruptionIsInvented(t *testing.T) {
	if _, err := exec.LookPath("perl"); err != nil {
		t.Skip("perl is not there")
	}
	const script = `
use POSIX qw(:signal_h EINTR); use Time::HiRes qw(setitimer ITIMER_REAL);
my $ticks = 0;
sigaction(SIGALRM, POSIX::SigAction->new(sub { $ticks++ }));
setitimer(ITIMER_REAL, 0.0005, 0.0005);
my $broken = 0;
for (1 .. 1500) { rename("a", "b") || ($! == EINTR && $broken++); rename("b", "a") || ($! == EINTR && $broken++); }
setitimer(ITIMER_REAL, 0);
print $ticks > 20 ? "$broken interrupted" : "only $ticks ticks";
`
	l := newLab(t, "")
	if out, state := l.run("perl", "-e", script); out != "0 interrupted" {
		t.Errorf("printed %q and ended with %q, want 0 interrupted", out, state)
	}
	if got := len(l.steps("create")); got < 3000 {
		t.Errorf("%d renames were seen, want 3000", got)
	}
}
