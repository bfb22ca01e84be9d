package vfstest_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

// broken is one wrong subject.
type broken struct {
	name  string
	op    vfs.OpKind
	want  string // part of what TestFS must say
	spoil func(b *behaviour)
}

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

var brokenDirs = []broken{
	{"root made of anything", vfs.OpOpenRoot, "OpenRoot of a missing directory succeeded", func(b *behaviour) {
		b.openRoot = func(in vfs.FS, dir string) (vfs.Dir, error) {
			d, err := in.OpenRoot(dir)
			if err != nil {
				return in.OpenRoot(path.Dir(dir))
			}
			return d, nil
		}
	}},
	{"open-dir follows links", vfs.OpOpenDir, `OpenDir("to-dir") of a link succeeded`, func(b *behaviour) {
		b.openDir = func(in vfs.Dir, name string) (vfs.Dir, error) {
			d, err := in.OpenDir(name)
			if errors.Is(err, syscall.ELOOP) {
				if text, err := in.Readlink(name); err == nil {
					return in.OpenDir(text)
				}
			}
			return d, err
		}
	}},
	{"open-dir takes a file for missing", vfs.OpOpenDir, "OpenDir of a file = openat f: no such file or directory", func(b *behaviour) {
		b.openDir = func(in vfs.Dir, name string) (vfs.Dir, error) {
			d, err := in.OpenDir(name)
			if errors.Is(err, syscall.ENOTDIR) {
				err = fail("openat", name, syscall.ENOENT)
			}
			return d, err
		}
	}},
	{"directory by name", vfs.OpOpenDir, "of the directory that came to the old name", func(b *behaviour) { b.byName = true }},
	{"mkdir over anything", vfs.OpMkdir, `Mkdir over existing "f" succeeded`, func(b *behaviour) {
		b.mkdir = func(in vfs.Dir, name string, perm fs.FileMode) error {
			if err := in.Mkdir(name, perm); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		}
	}},
	{"mkdir walks", vfs.OpMkdir, `Mkdir with name "a/b" = mkdirat a: file exists, want invalid argument`, func(b *behaviour) {
		b.mkdir = func(in vfs.Dir, name string, perm fs.FileMode) error {
			if name == "a/b" {
				return fail("mkdirat", "a", syscall.EEXIST)
			}
			return in.Mkdir(name, perm)
		}
	}},
	{"mkdir gives everyone the right to write", vfs.OpMkdir, "bits of a directory made with 0750 that were not asked for", func(b *behaviour) {
		b.mkdir = func(in vfs.Dir, name string, perm fs.FileMode) error {
			return in.Mkdir(name, perm|fs.ModeSticky)
		}
	}},
	{"lstat follows links", vfs.OpLstat, "Lstat Type of a link", func(b *behaviour) {
		b.lstat = func(in vfs.Dir, name string) (vfs.Info, error) {
			info, err := in.Lstat(name)
			if text, rerr := in.Readlink(name); rerr == nil {
				if target, terr := in.Lstat(text); terr == nil {
					return target, nil
				}
			}
			return info, err
		}
	}},
	{"one identity for all", vfs.OpLstat, "ID of three objects", spoilLstat(func(i *vfs.Info) { i.ID.Ino = 7 })},
	{"modification time forgotten", vfs.OpLstat, "Mtime is set = true", spoilLstat(func(i *vfs.Info) { i.Mtime = time.Time{} })},
	{"birth time moves", vfs.OpLstat, "Btime after Write and Rename", spoilLstat(func(i *vfs.Info) { i.Btime = i.Btime.AddDate(1, 0, 0) })},
	{"mount differs within a directory", vfs.OpLstat, "MountID of a file", spoilLstat(func(i *vfs.Info) { i.MountID++ })},
	{"links are not counted", vfs.OpLstat, "Nlink after Link", spoilLstat(func(i *vfs.Info) { i.Nlink = 1 })},
	{"open directory has another identity", vfs.OpStatDir, "ID of an open directory", func(b *behaviour) {
		b.statDir = func(in vfs.Dir) (vfs.Info, error) {
			info, err := in.Stat()
			info.ID.Ino++
			return info, err
		}
	}},
	{"read-dir denies that there is more", vfs.OpReadDir, "ReadDir(1) says that there are more = false", func(b *behaviour) {
		b.readDir = func(in vfs.Dir, n int) ([]string, bool, error) {
			names, _, err := in.ReadDir(n)
			return names, false, err
		}
	}},
	{"read-dir always sees more", vfs.OpReadDir, "ReadDir(5) says that there are more = true", func(b *behaviour) {
		b.readDir = func(in vfs.Dir, n int) ([]string, bool, error) {
			names, more, err := in.ReadDir(n)
			return names, more || n > 0 && len(names) == n, err
		}
	}},
	{"read-dir without bound", vfs.OpReadDir, "ReadDir(1) = ", func(b *behaviour) {
		b.readDir = func(in vfs.Dir, n int) ([]string, bool, error) {
			_, more, err := in.ReadDir(n)
			names, _, _ := in.ReadDir(0)
			return names, more, err
		}
	}},
	{"read-dir loses a name", vfs.OpReadDir, "after Rename over a file = ", func(b *behaviour) {
		b.readDir = func(in vfs.Dir, n int) ([]string, bool, error) {
			names, more, err := in.ReadDir(n)
			return slices.DeleteFunc(names, func(s string) bool { return s == "b" }), more, err
		}
	}},
	{"readlink cleans", vfs.OpReadlink, `Readlink = "../a/b", want "../a//./b/"`, func(b *behaviour) {
		b.readlink = func(in vfs.Dir, name string) (string, error) {
			text, err := in.Readlink(name)
			if err != nil {
				return "", err
			}
			return path.Clean(text), nil
		}
	}},
	{"symlink replaces", vfs.OpSymlink, `Symlink over existing "f" succeeded`, func(b *behaviour) {
		b.symlink = func(in vfs.Dir, target, name string) error {
			err := in.Symlink(target, name)
			if errors.Is(err, fs.ErrExist) && in.Remove(name) == nil {
				return in.Symlink(target, name)
			}
			return err
		}
	}},
	{"symlink works undeclared", vfs.OpSymlink, "Symlink without capability symlink succeeded", func(b *behaviour) { b.hidden = vfs.CapSymlink }},
	{"link copies", vfs.OpLink, "Nlink after Link = 1, want 2", func(b *behaviour) {
		b.link = func(in vfs.Dir, name string, to vfs.Dir, toName string) error {
			if name != "a" || toName != "b" {
				return in.Link(name, to, toName)
			}
			return copyFile(in, name, to, toName)
		}
	}},
	{"rename replaces in spite of NoReplace", vfs.OpRename, `Rename with NoReplace over "b" succeeded`, func(b *behaviour) {
		b.rename = func(in vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			if flag == vfs.NoReplace {
				flag = vfs.Replace
			}
			return in.Rename(name, to, toName, flag)
		}
	}},
	{"exchange replaces", vfs.OpRename, `exchange: reading "a": openat a: no such file`, func(b *behaviour) {
		b.rename = func(in vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			if flag == vfs.Exchange {
				flag = vfs.Replace
			}
			return in.Rename(name, to, toName, flag)
		}
	}},
	{"rename of two names of one file removes one", vfs.OpRename, "after Rename over another name of the same file", func(b *behaviour) {
		b.rename = func(in vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			from, _ := in.Lstat(name)
			over, oerr := to.Lstat(toName)
			err := in.Rename(name, to, toName, flag)
			if oerr == nil && from.ID == over.ID && name != toName {
				return in.Remove(name)
			}
			return err
		}
	}},
	{"rename with bare errno", vfs.OpRename, "want a *fs.PathError or an *os.LinkError", func(b *behaviour) {
		b.rename = func(in vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			err := in.Rename(name, to, toName, flag)
			var errno syscall.Errno
			if errors.As(err, &errno) {
				return errno
			}
			return err
		}
	}},
	{"publish replaces", vfs.OpPublish, "Publish over an existing file succeeded", func(b *behaviour) {
		b.publish = func(in vfs.Dir, f vfs.File, name string) error {
			err := in.Publish(f, name)
			if errors.Is(err, fs.ErrExist) && in.Remove(name) == nil {
				return in.Publish(f, name)
			}
			return err
		}
	}},
	{"remove takes directories too", vfs.OpRemove, "Remove of a directory succeeded", func(b *behaviour) {
		b.remove = func(in vfs.Dir, name string) error {
			err := in.Remove(name)
			if errors.Is(err, syscall.EISDIR) {
				return in.Rmdir(name)
			}
			return err
		}
	}},
	{"remove does nothing", vfs.OpRemove, "after Remove and Rmdir", func(b *behaviour) {
		b.remove = func(in vfs.Dir, name string) error { _, err := in.Lstat(name); return err }
	}},
	{"rmdir takes files too", vfs.OpRmdir, "Rmdir of a file succeeded", func(b *behaviour) {
		b.rmdir = func(in vfs.Dir, name string) error {
			err := in.Rmdir(name)
			if errors.Is(err, syscall.ENOTDIR) {
				return in.Remove(name)
			}
			return err
		}
	}},
	{"directory cannot be synced", vfs.OpSyncDir, "Sync of a directory: ", func(b *behaviour) {
		b.syncDir = func(vfs.Dir) error { return fail("fsync", ".", syscall.EINVAL) }
	}},
	{"closed directory works", vfs.OpClose, "Stat of a closed directory succeeded", func(b *behaviour) {
		b.closeDir = func(vfs.Dir) error { return nil }
	}},
	{"sync-fs refused", vfs.OpSyncFS, "SyncFS: ", func(b *behaviour) {
		b.syncFS = func(vfs.FS, vfs.Dir) error { return fail("syncfs", ".", syscall.ENOSYS) }
	}},
}

