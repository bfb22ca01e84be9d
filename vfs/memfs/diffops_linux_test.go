package memfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/vfs"
)

// known are the differences that are meant to be. There is one more, which the
// comparison takes into account: an open that the kernel would let wait for the
// other end of a FIFO fails in memory with EAGAIN.
var known = []struct {
	op, mem, real string // op is the beginning of the operation; an empty mem is any answer
	here          func(m *machine) bool
	why           string
}{
	{
		"open-file", "ENXIO", "ok", func(*machine) bool { return true },
		"no FIFO has another end, not even when it is opened for reading and writing at once",
	},
	{
		"doomed", "EPERM", "ok", func(m *machine) bool { return !m.ext4 },
		"ext4 makes no nameless file in a directory that was removed; tmpfs does, and can never name it",
	},
	{
		"chown", "EPERM", "ok", func(m *machine) bool { return !m.ext4 },
		"ext4 refuses whatever is asked of an immutable file; elsewhere a chown that changes nothing is let through",
	},
	{
		"open-root", "", "EACCES", func(m *machine) bool { return m.guarded["symlinks"] },
		"fs.protected_symlinks: links of others in sticky directories are not followed; the host chose the path of a root",
	},
	// fs.protected_regular and protected_fifos are not modelled either. The test does
	// not ask for what they refuse: to create in sticky directories what is there.
}

func (m *machine) excuses(what, mem, real string) bool {
	for _, k := range known {
		if strings.HasPrefix(what, k.op) && (k.mem == mem || k.mem == "") && k.real == real && k.here(m) {
			return true
		}
	}
	return false
}

// word names an error as the comparison sees it.
func word(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, io.EOF):
		return "EOF"
	case errors.Is(err, fs.ErrInvalid):
		return "invalid"
	case errors.Is(err, fs.ErrClosed):
		return "closed"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// shown is what of an Info both sides can agree on.
func shown(i vfs.Info, err error) string {
	if err != nil {
		return word(err)
	}
	text := fmt.Sprintf("ok %v %d:%d", i.Mode, i.UID, i.GID)
	if i.Mode.IsDir() { // size and link count of a directory differ from file system to file system
		return text
	}
	return fmt.Sprintf("%s %d bytes %d names", text, i.Size, i.Nlink)
}

var (
	longest = strings.Repeat("n", 255)
	toolong = strings.Repeat("n", 256)

	plain = rapid.SampledFrom([]string{"a", "a", "b", "b", "c", "d"})
	odd   = rapid.SampledFrom([]string{longest, toolong, strings.Repeat("n", 5000), "", ".", "..", "a/b", "a\x00"})
	names = rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 11).Draw(t, "odd") == 11 {
			return odd.Draw(t, "name")
		}
		return plain.Draw(t, "name")
	})
	perms = rapid.SampledFrom([]fs.FileMode{
		0o644, 0o755, 0o777, 0o600, 0, 0o400, 0o200, 0o666, 0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o745 | fs.ModeSetgid, 0o777 | fs.ModeSticky,
	})
	access = rapid.SampledFrom([]vfs.Flag{
		vfs.ReadOnly, vfs.WriteOnly, vfs.ReadWrite, vfs.WriteOnly | vfs.ReadWrite, vfs.Probe,
		vfs.ReadWrite, vfs.WriteOnly,
	})
	modifiers = rapid.SliceOfNDistinct(rapid.SampledFrom([]vfs.Flag{
		vfs.Create, vfs.Create | vfs.Exclusive, vfs.Exclusive, vfs.Truncate, vfs.Append, vfs.NonBlock, vfs.Create,
	}), 0, 3, rapid.ID[vfs.Flag])
	renames  = rapid.SampledFrom([]vfs.RenameFlag{vfs.Replace, vfs.Replace, vfs.NoReplace, vfs.Exchange})
	uids     = rapid.SampledFrom([]int{-1, -1, 0, 1001, 2002})
	gids     = rapid.SampledFrom([]int{-1, -1, 0, 1001, 2002, 3003})
	sizes    = rapid.SampledFrom([]int64{0, 1, 3, 10, 5000, -1})
	attrs    = rapid.SampledFrom([]string{"user.a", "user.b", "user.", "", "user." + longest, "other.a"})
	contents = rapid.SampledFrom([]string{"", "x", "hello", "0123456789"})
	rootsAt  = rapid.SampledFrom([]string{
		"", "/", "/a", "/b/", "/c", "/a/b", "/a/../b", "/a/./b", "/b/../a", "/../6/a", "/e/a", "/a/b/../../c/d", "/a/.", "/e/..", "/" + toolong,
	})
)

