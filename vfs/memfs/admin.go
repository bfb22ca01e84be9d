package memfs

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// Admin changes and looks at a Store by path, past every permission, mount and
// flag. The bench's own hands and eyes use it; a subject never does. Paths are
// slash-separated and relative to the root; no link is followed.
type Admin struct{ s *Store }

// Admin returns the hands of the tree's owner.
func (s *Store) Admin() Admin { return Admin{s} }

// Node is an entry as an Admin makes it and sees it.
type Node struct {
	Type      fs.FileMode // 0, fs.ModeDir, fs.ModeSymlink, fs.ModeNamedPipe, or fs.ModeIrregular: a socket, a device
	Bits      uint32      // the twelve permission bits
	UID, GID  uint32
	Data      []byte // of a file
	Link      string // of a symbolic link
	Xattrs    map[string][]byte
	Mtime     int64 // seconds since 1970; 0 leaves the clock's
	Immutable bool
	Mount     Mount

	ID    vfs.ID // seen, not made
	Nlink uint64 // seen, not made
}

// Mount says what is mounted on a node.
type Mount uint8

// The mounts.
const (
	NotMounted Mount = iota
	Bound            // a mount point of its own
	BoundReadOnly
)

// locked runs f with the lock held, and makes its failure one of op on p.
func (a Admin) locked(op, p string, f func() error) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if err := f(); err != nil {
		return fail(op, p, err)
	}
	return nil
}

// place is where an entry is, or could be.
type place struct {
	dir  *inode
	name string
	node *inode // nil if there is none
}

func (a Admin) at(p string) (place, error) {
	d := a.s.root
	dirs, name := path.Split(p)
	for c := range strings.SplitSeq(dirs, "/") {
		if c == "" {
			continue
		}
		switch d = d.kids[c]; {
		case d == nil:
			return place{}, syscall.ENOENT
		case d.kind != kindDir:
			return place{}, syscall.ENOTDIR
		}
	}
	if len(name) > nameMax {
		return place{}, syscall.ENAMETOOLONG
	}
	return place{d, name, d.kids[name]}, vfs.CheckName(name)
}

// existing is at for an entry that has to be there.
func (a Admin) existing(p string) (place, error) {
	at, err := a.at(p)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	return at, err
}

// vacant is at for a name that has to be free.
func (a Admin) vacant(p string) (place, error) {
	at, err := a.at(p)
	if err == nil && at.node != nil {
		err = syscall.EEXIST
	}
	return at, err
}

// Exists reports whether there is an entry p.
func (a Admin) Exists(p string) bool {
	_, err := a.Look(p)
	return err == nil
}

// Look describes the entry p.
func (a Admin) Look(p string) (n Node, err error) {
	err = a.locked("look", p, func() error {
		at, err := a.existing(p)
		if err == nil {
			n = a.s.describe(at.node)
		}
		return err
	})
	return n, err
}

// Make creates the entry p. It fails with EINVAL for a type that is not kept here.
func (a Admin) Make(p string, want Node) error {
	return a.locked("make", p, func() error { return a.make(p, want) })
}

func (a Admin) make(p string, want Node) error {
	at, err := a.vacant(p)
	if err != nil {
		return err
	}
	n, err := a.s.create(want)
	if err != nil {
		return err
	}
	a.s.attach(at.dir, at.name, n)
	if want.Mtime != 0 {
		n.mtime = mtime(want.Mtime)
	}
	return nil
}

func mtime(seconds int64) int64 { return (seconds - epoch.Unix()) * 1e9 }

// Walk calls fn for every entry, parents before children, in the order of names.
// The tree is locked meanwhile: fn cannot use it.
func (a Admin) Walk(fn func(p string, n Node)) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.walk(a.s.root, "", fn)
}

func (a Admin) walk(d *inode, prefix string, fn func(string, Node)) {
	for _, name := range slices.Sorted(maps.Keys(d.kids)) {
		k := d.kids[name]
		fn(prefix+name, a.s.describe(k))
		a.walk(k, prefix+name+"/", fn)
	}
}

