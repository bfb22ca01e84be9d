package disk

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/fsbench/fsbench/sandbox/jail"
)

// janitor is a process that makes the folder of sandboxes, and outlives this one for
// a moment to take it away again if this one is killed: there is no moment at which
// the folder is there and nobody would. It does nothing as long as its standard
// input is open, and nothing else ever.
type janitor struct {
	cmd *exec.Cmd
	in  io.WriteCloser
}

// janitorName is what it is called as. No user types it.
const janitorName = "fsbench-janitor"

// startJanitor returns the janitor and the folder that it has made below parent.
func startJanitor(parent string) (j *janitor, dir string, err error) {
	cmd := &exec.Cmd{Args: []string{janitorName, parent}, Dir: "/"}
	in, err := cmd.StdinPipe()
	var out io.ReadCloser
	if err == nil {
		out, err = cmd.StdoutPipe()
	}
	if err == nil {
		err = startChild(cmd)
	}
	if err != nil {
		return nil, "", fmt.Errorf("start the janitor: %w", err)
	}
	j = &janitor{cmd, in}
	said, err := io.ReadAll(out)
	dir, made := strings.CutPrefix(string(said), madeFolder)
	switch {
	case err == nil && !made && dir == "":
		err = errors.New("it ended without a word")
	case err == nil && !made:
		err = errors.New(dir)
	}
	if err != nil {
		_ = j.dismiss() // it has nothing to do, and the error says why
		return nil, "", fmt.Errorf("make a folder for sandboxes: %w", err)
	}
	return j, dir, nil
}

func (j *janitor) dismiss() error {
	err := j.in.Close()
	if waitErr := j.cmd.Wait(); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("the janitor: %w", waitErr))
	}
	return err
}

// madeFolder stands in front of the folder's name in what the janitor says; without
// it that is an error.
const madeFolder = "made "

// A process that was started as a janitor gets no further than here.
func init() {
	if len(os.Args) != 2 || os.Args[0] != janitorName {
		return
	}
	// Whoever ends a whole service means the bench: this process ends with it, and
	// not before. A bench that is killed does not read what is said here.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	dir, err := os.MkdirTemp(os.Args[1], labPrefix)
	var folder *os.File
	if err == nil {
		folder, err = os.Open(dir)
	}
	if err == nil {
		err = mark(dir)
	}
	if err != nil {
		if folder != nil {
			_ = sweep(folder) // the bench may be gone already, and nobody else knows of it
		}
		_, _ = os.Stdout.WriteString(err.Error())
		syscall.Exit(1)
	}
	_, _ = os.Stdout.WriteString(madeFolder + dir)
	_ = os.Stdout.Close()                // which ends what it says
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with the process that owns the folder
	// Its children are dying with it, and may still be at work for an instant.
	for range 50 {
		groupsErr := jail.EndGroups(groupTag(dir))
		if err := sweep(folder); err == nil && groupsErr == nil {
			syscall.Exit(0)
		}
		time.Sleep(100 * time.Millisecond)
	}
	syscall.Exit(1)
}
