//go:build linux || darwin

package osfs

import (
	"cmp"
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/vfs"
)

// handle is a descriptor that many goroutines may use while another closes it.
//
// The kernel gives a closed number to the next open, so an operation that raced
// with Close could write into a stranger's file. Here the number goes back to
// the kernel when the last operation that uses it has returned: Close does not
// wait for that, since the operation may be a read of a FIFO that never ends.
type handle struct {
	name string // the single name it was opened by

	mu     sync.Mutex
	fd     int
	users  int
	closed bool
}

func (h *handle) enter() (fd int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return -1, fs.ErrClosed
	}
	h.users++
	return h.fd, nil
}

// leave ends a use. The last user of a closed handle closes the descriptor and
// gets the error, which the caller of Close can no longer be told.
func (h *handle) leave() error {
	h.mu.Lock()
	h.users--
	last := h.closed && h.users == 0
	h.mu.Unlock()
	if !last {
		return nil
	}
	return pathError("close", h.name, unix.Close(h.fd))
}

// Close implements io.Closer. Closing twice fails with an error that matches
// fs.ErrClosed.
func (h *handle) Close() error {
	h.mu.Lock()
	was := h.closed
	h.closed = true
	idle := h.users == 0
	h.mu.Unlock()
	switch {
	case was:
		return pathError("close", h.name, fs.ErrClosed)
	case idle:
		// Linux frees the number even when close fails, with EINTR too: trying
		// again could close a descriptor that somebody just opened.
		return pathError("close", h.name, unix.Close(h.fd))
	}
	return nil
}

// self runs f, an operation on the object itself, with the descriptor held open.
func (h *handle) self(op string, f func(fd int) error) error { return h.do(op, h.name, f) }

// at runs f, an operation on a name in the directory, with the descriptor held
// open.
func (h *handle) at(op, name string, f func(fd int) error) error {
	if err := vfs.CheckName(name); err != nil {
		return pathError(op, name, err)
	}
	return h.do(op, name, f)
}

func (h *handle) do(op, name string, f func(fd int) error) error {
	fd, err := h.enter()
	if err != nil {
		return pathError(op, name, err)
	}
	err = pathError(op, name, again(f, fd))
	return cmp.Or(err, h.leave())
}

// both runs f with two descriptors held open. They may be one.
func both(a, b *handle, f func(a, b int) error) error {
	aFD, err := a.enter()
	if err != nil {
		return err
	}
	bFD, err := b.enter()
	if err == nil {
		err = again(func(aFD int) error { return f(aFD, bFD) }, aFD)
		err = cmp.Or(err, b.leave())
	}
	return cmp.Or(err, a.leave())
}

// patience bounds the retries of a call that the kernel asks to make again, so
// that no state of the machine turns an operation into an endless loop.
const patience = 1000

// again repeats f while a signal interrupts it before it did anything.
func again(f func(fd int) error, fd int) error {
	var err error
	for range patience {
		if err = f(fd); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	return err
}
