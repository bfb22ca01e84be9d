package memfs_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

// The differential test does everything twice, in memory and on the real file
// system of the temporary directory, and compares every answer and the tree that
// is left.
//
// Root can take more identities than one: the test then switches the identity
// that its thread shows to file systems, mounts what has to be mounted in a
// namespace of its own, and can make immutable files. A second test runs the
// same as an ordinary process, with one identity and nothing of that.
const (
	opsEnv = "FSBENCH_DIFF_OPS" // how many operations to try, in fresh sequences; unset: a few, always the same
	dirEnv = "FSBENCH_DIFF_DIR" // set for the unprivileged child: where to work

	opsDefault  = 12_000
	opsSequence = 50 // on average
)

func TestLikeTheKernel(t *testing.T) {
	dir := os.Getenv(dirEnv)
	if dir == "" {
		dir = t.TempDir()
	}
	// Identity, umask and mounts belong to the thread, which ends with this
	// goroutine since it is never unlocked.
	runtime.LockOSThread()
	m, err := newMachine(t, dir)
	if err != nil {
		t.Skipf("the kernel cannot be asked here: %v", err)
	}
	for _, note := range m.notes {
		t.Log(note)
	}
	seen := map[string]int{}
	sequences(t)
	rapid.Check(t, func(rt *rapid.T) { m.sequence(rt, seen) })
	if !t.Failed() {
		t.Logf("answers: %v", seen)
	}
}

// sequences sets how many sequences rapid draws, and from which seed.
func sequences(t *testing.T) {
	t.Helper()
	ops, seed := opsDefault, "1"
	if text := os.Getenv(opsEnv); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 {
			t.Fatalf("%s=%q: want a number of operations", opsEnv, text)
		}
		ops, seed = n, "0" // a random one, which rapid prints if the test fails
	}
	for name, value := range map[string]string{
		"rapid.checks": strconv.Itoa(max(1, ops/opsSequence)), "rapid.steps": strconv.Itoa(opsSequence), "rapid.seed": seed,
	} {
		f := flag.Lookup(name)
		if name == "rapid.seed" && f.Value.String() != "0" {
			continue // asked for on the command line
		}
		old := f.Value.String()
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = flag.Set(name, old) })
	}
}

func TestLikeTheKernelUnprivileged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("not root: TestLikeTheKernel is unprivileged as it is")
	}
	const nobody = 65534
	dir := t.TempDir()
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Skipf("a directory cannot be given away: %v", err)
	}
	held, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	// The temporary directory and the binary lie below folders that another user
	// cannot search: both are reached without going through those.
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestLikeTheKernel$", "-test.v", "-rapid.nofailfile")
	cmd.ExtraFiles = []*os.File{held}
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", dirEnv+"=/proc/self/fd/3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{}}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("%s", out)
	}
}

// machine is a place on the real file system and what can be done there.
type machine struct {
	base   string // absolute
	ids    []memfs.Cred
	now    int // index in ids of who the thread is
	root   bool
	mounts bool
	flags  bool // immutable files
	links  bool // hard links can be compared: memfs guards those to the files of others
	ext4   bool
	notes  []string

	guarded map[string]bool // what the kernel is set to guard where many may write
	fs      *osfs.FS
	runs    int
}

// depth is the directory that holds the worlds of both sides: so deep that no
// ".." in a test leads above what both sides have.
const depth = "/1/2/3/4/5/6"

func newMachine(t *testing.T, dir string) (*machine, error) {
	t.Helper()
	m := &machine{root: os.Geteuid() == 0, fs: osfs.New(), guarded: map[string]bool{}}
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("a umask of our own: %w", err)
	}
	if err := m.identify(); err != nil {
		return nil, err
	}
	if m.root {
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		m.mounts = m.can("mount points", err)
	}
	// Opened now, since a descriptor from the old namespace could not be mounted on.
	held, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = unix.Close(held) })
	m.base = fmt.Sprintf("/proc/self/fd/%d", held)
	var st unix.Statfs_t
	m.ext4 = unix.Statfs(m.base, &st) == nil && st.Type == unix.EXT4_SUPER_MAGIC
	if err := os.Chmod(m.base, 0o755); err != nil {
		return nil, err
	}
	if m.root {
		probe := filepath.Join(m.base, "immutable")
		m.flags = m.can("immutable files", errors.Join(os.WriteFile(probe, nil, 0o600),
			setImmutable(probe, true), setImmutable(probe, false), os.Remove(probe)))
	}
	for _, what := range []string{"hardlinks", "symlinks", "regular", "fifos"} {
		text, err := os.ReadFile("/proc/sys/fs/protected_" + what)
		m.guarded[what] = err != nil || string(bytes.TrimSpace(text)) != "0"
	}
	if !m.guarded["hardlinks"] {
		err = errors.New("they are not guarded here")
	}
	m.links = m.can("hard links", err)
	return m, nil
}

