// Package suttest judges adaptors: implementations of sut.Driver. It says
// whether an adaptor carries what is said faithfully, not whether the subject
// behind it is any good; for that there are rules.
//
// An adaptor that loses a byte, turns a refusal into an error or keeps a call
// waiting makes every verdict about its subject worthless, and no rule can tell
// the two apart. So the subject used here should be a plain one.
package suttest

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// DeniedFile is a file in every root that the subject may neither write nor
// delete, and whose folder it may not change either. How that is achieved is
// the business of who makes the roots: another owner, a mount, a subject that
// pretends. Only subjects that claim sut.RoleRegistry need it.
const DeniedFile = "denied/file"

// Patience is how long a call may take that has been given up.
const Patience = 10 * time.Second

// TestDriver returns what is wrong with d, joined, and nil if nothing is. Every
// root that newRoot makes is used for one session. d is closed in the end.
func TestDriver(ctx context.Context, d sut.Driver, newRoot func() (string, error)) error {
	t := &contract{ctx: ctx, d: d, newRoot: newRoot}
	var err error
	if t.info, err = d.Info(ctx); err != nil {
		return errors.Join(fmt.Errorf("info: %w", err), d.Close())
	}
	t.check("info", t.checkInfo)
	t.check("outcome", t.checkOutcome)
	t.check("cancelled", t.checkCancelled)
	t.check("policy", t.checkPolicy)
	t.check("log", t.checkLog)
	t.check("sessions", t.checkSessions)
	if slices.Contains(t.info.Roles, sut.RoleRegistry) {
		for _, c := range contents {
			t.check("handlers asked with "+c.name, func() { t.checkHandlers(c.content) })
		}
		t.check("delete handlers", t.checkDelete)
		t.check("handler that fails", t.checkThrows)
		t.check("given up", t.checkGivenUp)
	}
	t.check("close", t.checkClose)
	return errors.Join(t.errs...)
}

// contract is one judgement under way.
type contract struct {
	ctx     context.Context
	d       sut.Driver
	newRoot func() (string, error)
	info    sut.Info

	name string
	call spec.CallID

	mu   sync.Mutex
	errs []error
}

func (t *contract) check(name string, run func()) {
	t.name = name
	run()
}

func (t *contract) errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.errs = append(t.errs, fmt.Errorf(t.name+": "+format, args...))
}

// open opens a session in a new root; ok is false if that failed.
func (t *contract) open(env sut.Env) (s *session, ok bool) {
	root, err := t.newRoot()
	if err != nil {
		t.errorf("make a root: %w", err)
		return nil, false
	}
	s = &session{t: t, root: root}
	env.Root = root
	env.Diag = func(string, string, map[string]string) { s.heard("Diag") }
	env.WireFault = func(kind, line, note string) {
		s.heard("WireFault")
		s.faults.Add(1)
	}
	if s.Session, err = t.d.Open(t.ctx, env); err != nil {
		t.errorf("open: %w", err)
		return nil, false
	}
	return s, true
}

// session is a session under watch.
type session struct {
	sut.Session
	t      *contract
	root   string
	closed atomic.Bool
	after  atomic.Pointer[string] // a callback that came after Close
	faults atomic.Int32
}

func (s *session) heard(callback string) {
	if s.closed.Load() {
		s.after.Store(&callback)
	}
}

// do makes a call and checks that outcome and error are not mixed.
func (s *session) do(ctx context.Context, c spec.Call) spec.Outcome {
	s.t.call++
	c.ID = s.t.call
	o, err := s.Do(ctx, c)
	if err != nil {
		s.t.errorf("%s: an error, want an outcome: %w", c.Kind, err)
		return spec.Outcome{}
	}
	s.t.wellFormed(c, o)
	return o
}

func (t *contract) wellFormed(c spec.Call, o spec.Outcome) {
	known := slices.ContainsFunc(spec.ErrWords, func(w spec.ErrWord) bool { return w.Kind == o.Err })
	switch {
	case o.Call != c.ID:
		t.errorf("%s: the outcome is of call %d, want %d", c.Kind, o.Call, c.ID)
	case o.Status == spec.StatusFailed && !known:
		t.errorf("%s: failed with %q, want a kind of failure", c.Kind, o.Err)
	case o.Status != spec.StatusFailed && o.Err != spec.ErrNone:
		t.errorf("%s: %v with the error %q, want none", c.Kind, o.Status, o.Err)
	}
}

// end closes the session twice.
func (s *session) end() {
	for _, which := range []string{"first", "second"} {
		if err := s.Close(); err != nil {
			s.t.errorf("%s close: %w", which, err)
		}
		s.closed.Store(true)
	}
	o, err := s.Do(s.t.ctx, spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
	if err == nil {
		s.t.errorf("a call after close gave an outcome, want an error")
	}
	if !reflect.DeepEqual(o, spec.Outcome{}) {
		s.t.errorf("an error came with the outcome %+v, want one or the other", o)
	}
	if n := s.faults.Load(); n > 0 {
		s.t.errorf("%d protocol faults, want none", n)
	}
	if name := s.after.Load(); name != nil {
		s.t.errorf("%s was called after close", *name)
	}
}

// under reports whether p is an absolute path inside root.
func under(root, p string) bool {
	rel, err := filepath.Rel(root, p)
	return filepath.IsAbs(p) && err == nil && rel != "." && filepath.IsLocal(rel)
}
