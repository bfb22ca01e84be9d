//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// wanderer does whatever comes into its mind, with few names, so that calls meet what
// earlier ones have left: descriptors of what is gone, further names, links to
// nothing, directories that have moved away. Most of what it does fails.
type wanderer struct {
	*rand.Rand
	fds []int
}

func wander(seed string) {
	n, err := strconv.ParseUint(seed, 10, 64)
	if err != nil {
		os.Exit(1)
	}
	w := &wanderer{Rand: rand.New(rand.NewPCG(n, 1))}
	for range 250 {
		w.step()
	}
	os.Exit(0)
}

func pick[T any](w *wanderer, of ...T) T { return of[w.IntN(len(of))] }

func (w *wanderer) name() string {
	return pick(w, "", "", "d/", "e/", "d/e/", "l/", "../../elsewhere/", "./d/../") + pick(w, "a", "b", "c", "d", "e", "l")
}

func (w *wanderer) fd() int {
	if len(w.fds) == 0 {
		return -1
	}
	return w.fds[w.IntN(len(w.fds))]
}

func (w *wanderer) bytes() []byte {
	b := make([]byte, pick(w, 0, 1, 3, 100, 5000))
	for i := range b {
		b[i] = byte('a' + w.IntN(26))
	}
	return b
}

func (w *wanderer) step() {
	if len(w.fds) > 6 {
		i := w.IntN(len(w.fds))
		_ = unix.Close(w.fds[i])
		w.fds = append(w.fds[:i], w.fds[i+1:]...)
	}
	switch w.IntN(4) {
	case 0:
		w.open()
	case 1:
		w.entry()
	case 2:
		w.content()
	default:
		w.attribute()
	}
}

func (w *wanderer) open() {
	flags := pick(w, unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR) | unix.O_NONBLOCK
	for _, f := range []int{unix.O_CREAT, unix.O_CREAT, unix.O_TRUNC, unix.O_APPEND, unix.O_EXCL, unix.O_NOFOLLOW, unix.O_DSYNC} {
		if w.IntN(3) == 0 {
			flags |= f
		}
	}
	name, mode := w.name(), uint32(pick(w, 0o600, 0o644, 0o777, 0o4755))
	var fd int
	var err error
	switch w.IntN(6) {
	case 0:
		name = pick(w, ".", "d", "../../elsewhere")
		fd, err = unix.Open(name, unix.O_TMPFILE|unix.O_RDWR, mode)
	case 1:
		fd, err = unix.Dup(w.fd())
	case 2:
		fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", w.fd()), flags, mode)
	case 3:
		resolve := pick[uint64](w, 0, unix.RESOLVE_IN_ROOT, unix.RESOLVE_BENEATH, unix.RESOLVE_NO_SYMLINKS)
		fd, err = unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: resolve})
	default:
		fd, err = unix.Open(name, flags, mode)
	}
	if err == nil {
		w.fds = append(w.fds, fd)
	}
}

func (w *wanderer) entry() {
	a, b := w.name(), w.name()
	const here = unix.AT_FDCWD
	switch w.IntN(14) {
	case 0:
		_ = unix.Mkdir(a, 0o755)
	case 1:
		_ = unix.Rmdir(a)
	case 2, 3:
		_ = unix.Unlink(a)
	case 4:
		_ = unix.Symlink(pick(w, b, "a", "../a", "/proc/self/cwd/c"), a)
	case 5:
		_ = unix.Link(a, b)
	case 6:
		_ = unix.Linkat(here, a, here, b, unix.AT_SYMLINK_FOLLOW)
	case 7:
		_ = unix.Linkat(here, fmt.Sprintf("/proc/self/fd/%d", w.fd()), here, b, unix.AT_SYMLINK_FOLLOW)
	case 8:
		_ = unix.Linkat(w.fd(), "", here, b, unix.AT_EMPTY_PATH)
	case 9, 10:
		_ = unix.Rename(a, b)
	case 11:
		_ = unix.Renameat2(here, a, here, b, uint(pick(w, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT)))
	case 12:
		_ = unix.Mknod(a, unix.S_IFIFO|0o644, 0)
	default:
		if fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0); err == nil {
			_ = unix.Bind(fd, &unix.SockaddrUnix{Name: a})
			_ = unix.Close(fd)
		}
	}
}

