package jail

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Volume is a file system in memory that can be made full. It is mounted nowhere on the
// host: a process of this very program keeps it in namespaces of its own, and it goes
// with that process and with those who hold it.
type Volume struct {
	keeper *exec.Cmd
	line   *os.File
	root   *os.File
	passed *os.File // mount that the last child was given
}

// NewVolume makes a roomy one. It fails where this user gets no mounts.
func NewVolume() (*Volume, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a volume: %w", err)
	}
	v := &Volume{line: os.NewFile(uintptr(pair[0]), "keeper")}
	theirs := os.NewFile(uintptr(pair[1]), "bench")
	defer func() { _ = theirs.Close() }()
	v.keeper = &exec.Cmd{Path: selfExe, Args: []string{volumeName}, Env: []string{}, Dir: "/", ExtraFiles: []*os.File{theirs}}
	v.keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Setsid: true}
	if os.Geteuid() != 0 {
		asOneself(v.keeper.SysProcAttr, os.Getuid(), os.Getgid())
	}
	if err := v.keeper.Start(); err != nil {
		_ = v.line.Close()
		return nil, fmt.Errorf("make a volume: %w", err)
	}
	if v.root, err = v.ask("/"); err != nil {
		return nil, errors.Join(fmt.Errorf("make a volume: %w", err), v.Close())
	}
	return v, nil
}

// Root is the whole volume. The folder tree in it is what children get.
func (v *Volume) Root() *os.File { return v.root }

// Leave makes room, or takes it away.
func (v *Volume) Leave(r Room) error {
	_, err := v.ask(string(r))
	if err != nil {
		return fmt.Errorf("leave a volume %s: %w", r, err)
	}
	return nil
}

// Pass has cmd inherit a mount of the tree, and returns its descriptor there, as
// Mount.File wants it. The command that it was called for before has started by then.
func (v *Volume) Pass(cmd *exec.Cmd) (int, error) {
	f, err := v.ask(volumeTree)
	if err != nil {
		return 0, fmt.Errorf("mount a volume: %w", err)
	}
	if v.passed != nil {
		_ = v.passed.Close()
	}
	v.passed = f
	cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	return beyond + len(cmd.ExtraFiles) - 1, nil
}

// Close ends the keeper.
func (v *Volume) Close() error {
	errs := []error{v.line.Close()}
	for _, f := range []*os.File{v.passed, v.root} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(append(errs, v.keeper.Wait())...)
}

// ask sends the keeper a word, and returns what came with its answer, if it is a mount.
func (v *Volume) ask(word string) (*os.File, error) {
	fd := int(v.line.Fd())
	if err := unix.Sendmsg(fd, []byte(word), nil, nil, unix.MSG_NOSIGNAL); err != nil {
		return nil, err
	}
	said, rights := make([]byte, 512), make([]byte, unix.CmsgSpace(4))
	n, rn, _, _, err := unix.Recvmsg(fd, said, rights, unix.MSG_CMSG_CLOEXEC)
	switch {
	case err != nil:
		return nil, err
	case n == 0:
		return nil, errors.New("its keeper is gone")
	case string(said[:n]) != "ok":
		return nil, errors.New(string(said[:n]))
	case rn == 0:
		return nil, nil //nolint:nilnil // not every answer brings one
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rn])
	if err != nil {
		return nil, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fds[0]), word), nil
}

// asOneself gives a process a namespace of users in which it is who it was, and may
// mount.
func asOneself(attr *syscall.SysProcAttr, uid, gid int) {
	attr.Cloneflags |= unix.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_DAC_READ_SEARCH, unix.CAP_SYS_RESOURCE}
}

// keep is what the keeper does: it answers until nobody asks any more.
func keep() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", store, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, roomy); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	// One that holds nothing at all could not be full: no bounds mean no bound.
	if err := os.WriteFile(store+"/ballast", []byte{1}, 0o600); err != nil {
		return err
	}
	unix.CloseOnExec(beyond)
	for {
		word := make([]byte, 64)
		n, _, _, _, err := unix.Recvmsg(beyond, word, nil, 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil || n == 0:
			return err
		}
		if err := serve(string(word[:n])); err != nil {
			return err
		}
	}
}

// volumeBytes are few enough that a whole volume fits in a line of a trace, whatever it
// is full of.
const volumeBytes = 8 << 20

var roomy = fmt.Sprintf("mode=0711,size=%d,nr_inodes=%d", volumeBytes, scratchFiles)

// serve answers one word.
func serve(word string) error {
	var rights []byte
	var err error
	switch Room(word) {
	case Roomy, NoBytes, NoFiles:
		err = resize(Room(word))
	default:
		var fd int
		if fd, err = clonedMount(store + "/" + strings.Trim(word, "/")); err == nil {
			defer unix.Close(fd)
			rights = unix.UnixRights(fd)
		}
	}
	said := "ok"
	if err != nil {
		said = err.Error()
	}
	return unix.Sendmsg(beyond, []byte(said), rights, nil, unix.MSG_NOSIGNAL)
}

func clonedMount(p string) (int, error) {
	return unix.OpenTree(unix.AT_FDCWD, p, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
}

// resize bounds the volume to what it holds now. The kernel takes no bound below that,
// and none is meant by nought.
func resize(r Room) error {
	var st unix.Statfs_t
	if err := unix.Statfs(store, &st); err != nil {
		return err
	}
	options := roomy
	switch r {
	case NoBytes:
		options = fmt.Sprintf("size=%d,nr_inodes=%d", int64(st.Blocks-st.Bfree)*st.Bsize, scratchFiles)
	case NoFiles:
		options = fmt.Sprintf("size=%d,nr_inodes=%d", volumeBytes, st.Files-st.Ffree)
	case Roomy:
	}
	return unix.Mount("", store, "", unix.MS_REMOUNT|unix.MS_NOSUID|unix.MS_NODEV, options)
}
