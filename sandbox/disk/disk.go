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
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// umask of every subject.
const umask = 0o022

// Sandbox is one tree below a Lab.
type Sandbox struct {
	lab  *Lab
	base string // absolute
	hand *hands
	caps vfs.Caps

	mu     sync.Mutex
	mounts map[string]spec.Mount  // by path in the World: only the child sees them
	armed  map[string]preparation // by path in the World
}

var _ sandbox.Sandbox = (*Sandbox)(nil)

// preparation is a change of an entry that makes the kernel refuse as a plan says.
// Observe does not show it: it is the fault, not the World.
type preparation struct {
	modeBefore, modeNow spec.Mode
	immutable           bool
}

// Name implements sandbox.Sandbox.
func (*Sandbox) Name() string { return "disk" }

// Root implements sandbox.Sandbox.
func (s *Sandbox) Root() string { return path.Join(s.base, spec.Workspace) }

// Caps implements sandbox.Sandbox.
func (s *Sandbox) Caps() vfs.Caps { return s.caps }

// Build implements sandbox.Sandbox.
func (s *Sandbox) Build(w spec.World) error {
	for _, p := range w.Paths() {
		n := w[p]
		n.Link = strings.ReplaceAll(n.Link, "{root}", s.Root())
		if err := s.hand.make(p, n); err != nil {
			return err
		}
		if n.Mount != spec.MountNone {
			s.mounts[p] = n.Mount
		}
	}
	// Owners and modes come last and from below, so that a directory that nobody may
	// enter is finished before it is closed.
	for _, p := range slices.Backward(w.Paths()) {
		if n := w[p]; n.Hard == "" {
			if err := s.hand.dress(p, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Observe implements sandbox.Sandbox.
func (s *Sandbox) Observe() (spec.World, error) {
	w, err := s.hand.look()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for p, m := range s.mounts {
		if n, there := w[p]; there {
			n.Mount = m
			w[p] = n
		}
	}
	for p, prep := range s.armed {
		n, there := w[p]
		if !there {
			continue
		}
		if n.Mode == prep.modeNow {
			n.Mode = prep.modeBefore
		}
		n.Immutable = n.Immutable && !prep.immutable
		w[p] = n
	}
	return w, nil
}

// Edit implements sandbox.Sandbox.
func (s *Sandbox) Edit(e spec.Edit) error {
	e.To = strings.ReplaceAll(e.To, "{root}", s.Root())
	return s.hand.edit(e)
}

func (s *Sandbox) below(dst string) (string, error) {
	rel, ok := strings.CutPrefix(dst, s.Root()+"/")
	if !ok || rel != path.Clean(rel) {
		return "", fmt.Errorf("destination %q is not a clean path below the root", dst)
	}
	return spec.Workspace + "/" + rel, nil
}

// Land implements sandbox.Sandbox.
func (s *Sandbox) Land(r spec.WriteRequest) error {
	p, err := s.below(r.Dst)
	if err != nil {
		return err
	}
	return s.hand.land(p, r.Content, r.Exclusive)
}

// Unlink implements sandbox.Sandbox.
func (s *Sandbox) Unlink(r spec.DeleteRequest) error {
	p, err := s.below(r.Dst)
	if err != nil {
		return err
	}
	return s.hand.unlink(p)
}

// Close implements sandbox.Sandbox.
func (s *Sandbox) Close() error { return s.hand.remove() }

// Arm implements sandbox.Sandbox.
func (s *Sandbox) Arm(plan faults.Plan, sink trace.Sink) (sandbox.Armed, error) {
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("arm: %w", err)
	}
	a := &armed{s: s, plan: plan, sink: sink, fired: map[string]bool{}}
	for _, in := range plan.Injections {
		ok, err := s.prepare(in, &a.mounts)
		if err != nil {
			return nil, fmt.Errorf("arm: injection %s: %w", in.ID, err)
		}
		if ok {
			a.watch = append(a.watch, in.ID)
		}
	}
	return a, nil
}

// prepare makes the kernel refuse what in asks for, if it can be made to. The
// plan must be portable: the kernel does not count and knows no names.
func (s *Sandbox) prepare(in faults.Injection, mounts *[]string) (bool, error) {
	if !in.When.Portable() || in.When.Under == "" || in.Do.Errno == "" || !s.hand.isDir(in.When.Under) {
		return false, nil
	}
	entries := in.When.Class == faults.Create || in.When.Class == faults.Remove
	switch {
	case in.Do.Errno == "EACCES" && entries:
		before, err := s.hand.chmod(in.When.Under, func(m spec.Mode) spec.Mode { return m &^ 0o222 })
		if err != nil {
			return false, err
		}
		s.keep(in.When.Under, preparation{modeBefore: before, modeNow: before &^ 0o222})
		return true, nil
	case in.Do.Errno == "EROFS" && (entries || in.When.Class == faults.Modify):
		if s.lab.cannotMount() != nil {
			return false, nil
		}
		*mounts = append(*mounts, in.When.Under)
		return true, nil
	case in.Do.Errno == "EPERM" && entries:
		if s.hand.immutable(in.When.Under, true) != nil {
			return false, nil // only root may, and not on every file system
		}
		s.keep(in.When.Under, preparation{immutable: true})
		return true, nil
	}
	return false, nil
}

func (s *Sandbox) keep(p string, prep preparation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, twice := s.armed[p]; twice {
		prep.immutable = prep.immutable || old.immutable
		if old.modeNow != old.modeBefore {
			prep.modeBefore = old.modeBefore
			prep.modeNow = cmp.Or(prep.modeNow, old.modeNow)
		}
	}
	s.armed[p] = prep
}

// armed is a plan in force.
type armed struct {
	s      *Sandbox
	plan   faults.Plan
	sink   trace.Sink
	watch  []string
	mounts []string // paths in the World that are read-only for the child

	mu      sync.Mutex
	fired   map[string]bool
	crashed bool
}

func (*armed) Port() vfs.FS { return nil }

// Child implements sandbox.Armed.
func (a *armed) Child() *sandbox.Child {
	raw, err := json.Marshal(faults.Order{Plan: a.left(), Base: a.s.base, Watch: a.watch})
	if err != nil {
		panic("disk: a plan that was parsed does not encode: " + err.Error())
	}
	return &sandbox.Child{
		Wrap: a.spec().Wrap,
		Plan: raw, Event: a.event,
		Edit: sandbox.Attempt(a.s.Edit),
	}
}

// left is the plan for the next process: what has struck once and for all does
// not strike again, since a new process counts from one.
func (a *armed) left() faults.Plan {
	a.mu.Lock()
	defer a.mu.Unlock()
	var p faults.Plan
	for _, in := range a.plan.Injections {
		if a.fired[in.ID] && (in.When.Nth > 0 || in.Do.Crash) {
			continue
		}
		p.Injections = append(p.Injections, in)
	}
	return p
}

func (a *armed) spec() jail.Spec {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	ro := map[string]bool{}
	for p, m := range a.s.mounts {
		ro[p] = m == spec.MountReadOnly
	}
	for _, p := range a.mounts {
		ro[p] = true
	}
	sp := jail.Spec{UID: a.s.lab.UID, GID: a.s.lab.GID, Umask: umask, Env: []string{"PATH=/usr/bin:/bin", "LC_ALL=C.UTF-8"}}
	state := path.Join(spec.Workspace, spec.StateDir)
	for _, p := range slices.Sorted(maps.Keys(ro)) {
		sp.Mounts = append(sp.Mounts, jail.Mount{Path: path.Join(a.s.base, p), ReadOnly: ro[p]})
		if p == spec.Workspace && ro[p] && a.s.hand.isDir(state) {
			// The host's own folder stays writable: a host without its Log runs nothing.
			sp.Mounts = append(sp.Mounts, jail.Mount{Path: path.Join(a.s.base, state)})
		}
	}
	return sp
}

// event takes in what the child reports, before its effect can be seen.
func (a *armed) event(raw json.RawMessage) error {
	var e trace.Event
	if err := json.Unmarshal(raw, &e); err != nil {
		return fmt.Errorf("event of the worker: %w", err)
	}
	a.mu.Lock()
	if e.Fault != nil {
		a.fired[e.Fault.Injection] = true
	}
	if e.Crash != nil {
		a.crashed = true
	}
	a.mu.Unlock()
	a.sink.Emit(e)
	return nil
}

func (a *armed) Crashed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.crashed
}

func (a *armed) Revive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashed = false
}

func (a *armed) Unfired() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, in := range a.plan.Injections {
		if !a.fired[in.ID] {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

// Stop implements sandbox.Armed. The tree is given back its modes and flags.
func (a *armed) Stop() error {
	a.s.mu.Lock()
	preps := a.s.armed
	a.s.armed = map[string]preparation{}
	a.s.mu.Unlock()
	for p, prep := range preps {
		if prep.immutable {
			_ = a.s.hand.immutable(p, false) // it may be gone, with its flag
		}
		if prep.modeNow != prep.modeBefore {
			_, _ = a.s.hand.chmod(p, func(spec.Mode) spec.Mode { return prep.modeBefore })
		}
	}
	return nil
}
