package disk

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// Lab is a folder in which sandboxes are made, and the identities that act in
// them. It goes when it is closed, and also when this process is killed.
type Lab struct {
	Dir      string
	UID, GID int // of subjects

	other   int // id of another owner; -1 for an ordinary user
	caps    vfs.Caps
	notes   []string
	made    atomic.Int64
	janitor *janitor
	mount   func() error
}

// firstID is where the search for ids that nobody has begins: above what systems
// give to people and below what they keep for containers.
const firstID = 61100

// NewLab makes a Lab below parent, or below the system's folder for temporary
// files. As root subjects get an id that nobody has; an ordinary user's subjects
// keep the user's own.
func NewLab(parent string) (*Lab, error) {
	dir, err := os.MkdirTemp(parent, labPrefix)
	if err != nil {
		return nil, fmt.Errorf("make a folder for sandboxes: %w", err)
	}
	l := &Lab{Dir: dir, UID: os.Getuid(), GID: os.Getgid(), other: -1}
	if os.Geteuid() == 0 {
		l.UID = unusedID(firstID)
		l.GID, l.other = l.UID, unusedID(l.UID+1)
	}
	l.mount = sync.OnceValue(l.tryMount)
	if l.janitor, err = startJanitor(dir); err == nil {
		err = l.probe()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

const labPrefix = "fsbench-"

func (l *Lab) probe() error {
	// Subjects must be able to search it; that they cannot list it keeps them from
	// finding each other.
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		return err
	}
	fsys, err := osfs.Probe(l.Dir)
	if err != nil {
		return fmt.Errorf("probe the file system: %w", err)
	}
	l.caps, l.notes = fsys.Caps(), fsys.Notes()
	return reachable(l.Dir)
}

// reachable reports a folder on the way to dir that other identities may not
// search: their every call would fail for a reason that is no fault.
func reachable(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		info, err := os.Stat(d)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("%w: other users may not search %s; name another folder with TMPDIR", sandbox.ErrCannot, d)
		}
	}
	return nil
}

func unusedID(from int) int {
	for id := from; ; id++ {
		if _, err := user.LookupId(strconv.Itoa(id)); err != nil {
			return id
		}
	}
}

// Notes says what this machine cannot do, a line each.
func (l *Lab) Notes() []string {
	notes := append([]string{}, l.notes...)
	if err := l.cannotMount(); err != nil {
		notes = append(notes, "read-only mounts: "+err.Error()+"; EROFS is synthetic")
	}
	if l.other < 0 {
		notes = append(notes, "not root: EPERM is synthetic, and scenarios with files of another owner or immutable files are skipped")
	}
	return notes
}

func (l *Lab) cannotMount() error { return l.mount() }

func (l *Lab) tryMount() error {
	return jail.Spec{UID: l.UID, GID: l.GID, Mounts: []jail.Mount{{Path: l.Dir}}}.Possible()
}

// New returns an empty sandbox.
func (l *Lab) New() (*Sandbox, error) {
	base := filepath.Join(l.Dir, strconv.FormatInt(l.made.Add(1), 10))
	if err := os.Mkdir(base, 0o700); err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	if err := os.Chmod(base, 0o755); err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	h, err := openHands(base, l)
	if err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	return &Sandbox{
		lab: l, base: base, hand: h, caps: l.caps, mounts: map[string]spec.Mount{}, armed: map[string]preparation{},
	}, nil
}

// Close removes the folder with everything in it.
func (l *Lab) Close() error {
	err := sweep(l.Dir)
	if l.janitor != nil {
		err = errors.Join(err, l.janitor.dismiss())
	}
	return err
}
