package memfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

var (
	linkTexts = rapid.SampledFrom([]string{"a", "b", "c/d", "../a", "..", ".", "a/../b", "d/./d", "nowhere", "e", ""})
	entryName = rapid.SampledFrom([]string{"a", "b", "c", "d"})
	dirBits   = rapid.SampledFrom([]uint32{0o755, 0o777, 0o1777, 0o2777, 0o3777, 0o700, 0o500, 0o300, 0o100, 0o400, 0, 0o775, 0o2775})
	fileBits  = rapid.SampledFrom([]uint32{0o644, 0o666, 0o600, 0o444, 0o200, 0, 0o4755, 0o2755, 0o2745, 0o6777, 0o640, 0o604})
)

// entry is one entry of a world before it is known what is there already.
type entry struct {
	parent, of int // of which directory, and of which file if it is a further name
	name, typ  string
	node       memfs.Node
}

func genEntry(t *rapid.T) entry {
	e := entry{
		parent: rapid.IntRange(0, 9).Draw(t, "parent"), name: entryName.Draw(t, "name"),
		typ: rapid.SampledFrom([]string{"dir", "dir", "dir", "file", "file", "file", "link", "fifo", "name"}).Draw(t, "type"),
	}
	n := &e.node
	n.UID, n.GID = uint32(max(0, uids.Draw(t, "uid"))), uint32(max(0, gids.Draw(t, "gid")))
	switch e.typ {
	case "dir":
		n.Type, n.Bits = fs.ModeDir, dirBits.Draw(t, "mode")
	case "file":
		n.Bits, n.Data = fileBits.Draw(t, "mode"), []byte(contents.Draw(t, "content"))
	case "link":
		n.Type, n.Bits, n.Link = fs.ModeSymlink, 0o777, linkTexts.Filter(func(s string) bool { return s != "" }).Draw(t, "text")
		return e
	case "fifo":
		n.Type, n.Bits = fs.ModeNamedPipe, fileBits.Draw(t, "mode")
		return e
	case "name":
		e.of = rapid.IntRange(0, 9).Draw(t, "of")
		return e
	}
	n.Immutable = rapid.IntRange(0, 9).Draw(t, "immutable") == 9
	if rapid.IntRange(0, 5).Draw(t, "mount") == 5 {
		n.Mount = rapid.SampledFrom([]memfs.Mount{memfs.Bound, memfs.BoundReadOnly}).Draw(t, "mounted")
	}
	return e
}

// build draws a world and makes it on both sides.
func (s *sides) build() {
	s.must(os.MkdirAll(s.real, 0o755))
	for i := 2; i <= len(depth); i += 2 {
		s.must(s.store.Admin().Make(depth[1:i], memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: s.m.ids[0].UID, GID: s.m.ids[0].GID}))
	}
	dirs := []string{""}
	var files, all []string
	var modes, fixed, mounted []func() // what would be in the way of the rest, in this order
	for _, e := range rapid.SliceOfN(rapid.Custom(genEntry), 4, 16).Draw(s.t, "world") {
		p, n := path.Join(dirs[e.parent%len(dirs)], e.name), e.node
		if slices.Contains(all, p) {
			continue
		}
		all = append(all, p)
		if e.typ == "name" {
			if len(files) > 0 {
				s.addName(p, files[e.of%len(files)])
			}
			continue
		}
		if !s.m.root {
			n.UID, n.GID = s.m.ids[0].UID, s.m.ids[0].GID
		}
		n.Immutable = n.Immutable && s.m.flags
		if !s.m.mounts {
			n.Mount = memfs.NotMounted
		}
		s.make(p, n)
		if n.Type != fs.ModeSymlink {
			modes = append(modes, func() { s.must(unix.Chmod(s.at(p), n.Bits)) })
		}
		if n.Immutable {
			fixed = append(fixed, func() { s.setImmutable(p) }) // nothing is mounted yet
		}
		if n.Mount != memfs.NotMounted {
			mounted = append(mounted, func() { s.mount(p, n.Mount) })
		}
		switch {
		case e.typ == "dir":
			dirs = append(dirs, p)
		case e.typ == "file" && n.Mount == memfs.NotMounted:
			// memfs cannot say that a file with two names is a mount point at one of them.
			files = append(files, p)
		}
	}
	slices.Reverse(modes) // children first: their parents may be closed to us
	for _, do := range slices.Concat(modes, fixed, mounted) {
		do()
	}
}

func (s *sides) addName(p, old string) {
	s.log = append(s.log, fmt.Sprintf("%s: a name of %s", p, old))
	s.must(errors.Join(os.Link(s.at(old), s.at(p)), s.store.Admin().Hardlink(s.in(p), s.in(old))))
}

func (s *sides) must(err error) {
	if err != nil {
		s.t.Fatalf("%s\n%v", s.history(), err)
	}
}

func (s *sides) at(p string) string { return filepath.Join(s.real, p) }

func (s *sides) in(p string) string { return path.Join(depth[1:], p) }

func (s *sides) make(p string, n memfs.Node) {
	s.log = append(s.log, fmt.Sprintf("%s: %v %04o %d:%d %q %s", p, n.Type, n.Bits, n.UID, n.GID, n.Data, n.Link))
	var err error
	switch n.Type {
	case fs.ModeDir:
		err = os.Mkdir(s.at(p), 0o700)
	case fs.ModeSymlink:
		err = os.Symlink(n.Link, s.at(p))
	case fs.ModeNamedPipe:
		err = unix.Mkfifo(s.at(p), 0o600)
	default:
		err = os.WriteFile(s.at(p), n.Data, 0o600)
	}
	s.must(errors.Join(err, s.store.Admin().Make(s.in(p), n)))
	if s.m.root {
		s.must(os.Lchown(s.at(p), int(n.UID), int(n.GID)))
	}
}

