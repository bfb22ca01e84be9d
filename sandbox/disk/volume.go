package disk

import (
	"errors"
	"fmt"
	"os/exec"
	"path"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// ground is a volume of its own under the tree of a stranger: what he fills is neither
// the host's disk nor more memory than the volume may take, and it can be made full.
type ground struct {
	vol   *jail.Volume
	under *hands // the folder on the host where he finds the tree
	room  jail.Room
}

// settleOn moves the empty tree to a volume. It stays where it is if this user gets no
// volume, if nothing would keep the subject on it, or if it can do less.
func (s *Sandbox) settleOn(l *Lab) {
	if l.open || l.cannot != nil || l.cannotMount() != nil {
		return
	}
	vol, err := jail.NewVolume()
	if err != nil {
		return
	}
	root := procPath(int(vol.Root().Fd()))
	fsys, err := osfs.Probe(root)
	if err != nil || fsys.Caps() != l.caps {
		_ = vol.Close()
		return
	}
	h, err := openHands(root, l)
	if err != nil {
		_ = vol.Close()
		return
	}
	s.ground, s.hand = &ground{vol, s.hand, jail.Roomy}, h
}

// rooms are what a full file system refuses, by what it has run out of.
var rooms = map[faults.Class]jail.Room{faults.Create: jail.NoFiles, faults.Modify: jail.NoBytes}

// byVolume fills the volume. All of the tree is full, whatever directory the plan names.
func (a *armed) byVolume(class faults.Class) bool {
	s, room := a.s, rooms[class]
	if room == "" || s.ground == nil || s.ground.room != jail.Roomy || !a.outset.empty() || len(s.mounts)+len(s.preps) > 0 {
		return false
	}
	if s.hand.isDir(path.Join(spec.Workspace, spec.StateDir)) {
		return false // a host without room for its Log runs nothing
	}
	if err := s.ground.leave(room); err != nil {
		return false // the plan is left to whoever answers in the kernel's place
	}
	a.outset.full = true
	return true
}

func (g *ground) leave(r jail.Room) error {
	g.room = r
	return g.vol.Leave(r)
}

// past does what the bench's own hands do although there is no room.
func (s *Sandbox) past(do func() error) error {
	if s.ground == nil || s.ground.room == jail.Roomy {
		return do()
	}
	if err := s.ground.vol.Leave(jail.Roomy); err != nil {
		return err
	}
	return errors.Join(do(), s.ground.vol.Leave(s.ground.room))
}

// lift makes room again, for good.
func (s *Sandbox) lift() error {
	if s.ground == nil || s.ground.room == jail.Roomy {
		return nil
	}
	return s.ground.leave(jail.Roomy)
}

// raze removes the tree, with the volume that it may be on.
func (s *Sandbox) raze() error {
	if s.ground == nil {
		return s.hand.remove()
	}
	err := errors.Join(s.hand.close(), s.ground.vol.Close(), s.ground.under.remove())
	s.hand, s.ground = s.ground.under, nil
	return err
}

// place puts the volume before the child of cmd, if there is one.
func (s *Sandbox) place(cmd *exec.Cmd, sp *jail.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ground == nil {
		return nil
	}
	file, err := s.ground.vol.Pass(cmd)
	if err != nil {
		return fmt.Errorf("start on a volume: %w", err)
	}
	for i, m := range sp.Mounts {
		if m.Path == s.base {
			sp.Mounts[i].File = file
		}
	}
	return nil
}
