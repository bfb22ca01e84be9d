// Package memfs is a file system in memory that refuses as Linux does: inodes,
// hard links, symbolic links, owners and groups, sticky and setgid directories,
// read-only mounts, immutable files, umask, and the errno that the kernel would
// give, in the kernel's order of checks.
//
// Verdicts reached in memory are worth what this package is worth, so where the
// order of two checks is visible (EROFS before EACCES on a create, EACCES
// before EROFS on a plain open), the order here is the kernel's. It knows
// nothing of faults or traces; it never blocks and reads no clock.
package memfs

import (
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fsbench/fsbench/vfs"
)

// Cred is an identity that acts on the tree. UID 0 has the privileges of root,
// except over immutable files and read-only mounts.
type Cred struct {
	UID, GID uint32
	Groups   []uint32 // supplementary
	Umask    uint32
}

func (c Cred) in(gid uint32) bool { return c.GID == gid || slices.Contains(c.Groups, gid) }

// Store is one tree, shared by all views of it.
type Store struct {
	mu   sync.Mutex
	root *inode
	dev  uint64
	ino  uint64 // last number given; never reused, so that an ID stays an identity
	mnt  uint64 // last mount given
	tick int64  // the clock: one nanosecond a change
	top  *mount
}

// New returns an empty tree whose root directory belongs to owner.
func New(owner Cred) *Store {
	s := &Store{dev: 1}
	s.top = s.newMount(false)
	s.root = s.newInode(kindDir, 0o755, owner.UID, owner.GID)
	return s
}

// As returns the tree as c meets it.
func (s *Store) As(c Cred) *FS { return &FS{store: s, cred: c} }

// FS is a Store seen by one identity.
type FS struct {
	store *Store
	cred  Cred
}

var _ vfs.FS = (*FS)(nil)

// Caps implements vfs.FS.
func (*FS) Caps() vfs.Caps {
	return vfs.CapSymlink | vfs.CapLink | vfs.CapPerm | vfs.CapNoFollow | vfs.CapHandle | vfs.CapIdentity |
		vfs.CapNoReplace | vfs.CapExchange | vfs.CapPublish | vfs.CapSyncFS | vfs.CapSyncRange | vfs.CapXattr |
		vfs.CapBirth | vfs.CapMountID | vfs.CapSpecial
}

// SyncFS implements vfs.FS. Nothing here is ever lost, so there is nothing to do.
func (*FS) SyncFS(d vfs.Dir) error {
	md, ok := d.(*dir)
	if !ok {
		return fail("syncfs", "", syscall.EXDEV)
	}
	return md.sync("syncfs")
}

// OpenRoot implements vfs.FS.
func (f *FS) OpenRoot(p string) (vfs.Dir, error) {
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	n, err := f.lookup(p)
	if err != nil {
		return nil, fail("openat", path.Base(p), err)
	}
	return &dir{fs: f, node: n, mnt: f.store.mountOf(n), readable: f.cred.may(n, mayRead)}, nil
}

// maxLinks is how many links one look-up follows.
const maxLinks = 40

// lookup follows the absolute path of a directory, links included. ".." is the
// parent of where the walk has come to, and not of what was spelled before it.
func (f *FS) lookup(p string) (*inode, error) {
	switch {
	case !path.IsAbs(p):
		return nil, fs.ErrInvalid
	case len(p) >= pathMax:
		return nil, syscall.ENAMETOOLONG
	}
	n, links := f.store.root, 0
	for todo := strings.Split(p, "/"); len(todo) > 0; {
		c := todo[0]
		todo = todo[1:]
		if c == "" {
			continue
		}
		if n.kind != kindDir {
			return nil, syscall.ENOTDIR
		}
		if err := f.cred.search(n, c); err != nil {
			return nil, err
		}
		switch c {
		case ".":
			continue
		case "..":
			if n.parent != nil {
				n = n.parent
			}
			continue
		}
		k, err := n.find(c)
		switch {
		case err != nil:
			return nil, err
		case k == nil:
			return nil, syscall.ENOENT
		case k.kind != kindLink:
			n = k
			continue
		}
		if links++; links > maxLinks {
			return nil, syscall.ELOOP
		}
		todo = append(strings.Split(k.link, "/"), todo...)
		if path.IsAbs(k.link) {
			n = f.store.root
		}
	}
	if n.kind != kindDir {
		return nil, syscall.ENOTDIR
	}
	return n, nil
}

