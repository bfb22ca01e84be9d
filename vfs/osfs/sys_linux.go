package osfs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// fullCaps is what Linux can do where the file system takes part.
const fullCaps = vfs.CapSymlink | vfs.CapLink | vfs.CapPerm | vfs.CapNoFollow | vfs.CapHandle | vfs.CapIdentity |
	vfs.CapNoReplace | vfs.CapExchange | vfs.CapPublish | vfs.CapDurability | vfs.CapSyncFS | vfs.CapSyncRange |
	vfs.CapXattr | vfs.CapBirth | vfs.CapMountID | vfs.CapSpecial

const (
	doomedFlags = unix.O_TMPFILE | unix.O_RDWR
	noXattr     = unix.ENODATA

	// noFollow is more than a single name needs. RESOLVE_BENEATH would stop a
	// separator that slipped past the check of names, and RESOLVE_NO_MAGICLINKS
	// the links of /proc, should a root ever be there.
	noFollow = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
)

// kernel says which calls are refused, by an old kernel or by a seccomp filter.
// The zero kernel refuses none.
type kernel struct{ noOpenat2, noRenameat2, noStatx bool }

// detect asks the kernel once: a filter cannot be taken off again, and what is
// refused later only is an error of the operation that meets it.
var detect = sync.OnceValues(func() (kernel, finding) {
	var k kernel
	var found finding
	for _, call := range []struct {
		name    string
		refused *bool
		lost    vfs.Caps
		instead string
		ask     func() error // with arguments that a kernel which has the call answers with ENOENT or EBADF
	}{
		{
			"openat2", &k.noOpenat2, 0, "openat with O_NOFOLLOW, which is as strict for a single name",
			func() error { _, err := unix.Openat2(-1, "", &unix.OpenHow{Flags: unix.O_PATH}); return err },
		},
		{
			"renameat2", &k.noRenameat2, vfs.CapNoReplace | vfs.CapExchange, "renameat, which can only replace",
			func() error { return unix.Renameat2(-1, "", -1, "", unix.RENAME_NOREPLACE) },
		},
		{
			"statx", &k.noStatx, vfs.CapBirth | vfs.CapMountID, "fstatat, which knows no birth time and no mount",
			func() error { return unix.Statx(-1, "", 0, unix.STATX_BASIC_STATS, new(unix.Statx_t)) },
		},
	} {
		if err := call.ask(); !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBADF) {
			*call.refused = true
			found.add(call.lost, fmt.Sprintf("%s is refused (%v): %s", call.name, err, call.instead))
		}
	}
	return k, found
})

// open opens name relative to dirFD. A link fails with ELOOP, whatever else is
// asked for but O_EXCL, which makes it EEXIST.
func (k kernel) open(dirFD int, name string, flags int, perm uint32) (int, error) {
	creates := flags&unix.O_CREAT != 0 || flags&unix.O_TMPFILE == unix.O_TMPFILE
	if !creates {
		perm = 0 // openat2 refuses a mode that would have no effect
	}
	if k.noOpenat2 {
		return openNoFollow(dirFD, name, flags, perm)
	}
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_LARGEFILE
	}
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Mode: uint64(perm), Resolve: noFollow}
	for range patience {
		fd, err := unix.Openat2(dirFD, name, &how)
		if !errors.Is(err, unix.EAGAIN) {
			return fd, err
		}
		// A rename elsewhere on the machine made the kernel unsure whether the
		// look-up stayed below dirFD, or somebody holds a lease on the file.
	}
	return -1, unix.EAGAIN
}

// openWalkable opens a directory for reading, or for walking only where reading
// it is refused: a directory of mode 0300 can still be walked and written into.
func openWalkable(open func(flags int) (int, error)) (fd int, walkOnly bool, err error) {
	fd, err = open(unix.O_RDONLY | unix.O_DIRECTORY)
	if !errors.Is(err, unix.EACCES) {
		return fd, false, err
	}
	fd, err = open(unix.O_PATH | unix.O_DIRECTORY)
	return fd, true, err
}

