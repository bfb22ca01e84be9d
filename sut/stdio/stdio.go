// Package stdio drives a subject that speaks the protocol of docs/PROTOCOL.md
// over its standard input and output.
//
// Every session has a process of its own, so that a sandbox can put it in a
// jail of its own and a crash takes nothing else along. The package knows the
// protocol and how to hold a process. It knows nothing of scenarios, faults or
// rules: what a child says is checked for form here and judged elsewhere.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/fsbench/fsbench/internal/process"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// ErrClosed is wrapped by what is asked of a closed Driver or Session.
var ErrClosed = errors.New("closed")

// ErrChild is wrapped where there is no outcome to say that the child died,
// stayed silent, refused, or departed from the protocol.
var ErrChild = errors.New("the child did not answer as it must")

// Defaults of Options.
const (
	DefaultGrace    = time.Second
	DefaultPatience = 10 * time.Second
)

// Options say how a subject is run. The zero value of a field is usable, but
// for Command.
type Options struct {
	// Command returns the command line for a session; see Argv. policies holds
	// those of Settable that the session needs.
	Command func(root string, policies spec.Policies) []string

	// Settable lists the policies that Command knows how to choose.
	Settable []string

	// Info is what the subject is taken for. Where it is nil the first greeting
	// says it, and a later one that says otherwise is a fault.
	Info *sut.Info

	// Probe is where Info starts a child to be greeted before there is a
	// session. Only its Root and Wrap count; without a root it is a new folder.
	Probe sut.Env

	Edition string   // of the rules, for the child to know
	Runner  string   // likewise
	Allow   []string // destinations a broker may serve; {root} stands for the root

	// ContentDir is where content over 64 KiB is left for children. They must be
	// able to read there, jailed or not, and should not be able to write.
	ContentDir string

	Patience time.Duration // how long a child may take for anything but a call, which has the caller's deadline
	Grace    time.Duration // how long a child may take to end by itself
}

// Argv makes a Command of an argument list in which {root} stands for the root.
func Argv(argv ...string) func(string, spec.Policies) []string {
	return func(root string, _ spec.Policies) []string { return process.Argv(argv, root) }
}

// Main is a child that is a function: it reads in to its end and returns. It
// must also return soon after its context ends.
type Main func(ctx context.Context, in io.Reader, out, errs io.Writer) error

// Driver starts children and talks to them. It is safe for concurrent use.
type Driver struct {
	opt    Options
	launch launcher

	mu       sync.Mutex
	closed   bool
	info     *sut.Info // nil until the first greeting
	sessions map[*Session]bool
}

var _ sut.Driver = (*Driver)(nil)

// New returns a Driver of processes.
func New(opt Options) *Driver { return newDriver(opt, startProcess(opt.Command)) }

// Pipe returns a Driver of children that run as functions in this process,
// where there is nothing for Env.Wrap to put into a sandbox. It is for subjects
// that are trusted to end when asked, and for tests.
func Pipe(main Main, opt Options) *Driver {
	return PipeEach(func(sut.Env) Main { return main }, opt)
}

// PipeEach is Pipe for a function that is made for each child, out of what the
// session runs in: it can be given what does not go over a wire, such as Env.FS.
func PipeEach(main func(sut.Env) Main, opt Options) *Driver { return newDriver(opt, startMain(main)) }

func newDriver(opt Options, launch launcher) *Driver {
	if opt.Grace == 0 {
		opt.Grace = DefaultGrace
	}
	if opt.Patience == 0 {
		opt.Patience = DefaultPatience
	}
	if opt.Edition == "" {
		opt.Edition = "1"
	}
	if opt.Runner == "" {
		opt.Runner = "fsbench"
	}
	d := &Driver{opt: opt, launch: launch, sessions: map[*Session]bool{}}
	if opt.Info != nil {
		info := *opt.Info
		info.Wire, info.Settable = true, opt.Settable
		d.info = &info
	}
	return d
}

