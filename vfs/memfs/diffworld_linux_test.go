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
	"syscall"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

var (
	linkTexts = rapid.SampledFrom([]string{"a", "b", "c/d", "../a", "..", ".", "a/../b", "d/./d", "nowhere", "e", ""})
	entryName = rapid.SampledFrom([]string{"a", "b", "c", "d", "e"})
	dirBits   = rapid.SampledFrom([]uint32{0o755, 0o777, 0o1777, 0o2777, 0o3777, 0o700, 0o500, 0o300, 0o100, 0o400, 0, 0o775, 0o2775})
	fileBits  = rapid.SampledFrom([]uint32{0o644, 0o666, 0o600, 0o444, 0o200, 0, 0o4755, 0o2755, 0o2745, 0o6777, 0o640, 0o604})
)

// build draws a world of a dozen entries and makes it on both sides.
func (s *sides) build() {
	s.must(os.MkdirAll(s.real, 0o755))
	admin := s.store.Admin()
	for i := 2; i <= len(depth); i += 2 {
		s.must(admin.Make(depth[1:i], s.owned(fs.ModeDir, 0o755, 0, 0)))
	}
	dirs := []string{""}
	var files, all []string
	var immutable, mounted []string
	mounts := map[string]memfs.Mount{}
	for range rapid.IntRange(0, 14).Draw(s.t, "entries") {
		p := path.Join(rapid.SampledFrom(dirs).Draw(s.t, "parent"), entryName.Draw(s.t, "name"))
		if slices.Contains(all, p) {
			continue
		}
		typ := rapid.SampledFrom([]string{"dir", "dir", "dir", "file", "file", "file", "link", "fifo", "name"}).Draw(s.t, "type")
		if typ == "name" {
			if len(files) == 0 {
				continue
			}
			old := rapid.SampledFrom(files).Draw(s.t, "of")
			s.must(errors.Join(os.Link(s.at(old), s.at(p)), admin.Hardlink(s.in(p), s.in(old))))
			s.log = append(s.log, fmt.Sprintf("%s: a name of %s", p, old))
			all = append(all, p)
			continue
		}
		n := s.draw(typ)
		s.make(p, n)
		all = append(all, p)
		switch typ {
		case "dir":
			dirs = append(dirs, p)
		case "file":
			files = append(files, p)
		}
	}
	// A file with two names is a mount point at one of them only, which memfs cannot
	// say; so only the directories are mounted on.
	for _, p := range dirs[1:] {
		if s.m.mounts && rapid.IntRange(0, 7).Draw(s.t, "mount") == 0 {
			mounts[p] = rapid.SampledFrom([]memfs.Mount{memfs.Bound, memfs.BoundReadOnly}).Draw(s.t, "mounted")
			mounted = append(mounted, p)
		}
	}
	for _, p := range slices.Concat(dirs[1:], files) {
		if s.m.flags && rapid.IntRange(0, 9).Draw(s.t, "immutable") == 0 {
			immutable = append(immutable, p)
		}
	}
	for _, p := range immutable {
		s.setImmutable(p, true)
	}
	slices.Sort(mounted)
	for _, p := range mounted {
		s.mount(p, mounts[p])
	}
}

func (s *sides) must(err error) {
	if err != nil {
		s.t.Fatalf("%s\n%v", s.history(), err)
	}
}

func (s *sides) at(p string) string { return filepath.Join(s.real, p) }

func (s *sides) in(p string) string { return path.Join(depth[1:], p) }

func (s *sides) owned(typ fs.FileMode, bits uint32, uid, gid int) memfs.Node {
	n := memfs.Node{Type: typ, Bits: bits, UID: uint32(uid), GID: uint32(gid)}
	if !s.m.root {
		n.UID, n.GID = s.m.ids[0].UID, s.m.ids[0].GID
	}
	return n
}

func (s *sides) draw(typ string) memfs.Node {
	uid := max(0, uids.Draw(s.t, "uid"))
	gid := max(0, gids.Draw(s.t, "gid"))
	switch typ {
	case "dir":
		return s.owned(fs.ModeDir, dirBits.Draw(s.t, "mode"), uid, gid)
	case "link":
		n := s.owned(fs.ModeSymlink, 0o777, uid, gid)
		if n.Link = linkTexts.Draw(s.t, "text"); n.Link == "" {
			n.Link = "a"
		}
		return n
	case "fifo":
		return s.owned(fs.ModeNamedPipe, fileBits.Draw(s.t, "mode"), uid, gid)
	}
	n := s.owned(0, fileBits.Draw(s.t, "mode"), uid, gid)
	n.Data = []byte(contents.Draw(s.t, "content"))
	return n
}

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
	if n.Type != fs.ModeSymlink {
		s.must(unix.Chmod(s.at(p), n.Bits))
	}
}

func (s *sides) setImmutable(p string, on bool) {
	s.log = append(s.log, fmt.Sprintf("%s: immutable %v", p, on))
	s.must(setImmutable(s.at(p), on))
	if on {
		held, err := os.Open(s.at(p))
		s.must(err)
		s.undo = append(s.undo, func() error {
			return errors.Join(setImmutable(fmt.Sprintf("/proc/self/fd/%d", held.Fd()), false), held.Close())
		})
	}
	s.must(s.store.Admin().Change(s.in(p), func(n *memfs.Node) { n.Immutable = on }))
}

func (s *sides) mount(p string, kind memfs.Mount) {
	s.log = append(s.log, fmt.Sprintf("%s: mounted %d", p, kind))
	at := s.at(p)
	s.must(unix.Mount(at, at, "", unix.MS_BIND, ""))
	s.undo = append(s.undo, func() error { return unix.Unmount(at, unix.MNT_DETACH) })
	if kind == memfs.BoundReadOnly {
		s.must(unix.Mount("", at, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	}
	s.must(s.store.Admin().Mount(s.in(p), kind))
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
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
	case info.IsDir():
		s.chmod(p, dirBits.Draw(s.t, "mode"))
	default:
		s.chmod(p, fileBits.Draw(s.t, "mode"))
	}
}

func (s *sides) chmod(p string, bits uint32) {
	s.log = append(s.log, fmt.Sprintf("%s: chmod %04o", p, bits))
	err := unix.Chmod(s.at(p), bits)
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		return // the hands of this test are the kernel's, and may not reach
	}
	s.must(err)
	s.must(s.store.Admin().Change(s.in(p), func(n *memfs.Node) { n.Bits = bits }))
}

// realTree describes what is on the real side. It looks as root, or as far as a
// process that is not root can.
func (s *sides) realTree() map[string]string {
	tree := map[string]string{}
	first := map[vfs.ID]string{}
	s.must(filepath.WalkDir(s.real, func(p string, e fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, s.real+"/")
		if p == s.real || err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		var text []byte
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			text, err = os.ReadFile(p)
		case unix.S_IFLNK:
			var link string
			link, err = os.Readlink(p)
			text = []byte(link)
		case unix.S_IFDIR:
			st.Nlink = 1
		}
		if _, seen := first[vfs.ID{Dev: st.Dev, Ino: st.Ino}]; !seen {
			first[vfs.ID{Dev: st.Dev, Ino: st.Ino}] = rel
		}
		tree[rel] = described(e.Type(), st.Mode&0o7777, st.Uid, st.Gid, uint64(st.Nlink), text, first[vfs.ID{Dev: st.Dev, Ino: st.Ino}])
		return err
	}))
	return tree
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