// linkFD gives an open file that has no name one. Kernels before 6.10 let only
// the privileged link by descriptor; for the others there is the detour through
// the name of the descriptor in /proc, which needs /proc to be mounted.
func linkFD(fd, dirFD int, name string) error {
	err := unix.Linkat(fd, "", dirFD, name, unix.AT_EMPTY_PATH)
	if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EPERM) {
		return err
	}
	detour := unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), dirFD, name, unix.AT_SYMLINK_FOLLOW)
	if errors.Is(detour, unix.ENOENT) {
		return err // the detour is closed, or the directory is gone: the first refusal is the honest one
	}
	return detour
}

func (k kernel) rename(fd int, name string, toFD int, toName string, flag vfs.RenameFlag) error {
	if k.noRenameat2 { // the capabilities for the other flags are gone, so flag is Replace
		return unix.Renameat(fd, name, toFD, toName)
	}
	var flags uint
	switch flag {
	case vfs.Replace:
	case vfs.NoReplace:
		flags = unix.RENAME_NOREPLACE
	case vfs.Exchange:
		flags = unix.RENAME_EXCHANGE
	}
	return unix.Renameat2(fd, name, toFD, toName, flags)
}

// stat describes name in the directory fd, or fd itself where name is empty.
func (k kernel) stat(fd int, name string) (vfs.Info, error) {
	if k.noStatx {
		return statNoFollow(fd, name)
	}
	flags := unix.AT_SYMLINK_NOFOLLOW
	if name == "" {
		flags |= unix.AT_EMPTY_PATH
	}
	// The unique mount id is never given to another mount; kernels before 6.8
	// answer with the old one.
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID | unix.STATX_MNT_ID_UNIQUE
	var st unix.Statx_t
	if err := unix.Statx(fd, name, flags, mask, &st); err != nil {
		return vfs.Info{}, err
	}
	info := vfs.Info{
		Mode:  fileMode(uint32(st.Mode)),
		Size:  int64(st.Size),
		ID:    vfs.ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino},
		UID:   st.Uid,
		GID:   st.Gid,
		Nlink: uint64(st.Nlink),
		Mtime: time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec)),
	}
	if st.Mask&unix.STATX_BTIME != 0 {
		info.Btime = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	if st.Mask&(unix.STATX_MNT_ID|unix.STATX_MNT_ID_UNIQUE) != 0 {
		info.MountID = st.Mnt_id
	}
	return info, nil
}

func infoOf(st *unix.Stat_t) vfs.Info {
	return vfs.Info{
		Mode:  fileMode(st.Mode),
		Size:  st.Size,
		ID:    vfs.ID{Dev: uint64(st.Dev), Ino: st.Ino}, //nolint:unconvert // Dev is narrower on some architectures
		UID:   st.Uid,
		GID:   st.Gid,
		Nlink: uint64(st.Nlink), //nolint:unconvert // Nlink is narrower on some architectures
		Mtime: time.Unix(st.Mtim.Unix()),
	}
}

func fullSync(fd int) error { return unix.Fsync(fd) }

func dataSync(fd int) error { return unix.Fdatasync(fd) }

func syncFS(fd int) error { return unix.Syncfs(fd) }

func syncRange(fd int, off, n int64) error {
	return unix.SyncFileRange(fd, off, n,
		unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}

// placeTrials are the trials that only Linux has. The port cannot make a FIFO,
// and syncfs is asked with a bad descriptor: the real thing may take minutes.
var placeTrials = []trial{
	{cap: vfs.CapSpecial, try: func(_ *FS, d vfs.Dir) error {
		return d.(*dir).at("mknodat", "fifo", func(fd int) error { return unix.Mkfifoat(fd, "fifo", 0o600) })
	}},
	{cap: vfs.CapSyncFS, try: func(*FS, vfs.Dir) error {
		if err := unix.Syncfs(-1); !errors.Is(err, unix.EBADF) {
			return cmp.Or(err, errNoEffect)
		}
		return nil
	}},
	{instead: "a file without a name is published through /proc", try: tryDirectLink},
}

func tryDirectLink(f *FS, d vfs.Dir) error {
	return d.(*dir).at("linkat", "direct", func(fd int) error {
		tmp, err := f.kernel.open(fd, ".", doomedFlags, 0o600)
		if err != nil {
			return nil //nolint:nilerr // the trial of publishing has said so already
		}
		return cmp.Or(unix.Linkat(tmp, "", fd, "direct", unix.AT_EMPTY_PATH), unix.Close(tmp))
	})
}