// Info implements sut.Driver.
func (d *Driver) Info(ctx context.Context) (sut.Info, error) {
	d.mu.Lock()
	info := d.info
	d.mu.Unlock()
	if info != nil {
		return *info, nil
	}
	env := d.opt.Probe
	if env.Root == "" {
		dir, err := os.MkdirTemp("", "fsbench-probe-")
		if err != nil {
			return sut.Info{}, fmt.Errorf("folder for a greeting: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }()
		env.Root = dir
	}
	s, err := d.session(sut.Env{Root: env.Root, Wrap: env.Wrap})
	if err != nil {
		return sut.Info{}, err
	}
	c, err := s.greet(ctx)
	if err == nil {
		c.end(ctx)
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return sut.Info{}, fmt.Errorf("learn what the subject is: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return *d.info, nil
}

// Open implements sut.Driver. It starts a child, greets it, and opens the root.
//
// A child that does not come that far is an error that wraps ErrChild: without
// a session there is no call to be unknown. A policy that the child does not
// declare and that Settable does not list is an error that wraps sut.ErrPolicy.
func (d *Driver) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	d.mu.Lock()
	info := d.info
	d.mu.Unlock()
	if info != nil {
		if err := d.offers(info.Policies, env.Policies); err != nil {
			return nil, err
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

// session returns a Session without a child.
func (d *Driver) session(env sut.Env) (*Session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("driver: %w", ErrClosed)
	}
	s := &Session{
		d: d, env: env, spool: wire.NewSpool(d.opt.ContentDir), arm: env.Worker != nil,
		baton: make(chan struct{}, 1), seen: map[spec.SessionID]int{},
		diags: diagnostics{to: env.Diag, tail: process.Tail{Max: maxTail}},
	}
	d.sessions[s] = true
	return s, nil
}

func (d *Driver) forget(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s)
}

// chosen returns the part of wanted that the command line decides.
func (d *Driver) chosen(wanted spec.Policies) spec.Policies {
	chosen := spec.Policies{}
	for name, value := range wanted {
		if slices.Contains(d.opt.Settable, name) {
			chosen[name] = value
		}
	}
	return chosen
}

// offers checks wanted against what was declared, leaving out what can be set.
func (d *Driver) offers(declared, wanted spec.Policies) error {
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if slices.Contains(d.opt.Settable, name) {
			continue
		}
		if declared[name] != wanted[name] {
			return fmt.Errorf("%s: %s, it declares %q: %w", name, wanted[name], declared[name], sut.ErrPolicy)
		}
	}
	return nil
}

// recognise keeps what the first greeting says, and reports how a later one
// differs from it. A subject that changes what it claims while it is judged
// would be held to whatever suits it.
func (d *Driver) recognise(g wire.Greeting) string {
	info := sut.Info{
		Name: g.Implementation.Name, Version: g.Implementation.Version,
		Policies: maps.Clone(g.Policies), Settable: d.opt.Settable, Wire: true,
	}
	for _, role := range g.Roles {
		info.Roles = append(info.Roles, sut.Role(role))
	}
	for feature, claimed := range g.Capabilities {
		if claimed {
			info.Features = append(info.Features, feature)
		}
	}
	slices.Sort(info.Features)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.info == nil {
		d.info = &info
		return ""
	}
	if d.opt.Info != nil {
		return ""
	}
	return differs(*d.info, info)
}

func differs(before, now sut.Info) string {
	settable := func(name, _ string) bool { return slices.Contains(now.Settable, name) }
	fixedBefore, fixedNow := maps.Clone(before.Policies), maps.Clone(now.Policies)
	maps.DeleteFunc(fixedBefore, settable)
	maps.DeleteFunc(fixedNow, settable)
	switch {
	case before.Name != now.Name || before.Version != now.Version:
		return "the implementation is not the one of the first greeting"
	case !slices.Equal(before.Roles, now.Roles):
		return "the roles are not those of the first greeting"
	case !slices.Equal(before.Features, now.Features):
		return "the capabilities are not those of the first greeting"
	case !maps.Equal(fixedBefore, fixedNow):
		return "the policies are not those of the first greeting"
	}
	return ""
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

// launcher starts one life of a child.
type launcher func(env sut.Env, policies spec.Policies, stderr io.Writer) (peer, error)

// peer is one life of a child, whatever it is made of.
type peer struct {
	in    io.WriteCloser  // its standard input
	out   io.Reader       // its standard output
	kill  func()          // ends it without asking
	ended <-chan struct{} // closed when nothing of it is left
	state func() string   // how it ended; after ended
	drain func()          // returns when what it has written to standard error was read
}

func startProcess(command func(string, spec.Policies) []string) launcher {
	return func(env sut.Env, policies spec.Policies, stderr io.Writer) (peer, error) {
		argv := command(env.Root, policies)
		if len(argv) == 0 {
			return peer{}, errors.New("start the child: want a command")
		}
		p, err := process.Start(argv, env.Wrap, stderr)
		if err != nil {
			return peer{}, err
		}
		return peer{in: p.Stdin, out: p.Stdout, kill: p.Kill, ended: p.Ended(), state: p.State, drain: p.Drain}, nil
	}
}

func startMain(mainFor func(sut.Env) Main) launcher {
	return func(env sut.Env, _ spec.Policies, stderr io.Writer) (peer, error) {
		main := mainFor(env)
		theirIn, in := io.Pipe()
		out, theirOut := io.Pipe()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		state := "returned"
		go func() {
			defer close(ended)
			defer cancel()
			if err := main(ctx, theirIn, theirOut, stderr); err != nil {
				state = err.Error()
			}
			_ = theirIn.Close()
			_ = theirOut.Close()
		}()
		kill := func() {
			cancel()
			_ = theirIn.Close()
			_ = theirOut.Close()
		}
		return peer{in: in, out: out, kill: kill, ended: ended, state: func() string { return state }, drain: func() {}}, nil
	}
}
