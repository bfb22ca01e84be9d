// Package publish puts whole files in place atomically, through the vfs port: a
// reader sees the old bytes or the new bytes, never a mixture and never
// nothing, and a crash leaves one of the two (AT-007).
//
// Everything happens relative to a directory that the caller holds open. Bytes
// go first to a private file, without a name where the file system can do that,
// with an unpredictable one otherwise; metadata and content are made durable
// before the file gets its name, the name is made durable after. The package
// knows nothing of paths, policies, handlers or who asked.
package publish

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// ErrCannotKeep is wrapped when replacing a file would lose its owner or an
// attribute that this process may not set. Nothing was changed: a file that
// silently changes hands is worse than one that was not written (AT-022).
var ErrCannotKeep = errors.New("owner or attributes of the file cannot be kept")

// Step names where a publication failed.
type Step string

// The steps, in order. A look at what was staged counts as metadata.
const (
	StepStage    Step = "stage"
	StepWrite    Step = "write"
	StepMetadata Step = "metadata"
	StepSync     Step = "sync"
	StepCheck    Step = "check"
	StepPublish  Step = "publish"
	StepSyncDir  Step = "sync directory"
)

// Error says at which step a publication failed and what that leaves.
type Error struct {
	Step Step
	Err  error

	// Unknown is set when the file may be in place although the step failed, or
	// is in place but may not survive a power cut. Otherwise the destination is
	// as it was (AT-015).
	Unknown bool
}

// Error implements error.
func (e *Error) Error() string {
	if e.Unknown {
		return fmt.Sprintf("%s: the outcome is unknown: %v", e.Step, e.Err)
	}
	return fmt.Sprintf("%s: %v", e.Step, e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

// Publisher puts files in place on one kind of file system.
type Publisher struct {
	Caps vfs.Caps

	// TempName returns a name for a private file next to a destination. The name
	// must not be guessable by others who write to that directory, and must not
	// grow with the destination's: a name at the limit must stay writable (PR-012).
	TempName func() string
}

// Request is one file to put in place.
type Request struct {
	Dir     vfs.Dir
	Name    string
	Content []byte

	// Like is an open file whose mode, owner and attributes the new one takes;
	// nil for a fresh file, which gets Perm as the umask leaves it.
	Like vfs.File
	Perm fs.FileMode

	// Replace allows the name to exist. Without it a newcomer wins (AT-008).
	Replace bool

	// Check is a last look just before the file gets its name; an error ends the
	// publication with the destination untouched. It may be nil.
	Check func() error
}

// Put carries out r and returns the identity of the file that it put in place.
// Its errors are *Error.
func (p *Publisher) Put(r Request) (vfs.ID, error) {
	s, err := p.stage(r)
	if err != nil {
		return vfs.ID{}, &Error{Step: StepStage, Err: err}
	}
	defer s.closeQuietly()
	for _, step := range []struct {
		name Step
		do   func() error
	}{
		{StepMetadata, s.look},
		{StepWrite, func() error { return writeAll(s.file, r.Content) }},
		{StepMetadata, func() error { return s.dress(r.Like, p.Caps) }},
		{StepSync, s.file.Sync},
		{StepCheck, func() error { return check(r.Check) }},
	} {
		if err := step.do(); err != nil {
			return vfs.ID{}, &Error{Step: step.name, Err: errors.Join(err, s.abandon())}
		}
	}
	if err := p.publish(s, r); err != nil {
		return vfs.ID{}, err
	}
	if err := SyncDir(r.Dir); err != nil {
		return vfs.ID{}, &Error{Step: StepSyncDir, Err: err, Unknown: true}
	}
	return s.info.ID, nil
}

func check(f func() error) error {
	if f == nil {
		return nil
	}
	return f()
}

// staged is a private file on its way to a name.
type staged struct {
	dir  vfs.Dir
	file vfs.File
	info vfs.Info
	temp string // its name, if it has one
	open bool

	naming bool // it may have been given its final name
}

// tempTries bounds the search for a free name. Whoever plants names faster than
// that gets an error, and keeps what was planted (PR-013).
const tempTries = 100

// errNoTemp does not wrap EEXIST: that would be read as one of the destination.
var errNoTemp = errors.New("every name that was tried for a private file is taken")

func (p *Publisher) stage(r Request) (*staged, error) {
	perm := r.Perm
	if r.Like != nil {
		perm = 0o600 // private until it has the mode of the file that it replaces
	}
	s := &staged{dir: r.Dir, open: true}
	var err error
	if p.Caps.Has(vfs.CapPublish) {
		s.file, err = r.Dir.OpenFile(r.Name, vfs.Doomed, perm)
		if err == nil {
			return s, nil
		}
		if !noDoomed(err) {
			return nil, err
		}
	}
	for range tempTries {
		s.temp = p.TempName()
		s.file, err = r.Dir.OpenFile(s.temp, vfs.ReadWrite|vfs.Create|vfs.Exclusive, perm)
		if !errors.Is(err, syscall.EEXIST) {
			break
		}
	}
	switch {
	case errors.Is(err, syscall.EEXIST):
		return nil, errNoTemp
	case err != nil:
		return nil, err
	}
	return s, nil
}

// noDoomed recognises a file system that cannot make files without a name,
// whatever the backend as a whole promised.
func noDoomed(err error) bool {
	return errors.Is(err, vfs.ErrUnsupported) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EISDIR)
}

// look finds out which object was staged. It is no part of the staging: that it is
// refused says nothing about what may be created.
func (s *staged) look() (err error) {
	s.info, err = s.file.Stat()
	return err
}

// writeAll writes what the kernel did not take the first time, as long as it
// takes something.
func writeAll(f vfs.File, content []byte) error {
	for len(content) > 0 {
		n, err := f.Write(content)
		content = content[n:]
		switch {
		case err == nil && n == 0:
			return io.ErrShortWrite
		case err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)):
			return err
		}
	}
	return nil
}

