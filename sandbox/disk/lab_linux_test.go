package disk

import (
	"encoding/json"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func ownMounts() *syscall.SysProcAttr { return &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS} }

func TestIdentities(t *testing.T) {
	alsoAsUser(t)
	a, b := newLab(t), newLab(t)
	box := newBox(t, a, small)
	got := child(t, arm(t, box), "id")[0]
	if want := strconv.Itoa(a.UID) + " " + strconv.Itoa(a.GID); got != want {
		t.Errorf("the subject runs as %s, want %s", got, want)
	}
	if os.Geteuid() != 0 {
		if a.UID != os.Getuid() || a.other != -1 {
			t.Errorf("an ordinary user's subjects run as %d beside %d", a.UID, a.other)
		}
		return
	}
	ids := []int{a.UID, a.other, b.UID, b.other}
	slices.Sort(ids)
	if len(slices.Compact(ids)) != 4 || ids[0] < firstID {
		t.Errorf("ids %v: want four of their own", ids)
	}
	for _, id := range []int{a.UID, a.GID, a.other} {
		if u, err := user.LookupId(strconv.Itoa(id)); err == nil {
			t.Errorf("%d is %s", id, u.Username)
		}
		if g, err := user.LookupGroupId(strconv.Itoa(id)); err == nil {
			t.Errorf("%d is the group %s", id, g.Name)
		}
	}
}

func TestFolders(t *testing.T) {
	alsoAsUser(t)
	dir := publicDir(t)
	if err := os.Symlink(".", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, parent := range []string{dir, filepath.Join(dir, "link"), ".", "link"} {
		l, err := NewLab(parent)
		if err != nil {
			t.Fatal(err)
		}
		if filepath.Dir(l.Dir) != dir {
			t.Errorf("below %s the lab is %s, want a folder in %s", parent, l.Dir, dir)
		}
		mounted := and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Mount: spec.MountReadOnly}})
		box, err := l.New()
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Build(mounted); err == nil {
			child(t, arm(t, box), "id")
		} else if !errors.Is(err, sandbox.ErrCannot) {
			t.Error(err)
		}
		for p, want := range map[string]os.FileMode{
			l.Dir: 0o711, filepath.Dir(box.base): 0o711, box.base: 0o755, filepath.Join(filepath.Dir(box.base), ownName): 0o700,
		} {
			if info, err := os.Stat(p); err != nil || info.Mode().Perm() != want {
				t.Errorf("%s has %v (%v), want %v", p, info.Mode(), err, want)
			}
		}
		if err := errors.Join(box.Close(), l.Close()); err != nil {
			t.Error(err)
		}
	}
}

func TestAFolderThatSubjectsCannotReach(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user's subjects are the user")
	}
	dir := publicDir(t)
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := NewLab(dir)
	if !errors.Is(err, sandbox.ErrCannot) || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("%v, want ErrCannot with advice", err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("it left %v (%v)", entries, err)
	}
	odd := filepath.Join(publicDir(t), "\xff")
	if err := os.Mkdir(odd, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := NewLab(odd); !errors.Is(err, sandbox.ErrCannot) {
		t.Errorf("in a folder that no subject can be told of: %v", err)
	}
	if _, err := NewLab(filepath.Join(dir, "missing")); err == nil {
		t.Error("made a lab in a folder that is not there")
	}
}

// TestManyAtOnce is for the race detector, and for folders that run into each other.
func TestManyAtOnce(t *testing.T) {
	l := newLab(t)
	var running sync.WaitGroup
	for range 4 {
		running.Go(func() {
			for range 5 {
				box, err := l.New()
				if err != nil {
					t.Error(err)
					return
				}
				err = box.Build(small)
				if err == nil {
					_, err = box.Observe()
				}
				if err = errors.Join(err, box.Close()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
}

// lesserName starts a process with less power than this one has: what it is told
// first says of which kind. It then reports what it can still bring about.
const lesserName = "fsbench-lesser"

// ability is what a lab can do for such a process.
type ability struct {
	Err     string // of NewLab
	Notes   string
	Cures   string
	Built   map[string]string // how building ended
	Watched []string          // injections that are left to the kernel
	Ends    []string          // of a child's calls
}

var abilities = map[string]spec.World{
	"plain":     small,
	"mount":     and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Mount: spec.MountReadOnly}}),
	"immutable": and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Immutable: true}}),
	"other":     and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Owner: spec.OwnerOther}}),
}

// lesser gives up what kind says, and becomes the process that reports: what a
// thread has given up, another may still have.
func lesser(kind string, args []string) {
	runtime.LockOSThread()
	var err error
	switch kind {
	case "caps":
		for _, arg := range args[1:] {
			n, _ := strconv.Atoi(arg)
			err = errors.Join(err, unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0))
		}
	case "user":
		err = errors.Join(
			os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0),
			syscall.Setgroups(nil), syscall.Setresgid(nobody, nobody, nobody), syscall.Setresuid(nobody, nobody, nobody),
		)
	case "report":
		_ = json.NewEncoder(os.Stdout).Encode(report(args[0]))
		unix.Exit(0)
	}
	if err == nil {
		err = unix.Exec("/proc/self/exe", []string{"lesser", lesserName, "report", args[0]}, os.Environ())
	}
	_ = json.NewEncoder(os.Stdout).Encode(ability{Err: err.Error()})
	unix.Exit(0)
}

