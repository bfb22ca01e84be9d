package mcp

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// lastWords is how long the pipes of a dead process may stay open. Only a
// grandchild that left the process group can hold them.
const lastWords = time.Second

// process is a child that the bench owns. It outlives neither the bench (where
// the kernel can promise that) nor a kill, and neither do the processes that it
// started, unless they left its process group.
type process struct {
	stdin  *os.File
	stdout *os.File

	kill  context.CancelFunc // does not wait
	ended chan struct{}      // closed when it is gone and its standard error was read
	state *os.ProcessState   // after ended
}

// start runs argv. wrap may change the command before it starts, and may be nil.
func start(argv []string, wrap func(*exec.Cmd) error, stderr io.Writer) (*process, error) {
	life, kill := context.WithCancel(context.Background())
	cmd := exec.CommandContext(life, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return killAll(cmd.Process) }
	cmd.WaitDelay, cmd.Stderr = lastWords, stderr

	// A server that takes a path for relative to where it runs must not find the
	// caller's files there. Nor the root's: a folder held open from before the
	// sandbox's mounts were made leads past them.
	cmd.Dir = filepath.VolumeName(argv[0]) + string(filepath.Separator)

	p := &process{kill: kill, ended: make(chan struct{})}
	theirs, err := p.pipes(cmd)
	if err == nil && wrap != nil {
		if err = wrap(cmd); err != nil {
			err = fmt.Errorf("wrap the server: %w", err)
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
func (p *process) pipes(cmd *exec.Cmd) (theirs []*os.File, err error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to the server: %w", err)
	}
	p.stdin = in
	out, theirOut, err := os.Pipe()
	if err != nil {
		return []*os.File{theirIn}, fmt.Errorf("pipe to the server: %w", err)
	}
	p.stdout = out
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	return []*os.File{theirIn, theirOut}, nil
}

func (p *process) closePipes() {
	for _, f := range []*os.File{p.stdin, p.stdout} {
		if f != nil {
			_ = f.Close()
		}
	}
}

// run starts cmd and a goroutine that stays with it until it is gone.
//
// The goroutine keeps its thread: the kernel is asked to kill the child when its
// parent dies, and takes the thread that started it for the parent.
func (p *process) run(cmd *exec.Cmd) error {
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
		reap(cmd)
		p.state = cmd.ProcessState
		p.kill()
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("start the server: %w", err)
	}
	return nil
}
