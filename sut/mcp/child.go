package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fsbench/fsbench/internal/process"
)

// child is one life of a session's server.
type child struct {
	s      *session
	proc   *process.Child
	conn   *conn
	mcp    *sdk.ClientSession
	stderr process.Tail

	asked  atomic.Bool   // to end
	reaped chan struct{} // nothing of it is left
}

// greet starts a server and sees whether it has the tools that are bound.
func (s *session) greet(ctx context.Context) (*child, error) {
	b := s.d.opt.Binding
	c := &child{s: s, stderr: process.Tail{Max: maxTail}, reaped: make(chan struct{})}
	proc, err := process.Start(b.argv(s.env.Root), s.wrap, &c.stderr)
	if err != nil {
		return nil, err
	}
	c.proc, c.conn = proc, newConn(proc.Stdin, proc.Stdout)
	c.conn.fault, c.conn.diag = s.fault, s.report
	limit, cancel := context.WithTimeout(ctx, s.d.opt.Patience)
	defer cancel()
	go c.reap()

	err = c.introduce(limit, b)
	switch {
	case err == nil:
		return c, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case limit.Err() != nil:
		err = fmt.Errorf("silent for %v: %w", s.d.opt.Patience, ErrServer)
	case errors.Is(err, errTools):
	case c.over():
		c.await()
		err = fmt.Errorf("it ended: %s: %s: %w", c.proc.State(), c.complaint(), ErrServer)
	default:
		err = fmt.Errorf("%w: %w", err, ErrServer)
	}
	c.end()
	return nil, err
}

// errTools is wrapped where a binding names tools that the server does not have:
// it was made for another server, and its refusals would be taken for judgement.
var errTools = errors.New("the binding does not fit the server")

func (c *child) introduce(ctx context.Context, b Binding) error {
	client := sdk.NewClient(&sdk.Implementation{Name: "fsbench", Version: "1"}, &sdk.ClientOptions{
		// The root is given on the command line. A client that offers roots and lists
		// none makes some servers forget it.
		Capabilities: &sdk.ClientCapabilities{},

		// Otherwise the SDK makes a call again of its own accord.
		MultiRoundTrip: &sdk.MultiRoundTripOptions{Disabled: true},
	})
	var err error
	if c.mcp, err = client.Connect(ctx, c.conn, &sdk.ClientSessionOptions{ProtocolVersion: b.Protocol}); err != nil {
		return fmt.Errorf("initialize: %w", err)
	}
	offered := map[string]bool{}
	for tool, err := range c.mcp.Tools(ctx, nil) {
		if err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		offered[tool.Name] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Tools)) {
		if name := b.Tools[kind].Name; name != "" && !offered[name] {
			return fmt.Errorf("%s: no tool %q among %q: %w", kind, name, slices.Sorted(maps.Keys(offered)), errTools)
		}
	}
	return nil
}

// over reports whether the conversation has ended.
func (c *child) over() bool {
	select {
	case <-c.conn.over:
		return true
	case <-c.conn.closing:
		return true
	default:
		return false
	}
}

// await waits until nothing of the child is left. That is bounded: it is killed.
func (c *child) await() { <-c.reaped }

// end lets the child see the end of its standard input, and sees to its end.
func (c *child) end() {
	if !c.over() {
		c.asked.Store(true)
	}
	_ = c.conn.Close()
	c.await()
}

// reap waits for the end of the conversation and makes it the end of the child.
func (c *child) reap() {
	defer close(c.reaped)
	select {
	case <-c.conn.over:
	case <-c.conn.closing:
	case <-c.proc.Ended(): // a grandchild may hold its output
	}
	_ = c.conn.Close()
	if !c.within(c.proc.Ended()) {
		c.conn.killed.Store(true)
		c.proc.Kill()
		if !c.within(c.proc.Ended()) {
			c.s.fail(errors.New("the server is still there after it was killed"))
			return
		}
	}
	// What it has written is still read, to its end or until that is given up.
	drained := time.NewTimer(process.LastWords + time.Second)
	defer drained.Stop()
	select {
	case <-c.conn.over:
	case <-drained.C:
	}
	_ = c.proc.Stdout.Close()
	if !c.asked.Load() {
		c.s.report("ERROR", "the server ended", map[string]string{
			"state": c.proc.State(), "stderr": c.complaint(),
		})
	}
}

// within reports whether done comes within the grace period.
func (c *child) within(done <-chan struct{}) bool {
	grace := time.NewTimer(c.s.d.opt.Grace)
	defer grace.Stop()
	select {
	case <-done:
		return true
	case <-grace.C:
		return false
	}
}

// complaint is the end of what the server wrote to standard error, on one line.
func (c *child) complaint() string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(c.stderr.String(), "\uFFFD")), " ")
}

// wrap puts a server into its sandbox. One that takes a path for relative to where it
// runs must not find the caller's files there. Nor the root's: a folder held open from
// before the sandbox's mounts were made leads past them.
func (s *session) wrap(cmd *exec.Cmd) error {
	cmd.Dir = filepath.VolumeName(cmd.Path) + string(filepath.Separator)
	if s.env.Wrap == nil {
		return nil
	}
	return s.env.Wrap(cmd)
}
