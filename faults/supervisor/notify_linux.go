//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// asking is the engine for where nobody may trace. The kernel holds a thread at its call
// and asks; the answer is to go on, or an errno. It says nothing of what comes of the
// call, of new threads, or of an end: those are looked for. A signal that comes before
// the owner has heard of a call interrupts it.
type asking struct {
	*owner
	listener int
	keeper   int            // the process that the subject descends from
	pidfd    int            // of it
	asked    map[int]uint64 // what is not answered, by thread
}

var _ engine = (*asking)(nil)

func newAsking(w *owner) *asking { return &asking{owner: w, asked: map[int]uint64{}} }

// notification is what the kernel asks.
type notification struct {
	id    uint64
	pid   uint32 // of the thread
	flags uint32
	nr    int32
	arch  uint32
	ip    uint64
	args  [6]uint64
}

// response is the answer.
type response struct {
	id    uint64
	val   int64
	error int32
	flags uint32
}

func (n *asking) ioctl(request uintptr, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(n.listener), request, uintptr(arg))
	if errno != 0 {
		return errno
	}
	return nil
}

// run implements engine. A keeper stands between the owner and the subject: the kernel
// ends nobody of itself when an owner of this kind is killed.
func (n *asking) run() (int, error) {
	// If the keeper is killed, its descendants come here.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, fmt.Errorf("adopt the subject: %w", err)
	}
	argv, err := n.argv(keeperName)
	if err != nil {
		return 0, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	// In a session of its own: what ends the owner's group does not end the keeper.
	n.keeper, err = syscall.ForkExec(selfExe, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, uintptr(pair[1])}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("start the keeper: %w", err)
	}
	_ = unix.Close(pair[1])
	if n.pidfd, err = unix.PidfdOpen(n.keeper, 0); err == nil {
		err = letGo()
	}
	if err == nil {
		n.main, n.listener, err = receiveListener(pair[0]) // pair[0] stays open: its end tells the keeper
	}
	if err != nil {
		_ = unix.Kill(n.keeper, unix.SIGKILL)
		endAll(os.Getpid())
		return 0, err
	}
	n.procs[n.main] = &proc{pid: n.main, role: "0"}
	return n.stay()
}

// stay answers until the keeper ends, which it does as the subject.
func (n *asking) stay() (int, error) {
	fds := []unix.PollFd{{Fd: int32(n.listener), Events: unix.POLLIN}, {Fd: int32(n.pidfd), Events: unix.POLLIN}}
	for {
		if err := n.impatient(); err != nil {
			return 0, err
		}
		wait := -1
		if n.holds() > 0 {
			wait = 0
		}
		_, err := unix.Poll(fds, wait)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("stay with the subject: %w", err)
		case fds[0].Revents&unix.POLLIN != 0:
			if err := n.receive(); err != nil {
				return 0, err
			}
		case fds[1].Revents != 0:
			return n.ended()
		case fds[0].Revents != 0: // nobody is left to ask, and the end comes next
			fds[0].Fd = -1
			n.lock(func() { n.held = nil })
		default:
			n.lock(n.census)
			if n.holds() == 0 {
				continue
			}
			if err := n.next(); err != nil {
				return 0, err
			}
		}
	}
}

func (n *asking) lock(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// receive takes in what the kernel asks. It is called only if there is something: the
// kernel would wait for the next one until the subject ends, and beyond.
func (n *asking) receive() error {
	var q notification
	switch err := n.ioctl(unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&q)); {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR): // a signal has interrupted the call
		return nil
	case err != nil:
		return fmt.Errorf("hear of a call: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.moved()
	tid := int(q.pid)
	if tgid, _ := kin(tid); n.threads[tid] != nil && n.threads[tid].proc.pid != tgid {
		n.forget(tid) // its number is another's now
	}
	n.lineage(tid)
	t := n.thread(tid)
	n.asked[tid] = q.id
	info := callInfo{arch: q.arch, ip: q.ip}
	info.data[0] = uint64(q.nr)
	copy(info.data[1:], q.args[:])
	return n.arrive(t, info)
}

// lineage gives a process its place in the tree of forks, and with it those that it comes
// from and those that were started before it: they may have made no call so far. Who has
// ended without one is not known. The parent of an orphan is most likely who led its
// session: daemons come so.
func (n *asking) lineage(tid int) {
	tgid, ppid := kin(tid)
	if n.procs[tgid] != nil {
		return
	}
	if ppid != n.keeper && ppid > 1 {
		n.lineage(ppid)
		for _, sibling := range children(ppid) {
			if n.procs[sibling] == nil {
				n.child(n.procs[ppid], sibling)
			}
		}
	} else if leader, err := unix.Getsid(tgid); err == nil && n.procs[leader] != nil {
		n.child(n.procs[leader], tgid)
	}
	n.procOf(tid)
}

func (n *asking) answer(t *thread, a response) error {
	a.id = n.asked[t.tid]
	delete(n.asked, t.tid)
	if err := n.ioctl(unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&a)); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("answer: %w", err) // ENOENT: it was killed meanwhile
	}
	return nil
}

// pass implements engine.
func (n *asking) pass(t *thread) error {
	return n.answer(t, response{flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
}

// perform implements engine.
func (n *asking) perform(t *thread, u *use) error {
	if u.result != nil {
		return n.answer(t, response{error: int32(*u.result)})
	}
	return n.pass(t)
}

// kill implements engine.
func (n *asking) kill() { endAll(n.keeper) }

// census implements engine.
func (n *asking) census() {
	there := threadsOf(descendants(n.keeper))
	for tid := range n.threads {
		if !slices.Contains(there, tid) {
			n.forget(tid)
			delete(n.asked, tid)
		}
	}
	for _, tid := range there {
		if n.threads[tid] == nil {
			n.lineage(tid)
		}
		n.thread(tid).lent = lends(tid)
	}
}

// knocks implements engine. A thread that waits to be heard looks as if it were at rest,
// and one that came into being a moment ago was not looked at.
func (n *asking) knocks() bool {
	fds := []unix.PollFd{{Fd: int32(n.listener), Events: unix.POLLIN}}
	if k, err := unix.Poll(fds, 0); k > 0 || err != nil {
		return true
	}
	return slices.ContainsFunc(threadsOf(descendants(n.keeper)), func(tid int) bool { return n.threads[tid] == nil })
}

// ended returns the status of a subject that has ended.
func (n *asking) ended() (int, error) {
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(n.keeper, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("stay with the subject: %w", err)
		case ws.Exited():
			return ws.ExitStatus(), nil
		default:
			endAll(os.Getpid())
			return 0, errors.New("the subject's keeper was killed")
		}
	}
}

// lends reports whether a thread waits for a child that has its memory.
func lends(tid int) bool {
	return slices.Contains(forks, waitsIn(tid))
}
