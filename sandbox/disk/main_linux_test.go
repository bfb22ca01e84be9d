package disk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == actorName {
		act(os.Args[2:])
	}
	if len(os.Args) > 2 && os.Args[1] == lesserName {
		lesser(os.Args[2], os.Args[3:])
	}
	if len(os.Args) > 2 && os.Args[1] == benchName {
		bench(os.Args[2])
	}
	os.Exit(m.Run())
}

const nobody = 65534

// alsoAsUser runs the test once more as an ordinary user if this is root: in a
// process of its own, since an identity is a process's.
func alsoAsUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	t.Run("as an ordinary user", func(t *testing.T) {
		name, _, _ := strings.Cut(t.Name(), "/")
		args := []string{"-test.run=^" + name + "$", "-test.v", "-test.count=1"}
		if testing.Short() {
			args = append(args, "-test.short")
		}
		dir := publicDir(t)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := self(t, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
	})
}

// self is this program once more, by a name that works for other users too.
func self(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(t.Context(), "/proc/self/exe", args...)
}

func selfCommand(args ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), "/proc/self/exe", args...)
}

// publicDir is a temporary folder that other users can reach.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := reachable(dir); err != nil {
		t.Skip(err)
	}
	return dir
}

func newLab(t *testing.T) *Lab {
	t.Helper()
	l, err := NewLab(publicDir(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(l.Dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the lab is still there: %v", err)
		}
	})
	return l
}

// newBox returns a sandbox in which w was built. Whatever a test does to it must
// be gone when it is closed.
func newBox(t *testing.T, l *Lab, w spec.World) *Sandbox {
	t.Helper()
	box, err := l.New()
	if err != nil {
		t.Fatal(err)
	}
	closed(t, box)
	if err := box.Build(w); errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return box
}

func closed(t *testing.T, box *Sandbox) {
	t.Helper()
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Dir(box.base)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the sandbox is still there: %v", err)
		}
	})
}

// actorName is what a subject of these tests is called with: a few system calls,
// one after the other.
const actorName = "fsbench-actor"

// act makes the calls that are asked for, each a line with its arguments behind
// tabs, and prints a JSON list of how they ended.
func act(calls []string) {
	var ends []string
	for _, call := range calls {
		ends = append(ends, one(splitCall(call)))
	}
	if err := json.NewEncoder(os.Stdout).Encode(ends); err != nil {
		unix.Exit(1)
	}
	unix.Exit(0)
}

