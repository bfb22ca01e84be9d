// Package exec drives a subject that is a command: one process for every call,
// the call as a JSON object on its standard input, the outcome as a JSON object
// on its standard output. The objects are those of the method do of
// docs/PROTOCOL.md, and are held to the same form.
//
// A command that ends with exit code 0 has given an outcome. Any other end is an
// outcome that nobody knows. There are no handlers, no Log and no confession:
// who needs them needs a process that lives longer than a call.
package exec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"github.com/fsbench/fsbench/internal/process"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// ErrClosed is wrapped by what is asked of a closed Driver or Session.
var ErrClosed = errors.New("closed")

// maxTail is how much of standard error is kept.
const maxTail = 64 << 10 // bytes

// Options say how a subject is run.
type Options struct {
	// Command returns the command line of a call; see Argv. policies holds those
	// of Info.Settable that the session needs.
	Command func(root string, policies spec.Policies) []string

	// Plain returns the command line of a call for a command that is not spoken to
	// in JSON; see PlainArgv. Command is not asked then.
	Plain func(root string, c spec.Call) []string

	// Info is what the subject is taken for: there is nobody to ask.
	Info sut.Info

	// ContentDir is where content over 64 KiB is left for the command, which must
	// be able to read there, jailed or not.
	ContentDir string
}

// Argv makes a Command of an argument list in which {root} stands for the root.
func Argv(argv ...string) func(string, spec.Policies) []string {
	return func(root string, _ spec.Policies) []string { return process.Argv(argv, root) }
}

// Driver starts a process for every call. It is safe for concurrent use.
type Driver struct {
	opt Options

	mu       sync.Mutex
	closed   bool
	sessions map[*session]bool
}

var _ sut.Driver = (*Driver)(nil)

// New returns a Driver.
func New(opt Options) *Driver {
	opt.Info.Wire = opt.Plain == nil
	return &Driver{opt: opt, sessions: map[*session]bool{}}
}

// Info implements sut.Driver.
func (d *Driver) Info(context.Context) (sut.Info, error) { return d.opt.Info, nil }

