// Package disk is the sandbox on a real file system: the kernel itself refuses,
// wherever it can be made to.
//
// The tree belongs to the bench; the subject runs in a child under another
// identity, or under the caller's own without any capability. Denials that a plan
// asks for are prepared in the tree (permission bits, a read-only mount of the
// child's own, the immutable flag) and left to the kernel; what the kernel cannot
// be made to do is injected inside the child. The bench treats the tree as
// hostile: it follows no link, waits for no FIFO and reads no more than it can
// hold.
package disk

import (
	"fmt"
	"path"
	"strings"
	"sync"

	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Sandbox is one tree below a Lab.
type Sandbox struct {
	lab  *Lab
	base string // absolute path of the tree
	hand *hands

	foreign bool                   // subjects meet plans from outside
	sup     *supervisor.Supervisor // of a foreign one, since its first plan
	ws      id                     // the workspace of a foreign one

	group  *jail.Group // that the processes of a foreign one are in, where there are groups
	ground *ground     // of a foreign one, where the tree is on a volume of its own

	mu     sync.Mutex // held while the hands are at work, and for what follows
	mounts []mount
	preps  []*preparation
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// The folders of a sandbox: the tree, and what only the bench may enter.
const (
	treeName = "tree"
	ownName  = "own"
)

// mount is a mount point that only the child sees. It stays with the object.
type mount struct {
	*held
	kind spec.Mount
}

// id tells objects apart, as device and inode do.
type id struct{ dev, ino uint64 }

// sight is what a look at a tree has seen.
type sight struct {
	world spec.World
	ids   map[string]id
}

// Name implements sandbox.Sandbox.
func (*Sandbox) Name() string { return "disk" }

// Root implements sandbox.Sandbox.
func (s *Sandbox) Root() string { return path.Join(s.base, spec.Workspace) }

// Caps implements sandbox.Sandbox.
func (s *Sandbox) Caps() vfs.Caps { return s.lab.caps }

// Counts implements sandbox.Sandbox.
func (*Sandbox) Counts() bool { return true }

// Build implements sandbox.Sandbox.
func (s *Sandbox) Build(w spec.World) error {
	if s.lab.cannot != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, s.lab.cannot)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w = w.Clone()
	for p, n := range w {
		if n.Mount != spec.MountNone && s.lab.cannotMount() != nil {
			return fmt.Errorf("%w: mount %s: %w", sandbox.ErrCannot, p, s.lab.cannotMount())
		}
		n.Link = s.expand(n.Link)
		w[p] = n
	}
	if err := s.hand.build(w); err != nil {
		return err
	}
	if err := s.settle(); err != nil {
		return err
	}
	for _, p := range w.Paths() {
		if kind := w[p].Mount; kind != spec.MountNone {
			x, err := s.hand.hold(p)
			if err != nil {
				return err
			}
			s.mounts = append(s.mounts, mount{x, kind})
		}
	}
	return nil
}

func (s *Sandbox) expand(link string) string { return strings.ReplaceAll(link, "{root}", s.Root()) }

// Observe implements sandbox.Sandbox.
func (s *Sandbox) Observe() (spec.World, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	see, err := s.hand.look()
	if err != nil {
		return nil, err
	}
	change := func(x *held, f func(*spec.Node)) {
		p, ok := s.hand.where(x)
		if n, there := see.world[p]; ok && there && see.ids[p] == x.id {
			f(&n)
			see.world[p] = n
		}
	}
	for _, m := range s.mounts {
		change(m.held, func(n *spec.Node) { n.Mount = m.kind })
	}
	for _, prep := range s.preps {
		change(prep.held, prep.mask)
	}
	return see.world, nil
}

// Edit implements sandbox.Sandbox.
func (s *Sandbox) Edit(e spec.Edit) error {
	if err := sandbox.CheckEdit(e); err != nil {
		return err
	}
	e.To = s.expand(e.To)
	s.mu.Lock()
	defer s.mu.Unlock()
	if prep := s.prepared(e.Path); prep != nil && e.Op == spec.EditChmod {
		return prep.overlay(e.Mode)
	}
	return s.past(func() error { return s.hand.edit(e) })
}

// Land implements sandbox.Sandbox.
func (s *Sandbox) Land(r spec.WriteRequest) error {
	p, err := sandbox.Place(s.Root(), r.Dst)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.past(func() error { return s.hand.land(p, r.Content, r.Exclusive) })
}

// Unlink implements sandbox.Sandbox.
func (s *Sandbox) Unlink(r spec.DeleteRequest) error {
	p, err := sandbox.Place(s.Root(), r.Dst)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hand.unlink(p)
}

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.mounts {
		m.close()
	}
	for _, prep := range s.preps {
		prep.close()
	}
	if s.rest() {
		return nil
	}
	s.mounts, s.preps = nil, nil
	s.end()
	return s.raze()
}
