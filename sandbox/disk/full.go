package disk

import (
	"errors"
	"fmt"
	"os/exec"
	"path"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
)

// full is a tree on a volume of its own, which is as full as a plan wants it. The tree
// from which it was copied waits under it.
type full struct {
	vol   *jail.Volume
	under *hands
	room  jail.Room
}

// rooms are what a full file system refuses, by what it has run out of.
var rooms = map[faults.Class]jail.Room{faults.Create: jail.NoFiles, faults.Modify: jail.NoBytes}

// byVolume moves the tree to a file system that is full. All of it is, whatever
// directory the plan names. What was prepared or mounted before is of the tree that
// would be left behind.
func (a *armed) byVolume(class faults.Class) bool {
	s, room := a.s, rooms[class]
	if room == "" || !s.foreign || s.lab.open || s.full != nil || !a.outset.empty() || len(s.mounts)+len(s.preps) > 0 {
		return false
	}
	if s.hand.isDir(path.Join(spec.Workspace, spec.StateDir)) {
		return false // a host without room for its Log runs nothing
	}
	see, err := s.hand.look()
	if err != nil {
		return false
	}
	vol, err := jail.NewVolume()
	if err != nil {
		return false
	}
	h, err := onVolume(vol, s.lab)
	if err == nil {
		err = h.build(see.world)
	}
	if err == nil {
		err = vol.Leave(room)
	}
	if err != nil {
		_, _ = h.close(), vol.Close() // the plan is left to whoever answers in the kernel's place
		return false
	}
	s.full, s.hand = &full{vol, s.hand, room}, h
	a.outset.full = true
	return true
}

// past does what the bench's own hands do although there is no room.
func (s *Sandbox) past(do func() error) error {
	if s.full == nil || s.full.room == jail.Roomy {
		return do()
	}
	if err := s.full.vol.Leave(jail.Roomy); err != nil {
		return err
	}
	return errors.Join(do(), s.full.vol.Leave(s.full.room))
}

// lift makes room again, for good.
func (s *Sandbox) lift() error {
	if s.full == nil {
		return nil
	}
	s.full.room = jail.Roomy
	return s.full.vol.Leave(jail.Roomy)
}

// leave goes back to the tree that waits.
func (s *Sandbox) leave() error {
	if s.full == nil {
		return nil
	}
	err := errors.Join(s.hand.close(), s.full.vol.Close())
	s.hand, s.full = s.full.under, nil
	return err
}

// place puts the full tree before the child of cmd, if there is one.
func (a *armed) place(cmd *exec.Cmd, sp *jail.Spec) error {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.s.full == nil {
		return nil
	}
	file, err := a.s.full.vol.Pass(cmd)
	if err != nil {
		return fmt.Errorf("start in a full tree: %w", err)
	}
	for i, m := range sp.Mounts {
		if m.Path == a.s.base {
			sp.Mounts[i].File = file
		}
	}
	return nil
}
