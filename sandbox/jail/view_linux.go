package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// view makes what the child sees of the file system. Everything that it is to find
// is opened before anything is hidden, and put in its place after that, what lies
// above before what lies below.
func view(o order) error {
	unix.Umask(0)
	if o.Mount {
		// Private first, so that nothing made here shows anywhere else.
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("make mounts private: %w", err)
		}
		if err := arrange(o); err != nil {
			return err
		}
	}
	if o.Init {
		// Subjects of other sandboxes are the same user, whose memory could be had
		// from the host's folder of processes. An ordinary user's are kept apart by
		// their namespaces of users, and may not be allowed to mount this one.
		err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
		if err != nil && !o.Open {
			return fmt.Errorf("mount a folder of processes: %w", err)
		}
	}
	// The bench's folder is still open as the current one, under what hides it: from
	// there ".." leads everywhere.
	if len(o.Argv) == 0 || os.Chdir(o.Dir) != nil {
		return os.Chdir("/")
	}
	return nil
}

func arrange(o order) error {
	mounts, err := copyMounts(o.Mounts)
	if err != nil {
		return err
	}
	if o.Open {
		return attachAll(mounts)
	}
	parts, err := furnish(o.Places)
	if err == nil {
		err = attachAll(mounts)
	}
	if err != nil {
		return err
	}
	// Not earlier: in what is hidden, places had to be made for what is not.
	for i, p := range o.Places {
		if p.Kind == covered || p.Kind == devices {
			if err := readOnly(parts[i].fd, 0); err != nil {
				return fmt.Errorf("make %s read-only: %w", p.Path, err)
			}
		}
		_ = unix.Close(parts[i].fd)
	}
	return nil
}

// part is a mount that is ready to be put in its place.
type part struct {
	path string
	fd   int
}

func attachAll(parts []part) error {
	for _, m := range parts {
		if err := m.attach(); err != nil {
			return err
		}
		_ = unix.Close(m.fd)
	}
	return nil
}

// attach puts the mount over what is at its path now.
func (m part) attach() error {
	to, err := open(m.path)
	if errors.Is(err, unix.ENOENT) {
		if err = m.makePoint(); err == nil {
			to, err = open(m.path)
		}
	}
	if err == nil {
		err = unix.MoveMount(m.fd, "", to, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
		_ = unix.Close(to)
	}
	if err != nil {
		return fmt.Errorf("mount %s: %w", m.path, err)
	}
	return nil
}

// makePoint makes what the mount can be put over, in a folder that was emptied.
func (m part) makePoint() error {
	var st unix.Stat_t
	if err := unix.Fstat(m.fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return os.MkdirAll(m.path, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(m.path), 0o755); err != nil {
		return err
	}
	return unix.Mknod(m.path, unix.S_IFREG|0o644, 0)
}

// open holds what is at p now. A link anywhere in it ends the jail: the tree is the
// subject's, and a subject of before may have planted one to have something else of
// the host mounted.
func open(p string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, p, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// duplicate returns a mount of what is at p, with what is mounted below it.
func duplicate(p string) (part, error) {
	fd, err := open(p)
	if err != nil {
		return part{}, err
	}
	defer unix.Close(fd)
	m, err := unix.OpenTree(fd, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH|unix.AT_RECURSIVE)
	return part{p, m}, err
}

func readOnly(fd int, flags uint) error {
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|flags, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

func copyMounts(list []Mount) ([]part, error) {
	var parts []part
	for _, m := range list {
		if m.File > 0 {
			// What is mounted inside it is found below its path.
			if err := (part{m.Path, m.File}).attach(); err != nil {
				return nil, err
			}
			_ = unix.Close(m.File)
		}
		c, err := duplicate(m.Path)
		if err == nil && m.ReadOnly {
			err = readOnly(c.fd, unix.AT_RECURSIVE)
		}
		if err != nil {
			return nil, fmt.Errorf("bind %s: %w", m.Path, err)
		}
		parts = append(parts, c)
	}
	return parts, nil
}

// nodes are the devices that a child has, and links what programs expect beside
// them.
var (
	nodes = []string{"full", "null", "random", "urandom", "zero"}
	links = map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
)

// furnish makes all that the host has read-only, and puts the places over it. It
// returns them in the order of places.
func furnish(places []place) ([]part, error) {
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return nil, fmt.Errorf("make the host's files read-only: %w", err)
	}
	parts := make([]part, len(places))
	var err error
	for i, p := range places {
		if p.Kind != shown {
			continue
		}
		if parts[i], err = duplicate(p.From); err != nil {
			return nil, fmt.Errorf("show %s: %w", p.From, err)
		}
		parts[i].path = p.Path
	}
	devs := make([]part, len(nodes))
	for i, name := range nodes {
		if devs[i], err = duplicate("/dev/" + name); err != nil {
			return nil, fmt.Errorf("show /dev/%s: %w", name, err)
		}
	}
	if err := stock(places, parts); err != nil {
		return nil, fmt.Errorf("make room for what is hidden: %w", err)
	}
	for i, p := range places {
		if err := parts[i].attach(); err != nil {
			return nil, err
		}
		if p.Kind == devices {
			if err := attachAll(devs); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}

// store is where a file system in memory is mounted that holds all that is empty or
// scratch, for as long as it takes to make mounts of its folders: what stands for
// the host's own folder covers it. That it is one makes its bounds those of the
// child as a whole, and saves a file system for every place.
const store = "/dev"

func stock(places []place, parts []part) error {
	// What is hidden is asked before the store hides a part of it.
	files := make([]bool, len(places))
	for i, p := range places {
		if p.Kind != covered {
			continue
		}
		var st unix.Stat_t
		if err := unix.Lstat(p.Path, &st); err != nil {
			return &os.PathError{Op: "stat", Path: p.Path, Err: err}
		}
		files[i] = st.Mode&unix.S_IFMT != unix.S_IFDIR
	}
	bounds := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", scratchBytes, scratchFiles)
	if err := unix.Mount("tmpfs", store, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, bounds); err != nil {
		return err
	}
	for i, p := range places {
		if p.Kind == shown {
			continue
		}
		name := filepath.Join(store, strconv.Itoa(i))
		var err error
		switch {
		case files[i]:
			err = unix.Mknod(name, unix.S_IFREG|0o444, 0)
		case p.Kind == scratch:
			err = unix.Mkdir(name, 0o1777)
		default:
			err = unix.Mkdir(name, 0o755)
		}
		if err == nil && p.Kind == devices {
			err = equip(name)
		}
		if err == nil {
			parts[i], err = duplicate(name)
			parts[i].path = p.Path
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// equip makes dir a folder of devices, but for the devices.
func equip(dir string) error {
	for name, to := range links {
		if err := unix.Symlink(to, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return unix.Mkdir(filepath.Join(dir, "shm"), 0o755)
}
