package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/vfs"
)

// hands change and read a tree for the bench. Every path is walked below the held
// base, and no component may be a link: a subject that has planted one must not
// choose what the bench does to the host.
type hands struct {
	lab      *os.File // the folder of sandboxes
	name     string   // of room, in lab
	room     *os.File // the sandbox's own folder: the tree, and beside it what is private
	base     *os.File // the tree
	own      *os.File // where entries are made before they are seen, and go before they are removed
	uid, gid int      // of the subject
	other    int      // id of another owner; -1 where there is none
	made     int      // names given in own
}

// fresh returns a name that is free in the private folder.
func (h *hands) fresh() string {
	h.made++
	return strconv.Itoa(h.made)
}

func openHands(dir string, lab *Lab) (*hands, error) {
	h := &hands{lab: lab.folder, name: path.Base(dir), uid: lab.UID, gid: lab.GID, other: lab.other}
	for _, f := range []struct {
		file **os.File
		path string
		mode os.FileMode
	}{
		// Subjects must be able to search these, and nobody else to list them.
		{&h.room, dir, 0o711},
		{&h.base, path.Join(dir, treeName), 0o755},
		{&h.own, path.Join(dir, ownName), 0o700},
	} {
		err := os.Mkdir(f.path, 0o700)
		if err == nil || errors.Is(err, fs.ErrExist) {
			err = os.Chmod(f.path, f.mode)
		}
		if err == nil {
			*f.file, err = os.Open(f.path)
		}
		if err != nil {
			return nil, errors.Join(err, h.close())
		}
	}
	return h, nil
}

func (h *hands) close() error {
	var errs []error
	for _, f := range []**os.File{&h.own, &h.base, &h.room} {
		if *f != nil {
			errs = append(errs, (*f).Close())
			*f = nil
		}
	}
	return errors.Join(errs...)
}

// remove takes the tree away with everything made for it. It can be tried again.
func (h *hands) remove() error {
	return errors.Join(h.close(), clearAway(int(h.lab.Fd()), h.name))
}

const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV

// openBelow opens one entry of a directory, whatever it is, without following,
// waiting, or crossing into something that was mounted there.
func openBelow(dir int, name string, flags int) (int, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NOFOLLOW), Resolve: beneath}
	for {
		fd, err := unix.Openat2(dir, name, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func procPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }

// reopen opens for use what is held. It cannot be another object: it is not
// looked up by name.
func reopen(fd, flags int) (int, error) {
	for {
		again, err := unix.Open(procPath(fd), unix.O_NONBLOCK|unix.O_CLOEXEC|flags, 0)
		if !errors.Is(err, unix.EINTR) {
			return again, err
		}
	}
}

// status is what is known of an object that is held.
type status struct {
	id
	mode      uint32 // with its type
	uid       int
	links     int
	immutable bool
}

func (st status) is(typ uint32) bool { return st.mode&unix.S_IFMT == typ }

func statusOf(fd int) (status, error) {
	var x unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS, &x); err != nil {
		return status{}, err
	}
	return status{
		id:   id{uint64(x.Dev_major)<<32 | uint64(x.Dev_minor), x.Ino},
		mode: uint32(x.Mode), uid: int(x.Uid), links: int(x.Nlink),
		immutable: x.Attributes&unix.STATX_ATTR_IMMUTABLE != 0,
	}, nil
}

// flagImmutable is FS_IMMUTABLE_FL of the kernel's user interface.
const flagImmutable = 0x10

func setImmutable(held int, on bool) error {
	fd, err := reopen(held, unix.O_RDONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err == nil {
		if flags &^= flagImmutable; on {
			flags |= flagImmutable
		}
		err = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags))
	}
	if st, stErr := statusOf(fd); err == nil && (stErr != nil || st.immutable != on) {
		err = errors.Join(stErr, unix.EOPNOTSUPP) // where it cannot be seen it could not be lifted again
	}
	if err != nil {
		return fmt.Errorf("%w: the immutable flag: %w", sandbox.ErrCannot, err)
	}
	return nil
}

