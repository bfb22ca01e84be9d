//go:build amd64 || arm64

package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// maxTests is how many comparisons a call may cost that is not examined further.
const maxTests = 10

// maxTestsOfArgs is the same with the examination of arguments.
const maxTestsOfArgs = 14

// seccompData is what the kernel shows a filter.
type seccompData struct {
	nr, arch uint32
	ip       uint64
	args     [6]uint64
}

func (d seccompData) word(offset uint32) (uint32, error) {
	raw := make([]byte, 0, 64)
	raw = binary.LittleEndian.AppendUint32(raw, d.nr)
	raw = binary.LittleEndian.AppendUint32(raw, d.arch)
	raw = binary.LittleEndian.AppendUint64(raw, d.ip)
	for _, a := range d.args {
		raw = binary.LittleEndian.AppendUint64(raw, a)
	}
	if offset%4 != 0 || int(offset)+4 > len(raw) {
		return 0, fmt.Errorf("load of word at %d", offset)
	}
	return binary.LittleEndian.Uint32(raw[offset:]), nil
}

// interpret runs a filter as the kernel would, and counts the comparisons.
func interpret(prog []unix.SockFilter, d seccompData) (verdict uint32, tests int, err error) {
	var a uint32
	for pc := 0; pc < len(prog); pc++ {
		in := prog[pc]
		var holds bool
		switch in.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			if a, err = d.word(in.K); err != nil {
				return 0, tests, err
			}
			continue
		case unix.BPF_RET | unix.BPF_K:
			return in.K, tests, nil
		case unix.BPF_JMP | unix.BPF_JA:
			pc += int(in.K)
			continue
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			holds = a == in.K
		case unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K:
			holds = a >= in.K
		case unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K:
			holds = a&in.K != 0
		default:
			return 0, tests, fmt.Errorf("instruction %d has code %#x", pc, in.Code)
		}
		tests++
		if holds {
			pc += int(in.Jt)
		} else {
			pc += int(in.Jf)
		}
	}
	return 0, tests, errors.New("the program has no end")
}

const testAction = unix.SECCOMP_RET_TRACE | 7

func testProgram(t *testing.T) []unix.SockFilter {
	t.Helper()
	prog, err := program(testAction)
	if err != nil {
		t.Fatal(err)
	}
	return prog
}

func run(t *testing.T, prog []unix.SockFilter, d seccompData) (verdict uint32, tests int) {
	t.Helper()
	verdict, tests, err := interpret(prog, d)
	if err != nil {
		t.Fatalf("call %d: %v", d.nr, err)
	}
	return verdict, tests
}

func TestVerdictOfEveryNumber(t *testing.T) {
	prog := testProgram(t)
	deepest, sum := 0, 0
	for nr := range uint32(1001) {
		want := uint32(unix.SECCOMP_RET_ALLOW)
		switch c := lookup(int(nr)); {
		case nr > newest:
			want = retNoSys
		case c != nil && c.when != "":
			continue // TestConditions
		case c != nil && c.deny:
			want = retNoSys
		case c != nil:
			want = testAction
		}
		got, tests := run(t, prog, seccompData{nr: nr, arch: auditArch})
		if got != want {
			t.Errorf("call %d: %#x, want %#x", nr, got, want)
		}
		deepest = max(deepest, tests)
		sum += tests
	}
	if deepest > maxTests {
		t.Errorf("a call costs %d comparisons, want at most %d", deepest, maxTests)
	}
	t.Logf("%d calls, %d instructions, at most %d comparisons, %.1f on average", len(calls), len(prog), deepest, float64(sum)/1001)
}

func TestOtherNumbersAreRefused(t *testing.T) {
	const x32 = 0x40000000
	tests := []struct {
		name string
		data seccompData
	}{
		{"write of a 32-bit process", seccompData{nr: 4, arch: unix.AUDIT_ARCH_I386}},
		{"write of a 32-bit arm process", seccompData{nr: 4, arch: unix.AUDIT_ARCH_ARM}},
		{"a harmless number of another machine", seccompData{nr: unix.SYS_GETPID, arch: unix.AUDIT_ARCH_S390X}},
		{"no architecture", seccompData{nr: unix.SYS_GETPID}},
		{"x32 write", seccompData{nr: x32 | unix.SYS_WRITE, arch: auditArch}},
		{"x32 getpid", seccompData{nr: x32 | unix.SYS_GETPID, arch: auditArch}},
		{"the first of x32's own", seccompData{nr: x32 | 512, arch: auditArch}},
		{"a call from the future", seccompData{nr: newest + 1, arch: auditArch}},
		{"no call", seccompData{nr: ^uint32(0), arch: auditArch}},
	}
	prog := testProgram(t)
	for _, tt := range tests {
		if got, _ := run(t, prog, tt.data); got != retNoSys {
			t.Errorf("%s: %#x, want %#x", tt.name, got, retNoSys)
		}
	}
}

