package jail_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
)

// jailOf returns the jail that subjects of this user get.
func jailOf() jail.Spec {
	s := mine()
	if os.Geteuid() == 0 {
		s.UID, s.GID = other, other
	}
	return s
}

// alsoAsUser runs the test once more as an ordinary user if this is root, in a
// process of its own.
func alsoAsUser(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	t.Run("as an ordinary user", func(t *testing.T) {
		name, _, _ := strings.Cut(t.Name(), "/")
		dir := publicDir(t)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		cmd := command("-test.run=^"+name+"$", "-test.v", "-test.count=1")
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, err := cmd.CombinedOutput()
		if t.Logf("%s", out); err != nil {
			t.Error(err)
		}
	})
}

func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := filepath.Dir(dir); d != "/"; d = filepath.Dir(d) {
		if info, err := os.Stat(d); err == nil && info.Mode()&1 != 0 {
			break
		}
		if err := os.Chmod(d, 0o711); err != nil {
			t.Skip(err)
		}
	}
	return dir
}

// report runs a child under s.
func report(t *testing.T, s jail.Spec, cmd *exec.Cmd) self {
	t.Helper()
	wrap(t, s, cmd)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	var r self
	if err := errors.Join(err, json.Unmarshal(out, &r)); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs.String())
	}
	return r
}

func wrap(t *testing.T, s jail.Spec, cmd *exec.Cmd) {
	t.Helper()
	if err := s.Wrap(cmd); errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
}

func TestIdentity(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	got := report(t, s, command("report"))
	id, gid := strconv.Itoa(s.UID), strconv.Itoa(s.GID)
	for name, want := range map[string]string{
		"Uid": strings.Join([]string{id, id, id, id}, "\t"), "Gid": strings.Join([]string{gid, gid, gid, gid}, "\t"),
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapAmb": none, "NoNewPrivs": "1",
	} {
		if got.Status[name] != want {
			t.Errorf("%s: %q, want %q", name, got.Status[name], want)
		}
	}
	if os.Geteuid() == 0 && got.Status["Groups"] != "" {
		t.Errorf("it is in the groups %s", got.Status["Groups"])
	}
	if got.Umask != "0027" {
		t.Errorf("umask %s", got.Umask)
	}
	if want := []string{"A=b", "C=\xff"}; !slices.Equal(got.Env, want) && !slices.Equal(got.Env, []string{"A=b", "C=\ufffd"}) {
		t.Errorf("environment %q, want %q", got.Env, want)
	}
	if !slices.Equal(got.Limits, []uint64{0, 1 << 30}) {
		t.Errorf("limits of dumps and files: %v", got.Limits)
	}
}

const none = "0000000000000000"

// TestNamespaces expects that a child shares nothing with the bench but its files.
func TestNamespaces(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	if shared := s.Shares(); shared != "" {
		t.Skip(shared)
	}
	got := report(t, s, command("report"))
	for _, ns := range []string{"mnt", "pid", "net", "ipc"} {
		ours, err := os.Readlink("/proc/self/ns/" + ns)
		if err != nil {
			t.Fatal(err)
		}
		if got.Namespaces[ns] == ours {
			t.Errorf("it has the bench's %s", ours)
		}
	}
	if got.First == "<nil>" {
		t.Error("it can change who started it")
	}
	if os.Geteuid() == 0 && got.Processes > 2 {
		t.Errorf("it sees %d processes, want itself and who started it", got.Processes)
	}
	if !got.Leader || got.Terminal == "<nil>" {
		t.Errorf("leader of a session: %v; terminal: %s", got.Leader, got.Terminal)
	}
}

func TestDescriptorsAndArguments(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	secret, err := os.Open("/etc/passwd")
	if err != nil {
		t.Skip(err)
	}
	defer secret.Close()
	// As a shell leaves it to what it starts.
	if _, err := unix.FcntlInt(secret.Fd(), unix.F_SETFD, 0); err != nil {
		t.Fatal(err)
	}
	cmd := command("report", "/nowhere/\xff \n", "")
	cmd.ExtraFiles = []*os.File{secret}
	cmd.Env = []string{"SECRET=1"}
	got := report(t, s, cmd)
	if !slices.Equal(got.Descriptors, []string{"0", "1", "2"}) {
		t.Errorf("descriptors %v, want 0, 1 and 2", got.Descriptors)
	}
	if len(got.Args) != 4 || got.Args[1] != "report" || got.Args[3] != "" {
		t.Errorf("arguments %q", got.Args)
	}
	if _, there := got.Writes["/nowhere/\ufffd \n"]; !there {
		t.Errorf("arguments %q", got.Writes)
	}
	if len(got.Env) != 2 {
		t.Errorf("environment %q", got.Env)
	}
}