// dress gives the staged file the owner, attributes and mode of like, by
// descriptor and before anybody can see it. The order matters: a change of owner
// clears mode bits, and a mode without the right to write stops the setting of
// attributes. As after any write by an ordinary user, setuid and setgid are not
// carried over.
func (s *staged) dress(like vfs.File, caps vfs.Caps) error {
	if like == nil {
		return nil
	}
	old, err := like.Stat()
	if err != nil {
		return err
	}
	if err := s.own(old); err != nil {
		return err
	}
	if caps.Has(vfs.CapXattr) {
		if err := s.copyXattrs(like); err != nil {
			return err
		}
	}
	if caps.Has(vfs.CapPerm) {
		return s.file.Chmod(old.Mode.Perm())
	}
	return nil
}

func (s *staged) own(old vfs.Info) error {
	uid, gid := -1, -1
	if old.UID != s.info.UID {
		uid = int(old.UID)
	}
	if old.GID != s.info.GID {
		gid = int(old.GID)
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	if err := s.file.Chown(uid, gid); err != nil {
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
			return fmt.Errorf("%w: %w", ErrCannotKeep, err)
		}
		return err
	}
	return nil
}

func (s *staged) copyXattrs(like vfs.File) error {
	names, err := like.Xattrs()
	if errors.Is(err, syscall.EOPNOTSUPP) {
		return nil // the file system keeps none, so none can be lost
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "security.") {
			continue // labels follow the directory's rule; capabilities do not survive a write
		}
		value, err := like.Xattr(name)
		if err == nil {
			err = s.file.SetXattr(name, value)
		}
		if err != nil {
			return fmt.Errorf("%w: attribute %s: %w", ErrCannotKeep, name, err)
		}
	}
	return nil
}

// publish gives the staged file its name.
func (p *Publisher) publish(s *staged, r Request) error {
	err := p.name(s, r)
	if err == nil {
		return nil
	}
	// A failure may be reported of a step that took effect. What stands at the name
	// now cannot tell: somebody may have been there since. That the file is still as
	// private as it was can (AT-015).
	private, lookErr := true, error(nil)
	if s.naming {
		private, lookErr = s.private()
	}
	return &Error{Step: StepPublish, Err: errors.Join(err, lookErr, s.abandon()), Unknown: !private}
}

// private reports whether the staged file is seen to have no name but its private one.
func (s *staged) private() (bool, error) {
	if s.temp == "" {
		now, err := s.file.Stat()
		return err == nil && now.Nlink == 0, err
	}
	now, err := s.dir.Lstat(s.temp)
	if errors.Is(err, syscall.ENOENT) {
		return false, nil
	}
	return err == nil && now.ID == s.info.ID && now.Nlink < 2, err
}

func (p *Publisher) name(s *staged, r Request) error {
	if !r.Replace {
		return p.nameFresh(s, r)
	}
	if s.temp == "" {
		if err := p.link(s); err != nil {
			return err
		}
	}
	if err := s.close(); err != nil {
		return err
	}
	s.naming = true
	return r.Dir.Rename(s.temp, r.Dir, r.Name, vfs.Replace)
}

// link gives a file without a name a private one: the kernel cannot link over an
// existing name, so replacing takes a rename.
func (p *Publisher) link(s *staged) error {
	for range tempTries {
		name := p.TempName()
		err := s.dir.Publish(s.file, name)
		if err == nil {
			s.temp = name
			return nil
		}
		if now, lookErr := s.dir.Lstat(name); lookErr == nil && now.ID == s.info.ID {
			s.temp = name // it was made although a failure was reported: ours to take away
			return err
		}
		if !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return errNoTemp
}

// nameFresh names the file only if the name is free, in one step that the kernel
// decides.
func (p *Publisher) nameFresh(s *staged, r Request) error {
	s.naming = true
	switch {
	case s.temp == "":
		return r.Dir.Publish(s.file, r.Name)
	case p.Caps.Has(vfs.CapNoReplace):
		return r.Dir.Rename(s.temp, r.Dir, r.Name, vfs.NoReplace)
	case p.Caps.Has(vfs.CapLink):
		if err := r.Dir.Link(s.temp, r.Dir, r.Name); err != nil {
			return err
		}
		return s.abandon()
	}
	return vfs.ErrUnsupported // never fall back to writing in place
}

// abandon takes the temporary name away unless it is seen to be somebody else's by
// now: between a failure and its clean-up the name may have changed hands.
func (s *staged) abandon() error {
	if s.temp == "" {
		return nil
	}
	now, err := s.dir.Lstat(s.temp)
	if errors.Is(err, syscall.ENOENT) || err == nil && now.ID != s.info.ID && s.info.ID != (vfs.ID{}) {
		return nil
	}
	return s.dir.Remove(s.temp)
}

func (s *staged) close() error {
	if !s.open {
		return nil
	}
	s.open = false
	return s.file.Close()
}

// closeQuietly is for files whose content was synced or thrown away: their close
// has nothing left to report.
func (s *staged) closeQuietly() { _ = s.close() }

// SyncDir makes the names in d durable. That a file system cannot sync
// directories, or that d may be written but not read, is not an error: what can
// be promised there is promised without.
func SyncDir(d vfs.Dir) error {
	err := d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, vfs.ErrUnsupported) || errors.Is(err, syscall.EACCES) {
		return nil
	}
	return err
}
