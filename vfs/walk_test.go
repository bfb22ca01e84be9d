//go:build linux || darwin

package vfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// grow makes a tree from lines such as
//
//	"dir/"           a directory
//	"f"              a file that holds its own name
//	"f = text"       a file that holds text
//	"link => ../x"   a link; $ROOT in its text is the absolute name of the root
//
// below dir/ws, which is the root of the walks; "../out" lies beside it. Parents
// are made as needed.
func grow(t *testing.T, dir string, lines ...string) (root string) {
	t.Helper()
	root = filepath.Join(dir, "ws")
	if err := os.MkdirAll(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, text, isLink := strings.Cut(line, " => ")
		name, content, isFile := strings.Cut(name, " = ")
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(strings.ReplaceAll(text, "$ROOT", root), path)
		case strings.HasSuffix(name, "/"):
			err = os.MkdirAll(path, 0o755)
		default:
			if !isFile {
				content = name
			}
			err = os.WriteFile(path, []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// watched is a directory that counts the handles opened through it, and lets a
// test act in the instant before an operation.
type watched struct {
	vfs.Dir
	w *watch
}

type watch struct {
	open   atomic.Int64
	before func(op, name string) // may be nil
	fail   error                 // what Close says after it closed
}

func (d *watched) OpenDir(name string) (vfs.Dir, error) {
	d.act("open-dir", name)
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	d.w.open.Add(1)
	return &watched{sub, d.w}, nil
}

func (d *watched) Readlink(name string) (string, error) {
	d.act("readlink", name)
	return d.Dir.Readlink(name)
}

func (d *watched) act(op, name string) {
	if d.w.before != nil {
		d.w.before(op, name)
	}
}

func (d *watched) Close() error {
	d.w.open.Add(-1)
	return errors.Join(d.Dir.Close(), d.w.fail)
}

// walking opens root for a watched walk.
func walking(t *testing.T, root string) (*vfs.Walker, *watch) {
	t.Helper()
	d, err := osfs.New().OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	w := &watch{}
	return &vfs.Walker{Root: &watched{d, w}, RootPath: root}, w
}

func makeDir(d vfs.Dir, name, _ string) error { return d.Mkdir(name, 0o755) }

// ending tells how a walk ended: the path below the root, "(linked)" where it
// came there by a link, and an error as its reason and its place.
func ending(p vfs.Place, err error) string {
	var we *vfs.WalkError
	var errno syscall.Errno
	switch {
	case err == nil && p.Linked:
		return p.Rel + " (linked)"
	case err == nil:
		return p.Rel
	case !errors.As(err, &we):
		return fmt.Sprintf("%v, which is no *vfs.WalkError", err)
	case errors.Is(err, vfs.ErrEscapes):
		return "escapes at " + we.At
	case errors.Is(err, fs.ErrInvalid):
		return "invalid at " + we.At
	case errors.As(err, &errno):
		return errnoName[errno] + " at " + we.At
	}
	return err.Error()
}

var errnoName = map[syscall.Errno]string{
	syscall.ENOENT: "ENOENT", syscall.ENOTDIR: "ENOTDIR", syscall.ELOOP: "ELOOP", syscall.EISDIR: "EISDIR",
	syscall.EACCES: "EACCES", syscall.EINVAL: "EINVAL", syscall.EIO: "EIO",
}

// How a hazard is walked.
type mode uint8

const (
	plain     mode = 0
	follow    mode = 1 << iota // Follow
	last                       // with the last component followed too
	makes                      // with Make
	linkToEnd = follow | last
)

var hazards = []struct {
	name string
	tree []string
	path string
	mode mode
	want string
}{
	{"file", []string{"f"}, "f", plain, "f"},
	{"deep", []string{"a/b/f"}, "a/b/f", plain, "a/b/f"},
	{"missing leaf", []string{"a/"}, "a/new", plain, "a/new"},
	{"empty and dot components", []string{"a/b/f"}, "./a//b/./f", plain, "a/b/f"},
	{"file on the way", []string{"a"}, "a/f", plain, "ENOTDIR at a"},
	{"odd names", []string{"a\\b/ ...", "..."}, "a\\b/ ...", plain, "a\\b/ ..."},
	{"three dots are a name", []string{".../f"}, ".../f", plain, ".../f"},

	{"no path", nil, "", plain, "invalid at "},
	{"NUL", []string{"a"}, "a\x00b", plain, "invalid at "},
	{"the root", nil, ".", plain, "invalid at ."},
	{"trailing slash", []string{"a/"}, "a/", plain, "invalid at a/"},
	{"trailing dot", []string{"a/"}, "a/.", plain, "invalid at a/."},
	{"trailing dot-dot", []string{"a/b/"}, "a/b/..", plain, "invalid at a/b/.."},
	{"trailing slash on a link", []string{"d/", "l => d"}, "l/", linkToEnd, "invalid at l/"},

	{"dot-dot inside", []string{"a/", "b/f"}, "a/../b/f", plain, "b/f"},
	{"dot-dot above the root", nil, "../f", plain, "escapes at .."},
	{"dot-dot above the root and back", []string{"f"}, "../ws/f", plain, "escapes at .."},
	{"dot-dot above the root, deeper", []string{"a/"}, "a/../../f", plain, "escapes at .."},
	{"dot-dot of a missing directory", nil, "no/../f", plain, "ENOENT at no"},
	{"dot-dot of a file", []string{"a", "f"}, "a/../f", plain, "ENOTDIR at a"},

	{"absolute inside", []string{"a/f"}, "$ROOT/a/f", plain, "a/f"},
	{"absolute, more slashes", []string{"a/f"}, "$ROOT//a/f", plain, "a/f"},
	{"absolute root", nil, "$ROOT", plain, "invalid at "},
	{"absolute root with slash", nil, "$ROOT/", plain, "invalid at "},
	{"absolute outside", []string{"../out/f"}, "$ROOT/../out/f", plain, "escapes at .."},
	{"absolute elsewhere", nil, "/etc/passwd", plain, "escapes at "},
	{"sibling that shares the prefix", []string{"../ws-evil/f"}, "$ROOT-evil/f", plain, "escapes at "},

	{"link refused", []string{"d/f", "l => d"}, "l/f", plain, "ELOOP at l"},
	{"link refused, Make or not", []string{"d/f", "l => d"}, "l/f", makes, "ELOOP at l"},
	{"link refused, dangling", []string{"l => no"}, "l/f", makes, "ELOOP at l"},
	{"last link is the caller's matter", []string{"f", "l => f"}, "l", plain, "l"},
	{"last needs Follow", []string{"f", "l => f"}, "l", last, "l"},

	{"link followed", []string{"d/f", "l => d"}, "l/f", follow, "d/f"},
	{"last link left alone", []string{"f", "l => f"}, "l", follow, "l"},
	{"last link followed", []string{"f", "l => f"}, "l", linkToEnd, "f (linked)"},
	{"link to a link", []string{"d/f", "m => d", "l => m"}, "l/f", linkToEnd, "d/f"},
	{"link that climbs", []string{"a/b/l => ../../f", "f"}, "a/b/l", linkToEnd, "f (linked)"},
	{"dot-dot is the target's parent", []string{"a/b/", "a/f", "l => a/b"}, "l/../f", follow, "a/f"},
	{"link out", []string{"../out/f", "l => ../out"}, "l/f", follow, "escapes at .."},
	{"last link out", []string{"../out/f", "l => ../out/f"}, "l", linkToEnd, "escapes at .."},
	{"link out and in again", []string{"d/f", "l => ../ws/d"}, "l/f", follow, "escapes at .."},
	{"link to an absolute path inside", []string{"d/f", "a/l => $ROOT/d"}, "a/l/f", follow, "d/f"},
	{"last link to an absolute path inside", []string{"d/f", "a/l => $ROOT/d/f"}, "a/l", linkToEnd, "d/f (linked)"},
	{"link to the root itself", []string{"d/f", "a/l => $ROOT"}, "a/l/d/f", follow, "d/f"},
	{"last link to the root itself", []string{"a/l => $ROOT"}, "a/l", linkToEnd, "EISDIR at "},
	{"link to an absolute path outside", []string{"l => /etc"}, "l/passwd", follow, "escapes at l"},
	{"link to a sibling that shares the prefix", []string{"../ws-evil/f", "l => $ROOT-evil"}, "l/f", follow, "escapes at l"},
	{"link to a file on the way", []string{"d", "l => d"}, "l/f", follow, "ENOTDIR at d"},

	{"link text with trailing slash", []string{"d/f", "l => d/"}, "l/f", follow, "d/f"},
	{"last link with trailing slash", []string{"d/", "l => d/"}, "l", linkToEnd, "EISDIR at d"},
	{"last link with trailing slash to a file", []string{"f", "l => f/"}, "l", linkToEnd, "ENOTDIR at f"},
	{"last link with trailing slash to nothing", []string{"l => no/"}, "l", linkToEnd, "ENOENT at no"},
	{"last link to dot-dot", []string{"a/b/l => .."}, "a/b/l", linkToEnd, "EISDIR at a"},
	{"last link to dot", []string{"a/l => ."}, "a/l", linkToEnd, "EISDIR at a"},
	{"last link to above the root", []string{"l => .."}, "l", linkToEnd, "escapes at .."},

	{"dangling on the way", []string{"l => no"}, "l/f", follow, "ENOENT at no"},
	{"dangling last", []string{"l => no"}, "l", linkToEnd, "no (linked)"},
	{"dangling last, out", []string{"l => ../no"}, "l", linkToEnd, "escapes at .."},
	{"self loop", []string{"l => l"}, "l", linkToEnd, "ELOOP at l"},
	{"self loop on the way", []string{"l => l"}, "l/f", follow, "ELOOP at l"},
	{"mutual loop", []string{"l => m", "m => l"}, "l", linkToEnd, "ELOOP at l"},
	{"loop that grows", []string{"l => l/x"}, "l", linkToEnd, "ELOOP at l"},
	{"40 links", chain(40), "l1", linkToEnd, "end (linked)"},
	{"41 links", chain(41), "l1", linkToEnd, "ELOOP at l41"},

	{"missing parent", nil, "a/b/f", plain, "ENOENT at a"},
	{"missing parents made", nil, "a/b/f", makes, "a/b/f"},
	{"existing parents reused", []string{"a/"}, "a/b/f", makes, "a/b/f"},
	{"dot-dot of a directory that was made", nil, "a/../f", makes, "f"},
	{"nothing is made of a file", []string{"a"}, "a/b/f", makes, "ENOTDIR at a"},
	{"missing parent behind a link", []string{"d/", "l => d"}, "l/new/f", follow | makes, "d/new/f"},
	{"missing parent in the text of a link", []string{"l => no/deep"}, "l/f", follow | makes, "ENOENT at no"},
	{"missing parent in the text of the last link", []string{"l => no/f"}, "l", linkToEnd | makes, "ENOENT at no"},
	{"missing parent out of the root", []string{"../out/", "l => ../out"}, "l/new/f", follow | makes, "escapes at .."},
}

// chain is n links, the last of which leads to a file.
func chain(n int) []string {
	lines := []string{"end"}
	for i := 1; i < n; i++ {
		lines = append(lines, fmt.Sprintf("l%d => l%d", i, i+1))
	}
	return append(lines, fmt.Sprintf("l%d => end", n))
}

func TestWalkHazards(t *testing.T) {
	for _, tt := range hazards {
		t.Run(tt.name, func(t *testing.T) {
			top := t.TempDir()
			root := grow(t, top, tt.tree...)
			before := outside(t, top)
			w, watch := walking(t, root)
			w.Follow = tt.mode&follow != 0
			if tt.mode&makes != 0 {
				w.Make = makeDir
			}
			path := strings.ReplaceAll(tt.path, "$ROOT", root)
			place, err := w.Walk(path, tt.mode&last != 0)
			if diff := cmp.Diff(tt.want, ending(place, err)); diff != "" {
				t.Errorf("Walk(%q) (-want +got):\n%s", tt.path, diff)
			}
			if err == nil {
				samePlace(t, place, root, path, tt.mode)
			}
			if err := place.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if n := watch.open.Load(); n != 0 {
				t.Errorf("%d handles are still open", n)
			}
			if diff := cmp.Diff(before, outside(t, top)); diff != "" {
				t.Errorf("the walk changed what lies beside the root (-before +after):\n%s", diff)
			}
		})
	}
}

// samePlace compares a place with what the kernel finds at the same path.
func samePlace(t *testing.T, p vfs.Place, root, path string, m mode) {
	t.Helper()
	if !filepath.IsAbs(path) {
		path = root + "/" + path // joined as it is: filepath.Join would take ".." out
	}
	look := os.Lstat
	if m&linkToEnd == linkToEnd {
		look = os.Stat
	}
	want, werr := look(path)
	got, gerr := p.Dir.Lstat(p.Name)
	if errors.Is(werr, fs.ErrNotExist) && errors.Is(gerr, fs.ErrNotExist) {
		return
	}
	if werr != nil || gerr != nil {
		t.Fatalf("the kernel finds %v, the place holds %v", werr, gerr)
	}
	if ino := want.Sys().(*syscall.Stat_t).Ino; ino != got.ID.Ino {
		t.Errorf("the kernel finds inode %d, the place holds %d", ino, got.ID.Ino)
	}
}

// outside lists what lies beside the root.
func outside(t *testing.T, top string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if path == filepath.Join(top, "ws") {
			return fs.SkipDir
		}
		names = append(names, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWalkMakesBelowHandles(t *testing.T) {
	root := grow(t, t.TempDir(), "a/")
	w, _ := walking(t, root)
	var made []string
	w.Make = func(d vfs.Dir, name, rel string) error {
		made = append(made, rel)
		return d.Mkdir(name, 0o755)
	}
	place, err := w.Walk("a/b/c/f", false)
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	if diff := cmp.Diff([]string{"a/b", "a/b/c"}, made); diff != "" {
		t.Errorf("made (-want +got):\n%s", diff)
	}
	w.Make = func(vfs.Dir, string, string) error { return syscall.EACCES }
	if got, want := ending(w.Walk("no/f", false)), "EACCES at no"; got != want {
		t.Errorf("Walk with a Make that fails ended with %q, want %q", got, want)
	}
}

// An adversary acts once, in the instant before a step.
var swaps = []struct {
	name string
	tree []string
	path string
	mode mode
	at   string        // "operation name" of the step
	swap func(fs tree) // what the adversary does before it
	want string
	then func(fs tree) []error // what must hold once a directory was made at the place
}{
	{
		"behind the walk",
		[]string{"a/b/", "../out/b/"},
		"a/b/new", plain, "open-dir b",
		func(fs tree) { fs.mv("a", "moved"); fs.link("../out", "a") },
		"a/b/new", func(fs tree) []error { return fs.has("moved/b/new") },
	},
	{
		"in front of the walk, by a link",
		[]string{"a/b/", "../out/b/"},
		"a/b/new", plain, "open-dir b",
		func(fs tree) { fs.mv("a/b", "a/old"); fs.link("../../out/b", "a/b") },
		"ELOOP at a/b", nil,
	},
	{
		"in front of the walk, by a link out, followed",
		[]string{"a/b/", "../out/b/"},
		"a/b/new", follow, "open-dir b",
		func(fs tree) { fs.mv("a/b", "a/old"); fs.link("../../out/b", "a/b") },
		"escapes at ..", nil,
	},
	{
		"in front of the walk, by a file",
		[]string{"a/b/"},
		"a/b/new", plain, "open-dir b",
		func(fs tree) { fs.mv("a/b", "a/old"); fs.write("a/b") },
		"ENOTDIR at a/b", nil,
	},
	{
		"link to another link between look and read",
		[]string{"d/", "l => d", "../out/"},
		"l/new", follow, "readlink l",
		func(fs tree) { fs.mv("l", "old"); fs.link("../out", "l") },
		"escapes at ..", nil,
	},
	{
		"link to a directory between look and read",
		[]string{"d/", "l => d"},
		"l/new", follow, "readlink l",
		func(fs tree) { fs.mv("l", "old"); fs.mkdir("l") },
		"ELOOP at l", nil,
	},
	{
		"last link gone between look and read",
		[]string{"f", "l => f"},
		"l", linkToEnd, "readlink l",
		func(fs tree) { fs.mv("l", "old") },
		"ENOENT at l", nil,
	},
	{
		"last link to a file between look and read",
		[]string{"f", "l => f"},
		"l", linkToEnd, "readlink l",
		func(fs tree) { fs.mv("l", "old"); fs.write("l") },
		"EINVAL at l", nil,
	},
	{
		"parent moved before dot-dot",
		[]string{"a/b/c/", "../out/"},
		"a/b/c/../new", plain, "open-dir c",
		func(fs tree) { fs.mv("a/b", "../out/b"); fs.mkdir("a/b") },
		"a/b/new", func(fs tree) []error { return fs.has("../out/b/new") },
	},
}

// tree is the adversary's hands, below the root.
type tree struct {
	t    *testing.T
	root string
}

func (f tree) do(err error) {
	if err != nil {
		f.t.Error(err)
	}
}

func (f tree) at(name string) string { return filepath.Join(f.root, name) }
func (f tree) mv(from, to string)    { f.do(os.Rename(f.at(from), f.at(to))) }
func (f tree) link(text, at string)  { f.do(os.Symlink(text, f.at(at))) }
func (f tree) mkdir(name string)     { f.do(os.Mkdir(f.at(name), 0o755)) }
func (f tree) write(name string)     { f.do(os.WriteFile(f.at(name), nil, 0o600)) }

func (f tree) has(name string) []error {
	_, err := os.Lstat(f.at(name))
	return []error{err}
}

func TestWalkSwaps(t *testing.T) {
	for _, tt := range swaps {
		t.Run(tt.name, func(t *testing.T) {
			root := grow(t, t.TempDir(), tt.tree...)
			hands := tree{t, root}
			w, watch := walking(t, root)
			w.Follow = tt.mode&follow != 0
			swapped := false
			watch.before = func(op, name string) {
				if op+" "+name == tt.at && !swapped {
					swapped = true
					tt.swap(hands)
				}
			}
			place, err := w.Walk(tt.path, tt.mode&last != 0)
			if diff := cmp.Diff(tt.want, ending(place, err)); diff != "" {
				t.Errorf("Walk (-want +got):\n%s", diff)
			}
			if !swapped {
				t.Errorf("the walk never came to %q", tt.at)
			}
			if tt.then != nil && err == nil {
				if err := place.Dir.Mkdir(place.Name, 0o755); err != nil {
					t.Error(err)
				}
				if err := errors.Join(tt.then(hands)...); err != nil {
					t.Errorf("what was made at the place is elsewhere: %v", err)
				}
			}
			place.Close()
			if n := watch.open.Load(); n != 0 {
				t.Errorf("%d handles are still open", n)
			}
		})
	}
}

// A directory that Make made can be swapped before it is opened.
func TestWalkSwapAfterMake(t *testing.T) {
	root := grow(t, t.TempDir(), "../out/")
	w, watch := walking(t, root)
	w.Make = func(d vfs.Dir, name, _ string) error { return d.Symlink("../out", name) }
	if got, want := ending(w.Walk("a/f", false)), "ELOOP at a"; got != want {
		t.Errorf("Walk ended with %q, want %q", got, want)
	}
	if n := watch.open.Load(); n != 0 {
		t.Errorf("%d handles are still open", n)
	}
}

func TestWalkReportsFailedClose(t *testing.T) {
	root := grow(t, t.TempDir(), "a/b/c/f")
	for path, want := range map[string]string{
		"a/b/c/f":  "EIO at a/b", // when all but the last are let go
		"a/../b/f": "EIO at a",
	} {
		w, watch := walking(t, root)
		watch.fail = &fs.PathError{Op: "close", Path: "x", Err: syscall.EIO}
		place, err := w.Walk(path, false)
		if got := ending(place, err); got != want {
			t.Errorf("Walk(%q) ended with %q, want %q", path, got, want)
		}
		if diff := cmp.Diff(vfs.Place{}, place, cmp.AllowUnexported(vfs.Place{})); diff != "" {
			t.Errorf("Walk(%q) gave a place beside its error (-want +got):\n%s", path, diff)
		}
		if n := watch.open.Load(); n != 0 {
			t.Errorf("Walk(%q) left %d handles open", path, n)
		}
	}
}

func TestWalkErrorNamesWhereItEnded(t *testing.T) {
	root := grow(t, t.TempDir(), "a/")
	w, _ := walking(t, root)
	_, err := w.Walk(root+"/a/no/b/f", false)
	var we *vfs.WalkError
	if !errors.As(err, &we) {
		t.Fatalf("Walk = %v, want a *vfs.WalkError", err)
	}
	want := vfs.WalkError{Path: root + "/a/no/b/f", At: "a/no", Rest: "b/f", Err: we.Err}
	if diff := cmp.Diff(want, *we); diff != "" {
		t.Errorf("WalkError (-want +got):\n%s", diff)
	}
	if text := we.Err.Error(); strings.Contains(text, root) {
		t.Errorf("the reason tells where the root lies: %s", text)
	}
}

func TestHazardsHaveNames(t *testing.T) {
	var names []string
	for _, tt := range hazards {
		names = append(names, tt.name)
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != len(hazards) {
		t.Error("two hazards share a name, so that one of them cannot be run alone")
	}
}
