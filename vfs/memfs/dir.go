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

// The limits of the kernel. A name is refused as a path before it is looked up,
// and as a name only after the directory may be searched.
const (
	nameMax = 255  // bytes
	pathMax = 4096 // bytes, with the NUL at the end
)

// dir is an open directory. It names the inode and not the path: a rename moves
// it, and one that was removed stays open, with nothing to be found or made in it.
type dir struct {
	fs       *FS
	node     *inode
	mnt      *mount
	readable bool // it was opened for reading, not only as a place to walk from
	closed   atomic.Bool
}

var _ vfs.Dir = (*dir)(nil)

func fail(op, name string, err error) error { return &fs.PathError{Op: op, Path: name, Err: err} }

// enter checks what every operation on a name checks first: the form of the
// name, the handle, and the right to search the directory. It takes the lock.
func (d *dir) enter(op, name string) (unlock func(), err error) {
	unlock, err = d.hold(op, name)
	if err != nil {
		return nil, err
	}
	if err := d.fs.cred.search(d.node, name); err != nil {
		unlock()
		return nil, fail(op, name, err)
	}
	return unlock, nil
}

// hold is the part of enter that the port asks for and not the kernel.
func (d *dir) hold(op, name string) (unlock func(), err error) {
	err = vfs.CheckName(name)
	if err == nil && d.closed.Load() {
		err = fs.ErrClosed
	}
	if err != nil {
		return nil, fail(op, name, err)
	}
	d.fs.store.mu.Lock()
	return d.fs.store.mu.Unlock, nil
}

// find looks a name up, and returns nil if nothing has it.
func (n *inode) find(name string) (*inode, error) {
	switch {
	case n.dead:
		return nil, syscall.ENOENT // nor can anything be made there
	case len(name) > nameMax:
		return nil, syscall.ENAMETOOLONG
	}
	return n.kids[name], nil
}

// existing is find where nothing is a failure.
func (n *inode) existing(name string) (*inode, error) {
	k, err := n.find(name)
	if err == nil && k == nil {
		err = syscall.ENOENT
	}
	return k, err
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
	k, err := d.node.existing(name)
	switch {
	case err != nil:
	case k.kind == kindLink:
		err = syscall.ELOOP
	case k.kind != kindDir:
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, fail("openat", name, err)
	}
	return &dir{fs: d.fs, node: k, mnt: d.mountOf(k), readable: d.fs.cred.may(k, mayRead)}, nil
}

func (d *dir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Doomed != 0 {
		return d.openDoomed(flag, perm)
	}
	if flag&vfs.Probe != 0 {
		flag = vfs.Probe | vfs.WriteOnly | vfs.NonBlock // whatever else: a probe changes nothing
	}
	if flag&(vfs.WriteOnly|vfs.ReadWrite) == vfs.WriteOnly|vfs.ReadWrite {
		return nil, fail("openat", name, syscall.EINVAL)
	}
	unlock, err := d.enter("openat", name)
	if err != nil {
		return nil, err
	}
	defer unlock()
	k, err := d.open(name, flag, perm)
	if err != nil {
		return nil, fail("openat", name, err)
	}
	return &file{fs: d.fs, node: k, mnt: d.mountOf(k), name: name, flag: flag}, nil
}

// open returns the file to be opened, which is made if flag says so.
func (d *dir) open(name string, flag vfs.Flag, perm fs.FileMode) (*inode, error) {
	k, err := d.node.find(name)
	switch {
	case err != nil:
		return nil, err
	case k == nil && flag&vfs.Create == 0:
		return nil, syscall.ENOENT
	case k == nil:
		return d.make(kindFile, name, perm) // whoever makes a file may open it, whatever its mode
	}
	if err := d.mayOpen(k, flag); err != nil {
		return nil, err
	}
	if flag&vfs.Truncate != 0 && k.kind == kindFile {
		k.data = nil
		k.written(d.fs)
	}
	return k, nil
}

// make adds a new inode. A read-only mount refuses before the permission of the
// directory is looked at.
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
	d.fs.store.attach(d.node, name, n)
	return n, nil
}

// mayOpen is the part of open that meets an existing entry. A read-only mount
// refuses a write last, except that truncation asks it first.
func (d *dir) mayOpen(k *inode, flag vfs.Flag) error {
	truncates := flag&vfs.Truncate != 0
	ro := d.mountOf(k).ro && k.kind == kindFile // what goes through a FIFO is not on the mount
	switch {
	case flag&(vfs.Create|vfs.Exclusive) == vfs.Create|vfs.Exclusive:
		return syscall.EEXIST
	case k.kind == kindLink:
		return syscall.ELOOP
	case k.kind == kindDir:
		return syscall.EISDIR
	case ro && truncates:
		return syscall.EROFS
	}
	var want uint32
	if flag&vfs.ReadWrite != 0 || !flag.Writes() {
		want |= mayRead
	}
	if flag.Writes() || truncates {
		want |= mayWrite
	}
	if err := d.fs.cred.permission(k, want); err != nil {
		return err
	}
	switch {
	case ro && flag.Writes():
		return syscall.EROFS
	case k.kind == kindOther:
		return syscall.ENXIO
	case k.kind == kindFIFO && flag&vfs.NonBlock == 0:
		return syscall.EAGAIN // the kernel would wait here, perhaps for ever
	case k.kind == kindFIFO && flag.Writes():
		return syscall.ENXIO
	}
	return nil
}

