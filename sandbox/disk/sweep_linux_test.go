package disk

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSweep kills a bench together with its janitor, and expects what they have left
// to be taken away: that and nothing else.
func TestSweep(t *testing.T) {
	alsoAsUser(t)
	dir := publicDir(t)
	live := startBench(t, dir)
	defer func() {
		_ = unix.Kill(-live.pid, unix.SIGKILL)
		_ = live.wait()
		within(t, 5*time.Second, "the folder is gone", func() bool { return !exists(live.lab) })
	}()
	left := startBench(t, dir)
	_ = unix.Kill(left.janitor, unix.SIGKILL)
	_ = unix.Kill(left.pid, unix.SIGKILL)
	_ = left.wait()
	within(t, time.Second, "the child is gone", func() bool { return !alive(left.child) })
	marker, err := os.ReadFile(filepath.Join(left.lab, markerName))
	if err != nil {
		t.Fatal(err)
	}
	own, err := markerOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before := strings.Replace(own, "started ", "started 1", 1) // of a process that had this one's number
	stay := []string{
		strange(t, dir, "other-1", string(marker)), strange(t, dir, "fsbench-none", ""), strange(t, dir, "fsbench-words", "mine\n"),
		strange(t, dir, "fsbench-own", own), strange(t, dir, "fsbench-zero", strings.Replace(string(marker), "process ", "process -", 1)),
		live.lab, filepath.Join(dir, "fsbench-link"), filepath.Join(dir, "fsbench-fifo"), filepath.Join(dir, "fsbench-far"),
	}
	linked := strange(t, dir, "linked", string(marker))
	far := strange(t, dir, "fsbench-far", "")
	err = errors.Join(
		os.Symlink(linked, filepath.Join(dir, "fsbench-link")), unix.Mkfifo(filepath.Join(dir, "fsbench-fifo"), 0o644),
		os.Symlink(filepath.Join(linked, markerName), filepath.Join(far, markerName)),
	)
	if err != nil {
		t.Fatal(err)
	}
	gone := []string{left.lab, strange(t, dir, "fsbench-before", before), strange(t, dir, "fsbench-same", string(marker))}
	if os.Geteuid() == 0 {
		theirs := strange(t, dir, "fsbench-theirs", string(marker))
		planted := strange(t, dir, "fsbench-planted", string(marker))
		if err := errors.Join(os.Chown(theirs, nobody, nobody), os.Chown(filepath.Join(planted, markerName), nobody, nobody)); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, theirs, planted)
	}
	removed, err := Sweep(dir)
	slices.Sort(gone)
	if err != nil || !slices.Equal(removed, gone) {
		t.Errorf("it removed %v (%v), want %v", removed, err, gone)
	}
	for _, p := range gone {
		if exists(p) {
			t.Errorf("%s is still there", p)
		}
	}
	for _, p := range append(stay, linked) {
		if !exists(p) {
			t.Errorf("%s is gone", p)
		}
	}
	if !exists(live.root) || !alive(live.child) {
		t.Error("what is at work was harmed")
	}
	if removed, err := Sweep(dir); err != nil || len(removed) > 0 {
		t.Errorf("a second time it removed %v (%v)", removed, err)
	}
}

func strange(t *testing.T, dir, name, marker string) string {
	t.Helper()
	p := filepath.Join(dir, name)
	err := os.Mkdir(p, 0o755)
	if err == nil && marker != "" {
		err = os.WriteFile(filepath.Join(p, markerName), []byte(marker), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}
