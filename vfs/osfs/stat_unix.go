//go:build linux || darwin

package osfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// fileMode translates a mode as the kernel gives it.
func fileMode(mode uint32) fs.FileMode {
	m := vfs.FromBits(mode)
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		m |= fs.ModeDir
	case unix.S_IFLNK:
		m |= fs.ModeSymlink
	case unix.S_IFIFO:
		m |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		m |= fs.ModeSocket
	case unix.S_IFCHR:
		m |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		m |= fs.ModeDevice
	}
	return m
}

// statNoFollow describes name in the directory fd, or fd itself where name is
// empty, by the calls that every kernel has.
func statNoFollow(fd int, name string) (vfs.Info, error) {
	var st unix.Stat_t
	var err error
	if name == "" {
		err = unix.Fstat(fd, &st)
	} else {
		err = unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return vfs.Info{}, err
	}
	return infoOf(&st), nil
}

// openNoFollow opens name relative to dirFD without openat2. For a single name
// O_NOFOLLOW refuses the same links; only the errno needs help.
func openNoFollow(dirFD int, name string, flags int, perm uint32) (int, error) {
	fd, err := unix.Openat(dirFD, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
	if errors.Is(err, unix.ENOTDIR) && flags&unix.O_DIRECTORY != 0 {
		// With O_DIRECTORY the kernel says that a link is not a directory. Nothing
		// was opened, so a swap in between can change the word and not the outcome.
		if info, serr := statNoFollow(dirFD, name); serr == nil && info.Mode&fs.ModeSymlink != 0 {
			err = unix.ELOOP
		}
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}