// can notes what has to be left out.
func (m *machine) can(what string, err error) bool {
	if err != nil {
		m.notes = append(m.notes, fmt.Sprintf("without %s: %v", what, err))
	}
	return err == nil
}

// identify finds out who the thread can be.
func (m *machine) identify() error {
	if m.root {
		m.ids = []memfs.Cred{
			{Umask: 0o022},
			{UID: 1001, GID: 1001, Groups: []uint32{3003}, Umask: 0o022},
			{UID: 2002, GID: 2002, Umask: 0o037},
		}
		for i := range m.ids {
			if err := m.become(i); err != nil {
				return err
			}
		}
		return m.become(0)
	}
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	me := memfs.Cred{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Umask: 0o022}
	for _, g := range groups {
		me.Groups = append(me.Groups, uint32(g))
	}
	unix.Umask(int(me.Umask))
	m.ids = []memfs.Cred{me}
	return nil
}

// become makes the thread, and no other, act on files as identity i.
func (m *machine) become(i int) error {
	if !m.root || m.now == i {
		return nil
	}
	c := m.ids[i]
	var groups *uint32
	if len(c.Groups) > 0 {
		groups = &c.Groups[0]
	}
	// The system call itself, since the wrapper would change every thread.
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(c.Groups)), uintptr(unsafe.Pointer(groups)), 0); errno != 0 {
		return fmt.Errorf("setgroups: %w", errno)
	}
	_, gidErr := unix.SetfsgidRetGid(int(c.GID))
	_, uidErr := unix.SetfsuidRetUid(int(c.UID))
	if err := errors.Join(gidErr, uidErr); err != nil {
		return err
	}
	// The calls do not say whether they worked; what they return next time does.
	if uid, err := unix.SetfsuidRetUid(-1); err != nil || uid != int(c.UID) {
		return fmt.Errorf("setfsuid: the thread acts as %d and not as %d", uid, c.UID)
	}
	unix.Umask(int(c.Umask))
	m.now = i
	return nil
}

func setImmutable(path string, on bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	var bits int
	if bits, err = unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS); err != nil {
		return err
	}
	bits &^= immutable
	if on {
		bits |= immutable
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, bits)
}

// sides are the two trees of one sequence, and the handles that are open in both.
type sides struct {
	m     *machine
	t     *rapid.T
	real  string // the world's directory
	store *memfs.Store
	dirs  [5]*twinDir
	files [4]*twinFile
	log   []string
	seen  map[string]int
	undo  []func() error
}

type twinDir struct {
	as        int
	real, mem vfs.Dir
}

type twinFile struct {
	as        int
	real, mem vfs.File
}

func (m *machine) sequence(t *rapid.T, seen map[string]int) {
	if err := m.become(0); err != nil {
		t.Fatal(err)
	}
	m.runs++
	top := fmt.Sprintf("%s/%d", m.base, m.runs)
	s := &sides{m: m, t: t, real: top + depth, store: memfs.New(m.ids[0]), seen: seen}
	defer func() {
		if err := errors.Join(m.become(0), s.close(), m.remove(top)); err != nil {
			t.Fatalf("cleaning up: %v", err)
		}
	}()
	s.build()
	for i := range m.ids {
		s.openRoot(i, depth, i)
	}
	t.Repeat(map[string]func(*rapid.T){"step": func(*rapid.T) { s.step() }})
	if err := m.become(0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(s.realTree(), s.memTree()); diff != "" {
		t.Fatalf("the trees differ (-kernel +memfs):\n%s\nafter:\n%s", diff, s.history())
	}
}

func (s *sides) history() string { return strings.Join(s.log, "\n") }

func (s *sides) close() error {
	for _, d := range s.dirs {
		if d != nil {
			_ = d.real.Close() // it may be closed
		}
	}
	for _, f := range s.files {
		if f != nil {
			_ = f.real.Close()
		}
	}
	var errs []error
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, s.undo[i]())
	}
	return errors.Join(errs...)
}

// both does one operation on both sides as identity as, and compares the answers.
func (s *sides) both(as int, what string, mem, real func() string) {
	got := mem()
	if err := s.m.become(as); err != nil {
		s.t.Fatal(err)
	}
	want := real()
	s.log = append(s.log, fmt.Sprintf("%d: %s = %s", as, what, want))
	s.seen[strings.Fields(want)[0]]++
	if got != want && !s.m.excuses(what, got, want) {
		s.t.Fatalf("%s\nmemfs says %s", s.history(), got)
	}
}
