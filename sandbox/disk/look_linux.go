package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/spec"
)

// Bounds of one look at a tree. A subject that exceeds them makes the run broken
// rather than the machine.
const (
	mostEntries = 20000
	mostDepth   = 200
	mostBytes   = 256 << 20
	mostTime    = 20 * time.Second
)

// looker reads a tree that may be hostile.
type looker struct {
	h       *hands
	w       spec.World
	first   map[[2]uint64]string // by device and inode: the first name of a file
	entries int
	bytes   int64
	until   time.Time
}

// look reads the whole tree.
func (h *hands) look() (spec.World, error) {
	l := &looker{h: h, w: spec.World{}, first: map[[2]uint64]string{}, until: time.Now().Add(mostTime)}
	fd, err := unix.FcntlInt(h.base.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// A directory that is open for reading, so that its entries come from the start.
	again, err := openBelow(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY)
	_ = unix.Close(fd)
	if err != nil {
		return nil, err
	}
	return l.w, l.dir(again, "", 0)
}

func (l *looker) dir(fd int, prefix string, depth int) error {
	f := os.NewFile(uintptr(fd), prefix)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("look at %q: %w", prefix, err)
	}
	slices.Sort(names)
	for _, name := range names {
		l.entries++
		switch {
		case l.entries > mostEntries:
			return fmt.Errorf("look at the tree: more than %d entries", mostEntries)
		case depth > mostDepth:
			return fmt.Errorf("look at the tree: deeper than %d", mostDepth)
		case time.Now().After(l.until):
			return fmt.Errorf("look at the tree: longer than %v", mostTime)
		}
		if err := l.entry(fd, name, path.Join(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) entry(dir int, name, p string, depth int) error {
	fd, err := openBelow(dir, name, unix.O_PATH)
	if errors.Is(err, unix.ENOENT) {
		return nil // it went while it was looked at
	}
	if err != nil {
		return &fs.PathError{Op: "look", Path: p, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &fs.PathError{Op: "look", Path: p, Err: err}
	}
	n := spec.Node{Mode: spec.Mode(st.Mode & 0o7777)}
	if int(st.Uid) != l.h.uid {
		n.Owner = spec.OwnerOther
	}
	loans := spot{dir: -1}
	defer loans.close()
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		n.Type = spec.TypeDir
		if err := loans.lend(fd); err != nil {
			return &fs.PathError{Op: "look", Path: p, Err: err}
		}
	case unix.S_IFLNK:
		n.Type = spec.TypeLink
		n.Link, err = readlink(fd)
	case unix.S_IFIFO:
		n.Type = spec.TypeFIFO
	case unix.S_IFREG:
		n.Type = spec.TypeFile
		if err := loans.lend(fd); err != nil {
			return &fs.PathError{Op: "look", Path: p, Err: err}
		}
		l.names(&n, st, p)
		err = l.file(&n, fd)
	default:
		n.Type = spec.TypeOther
	}
	if err != nil {
		return &fs.PathError{Op: "look", Path: p, Err: err}
	}
	var below int
	if n.Type == spec.TypeDir {
		if below, err = reopen(fd, unix.O_DIRECTORY); err != nil {
			return &fs.PathError{Op: "look", Path: p, Err: err}
		}
		n.Immutable = immutableFlag(below)
	}
	l.w[p] = n
	if n.Type == spec.TypeDir {
		return l.dir(below, p, depth+1)
	}
	return nil
}

// reopen opens for reading what is held. It cannot be another object: it is not
// looked up by name.
func reopen(fd, flags int) (int, error) {
	return unix.Open(procPath(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
}

func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// names records which names share a file.
func (l *looker) names(n *spec.Node, st unix.Stat_t, p string) {
	if st.Nlink < 2 {
		return
	}
	id := [2]uint64{st.Dev, st.Ino}
	if first, seen := l.first[id]; seen {
		n.Hard = first
		return
	}
	l.first[id] = p
	n.Nlink = int(st.Nlink)
}

// file reads content, attributes and flag of a regular file.
func (l *looker) file(n *spec.Node, held int) error {
	fd, err := reopen(held, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "")
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, mostBytes-l.bytes+1))
	if err != nil {
		return err
	}
	if l.bytes += int64(len(content)); l.bytes > mostBytes {
		return fmt.Errorf("more than %d bytes in the tree", mostBytes)
	}
	n.Content = content
	n.Immutable = immutableFlag(fd)
	n.Xattrs, err = xattrs(fd)
	return err
}

func immutableFlag(fd int) bool {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return err == nil && flags&immutableFlagBit != 0
}

// xattrs reads the attributes that an ordinary user can set. A file system
// without attributes has none.
func xattrs(fd int) (map[string]spec.Content, error) {
	size, err := unix.Flistxattr(fd, nil)
	if size == 0 || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]byte, size)
	if size, err = unix.Flistxattr(fd, list); err != nil {
		return nil, err
	}
	var out map[string]spec.Content
	for _, name := range strings.Split(string(list[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		value := make([]byte, 64<<10)
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]spec.Content{}
		}
		out[name] = value[:n:n]
	}
	return out, nil
}

// removeAll takes away p with everything below, past modes and flags.
func (h *hands) removeAll(p string) error {
	return h.on("remove", p, func(s *spot) error { return bury(s.dir, s.name, 0) })
}

func bury(dir int, name string, depth int) error {
	if depth > mostDepth+8 {
		return fmt.Errorf("deeper than %d", mostDepth)
	}
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if kind := st.Mode & unix.S_IFMT; kind == unix.S_IFREG || kind == unix.S_IFDIR {
		free(dir, name)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.Unlinkat(dir, name, 0)
	}
	fd, err := openBelow(dir, name, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if os.Geteuid() != 0 {
		if err := unix.Chmod(procPath(fd), 0o700); err != nil {
			return err
		}
	}
	list, err := reopen(fd, unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(list), name)
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, n := range names {
		if err := bury(fd, n, depth+1); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}

// free clears the flag that keeps an entry from going. Only root can have set it.
func free(dir int, name string) {
	if os.Geteuid() != 0 {
		return
	}
	s := spot{dir: dir, name: name}
	_ = s.setImmutable(false)
}

// remove takes the whole tree away.
func (h *hands) remove() error {
	err := h.base.Close()
	parent, openErr := os.Open(path.Dir(h.path))
	if openErr != nil {
		return errors.Join(err, openErr)
	}
	defer parent.Close()
	if buryErr := bury(int(parent.Fd()), path.Base(h.path), 0); buryErr != nil {
		err = errors.Join(err, &fs.PathError{Op: "remove", Path: h.path, Err: buryErr})
	}
	return err
}
