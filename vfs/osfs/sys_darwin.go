package osfs

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// fullCaps is what macOS can do where the file system takes part. There is no
// file without a name, no way to sync one file system or a range, and no mount
// id.
const fullCaps = vfs.CapSymlink | vfs.CapLink | vfs.CapPerm | vfs.CapNoFollow | vfs.CapHandle | vfs.CapIdentity |
	vfs.CapNoReplace | vfs.CapExchange | vfs.CapDurability | vfs.CapXattr | vfs.CapBirth | vfs.CapSpecial

const (
	doomedFlags = 0 // never used: CapPublish is missing
	noXattr     = unix.ENOATTR
)

type kernel struct{}

func detect() (kernel, finding) { return kernel{}, finding{} }

var placeTrials []trial

func (kernel) open(dirFD int, name string, flags int, perm uint32) (int, error) {
	return openNoFollow(dirFD, name, flags, perm)
}

// openWalkable opens a directory. One that may be searched but not read is
// refused: there is no O_PATH here.
func openWalkable(open func(flags int) (int, error)) (fd int, walkOnly bool, err error) {
	fd, err = open(unix.O_RDONLY | unix.O_DIRECTORY)
	return fd, false, err
}

func linkFD(_, _ int, _ string) error { return errUnsupported }

func (kernel) rename(fd int, name string, toFD int, toName string, flag vfs.RenameFlag) error {
	switch flag {
	case vfs.NoReplace:
		return unix.RenameatxNp(fd, name, toFD, toName, unix.RENAME_EXCL)
	case vfs.Exchange:
		return unix.RenameatxNp(fd, name, toFD, toName, unix.RENAME_SWAP)
	case vfs.Replace:
	}
	return unix.Renameat(fd, name, toFD, toName)
}

func (kernel) stat(fd int, name string) (vfs.Info, error) { return statNoFollow(fd, name) }

func infoOf(st *unix.Stat_t) vfs.Info {
	return vfs.Info{
		Mode:  fileMode(uint32(st.Mode)),
		Size:  st.Size,
		ID:    vfs.ID{Dev: uint64(st.Dev), Ino: st.Ino},
		UID:   st.Uid,
		GID:   st.Gid,
		Nlink: uint64(st.Nlink),
		Mtime: time.Unix(st.Mtim.Unix()),
		Btime: time.Unix(st.Btim.Unix()),
	}
}

// fullSync asks the drive to empty its cache. The fsync of macOS does not.
func fullSync(fd int) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_FULLFSYNC, 0)
	return err
}

func dataSync(fd int) error { return fullSync(fd) }

func syncFS(int) error { return errUnsupported }

func syncRange(int, int64, int64) error { return errUnsupported }
