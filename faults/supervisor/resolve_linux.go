//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
)

// end is what a path of a call ends in: an entry of a directory, which may be vacant.
type end struct {
	dir  int // handle of the directory; -1 for an object that is not named as an entry
	name string
	obj  int // handle of what is there; -1 if nothing is
	path faults.Raw
	was  *object // what was there when it was looked at
}

func (e end) close() {
	for _, fd := range []int{e.dir, e.obj} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}

// again looks what is there now.
func (e *end) again() error {
	if e.obj >= 0 {
		_ = unix.Close(e.obj)
	}
	var err error
	e.obj, err = unix.Openat(e.dir, e.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	return err
}

const mostLinks = 40 // that the kernel follows

// find adds what a path of a call ends in. Where the kernel will refuse the path it
// adds nothing, and the call is odd if it succeeds all the same.
func (r *recorder) find(d *draft, dirArg, pathArg int, follow bool) {
	text, err := readString(d.tid, d.info.arg(pathArg))
	start := fmt.Sprintf("/proc/%d/cwd", d.tid)
	if dirArg >= 0 && int32(d.info.arg(dirArg)) != unix.AT_FDCWD {
		start = descriptor(d.tid, d.info.arg(dirArg))
	}
	if err != nil && d.info.arg(pathArg) == 0 && dirArg >= 0 {
		text, err = "", nil // utimensat and others mean the descriptor itself
	}
	if err == nil {
		err = r.walk(d, start, text, follow, mostLinks)
	}
	if err != nil {
		d.odd = errors.Join(d.odd, fmt.Errorf("what it names could not be found: %w", err))
	}
}

// walk finds the end of a path from start, as the subject meets it.
func (r *recorder) walk(d *draft, start, text string, follow bool, links int) error {
	if text == "" {
		return r.object(d, start)
	}
	dir, name := path.Split(strings.TrimRight(text, "/"))
	if name == "" || name == "." || name == ".." {
		full := text
		if !path.IsAbs(text) {
			full = start + "/" + text
		}
		return r.object(d, full)
	}
	switch {
	case path.IsAbs(dir):
		dir = theirs(dir, d.tid)
	default:
		dir = start + "/" + dir
	}
	e, err := r.enter(dir, d.tid)
	if err != nil {
		return err
	}
	e.name = name
	err = e.again()
	switch {
	case errors.Is(err, unix.ENOENT):
		e.obj = -1
	case err != nil:
		e.obj = -1
		e.close()
		return err
	case follow && isLink(e.obj):
		defer e.close()
		return r.followed(d, e, links)
	}
	e.path, e.was = faults.Raw(path.Join(string(r.path(e.dir)), name)), r.knownFD(e.obj)
	d.ends = append(d.ends, e)
	return nil
}

// followed goes on at the text of a link. One of the kernel's own leads to an object
// and not to a name.
func (r *recorder) followed(d *draft, e end, links int) error {
	if links == 0 {
		return unix.ELOOP
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(e.dir, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return r.object(d, selfFD(e.dir)+"/"+e.name)
	}
	text, err := textOf(e.obj)
	if err != nil {
		return err
	}
	return r.walk(d, selfFD(e.dir), text, true, links-1)
}

// object adds what is at p, links followed, without a name.
func (r *recorder) object(d *draft, p string) error {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	d.ends = append(d.ends, end{dir: -1, obj: fd, path: r.path(fd), was: r.knownFD(fd)})
	return nil
}

// enter opens a directory. /proc/self is the subject's.
func (r *recorder) enter(dir string, tid int) (end, error) {
	e := end{dir: -1, obj: -1}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return e, err
	}
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(selfFD(fd), buf)
	mine := fmt.Sprintf("/proc/%d/", os.Getpid())
	if rest, ok := strings.CutPrefix(string(buf[:max(n, 0)])+"/", mine); err == nil && ok {
		_ = unix.Close(fd)
		fd, err = unix.Open(fmt.Sprintf("/proc/%d/%s", tid, rest), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return e, err
	}
	e.dir = fd
	return e, nil
}

// theirs makes of a path that means the reader's own one that means a thread's.
func theirs(p string, tid int) string {
	for _, self := range []string{"/proc/self/", "/proc/thread-self/"} {
		if rest, ok := strings.CutPrefix(p, self); ok {
			return fmt.Sprintf("/proc/%d/%s", tid, rest)
		}
	}
	if rest, ok := strings.CutPrefix(p, "/dev/fd/"); ok {
		return fmt.Sprintf("/proc/%d/fd/%s", tid, rest)
	}
	return p
}

func isLink(fd int) bool {
	st, err := statOf(fd)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// textOf reads a link that fd is a handle of.
func textOf(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