func one(call []string) string {
	arg := func(i int) string { return call[min(i, len(call)-1)] }
	number, _ := strconv.ParseUint(arg(2), 0, 32)
	var err error
	switch call[0] {
	case "create":
		err = openAndClose(arg(1), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
	case "write":
		err = openAndClose(arg(1), unix.O_WRONLY)
	case "read":
		err = openAndClose(arg(1), unix.O_RDONLY|unix.O_NONBLOCK)
	case "unlink":
		err = unix.Unlink(arg(1))
	case "mkdir":
		err = unix.Mkdir(arg(1), uint32(number))
	case "chmod":
		err = unix.Chmod(arg(1), uint32(number))
	case "rename":
		err = unix.Rename(arg(1), arg(2))
	case "socket":
		err = listen(arg(1))
	case "id":
		return fmt.Sprint(unix.Getuid(), unix.Getgid())
	case "net":
		net, _ := os.Readlink("/proc/self/ns/net")
		return net
	case "many":
		err = many(arg(1), int(number))
	case "deep":
		err = deep(arg(1), int(number))
	case "remount":
		err = unix.Mount("", arg(1), "", unix.MS_REMOUNT|unix.MS_BIND, "")
	case "unmount":
		err = unix.Unmount(arg(1), unix.MNT_DETACH)
	case "escape":
		return escape(arg(1))
	case "ready":
		fmt.Fprintln(os.Stderr, "ready")
	case "busy":
		err = busy(arg(1))
	case "fifo":
		err = unix.Mkfifo(arg(1), 0o644)
	case "link":
		err = unix.Symlink(arg(2), arg(1))
	case "hole":
		if err = openAndClose(arg(1), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL); err == nil {
			err = unix.Truncate(arg(1), 1<<29)
		}
	case "fill":
		return fill16(arg(1))
	case "cut":
		err = unix.Truncate(arg(1), 0)
	case "swap":
		err = swap(arg(1), arg(2))
	default:
		return "no such call"
	}
	if err == nil {
		return "ok"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func openAndClose(p string, flags int) error {
	fd, err := unix.Open(p, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}

// fill16 writes sixteen bytes to a file, and again what was not taken.
func fill16(p string) string {
	fd, err := unix.Open(p, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err.Error()
	}
	defer unix.Close(fd)
	taken := []string{}
	for left := 16; left > 0; {
		n, err := unix.Write(fd, make([]byte, left))
		if err != nil {
			return strings.Join(append(taken, unix.ErrnoName(err.(syscall.Errno))), " ") //nolint:errorlint,forcetypeassert // a bare system call
		}
		left -= n
		taken = append(taken, strconv.Itoa(n))
	}
	return strings.Join(taken, " ")
}

func listen(p string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := os.Chdir(filepath.Dir(p)); err != nil { // the whole path may be too long for an address
		return err
	}
	return unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Base(p)})
}

func many(dir string, n int) error {
	for i := range n {
		fd, err := unix.Open(filepath.Join(dir, strconv.Itoa(i)), unix.O_CREAT|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// swap makes two names trade places until it is killed.
func swap(a, b string) error {
	for {
		if err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE); err != nil && !errors.Is(err, unix.ENOENT) {
			return err
		}
	}
}

// busy fills a directory until it is killed.
func busy(dir string) error {
	for i := 0; ; i++ {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("busy", i%100)), nil, 0o644); err != nil {
			return err
		}
	}
}

// escape makes a namespace of users, in which the subject is root, to get at what
// is mounted read-only.
func escape(dir string) string {
	cmd := selfCommand(actorName, call("remount", dir), call("unmount", dir), call("create", dir+"/new"))
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids(os.Getuid()), GidMappings: ids(os.Getgid()),
	}
	out, err := cmd.Output()
	if err != nil {
		return "no namespace"
	}
	return strings.TrimSpace(string(out))
}

// deep nests directories far beyond what a path can name.
func deep(dir string, n int) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for range n {
		if err := unix.Mkdir("d", 0o755); err != nil {
			return err
		}
		if err := unix.Chdir("d"); err != nil {
			return err
		}
	}
	return nil
}

// child starts an actor as a subject is started, and returns how its calls ended.
func child(t *testing.T, a sandbox.Armed, calls ...string) []string {
	t.Helper()
	return start(t, a.Child(), calls...)
}

func start(t *testing.T, c *sandbox.Child, calls ...string) []string {
	t.Helper()
	cmd := self(t, append([]string{actorName}, calls...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := c.Wrap(cmd); errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("the child: %v\n%s", err, errs.String())
	}
	var ends []string
	if err := json.Unmarshal(out, &ends); err != nil {
		t.Fatalf("the child said %q: %v", out, err)
	}
	return ends
}

func call(parts ...string) string { return strings.Join(parts, "\t") }

func splitCall(c string) []string { return strings.Split(c, "\t") }

func observe(t *testing.T, box sandbox.Sandbox) spec.World {
	t.Helper()
	w, err := box.Observe()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// descriptors counts this process's open files.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// arm puts a plan in force, an injection a line.
func arm(t *testing.T, box *Sandbox, injections ...string) sandbox.Armed {
	t.Helper()
	plan, err := faults.ParsePlan("plan", 1, strings.Join(injections, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := box.Arm(plan, &trace.Recorder{})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func stop(t *testing.T, a sandbox.Armed) {
	t.Helper()
	if err := a.Stop(); err != nil {
		t.Error(err)
	}
}
