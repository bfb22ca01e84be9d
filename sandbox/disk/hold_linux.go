package disk

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/spec"
)

// held is an object that the bench keeps hold of while a subject, or an adversary,
// may move it about or put something else in its place.
type held struct {
	fd int
	id id
}

// hold keeps hold of the entry p.
func (h *hands) hold(p string) (*held, error) {
	x := &held{fd: -1}
	err := h.on("hold", p, toSearch, func(s *spot) error {
		fd, st, err := s.mine()
		if err == nil {
			x.id = st.id
			x.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		}
		return err
	})
	return x, err
}

func (x *held) close() { _ = unix.Close(x.fd) }

// where returns the path that the object has in the tree now. The kernel follows
// the very name under which it was opened; of another name it knows nothing.
func (h *hands) where(x *held) (p string, ok bool) {
	base, err := os.Readlink(procPath(int(h.base.Fd())))
	if err != nil {
		return "", false
	}
	now, err := os.Readlink(procPath(x.fd))
	if err != nil {
		return "", false
	}
	return strings.CutPrefix(now, base+"/")
}

func (x *held) isDir() bool {
	st, err := statusOf(x.fd)
	return err == nil && st.is(unix.S_IFDIR)
}

func (x *held) immutable() bool {
	st, err := statusOf(x.fd)
	return err == nil && st.immutable
}

func (x *held) setImmutable(on bool) error { return setImmutable(x.fd, on) }

func (x *held) mode() (spec.Mode, error) {
	st, err := statusOf(x.fd)
	return spec.Mode(st.mode & 0o7777), err
}

// chmod sets the mode, past the flag.
func (x *held) chmod(mode spec.Mode) error {
	var l loans
	if err := l.lend(x.fd, 0, true); err != nil {
		return err
	}
	return errors.Join(unix.Chmod(procPath(x.fd), uint32(mode)), l.repay())
}

// isDir reports whether p is a directory, reached through no link.
func (h *hands) isDir(p string) bool {
	return h.on("look", p, toSearch, func(s *spot) error {
		_, st, err := s.open()
		if err == nil && !st.is(unix.S_IFDIR) {
			err = unix.ENOTDIR
		}
		return err
	}) == nil
}
