package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// hands change and read a tree for the bench. Every path is walked below the held
// base, and no component may be a link: a subject that has planted one must not
// choose what the bench does to the host.
type hands struct {
	base     *os.File
	path     string
	uid, gid int // of the subject
	other    int // id of another owner; -1 where there is none
}

func openHands(dir string, lab *Lab) (*hands, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	return &hands{base: f, path: dir, uid: lab.UID, gid: lab.GID, other: lab.other}, nil
}

var below = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

// spot is an entry in an open directory, with the permissions that were lent to
// an ordinary user on the way.
type spot struct {
	dir  int
	name string
	lent []loan
}

// loan is a directory whose owner, being the bench, let itself in.
type loan struct {
	fd   int
	mode uint32
}

func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// lend lets the bench into a directory that it owns. Root needs no loan.
func (s *spot) lend(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if os.Geteuid() == 0 || st.Mode&0o700 == 0o700 {
		return nil
	}
	if err := unix.Chmod(procPath(fd), st.Mode&0o7777|0o700); err != nil {
		return err
	}
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	s.lent = append(s.lent, loan{kept, st.Mode & 0o7777})
	return nil
}

func (s *spot) close() {
	for i := len(s.lent) - 1; i >= 0; i-- {
		_ = unix.Chmod(procPath(s.lent[i].fd), s.lent[i].mode) // it is ours, and held
		_ = unix.Close(s.lent[i].fd)
	}
	if s.dir >= 0 {
		_ = unix.Close(s.dir)
	}
}

// at opens the directory that holds p.
func (h *hands) at(p string) (*spot, error) {
	s := &spot{dir: -1}
	fd, err := unix.FcntlInt(h.base.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s.dir = fd
	dir, name := path.Split(p)
	s.name = name
	for _, c := range strings.Split(dir, "/") {
		if c == "" {
			continue
		}
		if err := s.lend(s.dir); err != nil {
			s.close()
			return nil, &fs.PathError{Op: "enter", Path: p, Err: err}
		}
		next, err := openBelow(s.dir, c, unix.O_PATH|unix.O_DIRECTORY)
		if err != nil {
			s.close()
			return nil, &fs.PathError{Op: "enter", Path: p, Err: err}
		}
		_ = unix.Close(s.dir)
		s.dir = next
	}
	if err := s.lend(s.dir); err != nil {
		s.close()
		return nil, &fs.PathError{Op: "enter", Path: p, Err: err}
	}
	return s, nil
}

func openBelow(dir int, name string, flags int) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: uint64(below)}
	for {
		fd, err := unix.Openat2(dir, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

// on runs f on the entry p.
func (h *hands) on(op, p string, f func(s *spot) error) error {
	s, err := h.at(p)
	if err != nil {
		return err
	}
	defer s.close()
	if err := f(s); err != nil {
		return &fs.PathError{Op: op, Path: p, Err: err}
	}
	return nil
}

// make creates an entry with its content; owner, mode and flags come with dress.
func (h *hands) make(p string, n spec.Node) error {
	if n.Owner == spec.OwnerOther && h.other < 0 {
		return fmt.Errorf("%w: a file of another owner takes root", sandbox.ErrCannot)
	}
	if n.Immutable && os.Geteuid() != 0 {
		return fmt.Errorf("%w: an immutable file takes root", sandbox.ErrCannot)
	}
	return h.on("make", p, func(s *spot) error {
		switch {
		case n.Hard != "":
			return h.hardlink(s, n.Hard)
		case n.Type == spec.TypeDir:
			return unix.Mkdirat(s.dir, s.name, 0o700)
		case n.Type == spec.TypeLink:
			return unix.Symlinkat(n.Link, s.dir, s.name)
		case n.Type == spec.TypeFIFO:
			return unix.Mknodat(s.dir, s.name, unix.S_IFIFO|0o600, 0)
		case n.Type == spec.TypeFile:
			return s.write(n.Content, unix.O_CREAT|unix.O_EXCL, 0o600)
		}
		return fmt.Errorf("%w: an entry of type %s", sandbox.ErrCannot, n.Type)
	})
}

func (h *hands) hardlink(s *spot, old string) error {
	o, err := h.at(old)
	if err != nil {
		return err
	}
	defer o.close()
	return unix.Linkat(o.dir, o.name, s.dir, s.name, 0)
}

// write opens the entry without following or waiting, and writes all of content
// durably.
func (s *spot) write(content []byte, flags int, mode uint32) error {
	fd, err := unix.Openat(s.dir, s.name, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, mode)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), s.name)
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = unix.EEXIST // something else has the name
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// dress gives an entry its owner, mode, attributes, time and flag, in this order:
// each of them may forbid the ones before it.
func (h *hands) dress(p string, n spec.Node) error {
	return h.on("dress", p, func(s *spot) error {
		if os.Geteuid() == 0 {
			uid, gid := h.uid, h.gid
			if n.Owner == spec.OwnerOther {
				uid, gid = h.other, h.other
			}
			if err := unix.Fchownat(s.dir, s.name, uid, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				return err
			}
		}
		if n.Type == spec.TypeLink {
			return nil
		}
		fd, err := openBelow(s.dir, s.name, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for name, value := range n.Xattrs {
			if err := unix.Setxattr(procPath(fd), name, value, 0); err != nil {
				return fmt.Errorf("%w: attribute %s: %w", sandbox.ErrCannot, name, err)
			}
		}
		if err := unix.Chmod(procPath(fd), uint32(n.Mode)); err != nil {
			return err
		}
		if n.Mtime != 0 {
			if err := s.touch(n.Mtime); err != nil {
				return err
			}
		}
		if n.Immutable {
			return s.setImmutable(true)
		}
		return nil
	})
}

func (s *spot) touch(seconds int64) error {
	t := unix.Timespec{Sec: seconds}
	return unix.UtimesNanoAt(s.dir, s.name, []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
}

// chmod changes the mode of an entry and returns what it was.
func (h *hands) chmod(p string, f func(spec.Mode) spec.Mode) (before spec.Mode, err error) {
	err = h.on("chmod", p, func(s *spot) error {
		fd, err := openBelow(s.dir, s.name, unix.O_PATH)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		before = spec.Mode(st.Mode & 0o7777)
		return unix.Chmod(procPath(fd), uint32(f(before)))
	})
	return before, err
}

// immutableFlagBit is FS_IMMUTABLE_FL of the kernel's user interface.
const immutableFlagBit = 0x10

// immutable sets or clears the flag of that name.
func (h *hands) immutable(p string, on bool) error {
	return h.on("immutable", p, func(s *spot) error { return s.setImmutable(on) })
}

func (s *spot) setImmutable(on bool) error {
	fd, err := openBelow(s.dir, s.name, unix.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return fmt.Errorf("%w: the immutable flag: %w", sandbox.ErrCannot, err)
	}
	if flags &^= immutableFlagBit; on {
		flags |= immutableFlagBit
	}
	if err := unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags)); err != nil {
		return fmt.Errorf("%w: the immutable flag: %w", sandbox.ErrCannot, err)
	}
	return nil
}

func (h *hands) isDir(p string) bool {
	err := h.on("look", p, func(s *spot) error {
		var st unix.Stat_t
		if err := unix.Fstatat(s.dir, s.name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.ENOTDIR
		}
		return nil
	})
	return err == nil
}

// land writes the exact bytes to p, in place, making the parents that are missing.
func (h *hands) land(p string, content []byte, exclusive bool) error {
	for i, c := range p {
		if c != '/' {
			continue
		}
		err := h.on("land", p[:i], func(s *spot) error { return unix.Mkdirat(s.dir, s.name, 0o700) })
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = h.dress(p[:i], spec.Node{Type: spec.TypeDir, Mode: 0o755})
		}
		if err != nil {
			return err
		}
	}
	return h.put(p, content, exclusive, 0o644, 0)
}

