//go:build linux || darwin

package osfs

import (
	"cmp"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// dir is an open directory.
type dir struct {
	handle
	fs *FS

	// walkOnly is set where the caller may search the directory but not read it.
	// The descriptor then serves look-ups only (O_PATH), and what needs more
	// opens the directory again through it.
	walkOnly bool

	reading sync.Mutex // the descriptor has one read position
}

var _ vfs.Dir = (*dir)(nil)

// OpenRoot implements vfs.FS.
func (f *FS) OpenRoot(path string) (vfs.Dir, error) {
	name := rootName(path)
	if !filepath.IsAbs(path) {
		return nil, pathError("openat", name, fs.ErrInvalid)
	}
	d := &dir{handle: handle{name: name}, fs: f}
	err := again(func(int) (err error) {
		d.fd, d.walkOnly, err = openWalkable(func(flags int) (int, error) {
			return unix.Open(path, flags|unix.O_CLOEXEC, 0)
		})
		return err
	}, -1)
	if err != nil {
		return nil, pathError("openat", name, err)
	}
	return d, nil
}

// SyncFS implements vfs.FS.
func (f *FS) SyncFS(d vfs.Dir) error {
	od, ok := d.(*dir)
	if !ok {
		return pathError("syncfs", "", unix.EXDEV)
	}
	if err := f.need(vfs.CapSyncFS); err != nil {
		return pathError("syncfs", od.name, err)
	}
	return od.readable("syncfs", syncFS)
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	sub := &dir{handle: handle{name: name}, fs: d.fs}
	err := d.at("openat", name, func(fd int) (err error) {
		sub.fd, sub.walkOnly, err = openWalkable(func(flags int) (int, error) {
			return d.fs.kernel.open(fd, name, flags, 0)
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	return sub, nil
}

// readable runs f with a descriptor that can be read and synced. Where the
// directory was opened for walking only, the kernel is asked for a better one
// now, and the refusal that comes is its own.
func (d *dir) readable(op string, f func(fd int) error) error {
	return d.self(op, func(fd int) error {
		if !d.walkOnly {
			return f(fd)
		}
		fd, err := d.fs.kernel.open(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		return cmp.Or(f(fd), unix.Close(fd))
	})
}

func (d *dir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Doomed != 0 {
		return d.openDoomed(flag, perm)
	}
	flags, err := openFlags(flag)
	if err != nil {
		return nil, pathError("openat", name, err)
	}
	f := &file{handle: handle{name: name}, fs: d.fs}
	err = d.at("openat", name, func(fd int) (err error) {
		f.fd, err = d.fs.kernel.openFile(fd, name, flags, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// openFile opens anything but a directory. The kernel refuses to open one for
// writing, but not for reading.
func (k kernel) openFile(dirFD int, name string, flags int, perm fs.FileMode) (int, error) {
	fd, err := k.open(dirFD, name, flags, vfs.Bits(perm))
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return fd, err
	}
	if errors.Is(err, unix.EACCES) {
		// A directory that may not be read is a directory all the same. Only the
		// name of the failure depends on this look, so a swap in between is harmless.
		if info, serr := k.stat(dirFD, name); serr == nil && info.Mode.IsDir() {
			err = unix.EISDIR
		}
	}
	if err != nil {
		return -1, err
	}
	info, err := k.stat(fd, "")
	if err == nil && info.Mode.IsDir() {
		err = unix.EISDIR
	}
	if err != nil {
		return -1, cmp.Or(err, unix.Close(fd))
	}
	return fd, nil
}

func (d *dir) openDoomed(flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	err := d.fs.need(vfs.CapPublish)
	if err == nil && flag&vfs.Probe != 0 {
		err = unix.EINVAL
	}
	if err != nil {
		return nil, pathError("openat", "", err)
	}
	f := &file{fs: d.fs, doomed: true}
	err = d.do("openat", "", func(fd int) (err error) {
		f.fd, err = d.fs.kernel.open(fd, ".", doomedFlags, vfs.Bits(perm))
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Publish implements vfs.Dir. A file that was not opened with Doomed fails with
// EINVAL: it has, or had, a name, and Link is the operation for that.
func (d *dir) Publish(f vfs.File, name string) error {
	of, ok := f.(*file)
	err := cmp.Or(vfs.CheckName(name), d.fs.need(vfs.CapPublish))
	switch {
	case err != nil:
	case !ok:
		err = unix.EXDEV
	case !of.doomed:
		err = unix.EINVAL
	default:
		err = both(&of.handle, &d.handle, func(fd, dirFD int) error { return linkFD(fd, dirFD, name) })
	}
	return pathError("linkat", name, err)
}

func (d *dir) Mkdir(name string, perm fs.FileMode) error {
	return d.at("mkdirat", name, func(fd int) error { return unix.Mkdirat(fd, name, vfs.Bits(perm)) })
}

func (d *dir) Lstat(name string) (info vfs.Info, err error) {
	err = d.at("fstatat", name, func(fd int) (err error) {
		info, err = d.fs.kernel.stat(fd, name)
		return err
	})
	return info, err
}

func (d *dir) Stat() (info vfs.Info, err error) {
	err = d.self("fstat", func(fd int) (err error) {
		info, err = d.fs.kernel.stat(fd, "")
		return err
	})
	return info, err
}

func (d *dir) ReadDir(n int) (names []string, more bool, err error) {
	err = d.readable("getdents", func(fd int) (err error) {
		d.reading.Lock()
		defer d.reading.Unlock()
		names, err = readNames(fd, n)
		return err
	})
	if err != nil {
		return nil, false, err
	}
	if n > 0 && len(names) > n {
		return names[:n], true, nil
	}
	return names, false, nil
}

// readNames reads names from the start until there are more than n, so that a
// sample of a directory with a million entries costs one or two reads.
func readNames(fd, n int) ([]string, error) {
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return nil, err
	}
	var names []string
	buf := make([]byte, 16<<10)
	for n <= 0 || len(names) <= n {
		size, err := unix.ReadDirent(fd, buf)
		if err != nil {
			return nil, err
		}
		if size <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(buf[:size], -1, names)
	}
	return names, nil
}

func (d *dir) Readlink(name string) (text string, err error) {
	err = d.at("readlinkat", name, func(fd int) error {
		for size := 256; ; size *= 2 {
			buf := make([]byte, size)
			n, err := unix.Readlinkat(fd, name, buf)
			if err != nil {
				return err
			}
			if n < size { // a full buffer may be a text that was cut
				text = string(buf[:n])
				return nil
			}
		}
	})
	return text, err
}

func (d *dir) Symlink(target, name string) error {
	if err := d.fs.need(vfs.CapSymlink); err != nil {
		return pathError("symlinkat", name, err)
	}
	return d.at("symlinkat", name, func(fd int) error { return unix.Symlinkat(target, fd, name) })
}

func (d *dir) Link(name string, to vfs.Dir, toName string) error {
	err := d.fs.need(vfs.CapLink)
	if err == nil {
		err = d.atBoth(name, to, toName, func(fd, toFD int) error {
			return unix.Linkat(fd, name, toFD, toName, 0) // without AT_SYMLINK_FOLLOW: a link gets a second name
		})
	}
	return linkError("linkat", name, toName, err)
}

func (d *dir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	var err error
	switch flag {
	case vfs.Replace:
	case vfs.NoReplace:
		err = d.fs.need(vfs.CapNoReplace)
	case vfs.Exchange:
		err = d.fs.need(vfs.CapExchange)
	default:
		err = unix.EINVAL
	}
	if err == nil {
		err = d.atBoth(name, to, toName, func(fd, toFD int) error {
			return d.fs.kernel.rename(fd, name, toFD, toName, flag)
		})
	}
	return linkError("renameat", name, toName, err)
}

// atBoth runs f with the descriptors of d and of another directory. One that
// belongs to another backend is on another file system, as far as link and
// rename can tell.
func (d *dir) atBoth(name string, to vfs.Dir, toName string, f func(fd, toFD int) error) error {
	if err := cmp.Or(vfs.CheckName(name), vfs.CheckName(toName)); err != nil {
		return err
	}
	t, ok := to.(*dir)
	if !ok {
		return unix.EXDEV
	}
	return both(&d.handle, &t.handle, f)
}

func (d *dir) Remove(name string) error {
	return d.at("unlinkat", name, func(fd int) error { return unix.Unlinkat(fd, name, 0) })
}

func (d *dir) Rmdir(name string) error {
	return d.at("unlinkat", name, func(fd int) error { return unix.Unlinkat(fd, name, unix.AT_REMOVEDIR) })
}

func (d *dir) Sync() error { return d.readable("fsync", fullSync) }
