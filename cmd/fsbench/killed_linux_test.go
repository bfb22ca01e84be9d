package main

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// killsVar says how often something is killed. make kills sets it.
const killsVar = "FSBENCH_KILLS"

// process is one that belongs to a stake.
type process struct {
	pid  int
	name string // the program's first argument
}

// processes returns those that run the program, or are told of the stake. An ordinary
// user is not shown what the bench's own helpers run; their arguments are for everybody
// to read, and name the stake in what they encode.
func (s *stake) processes() (found []process) {
	s.t.Helper()
	var of, is unix.Stat_t
	s.must(unix.Stat(s.exe, &of))
	dirs, err := filepath.Glob("/proc/[0-9]*")
	s.must(err)
	for _, dir := range dirs {
		line, err := os.ReadFile(dir + "/cmdline")
		if err != nil || len(line) == 0 {
			continue
		}
		args := strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
		ours := unix.Stat(dir+"/exe", &is) == nil && is.Dev == of.Dev && is.Ino == of.Ino
		for _, arg := range args {
			raw, _ := base64.StdEncoding.DecodeString(arg)
			ours = ours || strings.Contains(arg, s.dir) || strings.Contains(string(raw), s.dir)
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && ours {
			found = append(found, process{pid, args[0]})
		}
	}
	return found
}

// owners returns those that trace a subject.
func (s *stake) owners() []process {
	return slices.DeleteFunc(s.processes(), func(p process) bool { return p.name != "fsbench-owner" })
}

// cgroups are those of a bench.
func cgroups(pid int) (found []string) {
	_ = filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), fmt.Sprintf("fsbench-%d-", pid)) {
			found = append(found, p)
		}
		return nil
	})
	return found
}

// TestKilled kills the bench, the owner of its subject, or both, whatever they are at,
// while the subject forks and leaves its parents without end. Nothing of them may be
// there soon after.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("it runs the program many times")
	}
	kills := 10
	if text := os.Getenv(killsVar); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s: %v", killsVar, err)
		}
	}
	exe := program(t)
	moments := rand.New(rand.NewPCG(1, 2))
	informative, n := 0, 0
	for name, uid := range users() {
		s := newStake(t, exe, uid)
		many := strings.Replace(harm, "-- steps --", "ws/d dir\n-- faults --\ndeny class=create under=ws/d errno=EPERM\n-- steps --", 1)
		for call := 2; call < 200; call++ {
			many += fmt.Sprintf("%d write g content=x\n", call)
		}
		s.must(os.WriteFile(s.dir+"/out/many.txtar", []byte(many), 0o644))
		before := s.machine()
		for range kills / len(users()) {
			victim := []string{"bench", "owner", "both"}[n%3]
			args := []string{"replay", s.dir + "/out/many.txtar", "--exec"}
			if n%4 == 3 {
				args = []string{"explore", "--call", "write", "--out", s.dir + "/out", "--exec"}
			}
			what := fmt.Sprintf("%s: kill %d, of %s, %s", name, n+1, victim, args[0])
			informative += s.kill(what, victim, time.Duration(moments.Int64N(int64(2*time.Second))), append(args, s.subject("flees")...))
			if diff := cmp.Diff(before, s.machine()); diff != "" {
				t.Errorf("%s: the machine has changed (-before +after):\n%s", what, diff)
			}
			n++
		}
	}
	t.Logf("kills: %d with a subject at work: %d", n, informative)
	if informative < n/2 {
		t.Errorf("in %d of %d there was a subject: nothing was tried", informative, n)
	}
}

// kill starts the program, kills the victim at a moment, and waits until nothing of it
// is left. It returns 1 if there was a subject.
func (s *stake) kill(what, victim string, at time.Duration, args []string) (informative int) {
	t := s.t
	t.Helper()
	cmd := s.command(t.Context(), args...)
	s.must(cmd.Start())
	time.Sleep(at)
	owners := s.owners()
	for end := time.Now().Add(5 * time.Second); victim != "bench" && len(owners) == 0 && time.Now().Before(end); owners = s.owners() {
		time.Sleep(time.Millisecond) // between two subjects, or not that far yet
	}
	if victim != "bench" {
		for _, o := range owners {
			_ = unix.Kill(o.pid, unix.SIGKILL)
		}
	}
	if victim != "owner" {
		_ = cmd.Process.Kill()
	} else {
		time.Sleep(100 * time.Millisecond) // it takes note, and may go on
		_ = cmd.Process.Signal(os.Interrupt)
	}
	_ = cmd.Wait()
	if ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus); victim == "owner" && (ws.Signaled() || ws.ExitStatus() == 0 || ws.ExitStatus() == 2) {
		t.Errorf("%s: the bench ended with %v", what, cmd.ProcessState)
	}
	left := func() []string {
		folders, err := filepath.Glob(s.dir + "/tmp/*")
		s.must(err)
		folders = append(folders, cgroups(cmd.Process.Pid)...)
		for _, p := range s.processes() {
			folders = append(folders, fmt.Sprint("process ", p.pid, " ", p.name))
		}
		return folders
	}
	for end := time.Now().Add(20 * time.Second); len(left()) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	if l := left(); len(l) > 0 {
		t.Errorf("%s, after %v: there is still %s", what, at, strings.Join(l, ", "))
	}
	return min(len(owners), 1)
}
