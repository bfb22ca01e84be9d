//go:build amd64 || arm64

package supervisor

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// conditionName names one of conditions, in calls.txt.
type conditionName string

// condition is about the arguments of a call. All of masks hold, and, where
// there are values, one of them does.
//
// Only the lower half of an argument is looked at, and nothing is asked of the
// upper half: these arguments are an int to the kernel or have their bits in
// the lower half, and a subject that fills the upper one would slip through a
// comparison that the kernel does not make.
type condition struct {
	masks  []argMask
	arg    int
	values []uint32
}

// argMask holds where all bits of set are there and none of clear.
type argMask struct {
	arg        int
	set, clear uint32
}

var conditions = map[conditionName]*condition{
	// MAP_SHARED_VALIDATE contains the bit of MAP_SHARED, MAP_PRIVATE does not.
	// Shared memory without a file is no file's.
	"shared-store":  {masks: []argMask{{2, unix.PROT_WRITE, 0}, {3, unix.MAP_SHARED, unix.MAP_ANONYMOUS}}},
	"store":         {masks: []argMask{{arg: 2, set: unix.PROT_WRITE}}},
	"remove":        {arg: 2, values: []uint32{unix.MADV_REMOVE}},
	"remote-remove": {arg: 3, values: []uint32{unix.MADV_REMOVE}},
	"listener":      {masks: []argMask{{arg: 1, set: unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}}},
	"changes-files": {arg: 1, values: []uint32{
		unix.FICLONE, unix.FICLONERANGE, unix.FIDEDUPERANGE, unix.FS_IOC_SETFLAGS, unix.FS_IOC_ENABLE_VERITY,
		fsIocFSSetXattr, ext4IocMoveExt, xfsIocExchangeRange,
		fsIocResvsp, fsIocUnresvsp, fsIocResvsp64, fsIocUnresvsp64, fsIocZeroRange,
		btrfsIocSnapCreate, btrfsIocSubvolCreate, btrfsIocSnapDestroy,
		btrfsIocSnapCreateV2, btrfsIocSubvolCreateV2, btrfsIocSnapDestroyV2, btrfsIocSubvolSetFlags,
	}},
}

// Numbers of ioctl that x/sys does not have. Those of allocation are older than
// fallocate, and the kernel still takes them on every file system.
const (
	fsIocFSSetXattr        = 0x401c5820
	ext4IocMoveExt         = 0xc028660f
	xfsIocExchangeRange    = 0x40285881
	fsIocResvsp            = 0x40305828
	fsIocUnresvsp          = 0x40305829
	fsIocResvsp64          = 0x4030582a
	fsIocUnresvsp64        = 0x4030582b
	fsIocZeroRange         = 0x40305839
	btrfsIocSnapCreate     = 0x50009401
	btrfsIocSubvolCreate   = 0x5000940e
	btrfsIocSnapDestroy    = 0x5000940f
	btrfsIocSnapCreateV2   = 0x50009417
	btrfsIocSubvolCreateV2 = 0x50009418
	btrfsIocSubvolSetFlags = 0x4008941a
	btrfsIocSnapDestroyV2  = 0x5000943f
)

// Places in the kernel's struct seccomp_data. Both machines store the lower
// half of a number first.
const (
	dataNr   = 0
	dataArch = 4
	dataArgs = 16
)

const retNoSys = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

// program returns the filter: action for the calls of the table, ENOSYS for
// those that it denies, for those of another architecture (a 32-bit call of a
// 64-bit process has other numbers and would pass unseen), and for those that
// are newer than the table, which nobody has judged: to the subject, the kernel
// is as old as the table. All else is allowed.
//
// Every system call of a subject pays for the way to its verdict, so the way is
// a balanced tree over ranges of numbers.
func program(action uint32) ([]unix.SockFilter, error) {
	prog := slices.Concat(
		load(dataArch),
		[]unix.SockFilter{jump(unix.BPF_JEQ, auditArch, 1, 0)},
		ret(retNoSys),
		load(dataNr),
		tree(ranges(action)),
	)
	if len(prog) > unix.BPF_MAXINSNS {
		return nil, fmt.Errorf("a filter of %d instructions, the kernel takes %d", len(prog), unix.BPF_MAXINSNS)
	}
	return prog, nil
}

// span is a range of numbers, up to the next one's first, and what to do there.
type span struct {
	first uint32
	code  []unix.SockFilter
}

