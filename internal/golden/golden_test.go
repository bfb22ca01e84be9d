package golden_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/internal/golden"
)

// A probe stands in for the test that calls Check and keeps what it was told.
// Fatalf ends the goroutine, as the real one does.
type probe struct {
	testing.TB
	said   string
	failed bool
	fatal  bool
}

func (p *probe) Helper() {}

func (p *probe) Errorf(format string, args ...any) {
	p.failed = true
	p.said += fmt.Sprintf(format, args...)
}

func (p *probe) Fatalf(format string, args ...any) {
	p.Errorf(format, args...)
	p.fatal = true
	runtime.Goexit()
}

// check runs Check as a test in the working directory would.
func check(t *testing.T, name, got string) *probe {
	t.Helper()
	p := &probe{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		golden.Check(p, name, got)
	}()
	<-done
	return p
}

// module makes a module, enters a package folder of it, and returns the root.
// Neither variable that Check reads is set.
func module(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	pkg := filepath.Join(root, "some", "pkg")
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "go.mod"), "module example.org/m\n")
	t.Chdir(pkg)
	t.Setenv("CI", "")
	t.Setenv("UPDATE_GOLDEN", "")
	return root
}

func TestSameTextPasses(t *testing.T) {
	root := module(t)
	write(t, filepath.Join(root, "golden", "cli", "run.txt"), "one\ntwo\n")
	if p := check(t, "cli/run.txt", "one\ntwo\n"); p.failed {
		t.Errorf("the same text failed: %s", p.said)
	}
}

func TestOtherTextFails(t *testing.T) {
	root := module(t)
	file := filepath.Join(root, "golden", "cli", "run.txt")
	write(t, file, "one\ntwo\n")
	p := check(t, "cli/run.txt", "one\nthree\n")
	if !p.failed || p.fatal {
		t.Errorf("failed %v, fatal %v; want a failure that lets the test go on", p.failed, p.fatal)
	}
	// cmp indents with either kind of space, on purpose; look at words.
	for _, part := range []string{"golden/cli/run.txt", "-want +got", "two", "three", "UPDATE_GOLDEN=1 go test ./some/pkg"} {
		if !strings.Contains(p.said, part) {
			t.Errorf("the failure does not say %q:\n%s", part, p.said)
		}
	}
	if got := read(t, file); got != "one\ntwo\n" {
		t.Errorf("the golden file was changed to %q without being asked for", got)
	}
}

func TestMissingFileSaysHowToWriteIt(t *testing.T) {
	module(t)
	p := check(t, "new.txt", "x\n")
	if !p.fatal || !strings.Contains(p.said, "does not exist") || !strings.Contains(p.said, "UPDATE_GOLDEN=1 go test ./some/pkg") {
		t.Errorf("fatal %v, said %q", p.fatal, p.said)
	}
}

func TestUpdateWritesTheFile(t *testing.T) {
	root := module(t)
	t.Setenv("UPDATE_GOLDEN", "1")
	if p := check(t, "deep/er/new.txt", "x\n"); p.failed {
		t.Fatalf("update failed: %s", p.said)
	}
	if got := read(t, filepath.Join(root, "golden", "deep", "er", "new.txt")); got != "x\n" {
		t.Errorf("updated file holds %q", got)
	}
	t.Setenv("UPDATE_GOLDEN", "")
	if p := check(t, "deep/er/new.txt", "x\n"); p.failed {
		t.Errorf("what was just written fails: %s", p.said)
	}
}

func TestOnlyOneUpdates(t *testing.T) {
	root := module(t)
	file := filepath.Join(root, "golden", "a.txt")
	for _, value := range []string{"", "0", "false", "yes"} {
		write(t, file, "old\n")
		t.Setenv("UPDATE_GOLDEN", value)
		if p := check(t, "a.txt", "new\n"); !p.failed {
			t.Errorf("UPDATE_GOLDEN=%q: other text passed", value)
		}
		if got := read(t, file); got != "old\n" {
			t.Errorf("UPDATE_GOLDEN=%q wrote %q", value, got)
		}
	}
}

func TestUpdateIsRefusedInCI(t *testing.T) {
	root := module(t)
	file := filepath.Join(root, "golden", "a.txt")
	write(t, file, "old\n")
	t.Setenv("UPDATE_GOLDEN", "1")
	t.Setenv("CI", "true")
	p := check(t, "a.txt", "new\n")
	if !p.fatal || !strings.Contains(p.said, "CI is set") {
		t.Errorf("fatal %v, said %q; want a refusal", p.fatal, p.said)
	}
	if got := read(t, file); got != "old\n" {
		t.Errorf("the golden file was changed to %q", got)
	}
}

func TestCINeverHindersComparing(t *testing.T) {
	root := module(t)
	write(t, filepath.Join(root, "golden", "a.txt"), "old\n")
	t.Setenv("CI", "true")
	if p := check(t, "a.txt", "old\n"); p.failed {
		t.Errorf("the same text failed: %s", p.said)
	}
}

func TestNamesStayBelowGolden(t *testing.T) {
	root := module(t)
	t.Setenv("UPDATE_GOLDEN", "1")
	for _, name := range []string{"", ".", "..", "../go.mod", "a/../../go.mod", "/a.txt"} {
		if p := check(t, name, "x\n"); !p.fatal {
			t.Errorf("name %q was accepted", name)
		}
	}
	if got := read(t, filepath.Join(root, "go.mod")); got != "module example.org/m\n" {
		t.Errorf("go.mod was changed to %q", got)
	}
}

func TestOutsideAModuleFails(t *testing.T) {
	module(t)
	t.Chdir(filepath.VolumeName(mustGetwd(t)) + string(filepath.Separator))
	if p := check(t, "a.txt", "x\n"); !p.fatal || !strings.Contains(p.said, "no go.mod") {
		t.Errorf("fatal %v, said %q", p.fatal, p.said)
	}
}

func mustGetwd(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