func spoilLstat(change func(i *vfs.Info)) func(b *behaviour) {
	return func(b *behaviour) {
		b.lstat = func(in vfs.Dir, name string) (vfs.Info, error) {
			info, err := in.Lstat(name)
			change(&info)
			return info, err
		}
	}
}

func copyFile(in vfs.Dir, name string, to vfs.Dir, toName string) error {
	old, err := in.OpenFile(name, vfs.ReadOnly, 0)
	if err != nil {
		return err
	}
	defer old.Close()
	text, err := io.ReadAll(old)
	if err != nil {
		return err
	}
	f, err := to.OpenFile(toName, vfs.WriteOnly|vfs.Create|vfs.Exclusive, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(text)
	return err
}

// opens breaks OpenFile by other flags or another mode.
func opens(change func(in vfs.Dir, name string, flag *vfs.Flag, perm *fs.FileMode)) func(b *behaviour) {
	return func(b *behaviour) {
		b.openFile = func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			change(in, name, &flag, &perm)
			return in.OpenFile(name, flag, perm)
		}
	}
}

var brokenFiles = []broken{
	{"open-file follows links", vfs.OpOpenFile, `OpenFile("to-file", ReadOnly) of a link succeeded`, followLinks(syscall.ELOOP)},
	{"exclusive create follows a dangling link", vfs.OpOpenFile, `OpenFile("dangling", WriteOnly|Create|Exclusive) of a link succeeded`, followLinks(syscall.EEXIST)},
	{"exclusive is ignored", vfs.OpOpenFile, `OpenFile("f", WriteOnly|Create|Exclusive) over an existing name succeeded`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		*flag &^= vfs.Exclusive
	})},
	{"append is ignored", vfs.OpOpenFile, `append: content of "f" = "`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		*flag &^= vfs.Append
	})},
	{"truncate is ignored", vfs.OpOpenFile, `create: content of "f" = "f", want ""`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		*flag &^= vfs.Truncate
	})},
	{"create truncates", vfs.OpOpenFile, `create: content of "f" = "", want "f"`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		if *flag&vfs.Create != 0 {
			*flag |= vfs.Truncate
		}
	})},
	{"mode is ignored", vfs.OpOpenFile, "bits of a file created with -rw------- that were not asked for", opens(func(_ vfs.Dir, name string, flag *vfs.Flag, perm *fs.FileMode) {
		if *flag&vfs.Doomed == 0 {
			*perm |= 0o100
		}
	})},
	{"every file can be read and written", vfs.OpOpenFile, "Write to a file opened ReadOnly succeeded", opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		if *flag == vfs.ReadOnly {
			*flag = vfs.ReadWrite
		}
	})},
	{"directory is a file", vfs.OpOpenFile, `OpenFile("d", ReadOnly) of a directory = openat d: permission denied, want is a directory`, func(b *behaviour) {
		b.openFile = func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			f, err := in.OpenFile(name, flag, perm)
			if errors.Is(err, syscall.EISDIR) {
				err = fail("openat", name, syscall.EACCES)
			}
			return f, err
		}
	}},
	{"one file makes an exception from permissions", vfs.OpOpenFile, "reading is held to permissions by halves", func(b *behaviour) {
		b.openFile = func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			f, err := in.OpenFile(name, flag, perm)
			if name != "unreadable" || flag != vfs.ReadOnly {
				return f, err
			}
			if err != nil { // held to the bits, but not here
				return in.OpenFile(name, vfs.WriteOnly, 0)
			}
			f.Close() // privileged, but not here
			return nil, fail("openat", name, syscall.EACCES)
		}
	}},
	{"probe creates", vfs.OpProbe, `OpenFile("missing", Probe) succeeded`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		if *flag&vfs.Probe != 0 {
			*flag = vfs.WriteOnly | vfs.Create
		}
	})},
	{"probe truncates", vfs.OpProbe, `Lstat after OpenFile("f", Probe)`, opens(func(_ vfs.Dir, _ string, flag *vfs.Flag, _ *fs.FileMode) {
		if *flag&vfs.Probe != 0 {
			*flag = vfs.WriteOnly | vfs.Truncate
		}
	})},
	{"doomed file has a name", vfs.OpOpenDoom, "while a file without a name is open", func(b *behaviour) {
		b.openFile = func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			if flag&vfs.Doomed != 0 {
				name, flag = ".doomed", vfs.ReadWrite|vfs.Create
			}
			return in.OpenFile(name, flag, perm)
		}
	}},
	{"read never ends", vfs.OpRead, "and not ended", func(b *behaviour) {
		b.read = func(in vfs.File, p []byte) (int, error) {
			n, err := in.Read(p)
			if errors.Is(err, io.EOF) {
				p = append(p[:0], 'x')
				return len(p), nil
			}
			return n, err
		}
	}},
	{"read skips a byte", vfs.OpRead, "content read in pieces", func(b *behaviour) {
		b.read = func(in vfs.File, p []byte) (int, error) {
			n, err := in.Read(p)
			if len(p) == 3 && n == 3 {
				n--
			}
			return n, err
		}
	}},
	{"write keeps half", vfs.OpWrite, `seek: content of "f"`, func(b *behaviour) {
		b.write = func(in vfs.File, p []byte) (int, error) {
			n, err := in.Write(p[:(len(p)+1)/2])
			if err == nil {
				n = len(p)
			}
			return n, err
		}
	}},
	{"write counts nothing", vfs.OpWrite, `Write("0123") count = 0, want 4`, func(b *behaviour) {
		b.write = func(in vfs.File, p []byte) (int, error) { _, err := in.Write(p); return 0, err }
	}},
	{"seek from the end goes to the start", vfs.OpSeek, "Seek(-1, 2) = ", func(b *behaviour) {
		b.seek = func(in vfs.File, offset int64, whence int) (int64, error) {
			if whence == io.SeekEnd {
				offset, whence = 0, io.SeekStart
			}
			return in.Seek(offset, whence)
		}
	}},
	{"open file has no size", vfs.OpStat, "Stat Size = 0, want 10", func(b *behaviour) {
		b.stat = func(in vfs.File) (vfs.Info, error) {
			info, err := in.Stat()
			info.Size = 0
			return info, err
		}
	}},
	{"truncate never grows", vfs.OpTruncate, `content of "f" = "0123", want "0123\x00\x00"`, func(b *behaviour) {
		b.truncate = func(in vfs.File, size int64) error {
			if info, err := in.Stat(); err == nil && size > info.Size {
				return nil
			}
			return in.Truncate(size)
		}
	}},
	{"chmod drops the special bits", vfs.OpChmod, "Mode after Chmod(urwxr-xr-x) = -rwxr-xr-x", func(b *behaviour) {
		b.chmod = func(in vfs.File, perm fs.FileMode) error { return in.Chmod(perm.Perm()) }
	}},
	{"chown refuses to leave things as they are", vfs.OpChown, "Chown(-1, -1): ", func(b *behaviour) {
		b.chown = func(in vfs.File, uid, gid int) error {
			if uid < 0 {
				return fail("fchown", "f", syscall.EINVAL)
			}
			return in.Chown(uid, gid)
		}
	}},
	{"file cannot be synced", vfs.OpSync, "Sync of a file: ", func(b *behaviour) {
		b.sync = func(vfs.File) error { return fail("fsync", "f", syscall.EIO) }
	}},
	{"data cannot be synced", vfs.OpDatasync, "Datasync: ", func(b *behaviour) {
		b.datasync = func(vfs.File) error { return fail("fdatasync", "f", syscall.EIO) }
	}},
	{"range cannot be synced", vfs.OpSyncRange, "SyncRange of a part: ", func(b *behaviour) {
		b.syncRange = func(in vfs.File, off, n int64) error {
			if off%4096 != 0 {
				return fail("sync_file_range", "f", syscall.EINVAL)
			}
			return in.SyncRange(off, n)
		}
	}},
	{"attribute without value", vfs.OpXattr, "Xattr of a missing name succeeded", func(b *behaviour) {
		b.xattr = func(in vfs.File, name string) ([]byte, error) {
			value, err := in.Xattr(name)
			if errors.Is(err, syscall.ENODATA) {
				return nil, nil
			}
			return value, err
		}
	}},
	{"attribute cut short", vfs.OpXattr, `Xattr user.a = "long`, func(b *behaviour) {
		b.xattr = func(in vfs.File, name string) ([]byte, error) {
			value, err := in.Xattr(name)
			return value[:min(len(value), 256)], err
		}
	}},
	{"attribute is kept as text", vfs.OpSetXattr, `Xattr user.b = "two", want "two\x00\xff"`, func(b *behaviour) {
		b.setXattr = func(in vfs.File, name string, value []byte) error {
			text, _, _ := bytes.Cut(value, []byte{0})
			return in.SetXattr(name, text)
		}
	}},
	{"attributes unsorted", vfs.OpXattrs, "Xattrs is sorted = false", func(b *behaviour) {
		b.xattrs = func(in vfs.File) ([]string, error) {
			names, err := in.Xattrs()
			slices.Reverse(names)
			return names, err
		}
	}},
	{"closed file works", vfs.OpClose, "Write to a closed file succeeded", func(b *behaviour) {
		b.closeFile = func(in vfs.File) error { return nil }
	}},
	{"second close is fine", vfs.OpClose, "second Close of a file succeeded", func(b *behaviour) {
		b.closeFile = func(in vfs.File) error {
			if err := in.Close(); !errors.Is(err, fs.ErrClosed) {
				return err
			}
			return nil
		}
	}},
}