// setImmutable reports whether the kernel let it.
func (s *sides) setImmutable(p string) bool {
	s.log = append(s.log, p+": immutable")
	held, err := os.Open(s.at(p))
	s.must(err)
	err = setImmutable(s.at(p), true)
	if refused(err) {
		s.must(held.Close())
		return false
	}
	s.must(err)
	s.undo = append(s.undo, func() error {
		return errors.Join(setImmutable(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), false), held.Close())
	})
	return true
}

func (s *sides) mount(p string, kind memfs.Mount) {
	s.log = append(s.log, fmt.Sprintf("%s: mounted %d", p, kind))
	at := s.at(p)
	s.must(unix.Mount(at, at, "", unix.MS_BIND, ""))
	held, err := unix.Open(at, unix.O_PATH|unix.O_CLOEXEC, 0)
	s.must(err)
	s.undo = append(s.undo, func() error { // wherever it was moved to in the meantime
		return errors.Join(unix.Unmount(fmt.Sprintf("/proc/self/fd/%d", held), unix.MNT_DETACH), unix.Close(held))
	})
	var flags uintptr = unix.MS_BIND | unix.MS_REMOUNT // the mount that it copies may be read-only
	if kind == memfs.BoundReadOnly {
		flags |= unix.MS_RDONLY
	}
	s.must(unix.Mount("", at, "", flags, ""))
}

// change does what the hands of the bench do while handles are open.
func (s *sides) change() {
	s.must(s.m.become(0))
	entries := slices.Sorted(maps.Keys(s.memTree()))
	if len(entries) == 0 {
		return
	}
	p := rapid.SampledFrom(entries).Draw(s.t, "entry")
	info, err := os.Lstat(s.at(p))
	if err != nil {
		return // hidden from a process that is not root
	}
	var bits uint32
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return
	case info.IsDir():
		bits = dirBits.Draw(s.t, "mode")
	default:
		bits = fileBits.Draw(s.t, "mode")
	}
	// Only ext4 stops the writing through what was open before.
	if s.m.flags && (info.IsDir() || info.Mode().IsRegular() && s.m.ext4) && rapid.IntRange(0, 4).Draw(s.t, "immutable") == 4 {
		if s.setImmutable(p) {
			s.must(s.store.Admin().Change(s.in(p), func(n *memfs.Node) { n.Immutable = true }))
		}
		return
	}
	s.log = append(s.log, fmt.Sprintf("%s: chmod %04o", p, bits))
	err = unix.Chmod(s.at(p), bits)
	if refused(err) {
		return // the hands of this test are subject to the kernel, unlike memfs's
	}
	s.must(err)
	s.must(s.store.Admin().Change(s.in(p), func(n *memfs.Node) { n.Bits = bits }))
}

func refused(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES)
}

// realTree describes what is on the real side. It looks as root, or as far as a
// process that is not root can.
func (s *sides) realTree() map[string]string {
	tree := map[string]string{}
	first := map[uint64]string{}
	s.must(filepath.WalkDir(s.real, func(p string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, s.real+"/")
		if p == s.real || err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		if err := s.m.unlock(p, e); err != nil {
			return err
		}
		var text []byte
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			text, err = os.ReadFile(p)
			err = errors.Join(err, s.m.lock(p, st.Mode)) // it may have another name
		case unix.S_IFLNK:
			var link string
			link, err = os.Readlink(p)
			text = []byte(link)
		case unix.S_IFDIR:
			st.Nlink = 1
		}
		if _, seen := first[st.Ino]; !seen {
			first[st.Ino] = rel
		}
		names := uint64(st.Nlink) //nolint:unconvert // narrower on some architectures
		tree[rel] = described(e.Type(), st.Mode&0o7777, st.Uid, st.Gid, names, text, first[st.Ino])
		return err
	}))
	return tree
}

// unlock lets the owner look at what it closed to itself.
func (m *machine) unlock(p string, e fs.DirEntry) error {
	if m.root || !e.IsDir() && !e.Type().IsRegular() {
		return nil
	}
	return os.Chmod(p, 0o700)
}

func (m *machine) lock(p string, mode uint32) error {
	if m.root {
		return nil
	}
	return unix.Chmod(p, mode&0o7777)
}

func (m *machine) remove(dir string) error {
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		return errors.Join(err, m.unlock(p, e))
	})
	return errors.Join(err, os.RemoveAll(dir))
}

func (s *sides) memTree() map[string]string {
	tree := map[string]string{}
	first := map[vfs.ID]string{}
	s.store.Admin().Walk(func(p string, n memfs.Node) {
		rel, below := strings.CutPrefix(p, depth[1:]+"/")
		if !below {
			return
		}
		text := n.Data
		switch n.Type {
		case fs.ModeSymlink:
			text = []byte(n.Link)
		case fs.ModeDir:
			n.Nlink = 1
		}
		if _, seen := first[n.ID]; !seen {
			first[n.ID] = rel
		}
		tree[rel] = described(n.Type, n.Bits, n.UID, n.GID, n.Nlink, text, first[n.ID])
	})
	return tree
}

func described(typ fs.FileMode, bits, uid, gid uint32, nlink uint64, text []byte, first string) string {
	return fmt.Sprintf("%v %04o %d:%d %d names, as %s: %q", typ, bits, uid, gid, nlink, first, text)
}
