package disk

import (
	"errors"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// preparation is a change of a directory that makes the kernel refuse as a plan
// says. Observe does not show it: it is the fault, not the World.
type preparation struct {
	*held
	before, now spec.Mode
	flag        bool // the immutable flag was set
}

// mask shows what the directory would be without the preparation. It exchanges the
// mode before and the mode now, rather than hiding one of them, so that a subject
// that takes its denial away has visibly changed something.
func (prep *preparation) mask(n *spec.Node) {
	switch n.Mode {
	case prep.now:
		n.Mode = prep.before
	case prep.before:
		n.Mode = prep.now
	}
	n.Immutable = n.Immutable != prep.flag
}

// overlay sets the mode that shows, and keeps the denial in force.
func (prep *preparation) overlay(mode spec.Mode) error {
	now := mode
	if !prep.flag {
		now &^= writeBits
	}
	if err := prep.chmod(now); err != nil {
		return err
	}
	prep.before, prep.now = mode, now
	return nil
}

// undo gives the directory back what it was, except for what a subject has
// changed: that stays to be seen.
func (prep *preparation) undo() error {
	var errs []error
	if prep.flag {
		errs = append(errs, prep.setImmutable(false))
	}
	mode, err := prep.mode()
	if err == nil && mode == prep.now && mode != prep.before {
		err = prep.chmod(prep.before)
	}
	prep.close()
	return errors.Join(append(errs, err)...)
}

const writeBits = 0o222

// prepare makes the kernel refuse what in asks for, if it can be made to: the plan
// must be portable, since the kernel does not count and knows no names. It holds
// the directory that is to be mounted read-only, if that is how.
//
// One directory is prepared for one injection only, and none below or above a
// mount that was made for another: the kernel has one answer to all of them, and
// the others would never be seen to fire.
func (s *Sandbox) prepare(in faults.Injection, mounted []*held) (ok bool, mount *held, err error) {
	under := in.When.Under
	entries := in.When.Class == faults.Create || in.When.Class == faults.Remove
	if !in.When.Portable() || under == "" || !entries && in.When.Class != faults.Modify {
		return false, nil, nil
	}
	if in.Do.Errno != "EACCES" && in.Do.Errno != "EROFS" && in.Do.Errno != "EPERM" {
		return false, nil, nil
	}
	x, err := s.hand.hold(under)
	if err != nil {
		return false, nil, nil // it is not there: the plan waits for one that the subject makes
	}
	defer func() {
		if !ok {
			x.close()
		}
	}()
	if !x.isDir() || s.prepared(under) != nil || s.readOnly(under, mounted) {
		return false, nil, nil
	}
	switch {
	case in.Do.Errno == "EROFS":
		if s.lab.cannotMount() != nil || s.preparedBelow(under) {
			return false, nil, nil
		}
		return true, x, nil
	case in.Do.Errno == "EACCES" && entries && !x.immutable():
		prep := &preparation{held: x}
		if prep.before, err = x.mode(); err != nil {
			return false, nil, err
		}
		if prep.now = prep.before &^ writeBits; prep.now != prep.before {
			if err := x.chmod(prep.now); err != nil {
				return false, nil, err
			}
		}
		s.preps = append(s.preps, prep)
		return true, nil, nil
	case in.Do.Errno == "EPERM" && entries && !x.immutable():
		prep := &preparation{held: x, flag: true}
		if prep.before, err = x.mode(); err != nil {
			return false, nil, err
		}
		if x.setImmutable(true) != nil {
			return false, nil, nil // only root may, and not on every file system
		}
		prep.now = prep.before
		s.preps = append(s.preps, prep)
		return true, nil, nil
	}
	return false, nil, nil
}

// prepared returns the preparation of the directory that is at p now.
func (s *Sandbox) prepared(p string) *preparation {
	for _, prep := range s.preps {
		if now, ok := s.hand.where(prep.held); ok && now == p {
			return prep
		}
	}
	return nil
}

func (s *Sandbox) preparedBelow(p string) bool {
	for _, prep := range s.preps {
		if now, ok := s.hand.where(prep.held); ok && strings.HasPrefix(now+"/", p+"/") {
			return true
		}
	}
	return false
}

// readOnly reports whether p lies on a mount that is, or is to be, read-only.
func (s *Sandbox) readOnly(p string, mounted []*held) bool {
	covers := func(x *held) bool {
		at, ok := s.hand.where(x)
		return ok && strings.HasPrefix(p+"/", at+"/")
	}
	for _, m := range s.mounts {
		if m.kind == spec.MountReadOnly && covers(m.held) {
			return true
		}
	}
	for _, x := range mounted {
		if covers(x) {
			return true
		}
	}
	return false
}
