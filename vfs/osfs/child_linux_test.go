package osfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

// Some tests change what the whole process may do: who it is, what a filter
// lets through, how large a file may grow. They run in a child, which is this
// test binary again.
const (
	childName = "OSFS_TEST_CHILD"
	childDir  = "OSFS_TEST_DIR"
)

var children = map[string]func(dir string) error{
	"conform":    conform,
	"walk-only":  walkOnly,
	"filtered":   filtered,
	"file-limit": fileLimit,
	"ramfs":      ramfs,
	"no-write":   noWrite,
}

func TestMain(m *testing.M) {
	name := os.Getenv(childName)
	if name == "" {
		os.Exit(m.Run())
	}
	if err := children[name](os.Getenv(childDir)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child runs one of children in dir. The binary lies in a folder of mode 0700,
// where another user can only reach it as /proc/self/exe.
func child(t *testing.T, name, dir string, attr *syscall.SysProcAttr) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childName+"="+name, childDir+"="+dir)
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("child %s: %v\n%s", name, err, bytes.TrimSpace(out))
	}
}

const nobody = 65534

var asNobody = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}

// ownedBy makes an empty directory below base that uid owns and can reach.
func ownedBy(t *testing.T, base string, uid int) string {
	t.Helper()
	top, err := os.MkdirTemp(base, "osfs-test-") //nolint:usetesting // t.TempDir lies below a folder of mode 0700
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	dir := filepath.Join(top, "own")
	err = errors.Join(os.Chmod(top, 0o711), os.Mkdir(dir, 0o755), os.Chown(dir, uid, uid))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func needRoot(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("not root: " + why)
	}
}

func conform(dir string) error { return vfstest.TestFS(osfs.New(), dir) }

func TestConformsUnprivileged(t *testing.T) {
	needRoot(t, "the process is unprivileged as it is, see TestConforms")
	child(t, "conform", ownedBy(t, os.TempDir(), nobody), asNobody)
}

func TestConformsOnTmpfs(t *testing.T) {
	const shm = "/dev/shm"
	var st unix.Statfs_t
	if err := unix.Statfs(shm, &st); err != nil || st.Type != unix.TMPFS_MAGIC || unix.Access(shm, unix.W_OK) != nil {
		t.Skip(shm + " is not a tmpfs that we may write to")
	}
	if err := conform(ownedBy(t, shm, os.Geteuid())); err != nil {
		t.Errorf("as we are: %v", err)
	}
	if os.Geteuid() == 0 {
		child(t, "conform", ownedBy(t, shm, nobody), asNobody)
	}
}

// walkOnly: a directory without the right to read can be walked and written
// into, and what it does refuse is refused by the kernel.
func walkOnly(dir string) error {
	f := osfs.New()
	for _, mode := range []fs.FileMode{0o300, 0o100} {
		err := os.Mkdir(filepath.Join(dir, "d"), 0o700)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, "d", "inner"), nil, 0o600))
		if err = errors.Join(err, os.Chmod(filepath.Join(dir, "d"), mode)); err != nil {
			return err
		}
		// The directory is opened as a root and by name from above.
		above, err := f.OpenRoot(dir)
		if err != nil {
			return err
		}
		named, err := above.OpenDir("d")
		if err != nil {
			return fmt.Errorf("OpenDir of mode %v: %w", mode, err)
		}
		root, err := f.OpenRoot(filepath.Join(dir, "d"))
		if err != nil {
			return fmt.Errorf("OpenRoot of mode %v: %w", mode, err)
		}
		for _, d := range []vfs.Dir{named, root} {
			if err := walkable(f, d, mode&0o200 != 0); err != nil {
				return fmt.Errorf("mode %v: %w", mode, err)
			}
		}
		err = errors.Join(named.Close(), root.Close(), above.Close(), os.Chmod(filepath.Join(dir, "d"), 0o700))
		if err = errors.Join(err, os.RemoveAll(filepath.Join(dir, "d"))); err != nil {
			return err
		}
	}
	return unreadableDir(f, dir)
}

func walkable(f *osfs.FS, d vfs.Dir, writable bool) error {
	if _, err := d.Lstat("inner"); err != nil {
		return err
	}
	if _, err := d.Stat(); err != nil {
		return err
	}
	if writable {
		err := errors.Join(d.Mkdir("new", 0o700), d.Rename("new", d, "moved", vfs.NoReplace), d.Rmdir("moved"))
		if err != nil {
			return err
		}
	}
	_, _, readErr := d.ReadDir(0)
	for what, err := range map[string]error{"ReadDir": readErr, "Sync": d.Sync(), "SyncFS": f.SyncFS(d)} {
		if !errors.Is(err, syscall.EACCES) {
			return fmt.Errorf("%s = %w, want EACCES", what, err)
		}
	}
	return nil
}

// unreadableDir: to open a directory as a file is EISDIR even where reading it
// would be EACCES.
func unreadableDir(f *osfs.FS, dir string) error {
	if err := os.Mkdir(filepath.Join(dir, "closed"), 0); err != nil {
		return err
	}
	root, err := f.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, flag := range []vfs.Flag{vfs.ReadOnly, vfs.WriteOnly, vfs.ReadWrite, vfs.Probe} {
		if _, err := root.OpenFile("closed", flag, 0); !errors.Is(err, syscall.EISDIR) {
			return fmt.Errorf("OpenFile(closed, %d) = %w, want EISDIR", flag, err)
		}
	}
	return root.Rmdir("closed")
}