func TestConditions(t *testing.T) {
	const (
		allow = unix.SECCOMP_RET_ALLOW
		upper = 0xdeadbeef << 32 // the kernel does not see it, or not there
		rw    = unix.PROT_READ | unix.PROT_WRITE
		winsz = unix.TIOCGWINSZ
	)
	tests := []struct {
		name string
		nr   uint32
		args [6]uint64
		want uint32
	}{
		{"mmap of memory", unix.SYS_MMAP, [6]uint64{2: rw, 3: unix.MAP_PRIVATE | unix.MAP_ANONYMOUS}, allow},
		{"mmap of a library", unix.SYS_MMAP, [6]uint64{2: unix.PROT_READ | unix.PROT_EXEC, 3: unix.MAP_PRIVATE}, allow},
		{"mmap of a copy", unix.SYS_MMAP, [6]uint64{2: rw, 3: unix.MAP_PRIVATE}, allow},
		{"mmap for reading", unix.SYS_MMAP, [6]uint64{2: unix.PROT_READ, 3: unix.MAP_SHARED}, allow},
		{"mmap of shared memory", unix.SYS_MMAP, [6]uint64{2: rw, 3: unix.MAP_SHARED | unix.MAP_ANONYMOUS}, allow},
		{"mmap for writing", unix.SYS_MMAP, [6]uint64{2: rw, 3: unix.MAP_SHARED}, testAction},
		{"mmap, validated", unix.SYS_MMAP, [6]uint64{2: unix.PROT_WRITE, 3: unix.MAP_SHARED_VALIDATE | unix.MAP_SYNC}, testAction},
		{"mmap, upper halves", unix.SYS_MMAP, [6]uint64{2: upper | rw, 3: upper | unix.MAP_SHARED}, testAction},
		{"mmap, only upper halves", unix.SYS_MMAP, [6]uint64{2: unix.PROT_WRITE << 32, 3: unix.MAP_SHARED << 32}, allow},
		{"mmap, other arguments", unix.SYS_MMAP, [6]uint64{rw, rw, 0, 0, rw, rw}, allow},
		{"mprotect", unix.SYS_MPROTECT, [6]uint64{2: unix.PROT_READ | unix.PROT_EXEC}, allow},
		{"mprotect for writing", unix.SYS_MPROTECT, [6]uint64{2: upper | rw}, testAction},
		{"pkey_mprotect", unix.SYS_PKEY_MPROTECT, [6]uint64{2: unix.PROT_NONE, 3: 3}, allow},
		{"pkey_mprotect for writing", unix.SYS_PKEY_MPROTECT, [6]uint64{2: rw, 3: 3}, testAction},
		{"madvise", unix.SYS_MADVISE, [6]uint64{2: unix.MADV_DONTNEED}, allow},
		{"madvise that removes", unix.SYS_MADVISE, [6]uint64{2: upper | unix.MADV_REMOVE}, testAction},
		{"process_madvise", unix.SYS_PROCESS_MADVISE, [6]uint64{2: unix.MADV_REMOVE, 3: unix.MADV_COLD}, allow},
		{"process_madvise that removes", unix.SYS_PROCESS_MADVISE, [6]uint64{3: unix.MADV_REMOVE}, testAction},
		{"seccomp", unix.SYS_SECCOMP, [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC}, allow},
		{"seccomp with a listener", unix.SYS_SECCOMP, [6]uint64{unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER}, retNoSys},
		{"ioctl of a terminal", unix.SYS_IOCTL, [6]uint64{1: winsz}, allow},
		{"ioctl zero", unix.SYS_IOCTL, [6]uint64{}, allow},
		{"ioctl, the last number", unix.SYS_IOCTL, [6]uint64{1: 0xffffffff}, allow},
		{"ioctl that asks for flags", unix.SYS_IOCTL, [6]uint64{1: unix.FS_IOC_GETFLAGS}, allow},
		{"ioctl, the number elsewhere", unix.SYS_IOCTL, [6]uint64{unix.FICLONE, unix.FICLONE << 32, unix.FICLONE}, allow},
	}
	for _, v := range conditions["changes-files"].values {
		for _, near := range []uint64{uint64(v) - 1, uint64(v), uint64(v) + 1, upper | uint64(v)} {
			want := uint32(allow)
			if slices.Contains(conditions["changes-files"].values, uint32(near)) {
				want = testAction
			}
			tests = append(tests, struct {
				name string
				nr   uint32
				args [6]uint64
				want uint32
			}{fmt.Sprintf("ioctl %#x", near), unix.SYS_IOCTL, [6]uint64{1: near}, want})
		}
	}
	prog, met, deepest := testProgram(t), map[conditionName]bool{}, 0
	for _, tt := range tests {
		got, cost := run(t, prog, seccompData{nr: tt.nr, arch: auditArch, args: tt.args})
		if got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
		deepest = max(deepest, cost)
		met[lookup(int(tt.nr)).when] = true
	}
	for name := range conditions {
		if !met[name] {
			t.Errorf("nothing here meets condition %s", name)
		}
	}
	if deepest > maxTestsOfArgs {
		t.Errorf("a call costs %d comparisons, want at most %d", deepest, maxTestsOfArgs)
	}
	t.Logf("at most %d comparisons", deepest)
}

