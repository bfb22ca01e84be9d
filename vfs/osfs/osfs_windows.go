package osfs

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/windows"

	"github.com/fsbench/fsbench/vfs"
)

// fullCaps is what the standard library lets us promise. A link in a name is
// looked for before the name is opened, which a fast adversary can get past, so
// CapNoFollow is not promised; nor is CapHandle, since a move between two
// directories goes by path.
const fullCaps = vfs.CapSymlink | vfs.CapLink

type kernel struct{}

func detect() (kernel, finding) { return kernel{}, finding{} }

var placeTrials []trial

// dir is an open directory.
type dir struct {
	fs   *FS
	name string
	path string // absolute, for moves between two directories
	root *os.Root
}

var _ vfs.Dir = (*dir)(nil)

// OpenRoot implements vfs.FS.
func (f *FS) OpenRoot(path string) (vfs.Dir, error) {
	name := rootName(path)
	if !filepath.IsAbs(path) {
		return nil, pathError("openat", name, fs.ErrInvalid)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, pathError("openat", name, portable(err))
	}
	return &dir{fs: f, name: name, path: path, root: root}, nil
}

// SyncFS implements vfs.FS.
func (*FS) SyncFS(vfs.Dir) error { return pathError("syncfs", "", errUnsupported) }

// checkName also refuses what Windows takes for a separator, a drive or a stream.
func checkName(name string) error {
	if strings.ContainsAny(name, `\:`) {
		return fs.ErrInvalid
	}
	return vfs.CheckName(name)
}

// look is Lstat with an error for an entry of the wrong kind.
func (d *dir) look(name string, wantDir bool) error {
	if err := checkName(name); err != nil {
		return err
	}
	info, err := d.root.Lstat(name)
	switch {
	case err != nil:
		return portable(err)
	case info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0: // the latter is what a junction shows
		return syscall.ELOOP
	case info.IsDir() && !wantDir:
		return syscall.EISDIR
	case !info.IsDir() && wantDir:
		return syscall.ENOTDIR
	}
	return nil
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	if err := d.look(name, true); err != nil {
		return nil, pathError("openat", name, err)
	}
	root, err := d.root.OpenRoot(name)
	if err != nil {
		return nil, pathError("openat", name, portable(err))
	}
	return &dir{fs: d.fs, name: name, path: filepath.Join(d.path, name), root: root}, nil
}

func (d *dir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Doomed != 0 {
		return nil, pathError("openat", name, errUnsupported)
	}
	flags, err := openFlags(flag)
	if err == nil {
		err = d.look(name, false)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0:
	case err != nil:
		if flags&os.O_EXCL != 0 && (errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ELOOP)) {
			err = syscall.EEXIST
		}
		return nil, pathError("openat", name, err)
	}
	f, err := d.root.OpenFile(name, flags, perm.Perm())
	if err != nil {
		return nil, pathError("openat", name, portable(err))
	}
	return &file{File: f, name: name}, nil
}

func openFlags(flag vfs.Flag) (int, error) {
	if flag&vfs.Probe != 0 {
		return os.O_WRONLY, nil
	}
	flags := os.O_RDONLY
	switch write, both := flag&vfs.WriteOnly != 0, flag&vfs.ReadWrite != 0; {
	case write && both:
		return 0, syscall.EINVAL
	case write:
		flags = os.O_WRONLY
	case both:
		flags = os.O_RDWR
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
	return flags, nil
}

func (d *dir) Mkdir(name string, perm fs.FileMode) error {
	err := checkName(name)
	if err == nil {
		err = portable(d.root.Mkdir(name, perm.Perm()))
	}
	return pathError("mkdirat", name, err)
}

func (d *dir) Lstat(name string) (vfs.Info, error) {
	if err := checkName(name); err != nil {
		return vfs.Info{}, pathError("fstatat", name, err)
	}
	info, err := d.root.Lstat(name)
	if err != nil {
		return vfs.Info{}, pathError("fstatat", name, portable(err))
	}
	return infoOf(info), nil
}

func (d *dir) Stat() (vfs.Info, error) {
	info, err := d.root.Stat(".")
	if err != nil {
		return vfs.Info{}, pathError("fstat", d.name, portable(err))
	}
	return infoOf(info), nil
}

func infoOf(info fs.FileInfo) vfs.Info {
	return vfs.Info{Mode: info.Mode(), Size: info.Size(), Mtime: info.ModTime()}
}

func (d *dir) ReadDir(n int) (names []string, more bool, err error) {
	f, err := d.root.Open(".")
	if err != nil {
		return nil, false, pathError("getdents", d.name, portable(err))
	}
	want := -1
	if n > 0 {
		want = n + 1
	}
	names, err = f.Readdirnames(want)
	if len(names) == 0 && n > 0 { // io.EOF, from an empty directory
		err = nil
	}
	if err = cmp.Or(err, f.Close()); err != nil {
		return nil, false, pathError("getdents", d.name, portable(err))
	}
	if n > 0 && len(names) > n {
		return names[:n], true, nil
	}
	return names, false, nil
}

func (d *dir) Readlink(name string) (string, error) {
	err := checkName(name)
	if err != nil {
		return "", pathError("readlinkat", name, err)
	}
	text, err := d.root.Readlink(name)
	return text, pathError("readlinkat", name, portable(err))
}

func (d *dir) Symlink(target, name string) error {
	err := cmp.Or(checkName(name), d.fs.need(vfs.CapSymlink))
	if err == nil {
		err = portable(d.root.Symlink(target, name))
	}
	return pathError("symlinkat", name, err)
}

func (d *dir) Link(name string, to vfs.Dir, toName string) error {
	t, ok := to.(*dir)
	err := cmp.Or(checkName(name), checkName(toName), d.fs.need(vfs.CapLink))
	switch {
	case err != nil:
	case !ok:
		err = syscall.EXDEV
	case t == d:
		err = d.root.Link(name, toName)
	default:
		err = os.Link(filepath.Join(d.path, name), filepath.Join(t.path, toName))
	}
	return linkError("linkat", name, toName, portable(err))
}

func (d *dir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	t, ok := to.(*dir)
	err := cmp.Or(checkName(name), checkName(toName))
	switch {
	case err != nil:
	case flag != vfs.Replace:
		err = errUnsupported
	case !ok:
		err = syscall.EXDEV
	case t == d:
		err = d.root.Rename(name, toName)
	default:
		err = os.Rename(filepath.Join(d.path, name), filepath.Join(t.path, toName))
	}
	return linkError("renameat", name, toName, portable(err))
}

func (*dir) Publish(_ vfs.File, name string) error {
	return pathError("linkat", name, errUnsupported)
}

func (d *dir) Remove(name string) error {
	err := d.look(name, false)
	if err == nil || errors.Is(err, syscall.ELOOP) {
		err = portable(d.root.Remove(name))
	}
	return pathError("unlinkat", name, err)
}

func (d *dir) Rmdir(name string) error {
	err := d.look(name, true)
	if err == nil {
		err = portable(d.root.Remove(name))
	}
	return pathError("unlinkat", name, err)
}

// Sync does nothing: a directory cannot be flushed here, and CapDurability is
// not promised.
func (d *dir) Sync() error {
	_, err := d.Stat()
	return err
}

func (d *dir) Close() error {
	if _, err := d.root.Stat("."); errors.Is(err, fs.ErrClosed) {
		return pathError("close", d.name, fs.ErrClosed)
	}
	return pathError("close", d.name, portable(d.root.Close()))
}

// file is an open file.
type file struct {
	*os.File
	name string
}

var _ vfs.File = (*file)(nil)

func (f *file) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err == io.EOF {
		return n, err
	}
	return n, pathError("read", f.name, portable(err))
}

