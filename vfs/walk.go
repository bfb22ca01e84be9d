package vfs

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// maxLinks bounds the links followed in one walk, as Linux does.
const maxLinks = 40

// ErrEscapes is wrapped when a path leads out of its root.
var ErrEscapes = errors.New("path leads outside the root")

// WalkError says at which component a walk ended.
type WalkError struct {
	Path string // as it was given
	At   string // the component, as a path below the root
	Rest string // what was left to walk behind it, unresolved
	Err  error
}

// Error implements error. The path stands as it was given: an absolute one says
// where the root is.
func (e *WalkError) Error() string {
	return fmt.Sprintf("walk %q: at %q: %v", e.Path, e.At, e.Err)
}

// Unwrap returns the reason.
func (e *WalkError) Unwrap() error { return e.Err }

// Walker walks slash-separated paths below an open root, one component at a
// time, each relative to the held handle of the one before. Nothing it opened
// is looked up by name again, so a component that is swapped behind it cannot
// move the walk; a component swapped in front of it is met as it then is.
type Walker struct {
	Root     Dir
	RootPath string // absolute name of Root: absolute paths and link texts must lie below it

	// Follow resolves links inside the root, as the kernel would. Without it a
	// link in any component but the last fails with ELOOP.
	Follow bool

	// Make is called for a directory that is missing on the way, and must create
	// name in d; rel is its path below the root. Where it is nil, and for a name
	// out of the text of a link, a missing directory fails with ENOENT: the author
	// of a dangling link must not be the one who chooses what is created.
	Make func(d Dir, name, rel string) error
}

// Place is where a path leads: an open directory and a name in it that need not
// exist. Close releases the directory.
type Place struct {
	Dir  Dir
	Name string
	Rel  string // path below the root, free of links, "." and ".."

	// Linked is set when the last component was reached through a link there.
	Linked bool

	own bool // Dir is ours to close
}

// Close releases the directory. It may be called on the zero Place.
func (p Place) Close() error {
	if !p.own {
		return nil
	}
	return p.Dir.Close()
}

// Walk resolves path. With last set and Follow, a link in the last component is
// followed too. The errors are *WalkError.
func (w *Walker) Walk(path string, last bool) (Place, error) {
	s := walk{w: w, path: path, last: last, stack: []step{{dir: w.Root}}}
	place, err := s.run()
	if place.own { // the last directory is now the caller's to close
		s.stack = s.stack[:len(s.stack)-1]
	}
	for len(s.stack) > 1 {
		if cerr := s.up(); cerr != nil {
			err = errors.Join(err, cerr)
		}
	}
	if err != nil {
		_ = place.Close() // of a directory that was only looked at, and err says enough
		return Place{}, err
	}
	return place, nil
}

type step struct {
	dir  Dir
	name string
}

// walk is one walk under way. stack[0] is the root; the rest are ours.
type walk struct {
	w      *Walker
	path   string
	last   bool
	stack  []step
	todo   []string
	behind int // how many of the last components of todo are the caller's own, not a link's
	links  int
}

func (s *walk) run() (Place, error) {
	rest, err := s.below(s.path)
	if err != nil {
		return Place{}, s.fail("", err)
	}
	s.todo = strings.Split(rest, "/")
	s.behind = len(s.todo)
	if c := s.todo[len(s.todo)-1]; c == "" || c == "." || c == ".." {
		// The last component must be a name: "d/" and "d/." would be a directory.
		return Place{}, s.fail(rest, fs.ErrInvalid)
	}
	for {
		c := s.todo[0]
		switch {
		case c == "" || c == ".":
			s.pop()
		case c == "..":
			if len(s.stack) == 1 {
				return Place{}, s.fail("..", ErrEscapes)
			}
			if err := s.up(); err != nil {
				return Place{}, err
			}
			s.pop()
		case len(s.todo) == 1:
			place, done, err := s.leaf(c)
			if done || err != nil {
				return place, err
			}
		default:
			if err := s.down(c); err != nil {
				return Place{}, err
			}
		}
		if len(s.todo) == 0 { // a link whose text ends in "." or "..": it names a directory
			return Place{}, s.fail("", &fs.PathError{Op: "openat", Path: s.path, Err: syscall.EISDIR})
		}
	}
}

