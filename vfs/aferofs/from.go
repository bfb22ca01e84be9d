package aferofs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
)

// From shows base as a port without capabilities.
func From(base afero.Fs) vfs.FS { return from{base} }

type from struct{ base afero.Fs }

func (from) Caps() vfs.Caps { return 0 }

func (f from) OpenRoot(dir string) (vfs.Dir, error) {
	if !path.IsAbs(dir) {
		return nil, fromError("open", path.Base(dir), fs.ErrInvalid)
	}
	info, err := f.base.Stat(dir)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fromError("open", path.Base(dir), err)
	}
	return &fromDir{base: f.base, path: dir}, nil
}

func (from) SyncFS(vfs.Dir) error { return fromError("syncfs", "", errUnsupported) }

// fromError is pathError for an error of afero, which may lack an errno.
func fromError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return pathError(op, name, withErrno(reason(err)))
}

func withErrno(err error) error {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno), errors.Is(err, fs.ErrInvalid), errors.Is(err, fs.ErrClosed):
		return err
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrExist):
		return syscall.EEXIST
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	}
	return fmt.Errorf("%w (%w)", err, syscall.EIO)
}

// fromDir is a path that was a directory when it was opened.
type fromDir struct {
	base   afero.Fs
	path   string
	closed atomic.Bool
}

var _ vfs.Dir = (*fromDir)(nil)

func (d *fromDir) name() string { return path.Base(d.path) }

func (d *fromDir) at(name string) string { return path.Join(d.path, name) }

// check refuses what every operation on a name refuses.
func (d *fromDir) check(name string) error {
	if d.closed.Load() {
		return fs.ErrClosed
	}
	return vfs.CheckName(name)
}

// look describes the entry name, and does not follow a link where base can help
// it.
func (d *fromDir) look(name string) (fs.FileInfo, error) {
	if err := d.check(name); err != nil {
		return nil, err
	}
	if l, ok := d.base.(afero.Lstater); ok {
		info, _, err := l.LstatIfPossible(d.at(name))
		return info, err
	}
	return d.base.Stat(d.at(name))
}

// free fails where name cannot be made: it exists, or d is gone. afero's memory
// backend would make a parent that is missing.
func (d *fromDir) free(name string) error {
	_, err := d.look(name)
	switch {
	case err == nil:
		return syscall.EEXIST
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	_, err = d.base.Stat(d.path)
	return err
}

// wants fails where info, of an existing entry, is not what an operation needs.
func wants(info fs.FileInfo, dir bool) error {
	switch {
	case info.IsDir() && !dir:
		return syscall.EISDIR
	case !info.IsDir() && dir:
		return syscall.ENOTDIR
	}
	return nil
}

func (d *fromDir) OpenDir(name string) (vfs.Dir, error) {
	info, err := d.look(name)
	switch {
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		err = syscall.ELOOP
	default:
		err = wants(info, true)
	}
	if err != nil {
		return nil, fromError("openat", name, err)
	}
	return &fromDir{base: d.base, path: d.at(name)}, nil
}

func (d *fromDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Doomed != 0 {
		return nil, fromError("openat", name, cmp.Or(d.closedErr(), errUnsupported))
	}
	if flag&vfs.Probe != 0 {
		flag = vfs.Probe
	}
	if err := d.mayOpen(name, flag); err != nil {
		return nil, fromError("openat", name, err)
	}
	f, err := d.base.OpenFile(d.at(name), osFlags(flag), perm)
	if err != nil {
		return nil, fromError("openat", name, err)
	}
	return newFromFile(f, d.base, name, flag)
}

func (d *fromDir) mayOpen(name string, flag vfs.Flag) error {
	if flag&vfs.WriteOnly != 0 && flag&vfs.ReadWrite != 0 {
		return syscall.EINVAL
	}
	info, err := d.look(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) && flag&vfs.Create != 0:
		return d.free(name)
	case err != nil:
		return err
	case flag&vfs.Create != 0 && flag&vfs.Exclusive != 0:
		return syscall.EEXIST
	case info.Mode()&fs.ModeSymlink != 0:
		return syscall.ELOOP
	}
	return wants(info, false)
}

func osFlags(flag vfs.Flag) int {
	flags := os.O_RDONLY
	switch {
	case flag&vfs.ReadWrite != 0:
		flags = os.O_RDWR
	case flag.Writes():
		flags = os.O_WRONLY
	}
	for _, f := range []struct {
		port vfs.Flag
		os   int
	}{
		{vfs.Create, os.O_CREATE},
		{vfs.Exclusive, os.O_EXCL},
		{vfs.Truncate, os.O_TRUNC},
		{vfs.Append, os.O_APPEND},
	} {
		if flag&f.port != 0 {
			flags |= f.os
		}
	}
	return flags
}

