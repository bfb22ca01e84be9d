package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

// janitor is a process that outlives this one for a moment, to take its folder
// away if this one is killed. It does nothing as long as its standard input is
// open, and nothing else ever.
type janitor struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// janitorName is what it is called as. No user types it.
const janitorName = "fsbench-janitor"

func startJanitor(dir string) (*janitor, error) {
	exe, err := executable()
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{Path: exe, Args: []string{janitorName, dir}, Dir: "/"}
	apart(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	return &janitor{cmd, in}, nil
}

func (j *janitor) dismiss() error { return errors.Join(j.in.Close(), j.cmd.Wait()) }

// Main runs the janitor and does not return, if this process was started as one.
// Programs and tests that make a Lab call it first thing.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != janitorName {
		return
	}
	signal.Ignore(os.Interrupt)
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that owns the folder
	// Its children are dying with it, and may still be at work for an instant.
	for range 50 {
		if err := sweep(os.Args[1]); err == nil {
			os.Exit(0)
		}
		time.Sleep(100 * time.Millisecond)
	}
	os.Exit(1)
}

// sweep removes a folder of sandboxes. It refuses any other.
func sweep(dir string) error {
	if !strings.HasPrefix(filepath.Base(dir), labPrefix) {
		return fmt.Errorf("remove %s: not a folder of sandboxes", dir)
	}
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := clear(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Remove(dir)
}
