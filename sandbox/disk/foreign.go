package disk

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/fsbench/fsbench/spec"
)

// Foreign returns an empty sandbox for subjects that know nothing of fault plans:
// what the kernel cannot be made to do is done to them from outside. Closing it
// empties it, and it is handed out again, with what still runs in it.
func (l *Lab) Foreign() (*Sandbox, error) {
	l.mu.Lock()
	if n := len(l.idle); n > 0 {
		s := l.idle[n-1]
		l.idle = l.idle[:n-1]
		l.mu.Unlock()
		return s, nil
	}
	l.mu.Unlock()
	s, err := l.New()
	if err == nil {
		s.foreign = true
		s.settleOn(l)
	}
	return s, err
}

// rest empties a sandbox and keeps it for another run. The workspace stays, as the
// object that it is: a subject may hold it from its start. Where it was put in
// another's place, or has anything about it that a new one would not have, the
// sandbox has served its time, and rest returns false.
func (s *Sandbox) rest() bool {
	if !s.foreign || len(s.mounts) > 0 || len(s.preps) > 0 {
		return false
	}
	see, err := s.hand.look()
	ws := see.world[spec.Workspace]
	if err != nil || see.ids[spec.Workspace] != s.ws || ws.Immutable || len(ws.Xattrs) > 0 || ws.Owner != spec.OwnerSubject {
		return false
	}
	for _, p := range see.world.Paths() {
		if p == spec.Workspace {
			continue
		}
		if err := s.hand.removeAll(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	s.lab.mu.Lock()
	defer s.lab.mu.Unlock()
	s.lab.idle = append(s.lab.idle, s)
	return true
}

// end ends what rests in a sandbox that is not used again.
func (s *Sandbox) end() {
	if s.sup != nil {
		s.sup.End()
	}
}

// settle notes which object the workspace is.
func (s *Sandbox) settle() error {
	if !s.foreign {
		return nil
	}
	x, err := s.hand.hold(spec.Workspace)
	if err != nil {
		return fmt.Errorf("find the workspace: %w", err)
	}
	s.ws = x.id
	x.close()
	return nil
}

// closeIdle removes the sandboxes that rest.
func (l *Lab) closeIdle() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.idle {
		s.end()
		errs = append(errs, s.raze())
	}
	l.idle = nil
	return errors.Join(errs...)
}
