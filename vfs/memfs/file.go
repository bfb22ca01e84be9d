package memfs

import (
	"bytes"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// file is an open file. It names the inode: unlinking the name does not close it.
type file struct {
	fs     *FS
	node   *inode
	mnt    *mount
	name   string
	flag   vfs.Flag
	off    int64 // bytes; guarded by Store.mu
	closed atomic.Bool
}

var _ vfs.File = (*file)(nil)

func (f *file) enter(op string) (unlock func(), err error) {
	if f.closed.Load() {
		return nil, fail(op, f.name, fs.ErrClosed)
	}
	f.fs.store.mu.Lock()
	return f.fs.store.mu.Unlock, nil
}

func (f *file) Read(p []byte) (int, error) {
	unlock, err := f.enter("read")
	if err != nil {
		return 0, err
	}
	defer unlock()
	if f.flag.Writes() && f.flag&vfs.ReadWrite == 0 {
		return 0, fail("read", f.name, syscall.EBADF)
	}
	if f.off >= int64(len(f.node.data)) {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	n := copy(p, f.node.data[f.off:])
	f.off += int64(n)
	return n, nil
}

func (f *file) Write(p []byte) (int, error) {
	unlock, err := f.enter("write")
	if err != nil {
		return 0, err
	}
	defer unlock()
	if !f.flag.Writes() {
		return 0, fail("write", f.name, syscall.EBADF)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if f.flag&vfs.Append != 0 {
		f.off = int64(len(f.node.data))
	}
	f.node.grow(f.off + int64(len(p)))
	n := copy(f.node.data[f.off:], p)
	f.off += int64(n)
	f.node.mtime = f.fs.store.now()
	if f.fs.cred.UID != 0 {
		f.node.dropPrivileges()
	}
	return n, nil
}

// grow makes the data at least size bytes long and n's own; a hole reads as zeros.
func (n *inode) grow(size int64) {
	if n.shared {
		n.data, n.shared = bytes.Clone(n.data), false
	}
	if add := size - int64(len(n.data)); add > 0 {
		n.data = append(n.data, make([]byte, add)...)
	}
}

func (f *file) Seek(offset int64, whence int) (int64, error) {
	unlock, err := f.enter("lseek")
	if err != nil {
		return 0, err
	}
	defer unlock()
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += int64(len(f.node.data))
	default:
		return 0, fail("lseek", f.name, syscall.EINVAL)
	}
	if offset < 0 {
		return 0, fail("lseek", f.name, syscall.EINVAL)
	}
	f.off = offset
	return offset, nil
}

func (f *file) Stat() (vfs.Info, error) {
	unlock, err := f.enter("fstat")
	if err != nil {
		return vfs.Info{}, err
	}
	defer unlock()
	return f.fs.store.info(f.node, f.mnt), nil
}

func (f *file) Truncate(size int64) error {
	unlock, err := f.enter("ftruncate")
	if err != nil {
		return err
	}
	defer unlock()
	if size < 0 || !f.flag.Writes() {
		return fail("ftruncate", f.name, syscall.EINVAL)
	}
	f.node.grow(size)
	f.node.data = f.node.data[:size:size]
	f.node.mtime = f.fs.store.now()
	if f.fs.cred.UID != 0 {
		f.node.dropPrivileges()
	}
	return nil
}

// mayChange checks what comes before a change of mode or owner.
func (f *file) mayChange() error {
	switch {
	case f.mnt.ro:
		return syscall.EROFS
	case f.node.immutable:
		return syscall.EPERM
	}
	return nil
}

func (f *file) Chmod(perm fs.FileMode) error {
	unlock, err := f.enter("fchmod")
	if err != nil {
		return err
	}
	defer unlock()
	c, n := f.fs.cred, f.node
	if err = f.mayChange(); err == nil && !c.owns(n) {
		err = syscall.EPERM
	}
	if err != nil {
		return fail("fchmod", f.name, err)
	}
	n.bits = vfs.Bits(perm)
	if c.UID != 0 && !c.in(n.gid) {
		n.bits &^= vfs.BitSetgid
	}
	return nil
}

func (f *file) Chown(uid, gid int) error {
	unlock, err := f.enter("fchown")
	if err != nil {
		return err
	}
	defer unlock()
	c, n := f.fs.cred, f.node
	if err = f.mayChange(); err == nil {
		mine := c.UID == n.uid
		badUID := uid >= 0 && !(mine && uint32(uid) == n.uid)
		badGID := gid >= 0 && !(mine && (uint32(gid) == n.gid || c.in(uint32(gid))))
		if c.UID != 0 && (badUID || badGID) {
			err = syscall.EPERM
		}
	}
	if err != nil {
		return fail("fchown", f.name, err)
	}
	if uid >= 0 {
		n.uid = uint32(uid)
	}
	if gid >= 0 {
		n.gid = uint32(gid)
	}
	n.dropPrivileges()
	return nil
}

func (f *file) Sync() error { return f.barrier("fsync") }

func (f *file) Datasync() error { return f.barrier("fdatasync") }

func (f *file) SyncRange(_, _ int64) error { return f.barrier("sync_file_range") }

func (f *file) barrier(op string) error {
	unlock, err := f.enter(op)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// xattrSpace checks that name is in the one namespace that is kept here.
func xattrSpace(name string) error {
	if !strings.HasPrefix(name, "user.") || len(name) > nameMax {
		return syscall.EOPNOTSUPP
	}
	return nil
}

func (f *file) Xattr(name string) ([]byte, error) {
	unlock, err := f.enter("fgetxattr")
	if err != nil {
		return nil, err
	}
	defer unlock()
	value, ok := f.node.xattrs[name]
	switch err := xattrSpace(name); {
	case err != nil:
		return nil, fail("fgetxattr", f.name, err)
	case !f.fs.cred.may(f.node, mayRead):
		return nil, fail("fgetxattr", f.name, syscall.EACCES)
	case !ok:
		return nil, fail("fgetxattr", f.name, syscall.ENODATA)
	}
	return bytes.Clone(value), nil
}

func (f *file) SetXattr(name string, value []byte) error {
	unlock, err := f.enter("fsetxattr")
	if err != nil {
		return err
	}
	defer unlock()
	switch err = xattrSpace(name); {
	case f.mnt.ro:
		err = syscall.EROFS
	case f.node.immutable:
		err = syscall.EPERM
	case err != nil:
	case !f.fs.cred.may(f.node, mayWrite):
		err = syscall.EACCES
	}
	if err != nil {
		return fail("fsetxattr", f.name, err)
	}
	if f.node.xattrs == nil {
		f.node.xattrs = map[string][]byte{}
	}
	f.node.xattrs[name] = bytes.Clone(value)
	return nil
}

func (f *file) Xattrs() ([]string, error) {
	unlock, err := f.enter("flistxattr")
	if err != nil {
		return nil, err
	}
	defer unlock()
	return slices.Sorted(maps.Keys(f.node.xattrs)), nil
}

func (f *file) Close() error {
	if f.closed.Swap(true) {
		return fail("close", f.name, fs.ErrClosed)
	}
	return nil
}
