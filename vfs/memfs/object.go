package memfs

import (
	"io/fs"
	"maps"
	"path"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// Object is one inode of a Store, by whatever names, or without any. An Admin
// changes by it what it cannot find by a path: what has lost its name, or has none
// yet.
type Object struct{ n *inode }

// Zero reports whether o is no object.
func (o Object) Zero() bool { return o.n == nil }

// Root returns the root directory.
func (a Admin) Root() Object { return Object{a.s.root} }

// Find returns the object that has the name p. It follows no link.
func (a Admin) Find(p string) (o Object, err error) {
	err = a.locked("find", p, func() error {
		at, err := a.existing(p)
		o = Object{at.node}
		return err
	})
	return o, err
}

// Loose makes an object without a name. It fails as Make does.
func (a Admin) Loose(want Node) (o Object, err error) {
	err = a.locked("make", "", func() error {
		n, err := a.s.create(want)
		if err != nil {
			return err
		}
		if n.kind != kindDir {
			n.nlink = 0
		}
		o = Object{n}
		return nil
	})
	return o, err
}

// Describe says what is to be seen of o.
func (a Admin) Describe(o Object) Node {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return a.s.describe(o.n)
}

// Name gives o the name in d. It fails with EEXIST where something has it, and with
// EINVAL for a directory that has one or holds d.
func (a Admin) Name(o, d Object, name string) error {
	return a.locked("name", name, func() error {
		if err := a.vacantIn(d, name); err != nil {
			return err
		}
		if o.n.kind == kindDir && (o.n.parent != nil || o.n.holds(d.n)) {
			return syscall.EINVAL
		}
		if o.n.kind != kindDir {
			o.n.nlink++
		}
		a.s.attach(d.n, name, o.n)
		return nil
	})
}

func (a Admin) vacantIn(d Object, name string) error {
	switch {
	case d.n.kind != kindDir:
		return syscall.ENOTDIR
	case d.n.kids[name] != nil:
		return syscall.EEXIST
	}
	return vfs.CheckName(name)
}

// Entry returns what has the name in d; no object if nothing has.
func (a Admin) Entry(d Object, name string) Object {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	return Object{d.n.kids[name]}
}

// Unname takes the name out of d. What had it stays as it is, with all that is below
// it, and may be named again.
func (a Admin) Unname(d Object, name string) error {
	return a.locked("unname", name, func() error {
		k := d.n.kids[name]
		if k == nil {
			return syscall.ENOENT
		}
		a.s.detach(d.n, name)
		if k.kind != kindDir {
			k.nlink--
		}
		return nil
	})
}

// Count adds to the number of o's names those that lie outside of the tree.
func (a Admin) Count(o Object, names int) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	o.n.nlink += uint64(names)
}

// Put writes data into the file o at off.
func (a Admin) Put(o Object, off int64, data []byte) error {
	return a.sized(o, off+int64(len(data)), func() { copy(o.n.data[off:], data) })
}

// Resize cuts the file o off, or makes it longer by zeros.
func (a Admin) Resize(o Object, size int64) error {
	return a.sized(o, size, func() { o.n.data = o.n.data[:size:size] })
}

// sized runs f when o is at least size bytes long.
func (a Admin) sized(o Object, size int64, f func()) error {
	return a.locked("write", "", func() error {
		switch {
		case o.n.kind != kindFile:
			return syscall.EINVAL
		case size > maxSize || size < 0:
			return syscall.EFBIG
		}
		o.n.grow(size)
		f()
		o.n.mtime = a.s.now()
		return nil
	})
}

// Clear makes zeros of n bytes of the file o at off. It does not grow by that.
func (a Admin) Clear(o Object, off, n int64) error {
	return a.sized(o, 0, func() {
		if size := int64(len(o.n.data)); off < size {
			clear(o.n.data[off:min(size, off+n)])
		}
	})
}

// Alter is Change for an object.
func (a Admin) Alter(o Object, fn func(*Node)) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.s.alter(o.n, fn)
}

// WalkObjects is Walk with the objects.
func (a Admin) WalkObjects(fn func(p string, o Object)) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	var walk func(d *inode, prefix string)
	walk = func(d *inode, prefix string) {
		for name, k := range d.kids {
			fn(path.Join(prefix, name), Object{k})
			walk(k, path.Join(prefix, name))
		}
	}
	walk(a.s.root, "")
}

// create makes an inode without a name, as want says.
func (s *Store) create(want Node) (*inode, error) {
	var k kind
	switch want.Type {
	case 0:
		k = kindFile
	case fs.ModeDir:
		k = kindDir
	case fs.ModeSymlink:
		k = kindLink
	case fs.ModeNamedPipe:
		k = kindFIFO
	case fs.ModeIrregular:
		k = kindOther
	default:
		return nil, syscall.EINVAL
	}
	n := s.newInode(k, want.Bits, want.UID, want.GID)
	n.link, n.immutable, n.xattrs = want.Link, want.Immutable, maps.Clone(want.Xattrs)
	if k == kindFile {
		n.data, n.shared = want.Data, true
	}
	if want.Mount != NotMounted {
		n.mnt = s.newMount(want.Mount == BoundReadOnly)
	}
	return n, nil
}

// alter applies fn to k, with no Mtime set.
func (s *Store) alter(k *inode, fn func(*Node)) {
	n := s.describe(k)
	fn(&n)
	k.bits, k.uid, k.gid, k.xattrs, k.immutable = n.Bits, n.UID, n.GID, maps.Clone(n.Xattrs), n.Immutable
	if k.kind == kindFile {
		k.data = n.Data
	}
	if n.Mtime != 0 {
		k.mtime = mtime(n.Mtime)
	}
}
