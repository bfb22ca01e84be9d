package memfs

import (
	"cmp"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// holdTwo is hold for an operation on a name in each of two directories.
func (d *dir) holdTwo(op, name string, to vfs.Dir, toName string) (t *dir, unlock func(), err error) {
	t, ok := to.(*dir)
	err = cmp.Or(vfs.CheckName(name), vfs.CheckName(toName))
	switch {
	case err != nil:
	case !ok:
		err = syscall.EXDEV
	case d.closed.Load() || t.closed.Load():
		err = fs.ErrClosed
	case t.fs.store != d.fs.store:
		err = syscall.EXDEV
	}
	if err != nil {
		return nil, nil, linkFail(op, name, toName, err)
	}
	d.fs.store.mu.Lock()
	return t, d.fs.store.mu.Unlock, nil
}

func (d *dir) Link(name string, to vfs.Dir, toName string) error {
	t, unlock, err := d.holdTwo("linkat", name, to, toName)
	if err != nil {
		return err
	}
	defer unlock()
	k, err := d.link(name, t, toName)
	if err != nil {
		return linkFail("linkat", name, toName, err)
	}
	k.nlink++
	d.fs.store.attach(t.node, toName, k)
	return nil
}

func (d *dir) link(name string, t *dir, toName string) (*inode, error) {
	c := d.fs.cred
	if err := c.search(d.node, name); err != nil {
		return nil, err
	}
	k, err := d.node.existing(name)
	if err != nil {
		return nil, err
	}
	if err := c.search(t.node, toName); err != nil {
		return nil, err
	}
	return k, t.mayLink(c, k, d.mountOf(k), toName)
}

// mayLink checks that c may give k, which it meets on the mount m, a name in d.
func (d *dir) mayLink(c Cred, k *inode, m *mount, name string) error {
	if err := d.mayAdd(name); err != nil {
		return err
	}
	if m != d.mnt {
		return syscall.EXDEV
	}
	if err := c.mayLink(k); err != nil {
		return err
	}
	if err := c.mayCreate(d.node); err != nil {
		return err
	}
	switch {
	case k.immutable || k.kind == kindDir:
		return syscall.EPERM
	case k.nlink == 0 && !k.linkable:
		return syscall.ENOENT
	}
	return nil
}

func (d *dir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	if flag > vfs.Exchange {
		return linkFail("renameat", name, toName, syscall.EINVAL)
	}
	t, unlock, err := d.holdTwo("renameat", name, to, toName)
	if err != nil {
		return err
	}
	defer unlock()
	src, dst, err := d.renamed(name, t, toName, flag)
	if err == nil {
		err = d.mayRename(t, src, dst, flag)
	}
	if err != nil {
		return linkFail("renameat", name, toName, err)
	}
	if src == dst {
		return nil // two names of one file: the kernel does nothing and says so
	}
	s := d.fs.store
	s.detach(d.node, name)
	if dst != nil {
		s.detach(t.node, toName)
	}
	s.attach(t.node, toName, src)
	switch {
	case dst == nil:
	case flag == vfs.Exchange:
		s.attach(d.node, name, dst)
	default:
		dst.unlinked()
	}
	return nil
}

// renamed looks up both names of a rename. What the old one has is never nil.
func (d *dir) renamed(name string, t *dir, toName string, flag vfs.RenameFlag) (src, dst *inode, err error) {
	c := d.fs.cred
	if err := cmp.Or(c.search(d.node, name), c.search(t.node, toName)); err != nil {
		return nil, nil, err
	}
	switch {
	case d.mnt != t.mnt:
		return nil, nil, syscall.EXDEV
	case d.mnt.ro:
		return nil, nil, syscall.EROFS
	}
	if src, err = d.node.existing(name); err != nil {
		return nil, nil, err
	}
	dst, err = t.node.find(toName)
	switch {
	case err != nil:
	case flag == vfs.NoReplace && dst != nil:
		err = syscall.EEXIST
	case flag == vfs.Exchange && dst == nil:
		err = syscall.ENOENT
	}
	return src, dst, err
}

func (d *dir) mayRename(t *dir, src, dst *inode, flag vfs.RenameFlag) error {
	switch {
	case src.holds(t.node):
		return syscall.EINVAL
	case flag == vfs.Exchange && dst.holds(d.node):
		return syscall.EINVAL
	case dst != nil && dst.holds(d.node):
		return syscall.ENOTEMPTY
	case src == dst:
		return nil
	}
	c := d.fs.cred
	if err := c.mayDelete(d.node, src, src.kind == kindDir); err != nil {
		return err
	}
	var err error
	switch {
	case dst == nil:
		err = c.mayCreate(t.node)
	case flag == vfs.Exchange:
		err = c.mayDelete(t.node, dst, dst.kind == kindDir)
	default:
		err = c.mayDelete(t.node, dst, src.kind == kindDir)
	}
	if err == nil && d.node != t.node {
		err = c.mayReparent(src, dst, flag)
	}
	if err != nil {
		return err
	}
	switch {
	case src.mnt != nil || dst != nil && dst.mnt != nil:
		return syscall.EBUSY
	case flag != vfs.Exchange && dst != nil && len(dst.kids) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// mayReparent checks that what changes its directory may: a directory is itself
// written to by that.
func (c Cred) mayReparent(src, dst *inode, flag vfs.RenameFlag) error {
	moved := []*inode{src}
	if flag == vfs.Exchange {
		moved = append(moved, dst)
	}
	for _, n := range moved {
		if n.kind != kindDir {
			continue
		}
		if err := c.permission(n, mayWrite); err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether n is d or a directory above it.
func (n *inode) holds(d *inode) bool {
	for ; d != nil; d = d.parent {
		if d == n {
			return true
		}
	}
	return false
}
