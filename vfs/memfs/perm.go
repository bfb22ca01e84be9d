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

// search is what the kernel checks before it looks for name in d: the length of
// the name as a path, and the right to search the directory.
func (c Cred) search(d *inode, name string) error {
	if len(name) >= pathMax {
		return syscall.ENAMETOOLONG
	}
	return c.permission(d, mayExec)
}

func (c Cred) owns(n *inode) bool { return c.UID == 0 || c.UID == n.uid }

// mayCreate checks that a name may be added to d.
func (c Cred) mayCreate(d *inode) error { return c.permission(d, mayWrite|mayExec) }

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
// directory passes its group on, and its own bit to directories. The bits that c
// asked for count, not what the umask leaves of them.
func (c Cred) inherit(d *inode, k kind, asked uint32) (bits, gid uint32) {
	bits = asked &^ (c.Umask & 0o777)
	if d.bits&vfs.BitSetgid == 0 {
		return bits, c.GID
	}
	switch {
	case k == kindDir:
		bits |= vfs.BitSetgid
	case asked&0o010 != 0 && !c.wields(d.gid):
		bits &^= vfs.BitSetgid
	}
	return bits, d.gid
}

// wields reports whether c may set the setgid bit on what belongs to a group.
func (c Cred) wields(gid uint32) bool { return c.UID == 0 || c.in(gid) }

// stripped returns the bits of n as a change of owner by c leaves them: without
// the rights that were given for what was there before.
func (c Cred) stripped(n *inode) uint32 {
	bits := n.bits &^ vfs.BitSetuid
	if bits&0o010 != 0 || !c.wields(n.gid) {
		bits &^= vfs.BitSetgid
	}
	return bits
}

// mayChown reports whether c may give n to the owner uid and the group gid, of
// which a negative one stays. If bits have to be dropped on the way, that is a
// change of mode, which even a chown that changes nothing else must be allowed.
func (c Cred) mayChown(n *inode, uid, gid int, dropsBits bool) bool {
	if c.UID == 0 {
		return true
	}
	mine := c.UID == n.uid
	return (mine || !dropsBits) &&
		(uid < 0 || mine && uint32(uid) == n.uid) &&
		(gid < 0 || mine && (uint32(gid) == n.gid || c.in(uint32(gid))))
}

// written accounts for a change of n's content through f.
func (n *inode) written(f *FS) {
	n.mtime = f.store.now()
	if f.cred.UID != 0 {
		n.bits = f.cred.stripped(n)
	}
}
