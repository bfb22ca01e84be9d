// Package mem is the sandbox in memory: fast, deterministic, without privileges.
package mem

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// The identities of the tree. The numbers mean nothing outside it.
var (
	bench   = memfs.Cred{}
	subject = memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}
	other   = memfs.Cred{UID: 2000, GID: 2000, Umask: 0o022}
)

// Sandbox is a tree in memory.
type Sandbox struct {
	store *memfs.Store
	admin memfs.Admin
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// New returns an empty sandbox.
func New() *Sandbox {
	s := memfs.New(bench)
	return &Sandbox{s, s.Admin()}
}

// Name implements sandbox.Sandbox.
func (*Sandbox) Name() string { return "mem" }

// Root implements sandbox.Sandbox.
func (*Sandbox) Root() string { return "/" + spec.Workspace }

// Caps implements sandbox.Sandbox.
func (s *Sandbox) Caps() vfs.Caps { return s.store.As(subject).Caps() }

// Close implements sandbox.Sandbox.
func (*Sandbox) Close() error { return nil }

func owner(o spec.Owner) memfs.Cred {
	if o == spec.OwnerOther {
		return other
	}
	return subject
}

var nodeTypes = map[spec.NodeType]fs.FileMode{
	spec.TypeFile: 0, spec.TypeDir: fs.ModeDir, spec.TypeLink: fs.ModeSymlink, spec.TypeFIFO: fs.ModeNamedPipe,
	spec.TypeOther: fs.ModeIrregular,
}

var mounts = map[spec.Mount]memfs.Mount{
	spec.MountNone: memfs.NotMounted, spec.MountBind: memfs.Bound, spec.MountReadOnly: memfs.BoundReadOnly,
}

// Build implements sandbox.Sandbox.
func (s *Sandbox) Build(w spec.World) error {
	for _, p := range w.Paths() {
		if t := w[p].Type; t == spec.TypeOther {
			return fmt.Errorf("%w: an entry of type %s", sandbox.ErrCannot, t)
		}
	}
	return s.build(w, s.expand)
}

func (s *Sandbox) build(w spec.World, expand func(link string) string) error {
	for _, p := range w.Paths() {
		n := w[p]
		if n.Hard != "" {
			if err := s.admin.Hardlink(p, n.Hard); err != nil {
				return err
			}
			continue
		}
		typ, ok := nodeTypes[n.Type]
		if !ok {
			return fmt.Errorf("%w: an entry of type %s", sandbox.ErrCannot, n.Type)
		}
		id := owner(n.Owner)
		node := memfs.Node{
			Type: typ, Bits: uint32(n.Mode), UID: id.UID, GID: id.GID, Data: n.Content, Link: expand(n.Link),
			Mtime: n.Mtime, Immutable: n.Immutable, Mount: mounts[n.Mount],
		}
		for name, value := range n.Xattrs {
			if node.Xattrs == nil {
				node.Xattrs = map[string][]byte{}
			}
			node.Xattrs[name] = value
		}
		if err := s.admin.Make(p, node); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) expand(link string) string { return strings.ReplaceAll(link, "{root}", s.Root()) }

// Observe implements sandbox.Sandbox.
func (s *Sandbox) Observe() (spec.World, error) {
	w := spec.World{}
	names, links := map[vfs.ID][]string{}, map[vfs.ID]int{}
	s.admin.Walk(func(p string, n memfs.Node) {
		node := spec.Node{Mode: spec.Mode(n.Bits), Immutable: n.Immutable}
		if n.UID != subject.UID {
			node.Owner = spec.OwnerOther
		}
		switch n.Mount {
		case memfs.Bound:
			node.Mount = spec.MountBind
		case memfs.BoundReadOnly:
			node.Mount = spec.MountReadOnly
		case memfs.NotMounted:
		}
		switch n.Type {
		case fs.ModeDir:
			node.Type = spec.TypeDir
		case fs.ModeSymlink:
			node.Type, node.Link = spec.TypeLink, n.Link
		case fs.ModeNamedPipe:
			node.Type = spec.TypeFIFO
		case fs.ModeIrregular:
			node.Type = spec.TypeOther
		default:
			node.Type, node.Content = spec.TypeFile, n.Data
		}
		for name, value := range n.Xattrs {
			if node.Xattrs == nil {
				node.Xattrs = map[string]spec.Content{}
			}
			node.Xattrs[name] = value
		}
		if n.Nlink > 1 && node.Type == spec.TypeFile {
			names[n.ID], links[n.ID] = append(names[n.ID], p), int(n.Nlink)
		}
		w[p] = node
	})
	sandbox.NameHardLinks(w, names, links)
	return w, nil
}

// Edit implements sandbox.Sandbox.
func (s *Sandbox) Edit(e spec.Edit) error {
	if err := sandbox.CheckEdit(e); err != nil {
		return err
	}
	node := func(typ fs.FileMode, bits uint32) memfs.Node {
		if e.Mode != 0 {
			bits = uint32(e.Mode)
		}
		return memfs.Node{Type: typ, Bits: bits, UID: subject.UID, GID: subject.GID, Mtime: e.Mtime}
	}
	switch e.Op {
	case spec.EditWrite:
		return s.admin.Write(e.Path, e.Content, node(0, 0o644))
	case spec.EditMkdir:
		return s.admin.Make(e.Path, node(fs.ModeDir, 0o755))
	case spec.EditSymlink:
		n := node(fs.ModeSymlink, 0o777)
		n.Link = s.expand(e.To)
		return s.admin.Make(e.Path, n)
	case spec.EditHardlink:
		if err := s.refuse(e, e.To, fs.ModeDir); err != nil {
			return err
		}
		return s.admin.Hardlink(e.Path, e.To)
	case spec.EditFIFO:
		return s.admin.Make(e.Path, node(fs.ModeNamedPipe, 0o644))
	case spec.EditRename:
		return s.admin.Rename(e.Path, e.To)
	case spec.EditExchange:
		return s.admin.Exchange(e.Path, e.To)
	case spec.EditRemove:
		return s.admin.Remove(e.Path)
	case spec.EditChmod:
		if err := s.refuse(e, e.Path, fs.ModeSymlink); err != nil {
			return err
		}
		return s.admin.Change(e.Path, func(n *memfs.Node) { n.Bits = uint32(e.Mode) })
	case spec.EditTouch:
		return s.admin.Change(e.Path, func(n *memfs.Node) { n.Mtime = e.Mtime })
	}
	return fmt.Errorf("%w: edit %q", sandbox.ErrCannot, e.Op)
}

// refuse fails where p is of a type that no file system would do e to: somebody
// else has taken the place of what was meant.
func (s *Sandbox) refuse(e spec.Edit, p string, typ fs.FileMode) error {
	found := false
	s.admin.Walk(func(q string, n memfs.Node) { found = found || q == p && n.Type == typ })
	if found {
		return &fs.PathError{Op: string(e.Op), Path: p, Err: syscall.EEXIST}
	}
	return nil
}

// Land implements sandbox.Sandbox.
func (s *Sandbox) Land(r spec.WriteRequest) error {
	p, err := sandbox.Place(s.Root(), r.Dst)
	if err != nil {
		return err
	}
	if r.Exclusive && s.admin.Exists(p) {
		return &fs.PathError{Op: "land", Path: p, Err: syscall.EEXIST}
	}
	for i, c := range p {
		if c != '/' {
			continue
		}
		dir := memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: subject.UID, GID: subject.GID}
		if err := s.admin.Make(p[:i], dir); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return s.admin.Write(p, r.Content, memfs.Node{Bits: 0o644, UID: subject.UID, GID: subject.GID})
}

// Unlink implements sandbox.Sandbox.
func (s *Sandbox) Unlink(r spec.DeleteRequest) error {
	p, err := sandbox.Place(s.Root(), r.Dst)
	if err != nil {
		return err
	}
	return s.admin.Unlink(p)
}

// Counts implements sandbox.Sandbox: every handle passes through the port.
func (*Sandbox) Counts() bool { return true }

// Arm implements sandbox.Sandbox.
func (s *Sandbox) Arm(plan faults.Plan, sink trace.Sink) (sandbox.Armed, error) {
	a, err := faults.Arm(s.store.As(subject), plan, faults.Options{Base: "/", Sink: sink, Hands: sandbox.Attempt(s.Edit), Look: s.Observe})
	if err != nil {
		return nil, err
	}
	a.Start()
	return armed{a}, nil
}

type armed struct{ *faults.Armed }

func (a armed) Port() vfs.FS { return a.Armed }

func (armed) Child() *sandbox.Child { return nil }

func (armed) Touched() []faults.Touch { return nil }

// Records implements sandbox.Armed.
func (armed) Records() []faults.Record { return nil }

func (a armed) Stop() error {
	a.Armed.Stop()
	return a.Err()
}
