package memfs

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

const nameMax = 255 // bytes

// dir is an open directory. It names the inode and not the path: a rename moves
// it, and a removed directory stays open and empty.
type dir struct {
	fs       *FS
	node     *inode
	mnt      *mount
	readable bool // it was opened for reading, not only as a place to walk from
	closed   atomic.Bool
}

var _ vfs.Dir = (*dir)(nil)

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// enter takes the lock and checks what every operation on a name checks first:
// the form of the name, the handle, and the right to search the directory.
func (d *dir) enter(op, name string) (unlock func(), err error) {
	if err := vfs.CheckName(name); err != nil {
		return nil, fail(op, name, err)
	}
	if d.closed.Load() {
		return nil, fail(op, name, fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	switch {
	case !d.fs.cred.may(d.node, mayExec):
		err = syscall.EACCES
	case len(name) > nameMax:
		err = syscall.ENAMETOOLONG
	default:
		return d.fs.store.mu.Unlock, nil
	}
	d.fs.store.mu.Unlock()
	return nil, fail(op, name, err)
}

// mountOf returns the mount that n is met through from d.
func (d *dir) mountOf(n *inode) *mount {
	if n.mnt != nil {
		return n.mnt
	}
	return d.mnt
}

func (d *dir) OpenDir(name string) (vfs.Dir, error) {
	unlock, err := d.enter("openat", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	k := d.node.kids[name]
	switch {
	case k == nil:
		return nil, fail("openat", name, syscall.ENOENT)
	case k.kind == kindLink:
		return nil, fail("openat", name, syscall.ELOOP)
	case k.kind != kindDir:
		return nil, fail("openat", name, syscall.ENOTDIR)
	}
	return &dir{fs: d.fs, node: k, mnt: d.mountOf(k), readable: d.fs.cred.may(k, mayRead)}, nil
}

func (d *dir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Probe != 0 {
		flag = vfs.Probe | vfs.WriteOnly | vfs.NonBlock // whatever else: a probe changes nothing
	}
	if flag&(vfs.WriteOnly|vfs.ReadWrite) == vfs.WriteOnly|vfs.ReadWrite {
		return nil, fail("openat", name, syscall.EINVAL)
	}
	if flag&vfs.Doomed != 0 {
		return d.openDoomed(perm)
	}
	unlock, err := d.enter("openat", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	k := d.node.kids[name]
	if k == nil {
		k, err = d.create(name, flag, perm)
	} else {
		err = d.mayOpen(k, flag)
	}
	if err != nil {
		return nil, fail("openat", name, err)
	}
	if flag&vfs.Truncate != 0 && len(k.data) > 0 {
		k.data = nil
		k.mtime = d.fs.store.now()
	}
	return &file{fs: d.fs, node: k, mnt: d.mountOf(k), name: name, flag: flag}, nil
}

// create is the part of open that makes a file. A read-only mount refuses before
// the permission of the directory is looked at.
func (d *dir) create(name string, flag vfs.Flag, perm fs.FileMode) (*inode, error) {
	if flag&vfs.Create == 0 {
		return nil, syscall.ENOENT
	}
	return d.make(kindFile, name, perm)
}

func (d *dir) make(k kind, name string, perm fs.FileMode) (*inode, error) {
	if d.mnt.ro {
		return nil, syscall.EROFS
	}
	c := d.fs.cred
	if err := c.mayCreate(d.node); err != nil {
		return nil, err
	}
	bits, gid := c.inherit(d.node, k, vfs.Bits(perm))
	n := d.fs.store.newInode(k, bits, c.UID, gid)
	if k == kindDir {
		n.nlink = 2
	}
	d.fs.store.attach(d.node, name, n)
	return n, nil
}

// mayOpen is the part of open that meets an existing entry. A read-only mount
// refuses a write last, except that truncation asks it first.
func (d *dir) mayOpen(k *inode, flag vfs.Flag) error {
	ro := d.mountOf(k).ro && flag.Writes()
	switch {
	case flag&(vfs.Create|vfs.Exclusive) == vfs.Create|vfs.Exclusive:
		return syscall.EEXIST
	case k.kind == kindLink:
		return syscall.ELOOP
	case k.kind == kindDir:
		return syscall.EISDIR
	case ro && flag&vfs.Truncate != 0:
		return syscall.EROFS
	}
	want := uint32(mayRead)
	switch {
	case flag&vfs.ReadWrite != 0:
		want = mayRead | mayWrite
	case flag.Writes():
		want = mayWrite
	}
	if err := d.fs.cred.permission(k, want); err != nil {
		return err
	}
	switch {
	case ro:
		return syscall.EROFS
	case k.kind == kindFIFO && flag&vfs.NonBlock == 0:
		return syscall.EAGAIN // the kernel would wait here, perhaps for ever
	case k.kind == kindFIFO && flag.Writes():
		return syscall.ENXIO
	}
	return nil
}

func (d *dir) openDoomed(perm fs.FileMode) (vfs.File, error) {
	if d.closed.Load() {
		return nil, fail("openat", "", fs.ErrClosed)
	}
	s := d.fs.store
	s.mu.Lock()
	defer s.mu.Unlock()
	c := d.fs.cred
	err := c.mayCreate(d.node)
	if d.mnt.ro {
		err = syscall.EROFS
	}
	if err != nil {
		return nil, fail("openat", "", err)
	}
	bits, gid := c.inherit(d.node, kindFile, vfs.Bits(perm))
	n := s.newInode(kindFile, bits, c.UID, gid)
	n.nlink, n.linkable = 0, true
	return &file{fs: d.fs, node: n, mnt: d.mnt, flag: vfs.ReadWrite | vfs.Doomed}, nil
}

func (d *dir) Publish(f vfs.File, name string) error {
	src, ok := f.(*file)
	if !ok || src.fs.store != d.fs.store {
		return fail("linkat", name, syscall.EXDEV)
	}
	if src.closed.Load() {
		return fail("linkat", name, fs.ErrClosed)
	}
	if src.flag&vfs.Doomed == 0 {
		return fail("linkat", name, syscall.EINVAL)
	}
	unlock, err := d.enter("linkat", name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.mayAdd(name); err != nil {
		return fail("linkat", name, err)
	}
	switch {
	case src.mnt != d.mnt:
		err = syscall.EXDEV
	case src.node.nlink == 0 && !src.node.linkable:
		err = syscall.ENOENT
	default:
		err = d.fs.cred.mayCreate(d.node)
	}
	if err != nil {
		return fail("linkat", name, err)
	}
	src.node.nlink++
	d.fs.store.attach(d.node, name, src.node)
	return nil
}

// mayAdd checks what comes before the permission of the directory whenever a
// name is added by mkdir, symlink or link.
func (d *dir) mayAdd(name string) error {
	if d.node.kids[name] != nil {
		return syscall.EEXIST
	}
	if d.mnt.ro {
		return syscall.EROFS
	}
	return nil
}

func (d *dir) Mkdir(name string, perm fs.FileMode) error {
	unlock, err := d.enter("mkdirat", name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.mayAdd(name); err != nil {
		return fail("mkdirat", name, err)
	}
	// mkdir keeps the sticky bit of what it is asked for and drops the other two.
	if _, err := d.make(kindDir, name, perm&^(fs.ModeSetuid|fs.ModeSetgid)); err != nil {
		return fail("mkdirat", name, err)
	}
	return nil
}

func (d *dir) Symlink(target, name string) error {
	unlock, err := d.enter("symlinkat", name)
	if err != nil {
		return err
	}
	defer unlock()
	if target == "" {
		return fail("symlinkat", name, syscall.ENOENT)
	}
	if err := d.mayAdd(name); err != nil {
		return fail("symlinkat", name, err)
	}
	n, err := d.make(kindLink, name, 0)
	if err != nil {
		return fail("symlinkat", name, err)
	}
	n.bits, n.link = 0o777, target
	return nil
}

func (d *dir) Lstat(name string) (vfs.Info, error) {
	unlock, err := d.enter("fstatat", name)
	if err != nil {
		return vfs.Info{}, err
	}
	defer unlock()
	k := d.node.kids[name]
	if k == nil {
		return vfs.Info{}, fail("fstatat", name, syscall.ENOENT)
	}
	return d.fs.store.info(k, d.mountOf(k)), nil
}

func (d *dir) Stat() (vfs.Info, error) {
	if d.closed.Load() {
		return vfs.Info{}, fail("fstat", "", fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	defer d.fs.store.mu.Unlock()
	return d.fs.store.info(d.node, d.mnt), nil
}

func (d *dir) ReadDir(n int) ([]string, bool, error) {
	if d.closed.Load() {
		return nil, false, fail("getdents", "", fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	defer d.fs.store.mu.Unlock()
	if !d.readable && !d.fs.cred.may(d.node, mayRead|mayExec) {
		return nil, false, fail("getdents", "", syscall.EACCES)
	}
	names := slices.Sorted(maps.Keys(d.node.kids))
	if n > 0 && len(names) > n {
		return names[:n], true, nil
	}
	return names, false, nil
}

func (d *dir) Readlink(name string) (string, error) {
	unlock, err := d.enter("readlinkat", name)
	if err != nil {
		return "", err
	}
	defer unlock()
	k := d.node.kids[name]
	switch {
	case k == nil:
		return "", fail("readlinkat", name, syscall.ENOENT)
	case k.kind != kindLink:
		return "", fail("readlinkat", name, syscall.EINVAL)
	}
	return k.link, nil
}

func (d *dir) Remove(name string) error { return d.remove(name, false) }

func (d *dir) Rmdir(name string) error { return d.remove(name, true) }

func (d *dir) remove(name string, wantDir bool) error {
	unlock, err := d.enter("unlinkat", name)
	if err != nil {
		return err
	}
	defer unlock()
	k := d.node.kids[name]
	switch {
	case d.mnt.ro:
		err = syscall.EROFS // before the name is looked up: a missing file is EROFS too
	case k == nil:
		err = syscall.ENOENT
	default:
		err = d.fs.cred.mayDelete(d.node, k, wantDir)
	}
	switch {
	case err != nil:
	case k.mnt != nil:
		err = syscall.EBUSY
	case len(k.kids) > 0:
		err = syscall.ENOTEMPTY
	}
	if err != nil {
		return fail("unlinkat", name, err)
	}
	d.fs.store.detach(d.node, name)
	k.unlinked()
	return nil
}

func (d *dir) Sync() error {
	if d.closed.Load() {
		return fail("fsync", "", fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	defer d.fs.store.mu.Unlock()
	if !d.readable && !d.fs.cred.may(d.node, mayRead|mayExec) {
		return fail("fsync", "", syscall.EACCES)
	}
	return nil
}

func (d *dir) Close() error {
	if d.closed.Swap(true) {
		return fail("close", "", fs.ErrClosed)
	}
	return nil
}

func linkFail(op, name, toName string, err error) error {
	return &os.LinkError{Op: op, Old: name, New: toName, Err: err}
}
