package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// build makes w in the empty tree. Modes, times and flags come last and from
// below, so that a directory that nobody may enter is finished before it is
// closed.
func (h *hands) build(w spec.World) error {
	paths := w.Paths()
	for _, p := range paths {
		n := w[p]
		switch {
		case n.Owner == spec.OwnerOther && h.other < 0:
			return fmt.Errorf("%w: a file of another owner takes root", sandbox.ErrCannot)
		case n.Immutable && os.Geteuid() != 0:
			return fmt.Errorf("%w: an immutable file takes root", sandbox.ErrCannot)
		}
		var err error
		if n.Hard != "" {
			err = h.hardlink(p, n.Hard)
		} else {
			err = h.place(p, spec.Node{Type: n.Type, Mode: bare[n.Type], Owner: n.Owner, Content: n.Content, Link: n.Link}, false)
		}
		if p == spec.Workspace && n.Type == spec.TypeDir && errors.Is(err, fs.ErrExist) {
			err = nil // it outlasts a run; see rest
		}
		if err != nil {
			return err
		}
	}
	for i := len(paths) - 1; i >= 0; i-- {
		p := paths[i]
		n := w[p]
		if n.Hard != "" {
			continue
		}
		err := h.on("dress", p, toSearch, func(s *spot) error {
			fd, _, err := s.mine()
			if err == nil {
				err = dress(fd, n)
			}
			if err == nil && n.Immutable {
				err = setImmutable(fd, true)
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// bare are the modes that let the bench go on building.
var bare = map[spec.NodeType]spec.Mode{spec.TypeDir: 0o700, spec.TypeFile: 0o600, spec.TypeFIFO: 0o600}

// place makes the entry p, complete but for the immutable flag. It is made in the
// private folder and then moved: a subject at work in the tree must neither see it
// half made, nor put a file of the host under its name before the owner is set.
func (h *hands) place(p string, n spec.Node, durable bool) error {
	rights := uint32(toSearch | toWrite)
	if durable {
		rights |= toRead
	}
	return h.on("make", p, rights, func(s *spot) error {
		name := h.fresh()
		fd, err := h.create(name, n, durable)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		err = dress(fd, n)
		if err == nil && n.Type == spec.TypeDir {
			err = s.lend(fd, toWrite, false) // moving it changes its entry for the parent
		}
		if err == nil {
			err = unix.Renameat2(int(h.own.Fd()), name, s.dir, s.name, unix.RENAME_NOREPLACE)
		}
		if errors.Is(err, unix.EINVAL) {
			err = fmt.Errorf("%w: this file system cannot give a name without replacing: %w", sandbox.ErrCannot, err)
		}
		if err != nil {
			return errors.Join(err, bury(int(h.own.Fd()), name))
		}
		if durable {
			return flush(s.dir)
		}
		return nil
	})
}

// create makes an entry in the private folder, with its owner, and holds it.
func (h *hands) create(name string, n spec.Node, durable bool) (held int, err error) {
	own := int(h.own.Fd())
	switch n.Type {
	case spec.TypeDir:
		err = unix.Mkdirat(own, name, 0o700)
	case spec.TypeLink:
		err = unix.Symlinkat(n.Link, own, name)
	case spec.TypeFIFO:
		err = unix.Mknodat(own, name, unix.S_IFIFO|0o600, 0)
	case spec.TypeFile:
		var fd int
		if fd, err = openBelowMode(own, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600); err == nil {
			err = fill(fd, n.Content, durable)
		}
	case spec.TypeOther, spec.TypeHidden:
		return -1, fmt.Errorf("%w: an entry of type %s", sandbox.ErrCannot, n.Type)
	}
	if err != nil {
		return -1, err
	}
	held, err = openBelow(own, name, unix.O_PATH)
	if err == nil && os.Geteuid() == 0 {
		uid, gid := h.uid, h.gid
		if n.Owner == spec.OwnerOther {
			uid, gid = h.other, h.other
		}
		if err = unix.Fchownat(held, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			_ = unix.Close(held)
		}
	}
	return held, err
}

func openBelowMode(dir int, name string, flags int, mode uint64) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Mode: mode, Resolve: beneath}
	return unix.Openat2(dir, name, how)
}

// fill makes content all that an open file holds, and closes it.
func fill(fd int, content []byte, durable bool) error {
	f := os.NewFile(uintptr(fd), "")
	err := f.Truncate(0)
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// flush makes the entries of a directory that is held durable.
func flush(held int) error {
	fd, err := reopen(held, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fsync(fd), unix.Close(fd))
}

// dress gives an entry its attributes, mode and time, in this order: a mode may
// forbid attributes, and both change the time.
func dress(held int, n spec.Node) error {
	for name, value := range n.Xattrs {
		if err := unix.Setxattr(procPath(held), name, value, 0); err != nil {
			return fmt.Errorf("%w: attribute %s: %w", sandbox.ErrCannot, name, err)
		}
	}
	if n.Type != spec.TypeLink {
		if err := unix.Chmod(procPath(held), uint32(n.Mode)); err != nil {
			return err
		}
	}
	if n.Mtime != 0 {
		return touch(held, n.Mtime)
	}
	return nil
}

func touch(held int, seconds int64) error {
	t := unix.Timespec{Sec: seconds}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(held), []unix.Timespec{t, t}, 0)
}

// put overwrites a file in place, keeping what it is, or makes it the subject's.
func (h *hands) put(p string, n spec.Node, exclusive, durable bool) error {
	if !exclusive {
		err := h.on("write", p, toSearch, func(s *spot) error { return s.overwrite(n, durable) })
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return h.place(p, n, durable)
}

func (s *spot) overwrite(n spec.Node, durable bool) error {
	fd, st, err := s.mine()
	switch {
	case err != nil:
		return err
	case !st.is(unix.S_IFREG):
		return unix.EEXIST // something else has the name
	}
	if err := s.lend(fd, toWrite, true); err != nil {
		return err
	}
	w, err := reopen(fd, unix.O_WRONLY)
	if err != nil {
		return err
	}
	if err := fill(w, n.Content, durable); err != nil {
		return err
	}
	// A write takes setuid and setgid from an ordinary user's file.
	if st.mode&(unix.S_ISUID|unix.S_ISGID) != 0 {
		if err := unix.Chmod(procPath(fd), st.mode&0o7777); err != nil {
			return err
		}
	}
	if n.Mtime != 0 {
		return touch(fd, n.Mtime)
	}
	return nil
}

// land makes p hold content, durably, with the parents that are missing.
func (h *hands) land(p string, content []byte, exclusive bool) error {
	for i, c := range p {
		if c != '/' || h.exists(p[:i]) == nil {
			continue
		}
		err := h.place(p[:i], spec.Node{Type: spec.TypeDir, Mode: 0o755}, true)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return h.put(p, spec.Node{Type: spec.TypeFile, Mode: 0o644, Content: content}, exclusive, true)
}

func (h *hands) exists(p string) error {
	return h.on("look", p, toSearch, func(s *spot) error {
		_, _, err := s.open()
		return err
	})
}

// unlink takes one name away.
func (h *hands) unlink(p string) error {
	return h.on("unlink", p, toSearch|toWrite, func(s *spot) error {
		fd, _, err := s.open()
		if err == nil {
			err = s.lend(fd, 0, true)
		}
		if err == nil {
			err = unix.Unlinkat(s.dir, s.name, 0)
		}
		return err
	})
}

// removeAll takes p away with everything below. A directory goes in one step, into
// the private folder, and is emptied there.
func (h *hands) removeAll(p string) error {
	gone := ""
	err := h.on("remove", p, toSearch|toWrite, func(s *spot) error {
		fd, st, err := s.open()
		switch {
		case err != nil:
			return err
		case !st.is(unix.S_IFDIR):
			if err := s.lend(fd, 0, true); err != nil {
				return err
			}
			return unix.Unlinkat(s.dir, s.name, 0)
		}
		if err := s.lend(fd, toWrite, true); err != nil { // its entry for the parent is changed
			return err
		}
		gone = h.fresh()
		return unix.Renameat2(s.dir, s.name, int(h.own.Fd()), gone, 0)
	})
	if err != nil || gone == "" {
		return err
	}
	return bury(int(h.own.Fd()), gone)
}

// edit carries out an adversary's change.
func (h *hands) edit(e spec.Edit) error {
	or := func(otherwise spec.Mode) spec.Mode {
		if e.Mode != 0 {
			return e.Mode
		}
		return otherwise
	}
	switch e.Op {
	case spec.EditWrite:
		n := spec.Node{Type: spec.TypeFile, Mode: or(0o644), Content: e.Content, Mtime: e.Mtime}
		return h.put(e.Path, n, false, false)
	case spec.EditMkdir:
		return h.place(e.Path, spec.Node{Type: spec.TypeDir, Mode: or(0o755)}, false)
	case spec.EditSymlink:
		return h.place(e.Path, spec.Node{Type: spec.TypeLink, Link: e.To}, false)
	case spec.EditFIFO:
		return h.place(e.Path, spec.Node{Type: spec.TypeFIFO, Mode: or(0o644)}, false)
	case spec.EditHardlink:
		return h.hardlink(e.Path, e.To)
	case spec.EditRename:
		// Looked at first: what it is to replace must not go if there is nothing to
		// replace it.
		err := h.exists(e.Path)
		if err == nil {
			err = h.removeAll(e.To)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return h.rename(e.Path, e.To, 0)
	case spec.EditExchange:
		return h.rename(e.Path, e.To, unix.RENAME_EXCHANGE)
	case spec.EditRemove:
		return h.removeAll(e.Path)
	case spec.EditChmod:
		return h.chmod(e.Path, e.Mode)
	case spec.EditTouch:
		return h.on("touch", e.Path, toSearch, func(s *spot) error {
			fd, _, err := s.mine()
			if err == nil {
				err = s.lend(fd, 0, true)
			}
			if err == nil {
				err = touch(fd, e.Mtime)
			}
			return err
		})
	}
	return fmt.Errorf("%w: edit %q", sandbox.ErrCannot, e.Op)
}

func (h *hands) chmod(p string, mode spec.Mode) error {
	return h.on("chmod", p, toSearch, func(s *spot) error {
		fd, st, err := s.mine()
		switch {
		case err != nil:
			return err
		case st.is(unix.S_IFLNK):
			return unix.EEXIST // it has the place of what was meant, and no mode
		}
		if err := s.lend(fd, 0, true); err != nil {
			return err
		}
		return unix.Chmod(procPath(fd), uint32(mode))
	})
}

// hardlink gives the file old the further name p.
func (h *hands) hardlink(p, old string) error {
	return h.on("link", old, toSearch, func(o *spot) error {
		fd, st, err := o.open()
		switch {
		case err != nil:
			return err
		case st.is(unix.S_IFDIR):
			return unix.EEXIST // it has the place of a file, and takes no second name
		}
		if err := o.lend(fd, 0, true); err != nil {
			return err
		}
		return h.on("link", p, toSearch|toWrite, func(s *spot) error {
			return unix.Linkat(o.dir, o.name, s.dir, s.name, 0)
		})
	})
}

func (h *hands) rename(p, to string, flags uint) error {
	return h.on("rename", p, toSearch|toWrite, func(s *spot) error {
		if err := s.unpin(); err != nil {
			return err
		}
		return h.on("rename", to, toSearch|toWrite, func(t *spot) error {
			if err := t.unpin(); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
			return unix.Renameat2(s.dir, s.name, t.dir, t.name, flags)
		})
	})
}

// unpin makes an entry one that can be moved: without the flag, and where it is a
// directory with the right to change its entry for the parent.
func (s *spot) unpin() error {
	fd, st, err := s.open()
	if err != nil {
		return err
	}
	rights := uint32(0)
	if st.is(unix.S_IFDIR) {
		rights = toWrite
	}
	return s.lend(fd, rights, true)
}
