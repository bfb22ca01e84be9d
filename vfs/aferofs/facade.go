package aferofs

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
)

// Facade shows the tree below root as an afero.Fs. A name starts at root with
// or without a slash in front; links are followed as package os follows them,
// an absolute link text starts at root too, and a name that leads above root
// fails with an error matching vfs.ErrEscapes. Errors are *fs.PathError and
// *os.LinkError with the name that the caller gave.
//
// What the port has no operation for fails with vfs.ErrUnsupported: Chtimes,
// and Chmod and Chown of a directory. Root stays the caller's to close.
func Facade(root vfs.Dir) afero.Fs { return &facade{root} }

type facade struct{ root vfs.Dir }

var (
	_ afero.Fs        = (*facade)(nil)
	_ afero.Symlinker = (*facade)(nil)
)

func (*facade) Name() string { return "fsbench" }

// find walks to the place of name. A link in the last component is followed if
// last is set.
func (f *facade) find(name string, last bool) (vfs.Place, error) {
	if name == "" {
		return vfs.Place{}, syscall.ENOENT
	}
	w := vfs.Walker{Root: f.root, RootPath: "/", Follow: true}
	return w.Walk(name, last)
}

// inside walks to the directory that name leads to, which may be the root and
// may be spelled with "." or "/" at the end. With mk, what is missing is made.
func (f *facade) inside(name string, mk func(d vfs.Dir, name, rel string) error) (vfs.Place, error) {
	if name == "" {
		return vfs.Place{}, syscall.ENOENT
	}
	w := vfs.Walker{Root: f.root, RootPath: "/", Follow: true, Make: mk}
	return w.Walk(name+"/_", false) // a name in it, so that it is a directory on the way
}

// meansDir reports that the walker refused name because its spelling calls for a
// directory, or the text of a link in its last component does.
func meansDir(name string, err error) bool {
	switch name[strings.LastIndexByte(name, '/')+1:] {
	case "", ".", "..":
		return errors.Is(err, fs.ErrInvalid)
	}
	return errors.Is(err, syscall.EISDIR)
}

// at runs do with the place of a name that is about to be made, renamed or
// removed. There, as in the kernel, a slash at the end says nothing new.
func (f *facade) at(name string, do func(d vfs.Dir, n string) error) error {
	trimmed := strings.TrimRight(name, "/")
	if trimmed == "" && name != "" {
		trimmed = "/" // the root, which the walker refuses as it has no name
	}
	place, err := f.find(trimmed, false)
	if err != nil {
		return err
	}
	return cmp.Or(do(place.Dir, place.Name), place.Close())
}

func (f *facade) Create(name string) (afero.File, error) {
	return f.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o666)
}

func (f *facade) Open(name string) (afero.File, error) { return f.OpenFile(name, os.O_RDONLY, 0) }

func (f *facade) OpenFile(name string, flag int, perm os.FileMode) (afero.File, error) {
	file, err := f.open(name, flag, perm)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return file, nil
}

func (f *facade) open(name string, flag int, perm os.FileMode) (afero.File, error) {
	flags, err := portFlags(flag)
	if err != nil {
		return nil, err
	}
	place, err := f.find(name, flags&vfs.Exclusive == 0) // an exclusive create meets the link itself
	switch {
	case err != nil && meansDir(name, err) && flags == vfs.ReadOnly:
		return f.openRoot(name)
	case err != nil && meansDir(name, err):
		return nil, syscall.EISDIR
	case err != nil:
		return nil, err
	}
	file, err := openAt(place, name, flags, perm)
	if cerr := place.Close(); err == nil && cerr != nil {
		return nil, cmp.Or(cerr, file.Close())
	}
	return file, err
}

func openAt(place vfs.Place, name string, flags vfs.Flag, perm fs.FileMode) (afero.File, error) {
	file, err := place.Dir.OpenFile(place.Name, flags, perm)
	switch {
	case err == nil:
		return &openFile{name: name, f: file, appends: flags&vfs.Append != 0}, nil
	case flags != vfs.ReadOnly || !errors.Is(err, syscall.EISDIR):
		return nil, err
	}
	dir, err := place.Dir.OpenDir(place.Name)
	if err != nil {
		return nil, err
	}
	return &dirFile{name: name, dir: dir, closeDir: dir.Close}, nil
}

// openRoot opens the directory that the spelling of name calls for.
func (f *facade) openRoot(name string) (afero.File, error) {
	place, err := f.inside(name, nil)
	if err != nil {
		return nil, err
	}
	return &dirFile{name: name, dir: place.Dir, closeDir: place.Close}, nil
}

func portFlags(flag int) (vfs.Flag, error) {
	var flags vfs.Flag
	switch flag & (os.O_WRONLY | os.O_RDWR) {
	case os.O_RDONLY:
	case os.O_WRONLY:
		flags = vfs.WriteOnly
	case os.O_RDWR:
		flags = vfs.ReadWrite
	default:
		return 0, syscall.EINVAL
	}
	flag &^= os.O_WRONLY | os.O_RDWR
	for _, f := range []struct {
		os   int
		port vfs.Flag
	}{
		{os.O_CREATE, vfs.Create},
		{os.O_EXCL, vfs.Exclusive},
		{os.O_TRUNC, vfs.Truncate},
		{os.O_APPEND, vfs.Append},
	} {
		if flag&f.os != 0 {
			flags |= f.port
			flag &^= f.os
		}
	}
	if flag != 0 { // O_SYNC, above all: to ignore it would be to promise what is not kept
		return 0, errUnsupported
	}
	return flags, nil
}

