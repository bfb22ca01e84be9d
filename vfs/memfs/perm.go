package memfs

import (
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

const (
	mayExec  = 1
	mayWrite = 2
	mayRead  = 4
)

// may reports whether the permission bits of n grant want to c.
func (c Cred) may(n *inode, want uint32) bool {
	if c.UID == 0 {
		// Root may do anything but execute what nobody may execute.
		return n.kind == kindDir || want&mayExec == 0 || n.bits&0o111 != 0
	}
	bits := n.bits
	switch {
	case c.UID == n.uid:
		bits >>= 6
	case c.in(n.gid):
		bits >>= 3
	}
	return bits&want == want
}

// permission is the kernel's check of an inode: an immutable one refuses writes
// (EPERM) before the permission bits are looked at.
func (c Cred) permission(n *inode, want uint32) error {
	if want&mayWrite != 0 && n.immutable {
		return syscall.EPERM
	}
	if !c.may(n, want) {
		return syscall.EACCES
	}
	return nil
}

func (c Cred) owns(n *inode) bool { return c.UID == 0 || c.UID == n.uid }

// mayCreate checks that a name may be added to d.
func (c Cred) mayCreate(d *inode) error {
	if d.dead {
		return syscall.ENOENT
	}
	return c.permission(d, mayWrite|mayExec)
}

// mayDelete checks that the name of victim may be taken out of d, and that the
// victim is a directory exactly if wantDir.
func (c Cred) mayDelete(d, victim *inode, wantDir bool) error {
	if err := c.permission(d, mayWrite|mayExec); err != nil {
		return err
	}
	sticky := d.bits&vfs.BitSticky != 0 && c.UID != 0 && c.UID != victim.uid && c.UID != d.uid
	switch {
	case sticky || victim.immutable:
		return syscall.EPERM
	case wantDir && victim.kind != kindDir:
		return syscall.ENOTDIR
	case !wantDir && victim.kind == kindDir:
		return syscall.EISDIR
	}
	return nil
}

// mayLink is the kernel's guard on hard links to files that the caller could
// not have written: without it, a link keeps a vulnerable file alive.
func (c Cred) mayLink(n *inode) error {
	safe := n.kind == kindFile && n.bits&vfs.BitSetuid == 0 &&
		n.bits&(vfs.BitSetgid|0o010) != vfs.BitSetgid|0o010 && c.permission(n, mayRead|mayWrite) == nil
	if safe || c.owns(n) {
		return nil
	}
	return syscall.EPERM
}

// inherit returns the bits and group of a node that c creates in d: a setgid
// directory passes its group on, and its own bit to directories.
func (c Cred) inherit(d *inode, k kind, bits uint32) (uint32, uint32) {
	bits &^= c.Umask & 0o777
	if d.bits&vfs.BitSetgid == 0 {
		return bits, c.GID
	}
	switch {
	case k == kindDir:
		bits |= vfs.BitSetgid
	case bits&(vfs.BitSetgid|0o010) == vfs.BitSetgid|0o010 && c.UID != 0 && !c.in(d.gid):
		bits &^= vfs.BitSetgid
	}
	return bits, d.gid
}

// dropPrivileges is what a write or a change of owner does to setuid and setgid.
func (n *inode) dropPrivileges() {
	if n.kind == kindDir {
		return
	}
	n.bits &^= vfs.BitSetuid
	if n.bits&0o010 != 0 {
		n.bits &^= vfs.BitSetgid
	}
}
