//go:build unix && !linux

package mcp

import "os/exec"

// own makes the child lead a process group, so that all of it can be ended. This
// kernel cannot be asked to kill it with a bench that crashed.
func own(cmd *exec.Cmd) { lead(cmd) }

// reap waits for the child and ends what it started.
func reap(cmd *exec.Cmd) {
	_ = cmd.Wait() // the process state says more than the error
	_ = killAll(cmd.Process)
}
