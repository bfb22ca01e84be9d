//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRecordOfGit(t *testing.T) {
	need(t, "git")
	tp := newTape(t, nil)
	tp.env = []string{
		"GIT_CONFIG_NOSYSTEM=1", "HOME=/nonexistent", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
	}
	tp.run("/bin/sh", "-ec", `
git init -q r
cd r
echo one > f; ln -s f l; mkdir d; echo two > d/g
git add .
git commit -qm first
echo three >> f; git commit -qam second
git gc -q`)
	complete(t, tp.replay())
}

func TestRecordOfSQLite(t *testing.T) {
	need(t, "sqlite3")
	tp := newTape(t, nil)
	tp.run("sqlite3", "db", `
PRAGMA journal_mode=WAL;
CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);
INSERT INTO t SELECT value, hex(randomblob(200)) FROM generate_series(1, 200);
UPDATE t SET b = 'x' WHERE a % 3 = 0;
PRAGMA wal_checkpoint;
DELETE FROM t WHERE a % 2 = 0;`)
	rec := tp.replay()
	complete(t, rec)
	if len(rec.Gaps) == 0 {
		t.Error("the file that is mapped for writing is not spoken of")
	}
}

func TestRecordOfTools(t *testing.T) {
	for _, tt := range []struct{ name, script string }{
		{"sed -i", `sed -i s/old/new/ a; sed -i.bak s/new/newer/ a`},
		{"cp -a", `cp -a src dst; cp -a --reflink=auto src/big copy`},
		{"tar", `tar cf t.tar src; mkdir out; tar xf t.tar -C out; rm -r src`},
		{"gzip", `gzip -k src/big; gzip -d < src/big.gz > again; gzip a`},
		{"moves", `mv src/sub sub; mv ../../elsewhere/tree in; mv in/x a; mv sub ../../elsewhere/; ln ../../elsewhere/file hard; echo more >> ../../elsewhere/file; ln a a2; mv a2 a || true; mkfifo p; truncate -s 100000 src/big; truncate -s 10 a; chmod 4755 a; touch -d 2001-02-03 a; dd if=/dev/zero of=src/big bs=1000 seek=2 count=3 conv=notrunc status=none; rm -r src`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tp := newTape(t, func(base string) {
				put(t, base+"/ws/a", "old\n")
				for _, dir := range []string{"/ws/src/sub", "/../elsewhere/tree/y"} {
					if err := os.MkdirAll(base+dir, 0o755); err != nil {
						t.Fatal(err)
					}
				}
				put(t, base+"/../elsewhere/file", "outside\n")
				put(t, base+"/../elsewhere/tree/x", "x\n")
				put(t, base+"/../elsewhere/tree/y/z", "z\n")
				put(t, base+"/ws/src/sub/one", "1")
				big := make([]byte, 300_000)
				for i := range big {
					big[i] = byte(i * i >> 7)
				}
				put(t, base+"/ws/src/big", string(big))
				for _, err := range []error{
					os.Link(base+"/ws/src/sub/one", base+"/ws/src/two"), os.Symlink("sub/one", base+"/ws/src/l"),
					os.Chmod(base+"/ws/src/big", 0o600),
				} {
					if err != nil {
						t.Fatal(err)
					}
				}
			})
			tp.run("/bin/sh", "-ec", tt.script)
			complete(t, tp.replay())
		})
	}
}

// daemon leaves its group and its parents, and works on; its first ancestor waits
// for it, since the subject ends with that.
const daemon = `
import os, time, socket
r, w = os.pipe()
if os.fork():
    os.close(w); os.read(r, 1)
else:
    os.setsid()
    if os.fork(): os._exit(0)
    os.close(r)
    with open("log", "a") as f:
        for i in range(5):
            f.write("line %d\n" % i); f.flush(); os.fsync(f.fileno())
    os.open("pid", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    fd = os.open("pid", os.O_WRONLY)
    os.pwrite(fd, b"123", 2); os.ftruncate(fd, 4); os.posix_fallocate(fd, 0, 9)
    os.setxattr("pid", "user.a", b"\x00\xff"); os.setxattr("pid", "user.b", b"b"); os.removexattr("pid", "user.b")
    os.utime("pid", ns=(1, 1000000007))
    fd2 = os.open("log", os.O_RDONLY)
    os.sendfile(fd, fd2, 0, 5)
    os.copy_file_range(fd2, fd, 4)
    s = socket.socket(socket.AF_UNIX); s.bind("sock")
    os.unlink("log"); os.mkdir("d", 0o700); os.rename("pid", "d/pid"); os.chown("d/pid", 1, 1)
    os.writev(fd, [b"ab", b"cd"])
    os.write(w, b"x")
`