// Open implements sut.Driver. Nothing is started yet.
func (d *Driver) Open(_ context.Context, env sut.Env) (sut.Session, error) {
	chosen := spec.Policies{}
	for _, name := range slices.Sorted(maps.Keys(env.Policies)) {
		value := env.Policies[name]
		switch {
		case slices.Contains(d.opt.Info.Settable, name):
			chosen[name] = value
		case d.opt.Info.Policies[name] != value:
			return nil, fmt.Errorf("%s: %s, it declares %q: %w", name, value, d.opt.Info.Policies[name], sut.ErrPolicy)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, fmt.Errorf("driver: %w", ErrClosed)
	}
	life, end := context.WithCancel(context.Background())
	s := &session{d: d, env: env, policies: chosen, spool: wire.NewSpool(d.opt.ContentDir), life: life, end: end}
	d.sessions[s] = true
	return s, nil
}

// Close implements sut.Driver. It closes the sessions that are still open.
func (d *Driver) Close() error {
	d.mu.Lock()
	d.closed = true
	open := slices.Collect(maps.Keys(d.sessions))
	d.mu.Unlock()
	var errs []error
	for _, s := range open {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// session is one root.
type session struct {
	d        *Driver
	env      sut.Env
	policies spec.Policies
	spool    *wire.Spool

	life   context.Context // ends what is running when the session is closed
	end    context.CancelFunc
	closed bool // guarded by d.mu
	calls  sync.WaitGroup
	close  sync.Once
	err    error
}

var _ sut.Session = (*session)(nil)

// Do implements sut.Session. When ctx ends first, the process and all that it
// started are killed.
func (s *session) Do(ctx context.Context, call spec.Call) (spec.Outcome, error) {
	s.d.mu.Lock()
	if s.closed {
		s.d.mu.Unlock()
		return spec.Outcome{}, fmt.Errorf("session: %w", ErrClosed)
	}
	s.calls.Add(1)
	s.d.mu.Unlock()
	defer s.calls.Done()

	unknown := spec.Outcome{Call: call.ID}
	if ctx.Err() != nil {
		return unknown, nil
	}
	if s.d.opt.Plain != nil {
		return s.doPlain(ctx, call)
	}
	w, err := wire.FromCall(call, s.spool.Carry)
	if err != nil {
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	}
	line, err := json.Marshal(w)
	if err != nil {
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	}
	r, err := s.run(ctx, s.d.opt.Command(s.env.Root, s.policies), append(line, '\n'))
	switch {
	case err != nil:
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	case r.givenUp:
		return unknown, nil
	case !r.success && len(r.out) <= wire.MaxLine:
		s.diag(r)
		return unknown, nil
	}
	out, fault := s.outcome(r.out)
	if fault != nil {
		if s.env.WireFault != nil {
			s.env.WireFault(string(fault.Kind), wire.Escape(r.out), fault.Note)
		}
		return unknown, nil
	}
	return out.Spec(call.ID), nil
}

// result is what became of a process.
type result struct {
	out     []byte
	success bool
	exited  bool // by itself, and not by a signal
	state   string
	errs    string
	givenUp bool
}

// run feeds input to the command and takes what it prints, up to one byte more
// than a line may hold.
func (s *session) run(ctx context.Context, argv []string, input []byte) (result, error) {
	if len(argv) == 0 {
		return result{}, errors.New("start the command: want one")
	}
	tail := &process.Tail{Max: maxTail}
	p, err := process.Start(argv, s.env.Wrap, tail)
	if err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.life, cancel)()
	stop := context.AfterFunc(ctx, p.Kill)

	// Neither a command that does not read nor one that prints without end may
	// hold up the other direction.
	var streams sync.WaitGroup
	streams.Go(func() {
		_, _ = p.Stdin.Write(input)
		_ = p.Stdin.Close()
	})
	var out []byte
	streams.Go(func() {
		out, _ = io.ReadAll(io.LimitReader(p.Stdout, wire.MaxLine+1))
		if len(out) > wire.MaxLine {
			p.Kill()
		}
	})
	<-p.Ended()
	_ = p.Stdin.Close() // for one that ended without reading all
	streams.Wait()
	_ = p.Stdout.Close()
	return result{out: out, success: p.Success(), exited: p.Code() >= 0 && p.Code() < 128, state: p.State(), errs: tail.String(), givenUp: !stop()}, nil
}

// outcome checks what a command printed.
func (s *session) outcome(printed []byte) (wire.Outcome, *wire.Fault) {
	var out wire.Outcome
	if fault := wire.ParseObject(bytes.TrimRight(printed, "\r\n")); fault != nil {
		return out, fault
	}
	if err := wire.Decode(printed, &out); err != nil {
		return out, wire.Faultf(wire.BadOutcome, "%v", err)
	}
	return out, out.Check(s.env.Root)
}

func (s *session) diag(r result) {
	if s.env.Diag != nil {
		s.env.Diag("ERROR", "the command failed", map[string]string{"state": r.state, "stderr": wire.Escape([]byte(r.errs))})
	}
}

// Log implements sut.Session: there is none.
func (*session) Log(context.Context, spec.SessionID) ([]spec.LogEntry, bool, error) {
	return nil, false, nil
}

// Confession implements sut.Session: there is none.
func (*session) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	return spec.Confession{}, false, nil
}

// Close implements sut.Session. A command under way is killed.
func (s *session) Close() error {
	s.close.Do(func() {
		s.d.mu.Lock()
		s.closed = true
		delete(s.d.sessions, s)
		s.d.mu.Unlock()
		s.end()
		s.calls.Wait()
		s.err = s.spool.Close()
	})
	return s.err
}
