package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/fsbench/fsbench/sandbox/jail"
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
	groups := l.groups
	l.mu.Unlock()
	s, err := l.New()
	if err != nil {
		return nil, err
	}
	s.foreign = true
	s.settleOn(l)
	if groups != nil {
		s.group, err = groups.New(path.Base(path.Dir(s.base)))
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// groupTag tells the control groups of a lab from those of others.
func groupTag(dir string) string { return strings.TrimPrefix(path.Base(dir), labPrefix) }

// canBound reports why the memory of subjects is not bounded.
func (l *Lab) canBound() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups != nil {
		return nil
	}
	g, err := jail.NewGroups(groupTag(l.Dir))
	if err != nil {
		return err
	}
	return g.Close()
}

func (l *Lab) closeGroups() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.groups == nil {
		return nil
	}
	err := l.groups.Close()
	l.groups = nil
	return err
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
	if s.group != nil {
		_ = s.group.End() // what is left of it goes with the lab's
		s.group = nil
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