func TestRecordOfADaemon(t *testing.T) {
	need(t, "python3")
	tp := newTape(t, nil)
	tp.run("python3", "-c", daemon)
	complete(t, tp.replay())
}

func TestRecordOfEightWriters(t *testing.T) {
	need(t, "node")
	tp := newTape(t, nil)
	tp.run("node", "-e", eightWriters)
	complete(t, tp.replay())
}

func TestRecordOfAStaticProgram(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tp := newTape(t, func(base string) { put(t, filepath.Join(base, "ws/a"), "old") })
	tp.env = []string{"FSBENCH_TEST_PROGRAM=static"}
	tp.run(exe)
	complete(t, tp.replay())
}

// program is what this binary does as the subject of a test: what a library for
// atomic writes would do if it knew all that the kernel offers.
func program() {
	switch what := os.Getenv("FSBENCH_TEST_PROGRAM"); what {
	case "":
		return
	case "static":
	default:
		wander(what)
	}
	must := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	nameless := func(text string) int {
		fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_RDWR, 0o640)
		must(err)
		_, err = unix.Pwritev(fd, [][]byte{[]byte(text), []byte(" and more")}, 3)
		must(err)
		return fd
	}
	one := nameless("one")
	must(unix.Fsync(one))
	must(unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", one), unix.AT_FDCWD, "one", unix.AT_SYMLINK_FOLLOW))
	two := nameless("two")
	must(unix.Fchmod(two, 0o604))
	if err := unix.Linkat(two, "", unix.AT_FDCWD, "two", unix.AT_EMPTY_PATH); errors.Is(err, unix.ENOENT) {
		must(unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", two), unix.AT_FDCWD, "two", unix.AT_SYMLINK_FOLLOW))
	} else {
		must(err)
	}
	must(unix.Close(nameless("dropped")))
	must(unix.Renameat2(unix.AT_FDCWD, "one", unix.AT_FDCWD, "a", unix.RENAME_EXCHANGE))
	must(unix.Link("a", "b"))
	must(unix.Rename("a", "b")) // does nothing
	if err := unix.Renameat2(unix.AT_FDCWD, "two", unix.AT_FDCWD, "one", unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
		must(fmt.Errorf("rename without replacing: %w", err))
	}
	must(unix.Fallocate(two, unix.FALLOC_FL_KEEP_SIZE, 0, 9000))
	must(unix.Ftruncate(two, 9000))
	_, err := unix.Pwrite(two, []byte("tail"), 8000)
	must(err)
	must(unix.Fallocate(two, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 2, 8000))
	must(unix.Fallocate(two, unix.FALLOC_FL_ZERO_RANGE, 8999, 20))
	_, err = unix.Pwritev2(two, [][]byte{[]byte("end")}, 0, unix.RWF_APPEND|unix.RWF_DSYNC)
	must(err)
	must(unix.Mkdir("d", 0o777))
	must(unix.Symlink("nowhere", "d/l"))
	made, err := unix.Openat2(unix.AT_FDCWD, "/d/../d/new", &unix.OpenHow{
		Flags: unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, Mode: 0o666, Resolve: unix.RESOLVE_IN_ROOT,
	})
	must(err)
	must(unix.Close(made))
	through, err := unix.Open("d/l", unix.O_CREAT|unix.O_WRONLY|unix.O_APPEND, 0o600) // makes d/nowhere
	must(err)
	_, err = unix.Write(through, []byte("app"))
	must(err)
	must(unix.Unlink("d/l"))
	must(unix.Rename("d", "e"))
	_, err = unix.Write(through, []byte("end"))
	must(err)
	store(must)
	os.Exit(0)
}

// store changes a file through memory, and ends without a word.
func store(must func(error)) {
	fd, err := unix.Open("mapped", unix.O_CREAT|unix.O_RDWR, 0o600)
	must(err)
	must(unix.Ftruncate(fd, 3*4096))
	m, err := unix.Mmap(fd, 0, 3*4096, unix.PROT_READ, unix.MAP_SHARED)
	must(err)
	must(unix.Mprotect(m, unix.PROT_READ|unix.PROT_WRITE))
	m[5] = 'x'
	must(unix.Mkdir("f", 0o700))
	m[4096], m[3*4096-1] = 'y', 'z'
	_, err = unix.Pwrite(fd, []byte("w"), 6)
	must(err)
	must(unix.Close(fd))
	m[7] = 'e'
}
