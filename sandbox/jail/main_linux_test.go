package jail_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/internal/hostile"
	"github.com/fsbench/fsbench/sandbox/jail"
)

func TestMain(m *testing.M) {
	hostile.Main()
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "report":
			reportSelf(os.Args[2:])
		case "exit":
			code, _ := strconv.Atoi(os.Args[2])
			unix.Exit(code)
		case "say":
			for _, fd := range os.Args[2:] {
				n, _ := strconv.Atoi(fd)
				_, _ = unix.Write(n, []byte(fd))
			}
			unix.Exit(0)
		case "overreach":
			overreach()
		case "kill":
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		case "daemon":
			daemon(os.Args[2], os.Args[3], true)
		case "descendant":
			daemon(os.Args[2], os.Args[3], false)
		case "parent":
			parent(os.Args[2:])
		}
	}
	os.Exit(m.Run())
}

// self is what a child in a jail finds out about itself.
type self struct {
	Args        []string
	Env         []string
	Status      map[string]string // of /proc/self/status
	Descriptors []string
	Umask       string
	Namespaces  map[string]string
	Leader      bool   // of a session
	Terminal    string // what opening it says
	Writes      map[string]string
	Limits      []uint64
	Processes   int    // that it can see
	First       string // what opening the memory of the first of them says
}

func reportSelf(paths []string) {
	s := self{Args: os.Args, Env: os.Environ(), Status: map[string]string{}, Namespaces: map[string]string{}, Writes: map[string]string{}}
	status, _ := os.ReadFile("/proc/thread-self/status")
	for line := range strings.Lines(string(status)) {
		name, value, _ := strings.Cut(line, ":")
		s.Status[name] = strings.TrimSpace(value)
	}
	dir, _ := os.Open("/proc/self/fd")
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		// The folder that is read, and what the runtime of this very program opens, are
		// its own.
		to, _ := os.Readlink("/proc/self/fd/" + name)
		if name != strconv.Itoa(int(dir.Fd())) && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/fs/cgroup/") {
			s.Descriptors = append(s.Descriptors, name)
		}
	}
	slices.Sort(s.Descriptors)
	mask := unix.Umask(0)
	s.Umask = fmt.Sprintf("%04o", mask)
	for _, ns := range []string{"mnt", "pid", "net", "ipc", "user"} {
		s.Namespaces[ns], _ = os.Readlink("/proc/self/ns/" + ns)
	}
	seen, _ := filepath.Glob("/proc/[0-9]*")
	s.Processes = len(seen)
	_, err := os.OpenFile("/proc/1/mem", os.O_RDWR, 0)
	s.First = hostile.Said(err)
	sid, _ := unix.Getsid(0)
	s.Leader = sid == 1 || sid == os.Getpid()
	_, err = os.OpenFile("/dev/tty", os.O_RDWR, 0)
	s.Terminal = fmt.Sprint(err)
	for _, p := range paths {
		s.Writes[p] = hostile.Said(os.WriteFile(p+"/new", nil, 0o600))
	}
	for _, what := range []int{unix.RLIMIT_CORE, unix.RLIMIT_FSIZE} {
		var l unix.Rlimit
		_ = unix.Getrlimit(what, &l)
		s.Limits = append(s.Limits, l.Max)
	}
	_ = json.NewEncoder(os.Stdout).Encode(s)
	unix.Exit(0)
}

// overreach wants more than it may have, says how that ended, and dies so that it would
// leave a dump.
func overreach() {
	said := map[string]string{}
	for _, what := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_NPROC, unix.RLIMIT_FSIZE, unix.RLIMIT_CPU, unix.RLIMIT_CORE} {
		all := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
		said[fmt.Sprint("limit ", what)] = hostile.Said(unix.Setrlimit(what, &all))
	}
	open := 0
	for ; ; open++ {
		if _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
			said["files"] = hostile.Said(err)
			break
		}
	}
	said["so many"] = strconv.FormatBool(open > 3000 && open < 4096)
	_ = json.NewEncoder(os.Stdout).Encode(said)
	_ = unix.Exec("/bin/sh", []string{"sh", "-c", "kill -SEGV $$"}, nil)
	unix.Exit(1)
}

// daemon stays, with token in its command line, beside what it starts: how many
// more, each in a session of its own, and all but the last of them gone at once.
func daemon(more, token string, stay bool) {
	n, _ := strconv.Atoi(more)
	if n == 0 {
		fmt.Fprintln(os.Stderr, "ready")
	} else {
		p, err := os.StartProcess("/proc/self/exe", []string{"x", "descendant", strconv.Itoa(n - 1), token}, &os.ProcAttr{
			Files: []*os.File{nil, nil, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			unix.Exit(1)
		}
		_ = p.Release()
	}
	if !stay && n > 0 {
		unix.Exit(0)
	}
	time.Sleep(time.Hour)
}

// parent starts a daemon in a jail, says so, and waits to be killed.
func parent(args []string) {
	s := mine()
	if args[0] == "other" {
		s.UID, s.GID = other, other
	}
	cmd := command("daemon", args[1], args[2])
	err := s.Wrap(cmd)
	said, pipeErr := cmd.StderrPipe()
	if err = errors.Join(err, pipeErr); err == nil {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL // as the driver of children has it
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(said).ReadString('\n')
	}
	if err != nil {
		fmt.Fprintln(os.Stdout, err)
		unix.Exit(1)
	}
	fmt.Fprintln(os.Stdout, "ready")
	time.Sleep(time.Hour)
}

const (
	nobody = 65534
	other  = 61234
)

func command(args ...string) *exec.Cmd {
	return exec.CommandContext(context.Background(), "/proc/self/exe", args...)
}

// mine is a jail for who runs the test.
func mine() jail.Spec {
	return jail.Spec{UID: os.Getuid(), GID: os.Getgid(), Umask: 0o027, Env: []string{"A=b", "C=\xff"}}
}