// ranges covers all numbers. Neighbours with the same verdict are one range.
func ranges(action uint32) []span {
	allow := ret(unix.SECCOMP_RET_ALLOW)
	spans := []span{{0, allow}}
	add := func(first uint32, code []unix.SockFilter) {
		last := &spans[len(spans)-1]
		switch {
		case last.first == first:
			last.code = code
		case !slices.Equal(last.code, code):
			spans = append(spans, span{first, code})
		}
	}
	for _, nr := range slices.Sorted(maps.Keys(calls)) {
		c, hit := calls[nr], ret(action)
		if c.deny {
			hit = ret(retNoSys)
		}
		if c.when != "" {
			hit = conditions[c.when].code(hit)
		}
		add(uint32(nr), hit)
		add(uint32(nr)+1, allow)
	}
	// The calls of x32, a third set of numbers under the same architecture, have
	// a high bit and are here as well.
	add(newest+1, ret(retNoSys))
	return spans
}

// tree finds the span of the loaded number.
func tree(spans []span) []unix.SockFilter {
	if len(spans) == 1 {
		return spans[0].code
	}
	mid := len(spans) / 2
	below, above := tree(spans[:mid]), tree(spans[mid:])
	first := spans[mid].first
	if len(below) <= math.MaxUint8 {
		return slices.Concat([]unix.SockFilter{jump(unix.BPF_JGE, first, uint8(len(below)), 0)}, below, above)
	}
	// A conditional jump has eight bits for its distance.
	far := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(below))}
	return slices.Concat([]unix.SockFilter{jump(unix.BPF_JGE, first, 0, 1), far}, below, above)
}

// code ends in hit where the condition holds, and allows the call where not.
func (c *condition) code(hit []unix.SockFilter) []unix.SockFilter {
	allow := ret(unix.SECCOMP_RET_ALLOW)
	if len(c.values) > 0 {
		spans := []span{{0, allow}}
		for _, v := range slices.Sorted(slices.Values(c.values)) {
			if last := &spans[len(spans)-1]; last.first == v {
				last.code = hit
			} else {
				spans = append(spans, span{v, hit})
			}
			spans = append(spans, span{v + 1, allow})
		}
		hit = slices.Concat(load(argOffset(c.arg)), tree(spans))
	}
	for _, m := range slices.Backward(c.masks) {
		hit = slices.Concat(load(argOffset(m.arg)), m.code(), hit)
	}
	return hit
}

// code goes on behind itself where the mask holds.
func (m argMask) code() []unix.SockFilter {
	var out []unix.SockFilter
	for bit := uint32(1); bit != 0; bit <<= 1 {
		switch {
		case m.set&bit != 0:
			out = append(out, jump(unix.BPF_JSET, bit, 1, 0))
		case m.clear&bit != 0:
			out = append(out, jump(unix.BPF_JSET, bit, 0, 1))
		default:
			continue
		}
		out = append(out, ret(unix.SECCOMP_RET_ALLOW)...)
	}
	return out
}

func argOffset(arg int) uint32 { return uint32(dataArgs + 8*arg) }

func load(offset uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}}
}

func jump(test uint16, k uint32, yes, no uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | test | unix.BPF_K, Jt: yes, Jf: no, K: k}
}

func ret(k uint32) []unix.SockFilter {
	return []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: k}}
}

// install puts the calling thread, which the caller has locked, under prog, for
// good and with all that it starts. It gives up the right to gain rights by
// exec, without which the kernel takes a filter from root only. fd is the
// listener where flags ask for one, else -1.
func install(prog []unix.SockFilter, flags uintptr) (fd int, err error) {
	if len(prog) == 0 || len(prog) > unix.BPF_MAXINSNS {
		return -1, fmt.Errorf("install a filter of %d instructions: %w", len(prog), unix.EINVAL)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return -1, fmt.Errorf("give up gaining rights: %w", err)
	}
	fprog := unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]}
	r, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(prog)
	switch {
	case errno != 0:
		return -1, fmt.Errorf("install a filter: %w", errno)
	case flags&unix.SECCOMP_FILTER_FLAG_NEW_LISTENER != 0:
		return int(r), nil
	case r != 0: // with TSYNC
		return -1, fmt.Errorf("install a filter: thread %d cannot take it", r)
	}
	return -1, nil
}