// put overwrites a file in place, keeping what it is, or makes it the subject's.
func (h *hands) put(p string, content []byte, exclusive bool, mode spec.Mode, mtime int64) error {
	err := h.on("write", p, func(s *spot) error { return s.write(content, unix.O_CREAT|unix.O_EXCL, 0o600) })
	switch {
	case err == nil:
		return h.dress(p, spec.Node{Type: spec.TypeFile, Mode: mode, Mtime: mtime})
	case exclusive || !errors.Is(err, fs.ErrExist):
		return err
	}
	return h.on("write", p, func(s *spot) error {
		if os.Geteuid() != 0 {
			fd, err := openBelow(s.dir, s.name, unix.O_PATH)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err := s.lend(fd); err != nil { // a file of the bench's own that it may not write
				return err
			}
		}
		if err := s.write(content, 0, 0); err != nil {
			return err
		}
		if mtime != 0 {
			return s.touch(mtime)
		}
		return nil
	})
}

func (h *hands) unlink(p string) error {
	return h.on("unlink", p, func(s *spot) error { return unix.Unlinkat(s.dir, s.name, 0) })
}

// edit carries out an adversary's change.
func (h *hands) edit(e spec.Edit) error {
	or := func(otherwise spec.Mode) spec.Mode {
		if e.Mode != 0 {
			return e.Mode
		}
		return otherwise
	}
	made := func(n spec.Node) error {
		if err := h.make(e.Path, n); err != nil {
			return err
		}
		return h.dress(e.Path, n)
	}
	switch e.Op {
	case spec.EditWrite:
		return h.put(e.Path, e.Content, false, or(0o644), e.Mtime)
	case spec.EditMkdir:
		return made(spec.Node{Type: spec.TypeDir, Mode: or(0o755)})
	case spec.EditSymlink:
		return made(spec.Node{Type: spec.TypeLink, Link: e.To})
	case spec.EditFIFO:
		return made(spec.Node{Type: spec.TypeFIFO, Mode: or(0o644)})
	case spec.EditHardlink:
		return h.on("link", e.Path, func(s *spot) error { return h.hardlink(s, e.To) })
	case spec.EditRename:
		if err := h.exists(e.Path); err != nil {
			return err
		}
		if err := h.removeAll(e.To); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.rename(e.Path, e.To, 0)
	case spec.EditExchange:
		return h.rename(e.Path, e.To, unix.RENAME_EXCHANGE)
	case spec.EditRemove:
		return h.removeAll(e.Path)
	case spec.EditChmod:
		_, err := h.chmod(e.Path, func(spec.Mode) spec.Mode { return e.Mode })
		return err
	case spec.EditTouch:
		return h.on("touch", e.Path, func(s *spot) error { return s.touch(e.Mtime) })
	}
	return fmt.Errorf("%w: edit %q", sandbox.ErrCannot, e.Op)
}

func (h *hands) exists(p string) error {
	return h.on("look", p, func(s *spot) error {
		var st unix.Stat_t
		return unix.Fstatat(s.dir, s.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (h *hands) rename(p, to string, flags uint) error {
	return h.on("rename", p, func(s *spot) error {
		t, err := h.at(to)
		if err != nil {
			return err
		}
		defer t.close()
		return unix.Renameat2(s.dir, s.name, t.dir, t.name, flags)
	})
}
