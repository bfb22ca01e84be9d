package disk

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// benchName starts a bench with a tree and a subject that is at work in it.
const benchName = "fsbench-bench"

// bench says what it has made, and waits to be killed.
func bench(dir string) {
	l, err := NewLab(dir)
	must(err)
	box, err := l.New()
	must(err)
	must(box.Build(small))
	a, err := box.Arm(faults.Plan{Injections: []faults.Injection{
		{ID: "f1", When: faults.When{Under: "ws/d", Class: faults.Create}, Do: faults.Effect{Errno: "EPERM"}},
		{ID: "f2", When: faults.When{Under: "ws/d/e", Class: faults.Create}, Do: faults.Effect{Errno: "EROFS"}},
	}}, &trace.Recorder{})
	must(err)
	cmd := selfCommand(actorName, call("deep", box.Root(), "1000"), "ready", call("busy", box.Root()))
	must(a.Child().Wrap(cmd))
	said, err := cmd.StderrPipe()
	must(err)
	must(cmd.Start())
	_, err = bufio.NewReader(said).ReadString('\n')
	must(err)
	fmt.Fprintln(os.Stdout, l.Dir, l.janitor.cmd.Process.Pid, cmd.Process.Pid, box.Root())
	time.Sleep(time.Hour)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stdout, "cannot:", err)
		unix.Exit(1)
	}
}

// atWork is a bench that was started.
type atWork struct {
	pid, janitor, child int
	lab, root           string
	wait                func() error
}

func startBench(t *testing.T, dir string) atWork {
	t.Helper()
	cmd := self(t, benchName, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	w := atWork{pid: cmd.Process.Pid, wait: cmd.Wait}
	if _, scanErr := fmt.Sscan(line, &w.lab, &w.janitor, &w.child, &w.root); scanErr != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatalf("the bench said %q (%v)", line, err)
	}
	return w
}

func TestTheBenchIsKilled(t *testing.T) {
	alsoAsUser(t)
	for _, tc := range []struct {
		name string
		kill func(t *testing.T, w atWork)
	}{
		{"alone", func(_ *testing.T, w atWork) { _ = unix.Kill(w.pid, unix.SIGKILL) }},
		{"with its group", func(_ *testing.T, w atWork) { _ = unix.Kill(-w.pid, unix.SIGKILL) }},
		{"and everybody was asked to end before", func(_ *testing.T, w atWork) {
			for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP} {
				_ = unix.Kill(w.janitor, sig)
			}
			time.Sleep(50 * time.Millisecond)
			_ = unix.Kill(w.pid, unix.SIGKILL)
		}},
		{"where its folder is another one now", func(t *testing.T, w atWork) {
			t.Helper()
			t.Helper()
			victim := t.TempDir()
			write(t, filepath.Join(victim, "f"), "precious")
			t.Cleanup(func() { holds(t, filepath.Join(victim, "f"), "precious") })
			if err := errors.Join(os.Rename(w.lab, w.lab+".away"), os.Symlink(victim, w.lab)); err != nil {
				t.Fatal(err)
			}
			_ = unix.Kill(w.pid, unix.SIGKILL)
			within(t, 5*time.Second, "the tree is gone", func() bool {
				entries, err := os.ReadDir(w.lab + ".away")
				return err == nil && len(entries) == 0
			})
			if err := os.Remove(w.lab); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Error(err)
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := startBench(t, publicDir(t))
			if !alive(w.janitor) || !alive(w.child) {
				t.Error("janitor and child are to be there before anything is killed")
			}
			tc.kill(t, w)
			_ = w.wait()
			within(t, time.Second, "the child is gone", func() bool { return !alive(w.child) })
			within(t, 5*time.Second, "the folder is gone", func() bool {
				_, err := os.Lstat(w.lab)
				return errors.Is(err, os.ErrNotExist)
			})
			within(t, 5*time.Second, "the janitor is gone", func() bool { return !alive(w.janitor) })
		})
	}
}

// TestTheJanitorIsKilled leaves the cleaning to the bench itself, and the bench
// says so: a folder that nobody looks after may have stayed elsewhere.
func TestTheJanitorIsKilled(t *testing.T) {
	l, err := NewLab(publicDir(t))
	if err != nil {
		t.Fatal(err)
	}
	box, err := l.New()
	if err == nil {
		err = box.Build(spec.World{"ws": {Type: spec.TypeDir, Mode: 0o755}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.janitor.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "janitor") {
		t.Errorf("closed with %v, want word of the janitor", err)
	}
	if _, err := os.Lstat(l.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

// alive reports whether a process is there and not merely unburied.
func alive(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}

func within(t *testing.T, limit time.Duration, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Errorf("not within %v: %s", limit, what)
			return
		}
	}
}
