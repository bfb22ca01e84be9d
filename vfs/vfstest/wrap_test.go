package vfstest_test

import (
	"io/fs"
	"sync"

	"github.com/fsbench/fsbench/vfs"
)

// behaviour is what a wrapper does in each method, given the sound object that
// it wraps. A test breaks one of them.
type behaviour struct {
	hidden vfs.Caps // not declared, though they work
	byName bool     // a directory is looked up again by its name at every use

	openRoot func(in vfs.FS, dir string) (vfs.Dir, error)
	syncFS   func(in vfs.FS, d vfs.Dir) error

	openDir  func(in vfs.Dir, name string) (vfs.Dir, error)
	openFile func(in vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error)
	mkdir    func(in vfs.Dir, name string, perm fs.FileMode) error
	lstat    func(in vfs.Dir, name string) (vfs.Info, error)
	statDir  func(in vfs.Dir) (vfs.Info, error)
	readDir  func(in vfs.Dir, n int) ([]string, bool, error)
	readlink func(in vfs.Dir, name string) (string, error)
	symlink  func(in vfs.Dir, target, name string) error
	link     func(in vfs.Dir, name string, to vfs.Dir, toName string) error
	rename   func(in vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error
	publish  func(in vfs.Dir, f vfs.File, name string) error
	remove   func(in vfs.Dir, name string) error
	rmdir    func(in vfs.Dir, name string) error
	syncDir  func(in vfs.Dir) error
	closeDir func(in vfs.Dir) error

	read      func(in vfs.File, p []byte) (int, error)
	write     func(in vfs.File, p []byte) (int, error)
	seek      func(in vfs.File, offset int64, whence int) (int64, error)
	stat      func(in vfs.File) (vfs.Info, error)
	truncate  func(in vfs.File, size int64) error
	chmod     func(in vfs.File, perm fs.FileMode) error
	chown     func(in vfs.File, uid, gid int) error
	sync      func(in vfs.File) error
	datasync  func(in vfs.File) error
	syncRange func(in vfs.File, off, n int64) error
	xattr     func(in vfs.File, name string) ([]byte, error)
	setXattr  func(in vfs.File, name string, value []byte) error
	xattrs    func(in vfs.File) ([]string, error)
	closeFile func(in vfs.File) error
}

// sound passes everything on, except that a sync only looks whether the handle
// is open: to flush the machine's disk for each broken subject takes long and
// shows nothing.
func sound() *behaviour {
	flushDir := func(d vfs.Dir) error { _, err := d.Stat(); return err }
	flushFile := func(f vfs.File) error { _, err := f.Stat(); return err }
	return &behaviour{
		openRoot: vfs.FS.OpenRoot, syncFS: func(_ vfs.FS, d vfs.Dir) error { return flushDir(d) },
		openDir: vfs.Dir.OpenDir, openFile: vfs.Dir.OpenFile, mkdir: vfs.Dir.Mkdir, lstat: vfs.Dir.Lstat,
		statDir: vfs.Dir.Stat, readDir: vfs.Dir.ReadDir, readlink: vfs.Dir.Readlink, symlink: vfs.Dir.Symlink,
		link: vfs.Dir.Link, rename: vfs.Dir.Rename, publish: vfs.Dir.Publish, remove: vfs.Dir.Remove,
		rmdir: vfs.Dir.Rmdir, syncDir: flushDir, closeDir: vfs.Dir.Close,
		read: vfs.File.Read, write: vfs.File.Write, seek: vfs.File.Seek, stat: vfs.File.Stat,
		truncate: vfs.File.Truncate, chmod: vfs.File.Chmod, chown: vfs.File.Chown, sync: flushFile,
		datasync: flushFile, syncRange: vfs.File.SyncRange, xattr: vfs.File.Xattr,
		setXattr: vfs.File.SetXattr, xattrs: vfs.File.Xattrs, closeFile: vfs.File.Close,
	}
}

// The wrappers spell every method out: one that is added to the port must not
// slip past the broken subjects by embedding.
type (
	wrapFS struct {
		in vfs.FS
		b  *behaviour
	}
	wrapDir struct {
		in     vfs.Dir
		b      *behaviour
		parent *wrapDir
		name   string

		mu    sync.Mutex
		stale []vfs.Dir // opened by an earlier look-up; closed with in
		gone  bool      // in is closed
	}
	wrapFile struct {
		in vfs.File
		b  *behaviour
	}
)

var (
	_ vfs.FS   = (*wrapFS)(nil)
	_ vfs.Dir  = (*wrapDir)(nil)
	_ vfs.File = (*wrapFile)(nil)
)

func (f *wrapFS) Caps() vfs.Caps { return f.in.Caps() &^ f.b.hidden }

func (f *wrapFS) OpenRoot(dir string) (vfs.Dir, error) {
	d, err := f.b.openRoot(f.in, dir)
	if err != nil {
		return nil, err
	}
	return &wrapDir{in: d, b: f.b}, nil
}

func (f *wrapFS) SyncFS(d vfs.Dir) error { return f.b.syncFS(f.in, d.(*wrapDir).real()) }

// real returns the wrapped directory or, byName, what is at its name now.
func (d *wrapDir) real() vfs.Dir {
	if !d.b.byName || d.parent == nil {
		return d.in
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gone {
		return d.in
	}
	if now, err := d.parent.real().OpenDir(d.name); err == nil {
		d.stale = append(d.stale, d.in)
		d.in = now
	}
	return d.in
}

func (d *wrapDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.gone = true
	for _, in := range d.stale {
		in.Close()
	}
	d.stale = nil
	return d.b.closeDir(d.in)
}

func (d *wrapDir) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.b.openDir(d.real(), name)
	if err != nil {
		return nil, err
	}
	return &wrapDir{in: sub, b: d.b, parent: d, name: name}, nil
}

func (d *wrapDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	f, err := d.b.openFile(d.real(), name, flag, perm)
	if err != nil {
		return nil, err
	}
	return &wrapFile{in: f, b: d.b}, nil
}

func (d *wrapDir) Mkdir(name string, perm fs.FileMode) error { return d.b.mkdir(d.real(), name, perm) }
func (d *wrapDir) Lstat(name string) (vfs.Info, error)       { return d.b.lstat(d.real(), name) }
func (d *wrapDir) Stat() (vfs.Info, error)                   { return d.b.statDir(d.real()) }
func (d *wrapDir) ReadDir(n int) ([]string, bool, error)     { return d.b.readDir(d.real(), n) }
func (d *wrapDir) Readlink(name string) (string, error)      { return d.b.readlink(d.real(), name) }
func (d *wrapDir) Symlink(target, name string) error         { return d.b.symlink(d.real(), target, name) }

func (d *wrapDir) Link(name string, to vfs.Dir, toName string) error {
	return d.b.link(d.real(), name, to.(*wrapDir).real(), toName)
}

func (d *wrapDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	return d.b.rename(d.real(), name, to.(*wrapDir).real(), toName, flag)
}

func (d *wrapDir) Publish(f vfs.File, name string) error {
	return d.b.publish(d.real(), f.(*wrapFile).in, name)
}

func (d *wrapDir) Remove(name string) error { return d.b.remove(d.real(), name) }
func (d *wrapDir) Rmdir(name string) error  { return d.b.rmdir(d.real(), name) }
func (d *wrapDir) Sync() error              { return d.b.syncDir(d.real()) }

func (f *wrapFile) Read(p []byte) (int, error)  { return f.b.read(f.in, p) }
func (f *wrapFile) Write(p []byte) (int, error) { return f.b.write(f.in, p) }
func (f *wrapFile) Seek(offset int64, whence int) (int64, error) {
	return f.b.seek(f.in, offset, whence)
}
func (f *wrapFile) Stat() (vfs.Info, error)                  { return f.b.stat(f.in) }
func (f *wrapFile) Truncate(size int64) error                { return f.b.truncate(f.in, size) }
func (f *wrapFile) Chmod(perm fs.FileMode) error             { return f.b.chmod(f.in, perm) }
func (f *wrapFile) Chown(uid, gid int) error                 { return f.b.chown(f.in, uid, gid) }
func (f *wrapFile) Sync() error                              { return f.b.sync(f.in) }
func (f *wrapFile) Datasync() error                          { return f.b.datasync(f.in) }
func (f *wrapFile) SyncRange(off, n int64) error             { return f.b.syncRange(f.in, off, n) }
func (f *wrapFile) Xattr(name string) ([]byte, error)        { return f.b.xattr(f.in, name) }
func (f *wrapFile) SetXattr(name string, value []byte) error { return f.b.setXattr(f.in, name, value) }
func (f *wrapFile) Xattrs() ([]string, error)                { return f.b.xattrs(f.in) }
func (f *wrapFile) Close() error                             { return f.b.closeFile(f.in) }