func (d *dir) openDoomed(flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	if flag&vfs.Probe != 0 {
		return nil, fail("openat", "", syscall.EINVAL)
	}
	if d.closed.Load() {
		return nil, fail("openat", "", fs.ErrClosed)
	}
	s, c := d.fs.store, d.fs.cred
	s.mu.Lock()
	defer s.mu.Unlock()
	err := c.search(d.node, ".")
	switch {
	case err != nil:
	case d.mnt.ro:
		err = syscall.EROFS
	default:
		err = c.mayCreate(d.node)
	}
	if err == nil && d.node.dead {
		err = syscall.EPERM // as ext4 has it
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
	switch err := vfs.CheckName(name); {
	case err != nil:
		return fail("linkat", name, err)
	case !ok || src.fs.store != d.fs.store:
		return fail("linkat", name, syscall.EXDEV)
	case src.flag&vfs.Doomed == 0:
		return fail("linkat", name, syscall.EINVAL)
	case src.closed.Load():
		return fail("linkat", name, fs.ErrClosed)
	}
	unlock, err := d.enter("linkat", name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.mayLink(d.fs.cred, src.node, src.mnt, name); err != nil {
		return fail("linkat", name, err)
	}
	src.node.nlink++
	src.node.linkable = false
	d.fs.store.attach(d.node, name, src.node)
	return nil
}

// mayAdd checks what comes before the permission of the directory whenever a
// name is added by mkdir, symlink or link.
func (d *dir) mayAdd(name string) error {
	k, err := d.node.find(name)
	switch {
	case err != nil:
		return err
	case k != nil:
		return syscall.EEXIST
	case d.mnt.ro:
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
	if err = d.mayAdd(name); err == nil {
		// mkdir keeps the sticky bit of what it is asked for and drops the other two.
		_, err = d.make(kindDir, name, perm&^(fs.ModeSetuid|fs.ModeSetgid))
	}
	if err != nil {
		return fail("mkdirat", name, err)
	}
	return nil
}

func (d *dir) Symlink(target, name string) error {
	unlock, err := d.hold("symlinkat", name)
	if err != nil {
		return err
	}
	defer unlock()
	if err := d.symlink(target, name); err != nil {
		return fail("symlinkat", name, err)
	}
	return nil
}

func (d *dir) symlink(target, name string) error {
	switch {
	case target == "":
		return syscall.ENOENT
	case len(target) >= pathMax:
		return syscall.ENAMETOOLONG
	}
	if err := d.fs.cred.search(d.node, name); err != nil {
		return err
	}
	if err := d.mayAdd(name); err != nil {
		return err
	}
	n, err := d.make(kindLink, name, 0)
	if err != nil {
		return err
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
	k, err := d.node.existing(name)
	if err != nil {
		return vfs.Info{}, fail("fstatat", name, err)
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
	unlock, err := d.opened("getdents")
	if err != nil {
		return nil, false, err
	}
	defer unlock()
	if d.node.dead {
		return nil, false, fail("getdents", "", syscall.ENOENT)
	}
	names := slices.Sorted(maps.Keys(d.node.kids))
	if n > 0 && len(names) > n {
		return names[:n], true, nil
	}
	return names, false, nil
}

func (d *dir) Sync() error { return d.sync("fsync") }

// sync has nothing to do but to refuse.
func (d *dir) sync(op string) error {
	unlock, err := d.opened(op)
	if err != nil {
		return err
	}
	unlock()
	return nil
}

// opened checks that the directory itself can be read. One that was opened only
// to walk from is opened again, with the permissions of now. It takes the lock.
func (d *dir) opened(op string) (unlock func(), err error) {
	if d.closed.Load() {
		return nil, fail(op, "", fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	if !d.readable && !d.fs.cred.may(d.node, mayRead|mayExec) {
		d.fs.store.mu.Unlock()
		return nil, fail(op, "", syscall.EACCES)
	}
	return d.fs.store.mu.Unlock, nil
}

func (d *dir) Readlink(name string) (string, error) {
	unlock, err := d.enter("readlinkat", name)
	if err != nil {
		return "", err
	}
	defer unlock()
	k, err := d.node.existing(name)
	if err == nil && k.kind != kindLink {
		err = syscall.EINVAL
	}
	if err != nil {
		return "", fail("readlinkat", name, err)
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
	k, err := d.removable(name, wantDir)
	if err != nil {
		return fail("unlinkat", name, err)
	}
	d.fs.store.detach(d.node, name)
	k.unlinked()
	return nil
}

func (d *dir) removable(name string, wantDir bool) (*inode, error) {
	if d.mnt.ro {
		return nil, syscall.EROFS // before the name is looked up: a missing file is EROFS too
	}
	k, err := d.node.existing(name)
	if err != nil {
		return nil, err
	}
	if err := d.fs.cred.mayDelete(d.node, k, wantDir); err != nil {
		return nil, err
	}
	switch {
	case k.mnt != nil:
		return nil, syscall.EBUSY
	case len(k.kids) > 0:
		return nil, syscall.ENOTEMPTY
	}
	return k, nil
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