type kind uint8

const (
	kindFile kind = iota
	kindDir
	kindLink
	kindFIFO
	kindOther // a socket or a device: it can be looked at
)

// inode is one object. Its fields are guarded by Store.mu.
type inode struct {
	ino      uint64
	kind     kind
	bits     uint32 // the twelve permission bits
	uid, gid uint32
	nlink    uint64
	data     []byte
	shared   bool // data was handed out: a write makes its own copy first
	link     string
	kids     map[string]*inode
	parent   *inode // of a directory
	xattrs   map[string][]byte
	mtime    int64
	btime    int64

	immutable bool
	dead      bool   // a removed directory: nothing can be made in it
	linkable  bool   // made without a name, and may be given its first
	mnt       *mount // the mount whose root this is
}

type mount struct {
	id uint64
	ro bool
}

func (s *Store) newMount(ro bool) *mount {
	s.mnt++
	return &mount{id: s.mnt, ro: ro}
}

// mountOf returns the mount that the directory n is on.
func (s *Store) mountOf(n *inode) *mount {
	for ; n != nil; n = n.parent {
		if n.mnt != nil {
			return n.mnt
		}
	}
	return s.top
}

func (s *Store) newInode(k kind, bits, uid, gid uint32) *inode {
	s.ino++
	now := s.now()
	n := &inode{ino: s.ino, kind: k, bits: bits, uid: uid, gid: gid, nlink: 1, mtime: now, btime: now}
	if k == kindDir {
		n.nlink = 2
		n.kids = map[string]*inode{}
	}
	return n
}

func (s *Store) now() int64 {
	s.tick++
	return s.tick
}

// epoch is where the clock of every Store starts. No real time enters the tree,
// so that two runs of one scenario see the same.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func clock(ns int64) time.Time { return epoch.Add(time.Duration(ns)) }

func (s *Store) info(n *inode, m *mount) vfs.Info {
	size := int64(len(n.data))
	mode := vfs.FromBits(n.bits)
	switch n.kind {
	case kindDir:
		mode |= fs.ModeDir
	case kindLink:
		mode |= fs.ModeSymlink
		size = int64(len(n.link))
	case kindFIFO:
		mode |= fs.ModeNamedPipe
	case kindOther:
		mode |= fs.ModeIrregular
	case kindFile:
	}
	return vfs.Info{
		Mode: mode, Size: size, ID: vfs.ID{Dev: s.dev, Ino: n.ino}, UID: n.uid, GID: n.gid,
		Nlink: n.nlink, Mtime: clock(n.mtime), Btime: clock(n.btime), MountID: m.id,
	}
}

// attach gives n the name in d. The caller made the checks.
func (s *Store) attach(d *inode, name string, n *inode) {
	d.kids[name] = n
	if n.kind == kindDir {
		n.parent = d
		d.nlink++
	}
	d.mtime = s.now()
}

// detach takes the name out of d.
func (s *Store) detach(d *inode, name string) {
	n := d.kids[name]
	delete(d.kids, name)
	if n.kind == kindDir {
		n.parent = nil
		d.nlink--
	}
	d.mtime = s.now()
}

// unlinked accounts for a name of n that is gone.
func (n *inode) unlinked() {
	if n.kind == kindDir {
		n.nlink = 0
		n.dead = true
		return
	}
	n.nlink--
}
