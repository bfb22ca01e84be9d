//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// keep is a process that everything of a subject descends from, whatever group, session
// or parent it leaves. It ends all of that when the subject's first process ends, and
// when its owner is gone.
func keep(o order) error {
	// The subject may signal its group. What is caught here is not so for the subject, as
	// what is ignored would be.
	signal.Notify(make(chan os.Signal, 1), unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM, unix.SIGALRM, unix.SIGUSR1, unix.SIGUSR2)
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the subject out: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt the subject: %w", err)
	}
	unix.CloseOnExec(3)
	argv, err := o.argv(shimName)
	if err != nil {
		return err
	}
	main, err := syscall.ForkExec(selfExe, argv, &syscall.ProcAttr{Env: os.Environ(), Files: []uintptr{0, 1, 2, 3}})
	if err != nil {
		return fmt.Errorf("start the shim: %w", err)
	}
	if err := letGo(); err != nil {
		return err
	}
	go func() {
		owner := []unix.PollFd{{Fd: 3}}
		for owner[0].Revents&unix.POLLHUP == 0 {
			_, _ = unix.Poll(owner, -1) // an interruption: once more
		}
		endAll(os.Getpid())
		os.Exit(exitOwner)
	}()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		switch {
		case errors.Is(err, unix.EINTR) || err == nil && pid != main:
		case err != nil:
			return fmt.Errorf("stay with the subject: %w", err)
		case ws.Exited():
			endAll(os.Getpid())
			os.Exit(ws.ExitStatus())
		case ws.Signaled():
			endAll(os.Getpid())
			os.Exit(128 + int(ws.Signal()))
		}
	}
}

// endAll ends every process that descends from one, those too that are started meanwhile.
func endAll(of int) {
	for {
		found := descendants(of)
		if len(found) == 0 {
			return
		}
		for _, pid := range found {
			fd, err := unix.PidfdOpen(pid, 0)
			if err != nil {
				continue // it has ended
			}
			// Its number may have become somebody else's; the handle cannot.
			if slices.Contains(descendants(of), pid) {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
			}
			_ = unix.Close(fd)
		}
		time.Sleep(pause)
	}
}

// sendListener hands what the kernel asks on to the owner, with whom it is about.
func sendListener(sock, listener int) error {
	rights := unix.UnixRights(listener)
	if err := unix.Sendmsg(sock, fmt.Appendf(nil, "%d", os.Getpid()), rights, nil, 0); err != nil {
		return fmt.Errorf("tell the owner: %w", err)
	}
	return errors.Join(unix.Close(sock), unix.Close(listener))
}

// receiveListener is the other end of sendListener.
func receiveListener(sock int) (pid, listener int, err error) {
	text, rights := make([]byte, 32), make([]byte, unix.CmsgSpace(4))
	var k, m int
	for {
		k, m, _, _, err = unix.Recvmsg(sock, text, rights, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return 0, 0, fmt.Errorf("hear from the subject: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(rights[:m])
	if err != nil || len(messages) != 1 {
		return 0, 0, errors.New("the subject did not come up") // and has said why
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return 0, 0, errors.New("the subject did not come up")
	}
	if _, err := fmt.Sscan(string(text[:k]), &pid); err != nil {
		return 0, 0, fmt.Errorf("hear from the subject: %w", err)
	}
	return pid, fds[0], nil
}
