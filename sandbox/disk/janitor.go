package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
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

// janitorFolder is the descriptor at which it finds the folder, and all that it
// removes is in there.
const janitorFolder = 3

func startJanitor(l *Lab) (*janitor, error) {
	cmd := &exec.Cmd{Args: []string{janitorName, l.Dir}, Dir: "/", ExtraFiles: []*os.File{l.folder}}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = startChild(cmd)
	}
	if err != nil {
		return nil, fmt.Errorf("start the janitor: %w", err)
	}
	return &janitor{cmd, in}, nil
}

func (j *janitor) dismiss() error {
	err := j.in.Close()
	if waitErr := j.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("the janitor: %w", waitErr))
	}
	return err
}

// Main runs the janitor and does not return, if this process was started as one.
// Programs and tests that make a Lab call it first thing.
func Main() {
	if len(os.Args) != 2 || os.Args[0] != janitorName {
		return
	}
	// Whoever ends a whole service means the bench: this process ends with it, and
	// not before.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	folder := os.NewFile(janitorFolder, os.Args[1])
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that owns the folder
	// Its children are dying with it, and may still be at work for an instant.
	for range 50 {
		if err := sweep(folder); err == nil {
			os.Exit(0)
		}
		time.Sleep(100 * time.Millisecond)
	}
	os.Exit(1)
}
