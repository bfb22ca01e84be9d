package memfs

import (
	"errors"
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
	Type      fs.FileMode // 0, fs.ModeDir, fs.ModeSymlink or fs.ModeNamedPipe
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

func (a Admin) fail(op, p string, err error) error {
	return &fs.PathError{Op: op, Path: p, Err: err}
}

// parent returns the directory that holds p, and p's last component.
func (a Admin) parent(p string) (*inode, string, error) {
	d := a.s.root
	dirs, name := path.Split(p)
	for _, c := range strings.Split(dirs, "/") {
		if c == "" {
			continue
		}
		if d = d.kids[c]; d == nil {
			return nil, "", syscall.ENOENT
		}
	}
	if d.kind != kindDir {
		return nil, "", syscall.ENOTDIR
	}
	return d, name, vfs.CheckName(name)
}

func (a Admin) entry(p string) (*inode, error) {
	d, name, err := a.parent(p)
	if err != nil {
		return nil, err
	}
	if d.kids[name] == nil {
		return nil, syscall.ENOENT
	}
	return d.kids[name], nil
}

// Exists reports whether there is an entry p.
func (a Admin) Exists(p string) bool {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	_, err := a.entry(p)
	return err == nil
}

// Make creates the entry p.
func (a Admin) Make(p string, want Node) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	d, name, err := a.parent(p)
	if err == nil && d.kids[name] != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return a.fail("make", p, err)
	}
	k := kindFile
	switch want.Type {
	case fs.ModeDir:
		k = kindDir
	case fs.ModeSymlink:
		k = kindLink
	case fs.ModeNamedPipe:
		k = kindFIFO
	}
	n := a.s.newInode(k, want.Bits, want.UID, want.GID)
	if k == kindDir {
		n.nlink = 2
	}
	n.data, n.shared, n.link, n.immutable = want.Data, true, want.Link, want.Immutable
	if want.Xattrs != nil {
		n.xattrs = maps.Clone(want.Xattrs)
	}
	if want.Mount != NotMounted {
		n.mnt = a.s.newMount(want.Mount == BoundReadOnly)
	}
	a.s.attach(d, name, n)
	if want.Mtime != 0 {
		n.mtime = mtime(want.Mtime)
	}
	return nil
}

func mtime(seconds int64) int64 { return (seconds - epoch.Unix()) * 1e9 }

// Walk calls fn for every entry, parents before children, in the order of names.
func (a Admin) Walk(fn func(p string, n Node)) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	a.walk(a.s.root, "", fn)
}

func (a Admin) walk(d *inode, prefix string, fn func(string, Node)) {
	for _, name := range slices.Sorted(maps.Keys(d.kids)) {
		k := d.kids[name]
		info := a.s.info(k, a.s.top)
		n := Node{
			Type: info.Mode.Type(), Bits: k.bits, UID: k.uid, GID: k.gid, Data: k.data, Link: k.link,
			Xattrs: maps.Clone(k.xattrs), Immutable: k.immutable, ID: info.ID, Nlink: k.nlink,
		}
		k.shared = true
		if k.mnt != nil {
			n.Mount = Bound
			if k.mnt.ro {
				n.Mount = BoundReadOnly
			}
		}
		fn(prefix+name, n)
		a.walk(k, prefix+name+"/", fn)
	}
}

// Write overwrites the file p in place, or creates it as like says. It fails with
// EEXIST where something else has the name.
func (a Admin) Write(p string, data []byte, like Node) error {
	a.s.mu.Lock()
	n, err := a.entry(p)
	if err != nil {
		a.s.mu.Unlock()
		like.Type, like.Data = 0, data
		return a.Make(p, like)
	}
	defer a.s.mu.Unlock()
	if n.kind != kindFile {
		return a.fail("write", p, syscall.EEXIST)
	}
	n.data, n.shared = data, true
	n.mtime = a.s.now()
	if like.Mtime != 0 {
		n.mtime = mtime(like.Mtime)
	}
	return nil
}

// Change applies fn to the entry p. The fields ID and Nlink, the type and the
// link text are not changed.
func (a Admin) Change(p string, fn func(*Node)) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	k, err := a.entry(p)
	if err != nil {
		return a.fail("change", p, err)
	}
	n := Node{Bits: k.bits, UID: k.uid, GID: k.gid, Data: k.data, Xattrs: k.xattrs, Immutable: k.immutable}
	fn(&n)
	k.bits, k.uid, k.gid, k.data, k.xattrs, k.immutable = n.Bits, n.UID, n.GID, n.Data, n.Xattrs, n.Immutable
	if n.Mtime != 0 {
		k.mtime = mtime(n.Mtime)
	}
	return nil
}

// Hardlink gives the file old the further name p.
func (a Admin) Hardlink(p, old string) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	n, err := a.entry(old)
	if err != nil {
		return a.fail("link", old, err)
	}
	d, name, err := a.parent(p)
	if err == nil && d.kids[name] != nil {
		err = syscall.EEXIST
	}
	if err != nil {
		return a.fail("link", p, err)
	}
	n.nlink++
	a.s.attach(d, name, n)
	return nil
}

// Rename moves the entry p to the name to, over whatever is there.
func (a Admin) Rename(p, to string) error {
	if !a.Exists(p) {
		return a.fail("rename", p, syscall.ENOENT)
	}
	if err := a.Remove(to); err != nil && !isNotExist(err) {
		return err
	}
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	d, name, err := a.parent(p)
	if err != nil || d.kids[name] == nil {
		return a.fail("rename", p, syscall.ENOENT)
	}
	t, toName, err := a.parent(to)
	if err != nil {
		return a.fail("rename", to, err)
	}
	n := d.kids[name]
	a.s.detach(d, name)
	a.s.attach(t, toName, n)
	return nil
}

// Exchange makes two entries trade places.
func (a Admin) Exchange(p, q string) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	d, dn, err := a.parent(p)
	if err != nil {
		return a.fail("exchange", p, err)
	}
	e, en, err := a.parent(q)
	if err != nil {
		return a.fail("exchange", q, err)
	}
	m, n := d.kids[dn], e.kids[en]
	if m == nil || n == nil {
		return a.fail("exchange", p, syscall.ENOENT)
	}
	a.s.detach(d, dn)
	a.s.detach(e, en)
	a.s.attach(d, dn, n)
	a.s.attach(e, en, m)
	return nil
}

// Remove takes away the entry p with everything below it.
func (a Admin) Remove(p string) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	d, name, err := a.parent(p)
	if err == nil && d.kids[name] == nil {
		err = syscall.ENOENT
	}
	if err != nil {
		return a.fail("remove", p, err)
	}
	n := d.kids[name]
	a.s.detach(d, name)
	n.bury()
	return nil
}

// Unlink takes away the one name p, as unlink does.
func (a Admin) Unlink(p string) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	d, name, err := a.parent(p)
	switch {
	case err != nil:
	case d.kids[name] == nil:
		err = syscall.ENOENT
	case d.kids[name].kind == kindDir:
		err = syscall.EISDIR
	}
	if err != nil {
		return a.fail("unlink", p, err)
	}
	n := d.kids[name]
	a.s.detach(d, name)
	n.unlinked()
	return nil
}

// bury accounts for the names of n and of everything below it.
func (n *inode) bury() {
	for _, k := range n.kids {
		k.bury()
	}
	clear(n.kids)
	n.unlinked()
}

func isNotExist(err error) bool { return errors.Is(err, syscall.ENOENT) }