// openRoot opens the world, or a directory in it, by path.
func (s *sides) openRoot(as int, path string, slot int) {
	var d twinDir
	s.both(as, fmt.Sprintf("open-root %q", strings.TrimPrefix(path, depth)), func() string {
		var err error
		d.mem, err = s.store.As(s.m.ids[as]).OpenRoot(path)
		return word(err)
	}, func() string {
		var err error
		d.real, err = s.m.fs.OpenRoot(strings.TrimSuffix(s.real, depth) + path)
		return word(err)
	})
	s.putDir(as, d, slot)
}

func (s *sides) putDir(as int, d twinDir, slot int) {
	if d.real == nil || d.mem == nil {
		return
	}
	d.as = as
	if old := s.dirs[slot]; old != nil {
		_ = old.real.Close()
	}
	s.dirs[slot] = &d
}

func (s *sides) putFile(as int, f twinFile) {
	if f.real == nil || f.mem == nil {
		if f.real != nil {
			_ = f.real.Close()
		}
		return
	}
	f.as = as
	slot := rapid.IntRange(0, len(s.files)-1).Draw(s.t, "file slot")
	if old := s.files[slot]; old != nil {
		_ = old.real.Close()
	}
	s.files[slot] = &f
}

// step draws one operation and does it.
func (s *sides) step() {
	var files []int
	for i, f := range s.files {
		if f != nil {
			files = append(files, i)
		}
	}
	var dirs []int
	for i, d := range s.dirs {
		if d != nil {
			dirs = append(dirs, i)
		}
	}
	kind := rapid.IntRange(0, 9).Draw(s.t, "kind")
	switch {
	case kind < 3 && len(files) > 0:
		s.onFile(rapid.SampledFrom(files).Draw(s.t, "file"))
	case kind < 5:
		s.onTwo(s.dirs[rapid.SampledFrom(dirs).Draw(s.t, "from")], s.dirs[rapid.SampledFrom(dirs).Draw(s.t, "to")])
	case kind == 5:
		s.change()
	default:
		s.onDir(rapid.SampledFrom(dirs).Draw(s.t, "dir"))
	}
}

