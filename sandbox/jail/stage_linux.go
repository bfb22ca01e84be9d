package jail

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// limits are on what one child can do to the machine. They are far above what a
// subject needs, and a subject that meets them has met its end.
var limits = map[int]uint64{
	unix.RLIMIT_CORE:   0, // the tree is observed, and a dump in it would be blamed on the subject
	unix.RLIMIT_NPROC:  2048,
	unix.RLIMIT_FSIZE:  mostBytes,
	unix.RLIMIT_NOFILE: 4096,
}

// mostBytes bounds every file that a child writes.
const mostBytes = 1 << 30

// stage makes the mounts, takes the identity and becomes the child, or its first
// ancestor. The order matters: mounts take capabilities, which go with the
// identity; a change of identity clears the signal of the parent's death; and
// nothing may be regained after that.
func stage(text string) error {
	o, err := parseOrder(text)
	if err != nil {
		return err
	}
	runtime.LockOSThread() // capabilities and the parent's death are a thread's affair
	if err := inherited(o); err != nil {
		return err
	}
	// Opened where processes have the numbers that the bench knows them by.
	status, err := os.Open("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("look for the parent: %w", err)
	}
	if os.Geteuid() != 0 {
		// In a namespace of users of its own the child would be root again, and the
		// modes of its own files would not bind it. The limit is that of the namespace
		// which is this process's already; some systems do not let it be set.
		_ = os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0)
	}
	if err := view(o); err != nil {
		return err
	}
	setApart()
	// Prepared with the right to list every folder, which goes with the identity.
	lock, err := lockRules(o.Locked)
	if err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := become(o.UID, o.GID); err != nil {
			return err
		}
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	if err := lock.restrict(); err != nil {
		return err
	}
	if err := limit(o.Spec); err != nil {
		return err
	}
	unix.Umask(o.Umask)
	if err := dieWith(o.Parent, status); err != nil {
		return err
	}
	// What the bench itself was started with is not its own to close on exec: a lock,
	// a terminal, a pipe of the shell.
	if err := unix.CloseRange(uint(beyond+o.Files), ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return fmt.Errorf("keep descriptors from the child: %w", err)
	}
	switch {
	case len(o.Argv) == 0:
		unix.Exit(0)
	case o.Init:
		return first(o)
	}
	return fmt.Errorf("start %s: %w", o.Argv[0], unix.Exec(o.Path, o.Argv, o.Env))
}

// beyond is the first descriptor after the standard ones.
const beyond = 3

// inherited reports a file that the caller promised and did not pass. In its place
// could be one that this process opened for itself; all of those close on exec, and
// what was passed does not.
func inherited(o order) error {
	var promised []int
	for fd := beyond; fd < beyond+o.Files; fd++ {
		promised = append(promised, fd)
	}
	for _, m := range o.Mounts {
		if m.File > 0 {
			promised = append(promised, m.File)
		}
	}
	for _, fd := range promised {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return fmt.Errorf("descriptor %d was promised to the child and is not open", fd)
		}
	}
	return nil
}

func become(uid, gid int) error {
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("drop groups: %w", err)
	}
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("take group %d: %w", gid, err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("take user %d: %w", uid, err)
	}
	return nil
}

// dropCapabilities empties every set, the inheritable one too: with it a program
// that has capabilities of its own could hand some back.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	if err := unix.Capset(&head, &none[0]); err != nil {
		return fmt.Errorf("give up capabilities: %w", err)
	}
	return nil
}

// setApart takes the child out of what no namespace divides. Where that is not
// possible little is lost.
func setApart() {
	// The keys of whoever started the bench are in the session's ring.
	_, _ = unix.KeyctlJoinSessionKeyring("")
	// When memory runs out the child goes first, and not what the machine is for.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
}

func limit(s Spec) error {
	cpu := s.CPU
	if cpu <= 0 {
		cpu = time.Hour // a subject that serves many runs lives long
	}
	all := maps.Clone(limits)
	if s.FileSize > 0 {
		all[unix.RLIMIT_FSIZE] = min(s.FileSize, mostBytes)
	}
	all[unix.RLIMIT_CPU] = uint64(max(1, (cpu+time.Second-1)/time.Second))
	for resource, most := range all {
		var l unix.Rlimit
		err := unix.Getrlimit(resource, &l)
		if err == nil {
			l.Cur, l.Max = min(l.Cur, most), min(l.Max, most)
			err = unix.Setrlimit(resource, &l)
		}
		if err != nil {
			return fmt.Errorf("limit resources: %w", err)
		}
	}
	return nil
}

// dieWith has the kernel end this process when its parent ends. If that is over
// already nobody is left to be told; status, read now, says who the parent is.
func dieWith(parent int, status *os.File) error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("die with the parent: %w", err)
	}
	text, err := io.ReadAll(status)
	if err != nil {
		return fmt.Errorf("look for the parent: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); name == "PPid" {
			if strings.TrimSpace(value) == strconv.Itoa(parent) {
				return nil
			}
			break
		}
	}
	return errors.New("the parent is gone")
}

// first is the first process of a namespace of processes. It starts the child,
// waits for it, and takes everything else in the namespace along when it ends: a
// process that has left the child's group and session cannot outlive it.
//
// The child runs as the same user. It is kept from the memory of this process,
// whose other threads may have capabilities that this one gave up.
func first(o order) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the child out: %w", err)
	}
	files := []*os.File{os.Stdin, os.Stdout, os.Stderr}
	for fd := beyond; fd < beyond+o.Files; fd++ {
		files = append(files, os.NewFile(uintptr(fd), strconv.Itoa(fd)))
	}
	p, err := os.StartProcess(o.Path, o.Argv, &os.ProcAttr{Env: append([]string{}, o.Env...), Files: files})
	if err != nil {
		return fmt.Errorf("start %s: %w", o.Argv[0], err)
	}
	// These are the child's alone: its end must be seen at the other side of them.
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range files {
		if err == nil {
			err = unix.Dup3(null, fd, 0)
		}
	}
	for err == nil {
		var ws unix.WaitStatus
		var pid int
		pid, err = unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			err = nil
		case err == nil && pid == p.Pid && ws.Exited():
			unix.Exit(ws.ExitStatus())
		case err == nil && pid == p.Pid && ws.Signaled():
			unix.Exit(128 + int(ws.Signal()))
		}
	}
	return fmt.Errorf("stay with %s: %w", o.Argv[0], err)
}
