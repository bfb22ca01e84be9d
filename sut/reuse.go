package sut

import (
	"context"
	"errors"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/fsbench/fsbench/spec"
)

// Reuse returns a Driver whose processes serve many runs, where the sandbox lets
// them: starting one is most of what a short run costs. A process that was given up in a
// call serves no other run.
func Reuse(d Driver) Driver { return &reuse{Driver: d, kept: map[string]*kept{}} }

type reuse struct {
	Driver

	mu   sync.Mutex
	kept map[string]*kept // sessions at rest, by root
}

// kept is a session that outlasts a run.
type kept struct {
	session Lasting
	env     atomic.Pointer[Env] // of the run under way
	chosen  spec.Policies
}

// Open implements Driver.
func (r *reuse) Open(ctx context.Context, env Env) (Session, error) {
	if !env.Lasting || len(env.Handlers) > 0 || env.Worker != nil {
		return r.Driver.Open(ctx, env)
	}
	if k := r.take(env); k != nil {
		k.env.Store(&env)
		if k.session.Again(ctx) == nil {
			return &lease{Session: k.session, r: r, k: k}, nil
		}
		if err := k.session.Close(); err != nil {
			return nil, err
		}
	}
	k := &kept{chosen: env.Policies}
	k.env.Store(&env)
	inner := env
	inner.Diag = func(level, msg string, attrs map[string]string) {
		if diag := k.env.Load().Diag; diag != nil {
			diag(level, msg, attrs)
		}
	}
	inner.WireFault = func(kind, line, note string) {
		if report := k.env.Load().WireFault; report != nil {
			report(kind, line, note)
		}
	}
	s, err := r.Driver.Open(ctx, inner)
	if err != nil {
		return nil, err
	}
	lasting, ok := s.(Lasting)
	if !ok {
		return s, nil
	}
	k.session = lasting
	return &lease{Session: s, r: r, k: k}, nil
}

// take returns the session that rests in a root, if it was opened as env asks for.
func (r *reuse) take(env Env) *kept {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kept[env.Root]
	if k == nil || !maps.Equal(k.chosen, env.Policies) {
		return nil
	}
	delete(r.kept, env.Root)
	return k
}

// Close implements Driver.
func (r *reuse) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, k := range r.kept {
		errs = append(errs, k.session.Close())
	}
	clear(r.kept)
	return errors.Join(append(errs, r.Driver.Close())...)
}

// lease is a kept session for the time of one run.
type lease struct {
	Session
	r     *reuse
	k     *kept
	doubt atomic.Bool // a call did not come to its end
}

// Do implements Session.
func (l *lease) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	out, err := l.Session.Do(ctx, c)
	if err != nil || ctx.Err() != nil {
		l.doubt.Store(true)
	}
	return out, err
}

// Close implements Session. The process rests, unless it is better ended.
func (l *lease) Close() error {
	if l.doubt.Load() || l.k.session.Rest(context.Background()) != nil {
		return l.Session.Close()
	}
	root := l.k.env.Load().Root
	l.r.mu.Lock()
	before := l.r.kept[root]
	l.r.kept[root] = l.k
	l.r.mu.Unlock()
	if before != nil && before != l.k {
		return before.session.Close()
	}
	return nil
}