func (s *sides) onDir(at int) {
	d := s.dirs[at]
	name := names.Draw(s.t, "name")
	label := func(op string) string { return fmt.Sprintf("%s %d %.9q", op, at, name) }
	each := func(op string, f func(d vfs.Dir) string) {
		s.both(d.as, op, func() string { return f(d.mem) }, func() string { return f(d.real) })
	}
	op := rapid.SampledFrom([]string{
		"open-dir", "open-dir", "open-dir", "open-dir", "open-file", "open-file", "open-file", "open-file", "doomed", "doomed", "mkdir", "mkdir", "lstat", "lstat", "stat-dir",
		"read-dir", "readlink", "symlink", "remove", "remove", "rmdir", "rmdir", "sync-dir", "close-dir", "open-root",
	}).Draw(s.t, "op")
	switch op {
	case "open-dir":
		var sub twinDir
		s.both(d.as, label(op), func() string {
			var err error
			sub.mem, err = d.mem.OpenDir(name)
			return word(err)
		}, func() string {
			var err error
			sub.real, err = d.real.OpenDir(name)
			return word(err)
		})
		s.putDir(d.as, sub, rapid.IntRange(0, len(s.dirs)-1).Draw(s.t, "slot"))
	case "open-file", "doomed":
		flag := access.Draw(s.t, "access")
		for _, f := range modifiers.Draw(s.t, "modifiers") {
			flag |= f
		}
		if op == "doomed" {
			flag |= vfs.Doomed
		}
		if info, err := d.real.Stat(); err == nil && info.Mode&fs.ModeSticky != 0 && (s.m.guarded["regular"] || s.m.guarded["fifos"]) {
			flag &^= vfs.Create
		}
		perm := perms.Draw(s.t, "perm")
		var f twinFile
		s.both(d.as, fmt.Sprintf("%s flag=%#x perm=%v", label(op), flag, perm), func() string {
			var err error
			f.mem, err = d.mem.OpenFile(name, flag, perm)
			return word(err)
		}, func() string {
			var err error
			if waits(d.real, name, flag) {
				f.real, err = d.real.OpenFile(name, flag|vfs.NonBlock, perm)
				if err == nil || errors.Is(err, unix.ENXIO) {
					return "EAGAIN"
				}
				return word(err)
			}
			f.real, err = d.real.OpenFile(name, flag, perm)
			return word(err)
		})
		s.putFile(d.as, f)
	case "mkdir":
		perm := perms.Draw(s.t, "perm")
		each(fmt.Sprintf("%s perm=%v", label(op), perm), func(d vfs.Dir) string { return word(d.Mkdir(name, perm)) })
	case "lstat":
		each(label(op), func(d vfs.Dir) string { return shown(d.Lstat(name)) })
	case "stat-dir":
		each(label(op), func(d vfs.Dir) string { return shown(d.Stat()) })
	case "read-dir":
		n := rapid.IntRange(-1, 3).Draw(s.t, "n")
		each(fmt.Sprintf("%s n=%d", label(op), n), func(d vfs.Dir) string {
			got, more, err := d.ReadDir(n)
			if err != nil {
				return word(err)
			}
			if n <= 0 { // which are the first n is the file system's choice
				slices.Sort(got)
				return fmt.Sprintf("ok %q %v", got, more)
			}
			return fmt.Sprintf("ok %d %v", len(got), more)
		})
	case "readlink":
		each(label(op), func(d vfs.Dir) string {
			text, err := d.Readlink(name)
			return word(err) + " " + text
		})
	case "symlink":
		text := linkTexts.Draw(s.t, "text")
		each(fmt.Sprintf("%s text=%q", label(op), text), func(d vfs.Dir) string { return word(d.Symlink(text, name)) })
	case "remove":
		each(label(op), func(d vfs.Dir) string { return word(d.Remove(name)) })
	case "rmdir":
		each(label(op), func(d vfs.Dir) string { return word(d.Rmdir(name)) })
	case "sync-dir":
		each(label(op), func(d vfs.Dir) string { return word(d.Sync()) })
	case "close-dir":
		if at >= len(s.m.ids) { // the first of each identity stay
			each(label(op), func(d vfs.Dir) string { return word(d.Close()) })
		}
	case "open-root":
		s.openRoot(d.as, depth+rootsAt.Draw(s.t, "path"), rapid.IntRange(len(s.m.ids), len(s.dirs)-1).Draw(s.t, "slot"))
	}
}

// waits reports whether an open could wait for the other end of a FIFO.
func waits(d vfs.Dir, name string, flag vfs.Flag) bool {
	if flag&(vfs.NonBlock|vfs.Probe|vfs.Doomed) != 0 {
		return false
	}
	info, err := d.Lstat(name)
	return err == nil && info.Mode&fs.ModeNamedPipe != 0
}

func (s *sides) onTwo(d, to *twinDir) {
	name, toName := names.Draw(s.t, "name"), names.Draw(s.t, "to name")
	indexOf := func(d *twinDir) int { return slices.Index(s.dirs[:], d) }
	label := func(op string) string {
		return fmt.Sprintf("%s %d %.9q to %d %.9q", op, indexOf(d), name, indexOf(to), toName)
	}
	each := func(op string, f func(d, to vfs.Dir) string) {
		s.both(d.as, op, func() string { return f(d.mem, to.mem) }, func() string { return f(d.real, to.real) })
	}
	switch op := rapid.SampledFrom([]string{"link", "rename", "rename", "rename", "publish", "publish"}).Draw(s.t, "op"); op {
	case "link":
		if s.m.links {
			each(label(op), func(d, to vfs.Dir) string { return word(d.Link(name, to, toName)) })
		}
	case "rename":
		flag := renames.Draw(s.t, "flag")
		each(fmt.Sprintf("%s flag=%d", label(op), flag), func(d, to vfs.Dir) string {
			return word(d.Rename(name, to, toName, flag))
		})
	case "publish":
		at := rapid.IntRange(0, len(s.files)-1).Draw(s.t, "file")
		if f := s.files[at]; f != nil {
			s.both(d.as, fmt.Sprintf("publish file %d in %d %.9q", at, indexOf(d), name),
				func() string { return word(d.mem.Publish(f.mem, name)) },
				func() string { return word(d.real.Publish(f.real, name)) })
		}
	}
}