func (w *wanderer) content() {
	fd, data, at := w.fd(), w.bytes(), int64(pick(w, 0, 1, 4096, 10000))
	switch w.IntN(14) {
	case 0, 1:
		_, _ = unix.Write(fd, data)
	case 2:
		_, _ = unix.Pwrite(fd, data, at)
	case 3:
		_, _ = unix.Writev(fd, [][]byte{data, {}, data})
	case 4:
		_, _ = unix.Pwritev2(fd, [][]byte{data, data}, pick(w, at, -1), pick(w, 0, unix.RWF_APPEND, unix.RWF_SYNC))
	case 5:
		_ = unix.Ftruncate(fd, at)
	case 6:
		_ = unix.Truncate(w.name(), at)
	case 7:
		mode := pick[uint32](w, 0, unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE,
			unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_COLLAPSE_RANGE, unix.FALLOC_FL_INSERT_RANGE)
		_ = unix.Fallocate(fd, mode, at, pick[int64](w, 1, 4096, 9000))
	case 8:
		_, _ = unix.Sendfile(fd, w.fd(), nil, 3000)
	case 9:
		off := at
		_, _ = unix.CopyFileRange(w.fd(), nil, fd, pick(w, nil, &off), 3000, 0)
	case 10:
		_, _ = unix.Seek(fd, at, unix.SEEK_SET)
	case 11:
		_ = unix.IoctlFileClone(fd, w.fd())
	case 12:
		w.splice(fd, data)
	default:
		_ = pick(w, unix.Fsync, unix.Fdatasync, unix.Syncfs)(fd)
	}
}

func (w *wanderer) splice(fd int, data []byte) {
	var p [2]int
	if unix.Pipe2(p[:], unix.O_NONBLOCK) != nil {
		return
	}
	_, _ = unix.Write(p[1], data)
	_, _ = unix.Splice(p[0], nil, fd, nil, len(data)+1, unix.SPLICE_F_NONBLOCK)
	_, _ = unix.Close(p[0]), unix.Close(p[1])
}

func (w *wanderer) attribute() {
	fd, a := w.fd(), w.name()
	mode := pick[uint32](w, 0o644, 0o755, 0o4755, 0o2711, 0o600)
	if os.Getuid() != 0 {
		mode |= 0o700 // who compares the trees has to get in, too
	}
	times := []unix.Timespec{{Sec: 5}, {Sec: int64(w.IntN(1000)), Nsec: 7}}
	switch w.IntN(12) {
	case 0:
		_ = unix.Chmod(a, mode)
	case 1:
		_ = unix.Fchmod(fd, mode)
	case 2:
		_ = unix.Fchmodat(unix.AT_FDCWD, a, mode, pick(w, 0, unix.AT_SYMLINK_NOFOLLOW))
	case 3:
		_ = unix.Chown(a, pick(w, 0, 1, -1), -1)
	case 4:
		_ = unix.Lchown(a, pick(w, 0, 1), 1)
	case 5:
		_ = unix.Fchown(fd, pick(w, 0, 1), 1)
	case 6:
		_ = unix.UtimesNanoAt(unix.AT_FDCWD, a, times, pick(w, 0, unix.AT_SYMLINK_NOFOLLOW))
	case 7: // futimens
		_, _, _ = unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times[0])), 0, 0, 0)
	case 8:
		_ = unix.Setxattr(a, pick(w, "user.a", "user.b", "trusted.c"), pick(w, []byte{}, w.bytes()), 0)
	case 9:
		_ = unix.Fsetxattr(fd, "user.a", []byte("value"), pick(w, 0, unix.XATTR_CREATE))
	case 10:
		_ = unix.Lremovexattr(a, "user.a")
	default:
		_ = unix.Fremovexattr(fd, "user.b")
	}
}

func TestRecordOfWanderers(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	first, runs := 1, 12
	if s := os.Getenv("FSBENCH_WANDER"); s != "" {
		if _, err := fmt.Sscanf(s, "%d+%d", &first, &runs); err != nil {
			t.Fatal(err)
		}
	}
	for seed := first; seed < first+runs; seed++ {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			tp := newTape(t, func(base string) {
				put(t, filepath.Join(base, "ws/a"), "old")
				for _, err := range []error{
					os.Link(filepath.Join(base, "ws/a"), filepath.Join(base, "../elsewhere/a")),
					os.MkdirAll(filepath.Join(base, "../elsewhere/d"), 0o755), os.Mkdir(filepath.Join(base, "ws/d"), 0o755),
					os.Symlink("d", filepath.Join(base, "ws/l")),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
				put(t, filepath.Join(base, "../elsewhere/d/b"), "outside")
			})
			tp.env = []string{"FSBENCH_TEST_PROGRAM=" + strconv.Itoa(seed)}
			if seed%3 == 0 { // two that get into each other's way
				tp.run("/bin/sh", "-c", `FSBENCH_TEST_PROGRAM=1$FSBENCH_TEST_PROGRAM "$0" & "$0"; wait`, exe)
			} else {
				tp.run(exe)
			}
			complete(t, tp.replay())
		})
	}
}
