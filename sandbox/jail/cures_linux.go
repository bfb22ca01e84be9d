package jail

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// setting is a switch of the system that can stand in the way.
type setting struct {
	name string // as sysctl has it
	bad  []string
	good string
	why  string
}

var (
	ofUsers = []setting{
		{"user.max_user_namespaces", []string{"0"}, "15000", "nobody gets a namespace of users"},
		{"user.max_mnt_namespaces", []string{"0"}, "15000", "nobody gets mounts of their own"},
		{"user.max_pid_namespaces", []string{"0"}, "15000", "nobody gets a namespace of processes"},
		{"user.max_net_namespaces", []string{"0"}, "15000", "nobody gets a network of their own"},
		{"kernel.unprivileged_userns_clone", []string{"0"}, "1", "ordinary users get no namespaces"},
		{"kernel.apparmor_restrict_unprivileged_userns", []string{"1"}, "0", "ordinary users get no power in their namespaces"},
	}
	ofTracing = []setting{
		{"kernel.yama.ptrace_scope", []string{"2", "3"}, "1", "nobody may trace the processes that they start"},
	}
)

// Cures says why a child cannot be confined as s asks, or its steps not be looked
// at, and what takes that away: a line each, empty where nothing is wrong. Some take
// the machine's owner.
func (s Spec) Cures() []string {
	var lines []string
	if err := s.Possible(); err != nil || s.Shares() != "" {
		lines = s.obstacles(err)
	}
	if err := tracing(); err != nil {
		found := settings(ofTracing)
		if len(found) == 0 {
			found = []string{fmt.Sprintf("tracing is refused (%v): in a container, docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined", err)}
		}
		lines = append(lines, found...)
	}
	if err := filtering(); err != nil {
		lines = append(lines, fmt.Sprintf("filters of system calls are refused (%v), and nothing else stops a subject at its steps: in a container, docker run --security-opt seccomp=unconfined; elsewhere, a kernel with CONFIG_SECCOMP_FILTER", err))
	}
	return lines
}

func (s Spec) obstacles(err error) []string {
	lines := settings(ofUsers)
	if os.Geteuid() == 0 && !mayMount() {
		lines = append(lines, "this root may not mount: run as an ordinary user, or in a container with docker run --cap-add SYS_ADMIN --security-opt apparmor=unconfined")
	}
	if filtered() && (errors.Is(err, unix.EPERM) || os.Geteuid() != 0) {
		lines = append(lines, "system calls are filtered, as containers do: docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined")
	}
	if len(lines) == 0 {
		why := s.Shares()
		if err != nil {
			why = err.Error()
		}
		lines = append(lines, "no jail ("+why+"): run in a virtual machine, or as root of this machine")
	}
	return lines
}

func settings(list []setting) []string {
	var lines []string
	for _, s := range list {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.name, ".", "/"))
		now := strings.TrimSpace(string(text))
		for _, bad := range s.bad {
			if err == nil && now == bad {
				lines = append(lines, fmt.Sprintf("%s is %s, so that %s: sudo sysctl -w %s=%s", s.name, now, s.why, s.name, s.good))
			}
		}
	}
	return lines
}

func mayMount() bool {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&head, &data[0])
	return err != nil || data[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0
}

// filtered reports whether this process's system calls are.
func filtered() bool {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	return err == nil && mode == unix.SECCOMP_MODE_FILTER
}

// filtering asks whether a filter may be put on a process; to try it would be for good.
func filtering() error {
	action := uint32(unix.SECCOMP_RET_TRACE)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	runtime.KeepAlive(&action)
	if errno != 0 {
		return errno
	}
	return nil
}

// tracing tries whether a process may be traced that this one has started.
func tracing() error {
	runtime.LockOSThread() // who starts it traces it, and that is a thread
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess(selfExe, []string{stageName}, &os.ProcAttr{Env: []string{}, Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return err
	}
	err = p.Kill()
	_, waitErr := p.Wait()
	return errors.Join(err, waitErr)
}
