package disk

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mostRounds bounds how often a directory is emptied that does not get empty: a
// subject that is still alive may be filling it.
const mostRounds = 100

// clearAway removes one sandbox from the lab, or a file of the lab's own.
func clearAway(lab int, name string) error {
	room, st, err := freed(lab, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove %q: %w", name, err)
	}
	defer unix.Close(room)
	if !st.is(unix.S_IFDIR) {
		return unlinkFreed(lab, name, room, st)
	}
	names, err := list(room)
	errs := []error{err}
	for _, n := range names {
		errs = append(errs, bury(room, n))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return unix.Unlinkat(lab, name, unix.AT_REMOVEDIR)
}

// list returns the names in a directory that only the bench can add to.
func list(held int) ([]string, error) {
	fd, err := reopen(held, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "")
	names, err := f.Readdirnames(-1)
	if errors.Is(err, unix.ENOENT) {
		err = nil // it is removed already
	}
	return names, errors.Join(err, f.Close())
}

// bury takes name in the directory room away with everything below, past modes and
// flags. Directories inside are first moved up into room, one by one: however deep
// a subject has nested them, only one is open at a time.
func bury(room int, name string) error {
	g := gravedigger{room: room, todo: []string{name}}
	for len(g.todo) > 0 {
		next := g.todo[len(g.todo)-1]
		g.todo = g.todo[:len(g.todo)-1]
		if err := g.take(next); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove %q: %w", next, err)
		}
	}
	return nil
}

type gravedigger struct {
	room  int
	todo  []string // entries of room
	moved int
}

// take removes one entry of room, with what it holds but for directories.
func (g *gravedigger) take(name string) error {
	fd, st, err := freed(g.room, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !st.is(unix.S_IFDIR) {
		return unlinkFreed(g.room, name, fd, st)
	}
	for range mostRounds {
		if err := g.empty(fd); err != nil {
			return err
		}
		err = unix.Unlinkat(g.room, name, unix.AT_REMOVEDIR)
		if !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			break
		}
	}
	return err
}

// freed holds an entry, without flag and with all rights to a directory.
func freed(dir int, name string) (fd int, st status, err error) {
	if fd, err = openBelow(dir, name, unix.O_PATH); err != nil {
		return -1, st, err
	}
	st, err = statusOf(fd)
	if err == nil && st.immutable {
		err = setImmutable(fd, false)
	}
	if err == nil && st.is(unix.S_IFDIR) && os.Geteuid() != 0 && st.mode&0o700 != 0o700 {
		err = unix.Chmod(procPath(fd), 0o700)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

// unlinkFreed takes away one name of an object that was freed. Where it has others,
// they keep the flag.
func unlinkFreed(dir int, name string, fd int, before status) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil && before.immutable && before.links > 1 {
		err = setImmutable(fd, true)
	}
	return err
}

// empty goes once through the entries of a directory.
func (g *gravedigger) empty(dir int) error {
	fd, err := reopen(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "")
	defer func() { _ = f.Close() }() // it was only read
	for {
		names, err := f.Readdirnames(1024)
		for _, name := range names {
			// Most entries are plain, and go at once.
			if unix.Unlinkat(dir, name, 0) == nil {
				continue
			}
			if err := g.stubborn(dir, name); err != nil && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("%q: %w", name, err)
			}
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return err
		}
	}
}

// stubborn removes an entry that a plain unlink did not, or moves it up to be
// removed later if it is a directory.
func (g *gravedigger) stubborn(dir int, name string) error {
	fd, st, err := freed(dir, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if !st.is(unix.S_IFDIR) {
		return unlinkFreed(dir, name, fd, st)
	}
	for {
		g.moved++
		up := fmt.Sprintf("~%d", g.moved)
		err := unix.Renameat(dir, name, g.room, up)
		switch {
		case err == nil:
			g.todo = append(g.todo, up)
			return nil
		case !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.ENOTDIR):
			return err
		}
	}
}
