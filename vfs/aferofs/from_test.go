package aferofs_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/aferofs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

func TestFromConforms(t *testing.T) {
	mem := afero.NewMemMapFs()
	if err := mem.Mkdir("/r", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		base afero.Fs
		dir  string
	}{
		{"memory", mem, "/r"},
		{"operating system", afero.NewOsFs(), t.TempDir()},
		{"below a path", afero.NewBasePathFs(afero.NewOsFs(), t.TempDir()), "/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fsys := aferofs.From(tt.base)
			if caps := fsys.Caps(); caps != 0 {
				t.Errorf("Caps = %v, want none: whole paths promise nothing", caps)
			}
			if err := vfstest.TestFS(fsys, tt.dir); err != nil {
				t.Error(err)
			}
		})
	}
}

func openFrom(t *testing.T, base afero.Fs, dir string) vfs.Dir {
	t.Helper()
	root, err := aferofs.From(base).OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

// A base that refuses keeps its own word.
func TestFromReadOnly(t *testing.T) {
	mem := afero.NewMemMapFs()
	if err := errors.Join(mem.Mkdir("/r", 0o755), afero.WriteFile(mem, "/r/f", []byte("f"), 0o644)); err != nil {
		t.Fatal(err)
	}
	root := openFrom(t, afero.NewReadOnlyFs(mem), "/r")
	_, create := root.OpenFile("new", vfs.WriteOnly|vfs.Create, 0o600)
	_, probe := root.OpenFile("f", vfs.Probe, 0)
	for what, err := range map[string]error{
		"create": create, "probe": probe, "mkdir": root.Mkdir("d", 0o700), "remove": root.Remove("f"),
	} {
		var pathErr *fs.PathError
		if !errors.Is(err, syscall.EPERM) || !errors.As(err, &pathErr) || strings.Contains(pathErr.Path, "/") {
			t.Errorf("%s = %v, want EPERM at a single name", what, err)
		}
	}
}

// Links of the base are seen where the base lets us see them, though nothing is
// promised about them.
func TestFromSeesLinks(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/d", 0o755), os.WriteFile(dir+"/f", []byte("f"), 0o600),
		os.Symlink("f", dir+"/to-file"), os.Symlink("d", dir+"/to-dir"), os.Symlink("no", dir+"/dangling")); err != nil {
		t.Fatal(err)
	}
	root := openFrom(t, afero.NewOsFs(), dir)
	_, file := root.OpenFile("to-file", vfs.ReadOnly, 0)
	_, dangling := root.OpenFile("dangling", vfs.WriteOnly|vfs.Create, 0o600)
	_, sub := root.OpenDir("to-dir")
	for what, err := range map[string]error{"OpenFile": file, "OpenFile with Create": dangling, "OpenDir": sub} {
		if !errors.Is(err, syscall.ELOOP) {
			t.Errorf("%s of a link = %v, want ELOOP", what, err)
		}
	}
	if info, err := root.Lstat("dangling"); err != nil || info.Mode&fs.ModeSymlink == 0 {
		t.Errorf("Lstat of a link = %v, %v", info.Mode, err)
	}
}

func TestFromRefusesOthers(t *testing.T) {
	a, b := openFrom(t, afero.NewMemMapFs(), "/"), openFrom(t, afero.NewMemMapFs(), "/")
	if err := a.Mkdir("d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := a.Rename("d", b, "d", vfs.Replace); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("Rename to another backend = %v, want EXDEV", err)
	}
	f, err := a.OpenFile("f", vfs.ReadWrite|vfs.Create, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Chown(0, 0); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("Chown = %v, want vfs.ErrUnsupported", err)
	}
	if err := f.Chmod(0o640); err != nil {
		t.Errorf("Chmod = %v", err)
	}
	if info, err := a.Lstat("f"); err != nil || info.Mode != 0o640 {
		t.Errorf("Mode after Chmod = %v, %v", info.Mode, err)
	}
	if _, err := aferofs.From(afero.NewMemMapFs()).OpenRoot("relative"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("OpenRoot of a relative path = %v, want fs.ErrInvalid", err)
	}
}