func report(dir string) ability {
	l, err := NewLab(dir)
	if err != nil {
		return ability{Err: err.Error()}
	}
	r := ability{Notes: strings.Join(l.Notes(), "\n"), Cures: strings.Join(l.Cures(), "\n"), Built: map[string]string{}}
	defer func() {
		if err := l.Close(); err != nil {
			r.Err = err.Error()
		}
	}()
	for name, w := range abilities {
		box, err := l.New()
		if err != nil {
			return ability{Err: err.Error()}
		}
		switch err := box.Build(w); {
		case errors.Is(err, sandbox.ErrCannot):
			r.Built[name] = "cannot"
		case err != nil:
			r.Built[name] = err.Error()
		default:
			r.Built[name] = "ok"
		}
		if name == "plain" && r.Built[name] == "ok" {
			r.use(box)
		}
		if err := box.Close(); err != nil {
			r.Err = err.Error()
		}
	}
	return r
}

// use tries what subjects meet in box.
func (r *ability) use(box *Sandbox) {
	plan, err := faults.ParsePlan("plan", 1, "eacces class=create under=ws/d errno=EACCES\neperm class=create under=ws errno=EPERM\n"+
		"erofs class=create under=ws/d/e errno=EROFS")
	if err != nil {
		panic(err)
	}
	a, err := box.Arm(plan, &trace.Recorder{})
	if err != nil {
		r.Err = err.Error()
		return
	}
	r.Watched = a.(*armed).watch
	cmd := selfCommand(actorName, "id", call("create", box.Root()+"/d/new"), call("create", box.Root()+"/d/e/new"))
	err = a.Child().Wrap(cmd)
	var out []byte
	if err == nil {
		out, err = cmd.Output()
	}
	if err == nil {
		err = json.Unmarshal(out, &r.Ends)
	}
	if err = errors.Join(err, a.Stop()); err != nil {
		r.Err = err.Error()
	}
}

func TestLesserPowers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("there is less than an ordinary user, but it takes root to get there")
	}
	for _, tc := range []struct {
		name  string
		args  []string
		built string // plain, mount, immutable, other
		notes string // one that must be there
		cures string // what takes it away
		watch []string
		ends  []string // from the second call on
	}{
		{
			"a root that may not mount",
			[]string{"caps", "DIR", strconv.Itoa(unix.CAP_SYS_ADMIN)},
			"ok cannot ok ok", "EROFS is synthetic", "docker run --cap-add SYS_ADMIN",
			[]string{"eacces", "eperm"},
			[]string{"EACCES", "ok"},
		},
		{
			"a root without the flag",
			[]string{"caps", "DIR", strconv.Itoa(unix.CAP_LINUX_IMMUTABLE)},
			"ok ok cannot ok", "", "",
			[]string{"eacces", "erofs"},
			[]string{"EACCES", "EROFS"},
		},
		{
			"a root that owns nothing",
			[]string{"caps", "DIR", strconv.Itoa(unix.CAP_CHOWN), strconv.Itoa(unix.CAP_SETUID)},
			"cannot cannot cannot cannot", "this root lacks CAP_CHOWN, CAP_SETUID", "", nil, nil,
		},
		{
			"a user without namespaces",
			[]string{"user", "DIR"},
			"ok cannot cannot cannot", "this system gives ordinary users no namespaces",
			"sudo sysctl -w user.max_user_namespaces=15000",
			[]string{"eacces"},
			[]string{"EACCES", "ok"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := publicDir(t)
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			tc.args[1] = dir
			cmd := self(t, append([]string{lesserName}, tc.args...)...)
			if tc.args[0] == "user" {
				ids := []syscall.SysProcIDMap{{HostID: 0, Size: 1}, {ContainerID: nobody, HostID: nobody, Size: 1}}
				cmd.SysProcAttr = &syscall.SysProcAttr{
					Cloneflags: unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
				}
			}
			out, err := cmd.Output()
			if errors.Is(err, unix.EPERM) {
				t.Skip(err)
			}
			var got ability
			if err := errors.Join(err, json.Unmarshal(out, &got)); err != nil || got.Err != "" {
				t.Fatalf("%v %s\n%s", err, got.Err, out)
			}
			built := strings.Join([]string{got.Built["plain"], got.Built["mount"], got.Built["immutable"], got.Built["other"]}, " ")
			if built != tc.built {
				t.Errorf("building ended %s, want %s", built, tc.built)
			}
			if !strings.Contains(got.Notes, tc.notes) {
				t.Errorf("notes:\n%s\nwant %s", got.Notes, tc.notes)
			}
			if !strings.Contains(got.Cures, tc.cures) || tc.cures == "" && strings.Contains(got.Cures, "docker run --cap-add SYS_ADMIN") {
				t.Errorf("cures:\n%s\nwant %s", got.Cures, tc.cures)
			}
			if !slices.Equal(got.Watched, tc.watch) {
				t.Errorf("left to the kernel: %v, want %v", got.Watched, tc.watch)
			}
			if ends := got.Ends[min(1, len(got.Ends)):]; !slices.Equal(ends, tc.ends) {
				t.Errorf("the kernel said %v, want %v", ends, tc.ends)
			}
			if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
				t.Errorf("it left %v (%v)", entries, err)
			}
		})
	}
}
