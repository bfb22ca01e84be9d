package memfs

import (
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// enterTwo is enter for an operation on a name in each of two directories.
func (d *dir) enterTwo(op, name string, to vfs.Dir, toName string) (t *dir, unlock func(), err error) {
	t, ok := to.(*dir)
	if !ok || t.fs.store != d.fs.store {
		return nil, nil, linkFail(op, name, toName, syscall.EXDEV)
	}
	for _, n := range []string{name, toName} {
		if err := vfs.CheckName(n); err != nil {
			return nil, nil, linkFail(op, name, toName, err)
		}
	}
	if t.closed.Load() || d.closed.Load() {
		return nil, nil, linkFail(op, name, toName, fs.ErrClosed)
	}
	d.fs.store.mu.Lock()
	switch {
	case !d.fs.cred.may(d.node, mayExec) || !d.fs.cred.may(t.node, mayExec):
		err = syscall.EACCES
	case len(name) > nameMax || len(toName) > nameMax:
		err = syscall.ENAMETOOLONG
	default:
		return t, d.fs.store.mu.Unlock, nil
	}
	d.fs.store.mu.Unlock()
	return nil, nil, linkFail(op, name, toName, err)
}

func (d *dir) Link(name string, to vfs.Dir, toName string) error {
	t, unlock, err := d.enterTwo("linkat", name, to, toName)
	if err != nil {
		return err
	}
	defer unlock()
	k := d.node.kids[name]
	if k == nil {
		err = syscall.ENOENT
	} else {
		err = d.mayLinkTo(k, t, toName)
	}
	if err != nil {
		return linkFail("linkat", name, toName, err)
	}
	k.nlink++
	d.fs.store.attach(t.node, toName, k)
	return nil
}

func (d *dir) mayLinkTo(k *inode, t *dir, toName string) error {
	if err := t.mayAdd(toName); err != nil {
		return err
	}
	if d.mountOf(k) != t.mnt {
		return syscall.EXDEV
	}
	if err := d.fs.cred.mayLink(k); err != nil {
		return err
	}
	if err := d.fs.cred.mayCreate(t.node); err != nil {
		return err
	}
	if k.immutable || k.kind == kindDir {
		return syscall.EPERM
	}
	return nil
}

func (d *dir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	t, unlock, err := d.enterTwo("renameat", name, to, toName)
	if err != nil {
		return err
	}
	defer unlock()
	src, dst := d.node.kids[name], t.node.kids[toName]
	if err := d.mayRename(t, src, dst, flag); err != nil {
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

func (d *dir) mayRename(t *dir, src, dst *inode, flag vfs.RenameFlag) error {
	switch {
	case d.mnt != t.mnt:
		return syscall.EXDEV
	case d.mnt.ro:
		return syscall.EROFS
	case src == nil:
		return syscall.ENOENT
	case flag == vfs.NoReplace && dst != nil:
		return syscall.EEXIST
	case flag == vfs.Exchange && dst == nil:
		return syscall.ENOENT
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
	isDir := src.kind == kindDir
	if err := c.mayDelete(d.node, src, isDir); err != nil {
		return err
	}
	wantDir := isDir
	if flag == vfs.Exchange {
		wantDir = dst.kind == kindDir
	}
	if dst == nil {
		if err := c.mayCreate(t.node); err != nil {
			return err
		}
	} else if err := c.mayDelete(t.node, dst, wantDir); err != nil {
		return err
	}
	return d.mayReparent(t, src, dst, flag)
}

// mayReparent checks what is checked last: a directory that changes its parent
// is itself written to, mount points stay, and only an empty directory is
// replaced.
func (d *dir) mayReparent(t *dir, src, dst *inode, flag vfs.RenameFlag) error {
	c := d.fs.cred
	if d.node != t.node {
		if src.kind == kindDir {
			if err := c.permission(src, mayWrite); err != nil {
				return err
			}
		}
		if flag == vfs.Exchange && dst.kind == kindDir {
			if err := c.permission(dst, mayWrite); err != nil {
				return err
			}
		}
	}
	switch {
	case src.mnt != nil || dst != nil && dst.mnt != nil:
		return syscall.EBUSY
	case flag != vfs.Exchange && dst != nil && len(dst.kids) > 0:
		return syscall.ENOTEMPTY
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