// The rights that the bench needs of a directory or file.
const (
	toSearch = 0o100
	toWrite  = 0o200
	toRead   = 0o400
)

// loans are what stood in the bench's way and is put back when it is done: bits
// that an ordinary user's own entries lack, flags that bind even root.
type loans []loan

type loan struct {
	fd        int
	mode      uint32 // as it was; noMode if it was not changed
	immutable bool
}

const noMode = ^uint32(0)

// lend gives the bench the rights that it needs of what fd holds. To alter is to
// need it free of the immutable flag too.
func (l *loans) lend(fd int, rights uint32, alter bool) error {
	st, err := statusOf(fd)
	if err != nil {
		return err
	}
	due := loan{mode: noMode, immutable: alter && st.immutable}
	if os.Geteuid() != 0 && st.mode&rights != rights {
		due.mode = st.mode & 0o7777
	}
	if due.mode == noMode && !due.immutable {
		return nil
	}
	// Held before anything is changed: what cannot be given back is not taken.
	if due.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err != nil {
		return err
	}
	if due.mode != noMode {
		err = unix.Chmod(procPath(fd), due.mode|rights)
	} else {
		err = setImmutable(fd, false)
	}
	if err != nil {
		return errors.Join(err, unix.Close(due.fd))
	}
	*l = append(*l, due)
	return nil
}

// repay gives everything back, the last first.
func (l *loans) repay() error {
	var errs []error
	for i := len(*l) - 1; i >= 0; i-- {
		due := (*l)[i]
		if due.mode != noMode {
			errs = append(errs, unix.Chmod(procPath(due.fd), due.mode))
		}
		if due.immutable {
			errs = append(errs, setImmutable(due.fd, true))
		}
		errs = append(errs, unix.Close(due.fd))
	}
	*l = nil
	return errors.Join(errs...)
}

// spot is an entry, or the place for one, in a directory that is held.
type spot struct {
	h    *hands
	dir  int
	name string
	loans
	held []int
}

// on runs f on the entry p, with the rights that f needs of the directory.
func (h *hands) on(op, p string, rights uint32, f func(s *spot) error) error {
	s, err := h.at(p, rights)
	if err == nil {
		err = errors.Join(f(s), s.close())
	}
	if err != nil {
		return &fs.PathError{Op: op, Path: p, Err: err}
	}
	return nil
}

// at holds the directory that p is in.
func (h *hands) at(p string, rights uint32) (*spot, error) {
	dir, name := path.Split(p)
	s := &spot{h: h, name: name, dir: -1}
	if err := vfs.CheckName(name); err != nil {
		return nil, err
	}
	fd, err := unix.FcntlInt(h.base.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s.dir = fd
	for c := range strings.SplitSeq(strings.Trim(dir, "/"), "/") {
		if c == "" {
			continue
		}
		next := -1
		if err = s.lend(s.dir, toSearch, false); err == nil {
			next, err = openBelow(s.dir, c, unix.O_PATH|unix.O_DIRECTORY)
		}
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		_ = unix.Close(s.dir) // nothing was written through it
		s.dir = next
	}
	if err := s.lend(s.dir, rights, rights&toWrite != 0); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *spot) close() error {
	err := s.repay()
	for _, fd := range append(s.held, s.dir) {
		_ = unix.Close(fd)
	}
	return err
}

// open holds the entry itself.
func (s *spot) open() (int, status, error) {
	fd, err := openBelow(s.dir, s.name, unix.O_PATH)
	if err != nil {
		return -1, status{}, err
	}
	s.held = append(s.held, fd)
	st, err := statusOf(fd)
	return fd, st, err
}

// mine is open for an entry that is to be changed in itself. One that belongs to
// neither of the tree's owners is refused: it is a file of the host that a subject
// has given a further name here, so that the bench changes it for the subject.
func (s *spot) mine() (int, status, error) {
	fd, st, err := s.open()
	if err == nil && st.uid != s.h.uid && st.uid != s.h.other {
		err = fmt.Errorf("it belongs to %d, who is not of this tree: %w", st.uid, unix.EPERM)
	}
	return fd, st, err
}
