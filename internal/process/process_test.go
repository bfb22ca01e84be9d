//go:build unix

package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test binary is its own child. The variable says what it does as one.
const childEnv = "FSBENCH_PROCESS_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		children[mode]()
		return
	}
	os.Exit(m.Run())
}

var children = map[string]func(){
	"echo":  func() { _, _ = io.Copy(os.Stdout, os.Stdin) },
	"hang":  hang,
	"fail":  func() { os.Exit(7) },
	"flood": func() { fmt.Fprint(os.Stderr, strings.Repeat("x", 1<<20), "the end") },
	"parent": func() { // of a grandchild that shares its output
		child := again("hang")
		child.Stdout = os.Stdout
		_ = child.Start()
		fmt.Fprintln(os.Stdout, "started")
		hang()
	},
	"orphan": func() { // leaves a grandchild that has left the group
		child := again("hang")
		child.Stdout = os.Stdout
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
		fmt.Fprintln(os.Stdout, child.Process.Pid)
	},
	"talk": func() { // says something on both streams, the diagnostic first
		lines := bufio.NewScanner(os.Stdin)
		for lines.Scan() {
			fmt.Fprintln(os.Stderr, "about", lines.Text())
			fmt.Fprintln(os.Stdout, "answer", lines.Text())
		}
	},
	"runner": func() { // owns a child and is about to be killed
		_, err := Start(again("hang").Args, func(cmd *exec.Cmd) error {
			cmd.Env = append(os.Environ(), childEnv+"=hang")
			cmd.ExtraFiles = []*os.File{os.NewFile(3, "witness")}
			return nil
		}, io.Discard)
		fmt.Fprintln(os.Stdout, "started", err)
		hang()
	},
}

// hang ignores the end of its input.
// hang sleeps: a wait for nothing would be found out by the runtime, and ended.
func hang() {
	for {
		time.Sleep(time.Hour)
	}
}

func again(mode string) *exec.Cmd {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe")
	if runtime.GOOS != "linux" {
		cmd = exec.CommandContext(context.Background(), os.Args[0])
	}
	cmd.Env = append(os.Environ(), childEnv+"="+mode, "GORACE=atexit_sleep_ms=0")
	return cmd
}

func start(t *testing.T, mode string, stderr io.Writer) *Child {
	t.Helper()
	cmd := again(mode)
	p, err := Start(cmd.Args, func(c *exec.Cmd) error {
		c.Env = cmd.Env
		return nil
	}, stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		await(t, p)
		_ = p.Stdin.Close()
		_ = p.Stdout.Close()
	})
	return p
}

func await(t *testing.T, p *Child) {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(20 * time.Second):
		t.Fatal("the process did not end")
	}
}

func TestProcessSpeaks(t *testing.T) {
	p := start(t, "echo", io.Discard)
	if _, err := io.WriteString(p.Stdin, "hello"); err != nil {
		t.Fatal(err)
	}
	_ = p.Stdin.Close()
	got, err := io.ReadAll(p.Stdout)
	if diff := cmp.Diff("hello", string(got)); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	await(t, p)
	if !p.Success() {
		t.Errorf("it ended with %s", p.State())
	}
}

func TestProcessState(t *testing.T) {
	p := start(t, "fail", io.Discard)
	await(t, p)
	if diff := cmp.Diff("exit status 7", p.State()); diff != "" || p.Success() {
		t.Errorf("success %v, state (-want +got):\n%s", p.Success(), diff)
	}
	p = start(t, "hang", io.Discard)
	p.Kill()
	await(t, p)
	if diff := cmp.Diff("signal: killed", p.State()); diff != "" || p.Success() {
		t.Errorf("success %v, state (-want +got):\n%s", p.Success(), diff)
	}
}

// Output ends when nobody holds it: that is how the test sees the grandchild
// die, whoever inherits it.
func TestKillTakesGrandchildrenAlong(t *testing.T) {
	p := start(t, "parent", io.Discard)
	out := bufio.NewReader(p.Stdout)
	if line, err := out.ReadString('\n'); line != "started\n" {
		t.Fatalf("%q, %v", line, err)
	}
	p.Kill()
	if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
		t.Errorf("%q, %v, want the end", rest, err)
	}
	await(t, p)
}

// A grandchild that left the group keeps the output open, and nobody waiting.
func TestOrphanKeepsNobodyWaiting(t *testing.T) {
	p := start(t, "orphan", io.Discard)
	out := bufio.NewReader(p.Stdout)
	line, err := out.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	orphan, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = syscall.Kill(orphan, syscall.SIGKILL) }()
	if _, err := io.ReadAll(out); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the rest: %v, want that reading was given up", err)
	}
	await(t, p)
}

func TestDrainComesBeforeTheAnswer(t *testing.T) {
	tail := &Tail{Max: 1 << 20}
	p := start(t, "talk", tail)
	out := bufio.NewReader(p.Stdout)
	for i := range 200 {
		fmt.Fprintln(p.Stdin, i)
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		p.Drain()
		if want := fmt.Sprintf("about %d\n", i); !strings.HasSuffix(tail.String(), want) {
			t.Fatalf("after answer %d standard error ends with %.40q, want %q", i, tail.String(), want)
		}
	}
}

func TestFloodIsKeptShort(t *testing.T) {
	tail := &Tail{Max: 10}
	p := start(t, "flood", tail)
	await(t, p)
	if diff := cmp.Diff("xxxthe end", tail.String()); diff != "" {
		t.Errorf("tail (-want +got):\n%s", diff)
	}
}

func TestStartFails(t *testing.T) {
	before := openFiles(t)
	if _, err := Start([]string{"/no/such/command"}, nil, io.Discard); err == nil {
		t.Error("a command that is not there was started")
	}
	refusal := errors.New("no jail here")
	if _, err := Start([]string{"/bin/true"}, func(*exec.Cmd) error { return refusal }, io.Discard); !errors.Is(err, refusal) {
		t.Errorf("%v, want the refusal of wrap", err)
	}
	if after := openFiles(t); after > before {
		t.Errorf("%d files are open, and %d were before", after, before)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("needs /proc")
	}
	return len(names)
}

// A runner that is killed takes its child along, deaf or not.
func TestChildDiesWithTheRunner(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this kernel cannot be asked to kill a child with its parent")
	}
	witness, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Close()
	runner := again("runner")
	runner.ExtraFiles = []*os.File{theirs}
	stdout, err := runner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := runner.Start(); err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "started <nil>\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = runner.Process.Kill()
	_ = runner.Wait()
	_ = witness.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadAll(witness); err != nil {
		t.Errorf("the child still holds its end: %v", err)
	}
}