func (d *fromDir) Mkdir(name string, perm fs.FileMode) error {
	err := d.free(name)
	if err == nil {
		err = d.base.Mkdir(d.at(name), perm)
	}
	return fromError("mkdirat", name, err)
}

func (d *fromDir) Lstat(name string) (vfs.Info, error) {
	info, err := d.look(name)
	if err != nil {
		return vfs.Info{}, fromError("fstatat", name, err)
	}
	return infoOf(info), nil
}

func (d *fromDir) Stat() (vfs.Info, error) {
	if err := d.closedErr(); err != nil {
		return vfs.Info{}, fromError("fstat", d.name(), err)
	}
	info, err := d.base.Stat(d.path)
	if err != nil {
		return vfs.Info{}, fromError("fstat", d.name(), err)
	}
	return infoOf(info), nil
}

func (d *fromDir) closedErr() error {
	if d.closed.Load() {
		return fs.ErrClosed
	}
	return nil
}

// infoOf keeps what afero knows of every file: no identity, no owner, no links.
func infoOf(info fs.FileInfo) vfs.Info {
	return vfs.Info{Mode: info.Mode(), Size: info.Size(), Mtime: info.ModTime()}
}

func (d *fromDir) ReadDir(n int) ([]string, bool, error) {
	names, err := d.list(d.path)
	if err != nil {
		return nil, false, fromError("getdents", d.name(), err)
	}
	if n > 0 && len(names) > n {
		return names[:n], true, nil
	}
	return names, false, nil
}

func (d *fromDir) list(dir string) ([]string, error) {
	if err := d.closedErr(); err != nil {
		return nil, err
	}
	f, err := d.base.Open(dir)
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, cmp.Or(err, f.Close())
}

func (d *fromDir) Readlink(name string) (string, error) {
	return "", fromError("readlinkat", name, cmp.Or(d.check(name), errUnsupported))
}

func (d *fromDir) Symlink(_, name string) error {
	return fromError("symlinkat", name, cmp.Or(d.check(name), errUnsupported))
}

func (d *fromDir) Link(name string, _ vfs.Dir, toName string) error {
	return linkError("linkat", name, toName, cmp.Or(d.check(name), vfs.CheckName(toName), errUnsupported))
}

func (d *fromDir) Publish(_ vfs.File, name string) error {
	return fromError("linkat", name, cmp.Or(d.check(name), errUnsupported))
}

func (d *fromDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	t, ok := to.(*fromDir)
	var err error
	switch {
	case !ok || t.base != d.base:
		err = cmp.Or(d.check(name), vfs.CheckName(toName), error(syscall.EXDEV))
	case flag != vfs.Replace:
		err = cmp.Or(d.check(name), t.check(toName), errUnsupported)
	default:
		err = d.rename(name, t, toName)
	}
	if err != nil {
		return linkError("renameat", name, toName, withErrno(reason(err)))
	}
	return nil
}

func (d *fromDir) rename(name string, t *fromDir, toName string) error {
	if err := cmp.Or(d.check(name), t.check(toName)); err != nil {
		return err
	}
	info, err := d.look(name)
	if err != nil {
		return err
	}
	src, dst := d.at(name), t.at(toName)
	switch {
	case src == dst:
		return nil
	case info.IsDir() && strings.HasPrefix(dst, src+"/"):
		return syscall.EINVAL
	}
	if err := d.giveWay(info.IsDir(), t, toName); err != nil {
		return err
	}
	return d.base.Rename(src, dst)
}

// giveWay checks that an entry may be replaced. A directory is removed already:
// not every base renames over one.
func (d *fromDir) giveWay(dir bool, t *fromDir, toName string) error {
	old, err := t.look(toName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t.free(toName)
	case err != nil:
		return err
	}
	if err := wants(old, dir); err != nil || !dir {
		return err
	}
	return t.rmdir(toName)
}

func (d *fromDir) Remove(name string) error {
	info, err := d.look(name)
	if err == nil {
		err = wants(info, false)
	}
	if err == nil {
		err = d.base.Remove(d.at(name))
	}
	return fromError("unlinkat", name, err)
}

func (d *fromDir) Rmdir(name string) error {
	info, err := d.look(name)
	if err == nil {
		err = wants(info, true)
	}
	if err == nil {
		err = d.rmdir(name)
	}
	return fromError("unlinkat", name, err)
}

// rmdir removes a directory only if it is empty. afero's memory backend would
// leave the entries behind, without a parent.
func (d *fromDir) rmdir(name string) error {
	names, err := d.list(d.at(name))
	if err == nil && len(names) > 0 {
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return err
	}
	return d.base.Remove(d.at(name))
}

// Sync has no meaning here: CapDurability is not declared.
func (d *fromDir) Sync() error { return fromError("fsync", d.name(), d.closedErr()) }

func (d *fromDir) Close() error {
	if d.closed.Swap(true) {
		return fromError("close", d.name(), fs.ErrClosed)
	}
	return nil
}