func (f *facade) Mkdir(name string, perm os.FileMode) error {
	return pathError("mkdir", name, f.at(name, func(d vfs.Dir, n string) error { return d.Mkdir(n, perm) }))
}

func (f *facade) MkdirAll(name string, perm os.FileMode) error {
	place, err := f.inside(name, func(d vfs.Dir, n, _ string) error {
		err := d.Mkdir(n, perm)
		if errors.Is(err, fs.ErrExist) { // somebody was faster: opening it decides
			return nil
		}
		return err
	})
	if err == nil {
		err = place.Close()
	}
	return pathError("mkdir", name, err)
}

// Remove removes a file, a link or an empty directory.
func (f *facade) Remove(name string) error {
	return pathError("remove", name, f.at(name, func(d vfs.Dir, n string) error {
		err := d.Remove(n)
		if !maybeDir(err) {
			return err
		}
		if derr := d.Rmdir(n); !errors.Is(derr, syscall.ENOTDIR) {
			return derr
		}
		return err
	}))
}

// maybeDir reports that an unlink failed as it does for a directory: POSIX lets
// a system answer EPERM, which it also answers for other reasons.
func maybeDir(err error) bool {
	return errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EPERM)
}

// RemoveAll removes name with everything below. It follows no link, and a name
// that does not exist is removed already.
func (f *facade) RemoveAll(name string) error {
	err := f.at(name, removeAll)
	if errors.Is(err, syscall.ENOENT) {
		return nil
	}
	return pathError("removeall", name, err)
}

func removeAll(d vfs.Dir, name string) error {
	err := d.Remove(name)
	if !maybeDir(err) {
		return err
	}
	sub, derr := d.OpenDir(name)
	if errors.Is(derr, syscall.ENOTDIR) || errors.Is(derr, syscall.ELOOP) {
		return err
	}
	if derr != nil {
		return derr
	}
	names, _, err := sub.ReadDir(0)
	for _, n := range names {
		if rerr := removeAll(sub, n); rerr != nil && !errors.Is(rerr, syscall.ENOENT) {
			err = errors.Join(err, rerr)
		}
	}
	if err = cmp.Or(err, sub.Close()); err != nil {
		return err
	}
	return d.Rmdir(name)
}

func (f *facade) Rename(oldname, newname string) error {
	err := f.at(oldname, func(from vfs.Dir, oldn string) error {
		return f.at(newname, func(to vfs.Dir, newn string) error {
			return from.Rename(oldn, to, newn, vfs.Replace)
		})
	})
	return linkError("rename", oldname, newname, err)
}

func (f *facade) Stat(name string) (os.FileInfo, error) {
	info, err := f.stat(name, true)
	if err != nil {
		return nil, pathError("stat", name, err)
	}
	return info, nil
}

// LstatIfPossible implements afero.Lstater. It is possible.
func (f *facade) LstatIfPossible(name string) (os.FileInfo, bool, error) {
	info, err := f.stat(name, false)
	if err != nil {
		return nil, true, pathError("lstat", name, err)
	}
	return info, true, nil
}

func (f *facade) stat(name string, last bool) (os.FileInfo, error) {
	look := func(p vfs.Place) (vfs.Info, error) { return p.Dir.Lstat(p.Name) }
	place, err := f.find(name, last)
	if err != nil && meansDir(name, err) {
		look = func(p vfs.Place) (vfs.Info, error) { return p.Dir.Stat() }
		place, err = f.inside(name, nil)
	}
	if err != nil {
		return nil, err
	}
	info, err := look(place)
	if err = cmp.Or(err, place.Close()); err != nil {
		return nil, err
	}
	return fileInfo{path.Base(name), info}, nil
}

// SymlinkIfPossible implements afero.Linker.
func (f *facade) SymlinkIfPossible(oldname, newname string) error {
	err := f.at(newname, func(d vfs.Dir, n string) error { return d.Symlink(oldname, n) })
	return linkError("symlink", oldname, newname, err)
}

// ReadlinkIfPossible implements afero.LinkReader.
func (f *facade) ReadlinkIfPossible(name string) (text string, err error) {
	err = f.at(name, func(d vfs.Dir, n string) (err error) {
		text, err = d.Readlink(n)
		return err
	})
	return text, pathError("readlink", name, err)
}

func (f *facade) Chmod(name string, mode os.FileMode) error {
	return pathError("chmod", name, f.change(name, func(file vfs.File) error { return file.Chmod(mode) }))
}

func (f *facade) Chown(name string, uid, gid int) error {
	return pathError("chown", name, f.change(name, func(file vfs.File) error { return file.Chown(uid, gid) }))
}

func (*facade) Chtimes(name string, _, _ time.Time) error {
	return pathError("chtimes", name, errUnsupported)
}

// change opens the file name, whichever way it lets itself be opened, and
// changes it through the handle: by name it could be swapped.
func (f *facade) change(name string, do func(file vfs.File) error) error {
	place, err := f.find(name, true)
	if err == nil {
		err = cmp.Or(changeAt(place, do), place.Close())
	}
	if err != nil && (errors.Is(err, syscall.EISDIR) || meansDir(name, err)) {
		return errUnsupported
	}
	return err
}

func changeAt(place vfs.Place, do func(file vfs.File) error) error {
	file, err := place.Dir.OpenFile(place.Name, vfs.ReadOnly|vfs.NonBlock, 0)
	if errors.Is(err, syscall.EACCES) {
		file, err = place.Dir.OpenFile(place.Name, vfs.WriteOnly|vfs.NonBlock, 0)
	}
	if err != nil {
		return err
	}
	return cmp.Or(do(file), file.Close())
}
