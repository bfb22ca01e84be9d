package vfstest_test

import (
	"io/fs"

	"github.com/fsbench/fsbench/vfs"
)

// breaks is a set of broken methods. A method that is nil works. Each gets the
// sound object behind the wrapper.
type breaks struct {
	caps     vfs.Caps // not declared, though they work
	openRoot func(in vfs.FS, dir string) (vfs.Dir, error)
	syncFS   func(in vfs.FS, d vfs.Dir) error

	byName   bool // a directory is looked up again by its name at every use
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

// The wrappers spell every method out: a method that is added to the port and
// not here must not slip through by embedding.
type brokenFS struct {
	in vfs.FS
	b  *breaks
}

type brokenDir struct {
	in     vfs.Dir
	b      *breaks
	parent vfs.Dir
	name   string
}

type brokenFile struct {
	in vfs.File
	b  *breaks
}

var (
	_ vfs.FS   = (*brokenFS)(nil)
	_ vfs.Dir  = (*brokenDir)(nil)
	_ vfs.File = (*brokenFile)(nil)
)

// or returns the broken method if there is one, and the sound one otherwise.
func or[F any](broken func() F, isBroken bool, sound F) F {
	if isBroken {
		return broken()
	}
	return sound
}

func (f *brokenFS) OpenRoot(dir string) (vfs.Dir, error) {
	open := vfs.FS.OpenRoot
	if f.b.openRoot != nil {
		open = f.b.openRoot
	}
	d, err := open(f.in, dir)
	if err != nil {
		return nil, err
	}
	return &brokenDir{in: d, b: f.b}, nil
}

func (f *brokenFS) Caps() vfs.Caps { return f.in.Caps() &^ f.b.caps }
