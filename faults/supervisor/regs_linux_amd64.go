package supervisor

import (
	"strconv"

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

// skipCall keeps the kernel from carrying out the call that a thread is about to
// make.
func skipCall(tid int) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Orig_rax = ^uint64(0) })
}

// setResult changes what a call returns.
func setResult(tid int, v int64) error {
	return registers(tid, func(r *unix.PtraceRegs) { r.Rax = uint64(v) })
}

// setArg changes an argument of a call.
func setArg(tid, n int, v uint64) error {
	return registers(tid, func(r *unix.PtraceRegs) {
		*[]*uint64{&r.Rdi, &r.Rsi, &r.Rdx, &r.R10, &r.R8, &r.R9}[n] = v
	})
}

// forks are the calls in which a thread may wait for a child that has its memory.
var forks = []string{strconv.Itoa(unix.SYS_CLONE), strconv.Itoa(unix.SYS_CLONE3), strconv.Itoa(unix.SYS_VFORK)}
