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

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// Bounds of one look at a tree. A subject that exceeds them makes the run broken
// rather than the machine. The bytes are kept for every call of a scenario.
const (
	mostEntries = 20000
	mostDepth   = 200
	mostBytes   = 64 << 20
	mostTime    = 20 * time.Second
)

// looker reads a tree that may be hostile.
type looker struct {
	h       *hands
	see     sight
	names   map[id][]string // of files that have several
	links   map[id]int
	entries int
	bytes   int64
	until   time.Time
}

// look reads the whole tree.
func (h *hands) look() (sight, error) {
	l := &looker{
		h: h, see: sight{world: spec.World{}, ids: map[string]id{}}, names: map[id][]string{}, links: map[id]int{},
		until: time.Now().Add(mostTime),
	}
	// Opened anew, so that its entries come from the start.
	fd, err := reopen(int(h.base.Fd()), unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return sight{}, fmt.Errorf("look at the tree: %w", err)
	}
	if err := l.dir(fd, "", 0); err != nil {
		return sight{}, fmt.Errorf("look at the tree: %w", err)
	}
	sandbox.NameHardLinks(l.see.world, l.names, l.links)
	return l.see, nil
}

// dir looks at the entries of an open directory, and closes it.
func (l *looker) dir(fd int, prefix string, depth int) error {
	f := os.NewFile(uintptr(fd), prefix)
	defer func() { _ = f.Close() }() // it was only read
	// One more than may be there, and no more: their number is the subject's choice.
	names, err := f.Readdirnames(mostEntries - l.entries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return &fs.PathError{Op: "list", Path: prefix, Err: err}
	}
	slices.Sort(names)
	for _, name := range names {
		l.entries++
		switch {
		case l.entries > mostEntries:
			return fmt.Errorf("more than %d entries", mostEntries)
		case depth > mostDepth:
			return fmt.Errorf("deeper than %d", mostDepth)
		case time.Now().After(l.until):
			return fmt.Errorf("longer than %v", mostTime)
		}
		if err := l.entry(fd, name, path.Join(prefix, name), depth); err != nil {
			return err
		}
	}
	return nil
}

func (l *looker) entry(dir int, name, p string, depth int) error {
	fd, err := openBelow(dir, name, unix.O_PATH)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil // it went while it was looked at
	case errors.Is(err, unix.EXDEV):
		l.see.world[p] = spec.Node{Type: spec.TypeHidden} // something was mounted over it
		return nil
	case err != nil:
		return &fs.PathError{Op: "look", Path: p, Err: err}
	}
	defer unix.Close(fd)
	var borrowed loans
	below, err := l.object(fd, p, &borrowed)
	if err != nil {
		err = &fs.PathError{Op: "look", Path: p, Err: err}
	} else if below >= 0 {
		err = l.dir(below, p, depth+1)
	}
	return errors.Join(err, borrowed.repay())
}

// object notes what fd holds. Of a directory it returns the entries to look at.
func (l *looker) object(fd int, p string, borrowed *loans) (below int, err error) {
	st, err := statusOf(fd)
	if err != nil {
		return -1, err
	}
	n := spec.Node{Type: spec.TypeOther, Mode: spec.Mode(st.mode & 0o7777), Immutable: st.immutable}
	if st.uid != l.h.uid {
		n.Owner = spec.OwnerOther
	}
	below = -1
	switch st.mode & unix.S_IFMT {
	case unix.S_IFLNK:
		n.Type = spec.TypeLink
		n.Link, err = readlink(fd)
	case unix.S_IFIFO:
		n.Type = spec.TypeFIFO
	case unix.S_IFDIR:
		n.Type = spec.TypeDir
		if err = borrowed.lend(fd, toRead|toSearch, false); err == nil {
			if below, err = reopen(fd, unix.O_RDONLY|unix.O_DIRECTORY); err == nil {
				n.Xattrs, err = l.xattrs(below)
			}
		}
	case unix.S_IFREG:
		n.Type = spec.TypeFile
		if st.links > 1 {
			l.names[st.id], l.links[st.id] = append(l.names[st.id], p), st.links
		}
		if err = borrowed.lend(fd, toRead, false); err == nil {
			err = l.file(&n, fd)
		}
	}
	if err != nil && below >= 0 {
		_ = unix.Close(below)
		below = -1
	}
	l.see.world[p], l.see.ids[p] = n, st.id
	return below, err
}

func readlink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// file reads content and attributes of a regular file.
func (l *looker) file(n *spec.Node, held int) error {
	fd, err := reopen(held, unix.O_RDONLY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "")
	defer func() { _ = f.Close() }() // it was only read
	content, err := io.ReadAll(io.LimitReader(f, mostBytes-l.bytes+1))
	if err != nil {
		return err
	}
	n.Content = content
	if err := l.count(len(content)); err != nil {
		return err
	}
	n.Xattrs, err = l.xattrs(fd)
	return err
}

func (l *looker) count(n int) error {
	if l.bytes += int64(n); l.bytes > mostBytes {
		return fmt.Errorf("more than %d bytes in the tree", mostBytes)
	}
	return nil
}

// mostXattr is the most that the kernel lets an attribute, or a list of them, be.
const mostXattr = 64 << 10 // bytes

// xattrs reads the attributes that an ordinary user can set. A file system
// without attributes has none.
func (l *looker) xattrs(fd int) (map[string]spec.Content, error) {
	buf := make([]byte, mostXattr)
	size, err := unix.Flistxattr(fd, buf)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out map[string]spec.Content
	for name := range strings.SplitSeq(string(buf[:size]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		n, err := unix.Fgetxattr(fd, name, buf)
		switch {
		case errors.Is(err, unix.ENODATA):
			continue // it went while it was looked at
		case err != nil:
			return nil, err
		}
		if err := l.count(n); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]spec.Content{}
		}
		out[name] = slices.Clone(buf[:n])
	}
	return out, nil
}