// describe hands the data out: from now on a write makes its own copy first.
func (s *Store) describe(k *inode) Node {
	info := s.info(k, s.top)
	k.shared = true
	n := Node{
		Type: info.Mode.Type(), Bits: k.bits, UID: k.uid, GID: k.gid, Data: k.data, Link: k.link,
		Xattrs: maps.Clone(k.xattrs), Immutable: k.immutable, ID: info.ID, Nlink: k.nlink,
	}
	switch {
	case k.mnt == nil:
	case k.mnt.ro:
		n.Mount = BoundReadOnly
	default:
		n.Mount = Bound
	}
	return n
}

// Write overwrites the file p in place, or creates it as like says. It fails with
// EEXIST where something else has the name.
func (a Admin) Write(p string, data []byte, like Node) error {
	return a.locked("write", p, func() error {
		at, err := a.at(p)
		switch {
		case err != nil:
			return err
		case at.node == nil:
			like.Type, like.Data = 0, data
			return a.make(p, like)
		case at.node.kind != kindFile:
			return syscall.EEXIST
		}
		n := at.node
		n.data, n.shared, n.mtime = data, true, a.s.now()
		if like.Mtime != 0 {
			n.mtime = mtime(like.Mtime)
		}
		return nil
	})
}

// Change applies fn to the entry p, with no Mtime set; fn may replace Data, but not
// alter it. What is only seen of a Node, its type, its link text and its mount are
// not changed.
func (a Admin) Change(p string, fn func(*Node)) error {
	return a.locked("change", p, func() error {
		at, err := a.existing(p)
		if err != nil {
			return err
		}
		a.s.alter(at.node, fn)
		return nil
	})
}

// Hardlink gives the entry old, which must not be a directory, the further name p.
func (a Admin) Hardlink(p, old string) error {
	return a.locked("link", p, func() error {
		from, err := a.existing(old)
		if err != nil {
			return err
		}
		if from.node.kind == kindDir {
			return syscall.EPERM
		}
		to, err := a.vacant(p)
		if err != nil {
			return err
		}
		from.node.nlink++
		a.s.attach(to.dir, to.name, from.node)
		return nil
	})
}

// Rename moves the entry p to the name to, over whatever is there. It fails with
// EINVAL, before anything is changed, where one lies in the other.
func (a Admin) Rename(p, to string) error {
	return a.locked("rename", p, func() error {
		from, err := a.existing(p)
		if err != nil {
			return err
		}
		dst, err := a.at(to)
		switch {
		case err != nil:
			return err
		case from.dir == dst.dir && from.name == dst.name:
			return nil
		case from.node.holds(dst.dir), dst.node != nil && dst.node.holds(from.dir):
			return syscall.EINVAL
		}
		if dst.node != nil {
			a.remove(dst)
		}
		a.s.detach(from.dir, from.name)
		a.s.attach(dst.dir, dst.name, from.node)
		return nil
	})
}

// Exchange makes two entries trade places. It fails with EINVAL where one lies in
// the other.
func (a Admin) Exchange(p, q string) error {
	return a.locked("exchange", p, func() error {
		at, err := a.existing(p)
		if err != nil {
			return err
		}
		with, err := a.existing(q)
		switch {
		case err != nil:
			return err
		case at == with:
			return nil
		case at.node.holds(with.dir), with.node.holds(at.dir):
			return syscall.EINVAL
		}
		a.s.detach(at.dir, at.name)
		a.s.detach(with.dir, with.name)
		a.s.attach(at.dir, at.name, with.node)
		a.s.attach(with.dir, with.name, at.node)
		return nil
	})
}

// Remove takes away the entry p with everything below it.
func (a Admin) Remove(p string) error {
	return a.locked("remove", p, func() error {
		at, err := a.existing(p)
		if err == nil {
			a.remove(at)
		}
		return err
	})
}

func (a Admin) remove(at place) {
	a.s.detach(at.dir, at.name)
	at.node.bury()
}

// Unlink takes away the one name p, as unlink does.
func (a Admin) Unlink(p string) error {
	return a.locked("unlink", p, func() error {
		at, err := a.existing(p)
		switch {
		case err != nil:
			return err
		case at.node.kind == kindDir:
			return syscall.EISDIR
		}
		a.remove(at)
		return nil
	})
}

// bury accounts for the names of n and of everything below it.
func (n *inode) bury() {
	for _, k := range n.kids {
		k.bury()
	}
	clear(n.kids)
	n.unlinked()
}
