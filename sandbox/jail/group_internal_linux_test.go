package jail

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// anyPlace is where this process can make control groups, whatever they can bound.
func anyPlace(t *testing.T) string {
	t.Helper()
	places, err := groupPlaces()
	for _, p := range places {
		dir := filepath.Join(p, fmt.Sprintf("%stest-%d", groupPrefix, os.Getpid()))
		if err = os.Mkdir(dir, 0o755); err == nil {
			err = os.Remove(dir)
		}
		if err == nil {
			return p
		}
	}
	t.Skipf("no control group can be made here: %v", err)
	return ""
}

// inGroup starts a shell that starts something itself.
func inGroup(t *testing.T, g *Group, line string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", line)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	g.take(cmd.SysProcAttr)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// TestGroup: whatever a subject starts is in its group, and is gone with it.
func TestGroup(t *testing.T) {
	all, err := groupsIn(anyPlace(t), "grouptest", nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := all.New("one")
	if err != nil {
		t.Fatal(err)
	}
	cmd := inGroup(t, one, "(trap '' TERM HUP; sleep 600) & (setsid sleep 600) & sleep 600")
	pids := []string{}
	for range 500 {
		text, err := os.ReadFile(filepath.Join(one.dir, "cgroup.procs"))
		if err != nil {
			t.Fatal(err)
		}
		if pids = strings.Fields(string(text)); len(pids) >= 4 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if len(pids) < 4 {
		t.Errorf("in the group are %v, want the shell and three more", pids)
	}
	if err := one.End(); err != nil {
		t.Error(err)
	}
	var ended *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &ended) || ended.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL { //nolint:forcetypeassert // as it is here
		t.Errorf("the shell ended with %v, want that it was killed", err)
	}
	two, err := all.New("two")
	if err != nil {
		t.Fatal(err)
	}
	cmd = inGroup(t, two, "sleep 600")
	if err := errors.Join(all.Close(), two.f.Close()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if _, err := os.Lstat(all.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the group is still there: %v", err)
	}
}

// TestSweepGroups: only what a dead process has left goes.
func TestSweepGroups(t *testing.T) {
	place := anyPlace(t)
	start, boot, err := Started(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	of := func(pid int, start string) string {
		return filepath.Join(place, fmt.Sprintf("%s%d-%s-%.8s-sweeptest", groupPrefix, pid, start, boot))
	}
	dead, before := of(1<<22+1, "1"), of(os.Getpid(), "1")
	alive, foreign := of(os.Getpid(), start), filepath.Join(place, groupPrefix+"sweeptest")
	for _, dir := range []string{dead, filepath.Join(dead, "below"), before, alive, foreign} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
	}
	removed, err := SweepGroups()
	removed = slices.DeleteFunc(removed, func(dir string) bool { return !strings.HasSuffix(dir, "sweeptest") })
	slices.Sort(removed)
	want := []string{dead, before}
	slices.Sort(want)
	if err != nil || !slices.Equal(removed, want) {
		t.Errorf("removed are %v (%v), want %v", removed, err, want)
	}
	for dir, want := range map[string]bool{dead: false, before: false, alive: true, foreign: true} {
		if _, err := os.Lstat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want that it is there: %v", dir, err, want)
		}
	}
	if err := EndGroups("sweeptest"); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(alive); err == nil {
		t.Error("the groups of a tag are not ended")
	}
}

// TestBoundedMemory has a subject want more memory, and more processes, than it may have.
func TestBoundedMemory(t *testing.T) {
	all, err := NewGroups("boundtest")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := all.Close(); err != nil {
			t.Error(err)
		}
	})
	one, err := all.New("one")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range bounds {
		got, err := os.ReadFile(filepath.Join(one.dir, file))
		if err != nil && file == "memory.swap.max" {
			continue // a kernel without swap
		}
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q (%v), want %s", file, got, err, want)
		}
	}
	// A shell that keeps doubling a word: it is killed, or has no memory left.
	if err := inGroup(t, one, "x=0123456789abcdef; while :; do x=$x$x; done").Wait(); err == nil {
		t.Error("it has all the memory that it wants")
	}
	if err := one.End(); err != nil {
		t.Error(err)
	}
}
