package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const selfExe = "/proc/self/exe"

// Possible reports why this machine, or this user, cannot start a child under s.
func (s Spec) Possible() error {
	if os.Geteuid() == 0 {
		if len(s.Mounts) > 0 {
			return mountNamespaces()
		}
		return nil
	}
	if s.UID != os.Getuid() || s.GID != os.Getgid() {
		return errors.New("only root can start a child under another identity")
	}
	return userNamespaces()
}

// userNamespaces tries once whether an ordinary user gets a namespace here, and
// mountNamespaces whether this root does: root in a container often does not.
var (
	userNamespaces = sync.OnceValue(func() error {
		cmd := probe()
		own(cmd, os.Getuid(), os.Getgid())
		return start(cmd, "this system gives ordinary users no user namespace")
	})
	mountNamespaces = sync.OnceValue(func() error {
		cmd := probe()
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		return start(cmd, "this root may not make mounts of its own")
	})
)

func probe() *exec.Cmd {
	return &exec.Cmd{Path: selfExe, Args: []string{stageName, "probe"}}
}

func start(cmd *exec.Cmd, otherwise string) error {
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s: %w", otherwise, err)
	}
	_ = cmd.Wait() // the stage refuses its order: that it ran is all that was asked
	return nil
}

// own puts cmd into a user namespace of one id. The capability to mount is handed
// through to the stage, which gives it up.
func own(cmd *exec.Cmd, uid, gid int) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:                 syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings:                []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}},
		GidMappings:                []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}},
		GidMappingsEnableSetgroups: false,
		AmbientCaps:                []uintptr{unix.CAP_SYS_ADMIN},
	}
}

func (s Spec) namespaces(cmd *exec.Cmd) {
	switch {
	case os.Geteuid() != 0:
		own(cmd, s.UID, s.GID)
	case len(s.Mounts) > 0:
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	}
}

// stage makes the mounts, takes the identity and becomes the child.
func stage(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	runtime.LockOSThread() // capabilities and the parent's death are a thread's affair
	if len(o.Mounts) > 0 {
		if err := mounts(o.Mounts); err != nil {
			return err
		}
	}
	if os.Geteuid() == 0 {
		if err := become(o.UID, o.GID); err != nil {
			return err
		}
	} else if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	// A change of identity has cleared this; if the parent died before, nobody is
	// left to be told.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the parent: %w", err)
	}
	if os.Getppid() != o.Parent {
		return errors.New("the parent is gone")
	}
	unix.Umask(o.Umask)
	return fmt.Errorf("start %s: %w", o.Argv[0], unix.Exec(o.Path, o.Argv, o.Env))
}

func become(uid, gid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("take group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("take user %d: %w", uid, err)
	}
	return nil
}

// mounts are private first, so that nothing made here shows anywhere else.
func mounts(list []Mount) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range list {
		if err := unix.Mount(m.Path, m.Path, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", m.Path, err)
		}
	}
	for _, m := range list {
		if !m.ReadOnly {
			continue
		}
		attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(unix.AT_FDCWD, m.Path, unix.AT_SYMLINK_NOFOLLOW, attr); err != nil {
			return fmt.Errorf("make %s read-only: %w", m.Path, err)
		}
	}
	return nil
}