// TestFiles expects that a child gets the files that it was promised and no others,
// and is not started without them.
func TestFiles(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	s.Files = 2
	var ends [3]*os.File // the child's
	var ours [3]*os.File
	for i := range ends {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		defer w.Close()
		ends[i], ours[i] = w, r
	}
	cmd := command("say", "3", "4", "5")
	cmd.ExtraFiles = ends[:]
	wrap(t, s, cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for i, want := range []string{"3", "4", ""} {
		ends[i].Close()
		got, err := io.ReadAll(ours[i])
		if err != nil || string(got) != want {
			t.Errorf("through descriptor %d came %q (%v), want %q", 3+i, got, err, want)
		}
	}
	short := command("say", "3")
	wrap(t, s, short)
	if out, err := short.CombinedOutput(); err == nil || !strings.Contains(string(out), "descriptor 3 was promised") {
		t.Errorf("without its files: %v\n%s", err, out)
	}
}

func TestMounts(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	dir := publicDir(t)
	ro, rw, beside := dir+"/ro", dir+"/ro/rw", dir+"/beside"
	for _, d := range []string{ro, rw, beside} {
		if err := errors.Join(os.Mkdir(d, 0o700), os.Chown(d, s.UID, s.GID)); err != nil {
			t.Fatal(err)
		}
	}
	before := mountsOf(t)
	s.Mounts = []jail.Mount{{Path: ro, ReadOnly: true}, {Path: rw}}
	got := report(t, s, command("report", ro, rw, beside))
	for p, want := range map[string]string{ro: "EROFS", rw: "<nil>", beside: "ENOENT"} {
		if got.Writes[p] != want {
			t.Errorf("writing in %s: %s, want %s", p, got.Writes[p], want)
		}
	}
	s.Open = true
	if got := report(t, s, command("report", ro, rw, beside)).Writes; got[ro] != "EROFS" || got[rw] != "<nil>" || got[beside] != "<nil>" {
		t.Errorf("with the host's files: %v", got)
	}
	if err := os.WriteFile(ro+"/mine", nil, 0o600); err != nil {
		t.Errorf("for others it is to stay what it was: %v", err)
	}
	if after := mountsOf(t); after != before {
		t.Errorf("the mounts of everybody changed:\n%s\nthey were\n%s", after, before)
	}
}

func mountsOf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestAMountOnALink expects that what a subject has put in the place of a mount
// point leads nowhere: the child is not started.
func TestAMountOnALink(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	dir := publicDir(t)
	if err := errors.Join(os.Mkdir(dir+"/d", 0o755), os.Symlink("/etc", dir+"/l")); err != nil {
		t.Fatal(err)
	}
	s.Mounts = []jail.Mount{{Path: dir + "/d", ReadOnly: true}}
	report(t, s, command("report")) // it can be done here
	for _, p := range []string{dir + "/l", dir + "/l/ssl", dir + "/gone"} {
		s.Mounts = []jail.Mount{{Path: p, ReadOnly: true}}
		cmd := command("report")
		wrap(t, s, cmd)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "fsbench: jail: bind "+p) {
			t.Errorf("%s: %v\n%s", p, err, out)
		}
	}
}

func TestEnds(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	for _, tc := range []struct {
		args []string
		code int
	}{
		{[]string{"exit", "0"}, 0},
		{[]string{"exit", "7"}, 7},
		{[]string{"kill"}, 137},
	} {
		cmd := command(tc.args...)
		wrap(t, s, cmd)
		_ = cmd.Run()
		code := cmd.ProcessState.ExitCode()
		if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			code = 128 + int(ws.Signal())
		}
		if code != tc.code {
			t.Errorf("%v ended with %d, want %d", tc.args, code, tc.code)
		}
	}
	missing := exec.CommandContext(t.Context(), "fsbench-no-such-program")
	if err := s.Wrap(missing); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("a program that is not there: %v", err)
	}
	gone := exec.CommandContext(t.Context(), "/nowhere/program")
	wrap(t, s, gone)
	out, err := gone.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "fsbench: jail: start /nowhere/program") {
		t.Errorf("a program that is not there: %v\n%s", err, out)
	}
}

// TestTheChildEnds expects that what a child has started and let go ends with it.
func TestTheChildEnds(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	if shared := s.Shares(); shared != "" {
		t.Skip(shared)
	}
	token := newToken(t)
	cmd := command("daemon", "1", token)
	wrap(t, s, cmd)
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = bufio.NewReader(said).ReadString('\n')
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := len(having(token)); n != 2 {
		t.Errorf("%d processes, want the child and its daemon", n)
	}
	_ = unix.Kill(cmd.Process.Pid, unix.SIGKILL)
	_ = cmd.Wait()
	gone(t, token)
}

// TestTheParentIsKilled expects that nothing of a child is left a second after
// whoever started it was killed, although nobody was left to end it.
func TestTheParentIsKilled(t *testing.T) {
	alsoAsUser(t)
	s := jailOf()
	for _, times := range []string{"0", "2"} {
		if shared := s.Shares(); shared != "" && times != "0" {
			t.Skip(shared)
		}
		who := "mine"
		if s.UID != os.Getuid() {
			who = "other"
		}
		token := newToken(t)
		cmd := command("parent", who, times, token)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if line != "ready\n" {
			_ = cmd.Process.Kill()
			t.Fatalf("the parent said %q (%v)", line, err)
		}
		if len(having(token)) == 0 {
			t.Error("no child was started")
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		gone(t, token)
	}
}

func newToken(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("token-%d-%d", os.Getpid(), time.Now().UnixNano())
}

// having returns the daemons that have token as their last argument.
func having(token string) []int {
	var pids []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if bytes.Count(line, []byte{0}) == 4 && strings.HasSuffix(string(line), "\x00"+token+"\x00") {
			pids = append(pids, pid)
		}
	}
	return pids
}

func gone(t *testing.T, token string) {
	t.Helper()
	end := time.Now().Add(time.Second)
	for len(having(token)) > 0 {
		if time.Now().After(end) {
			pids := having(token)
			t.Errorf("after a second there are still %v", pids)
			for _, pid := range pids {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestPossible(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root can be anybody")
	}
	s := mine()
	s.UID++
	err := s.Wrap(command("report"))
	if !errors.Is(err, sandbox.ErrCannot) || !strings.Contains(fmt.Sprint(err), "only root") {
		t.Errorf("as somebody else: %v", err)
	}
}
