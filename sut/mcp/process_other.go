//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// own does nothing: what a child starts is not ended with it here.
func own(*exec.Cmd) {}

func killAll(p *os.Process) error { return p.Kill() }

// reap waits for the child.
func reap(cmd *exec.Cmd) { _ = cmd.Wait() }
