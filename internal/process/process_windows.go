package process

import (
	"io"
	"os"
	"os/exec"
)

// own does nothing: what a child starts is not ended with it here.
func own(*exec.Cmd) {}

func killAll(p *os.Process) error { return p.Kill() }

// reap waits for the child.
func reap(cmd *exec.Cmd) { _ = cmd.Wait() }

// errStream passes on what a child writes to standard error.
type errStream struct {
	f  *os.File
	to io.Writer
}

func (s *errStream) pump() { _, _ = io.Copy(s.to, s.f) }

// drain does nothing: diagnostics may arrive after the answer that they explain.
func (s *errStream) drain() {}
