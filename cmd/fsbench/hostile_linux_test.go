package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/hostile"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// The test binary is the hostile program too, before it is anything else.
func init() { hostile.Main() }

const nobody = 65534

// users are who runs fsbench in a test, by number.
func users() map[string]int {
	if uid := os.Getuid(); uid != 0 {
		return map[string]int{"user": uid}
	}
	return map[string]int{"root": 0, "user": nobody}
}

// program is this binary where every user can start it, by a name under which it is
// the program.
func program(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	exe := filepath.Join(dir, "fsbench")
	self, err := os.ReadFile("/proc/self/exe")
	if err = errors.Join(err, os.WriteFile(exe, self, 0o755), os.Chmod(filepath.Dir(dir), 0o711)); err != nil {
		t.Fatal(err)
	}
	return exe
}

// stake is a place of a user's own: a home, and a folder for temporary files.
type stake struct {
	t    *testing.T
	uid  int
	dir  string
	exe  string
	prey hostile.Prey
}

func newStake(t *testing.T, exe string, uid int) *stake {
	t.Helper()
	dir := t.TempDir()
	token := fmt.Sprintf("token-%d-%d", os.Getpid(), time.Now().UnixNano())
	s := &stake{t: t, uid: uid, dir: dir, exe: exe, prey: hostile.Prey{
		Home: dir + "/home", Beside: dir + "/beside", Runner: os.Getpid(), Token: token, Path: dir + "/socket",
	}}
	s.must(os.Chmod(filepath.Dir(dir), 0o711))
	for _, d := range []string{"home", "home/.fsbench", "beside", "tmp", "out"} {
		s.must(os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	for name, text := range map[string]string{"home/secret": "s", "home/.fsbench/report.json": "{}", "out/harm.txtar": harm} {
		s.must(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	s.must(filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(p, uid, -1))
	}))
	s.must(os.Chmod(s.prey.Beside, 0o777))
	s.prey.TCP, s.prey.Socket = s.listen("tcp", "127.0.0.1:0"), s.listen("unix", "@"+token)
	s.listen("unix", s.prey.Path)
	return s
}

func (s *stake) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// listen fails the test if anybody calls.
func (s *stake) listen(network, address string) string {
	s.t.Helper()
	l, err := (&net.ListenConfig{}).Listen(s.t.Context(), network, address)
	if err != nil {
		s.t.Skip("this machine lets nobody listen: ", err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if c, err := l.Accept(); err == nil {
			s.t.Errorf("somebody called at %s %s", network, address)
			_ = c.Close()
		}
	}()
	s.t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

// machine is what nobody may change, line by line.
func (s *stake) machine() []string {
	s.t.Helper()
	text, err := hostile.Machine(s.dir, s.prey.Token, s.dir+"/out", s.dir+"/tmp")
	s.must(err)
	left, err := filepath.Glob(s.dir + "/tmp/*")
	s.must(err)
	return append(strings.Split(text, "\n"), left...)
}

// command is fsbench as the user runs it, with things to hide.
func (s *stake) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.exe, args...)
	cmd.Dir = s.prey.Home
	cmd.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + s.prey.Home, "TMPDIR=" + s.dir + "/tmp", "SECRET_KEY=" + s.prey.Token}
	if s.uid != os.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(s.uid), Gid: uint32(s.uid)}}
	}
	return cmd
}

