package aferofs

import (
	"errors"
	"io"
	"io/fs"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
)

// fromFile is an open file of afero, held to what it was opened for.
type fromFile struct {
	base afero.Fs
	name string
	flag vfs.Flag

	mu     sync.Mutex
	f      afero.File
	mtime  time.Time // before the open; of a Probe only
	closed bool
}

var _ vfs.File = (*fromFile)(nil)

func newFromFile(f afero.File, base afero.Fs, name string, flag vfs.Flag) (vfs.File, error) {
	ff := &fromFile{base: base, name: name, flag: flag, f: f}
	if flag&vfs.Probe != 0 {
		info, err := f.Stat()
		if err != nil {
			return nil, fromError("openat", name, errors.Join(err, f.Close()))
		}
		ff.mtime = info.ModTime()
	}
	return ff, nil
}

// do runs an operation with the file locked: a position that is asked for and
// used in two calls must not move between them.
func (f *fromFile) do(op string, use func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return fromError(op, f.name, fs.ErrClosed)
	}
	err := use()
	if err == io.EOF { //nolint:errorlint // the reader's own io.EOF stays as it is, a wrapped one is another error
		return io.EOF
	}
	return fromError(op, f.name, err)
}

func (f *fromFile) Read(p []byte) (n int, err error) {
	err = f.do("read", func() error {
		switch {
		case f.flag.Writes() && f.flag&vfs.ReadWrite == 0:
			return syscall.EBADF
		case len(p) == 0:
			return nil
		}
		n, err = f.f.Read(p)
		if errors.Is(err, io.ErrUnexpectedEOF) { // the memory backend's word for a position past the end
			return io.EOF
		}
		return err
	})
	return n, err
}

func (f *fromFile) Write(p []byte) (n int, err error) {
	err = f.do("write", func() error {
		if !f.flag.Writes() {
			return syscall.EBADF
		}
		if f.flag&vfs.Append != 0 { // the memory backend goes to the end once, when it opens
			if _, err := f.f.Seek(0, io.SeekEnd); err != nil {
				return err
			}
		}
		n, err = f.f.Write(p)
		return err
	})
	if err == nil && n < len(p) {
		return n, io.ErrShortWrite
	}
	return n, err
}

func (f *fromFile) Seek(offset int64, whence int) (pos int64, err error) {
	err = f.do("lseek", func() error {
		var from int64
		switch whence {
		case io.SeekStart:
		case io.SeekCurrent:
			from, err = f.f.Seek(0, io.SeekCurrent)
		case io.SeekEnd:
			from, err = f.size()
		default:
			err = syscall.EINVAL
		}
		if err == nil && from+offset < 0 { // the memory backend would go there
			err = syscall.EINVAL
		}
		if err == nil {
			pos, err = f.f.Seek(from+offset, io.SeekStart)
		}
		return err
	})
	return pos, err
}

func (f *fromFile) size() (int64, error) {
	info, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

func (f *fromFile) Stat() (info vfs.Info, err error) {
	err = f.do("fstat", func() error {
		fi, err := f.f.Stat()
		if err == nil {
			info = infoOf(fi)
		}
		return err
	})
	return info, err
}

func (f *fromFile) Truncate(size int64) error {
	return f.do("ftruncate", func() error {
		if size < 0 || !f.flag.Writes() {
			return syscall.EINVAL
		}
		return f.f.Truncate(size)
	})
}

// Chmod goes by handle where base has real ones, and by name elsewhere.
func (f *fromFile) Chmod(perm fs.FileMode) error {
	return f.do("fchmod", func() error {
		if held, ok := f.f.(interface{ Chmod(mode fs.FileMode) error }); ok {
			return held.Chmod(perm)
		}
		return f.base.Chmod(f.f.Name(), perm)
	})
}

func (f *fromFile) Chown(_, _ int) error { return f.unsupported("fchown") }

// Sync has no meaning here: CapDurability is not declared.
func (f *fromFile) Sync() error { return f.do("fsync", func() error { return f.f.Sync() }) }

// Datasync has no meaning here either.
func (f *fromFile) Datasync() error { return f.do("fdatasync", func() error { return f.f.Sync() }) }

func (f *fromFile) SyncRange(_, _ int64) error        { return f.unsupported("sync_file_range") }
func (f *fromFile) Xattr(string) ([]byte, error)      { return nil, f.unsupported("fgetxattr") }
func (f *fromFile) SetXattr(_ string, _ []byte) error { return f.unsupported("fsetxattr") }
func (f *fromFile) Xattrs() ([]string, error)         { return nil, f.unsupported("flistxattr") }

func (f *fromFile) unsupported(op string) error {
	return f.do(op, func() error { return errUnsupported })
}

// Close also takes back what the memory backend does to the time of a file that
// was open for writing, if it was open for a Probe only.
func (f *fromFile) Close() error {
	return f.do("close", func() error {
		f.closed = true
		name := f.f.Name()
		if err := f.f.Close(); err != nil || f.flag&vfs.Probe == 0 {
			return err
		}
		info, err := f.base.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile: no time is left to take back
			return nil
		case err == nil && !info.ModTime().Equal(f.mtime):
			err = f.base.Chtimes(name, f.mtime, f.mtime)
		}
		return err
	})
}
