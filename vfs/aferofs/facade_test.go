package aferofs_test

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/aferofs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// counted counts what is open through it, and may make writes short and closes
// fail.
type counted struct {
	vfs.Dir
	*counting
}

type counting struct {
	open    atomic.Int64
	cut     int   // at most so many bytes a Write, if set
	closing error // what a Close of a directory says after it closed
}

func (d *counted) OpenDir(name string) (vfs.Dir, error) {
	sub, err := d.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &counted{sub, d.counting}, nil
}

func (d *counted) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	f, err := d.Dir.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	d.open.Add(1)
	return &countedFile{f, d.counting}, nil
}

func (d *counted) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	return d.Dir.Rename(name, to.(*counted).Dir, toName, flag)
}

func (d *counted) Close() error {
	err := d.Dir.Close()
	if !errors.Is(err, fs.ErrClosed) {
		d.open.Add(-1)
	}
	return cmp.Or(err, d.closing)
}

type countedFile struct {
	vfs.File
	*counting
}

func (f *countedFile) Write(p []byte) (int, error) {
	if f.cut == 0 || len(p) <= f.cut {
		return f.File.Write(p)
	}
	n, err := f.File.Write(p[:f.cut])
	if err == nil {
		err = io.ErrShortWrite
	}
	return n, err
}

func (f *countedFile) Close() error {
	err := f.File.Close()
	if !errors.Is(err, fs.ErrClosed) {
		f.open.Add(-1)
	}
	return err
}

// stage is a facade over a fresh directory. At the end of the test nothing may
// be open that was opened through it.
type stage struct {
	afero.Fs
	counting
	dir string
}

