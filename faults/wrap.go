package faults

import (
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// armedDir does not embed vfs.Dir: a method added to the port must not compile
// here until somebody has decided what may go wrong in it.
type armedDir struct {
	a   *Armed
	in  vfs.Dir
	rel string // below the sandbox
}

var _ vfs.Dir = (*armedDir)(nil)

// sysNames are the primitives that errors name, as the backends name them.
var sysNames = map[vfs.OpKind]string{
	vfs.OpOpenRoot: "open", vfs.OpOpenDir: "openat", vfs.OpOpenFile: "openat", vfs.OpProbe: "openat",
	vfs.OpOpenDoom: "openat", vfs.OpMkdir: "mkdirat", vfs.OpLstat: "fstatat", vfs.OpStatDir: "fstat",
	vfs.OpReadDir: "getdents", vfs.OpReadlink: "readlinkat", vfs.OpSymlink: "symlinkat", vfs.OpLink: "linkat",
	vfs.OpRename: "renameat", vfs.OpPublish: "linkat", vfs.OpRemove: "unlinkat", vfs.OpRmdir: "unlinkat",
	vfs.OpSyncDir: "fsync", vfs.OpSyncFS: "syncfs", vfs.OpRead: "read", vfs.OpWrite: "write", vfs.OpSeek: "lseek",
	vfs.OpStat: "fstat", vfs.OpTruncate: "ftruncate", vfs.OpChmod: "fchmod", vfs.OpChown: "fchown",
	vfs.OpSync: "fsync", vfs.OpDatasync: "fdatasync", vfs.OpSyncRange: "sync_file_range", vfs.OpXattr: "fgetxattr",
	vfs.OpSetXattr: "fsetxattr", vfs.OpXattrs: "flistxattr", vfs.OpClose: "close",
}

func pathFail(op vfs.OpKind, name string) func(error) error {
	return func(err error) error { return &fs.PathError{Op: sysNames[op], Path: name, Err: err} }
}

func (d *armedDir) at(op vfs.OpKind, class Class, name string) place {
	return place{op: op, class: class, dir: d.rel, name: name, fail: pathFail(op, name)}
}

func (d *armedDir) OpenDir(name string) (vfs.Dir, error) {
	var sub vfs.Dir
	at := d.at(vfs.OpOpenDir, Read, name)
	err := d.a.do(at, func() (err error) {
		sub, err = d.in.OpenDir(name)
		return err
	})
	if err != nil {
		return nil, closing(err, sub)
	}
	out := &armedDir{d.a, sub, path.Join(d.rel, name)}
	d.a.opened(out, at)
	return out, nil
}

// closing gives back a handle that a fault after the open has taken from the
// subject.
func closing[T interface {
	comparable
	Close() error
}](err error, h T) error {
	var none T
	if h != none {
		_ = h.Close()
	}
	return err
}

func openKind(flag vfs.Flag) (vfs.OpKind, Class) {
	switch {
	case flag&vfs.Doomed != 0:
		return vfs.OpOpenDoom, Create
	case flag&vfs.Probe != 0:
		return vfs.OpProbe, Modify
	case flag&vfs.Create != 0:
		return vfs.OpOpenFile, Create
	case flag.Writes():
		return vfs.OpOpenFile, Modify
	}
	return vfs.OpOpenFile, Read
}

func (d *armedDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	op, class := openKind(flag)
	if flag&vfs.Doomed != 0 {
		name = ""
	}
	var f vfs.File
	at := d.at(op, class, name)
	err := d.a.do(at, func() (err error) {
		f, err = d.in.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, closing(err, f)
	}
	out := &armedFile{d.a, f, d.rel, name}
	d.a.opened(out, at)
	return out, nil
}

func (d *armedDir) Mkdir(name string, perm fs.FileMode) error {
	return d.a.do(d.at(vfs.OpMkdir, Create, name), func() error { return d.in.Mkdir(name, perm) })
}

func (d *armedDir) Lstat(name string) (info vfs.Info, err error) {
	err = d.a.do(d.at(vfs.OpLstat, Read, name), func() (err error) {
		info, err = d.in.Lstat(name)
		return err
	})
	return info, err
}

func (d *armedDir) Stat() (info vfs.Info, err error) {
	err = d.a.do(d.at(vfs.OpStatDir, Read, ""), func() (err error) {
		info, err = d.in.Stat()
		return err
	})
	return info, err
}

func (d *armedDir) ReadDir(n int) (names []string, more bool, err error) {
	err = d.a.do(d.at(vfs.OpReadDir, Read, ""), func() (err error) {
		names, more, err = d.in.ReadDir(n)
		return err
	})
	return names, more, err
}

func (d *armedDir) Readlink(name string) (text string, err error) {
	err = d.a.do(d.at(vfs.OpReadlink, Read, name), func() (err error) {
		text, err = d.in.Readlink(name)
		return err
	})
	return text, err
}

func (d *armedDir) Symlink(target, name string) error {
	return d.a.do(d.at(vfs.OpSymlink, Create, name), func() error { return d.in.Symlink(target, name) })
}

func (d *armedDir) Publish(f vfs.File, name string) error {
	in := f
	if af, ok := f.(*armedFile); ok {
		in = af.in
	}
	return d.a.do(d.at(vfs.OpPublish, Create, name), func() error { return d.in.Publish(in, name) })
}

func (d *armedDir) Remove(name string) error {
	return d.a.do(d.at(vfs.OpRemove, Remove, name), func() error { return d.in.Remove(name) })
}

func (d *armedDir) Rmdir(name string) error {
	return d.a.do(d.at(vfs.OpRmdir, Remove, name), func() error { return d.in.Rmdir(name) })
}

func (d *armedDir) Sync() error { return d.a.do(d.at(vfs.OpSyncDir, Flush, ""), d.in.Sync) }

// Close cannot be made to fail: the handle of a directory has nothing to lose.
func (d *armedDir) Close() error {
	d.a.closed(d)
	return d.in.Close()
}

func (d *armedDir) Link(name string, to vfs.Dir, toName string) error {
	t, err := peer(vfs.OpLink, name, to, toName)
	if err != nil {
		return err
	}
	return d.a.do(twoNames(t.at(vfs.OpLink, Create, toName), name, toName), func() error {
		return d.in.Link(name, t.in, toName)
	})
}

// Rename is two effects: an entry leaves d and an entry appears in to.
func (d *armedDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	t, err := peer(vfs.OpRename, name, to, toName)
	if err != nil {
		return err
	}
	return d.a.do(twoNames(d.at(vfs.OpRename, Remove, name), name, toName), func() error {
		return d.a.do(twoNames(t.at(vfs.OpRename, Create, toName), name, toName), func() error {
			return d.in.Rename(name, t.in, toName, flag)
		})
	})
}

func peer(op vfs.OpKind, name string, to vfs.Dir, toName string) (*armedDir, error) {
	t, ok := to.(*armedDir)
	if !ok {
		return nil, &os.LinkError{Op: sysNames[op], Old: name, New: toName, Err: syscall.EXDEV}
	}
	return t, nil
}

func twoNames(at place, name, toName string) place {
	op := sysNames[at.op]
	at.fail = func(err error) error { return &os.LinkError{Op: op, Old: name, New: toName, Err: err} }
	return at
}

// armedFile stands around an open file. dir and name are where it was opened; a
// file without a name has an empty one.
type armedFile struct {
	a    *Armed
	in   vfs.File
	dir  string
	name string
}

var _ vfs.File = (*armedFile)(nil)

func (f *armedFile) at(op vfs.OpKind, class Class) place {
	return place{op: op, class: class, dir: f.dir, name: f.name, fail: pathFail(op, f.name)}
}

func (f *armedFile) Read(p []byte) (n int, err error) {
	err = f.a.do(f.at(vfs.OpRead, Read), func() (err error) {
		n, err = f.in.Read(p)
		return err
	})
	return n, err
}

func (f *armedFile) Write(p []byte) (n int, err error) {
	at := f.at(vfs.OpWrite, Modify)
	err = f.a.doAt(&at, func() (err error) {
		took, short := f.a.short(at, len(p))
		if !short {
			n, err = f.in.Write(p)
			return err
		}
		if n, err = f.in.Write(p[:took]); err == nil {
			err = io.ErrShortWrite
		}
		return err
	})
	return n, err
}

func (f *armedFile) Seek(offset int64, whence int) (n int64, err error) {
	err = f.a.do(f.at(vfs.OpSeek, Read), func() (err error) {
		n, err = f.in.Seek(offset, whence)
		return err
	})
	return n, err
}

func (f *armedFile) Stat() (info vfs.Info, err error) {
	err = f.a.do(f.at(vfs.OpStat, Read), func() (err error) {
		info, err = f.in.Stat()
		return err
	})
	return info, err
}

func (f *armedFile) Truncate(size int64) error {
	return f.a.do(f.at(vfs.OpTruncate, Modify), func() error { return f.in.Truncate(size) })
}

func (f *armedFile) Chmod(perm fs.FileMode) error {
	return f.a.do(f.at(vfs.OpChmod, Modify), func() error { return f.in.Chmod(perm) })
}

func (f *armedFile) Chown(uid, gid int) error {
	return f.a.do(f.at(vfs.OpChown, Modify), func() error { return f.in.Chown(uid, gid) })
}

func (f *armedFile) Sync() error { return f.a.do(f.at(vfs.OpSync, Flush), f.in.Sync) }

func (f *armedFile) Datasync() error { return f.a.do(f.at(vfs.OpDatasync, Flush), f.in.Datasync) }

func (f *armedFile) SyncRange(off, n int64) error {
	return f.a.do(f.at(vfs.OpSyncRange, Flush), func() error { return f.in.SyncRange(off, n) })
}

func (f *armedFile) Xattr(name string) (value []byte, err error) {
	err = f.a.do(f.at(vfs.OpXattr, Read), func() (err error) {
		value, err = f.in.Xattr(name)
		return err
	})
	return value, err
}

func (f *armedFile) SetXattr(name string, value []byte) error {
	return f.a.do(f.at(vfs.OpSetXattr, Modify), func() error { return f.in.SetXattr(name, value) })
}

func (f *armedFile) Xattrs() (names []string, err error) {
	err = f.a.do(f.at(vfs.OpXattrs, Read), func() (err error) {
		names, err = f.in.Xattrs()
		return err
	})
	return names, err
}

// Close releases the handle even where a failure is planned before it: so does
// the kernel.
func (f *armedFile) Close() error {
	closed := false
	err := f.a.do(f.at(vfs.OpClose, Flush), func() error {
		closed = true
		return f.in.Close()
	})
	if !closed {
		_ = f.in.Close()
	}
	f.a.closed(f)
	return err
}
