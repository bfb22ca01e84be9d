package aferofs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
)

// openFile is an open file as afero knows it. ReadAt and WriteAt are made of
// seeks, so one lock keeps the others from seeing the position in between.
type openFile struct {
	name    string
	appends bool

	mu sync.Mutex
	f  vfs.File
}

var _ afero.File = (*openFile)(nil)

func (o *openFile) Name() string { return o.name }

// do runs an operation with the file locked, and names its errors.
func (o *openFile) do(op string, use func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := use()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return pathError(op, o.name, err)
}

func (o *openFile) Close() error { return o.do("close", o.f.Close) }

func (o *openFile) Read(p []byte) (n int, err error) {
	err = o.do("read", func() error {
		n, err = o.f.Read(p)
		return err
	})
	return n, err
}

func (o *openFile) Write(p []byte) (n int, err error) {
	err = o.do("write", func() error {
		n, err = writeAll(o.f, p)
		return err
	})
	return n, err
}

// writeAll goes on after a short write, as an os.File does: tools written
// against afero expect that.
func writeAll(f vfs.File, p []byte) (done int, err error) {
	for {
		n, err := f.Write(p[done:])
		done += n
		if !errors.Is(err, io.ErrShortWrite) || n == 0 {
			return done, err
		}
	}
}

func (o *openFile) WriteString(s string) (int, error) { return o.Write([]byte(s)) }

func (o *openFile) Seek(offset int64, whence int) (pos int64, err error) {
	err = o.do("seek", func() error {
		pos, err = o.f.Seek(offset, whence)
		return err
	})
	return pos, err
}

// ReadAt implements io.ReaderAt.
func (o *openFile) ReadAt(p []byte, off int64) (n int, err error) {
	err = o.do("readat", func() error {
		return o.elsewhere(off, func() error {
			n, err = io.ReadFull(o.f, p)
			if errors.Is(err, io.ErrUnexpectedEOF) {
				return io.EOF
			}
			return err
		})
	})
	return n, err
}

// WriteAt implements io.WriterAt. As with an os.File, a file opened to append
// refuses: the kernel would write at the end.
func (o *openFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = o.do("writeat", func() error {
		if o.appends {
			return fs.ErrInvalid
		}
		return o.elsewhere(off, func() error {
			n, err = writeAll(o.f, p)
			return err
		})
	})
	return n, err
}

// elsewhere runs use with the position at off, and goes back.
func (o *openFile) elsewhere(off int64, use func() error) error {
	home, err := o.f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	if _, err := o.f.Seek(off, io.SeekStart); err != nil {
		return err
	}
	err = use()
	if _, serr := o.f.Seek(home, io.SeekStart); serr != nil {
		return errors.Join(serr, err)
	}
	return err
}

func (o *openFile) Stat() (info os.FileInfo, err error) {
	err = o.do("stat", func() error {
		i, err := o.f.Stat()
		if err == nil {
			info = fileInfo{path.Base(o.name), i}
		}
		return err
	})
	return info, err
}

func (o *openFile) Sync() error { return o.do("sync", o.f.Sync) }

func (o *openFile) Truncate(size int64) error {
	return o.do("truncate", func() error { return o.f.Truncate(size) })
}

func (o *openFile) Readdir(int) ([]os.FileInfo, error) {
	return nil, pathError("readdir", o.name, syscall.ENOTDIR)
}

func (o *openFile) Readdirnames(int) ([]string, error) {
	return nil, pathError("readdirnames", o.name, syscall.ENOTDIR)
}

// dirFile is an open directory as afero knows it. The port gives the names from
// the start at every call, so they are taken once and handed out in portions.
type dirFile struct {
	name     string
	dir      vfs.Dir
	closeDir func() error

	mu     sync.Mutex
	names  []string
	taken  bool // names was filled
	closed bool
}

var _ afero.File = (*dirFile)(nil)

func (d *dirFile) Name() string { return d.name }

func (d *dirFile) do(op string, use func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed { // the root itself is not ours to close, and would go on working
		return pathError(op, d.name, fs.ErrClosed)
	}
	err := use()
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return pathError(op, d.name, err)
}

func (d *dirFile) refuse(op string, errno syscall.Errno) error {
	return d.do(op, func() error { return errno })
}

func (d *dirFile) Close() error {
	return d.do("close", func() error {
		d.closed = true
		return d.closeDir()
	})
}

func (d *dirFile) Read([]byte) (int, error)           { return 0, d.refuse("read", syscall.EISDIR) }
func (d *dirFile) ReadAt([]byte, int64) (int, error)  { return 0, d.refuse("readat", syscall.EISDIR) }
func (d *dirFile) Write([]byte) (int, error)          { return 0, d.refuse("write", syscall.EBADF) }
func (d *dirFile) WriteAt([]byte, int64) (int, error) { return 0, d.refuse("writeat", syscall.EBADF) }
func (d *dirFile) WriteString(string) (int, error)    { return 0, d.refuse("write", syscall.EBADF) }
func (d *dirFile) Truncate(int64) error               { return d.refuse("truncate", syscall.EINVAL) }
func (d *dirFile) Sync() error                        { return d.do("sync", d.dir.Sync) }

// Seek to the start makes the next Readdir begin anew. There is nowhere else to
// go.
func (d *dirFile) Seek(offset int64, whence int) (int64, error) {
	return 0, d.do("seek", func() error {
		if offset != 0 || whence != io.SeekStart {
			return syscall.EINVAL
		}
		d.names, d.taken = nil, false
		return nil
	})
}

func (d *dirFile) Stat() (info os.FileInfo, err error) {
	err = d.do("stat", func() error {
		i, err := d.dir.Stat()
		if err == nil {
			info = fileInfo{path.Base(d.name), i}
		}
		return err
	})
	return info, err
}

func (d *dirFile) Readdirnames(n int) (names []string, err error) {
	err = d.do("readdirnames", func() error {
		names, err = d.next(n)
		return err
	})
	return names, err
}

func (d *dirFile) Readdir(n int) (infos []os.FileInfo, err error) {
	err = d.do("readdir", func() error {
		for {
			names, err := d.next(n)
			if err != nil {
				return err
			}
			for _, name := range names {
				info, err := d.dir.Lstat(name)
				if errors.Is(err, syscall.ENOENT) { // removed since the names were taken
					continue
				}
				if err != nil {
					return err
				}
				infos = append(infos, fileInfo{name, info})
			}
			if len(infos) > 0 || n <= 0 { // an empty portion would look like the end
				return nil
			}
		}
	})
	return infos, err
}

// next returns at most n more names and io.EOF after the last, or all the rest
// where n is not positive.
func (d *dirFile) next(n int) ([]string, error) {
	if !d.taken {
		names, _, err := d.dir.ReadDir(0)
		if err != nil {
			return nil, err
		}
		d.names, d.taken = names, true
	}
	if n > 0 && len(d.names) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.names) {
		n = len(d.names)
	}
	names := d.names[:n:n]
	d.names = d.names[n:]
	return names, nil
}

// fileInfo is a description as afero knows it. Sys is the port's own.
type fileInfo struct {
	name string
	info vfs.Info
}

func (i fileInfo) Name() string       { return i.name }
func (i fileInfo) Size() int64        { return i.info.Size }
func (i fileInfo) Mode() fs.FileMode  { return i.info.Mode }
func (i fileInfo) ModTime() time.Time { return i.info.Mtime }
func (i fileInfo) IsDir() bool        { return i.info.Mode.IsDir() }
func (i fileInfo) Sys() any           { return i.info }
