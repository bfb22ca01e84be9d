// Package process starts the children that subjects are, and ends them with all that
// they started. It knows nothing of what is said to them.
package process

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"time"
)

// LastWords is how long the pipes of a dead process may stay open. Only a
// grandchild that left the process group can hold them.
const LastWords = time.Second

// Child is a process that the runner owns. It never outlives the runner (where
// the kernel can promise that) nor a Kill, and neither do the processes that it
// started, unless they left its process group.
type Child struct {
	Stdin  *os.File // where its standard input is written
	Stdout *os.File // where its standard output is read

	stderr *errStream
	kill   context.CancelFunc
	ended  chan struct{}
	state  *os.ProcessState
}

// Argv returns argv with root in the place of {root}.
func Argv(argv []string, root string) []string {
	out := make([]string, len(argv))
	for i, arg := range argv {
		out[i] = strings.ReplaceAll(arg, "{root}", root)
	}
	return out
}

// Start runs argv. wrap may change the command before it starts, and may be
// nil. What the child writes to standard error is given to stderr as it comes.
func Start(argv []string, wrap func(*exec.Cmd) error, stderr io.Writer) (*Child, error) {
	life, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(life, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return killAll(cmd.Process) }
	p := &Child{kill: kill, ended: make(chan struct{})}
	theirs, err := p.pipes(cmd, stderr)
	if err == nil && wrap != nil {
		if err = wrap(cmd); err != nil {
			err = fmt.Errorf("wrap the child: %w", err)
		}
	}
	if err == nil {
		own(cmd)
		err = p.run(cmd)
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		kill()
		p.closePipes()
		return nil, err
	}
	return p, nil
}

// pipes connects cmd and returns the ends that are the child's.
func (p *Child) pipes(cmd *exec.Cmd, stderr io.Writer) (theirs []*os.File, err error) {
	var in, out, errs [2]*os.File
	for _, pair := range []*[2]*os.File{&in, &out, &errs} {
		if pair[0], pair[1], err = os.Pipe(); err != nil {
			return theirs, fmt.Errorf("pipe to the child: %w", err)
		}
		// Told apart below; both lists are closed if the next pipe fails.
		theirs = append(theirs, pair[0], pair[1])
	}
	p.Stdin, p.Stdout, p.stderr = in[1], out[0], &errStream{f: errs[0], to: stderr}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in[0], out[1], errs[1]
	return []*os.File{in[0], out[1], errs[1]}, nil
}

func (p *Child) closePipes() {
	for _, f := range []*os.File{p.Stdin, p.Stdout} {
		if f != nil {
			_ = f.Close()
		}
	}
	if p.stderr != nil {
		_ = p.stderr.f.Close()
	}
}

// run starts cmd and a goroutine that stays with it until it is gone.
//
// The goroutine keeps its thread: the kernel is asked to kill the child when its
// parent dies, and takes the thread that started it for the parent.
func (p *Child) run(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		defer close(p.ended)
		var reading sync.WaitGroup
		reading.Go(p.stderr.pump)
		reap(cmd)
		p.state = cmd.ProcessState
		p.kill()

		// A reader that never sees the end is stopped. Where pipes have no
		// deadlines, closing them is left to the owner.
		_ = p.Stdout.SetReadDeadline(time.Now().Add(LastWords))
		_ = p.stderr.f.SetReadDeadline(time.Now().Add(LastWords))
		reading.Wait()
		_ = p.stderr.f.Close()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the child: %w", err)
	}
	return nil
}

// Kill ends the process and all that it started. It does not wait.
func (p *Child) Kill() { p.kill() }

// Ended is closed when the process is gone and its standard error was read.
func (p *Child) Ended() <-chan struct{} { return p.ended }

// State says how the process ended, once it has.
func (p *Child) State() string { return p.state.String() }

// Success reports whether it ended by itself with exit code 0, once it has.
func (p *Child) Success() bool { return p.state.Success() }

// Code is its exit code, once it has ended; negative if it was killed. What stands
// in front of it in a sandbox passes a signal on as a code from 128.
func (p *Child) Code() int { return p.state.ExitCode() }

// Drain reads what the process has already written to standard error. Called
// when an answer has come, it makes diagnostics arrive before the answer that
// they explain, although they travel by another pipe.
func (p *Child) Drain() { p.stderr.drain() }

// Tail keeps the end of what is written to it.
type Tail struct {
	Max int // bytes

	mu   sync.Mutex
	kept []byte
}

// Write implements io.Writer.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b[max(0, len(b)-t.Max):]...)
	if over := len(t.kept) - t.Max; over > 0 {
		t.kept = append(t.kept[:0], t.kept[over:]...)
	}
	return len(b), nil
}

// String returns what was kept.
func (t *Tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept)
}