func (s *sides) onFile(at int) {
	f := s.files[at]
	each := func(op string, do func(f vfs.File) string) {
		s.both(f.as, op, func() string { return do(f.mem) }, func() string { return do(f.real) })
	}
	op := rapid.SampledFrom([]string{
		"read", "write", "write", "write", "seek", "stat", "truncate", "chmod", "chmod", "chown", "chown", "sync", "datasync", "sync-range",
		"xattr", "set-xattr", "set-xattr", "xattrs", "close",
	}).Draw(s.t, "op")
	label := fmt.Sprintf("%s file %d", op, at)
	switch op {
	case "read":
		n := rapid.IntRange(0, 12).Draw(s.t, "n")
		each(fmt.Sprintf("%s n=%d", label, n), func(f vfs.File) string {
			buf := make([]byte, n)
			n, err := f.Read(buf)
			return fmt.Sprintf("%s %q", word(err), buf[:n])
		})
	case "write":
		text := contents.Draw(s.t, "content")
		each(fmt.Sprintf("%s %q", label, text), func(f vfs.File) string {
			n, err := f.Write([]byte(text))
			return fmt.Sprintf("%s %d", word(err), n)
		})
	case "seek":
		off, whence := sizes.Draw(s.t, "offset"), rapid.IntRange(-1, 2).Draw(s.t, "whence")
		each(fmt.Sprintf("%s %d %d", label, off, whence), func(f vfs.File) string {
			pos, err := f.Seek(off, whence)
			return fmt.Sprintf("%s %d", word(err), pos)
		})
	case "stat":
		each(label, func(f vfs.File) string { return shown(f.Stat()) })
	case "truncate":
		size := sizes.Draw(s.t, "size")
		each(fmt.Sprintf("%s %d", label, size), func(f vfs.File) string { return word(f.Truncate(size)) })
	case "chmod":
		perm := perms.Draw(s.t, "perm")
		each(fmt.Sprintf("%s %v", label, perm), func(f vfs.File) string { return word(f.Chmod(perm)) })
	case "chown":
		uid, gid := uids.Draw(s.t, "uid"), gids.Draw(s.t, "gid")
		each(fmt.Sprintf("%s %d:%d", label, uid, gid), func(f vfs.File) string { return word(f.Chown(uid, gid)) })
	case "sync":
		each(label, func(f vfs.File) string { return word(f.Sync()) })
	case "datasync":
		each(label, func(f vfs.File) string { return word(f.Datasync()) })
	case "sync-range":
		off, n := sizes.Draw(s.t, "offset"), sizes.Draw(s.t, "n")
		each(fmt.Sprintf("%s %d+%d", label, off, n), func(f vfs.File) string { return word(f.SyncRange(off, n)) })
	case "xattr":
		name := attrs.Draw(s.t, "attribute")
		each(fmt.Sprintf("%s %.9q", label, name), func(f vfs.File) string {
			value, err := f.Xattr(name)
			return fmt.Sprintf("%s %q", word(err), value)
		})
	case "set-xattr":
		name, value := attrs.Draw(s.t, "attribute"), contents.Draw(s.t, "value")
		each(fmt.Sprintf("%s %.9q=%q", label, name, value), func(f vfs.File) string {
			return word(f.SetXattr(name, []byte(value)))
		})
	case "xattrs":
		each(label, func(f vfs.File) string {
			got, err := f.Xattrs()
			got = slices.DeleteFunc(got, func(n string) bool { return !strings.HasPrefix(n, "user.") }) // labels are the machine's
			return fmt.Sprintf("%s %q", word(err), got)
		})
	case "close":
		each(label, func(f vfs.File) string { return word(f.Close()) })
	}
}
