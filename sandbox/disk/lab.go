package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// Lab is a folder in which sandboxes are made, and the identities that act in
// them. It goes when it is closed, and also when this process is killed.
type Lab struct {
	Dir      string // absolute and free of links
	UID, GID int    // of subjects

	// Content is a folder that subjects can read and only the bench can write: for
	// what is too long to be sent to them.
	Content string

	folder  *os.File // Dir, held: what it is called may come to mean something else
	other   int      // id of another owner; -1 for an ordinary user
	claims  []func() // give the ids back
	caps    vfs.Caps
	notes   []string
	cannot  error // why no scenario can be brought about; nil if some can
	janitor *janitor
	mount   func() error

	open    bool // for want of mounts nothing of the host's is hidden from subjects
	foreign Foreign
	groups  *jail.Groups // of foreign subjects; nil before the first, and where there are none
	cache   string       // what a subject was prepared with, if it was

	engineMu sync.Mutex // held while it is found out
	engine   Engine

	mu      sync.Mutex
	idle    []*Sandbox          // for foreign subjects, at rest
	engines []supervisor.Engine // one of which is to be used; nil for any

	crowd atomic.Bool // a foreign subject takes its steps in several threads at a time
}

const labPrefix = "fsbench-"

// NewLab makes a Lab below parent, or below the system's folder for temporary
// files. As root subjects get an id that nobody has; an ordinary user's subjects
// keep the user's own.
func NewLab(parent string) (*Lab, error) {
	if parent == "" {
		parent = os.TempDir()
	}
	// Links on the way are resolved now, once: the child's mounts admit none.
	parent, err := filepath.Abs(parent)
	if err == nil {
		parent, err = filepath.EvalSymlinks(parent)
	}
	if err != nil {
		return nil, fmt.Errorf("make a folder for sandboxes: %w", err)
	}
	l := &Lab{UID: os.Getuid(), GID: os.Getgid(), other: -1}
	l.mount = sync.OnceValue(l.tryMount)
	if l.janitor, l.Dir, err = startJanitor(parent); err != nil {
		return nil, err
	}
	if l.folder, err = os.Open(l.Dir); err == nil {
		err = l.probe()
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (l *Lab) probe() error {
	// Subjects must be able to search it; that they cannot list it keeps them from
	// finding each other.
	if err := os.Chmod(l.Dir, 0o711); err != nil {
		return err
	}
	if err := reachable(l.Dir); err != nil {
		return err
	}
	if !utf8.ValidString(l.Dir) {
		return fmt.Errorf("%w: %q cannot be said in the protocol; name another folder with TMPDIR", sandbox.ErrCannot, l.Dir)
	}
	fsys, err := osfs.Probe(l.Dir)
	if err != nil {
		return fmt.Errorf("probe the file system: %w", err)
	}
	l.caps, l.notes = fsys.Caps(), fsys.Notes()
	if l.cannot = l.identify(); l.cannot == nil {
		l.choose()
	}
	l.Content = filepath.Join(l.Dir, contentName)
	if err := os.Mkdir(l.Content, 0o700); err != nil {
		return err
	}
	return os.Chmod(l.Content, 0o711)
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

// Notes says what this machine cannot do, a line each.
func (l *Lab) Notes() []string {
	notes := append([]string{}, l.notes...)
	if l.cannot != nil {
		return append(notes, "every scenario on disk is skipped: "+l.cannot.Error())
	}
	if err := l.cannotMount(); err != nil {
		notes = append(notes, "read-only mounts: "+err.Error()+"; EROFS is synthetic")
	}
	if shared := l.subject().Shares(); shared != "" {
		notes = append(notes, "subjects share with the bench: "+shared)
	}
	if err := l.canBound(); err != nil {
		notes = append(notes, "the memory that subjects use is not bounded ("+err.Error()+"); if it runs out, they are ended first")
	}
	if l.other < 0 {
		notes = append(notes, "not root: EPERM is synthetic, and scenarios with files of another owner or immutable files are skipped")
	}
	return notes
}

func (l *Lab) cannotMount() error { return l.mount() }

func (l *Lab) tryMount() error {
	s := l.subject()
	s.Mounts = []jail.Mount{{Path: l.Dir}}
	return s.Possible()
}

// New returns an empty sandbox. Its name cannot be guessed: subjects of other
// sandboxes run as the same user.
func (l *Lab) New() (*Sandbox, error) {
	room, err := os.MkdirTemp(l.Dir, "")
	if err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	h, err := openHands(room, l)
	if err != nil {
		return nil, fmt.Errorf("make a sandbox: %w", err)
	}
	return &Sandbox{lab: l, base: filepath.Join(room, treeName), hand: h}, nil
}

// Close removes the folder with everything in it.
func (l *Lab) Close() error {
	var err error
	if l.folder != nil {
		err = errors.Join(l.closeIdle(), l.closeGroups())
		err = errors.Join(err, sweep(l.folder))
	}
	if l.janitor != nil {
		err = errors.Join(err, l.janitor.dismiss())
	}
	if l.folder != nil {
		err = errors.Join(err, l.folder.Close())
	}
	for _, giveBack := range l.claims {
		giveBack()
	}
	l.claims = nil
	return err
}
