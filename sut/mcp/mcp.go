// Package mcp drives a file server that speaks the Model Context Protocol over
// its standard input and output. A Binding says which of the server's tools a
// call becomes, and what its error texts mean.
//
// MCP knows nothing of what is judged here: no handlers, no Log, no confession,
// no versions and no policies. What a server is said to do is declared in the
// binding. The package knows no scenario, fault or rule, and nothing of the
// protocol of docs/PROTOCOL.md.
package mcp

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// ErrClosed is wrapped by what is asked of a closed Driver or Session.
var ErrClosed = errors.New("closed")

// ErrServer is wrapped where there is no outcome to say that the server died,
// stayed silent or departed from MCP.
var ErrServer = errors.New("the server did not answer as it must")

// Defaults of Options.
const (
	DefaultGrace    = time.Second
	DefaultPatience = 10 * time.Second
)

// Options say how a server is run.
type Options struct {
	Binding Binding

	Patience time.Duration // how long a server may take to come up
	Grace    time.Duration // how long it may take to end by itself
}

// Driver starts a server for every session. It is safe for concurrent use.
type Driver struct {
	opt   Options
	texts []mapped

	mu       sync.Mutex
	closed   bool
	sessions map[*session]bool
}

var _ sut.Driver = (*Driver)(nil)

// New returns a Driver, or what is wrong with the binding.
func New(opt Options) (*Driver, error) {
	if err := opt.Binding.Check(); err != nil {
		return nil, err
	}
	if opt.Grace == 0 {
		opt.Grace = DefaultGrace
	}
	if opt.Patience == 0 {
		opt.Patience = DefaultPatience
	}
	return &Driver{opt: opt, texts: opt.Binding.errorTexts(), sessions: map[*session]bool{}}, nil
}

// Info implements sut.Driver. It is what the binding says: a server's own name
// and version need not be those of the package that it came in.
func (d *Driver) Info(context.Context) (sut.Info, error) {
	b := d.opt.Binding
	info := sut.Info{
		Name: b.Name, Version: b.Version, Roles: []sut.Role{sut.RoleTools}, Policies: maps.Clone(b.Policies),
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Tools)) {
		info.Features = append(info.Features, string(kind))
	}
	return info, nil
}

// Open implements sut.Driver. It starts a server and looks for the tools that
// are bound; one that does not come that far is an error that wraps ErrServer.
// A policy that the binding does not declare is one that wraps sut.ErrPolicy.
func (d *Driver) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	for _, name := range slices.Sorted(maps.Keys(env.Policies)) {
		if declared := d.opt.Binding.Policies[name]; declared != env.Policies[name] {
			return nil, fmt.Errorf("%s: %s, it declares %q: %w", name, env.Policies[name], declared, sut.ErrPolicy)
		}
	}
	s, err := d.session(env)
	if err != nil {
		return nil, err
	}
	if _, err := s.live(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open a session: %w", err), s.Close())
	}
	return s, nil
}

func (d *Driver) session(env sut.Env) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("driver: %w", ErrClosed)
	}
	s := &session{d: d, env: env, baton: make(chan struct{}, 1)}
	d.sessions[s] = true
	return s, nil
}

func (d *Driver) forget(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}

// Close implements sut.Driver. It closes the sessions that are still open.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	open := slices.Collect(maps.Keys(d.sessions))
	d.mu.Unlock()
	errs := make([]error, len(open))
	var closing sync.WaitGroup
	for i, s := range open {
		closing.Go(func() { errs[i] = s.Close() })
	}
	closing.Wait()
	return errors.Join(errs...)
}

var _ sut.Session = (*session)(nil)

// Log implements sut.Session: there is none.
func (*session) Log(context.Context, spec.SessionID) ([]spec.LogEntry, bool, error) {
	return nil, false, nil
}

// Confession implements sut.Session: there is none.
func (*session) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	return spec.Confession{}, false, nil
}