// fsbench runs the command line to its end.
func (s *stake) fsbench(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	// Only a bench that waits for its subject for ever takes that long.
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Minute)
	defer cancel()
	cmd := s.command(ctx, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if ctx.Err() != nil || err != nil && cmd.ProcessState.ExitCode() < 0 {
		s.t.Fatalf("it did not end by itself: %v\n%s%s", err, &out, &errs)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// subject is the command line of a hostile subject.
func (s *stake) subject(move string) []string {
	return append([]string{"--", s.exe}, append(hostile.Args(move, s.prey), "{root}", "{path}")...)
}

// harm is a world with a file for hostile subjects to write.
const harm = `title: a subject that means harm
rules: OC-001
-- world --
ws/f file content=f
ws/g file content=g
-- steps --
1 write g content=x
`

// said returns what the subject has written, as the bench saw it.
func (s *stake) said(file string) (ends map[string]string) {
	s.t.Helper()
	events := readAll(s.t, file, func(r io.Reader) ([]trace.Event, error) { return trace.Read(r, file) })
	var last spec.World
	for _, e := range events {
		if e.World != nil {
			last = e.World
		}
	}
	_ = json.Unmarshal(last["ws/g"].Content, &ends) // the test says what is missing
	return ends
}

// TestHostile has subjects do what they can to the machine, as the users of the
// command line would meet them. What they find is judged by what they say, and what
// they do by the state of the machine after it.
func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("each subject is a run of the program")
	}
	exe := program(t)
	for name, uid := range users() {
		as := func(ofRoot, ofUser string) string {
			if uid == 0 {
				return ofRoot
			}
			return ofUser
		}
		for _, tt := range []struct {
			move string
			want map[string]string // what it says
			says string            // by the bench, where that has the last word
		}{
			{move: "reads", want: map[string]string{
				"secret": "ENOENT", "secret here": "ENOENT", "secret beside": "ENOENT", "/root": "[] <nil>", "/run": "[] <nil>",
				"/tmp": "[] <nil>", "/var/tmp": "[] <nil>", "/dev/shm": "[] <nil>", "of other processes": "0", "environment": "false",
			}},
			{move: "writes", want: map[string]string{
				"/": "EROFS", "/etc": "EROFS", "/usr": "EROFS", "/var": "EROFS", "/home": "EROFS", "/root": "EROFS", "/run": "EROFS",
				"/dev": "EROFS", "HOME": "ENOENT", "BESIDE": "ENOENT", "/tmp": "<nil>", "/var/tmp": "<nil>", "/dev/shm": "<nil>",
				"TREE": "<nil>", "change": "EACCES", "chmod": "EROFS", "sysctl": "EACCES", "disk": "EPERM", "cgroup": "EROFS",
			}},
			{move: "links", want: map[string]string{
				"out": "ENOENT", "to temp": "EXDEV", "in": "EXDEV", "move out": "ENOENT", "up": as("EACCES", "<nil>"),
			}},
			{move: "attacks", want: map[string]string{
				"signal": "ESRCH", "trace": "ESRCH", "trace the first": "EPERM", "limits": "ESRCH", "hostname": "EPERM", "clock": "EPERM",
				"mount": "EPERM", "unmount": "EPERM", "remount": "EPERM", "root": as("EPERM", "EINVAL"), "reboot": "EPERM",
			}},
			{move: "dials", want: map[string]string{
				"out": "ENETUNREACH", "runner": "ENETUNREACH", "socket": "ECONNREFUSED", "path": "ENOENT", "names": "ENETUNREACH",
			}},
			{move: "unmasks", want: map[string]string{"secret": as("{}", "no namespace")}},
			{move: "fills", want: map[string]string{"files": "ENOSPC", "fewer than": "true", "memory": "ENOSPC", "sparse": "EFBIG"}},
			{move: "eats", want: map[string]string{"first to go": "1000 <nil> of 256"}},
			{move: "forks", want: map[string]string{"forks": "EAGAIN", "fewer than": "true"}},
			{move: "flees", want: map[string]string{"fled": "true"}},
			{move: "odd", want: map[string]string{"fifo": "<nil>", "names": "<nil>", "outside": "EROFS"}},
			{move: "deep", says: "fsbench: call 1: observe: look at the tree: deeper than 200"},
			{move: "hole", says: "look ws/sparse: more than 67108864 bytes in the tree"},
			{move: "floods", says: `ws/g="{\"floods\":\"ENOSPC\"}\n"`},
			{move: "many", says: `ws/10000=""`}, // and no more than the volume takes
			{move: "kills", says: "got   unknown"},
			{move: "leave", says: "AT-001 broken"}, // it says ok, and has done nothing
			{move: "stay", says: "got   unknown"},
			{move: "stop", says: "got   unknown"},
			{move: "spin", says: "got   unknown"},
		} {
			t.Run(name+" "+tt.move, func(t *testing.T) {
				t.Parallel()
				s := newStake(t, exe, uid)
				before := s.machine()
				limit := "1m"
				if slices.Contains([]string{"stay", "stop", "spin"}, tt.move) { // without an end
					limit = "2s"
				}
				args := []string{"replay", s.dir + "/out/harm.txtar", "--deadline", limit, "--exec"}
				if tt.want != nil {
					args = append(args, "--keep", s.dir+"/out/trace")
				}
				if tt.move == "odd" {
					args = append(args, "--explain") // which shows all of what it has made
				}
				code, out, errs := s.fsbench(append(args, s.subject(tt.move)...)...)
				if diff := cmp.Diff(before, s.machine()); diff != "" {
					t.Errorf("the machine has changed (-before +after):\n%s", diff)
				}
				quiet(t, out, errs)
				switch {
				case code != reports.ExitFailed && code != reports.ExitBroken:
					t.Errorf("exit %d, want that the subject failed, or the bench", code)
				case tt.want == nil && !strings.Contains(out+errs, tt.says):
					t.Errorf("it says\n%s%s\nwant %s", out, errs, tt.says)
				case tt.want != nil:
					if diff := cmp.Diff(tt.want, s.said(s.dir+"/out/trace")); diff != "" {
						t.Errorf("how it ended (-want +got):\n%s\n%s%s", diff, out, errs)
					}
				}
			})
		}
	}
}

// quiet fails where something was printed that acts on a terminal, or an error that is
// more than a line.
func quiet(t *testing.T, out, errs string) {
	t.Helper()
	if strings.ContainsAny(out+errs, "\x1b\x07") || strings.Contains(out+errs, "\n0 findings") || strings.Count(errs, "\n") > 1 {
		t.Errorf("it prints\n%q\nand\n%q", out, errs)
	}
}

// TestHostileExplored: what cannot be explored ends the exploration, with a word why.
func TestHostileExplored(t *testing.T) {
	if testing.Short() {
		t.Skip("each subject is a run of the program")
	}
	exe := program(t)
	for name, uid := range users() {
		for move, says := range map[string]string{
			"stay":   "not explored: what becomes of the call is not known even if nobody disturbs it",
			"many":   "not explored: ",
			"shouts": `wants to change /etc/\x1b[2J\n0 findings`,
		} {
			t.Run(name+" "+move, func(t *testing.T) {
				t.Parallel()
				s := newStake(t, exe, uid)
				before := s.machine()
				args := []string{"explore", "--call", "write", "--out", s.dir + "/out", "--deadline", "2s", "--exec"}
				code, out, errs := s.fsbench(append(args, s.subject(move)...)...)
				if diff := cmp.Diff(before, s.machine()); diff != "" {
					t.Errorf("the machine has changed (-before +after):\n%s", diff)
				}
				quiet(t, out, errs)
				if !strings.Contains(out, says) || code != reports.ExitFailed {
					t.Errorf("exit %d, it says\n%s%s\nwant %s", code, out, errs, says)
				}
			})
		}
	}
}
