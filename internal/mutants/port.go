package mutants

import (
	"io/fs"

	"github.com/fsbench/fsbench/vfs"
)

// hooks change single operations of a port. A nil hook leaves its operation alone.
// A hook gets the handle below the wrapper, and may use it.
type hooks struct {
	openFile func(d vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error)
	mkdir    func(d vfs.Dir, name string, perm fs.FileMode) error
	lstat    func(d vfs.Dir, name string) (vfs.Info, error)
	rename   func(d vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error
	publish  func(d vfs.Dir, f vfs.File, name string) error
	remove   func(d vfs.Dir, name string) error
	syncDir  func(d vfs.Dir) error
	write    func(f vfs.File, p []byte) (int, error)
	stat     func(f vfs.File) (vfs.Info, error)
	chmod    func(f vfs.File, perm fs.FileMode) error
	chown    func(f vfs.File, uid, gid int) error
	sync     func(f vfs.File) error
	xattrs   func(f vfs.File) ([]string, error)
}

// port returns the FS function of a variant that has these hooks.
func port(h hooks) func(vfs.FS, string) vfs.FS {
	return func(base vfs.FS, _ string) vfs.FS { return &hookedFS{base, h} }
}

type hookedFS struct {
	base vfs.FS
	h    hooks
}

func (f *hookedFS) Caps() vfs.Caps { return f.base.Caps() }

func (f *hookedFS) SyncFS(d vfs.Dir) error { return f.base.SyncFS(inner(d)) }

func (f *hookedFS) OpenRoot(p string) (vfs.Dir, error) {
	d, err := f.base.OpenRoot(p)
	if err != nil {
		return nil, err
	}
	return &hookedDir{d, &f.h}, nil
}

// hookedDir lists every method of the port: one that is added must be decided on.
type hookedDir struct {
	in vfs.Dir
	h  *hooks
}

var _ vfs.Dir = (*hookedDir)(nil)

func inner(d vfs.Dir) vfs.Dir {
	if hd, ok := d.(*hookedDir); ok {
		return hd.in
	}
	return d
}

func (d *hookedDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.in.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &hookedDir{sub, d.h}, nil
}

func (d *hookedDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	open := vfs.Dir.OpenFile
	if d.h.openFile != nil {
		open = d.h.openFile
	}
	f, err := open(d.in, name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &hookedFile{f, d.h}, nil
}

func (d *hookedDir) Mkdir(name string, perm fs.FileMode) error {
	if d.h.mkdir != nil {
		return d.h.mkdir(d.in, name, perm)
	}
	return d.in.Mkdir(name, perm)
}

func (d *hookedDir) Lstat(name string) (vfs.Info, error) {
	if d.h.lstat != nil {
		return d.h.lstat(d.in, name)
	}
	return d.in.Lstat(name)
}

func (d *hookedDir) Stat() (vfs.Info, error)               { return d.in.Stat() }
func (d *hookedDir) ReadDir(n int) ([]string, bool, error) { return d.in.ReadDir(n) }
func (d *hookedDir) Readlink(name string) (string, error)  { return d.in.Readlink(name) }
func (d *hookedDir) Symlink(target, name string) error     { return d.in.Symlink(target, name) }
func (d *hookedDir) Link(name string, to vfs.Dir, toName string) error {
	return d.in.Link(name, inner(to), toName)
}

func (d *hookedDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	if d.h.rename != nil {
		return d.h.rename(d.in, name, inner(to), toName, flag)
	}
	return d.in.Rename(name, inner(to), toName, flag)
}

func (d *hookedDir) Publish(f vfs.File, name string) error {
	if hf, ok := f.(*hookedFile); ok {
		f = hf.in
	}
	if d.h.publish != nil {
		return d.h.publish(d.in, f, name)
	}
	return d.in.Publish(f, name)
}

func (d *hookedDir) Remove(name string) error {
	if d.h.remove != nil {
		return d.h.remove(d.in, name)
	}
	return d.in.Remove(name)
}

func (d *hookedDir) Rmdir(name string) error { return d.in.Rmdir(name) }

func (d *hookedDir) Sync() error {
	if d.h.syncDir != nil {
		return d.h.syncDir(d.in)
	}
	return d.in.Sync()
}

func (d *hookedDir) Close() error { return d.in.Close() }

type hookedFile struct {
	in vfs.File
	h  *hooks
}

var _ vfs.File = (*hookedFile)(nil)

func (f *hookedFile) Read(p []byte) (int, error)                   { return f.in.Read(p) }
func (f *hookedFile) Seek(offset int64, whence int) (int64, error) { return f.in.Seek(offset, whence) }
func (f *hookedFile) Truncate(size int64) error                    { return f.in.Truncate(size) }
func (f *hookedFile) Datasync() error                              { return f.in.Datasync() }
func (f *hookedFile) SyncRange(off, n int64) error                 { return f.in.SyncRange(off, n) }
func (f *hookedFile) Xattr(name string) ([]byte, error)            { return f.in.Xattr(name) }
func (f *hookedFile) SetXattr(name string, value []byte) error     { return f.in.SetXattr(name, value) }
func (f *hookedFile) Close() error                                 { return f.in.Close() }

func (f *hookedFile) Write(p []byte) (int, error) {
	if f.h.write != nil {
		return f.h.write(f.in, p)
	}
	return f.in.Write(p)
}

func (f *hookedFile) Stat() (vfs.Info, error) {
	if f.h.stat != nil {
		return f.h.stat(f.in)
	}
	return f.in.Stat()
}

func (f *hookedFile) Chmod(perm fs.FileMode) error {
	if f.h.chmod != nil {
		return f.h.chmod(f.in, perm)
	}
	return f.in.Chmod(perm)
}

func (f *hookedFile) Chown(uid, gid int) error {
	if f.h.chown != nil {
		return f.h.chown(f.in, uid, gid)
	}
	return f.in.Chown(uid, gid)
}

func (f *hookedFile) Sync() error {
	if f.h.sync != nil {
		return f.h.sync(f.in)
	}
	return f.in.Sync()
}

func (f *hookedFile) Xattrs() ([]string, error) {
	if f.h.xattrs != nil {
		return f.h.xattrs(f.in)
	}
	return f.in.Xattrs()
}

// byPath is a port whose directories are names and not handles: every operation
// walks the whole path again, through whatever stands there by now.
func byPath(base vfs.FS, _ string) vfs.FS { return &pathFS{base} }

type pathFS struct{ base vfs.FS }

func (f *pathFS) Caps() vfs.Caps { return f.base.Caps() &^ vfs.CapPublish }

func (f *pathFS) SyncFS(d vfs.Dir) error {
	return d.(*pathDir).with(func(in vfs.Dir) error { return f.base.SyncFS(in) })
}

func (f *pathFS) OpenRoot(p string) (vfs.Dir, error) {
	d, err := f.base.OpenRoot(p)
	if err != nil {
		return nil, err
	}
	return &pathDir{f.base, p}, d.Close()
}

type pathDir struct {
	base vfs.FS
	path string
}

var _ vfs.Dir = (*pathDir)(nil)

func (d *pathDir) with(f func(in vfs.Dir) error) error {
	in, err := d.base.OpenRoot(d.path)
	if err != nil {
		return err
	}
	defer in.Close()
	return f(in)
}

func (d *pathDir) OpenDir(name string) (vfs.Dir, error) {
	err := d.with(func(in vfs.Dir) error {
		sub, err := in.OpenDir(name)
		if err != nil {
			return err
		}
		return sub.Close()
	})
	return &pathDir{d.base, d.path + "/" + name}, err
}

func (d *pathDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (f vfs.File, err error) {
	err = d.with(func(in vfs.Dir) (err error) {
		f, err = in.OpenFile(name, flag, perm)
		return err
	})
	return f, err
}

func (d *pathDir) Lstat(name string) (info vfs.Info, err error) {
	err = d.with(func(in vfs.Dir) (err error) {
		info, err = in.Lstat(name)
		return err
	})
	return info, err
}

func (d *pathDir) Stat() (info vfs.Info, err error) {
	err = d.with(func(in vfs.Dir) (err error) {
		info, err = in.Stat()
		return err
	})
	return info, err
}

func (d *pathDir) ReadDir(n int) (names []string, more bool, err error) {
	err = d.with(func(in vfs.Dir) (err error) {
		names, more, err = in.ReadDir(n)
		return err
	})
	return names, more, err
}

func (d *pathDir) Readlink(name string) (text string, err error) {
	err = d.with(func(in vfs.Dir) (err error) {
		text, err = in.Readlink(name)
		return err
	})
	return text, err
}

func (d *pathDir) Mkdir(name string, perm fs.FileMode) error {
	return d.with(func(in vfs.Dir) error { return in.Mkdir(name, perm) })
}

func (d *pathDir) Symlink(target, name string) error {
	return d.with(func(in vfs.Dir) error { return in.Symlink(target, name) })
}

func (d *pathDir) two(to vfs.Dir, f func(in, to vfs.Dir) error) error {
	return d.with(func(in vfs.Dir) error {
		return to.(*pathDir).with(func(t vfs.Dir) error { return f(in, t) })
	})
}

func (d *pathDir) Link(name string, to vfs.Dir, toName string) error {
	return d.two(to, func(in, t vfs.Dir) error { return in.Link(name, t, toName) })
}

func (d *pathDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	return d.two(to, func(in, t vfs.Dir) error { return in.Rename(name, t, toName, flag) })
}

func (d *pathDir) Publish(f vfs.File, name string) error {
	return d.with(func(in vfs.Dir) error { return in.Publish(f, name) })
}

func (d *pathDir) Remove(name string) error {
	return d.with(func(in vfs.Dir) error { return in.Remove(name) })
}

func (d *pathDir) Rmdir(name string) error {
	return d.with(func(in vfs.Dir) error { return in.Rmdir(name) })
}

func (d *pathDir) Sync() error { return d.with(vfs.Dir.Sync) }

func (d *pathDir) Close() error { return nil }
