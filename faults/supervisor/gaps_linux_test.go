//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/spec"
)

// TestRecordMissesNothing: whatever is left out of a record that shows, is seen to be
// missing. Otherwise the comparisons of these tests would show nothing.
func TestRecordMissesNothing(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	tp := newTape(t, func(base string) { put(t, filepath.Join(base, "ws/a"), "old") })
	tp.env = []string{"FSBENCH_TEST_PROGRAM=static"}
	tp.run(exe)
	rec := tp.replay()
	shows := 0
	for i, m := range rec.Mutations {
		less := rec
		less.Mutations = slices.Delete(slices.Clone(rec.Mutations), i, i+1)
		_, wrong := tp.against(less)
		if m.Do == faults.ChangeSync || m.Do == faults.ChangeReserve || strings.Contains(string(m.Path), "#") {
			continue // only a crash would show it, or nothing: it never had a name
		}
		if shows++; len(wrong) == 0 {
			t.Errorf("without mutation %d, %s of %s, nothing is wrong", i+1, m.Do, m.Path)
		}
	}
	if shows < 20 {
		t.Errorf("%d mutations that show, want at least 20", shows)
	}
}

func plan(t *testing.T, text string) faults.Plan {
	t.Helper()
	p, err := faults.ParsePlan("plan", 1, text)
	if err != nil {
		t.Fatal(err)
	}
	p.Trace, p.Names = true, []string{"ws", "a", "b", "d"}
	return p
}

func (tp *tape) hands(e spec.Edit) (bool, error) {
	at := func(p string) string { return filepath.Join(tp.base, p) }
	if e.Op == spec.EditWrite {
		return true, os.WriteFile(at(e.Path), e.Content, 0o644)
	}
	return (&lab{base: tp.base}).hands(e)
}

