package mcp

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

func init() {
	servers["parent"] = func() { serve(func() { beget(false) }) }
	servers["deserter"] = func() { serve(func() { beget(true); os.Exit(3) }) }
	servers["orphaner"] = func() { serve(func() { beget(true) }) }
}

// beget leaves a grandchild that holds the pipes, in a process group of its own
// or not, and writes down who it is.
func beget(apart bool) {
	child := exec.Command("/proc/self/exe") //nolint:noctx // it is to outlive this process
	_ = again(child, "hangs")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Setsid: apart}
	if err := child.Start(); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Args[len(os.Args)-1]+"/grandchild", fmt.Append(nil, child.Process.Pid), 0o600); err != nil {
		panic(err)
	}
}

// A grandchild that holds the pipes keeps nobody waiting, and is ended with the
// server unless it has left its process group.
func TestGrandchildren(t *testing.T) {
	for _, tc := range []struct {
		server string
		want   spec.Status
		left   bool
	}{
		{"parent", spec.StatusOK, false},
		{"orphaner", spec.StatusOK, true},
		{"deserter", spec.StatusUnknown, true},
	} {
		t.Run(tc.server, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tc.server, Options{})
			s := b.open(t)
			got := do(t, s, 20*time.Second, spec.Call{ID: 1, Kind: spec.CallWrite, Path: "bad"})
			if diff := cmp.Diff(spec.Outcome{Call: 1, Status: tc.want}, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			text, err := os.ReadFile(b.root + "/grandchild")
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(string(text))
			if err != nil {
				t.Fatal(err)
			}
			if tc.left {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				return
			}
			if alive(pid) {
				t.Errorf("the grandchild %d is left", pid)
			}
		})
	}
}

// alive reports whether a process runs; one that nobody has reaped yet does not.
func alive(pid int) bool {
	for range 100 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return false
		}
		time.Sleep(10 * time.Millisecond) // a signal takes its time
	}
	return true
}
