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

	"github.com/fsbench/fsbench/sandbox/sandboxtest"
	"github.com/fsbench/fsbench/spec"
)

// TestWhatASubjectLeaves has a subject make all that it can think of, and expects
// the bench to see it as it is, without waiting or following, and to get rid of it.
func TestWhatASubjectLeaves(t *testing.T) {
	alsoAsUser(t)
	box := newBox(t, newLab(t), small)
	long := strings.Repeat("n", 255)
	made := map[string]spec.Node{
		"ws/p":            {Type: spec.TypeFIFO, Mode: 0o644},
		"ws/s":            {Type: spec.TypeOther, Mode: 0o755},
		"ws/l":            {Type: spec.TypeLink, Mode: 0o777, Link: "/etc"},
		"ws/loop":         {Type: spec.TypeLink, Mode: 0o777, Link: "loop"},
		"ws/" + long:      {Type: spec.TypeFile, Mode: 0o644},
		"ws/new\nline":    {Type: spec.TypeFile, Mode: 0o644},
		"ws/\xff\xfe":     {Type: spec.TypeFile, Mode: 0o644},
		"ws/.fsbench-tmp": {Type: spec.TypeFile, Mode: 0o6755},
		"ws/d":            {Type: spec.TypeDir, Mode: 0},
		"ws/f":            {Type: spec.TypeFile, Mode: 0, Content: spec.Content("f")},
		"ws":              {Type: spec.TypeDir, Mode: 0o100},
	}
	root := box.Root()
	a := arm(t, box)
	ends := child(
		t, a, call("fifo", root+"/p"), call("socket", root+"/s"), call("link", root+"/l", "/etc"), call("link", root+"/loop", "loop"),
		call("create", root+"/"+long), call("create", root+"/new\nline"), call("create", root+"/\xff\xfe"),
		call("create", root+"/.fsbench-tmp"), call("chmod", root+"/.fsbench-tmp", "06755"),
		call("chmod", root+"/d", "0"), call("chmod", root+"/f", "0"), call("chmod", root, "0100"),
	)
	if i := slices.IndexFunc(ends, func(end string) bool { return end != "ok" }); i >= 0 {
		t.Fatalf("call %d of the subject: %s", i+1, ends[i])
	}
	before := descriptors(t)
	sees(t, box, and(small, made))
	sees(t, box, and(small, made)) // what was lent for the first look was given back
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were left open", after-before)
	}
	stop(t, a)
}

// TestBounds has a subject make more of everything than the bench will look at.
func TestBounds(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand files take a while")
	}
	alsoAsUser(t)
	if shm := new(unix.Statfs_t); unix.Statfs("/dev/shm", shm) == nil && shm.Type == unix.TMPFS_MAGIC {
		t.Setenv("TMPDIR", "/dev/shm") // where they take less
	}
	for _, tc := range []struct{ name, call, want string }{
		{"entries", "many\td\t100000", "more than 20000 entries"},
		{"depth", "deep\td\t3000", "deeper than 200"},
		{"bytes", "hole\thole", "more than 67108864 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			box := newBox(t, newLab(t), small)
			parts := splitCall(tc.call)
			parts[1] = filepath.Join(box.Root(), parts[1])
			a := arm(t, box)
			if got := child(t, a, call(parts...)); got[0] != "ok" {
				t.Fatal("the subject could not: ", got)
			}
			before, start := descriptors(t), time.Now()
			w, err := box.Observe()
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("observed %d entries, %v; want the error %q", len(w), err, tc.want)
			}
			if took := time.Since(start); took > mostTime {
				t.Errorf("the look took %v", took)
			}
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors were left open", after-before)
			}
			stop(t, a)
		})
	}
}

// TestSwaps has a subject exchange a directory with a link to one of the host's
// while the bench is at work in it.
func TestSwaps(t *testing.T) {
	alsoAsUser(t)
	victim := publicDir(t)
	write(t, filepath.Join(victim, "f"), "precious")
	if err := os.Chmod(victim, 0o777); err != nil {
		t.Fatal(err)
	}
	box := newBox(t, newLab(t), and(small, spec.World{"ws/l": {Type: spec.TypeLink, Mode: 0o777, Link: victim}}))
	a := arm(t, box)
	cmd := self(t, actorName, call("swap", box.Root()+"/d", box.Root()+"/l"))
	if err := a.Child().Wrap(cmd); err != nil {
		t.Skip(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL)
		_ = cmd.Wait()
	}()
	met := map[string]int{}
	for range 300 {
		for _, op := range []string{"ws/d", "ws/l"} {
			met[outcomeOf(box.Edit(spec.Edit{Op: spec.EditWrite, Path: op + "/f", Content: spec.Content("x")}))]++
			met[outcomeOf(box.Edit(spec.Edit{Op: spec.EditRemove, Path: op + "/g"}))]++
			met[outcomeOf(box.Edit(spec.Edit{Op: spec.EditChmod, Path: op + "/f", Mode: 0o600}))]++
		}
		r := spec.WriteRequest{Content: spec.Content("x")}
		r.Dst = box.Root() + "/d/n/x"
		met[outcomeOf(box.Land(r))]++
	}
	if w := observe(t, box); w["ws/l"].Type == "" || w["ws/d"].Type == "" {
		t.Errorf("of the two that trade places one is not seen: %v", w.Paths())
	}
	stop(t, a)
	t.Log(met)
	if met["done"] == 0 || met["missed"] == 0 {
		t.Skip("the subject never swapped in time: nothing was tried")
	}
	if entries, err := os.ReadDir(victim); err != nil || len(entries) != 1 {
		t.Errorf("in the host's folder are %v (%v)", entries, err)
	}
	holds(t, filepath.Join(victim, "f"), "precious")
}

