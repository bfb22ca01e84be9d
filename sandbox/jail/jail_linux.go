package jail

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const selfExe = "/proc/self/exe"

// namespaces are what a child has of its own, as flags of clone.
type namespaces uintptr

const (
	ownMounts namespaces = unix.CLONE_NEWNS
	ownUsers  namespaces = unix.CLONE_NEWUSER

	// ownLife keeps a child from signalling and from outliving the bench, from leaving
	// shared memory behind, and from renaming the machine.
	ownLife namespaces = unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS

	noNetwork namespaces = unix.CLONE_NEWNET
)

// apart is what keeps a child under s from whom it is not to meet.
func (s Spec) apart() namespaces {
	if s.Network {
		return ownLife
	}
	return ownLife | noNetwork
}

// ladder lists what is tried, the most first. An ordinary user needs a namespace
// of users to get any other. Both are often refused all of them, root in a container
// and users by the machine's owner, and can do without where there is nothing to mount.
func (s Spec) ladder() []namespaces {
	own, apart := ownMounts, s.apart()
	if os.Geteuid() != 0 {
		own |= ownUsers
	}
	if s.mounts() {
		return []namespaces{own | apart, own}
	}
	return []namespaces{own | apart, 0}
}

// mounts reports whether anything is to be mounted.
func (s Spec) mounts() bool { return !s.Open || len(s.Mounts) > 0 }

// known holds what worked once, by what it was for. A failure is tried again: it
// may have been of the moment, and costs no more than the child that it prevents.
var known sync.Map

type purpose struct {
	uid, gid     int
	mounts, open bool
	network      bool
}

// trust returns the namespaces that a child under s gets. They were tried with a
// stage that does everything but start a child: that a namespace can be had does
// not say that anything can be mounted in it, and root may lack the right to
// become somebody else.
func (s Spec) trust() (namespaces, error) {
	if os.Geteuid() != 0 && (s.UID != os.Getuid() || s.GID != os.Getgid()) {
		return 0, errors.New("only root can start a child under another identity")
	}
	if !s.Open && s.UID == 0 {
		return 0, errors.New("nothing of root's can be kept from a child that is root; name another identity")
	}
	key := purpose{s.UID, s.GID, s.mounts(), s.Open, s.Network}
	if ns, ok := known.Load(key); ok {
		return ns.(namespaces), nil //nolint:forcetypeassert // nothing else is stored
	}
	var last error
	for _, ns := range s.ladder() {
		if last = s.try(ns); last == nil {
			known.Store(key, ns)
			return ns, nil
		}
	}
	return 0, last
}

func (s Spec) try(ns namespaces) error {
	o := order{Spec: s, Parent: os.Getpid()}
	o.Files, o.Group = 0, 0 // nobody has opened them yet
	if len(s.Mounts) > 0 {
		o.Mounts = []Mount{{Path: s.Mounts[0].Path, ReadOnly: true}}
	}
	var err error
	if o.Places, err = (Spec{Open: s.Open}).places(); err != nil {
		return err
	}
	var said bytes.Buffer
	cmd := &exec.Cmd{Stderr: &said}
	if err := ns.stage(cmd, o); err != nil {
		return err
	}
	err = cmd.Run()
	why := strings.TrimPrefix(strings.TrimSpace(said.String()), "fsbench: jail: ")
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*exec.ExitError)) && why != "":
		return errors.New(why)
	case ns&ownUsers != 0:
		return fmt.Errorf("this system gives ordinary users no namespaces: %w", err)
	}
	return fmt.Errorf("this root gets no namespaces: %w", err)
}

// Shares says what a child under s shares with the bench although it should not;
// empty where it shares nothing of that kind.
func (s Spec) Shares() string {
	ns, err := s.trust()
	if err != nil {
		return ""
	}
	var shared []string
	if s.Open {
		shared = append(shared, "the host's files")
	}
	if apart := s.apart(); ns&apart != apart {
		shared = append(shared, "processes and network: this system gives no namespaces for them")
	}
	return strings.Join(shared, "; ")
}

// stage makes cmd the stage that carries out o in namespaces of its own.
func (ns namespaces) stage(cmd *exec.Cmd, o order) error {
	o.Mount, o.Init = ns&ownMounts != 0, ns&ownLife == ownLife
	argv, err := o.argv()
	if err != nil {
		return err
	}
	// By this name, and not by the program's path: another identity may not be able
	// to search the folder that the program lies in.
	cmd.Path, cmd.Args = selfExe, argv
	cmd.Env = []string{} // it may stay beside the child, who is not to read what the bench was given
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(ns), Setsid: true}
	if o.Group > 0 {
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, o.Group
	}
	if ns&ownUsers != 0 {
		// Groups cannot be given up here: an ordinary user could reach what a group
		// is denied by leaving it, so the kernel forbids that. What the stage needs
		// for mounts and limits is handed through the exec to it, and given up by it.
		asOneself(cmd.SysProcAttr, o.UID, o.GID)
	}
	return nil
}