func (f *file) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	return n, pathError("write", f.name, portable(err))
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	pos, err := f.File.Seek(offset, whence)
	return pos, pathError("lseek", f.name, portable(err))
}

func (f *file) Close() error { return pathError("close", f.name, portable(f.File.Close())) }

func (f *file) Stat() (vfs.Info, error) {
	info, err := f.File.Stat()
	if err != nil {
		return vfs.Info{}, pathError("fstat", f.name, portable(err))
	}
	return infoOf(info), nil
}

func (f *file) Truncate(size int64) error {
	return pathError("ftruncate", f.name, portable(f.File.Truncate(size)))
}

func (f *file) Chmod(perm fs.FileMode) error {
	return pathError("fchmod", f.name, portable(f.File.Chmod(perm)))
}

func (f *file) Chown(_, _ int) error { return pathError("fchown", f.name, errUnsupported) }

func (f *file) Sync() error { return pathError("fsync", f.name, portable(f.File.Sync())) }

func (f *file) Datasync() error { return f.Sync() }

func (f *file) SyncRange(_, _ int64) error {
	return pathError("sync_file_range", f.name, errUnsupported)
}

func (f *file) Xattr(string) ([]byte, error) {
	return nil, pathError("fgetxattr", f.name, errUnsupported)
}

func (f *file) SetXattr(string, []byte) error {
	return pathError("fsetxattr", f.name, errUnsupported)
}

func (f *file) Xattrs() ([]string, error) {
	return nil, pathError("flistxattr", f.name, errUnsupported)
}

// portable takes an error of package os apart: the place on the host goes, and
// the code of Windows gets company by the errno that callers ask for.
func portable(err error) error {
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	switch {
	case errors.As(err, &pathErr):
		err = pathErr.Err
	case errors.As(err, &linkErr):
		err = linkErr.Err
	}
	for _, w := range words {
		if slices.ContainsFunc(w.codes, func(code syscall.Errno) bool { return errors.Is(err, code) }) {
			return &wordError{w.errno, err}
		}
	}
	return err
}

// wordError is an error of Windows under the name that the port has for it.
type wordError struct {
	errno syscall.Errno
	err   error
}

func (e *wordError) Error() string { return e.err.Error() }

func (e *wordError) Unwrap() []error { return []error{e.errno, e.err} }

var words = []struct {
	errno syscall.Errno
	codes []syscall.Errno
}{
	{syscall.EEXIST, []syscall.Errno{windows.ERROR_FILE_EXISTS, windows.ERROR_ALREADY_EXISTS}},
	{syscall.ENOTEMPTY, []syscall.Errno{windows.ERROR_DIR_NOT_EMPTY}},
	{syscall.EACCES, []syscall.Errno{windows.ERROR_ACCESS_DENIED}},
	{syscall.EPERM, []syscall.Errno{windows.ERROR_PRIVILEGE_NOT_HELD}},
	{syscall.EBUSY, []syscall.Errno{windows.ERROR_SHARING_VIOLATION, windows.ERROR_LOCK_VIOLATION}},
	{syscall.EXDEV, []syscall.Errno{windows.ERROR_NOT_SAME_DEVICE}},
	{syscall.EINVAL, []syscall.Errno{windows.ERROR_NOT_A_REPARSE_POINT, windows.ERROR_INVALID_PARAMETER}},
	{syscall.ENOSPC, []syscall.Errno{windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL}},
	{syscall.EROFS, []syscall.Errno{windows.ERROR_WRITE_PROTECT}},
	{syscall.ENAMETOOLONG, []syscall.Errno{windows.ERROR_FILENAME_EXCED_RANGE}},
}
