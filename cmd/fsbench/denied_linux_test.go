//go:build linux && (amd64 || arm64)

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// init makes of a process that is called refusedName one that the kernel refuses
// something, and then the program.
func init() {
	if os.Args[0] != refusedName {
		return
	}
	runtime.LockOSThread()
	err := refuse(os.Args[1])
	if err == nil {
		err = unix.Exec("/proc/self/exe", append([]string{"fsbench"}, os.Args[2:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "refuse", os.Args[1]+":", err)
	os.Exit(125)
}

const refusedName = "fsbench-refused"

// What a process may be refused. It is for good, and for all that it starts.
const (
	nothing        = "nothing"
	tracing        = "tracing"
	filters        = "filters"
	userNamespaces = "user namespaces"
)

func refuse(what string) error {
	switch what {
	case nothing:
		return nil
	case tracing:
		return errors.Join(deny(unix.SYS_PROCESS_VM_READV, -1), deny(unix.SYS_PTRACE, -1)) // as containers do
	case filters:
		return errors.Join(deny(unix.SYS_PRCTL, unix.PR_SET_SECCOMP), deny(unix.SYS_SECCOMP, -1))
	case userNamespaces: // this process is in one, and has the right to say so
		return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}
	return errors.New("unknown")
}

// deny has the kernel answer EPERM to a call; only where its first argument is first, if
// that is not negative.
func deny(nr, first int) error {
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	unless := func(k uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
	}
	refused, allowed := ret(unix.SECCOMP_RET_ERRNO|uint32(unix.EPERM)), ret(unix.SECCOMP_RET_ALLOW)
	prog := []unix.SockFilter{load(0), unless(uint32(nr), 1), refused, allowed}
	if first >= 0 {
		prog = []unix.SockFilter{load(0), unless(uint32(nr), 3), load(16), unless(uint32(first), 1), refused, allowed}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&fprog))); errno != 0 {
		return errno
	}
	return nil
}

// denied runs fsbench as an ordinary user without any capability whom the kernel refuses
// something.
func denied(t *testing.T, what string, args ...string) (out, errs string, code int) {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(d); d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode()&1 == 0 {
			if err := os.Chmod(d, 0o711); err != nil {
				t.Skip(err)
			}
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Args = append([]string{refusedName, what}, args...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir, "HOME=/nonexistent", "NO_COLOR=1"}
	user, group := os.Getuid(), os.Getgid()
	if user == 0 {
		user, group = 65534, 65534
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}
	}
	if what == userNamespaces {
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: user, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: group, HostID: group, Size: 1}}
		cmd.SysProcAttr.GidMappingsEnableSetgroups = os.Getuid() == 0
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_RESOURCE}
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if code = cmd.ProcessState.ExitCode(); err != nil && !errors.As(err, new(*exec.ExitError)) || code == 125 {
		t.Skipf("%s cannot be refused here: %v %s", what, err, &stderr)
	}
	return stdout.String(), stderr.String(), code
}

// examined is what the doctor says to somebody who is refused something.
func examined(t *testing.T, what string) health {
	t.Helper()
	out, errs, code := denied(t, what, "doctor", "--json")
	var h health
	if err := json.Unmarshal([]byte(out), &h); err != nil || code != 0 || errs != "" {
		t.Fatalf("exit %d: %v\n%s%s", code, err, out, errs)
	}
	return h
}

// healthy skips a test where the machine itself refuses what others are to be refused.
func healthy(t *testing.T) {
	t.Helper()
	if h := examined(t, nothing); h.Jail != "ok" || h.Engine != "ptrace" {
		t.Skipf("an ordinary user has jail %q and engine %q here", h.Jail, h.Engine)
	}
}

// TestDoctorOfTheDenied: whatever the kernel refuses an ordinary user, the doctor says
// what is not possible, why, and what would help.
func TestDoctorOfTheDenied(t *testing.T) {
	healthy(t)
	for _, tt := range []struct{ what, jail, engine, cure string }{
		{nothing, "ok", "ptrace", ""},
		{tracing, "ok", "notify (no results, EINTR possible), for want of a better one: ptrace: own the subject: operation not permitted", "--cap-add SYS_PTRACE"},
		{filters, "ok", "none: the steps of a subject cannot be seen here: ptrace: install the filter: ", "filters of system calls are refused (operation not permitted)"},
		{userNamespaces, "none: a foreign subject would share with the bench the host's files; processes and network", "ptrace", "sudo sysctl -w user.max_user_namespaces=15000"},
	} {
		h := examined(t, tt.what)
		if !strings.HasPrefix(h.Jail, tt.jail) || !strings.HasPrefix(h.Engine, tt.engine) {
			t.Errorf("without %s: jail %q, engine %q, want %q and %q", tt.what, h.Jail, h.Engine, tt.jail, tt.engine)
		}
		if cures := strings.Join(h.Cures, "\n"); (cures == "") != (tt.cure == "") || !strings.Contains(cures, tt.cure) {
			t.Errorf("without %s: cures %q, want %q", tt.what, cures, tt.cure)
		}
	}
}