// below strips the root from an absolute path, by whole components: a sibling
// that shares the root's text as a prefix is outside.
func (s *walk) below(path string) (string, error) {
	if path == "" || strings.IndexByte(path, 0) >= 0 {
		return "", fs.ErrInvalid
	}
	if path[0] != '/' {
		return path, nil
	}
	root := strings.TrimSuffix(s.w.RootPath, "/")
	rest, ok := strings.CutPrefix(path, root)
	if !ok || s.w.RootPath == "" || rest != "" && rest[0] != '/' {
		return "", ErrEscapes
	}
	return strings.TrimPrefix(rest, "/"), nil // empty: the root itself
}

func (s *walk) top() Dir { return s.stack[len(s.stack)-1].dir }

func (s *walk) pop() {
	s.todo = s.todo[1:]
	s.behind = min(s.behind, len(s.todo))
}

func (s *walk) up() error {
	st := s.stack[len(s.stack)-1]
	s.stack = s.stack[:len(s.stack)-1]
	if err := st.dir.Close(); err != nil {
		return s.fail(st.name, err)
	}
	return nil
}

func (s *walk) rel(name string) string {
	var parts []string
	for _, st := range s.stack[1:] {
		parts = append(parts, st.name)
	}
	if name != "" {
		parts = append(parts, name)
	}
	return strings.Join(parts, "/")
}

func (s *walk) fail(name string, err error) error {
	var rest string
	if len(s.todo) > 1 {
		rest = strings.Join(s.todo[1:], "/")
	}
	return &WalkError{Path: s.path, At: s.rel(name), Rest: rest, Err: err}
}

// own reports whether the component at hand was spelled by the caller.
func (s *walk) own() bool { return len(s.todo) <= s.behind }

func (s *walk) down(c string) error {
	d, err := s.top().OpenDir(c)
	if errors.Is(err, syscall.ENOENT) && s.w.Make != nil && s.own() {
		if err := s.w.Make(s.top(), c, s.rel(c)); err != nil {
			return s.fail(c, err)
		}
		d, err = s.top().OpenDir(c)
	}
	if s.w.Follow && errors.Is(err, syscall.ELOOP) {
		loop := err
		if err = s.follow(c); errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			return s.fail(c, loop) // it is no link: the kernel refused it for another reason
		}
		return err
	}
	if err != nil {
		return s.fail(c, err)
	}
	s.stack = append(s.stack, step{d, c})
	s.pop()
	return nil
}

// leaf ends the walk at c unless c is a link to follow.
func (s *walk) leaf(c string) (place Place, done bool, err error) {
	if s.last && s.w.Follow {
		info, err := s.top().Lstat(c)
		switch {
		case err == nil && info.Mode&fs.ModeSymlink != 0:
			return Place{}, false, s.follow(c)
		case err != nil && !errors.Is(err, syscall.ENOENT):
			return Place{}, false, s.fail(c, err) // not proven to be no link
		}
	}
	return Place{
		Dir: s.top(), Name: c, Rel: s.rel(c), Linked: !s.own(), own: len(s.stack) > 1,
	}, true, nil
}

// follow puts the text of link c in the place of c.
func (s *walk) follow(c string) error {
	if s.links++; s.links > maxLinks {
		return s.fail(c, &fs.PathError{Op: "readlinkat", Path: c, Err: syscall.ELOOP})
	}
	text, err := s.top().Readlink(c)
	if err != nil {
		return s.fail(c, err)
	}
	if strings.HasPrefix(text, "/") {
		if text, err = s.below(text); err != nil {
			return s.fail(c, err)
		}
		for len(s.stack) > 1 {
			if err := s.up(); err != nil {
				return err
			}
		}
	}
	s.pop()
	s.todo = append(strings.Split(text, "/"), s.todo...)
	return nil
}
