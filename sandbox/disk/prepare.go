package disk

import (
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox/jail"
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

// outset is what a plan has a process meet from its start on.
type outset struct {
	mounts   []mount     // for the child alone
	locks    []jail.Lock // paths are in the tree
	fileSize uint64      // bytes; 0 for no limit of the plan's
	full     bool        // the volume is; a process meets that whenever it started
}

func (o outset) empty() bool { return len(o.mounts) == 0 && len(o.locks) == 0 && o.fileSize == 0 }

// changes are the classes of what the kernel can be made to refuse.
var changes = []faults.Class{faults.Create, faults.Modify, faults.Remove}

// prepare makes the kernel refuse what in asks for, if it can be made to: the plan
// must be portable, since the kernel does not count and knows no names but those of
// mount points.
//
// One directory is prepared for one injection only, and none below or above a
// mount that was made for another: the kernel has one answer to all of them, and
// the others would never be seen to fire.
func (a *armed) prepare(in faults.Injection) (ok bool, err error) {
	s, when := a.s, in.When
	name := when.Name
	when.Name = ""
	if !when.Portable() || when.Under == "" || !slices.Contains(changes, when.Class) || in.Do.Errno == "" {
		return false, nil
	}
	if name != "" {
		return in.Do.Errno == "EBUSY" && !a.outset.full && a.byMountPoint(path.Join(when.Under, name)), nil
	}
	x, err := s.hand.hold(when.Under)
	if err != nil {
		return false, nil // it is not there: the plan waits for one that the subject makes
	}
	defer func() {
		if !ok {
			x.close()
		}
	}()
	if !x.isDir() || s.prepared(when.Under) != nil || a.readOnly(when.Under) || a.outset.full {
		return false, nil
	}
	entries := when.Class != faults.Modify
	switch {
	case in.Do.Errno == "EROFS" && !a.mountedAt(x):
		return a.byMount(x, when.Under, spec.MountReadOnly), nil
	case in.Do.Errno == "EXDEV" && when.Class == faults.Create && s.foreign && !a.mountedAt(x):
		return a.byMount(x, when.Under, spec.MountBind), nil
	case in.Do.Errno == "EFBIG" && when.Class == faults.Modify && a.byLimit(),
		in.Do.Errno == "ENOSPC" && a.byVolume(when.Class),
		in.Do.Errno == "EACCES" && a.byLock(in.When):
		x.close()
		return true, nil
	case in.Do.Errno == "EACCES" && entries && !x.immutable():
		return s.byMode(x)
	case in.Do.Errno == "EPERM" && entries && !x.immutable():
		return s.byFlag(x)
	}
	return false, nil
}

// byMode takes the right to write a directory from everybody.
func (s *Sandbox) byMode(x *held) (bool, error) {
	before, err := x.mode()
	if err != nil {
		return false, err
	}
	prep := &preparation{held: x, before: before, now: before &^ writeBits}
	if prep.now != before {
		if err := x.chmod(prep.now); err != nil {
			return false, err
		}
	}
	s.preps = append(s.preps, prep)
	return true, nil
}

// byFlag makes a directory immutable. Only root may, and not on every file system.
func (s *Sandbox) byFlag(x *held) (bool, error) {
	before, err := x.mode()
	if err != nil {
		return false, err
	}
	set := x.setImmutable(true) == nil
	if set {
		s.preps = append(s.preps, &preparation{held: x, before: before, now: before, flag: true})
	}
	return set, nil
}

// byMount mounts a directory over itself, for the child alone.
func (a *armed) byMount(x *held, p string, kind spec.Mount) bool {
	if a.s.lab.cannotMount() != nil || a.s.preparedBelow(p) {
		return false
	}
	a.outset.mounts = append(a.outset.mounts, mount{x, kind})
	return true
}

// byMountPoint makes the entry p a mount point: it can be written, and neither
// replaced nor taken away.
func (a *armed) byMountPoint(p string) bool {
	if !a.s.foreign || a.readOnly(p) {
		return false
	}
	x, err := a.s.hand.hold(p)
	if err != nil {
		return false
	}
	if a.mountedAt(x) || !a.byMount(x, p, spec.MountBind) {
		x.close()
		return false
	}
	return true
}

// mountedAt reports whether something is mounted there already.
func (a *armed) mountedAt(x *held) bool {
	return slices.ContainsFunc(slices.Concat(a.s.mounts, a.outset.mounts), func(m mount) bool { return m.id == x.id })
}

// fitting is how many bytes a file can have when files are to be too big: enough that
// the write which meets the end is cut short, as on a real system, and fails only when
// it is tried again.
const fitting = 1

// byLimit bounds the size of the files that a process can write. The bound is on all
// its files, so that a host would lose its Log to it.
func (a *armed) byLimit() bool {
	if !a.s.foreign || a.outset.fileSize != 0 || a.s.hand.isDir(path.Join(spec.Workspace, spec.StateDir)) {
		return false
	}
	a.outset.fileSize = fitting
	return true
}

// byLock has Landlock refuse changes in the workspace and in all below it. A folder
// further down it cannot tell from those that are made beside it later.
func (a *armed) byLock(when faults.When) bool {
	if !a.s.foreign || a.s.lab.open || when.Under != spec.Workspace || len(a.outset.locks) > 0 || jail.CanLock() != nil {
		return false
	}
	lock := jail.Lock{
		Path: when.Under, Create: when.Class == faults.Create, Modify: when.Class == faults.Modify, Remove: when.Class == faults.Remove,
	}
	if state := path.Join(spec.Workspace, spec.StateDir); a.s.hand.isDir(state) {
		lock.But = state // a host without its Log runs nothing
	}
	a.outset.locks = append(a.outset.locks, lock)
	return true
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
func (a *armed) readOnly(p string) bool {
	return slices.ContainsFunc(slices.Concat(a.s.mounts, a.outset.mounts), func(m mount) bool {
		at, ok := a.s.hand.where(m.held)
		return ok && m.kind == spec.MountReadOnly && strings.HasPrefix(p+"/", at+"/")
	})
}