func outcomeOf(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP), errors.Is(err, unix.EEXIST):
		return "missed"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func write(t *testing.T, p, text string) {
	t.Helper()
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// holds fails unless a file is as write has made it.
func holds(t *testing.T, p, text string) {
	t.Helper()
	got, err := os.ReadFile(p)
	info, statErr := os.Stat(p)
	if err = errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if string(got) != text || info.Mode() != 0o644 {
		t.Errorf("%s holds %q with mode %v, want %q", p, got, info.Mode(), text)
	}
}

// TestAFileOfTheHostIsNotChanged gives a file of root's a further name in the tree,
// as a subject can where the system does not protect hard links.
func TestAFileOfTheHostIsNotChanged(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the bench has no power that its subjects do not have")
	}
	l := newLab(t)
	host := filepath.Join(filepath.Dir(l.Dir), "host")
	write(t, host, "precious")
	before := mtimeOf(t, host)
	land := func(box *Sandbox) error {
		r := spec.WriteRequest{Content: spec.Content("new")}
		r.Dst = box.Root() + "/h"
		return box.Land(r)
	}
	for _, tc := range []struct {
		name string
		do   func(box *Sandbox) error
		ok   bool
	}{
		{"write", func(box *Sandbox) error {
			return box.Edit(spec.Edit{Op: spec.EditWrite, Path: "ws/h", Content: spec.Content("new")})
		}, false},
		{"chmod", func(box *Sandbox) error { return box.Edit(spec.Edit{Op: spec.EditChmod, Path: "ws/h", Mode: 0o666}) }, false},
		{"touch", func(box *Sandbox) error { return box.Edit(spec.Edit{Op: spec.EditTouch, Path: "ws/h", Mtime: 1}) }, false},
		{"land", land, false},
		{"rename", func(box *Sandbox) error { return box.Edit(spec.Edit{Op: spec.EditRename, Path: "ws/h", To: "ws/x"}) }, true},
		{"remove", func(box *Sandbox) error { return box.Edit(spec.Edit{Op: spec.EditRemove, Path: "ws/h"}) }, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			box := newBox(t, l, small)
			if err := os.Link(host, box.Root()+"/h"); err != nil {
				t.Skip(err)
			}
			n := observe(t, box)["ws/h"]
			if n.Owner != spec.OwnerOther || n.Nlink != 2 {
				t.Errorf("seen as %+v", n)
			}
			if err := tc.do(box); (err == nil) != tc.ok {
				t.Errorf("%v, want done = %v", err, tc.ok)
			}
			holds(t, host, "precious")
			if now := mtimeOf(t, host); now != before {
				t.Errorf("the time is %v, was %v", now, before)
			}
		})
	}
}

func mtimeOf(t *testing.T, p string) time.Time {
	t.Helper()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// TestAMountInTheTree runs in mounts of its own, where something is mounted over a
// directory of the tree: the bench does not go there.
func TestAMountInTheTree(t *testing.T) {
	if os.Getenv("FSBENCH_OWN_MOUNTS") == "" {
		if os.Geteuid() != 0 {
			t.Skip("only root can mount")
		}
		cmd := self(t, "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "FSBENCH_OWN_MOUNTS=1")
		cmd.SysProcAttr = ownMounts()
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); errors.Is(err, unix.EPERM) {
			t.Skip(err)
		} else if err != nil {
			t.Error(err)
		}
		return
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip(err)
	}
	box := newBox(t, newLab(t), small)
	over := box.Root() + "/d"
	if err := unix.Mount("none", over, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip(err)
	}
	write(t, over+"/f", "not of the tree")
	hidden := spec.World{"ws": small["ws"], "ws/f": small["ws/f"], "ws/d": {Type: spec.TypeHidden}}
	if err := sandboxtest.Diff(hidden, observe(t, box)); err != nil {
		t.Error(err)
	}
	for _, e := range []spec.Edit{
		{Op: spec.EditWrite, Path: "ws/d/f", Content: spec.Content("x")},
		{Op: spec.EditRemove, Path: "ws/d"},
		{Op: spec.EditChmod, Path: "ws/d", Mode: 0o700},
		{Op: spec.EditRename, Path: "ws/d", To: "ws/x"},
	} {
		if err := box.Edit(e); err == nil {
			t.Errorf("%s was done", e.Op)
		}
	}
	holds(t, over+"/f", "not of the tree")
	if err := box.Close(); err == nil {
		t.Error("a tree that is still mounted on was closed without a word")
	}
	for _, m := range mountsBelow(t, filepath.Dir(box.lab.Dir)) {
		holds(t, m+"/f", "not of the tree")
		if err := unix.Unmount(m, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// mountsBelow returns the mount points in a folder.
func mountsBelow(t *testing.T, dir string) []string {
	t.Helper()
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var points []string
	for line := range strings.Lines(string(info)) {
		if fields := strings.Fields(line); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, fields[4])
		}
	}
	return points
}
