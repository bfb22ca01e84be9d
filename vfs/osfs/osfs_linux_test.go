package osfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

func mkfifo(t *testing.T, dir, name string) {
	t.Helper()
	if err := unix.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
		t.Fatal(err)
	}
}

// waitForReader opens a FIFO for writing as soon as somebody opens it to read.
func waitForReader(t *testing.T, d vfs.Dir, name string) vfs.File {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if f, err := d.OpenFile(name, vfs.WriteOnly|vfs.NonBlock, 0); err == nil {
			return f
		}
	}
	t.Fatal("no reader came")
	return nil
}

func TestErrorsNameTheNameOnly(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	if err := errors.Join(root.Mkdir("d", 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	f := openFile(t, root, "f", vfs.ReadOnly)
	defer f.Close()
	for _, tt := range []struct {
		want string // as printed
		err  error
	}{
		{"openat d/f: invalid argument", second(root.OpenFile("d/f", vfs.ReadOnly, 0))},
		{"openat no: no such file or directory", second(root.OpenDir("no"))},
		{"openat no: no such file or directory", second(root.OpenFile("no", vfs.ReadOnly, 0))},
		{"openat f: invalid argument", second(root.OpenFile("f", vfs.WriteOnly|vfs.ReadWrite, 0))},
		{"mkdirat d: file exists", root.Mkdir("d", 0o700)},
		{"fstatat no: no such file or directory", second(root.Lstat("no"))},
		{"readlinkat f: invalid argument", second(root.Readlink("f"))},
		{"symlinkat f: file exists", root.Symlink("x", "f")},
		{"linkat d d2: operation not permitted", root.Link("d", root, "d2")},
		{"linkat f new/: invalid argument", root.Link("f", nowhere{}, "new/")},
		{"linkat f new: invalid cross-device link", root.Link("f", nowhere{}, "new")},
		{"renameat no new: no such file or directory", root.Rename("no", root, "new", vfs.Replace)},
		{"renameat f new: invalid argument", root.Rename("f", root, "new", 99)},
		{"renameat f new: invalid cross-device link", root.Rename("f", nowhere{}, "new", vfs.Replace)},
		{"linkat new: invalid argument", root.Publish(f, "new")},
		{"linkat new: invalid cross-device link", root.Publish(nil, "new")},
		{"unlinkat d: is a directory", root.Remove("d")},
		{"unlinkat f: not a directory", root.Rmdir("f")},
		{"syncfs : invalid cross-device link", osfs.New().SyncFS(nowhere{})},
		{"openat : invalid argument", second(root.OpenFile("", vfs.Doomed|vfs.Probe, 0))},
		{"write f: bad file descriptor", second(f.Write([]byte("x")))},
		{"lseek f: invalid argument", second(f.Seek(0, 99))},
		{"ftruncate f: invalid argument", f.Truncate(-1)},
		{"fgetxattr f: no data available", second(f.Xattr("user.no"))},
		{"fsetxattr f: operation not supported", f.SetXattr("elsewhere.name", nil)},
		{"openat no: no such file or directory", second(osfs.New().OpenRoot(filepath.Join(dir, "no")))},
		{"openat f: not a directory", second(osfs.New().OpenRoot(filepath.Join(dir, "f")))},
		{"openat f: invalid argument", second(osfs.New().OpenRoot("f"))},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if tt.err == nil || tt.err.Error() != tt.want {
				t.Fatalf("got %v, want %s", tt.err, tt.want)
			}
			var errno syscall.Errno
			if !errors.As(tt.err, &errno) && !errors.Is(tt.err, fs.ErrInvalid) {
				t.Errorf("%v holds neither an errno nor fs.ErrInvalid", tt.err)
			}
		})
	}
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// nowhere is a directory of another backend.
type nowhere struct{ vfs.Dir }

func TestInfoIsTheKernels(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, []byte("12345"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, fs.ModeSetuid|0o751); err != nil {
		t.Fatal(err)
	}
	got, err := root.Lstat("f")
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	want := vfs.Info{
		Mode: fs.ModeSetuid | 0o751, Size: 5, ID: vfs.ID{Dev: st.Dev, Ino: st.Ino}, UID: st.Uid, GID: st.Gid,
		Nlink: 1, Mtime: time.Unix(st.Mtim.Unix()),
		Btime: got.Btime, MountID: got.MountID,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Lstat (-want +got):\n%s", diff)
	}
	if got.Btime.IsZero() || got.MountID == 0 {
		t.Skipf("this file system tells no birth time or this kernel no mount: %+v", got)
	}
	if age := time.Since(got.Btime); age < -time.Minute || age > time.Hour {
		t.Errorf("Btime = %v, want about now", got.Btime)
	}
}

func TestSpecialFiles(t *testing.T) {
	root := openRoot(t, "/dev")
	info, err := root.Lstat("null")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := info.Mode.Type(), fs.ModeDevice|fs.ModeCharDevice; got != want {
		t.Errorf("type of /dev/null = %v, want %v", got, want)
	}
}

// A sample of a large directory takes several reads of the kernel's list, or
// less than one.
func TestReadDirAcrossReads(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	const total = 1200
	var want []string
	for i := range total {
		name := fmt.Sprintf("%04d-%s", i, strings.Repeat("x", 40))
		want = append(want, name)
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		n, want int
		more    bool
	}{
		{0, total, false},
		{1, 1, true},
		{160, 160, true},
		{total - 1, total - 1, true},
		{total, total, false},
		{total + 1, total, false},
	} {
		names, more, err := root.ReadDir(tt.n)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		if len(slices.Compact(names)) != tt.want || more != tt.more {
			t.Errorf("ReadDir(%d) = %d names, %t, want %d, %t", tt.n, len(names), more, tt.want, tt.more)
		}
		if tt.n == 0 {
			if diff := cmp.Diff(want, names); diff != "" {
				t.Errorf("ReadDir(0) (-want +got):\n%s", diff)
			}
		}
	}
}

func TestLongLinkText(t *testing.T) {
	root := openRoot(t, t.TempDir())
	text := strings.Repeat("0123456789/", 300)
	if err := root.Symlink(text, "l"); err != nil {
		t.Fatal(err)
	}
	if got, err := root.Readlink("l"); err != nil || got != text {
		t.Errorf("Readlink = %d bytes, %v, want %d", len(got), err, len(text))
	}
}

func TestAcrossFileSystems(t *testing.T) {
	here, there := t.TempDir(), "/dev/shm"
	var a, b unix.Stat_t
	if unix.Stat(here, &a) != nil || unix.Stat(there, &b) != nil || a.Dev == b.Dev || unix.Access(there, unix.W_OK) != nil {
		t.Skip("there is no second file system to write to")
	}
	from, to := openRoot(t, here), openRoot(t, ownedBy(t, there, os.Geteuid()))
	if err := openFile(t, from, "f", vfs.WriteOnly|vfs.Create).Close(); err != nil {
		t.Fatal(err)
	}
	doomed := openFile(t, from, "", vfs.Doomed)
	defer doomed.Close()
	for what, err := range map[string]error{
		"Rename":  from.Rename("f", to, "f", vfs.Replace),
		"Link":    from.Link("f", to, "f"),
		"Publish": to.Publish(doomed, "f"),
	} {
		if !errors.Is(err, syscall.EXDEV) {
			t.Errorf("%s = %v, want EXDEV", what, err)
		}
	}
}

func TestProbeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	// A name that an earlier probe was killed over is passed by.
	if err := root.Mkdir(".fsbench-probe-0", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := osfs.Probe(dir)
	if err != nil {
		t.Fatal(err)
	}
	if f.Caps()&^osfs.New().Caps() != 0 {
		t.Errorf("Probe promises %v, more than New", f.Caps())
	}
	names, _, err := root.ReadDir(0)
	if diff := cmp.Diff([]string{".fsbench-probe-0"}, names); diff != "" || err != nil {
		t.Errorf("after Probe (-want +got), %v:\n%s", err, diff)
	}
	if _, err := osfs.Probe(filepath.Join(dir, "missing")); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Probe of a missing directory = %v, want ENOENT", err)
	}
}

func TestProbesAtOnce(t *testing.T) {
	dir := t.TempDir()
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := osfs.Probe(dir)
			errs <- err
		}()
	}
	for range 8 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}
