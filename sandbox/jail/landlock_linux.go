package jail

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights as the kernel numbers them.
const (
	rightsToCreate = unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
	rightsToModify = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rightsToRemove = unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE

	// rightToMove is taken away by every ruleset that does not give it: without it, a
	// rename to another folder would fail with an error that nobody has planned.
	rightToMove = unix.LANDLOCK_ACCESS_FS_REFER
)

// lockVersion is the first of Landlock that can refuse to cut files off.
const lockVersion = 3

// CanLock reports why nothing can be kept from a child by Landlock here.
func CanLock() error { return canLock() }

var canLock = sync.OnceValue(func() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno != 0:
		return fmt.Errorf("this kernel has no Landlock: %w", errno)
	case version < lockVersion:
		return fmt.Errorf("this kernel has version %d of Landlock, and %d is needed", version, lockVersion)
	}
	return nil
})

func (l Lock) rights() uint64 {
	var all uint64
	for _, r := range []struct {
		set    bool
		rights uint64
	}{{l.Create, rightsToCreate}, {l.Modify, rightsToModify}, {l.Remove, rightsToRemove}} {
		if r.set {
			all |= r.rights
		}
	}
	return all
}

// rulesets are layers of rules that are not in force yet.
type rulesets []int

// lockRules makes a layer for each lock. A layer can only name what is allowed, and
// what is allowed in a folder is so below it: on the way to what is locked, each
// neighbour is named. An entry that is made later beside one of those folders is as
// locked as what is below.
func lockRules(locks []Lock) (rulesets, error) {
	var all rulesets
	for _, l := range locks {
		attr := unix.LandlockRulesetAttr{Handled_access_fs: l.rights() | rightToMove}
		fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET,
			uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr.Handled_access_fs), 0)
		if errno != 0 {
			return nil, fmt.Errorf("lock %s: %w", l.Path, errno)
		}
		all = append(all, int(fd))
		err := allow(int(fd), "/", rightToMove)
		if err == nil {
			err = allowBeside(int(fd), l)
		}
		if err == nil && l.But != "" {
			err = allow(int(fd), l.But, l.rights())
		}
		if err != nil {
			return nil, fmt.Errorf("lock %s: %w", l.Path, err)
		}
	}
	return all, nil
}

func allowBeside(ruleset int, l Lock) error {
	for at := filepath.Clean(l.Path); at != "/"; at = filepath.Dir(at) {
		entries, err := os.ReadDir(filepath.Dir(at))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.Name() == filepath.Base(at) {
				continue
			}
			err := allow(ruleset, filepath.Join(filepath.Dir(at), e.Name()), l.rights())
			// It may have gone, or be one of those that nothing can be allowed for.
			if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.EBADFD) {
				return err
			}
		}
	}
	return nil
}

// allow gives rights to p and all below it; to a file those that a file can have.
func allow(ruleset int, p string, rights uint64) error {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= rightsToModify
	}
	if rights == 0 || st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return nil
	}
	attr := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE,
		uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return &os.PathError{Op: "allow", Path: p, Err: errno}
	}
	return nil
}

// restrict puts the rules in force for the calling thread and what it starts, for
// good.
func (r rulesets) restrict() error {
	for _, fd := range r {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
			return fmt.Errorf("lock: %w", errno)
		}
		_ = unix.Close(fd)
	}
	return nil
}