// TestTreeReachesFar has a tree with more than a conditional jump can cross.
func TestTreeReachesFar(t *testing.T) {
	var spans []span
	for i := range uint32(1200) {
		spans = append(spans, span{3 * i, ret(i)})
	}
	prog := slices.Concat(load(dataNr), tree(spans))
	deepest := 0
	for nr := range uint32(3 * 1200) {
		got, tests := run(t, prog, seccompData{nr: nr})
		if got != nr/3 {
			t.Fatalf("number %d is in span %d, want %d", nr, got, nr/3)
		}
		deepest = max(deepest, tests)
	}
	if deepest > 11 {
		t.Errorf("%d comparisons for 1200 spans, want at most 11", deepest)
	}
	if !slices.ContainsFunc(prog, func(in unix.SockFilter) bool { return in.Code == unix.BPF_JMP|unix.BPF_JA }) {
		t.Error("no long jump: the tree is too small to show anything")
	}
}

func TestInstallRefuses(t *testing.T) {
	for _, n := range []int{0, unix.BPF_MAXINSNS + 1} {
		if fd, err := install(make([]unix.SockFilter, n), 0); fd != -1 || !errors.Is(err, unix.EINVAL) {
			t.Errorf("a filter of %d instructions: %d, %v, want EINVAL", n, fd, err)
		}
	}
}

// filteredChild is set in the process that TestFilterInTheKernel starts.
const filteredChild = "SUPERVISOR_TEST_FILTERED"

var zeroPath = [2]byte{'/', 0}

// kernelCases are calls under a filter that answers EPERM where it would stop.
var kernelCases = []struct {
	name string
	nr   uintptr
	args [6]uintptr
	want syscall.Errno // zero for anything but EPERM and ENOSYS
}{
	{"openat", unix.SYS_OPENAT, [6]uintptr{^uintptr(99), uintptr(unsafe.Pointer(&zeroPath))}, unix.EPERM},
	{"write", unix.SYS_WRITE, [6]uintptr{1}, unix.EPERM},
	{"getpid", unix.SYS_GETPID, [6]uintptr{}, 0},
	{"close", unix.SYS_CLOSE, [6]uintptr{1 << 20}, 0},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [6]uintptr{1}, unix.ENOSYS},
	{"file_setattr", unix.SYS_FILE_SETATTR, [6]uintptr{}, unix.EPERM},
	{"a call from the future", newest + 1, [6]uintptr{}, unix.ENOSYS},
	{"ioctl of a terminal", unix.SYS_IOCTL, [6]uintptr{0, unix.TIOCGWINSZ}, 0},
	{"clone of a file", unix.SYS_IOCTL, [6]uintptr{0, unix.FICLONE}, unix.EPERM},
	{"mmap of memory", unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_WRITE, unix.MAP_PRIVATE | unix.MAP_ANONYMOUS, ^uintptr(0)}, 0},
	{"mmap for writing", unix.SYS_MMAP, [6]uintptr{0, 4096, unix.PROT_WRITE, unix.MAP_SHARED, 0}, unix.EPERM},
	{"mprotect of nothing", unix.SYS_MPROTECT, [6]uintptr{0, 0, unix.PROT_READ}, 0},
}

func TestFilterInTheKernel(t *testing.T) {
	if os.Getenv(filteredChild) != "" {
		runFiltered()
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestFilterInTheKernel$")
	cmd.Env = append(os.Environ(), filteredChild+"=1")
	cmd.ExtraFiles = []*os.File{theirs}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	said, readErr := io.ReadAll(ours)
	if err := errors.Join(cmd.Wait(), readErr); err != nil || string(said) != "as it should be\n" {
		t.Errorf("under the filter: %v, %s", err, said)
	}
}

// runFiltered does not return. Its thread may neither write nor let the runtime
// do so: it makes raw calls, and sends what it found, which no filter stops.
func runFiltered() {
	runtime.LockOSThread()
	prog, err := program(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM))
	if err == nil {
		_, err = install(prog, 0)
	}
	said := ""
	if err != nil {
		said = err.Error() + "\n"
	}
	for _, c := range kernelCases {
		if err != nil {
			break
		}
		_, _, errno := unix.RawSyscall6(c.nr, c.args[0], c.args[1], c.args[2], c.args[3], c.args[4], c.args[5])
		if errno != c.want && (c.want != 0 || errno == unix.EPERM || errno == unix.ENOSYS) {
			said += fmt.Sprintf("%s: errno %d, want %d\n", c.name, errno, c.want)
		}
	}
	if said == "" {
		said = "as it should be\n"
	}
	raw := []byte(said)
	unix.RawSyscall6(unix.SYS_SENDTO, 3, uintptr(unsafe.Pointer(&raw[0])), uintptr(len(raw)), 0, 0, 0)
	unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
}

func BenchmarkProgram(b *testing.B) {
	for b.Loop() {
		if _, err := program(testAction); err != nil {
			b.Fatal(err)
		}
	}
}
