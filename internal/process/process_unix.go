//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"
)

// killAll ends the process group of p, or p alone if it leads none.
func killAll(p *os.Process) error {
	err := syscall.Kill(-p.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.ESRCH) {
		return p.Kill()
	}
	return err
}

// errStream passes on what a child writes to standard error.
type errStream struct {
	f  *os.File
	to io.Writer

	mu  sync.Mutex // held from a read until what was read is passed on
	buf [32 << 10]byte
}

// maxDrain is more than a pipe holds unless its owner enlarged it. A child that
// floods its standard error must not keep anybody reading.
const maxDrain = 1 << 20 // bytes

// pump reads until the end.
func (s *errStream) pump() {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return
	}
	for ended := false; !ended; {
		err := raw.Read(func(fd uintptr) bool {
			n, err := s.read(fd)
			if errors.Is(err, syscall.EAGAIN) {
				return false
			}
			ended = n <= 0
			return true
		})
		ended = ended || err != nil
	}
}

// drain passes on what is there, and waits for a read under way.
func (s *errStream) drain() {
	raw, err := s.f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		for total := 0; total < maxDrain; {
			n, _ := s.read(fd)
			if n <= 0 {
				return
			}
			total += n
		}
	})
}

// read passes on what one read gives. The pipe does not block.
func (s *errStream) read(fd uintptr) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		n, err := syscall.Read(int(fd), s.buf[:])
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if n > 0 {
			_, _ = s.to.Write(s.buf[:n])
		}
		return n, err
	}
}