func TestWalkOnlyDirectory(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := walkOnly(t.TempDir()); err != nil {
			t.Error(err)
		}
		return
	}
	child(t, "walk-only", ownedBy(t, os.TempDir(), nobody), asNobody)
}

// noWrite: where nothing can be made, nothing can be probed, and nothing may be
// concluded.
func noWrite(dir string) error {
	if err := os.Chmod(dir, 0o500); err != nil {
		return err
	}
	if f, err := osfs.Probe(dir); f != nil || !errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("Probe = %v, %w, want EACCES", f, err)
	}
	return nil
}

func TestProbeNeedsToWrite(t *testing.T) {
	if os.Geteuid() != 0 {
		if err := noWrite(t.TempDir()); err != nil {
			t.Error(err)
		}
		return
	}
	child(t, "no-write", ownedBy(t, os.TempDir(), nobody), asNobody)
}

// filtered runs under a seccomp filter that refuses what is new, as the filters
// of container engines did for years.
func filtered(dir string) error {
	if err := refuseNewCalls(); err != nil {
		return err
	}
	f := osfs.New()
	if lost := vfs.CapNoReplace | vfs.CapExchange | vfs.CapBirth | vfs.CapMountID; f.Caps()&lost != 0 {
		return fmt.Errorf("caps = %v, want none of %v", f.Caps(), lost)
	}
	for _, call := range []string{"openat2", "renameat2", "statx"} {
		if !slices.ContainsFunc(f.Notes(), func(n string) bool { return strings.HasPrefix(n, call+" is refused") }) {
			return fmt.Errorf("notes = %q, want one on %s", f.Notes(), call)
		}
	}
	if err := vfstest.TestFS(f, dir); err != nil {
		return err
	}
	probed, err := osfs.Probe(dir)
	if err != nil {
		return err
	}
	if notes := probed.Notes(); len(notes) != 4 || !strings.Contains(notes[3], "published through /proc") {
		return fmt.Errorf("notes = %q, want one on publishing through /proc", notes)
	}
	return nil
}

// refuseNewCalls puts a filter on all threads. It answers openat2 and renameat2
// with ENOSYS, statx with EPERM, and linkat of a descriptor with EPERM.
func refuseNewCalls() error {
	const (
		load    = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		ifEqual = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		answer  = unix.BPF_RET | unix.BPF_K
		flags   = 16 + 4*8 // where the fifth argument begins in struct seccomp_data
	)
	filter := []unix.SockFilter{
		{Code: load, K: 0}, // the number of the call
		{Code: ifEqual, K: unix.SYS_OPENAT2, Jt: 5},
		{Code: ifEqual, K: unix.SYS_RENAMEAT2, Jt: 4},
		{Code: ifEqual, K: unix.SYS_STATX, Jt: 4},
		{Code: ifEqual, K: unix.SYS_LINKAT, Jf: 4},
		{Code: load, K: flags},
		{Code: ifEqual, K: unix.AT_EMPTY_PATH, Jt: 1, Jf: 2},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)},
		{Code: answer, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: answer, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

func TestConformsBehindFilter(t *testing.T) {
	if unix.Prctl(unix.PR_GET_SECCOMP, 0, 0, 0, 0) != nil {
		t.Skip("this kernel has no seccomp")
	}
	dir := ownedBy(t, os.TempDir(), os.Geteuid())
	child(t, "filtered", dir, nil)
	if os.Geteuid() == 0 {
		child(t, "filtered", ownedBy(t, os.TempDir(), nobody), asNobody)
	}
}

// fileLimit: a write that the limit cuts short must show its count, and the next
// one the reason.
func fileLimit(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 10, Max: 10}); err != nil {
		return err
	}
	root, err := osfs.New().OpenRoot(dir)
	if err != nil {
		return err
	}
	f, err := root.OpenFile("f", vfs.WriteOnly|vfs.Create, 0o600)
	if err != nil {
		return err
	}
	if n, err := f.Write(make([]byte, 16)); n != 10 || !errors.Is(err, io.ErrShortWrite) {
		return fmt.Errorf("Write = %d, %w, want 10 and io.ErrShortWrite", n, err)
	}
	if n, err := f.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("Write past the limit = %d, %w, want 0 and EFBIG", n, err)
	}
	return errors.Join(f.Close(), root.Close())
}

func TestShortWriteShows(t *testing.T) { child(t, "file-limit", t.TempDir(), nil) }

// ramfs has no extended attributes.
func ramfs(dir string) error {
	if err := unix.Mount("none", dir, "ramfs", 0, "mode=755"); err != nil {
		return err
	}
	f, err := osfs.Probe(dir)
	if err != nil {
		return err
	}
	if f.Caps().Has(vfs.CapXattr) || !f.Caps().Has(vfs.CapPublish|vfs.CapNoReplace) {
		return fmt.Errorf("caps = %v, want publish and no-replace but not xattr", f.Caps())
	}
	if notes := f.Notes(); len(notes) == 0 || !strings.HasPrefix(notes[0], "no capability xattr: fsetxattr noted: ") {
		return fmt.Errorf("notes = %q, want one on xattr", notes)
	}
	return vfstest.TestFS(f, dir)
}

func TestProbeFindsWhatIsMissing(t *testing.T) {
	needRoot(t, "a ramfs has to be mounted")
	child(t, "ramfs", t.TempDir(), &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS})
}
