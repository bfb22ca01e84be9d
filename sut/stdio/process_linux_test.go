package stdio

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// asProcess returns a Driver of the test binary playing a script. Its processes
// are added to born.
func asProcess(name string, opt Options, born *[]*exec.Cmd) (*Driver, func(*exec.Cmd) error) {
	opt.Command = Argv("/proc/self/exe")
	var mu sync.Mutex
	return New(opt), func(cmd *exec.Cmd) error {
		cmd.Env = append(os.Environ(), hostileEnv+"="+name, "GORACE=atexit_sleep_ms=0")
		mu.Lock()
		defer mu.Unlock()
		*born = append(*born, cmd)
		return nil
	}
}

func TestHostileProcesses(t *testing.T) {
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			var born []*exec.Cmd
			d, wrap := asProcess(p.name, Options{Grace: 500 * time.Millisecond}, &born)
			deadline := 20 * time.Second
			if p.want[0] == unknown {
				deadline = time.Second // some of them never answer in time, and the others sooner
			}
			p.perform(t, d, wrap, deadline)
			gone(t, born)
		})
	}
}

// gone checks that no process of born is left, not even as a zombie.
func gone(t *testing.T, born []*exec.Cmd) {
	t.Helper()
	for _, cmd := range born {
		if cmd.Process == nil {
			continue
		}
		if err := syscall.Kill(cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d is left: %v", cmd.Process.Pid, err)
		}
	}
}

// Diagnostics travel by another pipe than the answer, and are there before it.
func TestDiagnosticsComeBeforeTheAnswer(t *testing.T) {
	for range 20 {
		var born []*exec.Cmd
		var w witness
		d, wrap := asProcess("complains", Options{}, &born)
		env := w.env("/r")
		env.Wrap = wrap
		s := open(t, d, env)
		do(t, s, 1)
		w.mu.Lock()
		if len(w.diags) != 2 {
			t.Errorf("%q when the answer was there, want both diagnostics", w.diags)
		}
		w.mu.Unlock()
		closed(t, s, d)
		gone(t, born)
	}
}
