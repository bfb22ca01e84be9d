//go:build unix && !linux

package process

import (
	"os/exec"
	"syscall"
)

// own makes the child lead a process group, so that all of it can be ended. A
// child of a bench that crashed sees the end of its standard input; this kernel
// cannot be asked to kill it.
func own(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	if !cmd.SysProcAttr.Setsid {
		cmd.SysProcAttr.Setpgid = true
	}
}

// reap waits for the child and ends what it started.
func reap(cmd *exec.Cmd) {
	_ = cmd.Wait() // the process state says more than the error
	_ = killAll(cmd.Process)
}