func newStage(t *testing.T, lines ...string) *stage {
	t.Helper()
	s := &stage{dir: t.TempDir() + "/root"}
	if err := os.Mkdir(s.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		name, text, isLink := strings.Cut(line, " => ")
		var err error
		switch {
		case isLink:
			err = os.Symlink(text, s.dir+"/"+name)
		case strings.HasSuffix(line, "/"):
			err = os.MkdirAll(s.dir+"/"+line, 0o755)
		default:
			err = os.WriteFile(s.dir+"/"+line, []byte(line), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := osfs.New().OpenRoot(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	s.Fs = aferofs.Facade(&counted{root, &s.counting})
	t.Cleanup(func() {
		if n := s.open.Load(); n != 0 {
			t.Errorf("%d handles are still open", n)
		}
		root.Close()
	})
	return s
}

// list lists the tree on disk: directories end in "/", links show their text.
func (s *stage) list(t *testing.T) []string {
	t.Helper()
	var lines []string
	err := fs.WalkDir(os.DirFS(s.dir), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path == ".":
		case d.IsDir():
			lines = append(lines, path+"/")
		case d.Type() == fs.ModeSymlink:
			text, err := os.Readlink(s.dir + "/" + path)
			lines = append(lines, path+" => "+text)
			return err
		default:
			lines = append(lines, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

var staged = []string{
	"a/b/", "a/b/f", "f", "../secret",
	"to-f => f", "to-a => a", "slash => a/", "up => ..", "out => ../secret", "abs => /a/b", "pw => /etc/passwd",
	"dangling => no", "a/back => ../f", "loop => loop",
}

func TestFacadeNames(t *testing.T) {
	s := newStage(t, staged...)
	for _, tt := range []struct {
		name string
		want string // content, "dir" or the error
	}{
		{"f", "f"},
		{"/f", "f"},
		{"//f", "f"},
		{"./f", "f"},
		{"a/b/f", "a/b/f"},
		{"a/../f", "f"},
		{"to-f", "f"},
		{"to-a/b/f", "a/b/f"},
		{"slash/b/f", "a/b/f"},
		{"abs/f", "a/b/f"},
		{"a/back", "f"},
		{"/", "dir"},
		{".", "dir"},
		{"a", "dir"},
		{"a/", "dir"},
		{"a/.", "dir"},
		{"a/b/..", "dir"},
		{"to-a", "dir"},
		{"slash", "dir"},
		{"to-a/", "dir"},
		{"", "open : no such file or directory"},
		{"no", "open no: no such file or directory"},
		{"no/f", "open no/f: no such file or directory"},
		{"f/", "open f/: not a directory"},
		{"f/x", "open f/x: not a directory"},
		{"dangling", "open dangling: no such file or directory"},
		{"loop", "open loop: too many levels of symbolic links"},
		{"../secret", "open ../secret: path leads outside the root"},
		{"a/../../secret", "open a/../../secret: path leads outside the root"},
		{"..", "open ..: path leads outside the root"},
		{"up", "open up: path leads outside the root"},
		{"up/secret", "open up/secret: path leads outside the root"},
		{"out", "open out: path leads outside the root"},
		{"pw", "open pw: no such file or directory"}, // /etc/passwd below the root
		{"a\x00", "open a\x00: invalid argument"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := s.meet(tt.name); got != tt.want {
				t.Errorf("Open(%q) meets %q, want %q", tt.name, got, tt.want)
			}
			_, serr := s.Stat(tt.name)
			if failed := strings.HasPrefix(tt.want, "open "); failed != (serr != nil) {
				t.Errorf("Stat(%q) = %v, but Open meets %q", tt.name, serr, tt.want)
			}
		})
	}
}

func (s *stage) meet(name string) string {
	f, err := s.Open(name)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	if info.IsDir() {
		return "dir"
	}
	text, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func TestFacadeErrorsSuitAfero(t *testing.T) {
	s := newStage(t, staged...)
	for name, want := range map[string]bool{"f": true, "a": true, "no": false, "no/f": false, "dangling": false} {
		if got, err := afero.Exists(s, name); got != want || err != nil {
			t.Errorf("Exists(%q) = %t, %v, want %t", name, got, err, want)
		}
	}
	_, err := s.OpenFile("f", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if !os.IsExist(err) {
		t.Errorf("exclusive create = %v, want os.IsExist", err)
	}
	if _, err := s.Stat("../secret"); !errors.Is(err, vfs.ErrEscapes) {
		t.Errorf("Stat above the root = %v, want vfs.ErrEscapes", err)
	}
	if err := s.Chtimes("f", time.Time{}, time.Time{}); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("Chtimes = %v, want vfs.ErrUnsupported", err)
	}
	for _, flag := range []int{os.O_SYNC, os.O_WRONLY | os.O_SYNC} {
		if _, err := s.OpenFile("f", flag, 0); !errors.Is(err, vfs.ErrUnsupported) {
			t.Errorf("OpenFile with O_SYNC = %v, want vfs.ErrUnsupported", err)
		}
	}
	if _, err := s.OpenFile("f", os.O_WRONLY|os.O_RDWR, 0); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("OpenFile with O_WRONLY|O_RDWR = %v, want EINVAL", err)
	}
}

// The changes, each with the tree that it leaves.
func TestFacadeChanges(t *testing.T) {
	for _, tt := range []struct {
		name string
		tree []string
		do   func(a afero.Fs) error
		err  error
		want []string
	}{
		{
			"create", nil, func(a afero.Fs) error { return afero.WriteFile(a, "/new", nil, 0o644) },
			nil,
			[]string{"new"},
		},
		{
			"create through a dangling link",
			[]string{"l => no"},
			func(a afero.Fs) error { return afero.WriteFile(a, "l", nil, 0o644) },
			nil,
			[]string{"l => no", "no"},
		},
		{
			"exclusive create over a dangling link",
			[]string{"l => no"},
			func(a afero.Fs) error {
				_, err := a.OpenFile("l", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
				return err
			},
			syscall.EEXIST,
			[]string{"l => no"},
		},
		{
			"create where a directory is",
			[]string{"d/"},
			func(a afero.Fs) error { _, err := a.Create("d"); return err },
			syscall.EISDIR,
			[]string{"d/"},
		},
		{
			"create with a slash at the end", nil,
			func(a afero.Fs) error { _, err := a.Create("d/"); return err },
			syscall.EISDIR, nil,
		},
		{
			"create below a missing directory", nil,
			func(a afero.Fs) error { _, err := a.Create("d/f"); return err },
			syscall.ENOENT, nil,
		},
		{"mkdir", nil, func(a afero.Fs) error { return a.Mkdir("d/", 0o755) }, nil, []string{"d/"}},
		{"mkdir over a file", []string{"f"}, func(a afero.Fs) error { return a.Mkdir("f", 0o755) }, syscall.EEXIST, []string{"f"}},
		{"mkdir of the root", nil, func(a afero.Fs) error { return a.Mkdir("/", 0o755) }, fs.ErrInvalid, nil},
		{"mkdir -p", []string{"a/"}, func(a afero.Fs) error { return a.MkdirAll("/a/b/c", 0o755) }, nil, []string{"a/", "a/b/", "a/b/c/"}},
		{"mkdir -p of what is there", []string{"a/"}, func(a afero.Fs) error { return a.MkdirAll("a", 0o755) }, nil, []string{"a/"}},
		{"mkdir -p of the root", nil, func(a afero.Fs) error { return a.MkdirAll("/", 0o755) }, nil, nil},
		{
			"mkdir -p through a link",
			[]string{"d/", "l => d"},
			func(a afero.Fs) error { return a.MkdirAll("l/b", 0o755) }, nil,
			[]string{"d/", "d/b/", "l => d"},
		},
		{
			"mkdir -p through a dangling link",
			[]string{"l => no"},
			func(a afero.Fs) error { return a.MkdirAll("l/b", 0o755) }, syscall.ENOENT,
			[]string{"l => no"},
		},
		{"mkdir -p over a file", []string{"f"}, func(a afero.Fs) error { return a.MkdirAll("f/d", 0o755) }, syscall.ENOTDIR, []string{"f"}},
		{"remove a file", []string{"f"}, func(a afero.Fs) error { return a.Remove("f") }, nil, nil},
		{"remove a directory", []string{"d/"}, func(a afero.Fs) error { return a.Remove("d") }, nil, nil},
		{"remove a directory with an entry", []string{"d/", "d/f"}, func(a afero.Fs) error { return a.Remove("d") }, syscall.ENOTEMPTY, []string{"d/", "d/f"}},
		{"remove a link", []string{"d/", "l => d"}, func(a afero.Fs) error { return a.Remove("l") }, nil, []string{"d/"}},
		{"remove nothing", nil, func(a afero.Fs) error { return a.Remove("no") }, syscall.ENOENT, nil},
		{
			"remove all",
			[]string{"d/e/", "d/e/f", "d/g", "d/out => ../keep", "keep"},
			func(a afero.Fs) error { return a.RemoveAll("/d/") }, nil,
			[]string{"keep"},
		},
		{"remove all of a link", []string{"d/", "d/f", "l => d"}, func(a afero.Fs) error { return a.RemoveAll("l") }, nil, []string{"d/", "d/f"}},
		{"remove all of a file", []string{"f"}, func(a afero.Fs) error { return a.RemoveAll("f") }, nil, nil},
		{"remove all of nothing", nil, func(a afero.Fs) error { return a.RemoveAll("no/no") }, nil, nil},
		{"remove all of the root", []string{"f"}, func(a afero.Fs) error { return a.RemoveAll("/") }, fs.ErrInvalid, []string{"f"}},
		{"remove all above the root", nil, func(a afero.Fs) error { return a.RemoveAll("../secret") }, vfs.ErrEscapes, nil},
		{"rename", []string{"f", "d/", "d/g"}, func(a afero.Fs) error { return a.Rename("f", "d/g") }, nil, []string{"d/", "d/g"}},
		{"rename a link", []string{"f", "l => f"}, func(a afero.Fs) error { return a.Rename("l", "m") }, nil, []string{"f", "m => f"}},
		{"rename nothing", []string{"f"}, func(a afero.Fs) error { return a.Rename("no", "f") }, syscall.ENOENT, []string{"f"}},
		{"rename out of the root", []string{"f"}, func(a afero.Fs) error { return a.Rename("f", "../f") }, vfs.ErrEscapes, []string{"f"}},
		{
			"symlink", nil, func(a afero.Fs) error { return a.(afero.Linker).SymlinkIfPossible("no/where", "l") },
			nil,
			[]string{"l => no/where"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, tt.tree...)
			err := tt.do(s.Fs)
			if !errors.Is(err, tt.err) {
				t.Errorf("error = %v, want %v", err, tt.err)
			}
			var pathErr *fs.PathError
			var linkErr *os.LinkError
			if err != nil && !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
				t.Errorf("error = %T, want a *fs.PathError or an *os.LinkError", err)
			}
			if diff := gocmp.Diff(tt.want, s.list(t)); diff != "" {
				t.Errorf("tree (-want +got):\n%s", diff)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err } // of two results

func TestFacadeAttributes(t *testing.T) {
	s := newStage(t, "f", "d/", "l => f", "slash => d/")
	for _, mode := range []fs.FileMode{0o200, 0o640 | fs.ModeSticky} {
		if err := s.Chmod("l", mode); err != nil {
			t.Fatal(err)
		}
		if info, err := s.Stat("f"); err != nil || info.Mode() != mode {
			t.Errorf("Mode after Chmod(%v) through a link = %v, %v", mode, info, err)
		}
	}
	if err := s.Chown("f", os.Geteuid(), os.Getegid()); err != nil {
		t.Errorf("Chown to ourselves = %v", err)
	}
	for _, name := range []string{"d", "d/", "/", "slash"} {
		for what, err := range map[string]error{"Chmod": s.Chmod(name, 0o700), "Chown": s.Chown(name, -1, -1)} {
			if !errors.Is(err, vfs.ErrUnsupported) {
				t.Errorf("%s(%q) = %v, want vfs.ErrUnsupported", what, name, err)
			}
		}
	}
	if err := s.Chmod("no", 0o600); !os.IsNotExist(err) {
		t.Errorf("Chmod of nothing = %v, want os.IsNotExist", err)
	}
	if got := s.Name(); got != "fsbench" {
		t.Errorf("Name = %q", got)
	}
}

func TestFacadeLinks(t *testing.T) {
	s := newStage(t, "f", "l => f", "d/")
	lstater, reader := s.Fs.(afero.Lstater), s.Fs.(afero.LinkReader)
	info, possible, err := lstater.LstatIfPossible("l")
	if err != nil || !possible || info.Mode().Type() != fs.ModeSymlink {
		t.Errorf("LstatIfPossible of a link = %v, %t, %v", info, possible, err)
	}
	if info, _, err := lstater.LstatIfPossible("d/"); err != nil || !info.IsDir() {
		t.Errorf("LstatIfPossible with a slash = %v, %v", info, err)
	}
	if _, _, err := lstater.LstatIfPossible("no"); !os.IsNotExist(err) {
		t.Errorf("LstatIfPossible of nothing = %v", err)
	}
	if text, err := reader.ReadlinkIfPossible("l"); text != "f" || err != nil {
		t.Errorf("ReadlinkIfPossible = %q, %v", text, err)
	}
	if _, err := reader.ReadlinkIfPossible("f"); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("ReadlinkIfPossible of a file = %v, want EINVAL", err)
	}
}

// What afero builds on an Fs works on the facade.
func TestFacadeServesAfero(t *testing.T) {
	s := newStage(t, "d/e/", "d/e/f", "d/l => e", "d/loop => .")
	var walked []string
	err := afero.Walk(s.Fs, "/", func(path string, info fs.FileInfo, err error) error {
		walked = append(walked, path)
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if diff := gocmp.Diff([]string{"/", "/d", "/d/e", "/d/e/f", "/d/l", "/d/loop"}, walked); diff != "" {
		t.Errorf("Walk (-want +got):\n%s", diff)
	}
	if matches, err := afero.Glob(s, "d/*/f"); err != nil || !slices.Equal(matches, []string{"d/e/f", "d/l/f"}) {
		t.Errorf("Glob = %q, %v", matches, err)
	}
	if err := afero.SafeWriteReader(s, "new/deep/f", strings.NewReader("text")); err != nil {
		t.Error(err)
	}
	if got, err := afero.ReadFile(s, "new/deep/f"); string(got) != "text" || err != nil {
		t.Errorf("content = %q, %v", got, err)
	}
	tmp, err := afero.TempFile(s, "d", "tmp-")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stat(tmp.Name()); err != nil {
		t.Errorf("the temporary file is not where it says: %v", err)
	}
	if err := tmp.Close(); err != nil {
		t.Error(err)
	}
	if empty, err := afero.IsEmpty(s, "d"); empty || err != nil {
		t.Errorf("IsEmpty = %t, %v", empty, err)
	}
	based := afero.NewBasePathFs(s, "/d")
	if err := afero.WriteFile(based, "e/g", []byte("g"), 0o600); err != nil {
		t.Error(err)
	}
	if got := s.meet("d/e/g"); got != "g" {
		t.Errorf("written through a base path: %q", got)
	}
	if err := s.RemoveAll("d"); err != nil {
		t.Error(err)
	}
}

// A close that fails is told, and must not leak what was opened beside it.
func TestFacadeCloseFails(t *testing.T) {
	s := newStage(t, "a/", "a/b/", "a/b/f", "a/l => b/f")
	s.closing = &fs.PathError{Op: "close", Path: "x", Err: syscall.EIO}
	for _, tt := range []struct {
		what string
		do   func() error
	}{
		{"Open", func() error { return second(s.Open("a/b/f")) }},
		{"Open dir", func() error { return second(s.Open("a/b")) }},
		{"Open a/b/", func() error { return second(s.Open("a/b/")) }},
		{"Stat", func() error { return second(s.Stat("a/l")) }},
		{"Mkdir", func() error { return s.Mkdir("a/b/d", 0o700) }},
		{"MkdirAll", func() error { return s.MkdirAll("a/c/d", 0o700) }},
		{"Chmod", func() error { return s.Chmod("a/b/f", 0o600) }},
		{"Rename", func() error { return s.Rename("a/b/f", "a/f") }},
		{"RemoveAll", func() error { return s.RemoveAll("a") }},
	} {
		if err := tt.do(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s = %v, want EIO", tt.what, err)
		}
	}
}
