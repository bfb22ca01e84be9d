package hostile

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// What is here does not end by itself, or only where it meets a limit.

func deep(dir string, n int) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for range n {
		if err := errors.Join(unix.Mkdir("d", 0o755), unix.Chdir("d")); err != nil {
			return err
		}
	}
	return nil
}

// many makes a million files.
func many(p Prey, ends map[string]string) {
	var err error
	for i := 0; err == nil && i < 1_000_000; i++ {
		var fd int
		if fd, err = unix.Open(fmt.Sprint(p.Tree, "/", i), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644); err == nil {
			err = unix.Close(fd)
		}
	}
	ends["many"] = Said(err)
}

// hole makes a file that is as large as it is allowed to be, and empty.
func hole(p Prey, ends map[string]string) {
	signal.Ignore(syscall.SIGXFSZ)
	f, err := os.Create(p.Tree + "/sparse")
	for size := int64(1) << 60; err == nil; size /= 2 { // an exbibyte, if it may
		if err = f.Truncate(size); err == nil {
			break
		}
		if errors.Is(err, unix.EFBIG) {
			err = nil
		}
	}
	ends["sparse"] = Said(err)
}

// floods writes into its tree as long as there is room.
func floods(p Prey, ends map[string]string) {
	signal.Ignore(syscall.SIGXFSZ)
	block := make([]byte, 1<<20)
	for i := 0; ; i++ {
		f, err := os.Create(fmt.Sprint(p.Tree, "/flood", i))
		if err != nil {
			ends["floods"] = Said(err)
			return
		}
		for err == nil {
			_, err = f.Write(block)
		}
		_ = f.Close()
		if !errors.Is(err, unix.EFBIG) {
			ends["floods"] = Said(err)
			return
		}
	}
}

// eats takes memory, up to what a machine that runs tests can spare, and says whether
// it would be the first to go where that runs out.
func eats(_ Prey, ends map[string]string) {
	var held [][]byte
	for range 256 {
		b := make([]byte, 1<<20)
		for at := 0; at < len(b); at += 4096 {
			b[at] = 1
		}
		held = append(held, b)
	}
	score, err := os.ReadFile("/proc/self/oom_score_adj")
	ends["first to go"] = fmt.Sprint(strings.TrimSpace(string(score)), " ", Said(err), " of ", len(held))
}

// fork makes a copy of this thread. The copy may make system calls, and nothing else:
// what the other threads held is held for good.
func fork() (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// forks makes processes as long as it may. They stay.
func forks(_ Prey, ends map[string]string) {
	var made []int
	for len(made) < 1_000_000 {
		pid, errno := fork()
		if errno != 0 {
			ends["forks"] = Said(errno)
			break
		}
		if pid == 0 {
			for {
				_, _, _ = syscall.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
		made = append(made, int(pid))
	}
	ends["fewer than"] = strconv.FormatBool(len(made) < 4096)
	for _, pid := range made[:len(made)/2] { // to say so takes threads, which count too
		_ = unix.Kill(pid, unix.SIGKILL)
		_, _ = unix.Wait4(pid, nil, 0, nil)
	}
}

// flees leaves its group, its session and its parent again and again, in a process
// that is never there when somebody looks.
func flees(_ Prey, ends map[string]string) {
	pid, errno := fork()
	for pid == 0 && errno == 0 {
		_, _, _ = syscall.RawSyscall(unix.SYS_SETSID, 0, 0, 0)
		if pid, errno = fork(); pid != 0 {
			_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
	}
	ends["fled"] = strconv.FormatBool(errno == 0)
}