// TestExploreOfTheDenied: an ordinary user explores; where that is not possible nothing
// is, and one line says so.
func TestExploreOfTheDenied(t *testing.T) {
	healthy(t)
	self := []string{"--", "/proc/self/exe", "serve", "--stdio"}
	for _, tt := range []struct {
		what  string
		flags []string
		code  int
		out   string // none if empty
		errs  string
	}{
		{nothing, nil, 0, `"engine": "ptrace"`, ""},
		{tracing, nil, 0, `"engine_limits": "no results, EINTR possible"`, ""},
		{tracing, []string{"--engine", "ptrace"}, 4, "", "ptrace: own the subject: operation not permitted; fsbench doctor says what would help\n"},
		{filters, nil, 4, "", "notify: install the filter: install a filter: operation not permitted; fsbench doctor says what would help\n"},
		{filters, []string{"--trusted-subject"}, 4, "", "operation not permitted; fsbench doctor says what would help\n"},
		{userNamespaces, nil, 4, "", "fsbench doctor says what would help, and --trusted-subject runs it all the same\n"},
		{userNamespaces, []string{"--trusted-subject"}, 0, `"trusted_subject": true`, ""},
	} {
		args := append(append([]string{"explore", "--json", "--call", "delete", "--out", "out"}, tt.flags...), self...)
		out, errs, code := denied(t, tt.what, args...)
		if code != tt.code || !strings.Contains(out, tt.out) || (out == "") != (tt.out == "") {
			t.Errorf("without %s %q: exit %d, want %d with %q:\n%.500s%s", tt.what, tt.flags, code, tt.code, tt.out, out, errs)
		}
		if !strings.HasSuffix(errs, tt.errs) || (errs == "") != (tt.errs == "") || strings.Count(errs, "\n") > 1 {
			t.Errorf("without %s %q: said %q, want one line that ends in %q", tt.what, tt.flags, errs, tt.errs)
		}
	}
}

// TestWhatCannotBeSeen: a program that nobody may look into is never said to be good.
func TestWhatCannotBeSeen(t *testing.T) {
	healthy(t)
	const undumpable = `import ctypes, sys
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
open(sys.argv[1], "w").write(sys.stdin.read())`
	subjects := map[string][]string{"it asks for that": {"python3", "-c", undumpable, "{path}"}}
	if os.Getuid() == 0 { // another user's file is needed
		dir := t.TempDir()
		secret := filepath.Join(dir, "tee")
		text, err := os.ReadFile("/usr/bin/tee")
		if err == nil {
			err = os.WriteFile(secret, text, 0o711)
		}
		for d := dir; d != filepath.Dir(d) && err == nil; d = filepath.Dir(d) {
			if info, statErr := os.Stat(d); statErr == nil && info.Mode()&1 == 0 {
				err = os.Chmod(d, 0o711)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		subjects["its file may not be read"] = []string{secret, "{path}"}
	}
	for name, subject := range subjects {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(subject[0]); err != nil {
				t.Skip(err)
			}
			out, errs, code := denied(t, nothing, append([]string{"explore", "--json", "--exec", "--call", "write", "--out", "out", "--"}, subject...)...)
			var got exploreJSON
			if err := json.Unmarshal([]byte(out), &got); err != nil {
				t.Fatalf("%v: %s%s", err, out, errs)
			}
			if code == 0 || len(got.Steps) > 0 {
				t.Errorf("exit %d with %d steps, want none, and no 0", code, len(got.Steps))
			}
			blind := 0
			for _, c := range got.Calls {
				if c.Skip != "" {
					continue
				}
				blind++
				if !strings.HasPrefix(c.Blank, "no step of the subject was seen below the root: ") || !strings.Contains(c.Blank, "the subject is not dumpable") || c.Verdicts["pass"] > 0 {
					t.Errorf("%s: %q with %v", c.Scenario, c.Blank, c.Verdicts)
				}
			}
			if blind == 0 {
				t.Errorf("nothing was tried:\n%s", out)
			}
		})
	}
}
