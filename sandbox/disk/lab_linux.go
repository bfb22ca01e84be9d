package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

func executable() (string, error) { return "/proc/self/exe", nil }

// apart puts the janitor into a session of its own: what ends this process's
// group, an interrupt at the terminal among it, must not end the janitor too.
func apart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// clear takes away one sandbox, past modes and flags.
func clear(dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	return bury(int(parent.Fd()), filepath.Base(dir), 0)
}
