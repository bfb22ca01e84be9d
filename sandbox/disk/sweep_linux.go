package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/sandbox/jail"
)

// markerName is a file in a lab's folder that says whose it is: a process, by its
// number and the moments at which it and the machine were started, since numbers
// are given out again.
const markerName = ".fsbench-owner"

// maxMarker is more than a marker has, in bytes.
const maxMarker = 256

// markerOf is the text of the marker of a process; it fails if there is none.
func markerOf(pid int) (string, error) {
	start, boot, err := jail.Started(pid)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("fsbench lab of process %d started %s boot %s\n", pid, start, boot), nil
}

// mark leaves the marker of the parent, for which this process works.
func mark(dir string) error {
	text, err := markerOf(os.Getppid())
	if err != nil {
		return fmt.Errorf("mark the folder: %w", err)
	}
	return os.WriteFile(filepath.Join(dir, markerName), []byte(text), 0o600)
}

// Sweep removes the folders below parent, and the control groups, that benches have left which were killed
// together with those who clean up after them, and returns their names. It touches
// nothing without a marker of this user's own, and nothing of a bench that is alive.
// An empty parent is the system's folder for temporary files.
func Sweep(parent string) (removed []string, err error) {
	if parent == "" {
		parent = os.TempDir()
	}
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("look for leftovers: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), labPrefix) || !e.IsDir() {
			continue
		}
		folder, ok := leftover(filepath.Join(parent, e.Name()))
		if !ok {
			continue
		}
		if err = sweep(folder); err == nil {
			removed = append(removed, folder.Name())
		}
		errs = append(errs, err, folder.Close())
	}
	groups, err := jail.SweepGroups()
	removed, errs = append(removed, groups...), append(errs, err)
	slices.Sort(removed)
	if err := errors.Join(errs...); err != nil {
		return removed, fmt.Errorf("remove leftovers: %w", err)
	}
	return removed, nil
}

// leftover opens a folder that was a dead bench's, and not what is somebody
// else's, or not known to be anybody's. Whoever may write in parent can
// make folders of such names, and links to the folders of others.
func leftover(dir string) (folder *os.File, ok bool) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	folder = os.NewFile(uintptr(fd), dir)
	text, ours := readMarker(fd)
	if !ours || !dead(text) {
		_ = folder.Close() // it was only read
		return nil, false
	}
	return folder, true
}

// readMarker returns the marker in the directory fd, if it and the directory are
// this user's. A file of another, a link or a FIFO is no marker.
func readMarker(fd int) (string, bool) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || int(st.Uid) != os.Geteuid() {
		return "", false
	}
	m, err := unix.Openat(fd, markerName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer unix.Close(m)
	err = unix.Fstat(m, &st)
	if err != nil || int(st.Uid) != os.Geteuid() || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1 {
		return "", false
	}
	text := make([]byte, maxMarker)
	n, err := unix.Read(m, text)
	return string(text[:max(n, 0)]), err == nil
}

// dead reports whether text is the marker of a process that is no more.
func dead(text string) bool {
	var pid int
	var start uint64
	var boot string
	n, err := fmt.Sscanf(text, "fsbench lab of process %d started %d boot %s\n", &pid, &start, &boot)
	if n != 3 || err != nil || pid <= 0 {
		return false
	}
	now, err := markerOf(pid)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	return err == nil && now != text
}
