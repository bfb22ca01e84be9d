//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

func ptrace(request, tid int, addr, data uintptr) error { //nolint:unparam // arm64 names a set of registers by addr
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, uintptr(request), uintptr(tid), addr, data, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// quietStops has the kernel send no signal when a child stops. Who waits for stops has no
// use for it, and each would run the handler of the Go runtime.
func quietStops() error {
	const noStops = 1                 // SA_NOCLDSTOP
	action := new([4]uint64)          // handler, flags, restorer, mask
	words := unsafe.Sizeof(uint64(0)) // of a mask
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), 0, uintptr(unsafe.Pointer(action)), words, 0, 0); errno != 0 {
		return errno
	}
	action[1] |= noStops
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGCHLD), uintptr(unsafe.Pointer(action)), 0, words, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// resume lets a thread run to its next stop.
func resume(tid, signal int) error { return ptrace(unix.PTRACE_CONT, tid, 0, uintptr(signal)) }

// resumeCall lets a thread run to the end of the call that it is in.
func resumeCall(tid int) error { return ptrace(unix.PTRACE_SYSCALL, tid, 0, 0) }

// callInfo is what the kernel says of the call that a thread is stopped at.
type callInfo struct {
	op   uint8
	_    [3]uint8
	arch uint32
	ip   uint64
	sp   uint64
	data [8]uint64
}

func (i *callInfo) nr() int          { return int(int64(i.data[0])) }
func (i *callInfo) arg(n int) uint64 { return i.data[1+n] }
func (i *callInfo) result() int64    { return int64(i.data[0]) }

func getCall(tid int) (callInfo, error) {
	var i callInfo
	_, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_GET_SYSCALL_INFO, uintptr(tid), unsafe.Sizeof(i), uintptr(unsafe.Pointer(&i)), 0, 0)
	if errno != 0 {
		return i, errno
	}
	return i, nil
}

const page = 4096

// readBytes reads the subject's memory.
func readBytes(tid int, addr uint64, n int) ([]byte, error) {
	if n == 0 {
		return nil, nil
	}
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(n)}}
	got, err := unix.ProcessVMReadv(tid, local, []unix.RemoteIovec{{Base: uintptr(addr), Len: n}}, 0)
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) {
		got, err = readMem(tid, addr, buf) // what refuses tracing may refuse that call as well
	}
	if err != nil {
		return nil, fmt.Errorf("read its memory: %w", err)
	}
	return buf[:got], nil
}

// readMem reads the subject's memory as a file.
func readMem(tid int, addr uint64, buf []byte) (int, error) {
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mem", tid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	got, err := unix.Pread(fd, buf, int64(addr))
	if errors.Is(err, unix.EIO) {
		err = unix.EFAULT // as the other way has it
	}
	return got, err
}

// readString reads a path. It never reads across the end of a page beyond the one
// that holds the end of the path: the next may not be there.
func readString(tid int, addr uint64) (string, error) {
	var out []byte
	for len(out) <= unix.PathMax {
		chunk, err := readBytes(tid, addr, min(256, page-int(addr%page)))
		if err != nil {
			return "", err
		}
		if i := bytes.IndexByte(chunk, 0); i >= 0 {
			return string(append(out, chunk[:i]...)), nil
		}
		out = append(out, chunk...)
		addr += uint64(len(chunk))
	}
	return string(out), nil // too long for any call
}
