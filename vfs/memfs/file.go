package memfs

import (
	"bytes"
	"cmp"
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
	start := f.off
	if f.flag&vfs.Append != 0 {
		start = int64(len(f.node.data))
	}
	end := start + int64(len(p))
	if err := f.mayReach(end); err != nil {
		return 0, fail("write", f.name, err)
	}
	if len(p) == 0 {
		return 0, nil
	}
	f.node.grow(end)
	copy(f.node.data[start:], p)
	f.off = end
	f.node.written(f.fs)
	return len(p), nil
}

// maxSize bounds a file, as the limit of a process does on a real system: a hole
// costs memory here.
const maxSize = 256 << 20 // bytes

// mayReach checks what comes before a change of content up to size. As on ext4, a
// file that became immutable is so for those too who have it open.
func (f *file) mayReach(size int64) error {
	switch {
	case f.node.immutable:
		return syscall.EPERM
	case size > maxSize || size < 0: // negative: too large to count
		return syscall.EFBIG
	}
	return nil
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
		err = syscall.EINVAL
	}
	switch {
	case err != nil:
	case f.node.kind != kindFile:
		err = syscall.ESPIPE
	case offset < 0:
		err = syscall.EINVAL
	}
	if err != nil {
		return 0, fail("lseek", f.name, err)
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
	if size < 0 || !f.flag.Writes() || f.node.kind != kindFile {
		return fail("ftruncate", f.name, syscall.EINVAL)
	}
	if err := f.mayReach(size); err != nil {
		return fail("ftruncate", f.name, err)
	}
	f.node.grow(size)
	f.node.data = f.node.data[:size:size]
	f.node.written(f.fs)
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
	if !c.wields(n.gid) {
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
	bits := c.stripped(n)
	if err = f.mayChange(); err == nil && !c.mayChown(n, uid, gid, bits != n.bits) {
		err = syscall.EPERM
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
	n.bits = bits
	return nil
}

func (f *file) Sync() error { return f.sync("fsync", nil, syscall.EINVAL) }

func (f *file) Datasync() error { return f.sync("fdatasync", nil, syscall.EINVAL) }

func (f *file) SyncRange(off, n int64) error {
	var bad error
	if off < 0 || n < 0 {
		bad = syscall.EINVAL
	}
	return f.sync("sync_file_range", bad, syscall.ESPIPE)
}

// sync does nothing, since nothing here is ever lost. bad is what is wrong with
// the arguments; a FIFO has nothing to sync, and each call says so in its way.
func (f *file) sync(op string, bad, ofFIFO error) error {
	unlock, err := f.enter(op)
	if err != nil {
		return err
	}
	defer unlock()
	if err = bad; err == nil && f.node.kind != kindFile {
		err = ofFIFO
	}
	if err != nil {
		return fail(op, f.name, err)
	}
	return nil
}

// xattrSpace checks that name is in the one namespace that is kept here.
func xattrSpace(name string) error {
	switch suffix, ok := strings.CutPrefix(name, xattrPrefix); {
	case !ok:
		return syscall.EOPNOTSUPP
	case suffix == "":
		return syscall.EINVAL
	}
	return nil
}

const (
	xattrPrefix   = "user."
	xattrNameMax  = 255      // bytes
	xattrValueMax = 64 << 10 // bytes
)

func xattrName(name string) error {
	if name == "" || len(name) > xattrNameMax {
		return syscall.ERANGE
	}
	return nil
}

// onlyFiles refuses attributes in the user's namespace to what is not a file.
func (f *file) onlyFiles(name string, refusal error) error {
	if f.node.kind != kindFile && strings.HasPrefix(name, xattrPrefix) {
		return refusal
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
	if err = cmp.Or(xattrName(name), f.onlyFiles(name, syscall.ENODATA), f.fs.cred.permission(f.node, mayRead), xattrSpace(name)); err == nil && !ok {
		err = syscall.ENODATA
	}
	if err != nil {
		return nil, fail("fgetxattr", f.name, err)
	}
	return bytes.Clone(value), nil
}

func (f *file) SetXattr(name string, value []byte) error {
	unlock, err := f.enter("fsetxattr")
	if err != nil {
		return err
	}
	defer unlock()
	err = xattrName(name)
	switch {
	case err != nil:
	case len(value) > xattrValueMax:
		err = syscall.E2BIG
	default:
		err = cmp.Or(f.mayChange(), f.onlyFiles(name, syscall.EPERM), f.fs.cred.permission(f.node, mayWrite), xattrSpace(name))
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