// TestRecordUnderFaults: what is recorded is what has happened, and not what the
// subject was told.
func TestRecordUnderFaults(t *testing.T) {
	for _, tt := range []struct {
		name, plan, script string
		want               string // in b afterwards
	}{
		{"refused", "f op=mkdir errno=EACCES", `mkdir d || true; echo new > b`, "new\n"},
		{"short", "f op=write nth=1 short=2", "perl -e 'open F, q(>), q(b); syswrite(F, q(hello))'", "he"},
		{"done and refused", "f after op=rename class=create errno=EIO", `echo new > a; mv a b || true`, "new\n"},
		{"killed before", "f op=rename class=create crash", `echo new > a; mv a b; echo more > b`, "no such file or directory"},
		{"killed after", "f after op=rename class=create crash", `echo new > a; mv a b; echo more > b`, "new\n"},
		{
			"the tree is changed", "f after op=mkdir swap\n\trename ws/d to=ws/away\n\tsymlink ws/d to=../out\n\twrite ws/a\n\twrite ws/b",
			`echo new > a; exec 3>>a; mkdir d; echo old >&3; echo more > d/c; echo more > away/c; echo more >> b; rm a`, "more\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tp := newTape(t, func(base string) {
				if err := os.Mkdir(filepath.Join(base, "out"), 0o755); err != nil {
					t.Fatal(err)
				}
			})
			tp.dies = true
			tp.arm(supervisor.Options{Plan: plan(t, tt.plan), Hands: tp.hands})
			tp.run("/bin/sh", "-c", tt.script)
			complete(t, tp.replay())
			got, err := os.ReadFile(filepath.Join(tp.base, "ws/b"))
			if err != nil {
				got = []byte(errors.Unwrap(err).Error())
			}
			if string(got) != tt.want {
				t.Errorf("b is %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRecordSaysWhatItMisses: what cannot be recorded makes a gap.
func TestRecordSaysWhatItMisses(t *testing.T) {
	for _, tt := range []struct{ name, want, script string }{
		{"mounts", "what names mean has changed", `import ctypes; ctypes.CDLL(None).unshare(0x20000)`},
		{"flags", "ioctl 0x40086602", `
import fcntl, struct, os
fd = os.open("a", os.O_RDONLY)
fcntl.ioctl(fd, 0x40086602, struct.pack("l", 0x40 | 0x80000))`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			need(t, "python3")
			if os.Getuid() != 0 {
				t.Skip("that is for root")
			}
			tp := newTape(t, func(base string) { put(t, filepath.Join(base, "ws/a"), "old") })
			tp.run("python3", "-c", tt.script)
			rec := tp.sup.Records()[0]
			if !slices.ContainsFunc(rec.Gaps, func(g faults.Gap) bool { return g.Reason == tt.want && !g.Coarse }) {
				t.Errorf("the gaps are %+v, want %s", rec.Gaps, tt.want)
			}
		})
	}
}

// TestRecordOfAFreeRun: threads that run as they like either keep their calls apart,
// or the record says that it does not know their order.
func TestRecordOfAFreeRun(t *testing.T) {
	need(t, "node")
	for range 3 {
		tp := newTape(t, nil)
		tp.arm(supervisor.Options{Free: true})
		tp.run("node", "-e", eightWriters)
		rec := tp.sup.Records()[0]
		if rec.Complete() {
			tp.replay()
		} else if !strings.Contains(rec.Gaps[0].Reason, "which came first is not known") {
			t.Errorf("the gaps are %+v", rec.Gaps)
		}
		t.Logf("%d mutations, %d gaps", len(rec.Mutations), len(rec.Gaps))
	}
}

// TestRecordOfWhatWasOpen: a descriptor that the subject was given is known, whatever
// becomes of the names, and so is its position, which others move as well.
func TestRecordOfWhatWasOpen(t *testing.T) {
	tp := newTape(t, func(base string) { put(t, filepath.Join(base, "ws/out"), "before\n") })
	tp.prep = func(cmd *exec.Cmd) {
		f, err := os.OpenFile(filepath.Join(tp.base, "ws/out"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		cmd.Stdout = f
	}
	tp.run("/bin/sh", "-ec", `echo one; mv out moved; ln moved ../../elsewhere/x; rm moved; echo two; (echo three; /bin/echo four) ; ln ../../elsewhere/x back; echo five`)
	complete(t, tp.replay())
}

// TestRecordOfAnotherUser: one who is not root loses rights by writing, and may not
// read all that he writes to.
func TestRecordOfAnotherUser(t *testing.T) {
	need(t, "python3")
	if os.Getuid() != 0 {
		t.Skip("that is for root")
	}
	tp := newTape(t, nil)
	for p := tp.base; p != filepath.Clean(os.TempDir()) && p != "/"; p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"", "ws"} {
		if err := os.Chown(filepath.Join(tp.base, p), 65534, 65534); err != nil {
			t.Fatal(err)
		}
	}
	tp.uid = 65534
	tp.arm(supervisor.Options{})
	tp.prep = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	tp.run("/usr/bin/env", "python3", "-c", `
import os
fd = os.open("s", os.O_CREAT | os.O_WRONLY, 0o6777); os.fchmod(fd, 0o6755); os.write(fd, b"x")
fd = os.open("blind", os.O_CREAT | os.O_WRONLY, 0o200); os.write(fd, b"x"); os.writev(fd, [b"ab", b"cde"]); os.pwrite(fd, b"Z", 2)
os.umask(0o077); os.mkdir("d"); os.mkdir("shared"); os.chmod("shared", 0o2775); os.mkdir("shared/sub")
os.symlink("blind", "l")
os.chown("s", 65534, 65534)
`)
	complete(t, tp.replay())
}

// TestRecordBeginsAnew: a process that serves many runs has a record of each.
func TestRecordBeginsAnew(t *testing.T) {
	tp := newTape(t, nil)
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh")
	cmd.Dir, cmd.Stdin, cmd.Stdout = filepath.Join(tp.base, "ws"), in, said
	if err := tp.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	do := func(line string) {
		t.Helper()
		if _, err := feed.WriteString(line + "; echo .\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
	}
	do("exec 3>> a; echo one >&3; mkdir d")
	complete(t, tp.replay())
	put(t, filepath.Join(tp.base, "ws/new"), "by the bench")
	tp.start, tp.steps = tp.look(), nil
	if err := tp.sup.Rearm(faults.Plan{}, nil, &tp.rec); err != nil {
		t.Fatal(err)
	}
	do("echo two >&3; mv new d/; mv a b; echo three >&3")
	rec := tp.replay()
	complete(t, rec)
	if len(rec.Mutations) != 4 {
		t.Errorf("%d mutations of the second run, want 4", len(rec.Mutations))
	}
	_ = feed.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestRecordsSideBySide: two processes that are there at the same time do not know
// what the other one does.
func TestRecordsSideBySide(t *testing.T) {
	tp := newTape(t, nil)
	tp.arm(supervisor.Options{Free: true})
	wait, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read x; mkdir d")
	cmd.Dir, cmd.Stdin = filepath.Join(tp.base, "ws"), wait
	if err := tp.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for len(tp.sup.Records()[0].Start) == 0 {
		time.Sleep(time.Millisecond)
	}
	tp.run("/bin/sh", "-c", "mkdir e")
	_ = feed.Close()
	_ = cmd.Wait()
	for i, rec := range tp.sup.Records() {
		if rec.Complete() {
			t.Errorf("record %d claims to be complete", i+1)
		}
	}
	tp.start = tp.look()
	tp.run("/bin/sh", "-c", "mkdir f")
	complete(t, tp.sup.Records()[2])
}

// TestRecordWhereNobodyLooks: what lies in a directory that may not be listed is not
// known, and neither is what is done to it.
func TestRecordWhereNobodyLooks(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("that is for root")
	}
	tp := newTape(t, func(base string) {
		if err := os.Mkdir(filepath.Join(base, "ws/blind"), 0o711); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(base, "ws/blind/a"), "old")
		for p := base; p != filepath.Clean(os.TempDir()) && p != "/"; p = filepath.Dir(p) {
			if err := os.Chmod(p, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(filepath.Join(base, "ws/blind/a"), 0o666); err != nil {
			t.Fatal(err)
		}
	})
	tp.prep = func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	tp.run("/bin/sh", "-c", "echo more >> blind/a; echo less 1<> blind/a; chmod 600 blind/a || true")
	rec := tp.sup.Records()[0]
	seen := map[string]bool{}
	for _, g := range rec.Gaps {
		seen[g.Call] = true
	}
	if !seen[""] || !seen["openat"] || !seen["write"] {
		t.Errorf("the gaps are %+v, want one of the directory and one of each write", rec.Gaps)
	}
	if _, err := mem.NewReplay(tp.start, rec); err != nil {
		t.Error(err)
	}
}

// TestRecordOfTheKilled: a record that its writer did not live to end says so.
func TestRecordOfTheKilled(t *testing.T) {
	tp := newTape(t, nil)
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "echo x > f; echo up; sleep 1000")
	cmd.Dir = filepath.Join(tp.base, "ws")
	if err := tp.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = out.Read(make([]byte, 3))
	}
	if err != nil {
		t.Fatal(err)
	}
	if rec := tp.sup.Records()[0]; !rec.Complete() || len(rec.Mutations) == 0 {
		t.Errorf("%d mutations, gaps %+v: want all so far", len(rec.Mutations), rec.Gaps)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if rec := tp.sup.Records()[0]; rec.Complete() {
		t.Error("a record without an end passes for a whole one")
	}
	if err := tp.sup.Stop(); err != nil {
		t.Error(err)
	}
}
