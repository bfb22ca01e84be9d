package jail_test

import (
	"bufio"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/internal/hostile"
	"github.com/fsbench/fsbench/sandbox/jail"
)

// stake puts up what hostile subjects go for, and expects it unharmed at the end.
func stake(t *testing.T) (hostile.Prey, jail.Spec) {
	t.Helper()
	home := plant(t, "secret = s", "keys/k = k")
	dir := filepath.Dir(home)
	s := jailOf()
	p := hostile.Prey{Tree: dir + "/tree", Home: home, Beside: dir + "/beside", Runner: os.Getpid(), Token: newToken(t), Path: dir + "/socket"}
	for _, d := range []string{p.Tree, p.Beside} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for p, mode := range map[string]os.FileMode{p.Tree: 0o755, p.Beside: 0o777, home + "/secret": 0o644} {
		if err := os.Chmod(p, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.Tree+"/f", []byte("f"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, made := range []string{p.Tree, p.Tree + "/f"} {
		if err := os.Chown(made, s.UID, s.GID); err != nil {
			t.Fatal(err)
		}
	}
	p.TCP, p.Socket = listen(t, "tcp", "127.0.0.1:0"), listen(t, "unix", "@"+p.Token)
	listen(t, "unix", p.Path)
	s.Mounts, s.Env = []jail.Mount{{Path: p.Tree}}, jail.Environment()
	before := machine(t, p)
	t.Cleanup(func() {
		if after := machine(t, p); after != before {
			t.Errorf("the machine has changed: it was\n%s\nand is\n%s", before, after)
		}
	})
	return p, s
}

func listen(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address) //nolint:noctx // it ends with the test
	if err != nil {
		t.Skip("this machine lets nobody listen: ", err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// machine says what a subject must not change.
func machine(t *testing.T, p hostile.Prey) string {
	t.Helper()
	text, err := hostile.Machine(filepath.Dir(p.Home), p.Token, p.Tree)
	if err != nil {
		t.Error(err)
	}
	return text
}

// TestHostile has subjects do what they can to the machine. What they find is judged
// by what they say, and what they do by the state of the machine after it.
//
// Nothing here bounds how many files a subject makes in its own tree: that is the
// file system's affair, and whoever looks at the tree has bounds of their own.
func TestHostile(t *testing.T) {
	alsoAsUser(t)
	root := os.Geteuid() == 0
	as := func(ofRoot, ofUser string) string {
		if root {
			return ofRoot
		}
		return ofUser
	}
	for move, want := range map[string]map[string]string{
		"reads": {
			"secret": "ENOENT", "secret here": "ENOENT", "secret beside": "ENOENT", "/root": "[] <nil>", "/run": "[] <nil>",
			"/tmp": "[] <nil>", "/var/tmp": "[] <nil>", "/dev/shm": "[] <nil>", "of other processes": "0", "environment": "false",
		},
		"writes": {
			"/": "EROFS", "/etc": "EROFS", "/usr": "EROFS", "/var": "EROFS", "/home": "EROFS", "/root": "EROFS", "/run": "EROFS",
			"/dev": "EROFS", "HOME": "ENOENT", "BESIDE": "ENOENT", "/tmp": "<nil>", "/var/tmp": "<nil>", "/dev/shm": "<nil>",
			"TREE": "<nil>", "change": "EACCES", "chmod": "EROFS", "sysctl": "EACCES", "disk": "EPERM", "cgroup": "EROFS",
		},
		"links": {"out": "ENOENT", "to temp": "EXDEV", "in": "EXDEV", "move out": "ENOENT", "up": as("EACCES", "<nil>")},
		"attacks": {
			"signal": "ESRCH", "trace": "ESRCH", "trace the first": "EPERM", "limits": "ESRCH", "hostname": "EPERM", "clock": "EPERM",
			"mount": "EPERM", "unmount": "EPERM", "remount": "EPERM", "root": as("EPERM", "EINVAL"), "reboot": "EPERM",
		},
		"dials":   {"out": "ENETUNREACH", "runner": "ENETUNREACH", "socket": "ECONNREFUSED", "path": "ENOENT", "names": "ENETUNREACH"},
		"kills":   {"all": "<nil>"},
		"unmasks": {"secret": as("{}", "no namespace")},
		"fills":   {"files": "ENOSPC", "fewer than": "true", "memory": "ENOSPC", "sparse": "EFBIG"},
		"odd":     {"fifo": "<nil>", "names": "<nil>", "outside": "EROFS"},
		"deep":    {"deep": "<nil>"},
		"forks":   {"forks": "EAGAIN", "fewer than": "true"},
		"flees":   {"fled": "true"},
	} {
		t.Run(move, func(t *testing.T) {
			p, s := stake(t)
			if shared := s.Shares(); shared != "" {
				t.Skip(shared)
			}
			cmd := command(hostile.Args(move, p)...)
			cmd.Dir = p.Home
			wrap(t, s, cmd)
			out, err := cmd.CombinedOutput()
			var got map[string]string
			if jsonErr := json.Unmarshal(out, &got); err != nil || jsonErr != nil {
				t.Fatalf("%v %v\n%s", err, jsonErr, out)
			}
			for name, end := range want {
				if got[name] != end {
					t.Errorf("%s: %s, want %s", name, got[name], end)
				}
			}
			if len(got) != len(want) {
				t.Errorf("it made %d moves, want %d: %v", len(got), len(want), got)
			}
		})
	}
}

// TestLimits: a subject cannot raise its limits, gets no more files than it may have, and
// leaves no dump.
func TestLimits(t *testing.T) {
	alsoAsUser(t)
	p, s := stake(t)
	cmd := command("overreach")
	cmd.Dir = p.Tree
	wrap(t, s, cmd)
	out, err := cmd.Output()
	var got map[string]string
	if jsonErr := json.Unmarshal(out, &got); jsonErr != nil {
		t.Fatalf("%v %v\n%s", err, jsonErr, out)
	}
	for name, end := range got {
		want := "EPERM"
		switch name {
		case "files":
			want = "EMFILE"
		case "so many":
			want = "true"
		}
		if end != want {
			t.Errorf("%s: %s, want %s", name, end, want)
		}
	}
	if len(got) != 7 || cmd.ProcessState.ExitCode() != 128+int(unix.SIGSEGV) {
		t.Errorf("it made %d moves and ended with %v", len(got), cmd.ProcessState)
	}
	if left, err := os.ReadDir(p.Tree); err != nil || len(left) != 1 {
		t.Errorf("in its folder are %v (%v), want one file", left, err)
	}
}

// TestStubborn expects that no subject outstays its welcome, and that nobody waits
// for one that holds on to what it was given.
func TestStubborn(t *testing.T) {
	alsoAsUser(t)
	for _, how := range []string{"leave", "stay", "stop", "spin"} {
		t.Run(how, func(t *testing.T) {
			p, s := stake(t)
			if shared := s.Shares(); shared != "" {
				t.Skip(shared)
			}
			s.CPU = time.Second
			cmd := command(hostile.Args(how, p)...)
			wrap(t, s, cmd)
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			end := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
			r := bufio.NewReader(out)
			if line, err := r.ReadString('\n'); line != "ready\n" {
				t.Fatalf("it said %q (%v)", line, err)
			}
			if how != "leave" && len(hostile.Carrying(p.Token)) == 0 {
				t.Error("nothing is there to hold on")
			}
			if how == "stay" || how == "stop" {
				_ = cmd.Process.Kill()
			}
			if rest, err := r.ReadString('\n'); rest != "" || err == nil {
				t.Errorf("it said %q (%v)", rest, err)
			}
			_ = cmd.Wait()
			if !end.Stop() {
				t.Error("it did not end by itself")
			}
			if code := cmd.ProcessState.ExitCode(); how == "spin" && code != 128+int(unix.SIGKILL) || how == "leave" && code != 0 {
				t.Errorf("it ended with %d", code)
			}
		})
	}
}

// TestOrdinaryPrograms expects that what is no harm can be done: programs in other
// languages start, write in their tree and in folders for temporary files.
func TestOrdinaryPrograms(t *testing.T) {
	alsoAsUser(t)
	for _, argv := range [][]string{
		{"sh", "-c", "echo x >out && mktemp >/dev/null && cat /dev/null </dev/zero | head -c 1; test -w /tmp && echo done"},
		{"python3", "-c", "import tempfile, os; open('out', 'w').write('x'); tempfile.mkdtemp(); os.urandom(4); print('done')"},
		{"node", "-e", "fs.writeFileSync('out', 'x'); fs.mkdtempSync(os.tmpdir() + '/x'); crypto.randomBytes(4); console.log('done')"},
		{"git", "init", "-q", "out"},
	} {
		t.Run(argv[0], func(t *testing.T) {
			p, s := stake(t)
			cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
			cmd.Dir = p.Tree
			if cmd.Err != nil {
				t.Skip(cmd.Err)
			}
			var err error
			if s.Read, err = jail.Needs(argv, p.Tree); err != nil {
				t.Fatal(err)
			}
			if err := s.Check(); err != nil {
				t.Skip("this user may not look at it: ", err)
			}
			wrap(t, s, cmd)
			out, err := cmd.CombinedOutput()
			if err != nil || argv[0] != "git" && string(out) != "done\n" {
				t.Errorf("%v\n%s", err, out)
			}
			if _, err := os.Stat(p.Tree + "/out"); err != nil {
				t.Error(err)
			}
		})
	}
}
