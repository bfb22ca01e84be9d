package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// Session is one sandbox and the children that live in it, one after the other.
//
// When a child dies, the call under way is unknown, and the next request starts
// another child on the same root: that is how a confession after a crash is
// obtained. The new child gets no fault plan. A plan says what happens to one
// life of a process, and a caller that wants another life of faults opens
// another session.
type Session struct {
	d     *Driver
	env   sut.Env
	spool *wire.Spool

	baton chan struct{} // held while the child is replaced or ended; guards child and arm
	child *child
	arm   bool // the next child is to be given the plan

	closed   atomic.Bool
	close    sync.Once
	closeErr error

	mu     sync.Mutex
	seen   map[spec.SessionID]int // entries of the Log already returned
	failed error                  // the bench could not do its part

	diags diagnostics
}

var _ sut.Lasting = (*Session)(nil)

func (s *Session) lock(ctx context.Context) error {
	select {
	case s.baton <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Session) unlock() { <-s.baton }

// live returns a child that is greeted and opened, a new one if need be.
func (s *Session) live(ctx context.Context) (*child, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	if s.closed.Load() {
		return nil, fmt.Errorf("session: %w", ErrClosed)
	}
	if s.child != nil && !s.child.dead() {
		return s.child, nil
	}
	if s.child != nil {
		<-s.child.reaped // two children in one root would be a race of the bench's making
		s.child = nil
	}
	c, err := s.greet(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.open(ctx, s.arm); err != nil {
		c.discard()
		return nil, err
	}
	s.child, s.arm = c, false
	return c, nil
}

// ask makes one request of a living child and waits for the diagnostics that
// go with the answer.
func (s *Session) ask(ctx context.Context, method string, params, result any) error {
	if s.closed.Load() {
		return fmt.Errorf("session: %w", ErrClosed)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c, err := s.live(ctx)
	if err != nil {
		return err
	}
	if method == wire.MethodDo {
		err = c.call(ctx, method, params, result)
	} else {
		err = c.request(ctx, method, params, result)
	}
	c.peer.drain()
	s.mu.Lock()
	defer s.mu.Unlock()
	return errors.Join(err, s.failed)
}

// subjects reports whether err, where it stands alone, was the subject's doing
// or the caller's deadline, and tells the reader of the trace. What is left is
// the bench's.
func (s *Session) subjects(ctx context.Context, method string, err error) bool {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	switch {
	case failed != nil || errors.Is(err, ErrClosed):
		return false
	case ctx.Err() != nil:
		return true
	case !errors.Is(err, ErrChild):
		return false
	}
	var refusal *jrpc2.Error
	if errors.As(err, &refusal) && refusal.Code != wire.CodeFault {
		s.diags.report("WARN", "the child answered with an error", map[string]string{
			"method": method, "code": strconv.Itoa(int(refusal.Code)), "message": refusal.Message,
		})
	}
	return true
}

// Do implements sut.Session. If the deadline of ctx passes, the child is told
// to cancel, and an answer that comes all the same is a diagnostic.
func (s *Session) Do(ctx context.Context, call spec.Call) (spec.Outcome, error) {
	w, err := wire.FromCall(call, s.spool.Carry)
	if err != nil {
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	}
	params := wire.Do{Call: w}
	if deadline, ok := ctx.Deadline(); ok {
		params.Deadline = max(1, time.Until(deadline).Milliseconds())
	}
	var out wire.Outcome
	err = s.ask(ctx, wire.MethodDo, params, &out)
	switch {
	case err == nil:
		return out.Spec(call.ID), nil
	case s.subjects(ctx, wire.MethodDo, err):
		return spec.Outcome{Call: call.ID}, nil
	default:
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	}
}

// Log implements sut.Session. A child that claims a Log and does not give it
// leaves ok false and a diagnostic.
func (s *Session) Log(ctx context.Context, id spec.SessionID) ([]spec.LogEntry, bool, error) {
	if !s.claims(wire.FeatureLog) {
		return nil, false, nil
	}
	var all wire.Entries
	if err := s.ask(ctx, wire.MethodLog, wire.Log{Session: id}, &all); err != nil {
		return nil, false, s.silence(ctx, wire.MethodLog, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(all.Entries) < s.seen[id] {
		s.diags.report("ERROR", "the Log has become shorter", map[string]string{
			"session": string(id), "was": strconv.Itoa(s.seen[id]), "is": strconv.Itoa(len(all.Entries)),
		})
		s.seen[id] = len(all.Entries)
	}
	var entries []spec.LogEntry
	for _, e := range all.Entries[s.seen[id]:] {
		entries = append(entries, e.Spec())
	}
	s.seen[id] = len(all.Entries)
	return entries, true, nil
}

// Confession implements sut.Session, as Log does.
func (s *Session) Confession(ctx context.Context, id spec.SessionID) (spec.Confession, bool, error) {
	if !s.claims(wire.FeatureConfess) {
		return spec.Confession{}, false, nil
	}
	return s.confess(ctx, wire.Confess{Session: &id})
}

// ConfessEvents has the child fold events in the order given.
func (s *Session) ConfessEvents(ctx context.Context, events []json.RawMessage) (spec.Confession, bool, error) {
	return s.confess(ctx, wire.Confess{Events: append([]json.RawMessage{}, events...)})
}

// ConfessLog has the child fold a Log file given byte for byte.
func (s *Session) ConfessLog(ctx context.Context, log []byte) (spec.Confession, bool, error) {
	return s.confess(ctx, wire.Confess{Log: append([]byte{}, log...)})
}

func (s *Session) confess(ctx context.Context, params wire.Confess) (spec.Confession, bool, error) {
	var c wire.Confession
	if err := s.ask(ctx, wire.MethodConfess, params, &c); err != nil {
		return spec.Confession{}, false, s.silence(ctx, wire.MethodConfess, err)
	}
	return c.Spec(), true, nil
}

// silence returns err if it is the bench's, and otherwise leaves a diagnostic.
func (s *Session) silence(ctx context.Context, method string, err error) error {
	if !s.subjects(ctx, method, err) {
		return fmt.Errorf("%s: %w", method, err)
	}
	s.diags.report("ERROR", "the child did not give what it claims to have", map[string]string{"method": method})
	return nil
}

func (s *Session) claims(feature string) bool {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	return s.d.info != nil && slices.Contains(s.d.info.Features, feature)
}

// Quiesce waits until the child has finished what is under way.
func (s *Session) Quiesce(ctx context.Context) error {
	return s.ask(ctx, wire.MethodQuiesce, wire.Empty{}, &wire.Empty{})
}

// Broker returns the child itself as a handler of each seam, for a subject that
// claims the role broker. A child's error is the handler's.
func (s *Session) Broker() []sut.Handler {
	return []sut.Handler{
		{Seam: spec.SeamWrite, Write: func(ctx context.Context, r spec.WriteRequest) (bool, error) {
			w, err := wire.FromWrite("", r, s.spool.Carry)
			if err != nil {
				return false, err
			}
			var answer wire.Landed
			err = s.ask(ctx, wire.MethodWrite, w, &answer)
			return answer.Landed, err
		}},
		{Seam: spec.SeamDelete, Delete: func(ctx context.Context, r spec.DeleteRequest) (bool, error) {
			w, err := wire.FromDelete("", r)
			if err != nil {
				return false, err
			}
			var answer wire.Landed
			err = s.ask(ctx, wire.MethodDelete, w, &answer)
			return answer.Landed, err
		}},
	}
}

// Stderr returns the last 64 KiB that the children wrote to standard error.
func (s *Session) Stderr() string { return s.diags.tail.String() }

// fail keeps the first error of the bench's own part in a call. The next answer
// is not worth anything without it.
func (s *Session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

// Rest implements sut.Lasting: the child finishes what is under way and gives up its
// root. One that has died, or that takes long over it, is not worth keeping.
func (s *Session) Rest(ctx context.Context) error {
	return s.keep(ctx, func(ctx context.Context, c *child) error {
		for _, method := range []string{wire.MethodQuiesce, wire.MethodClose} {
			if err := c.request(ctx, method, wire.Empty{}, &wire.Empty{}); err != nil {
				return err
			}
		}
		c.opened = false
		return nil
	})
}

// Again implements sut.Lasting: the root is opened anew.
func (s *Session) Again(ctx context.Context) error {
	return s.keep(ctx, func(ctx context.Context, c *child) error { return c.open(ctx, false) })
}

// keep does something with the child that there is.
func (s *Session) keep(ctx context.Context, do func(context.Context, *child) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.d.opt.Grace)
	defer cancel()
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.closed.Load() || s.child == nil || s.child.dead() {
		return errEnded
	}
	s.mu.Lock()
	clear(s.seen)
	err := s.failed
	s.mu.Unlock()
	return errors.Join(err, do(ctx, s.child))
}

// Close implements sut.Session. The child is asked to end, then sees the end of
// its standard input, and is killed after the grace period.
func (s *Session) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		s.baton <- struct{}{} // a child being started is bounded in time
		defer s.unlock()
		if s.child != nil {
			s.child.end(context.Background())
		}
		s.d.forget(s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.closeErr = errors.Join(s.failed, s.spool.Close())
	})
	return s.closeErr
}
