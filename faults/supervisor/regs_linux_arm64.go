package supervisor

import (
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// registers changes the registers of a stopped thread.
func registers(tid int, change func(*unix.PtraceRegs)) error {
	var r unix.PtraceRegs
	if err := unix.PtraceGetRegs(tid, &r); err != nil {
		return err
	}
	change(&r)
	return unix.PtraceSetRegs(tid, &r)
}

// The number of the call is no general register here.
const ntARMSystemCall = 0x404

// skipCall keeps the kernel from carrying out the call that a thread is about to
// make.
func skipCall(tid int) error {
	none := int32(-1)
	iov := unix.Iovec{Base: (*byte)(unsafe.Pointer(&none)), Len: 4}
	return ptrace(unix.PTRACE_SETREGSET, tid, ntARMSystemCall, uintptr(unsafe.Pointer(&iov)))
}

// setResult changes what a call returns.
func setResult(tid int, v int64) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Regs[0] = uint64(v) })
}

// setArg changes an argument of a call.
func setArg(tid, n int, v uint64) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Regs[n] = v })
}

// forks are the calls in which a thread may wait for a child that has its memory.
var forks = []string{strconv.Itoa(unix.SYS_CLONE), strconv.Itoa(unix.SYS_CLONE3)}
