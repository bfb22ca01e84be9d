//go:build linux || darwin

package osfs

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// file is an open file. It is not an os.File: that one parks a read of a FIFO
// opened with NonBlock until data comes, and repeats a write that was cut short.
type file struct {
	handle
	fs     *FS
	doomed bool // opened without a name
}

var _ vfs.File = (*file)(nil)

// openFlags translates all but Doomed.
func openFlags(flag vfs.Flag) (int, error) {
	if flag&vfs.Probe != 0 {
		// Whatever else was asked for: a probe that creates or truncates would be
		// the write that it was meant to ask about.
		return unix.O_WRONLY | unix.O_NONBLOCK, nil
	}
	flags := unix.O_RDONLY
	switch write, both := flag&vfs.WriteOnly != 0, flag&vfs.ReadWrite != 0; {
	case write && both:
		return 0, unix.EINVAL
	case write:
		flags = unix.O_WRONLY
	case both:
		flags = unix.O_RDWR
	}
	for _, f := range []struct {
		port vfs.Flag
		unix int
	}{
		{vfs.Create, unix.O_CREAT},
		{vfs.Exclusive, unix.O_EXCL},
		{vfs.Truncate, unix.O_TRUNC},
		{vfs.Append, unix.O_APPEND},
		{vfs.NonBlock, unix.O_NONBLOCK},
	} {
		if flag&f.port != 0 {
			flags |= f.unix
		}
	}
	return flags, nil
}

func (f *file) Read(p []byte) (n int, err error) {
	err = f.self("read", func(fd int) (err error) {
		n, err = unix.Read(fd, p)
		return err
	})
	if err == nil && n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return max(n, 0), err
}

// Write implements io.Writer with exactly one write(2). A count below len(p)
// comes with io.ErrShortWrite: a full disk and a file size limit show first as
// a short write, and a loop in here would hide that some bytes are in place.
func (f *file) Write(p []byte) (n int, err error) {
	err = f.self("write", func(fd int) (err error) {
		n, err = unix.Write(fd, p)
		return err
	})
	if err == nil && n < len(p) {
		return n, io.ErrShortWrite
	}
	return max(n, 0), err
}

func (f *file) Seek(offset int64, whence int) (pos int64, err error) {
	err = f.self("lseek", func(fd int) (err error) {
		pos, err = unix.Seek(fd, offset, whence)
		return err
	})
	return max(pos, 0), err
}

func (f *file) Stat() (info vfs.Info, err error) {
	err = f.self("fstat", func(fd int) (err error) {
		info, err = f.fs.kernel.stat(fd, "")
		return err
	})
	return info, err
}

func (f *file) Truncate(size int64) error {
	return f.self("ftruncate", func(fd int) error { return unix.Ftruncate(fd, size) })
}

func (f *file) Chmod(perm fs.FileMode) error {
	return f.self("fchmod", func(fd int) error { return unix.Fchmod(fd, vfs.Bits(perm)) })
}

func (f *file) Chown(uid, gid int) error {
	return f.self("fchown", func(fd int) error { return unix.Fchown(fd, uid, gid) })
}

func (f *file) Sync() error { return f.self("fsync", fullSync) }

func (f *file) Datasync() error { return f.self("fdatasync", dataSync) }

func (f *file) SyncRange(off, n int64) error {
	if err := f.fs.need(vfs.CapSyncRange); err != nil {
		return pathError("sync_file_range", f.name, err)
	}
	return f.self("sync_file_range", func(fd int) error { return syncRange(fd, off, n) })
}

func (f *file) Xattr(name string) (value []byte, err error) {
	err = f.xattrs("fgetxattr", func(fd int) (err error) {
		value, err = grown(func(buf []byte) (int, error) { return unix.Fgetxattr(fd, name, buf) })
		if errors.Is(err, noXattr) {
			return unix.ENODATA
		}
		return err
	})
	return value, err
}

func (f *file) SetXattr(name string, value []byte) error {
	return f.xattrs("fsetxattr", func(fd int) error { return unix.Fsetxattr(fd, name, value, 0) })
}

func (f *file) Xattrs() (names []string, err error) {
	err = f.xattrs("flistxattr", func(fd int) error {
		list, err := grown(func(buf []byte) (int, error) { return unix.Flistxattr(fd, buf) })
		for name := range strings.SplitSeq(string(list), "\x00") {
			if name != "" {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return err
	})
	return names, err
}

func (f *file) xattrs(op string, do func(fd int) error) error {
	if err := f.fs.need(vfs.CapXattr); err != nil {
		return pathError(op, f.name, err)
	}
	return f.self(op, do)
}

// grown calls get with a larger buffer until the answer fits: an attribute may
// grow between the question how long it is and the question what it is.
func grown(get func(buf []byte) (int, error)) ([]byte, error) {
	for size := 256; ; size *= 4 {
		buf := make([]byte, size)
		n, err := get(buf)
		switch {
		case err == nil:
			return buf[:n], nil
		case !errors.Is(err, unix.ERANGE) || size > xattrMax:
			return nil, err
		}
	}
}

// xattrMax is the largest value and the longest list that Linux keeps, in bytes.
const xattrMax = 64 << 10