// followLinks opens the target where the sound answer to a link is errno.
func followLinks(errno syscall.Errno) func(b *behaviour) {
	return func(b *behaviour) {
		b.openFile = func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			f, err := in.OpenFile(name, flag, perm)
			if errors.Is(err, errno) {
				if text, rerr := in.Readlink(name); rerr == nil {
					return in.OpenFile(text, flag, perm)
				}
			}
			return f, err
		}
	}
}

func TestSoundWrapperPasses(t *testing.T) {
	if err := vfstest.TestFS(&wrapFS{in: osfs.New(), b: sound()}, t.TempDir()); err != nil {
		t.Error(err)
	}
}

// Each promise is broken on purpose, and TestFS must say so: a check that never
// saw a wrong subject may be one that cannot fail.
func TestBrokenIsReported(t *testing.T) {
	host := osfs.New()
	const all = vfs.CapSymlink | vfs.CapLink | vfs.CapPerm | vfs.CapNoFollow | vfs.CapHandle | vfs.CapIdentity |
		vfs.CapNoReplace | vfs.CapExchange | vfs.CapPublish | vfs.CapDurability | vfs.CapSyncFS | vfs.CapSyncRange |
		vfs.CapXattr | vfs.CapBirth | vfs.CapMountID
	if !host.Caps().Has(all) {
		t.Skipf("no sound file system to break: this one lacks %v", all&^host.Caps())
	}
	broke := map[vfs.OpKind]bool{}
	for _, tt := range slices.Concat(brokenDirs, brokenFiles) {
		broke[tt.op] = true
		t.Run(tt.name, func(t *testing.T) {
			b := sound()
			tt.spoil(b)
			dir := t.TempDir()
			err := vfstest.TestFS(&wrapFS{in: host, b: b}, dir)
			unlock(t, dir)
			if err == nil {
				t.Fatalf("TestFS is content, want a report with %q", tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("TestFS = %v\nwant a report with %q", err, tt.want)
			}
		})
	}
	for _, op := range vfs.Ops {
		if !broke[op] {
			t.Errorf("no wrapper breaks %s", op)
		}
	}
}

// unlock makes what a broken subject left behind removable: among it may be
// directories that are closed to their owner.
func unlock(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWantsAnEmptyDirectory(t *testing.T) {
	dir := t.TempDir()
	host := osfs.New()
	root, err := host.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Mkdir("theirs", 0o700); err != nil {
		t.Fatal(err)
	}
	err = vfstest.TestFS(host, dir)
	if err == nil || !strings.Contains(err.Error(), "want an empty directory") {
		t.Errorf("TestFS in a directory with an entry = %v", err)
	}
	if _, err := root.Lstat("theirs"); err != nil {
		t.Errorf("TestFS touched what was not its own: %v", err)
	}
}
