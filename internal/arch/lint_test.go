package arch_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A plant is one file that the linter has to refuse.
type plant struct {
	file   string
	src    string
	linter string
	says   string // part of the finding
}

// importing is a file whose only fault is that it imports imp.
func importing(imp string) string { return fmt.Sprintf("package p\n\nimport _ %q\n", imp) }

// calling is a file whose only fault is the call.
func calling(imp, call string) string {
	return fmt.Sprintf("package p\n\nimport %q\n\nfunc init() { %s }\n", imp, call)
}

func plants() []plant {
	var all []plant
	deny := func(dir, list string, imports ...string) {
		for i, imp := range imports {
			all = append(all, plant{
				file:   fmt.Sprintf("%s/import%d.go", dir, i),
				src:    importing(imp),
				linter: "depguard",
				says:   fmt.Sprintf("import '%s' is not allowed from list '%s'", imp, list),
			})
		}
	}
	const port, pure = "tools-reach-disk-through-the-port", "oracle-is-pure"
	deny("impl/planted", port, "os", "golang.org/x/sys/unix", "path/filepath")
	deny("impl/planted/deeper", port, "os", "golang.org/x/sys/unix", "path/filepath")
	for _, dir := range []string{"model", "model/planted", "spec", "spec/planted"} {
		deny(dir, pure, "os", "math/rand", "math/rand/v2", "time")
	}
	forbid := func(dir, imp string, calls ...string) {
		for i, call := range calls {
			all = append(all, plant{
				file:   fmt.Sprintf("%s/call%d.go", dir, i),
				src:    calling(imp, call),
				linter: "forbidigo",
				says:   call[:strings.Index(call, "(")],
			})
		}
	}
	forbid("runner/randv1", "math/rand", "rand.Int()", "rand.Intn(2)", "rand.Int63n(2)", "rand.Uint32()",
		"rand.Float64()", "rand.Perm(2)", "rand.Shuffle(0, nil)", "rand.ExpFloat64()", "rand.NormFloat64()",
		"rand.Seed(1)")
	forbid("runner/randv2", "math/rand/v2", "rand.Int()", "rand.IntN(2)", "rand.Int64N(2)", "rand.Uint64()",
		"rand.UintN(2)", "rand.Float32()", "rand.Perm(2)", "rand.Shuffle(0, nil)", "rand.N(2)", "rand.ExpFloat64()",
		"rand.NormFloat64()")
	forbid("runner/print", "fmt", `fmt.Print("x")`, `fmt.Printf("x")`, `fmt.Println("x")`)
	forbid("runner/cmd", "fmt", `fmt.Println("x")`) // Only the top-level folder of that name is the command.
	return append(all,
		plant{"runner/alias/rand.go", "package p\n\nimport r \"math/rand\"\n\nvar _ = r.Int\n", "forbidigo", "r.Int"},
		plant{"runner/alias/fmt.go", "package p\n\nimport f \"fmt\"\n\nvar _ = f.Println\n", "forbidigo", "f.Println"},
	)
}

// control is what the linter has to leave alone: the same packages where they
// are allowed, and their neighbours where those are not.
var control = map[string]string{
	"impl/control/a.go":      "package p\n\nimport (\n\t_ \"crypto/rand\"\n\t_ \"path\"\n)\n",
	"impl/control/a_test.go": importing("os"),
	"model/control/a.go":     importing("cmp"),
	"model/control/b_test.go": "package p\n\nimport (\n\t_ \"math/rand/v2\"\n\t_ \"os\"\n\t_ \"path/filepath\"\n" +
		"\t_ \"time\"\n)\n",
	"vfs/control/a.go": "package p\n\nimport (\n\t_ \"os\"\n\t_ \"path/filepath\"\n\t_ \"time\"\n\n" +
		"\t_ \"golang.org/x/sys/unix\"\n)\n",
	"runner/control/a.go": "package p\n\nimport \"math/rand/v2\"\n\n" +
		"// Draw draws from a source that can be replayed.\n" +
		"func Draw(src rand.Source) int { return rand.New(src).IntN(3) }\n",
	"cmd/control/a.go": "package main\n\nimport \"fmt\"\n\nfunc main() { fmt.Println(\"only commands print\") }\n",
}

// TestPlantedImportsFailLint plants every import that .golangci.yml denies in a
// scratch module, one a file, and sees the linter that is meant to catch it
// catch it. It runs from the module cache alone.
func TestPlantedImportsFailLint(t *testing.T) {
	if testing.Short() {
		t.Skip("short: building and running the linter takes its time")
	}
	lint := linter(t)
	scratch := scratchModule(t)
	plants := plants()

	for name, src := range control {
		write(t, scratch, name, src)
	}
	if found := lint(scratch); len(found) != 0 {
		t.Errorf("the clean control was refused:\n%s", strings.Join(texts(found), "\n"))
	}
	for _, p := range plants {
		write(t, scratch, p.file, p.src)
	}
	found := lint(scratch)
	for _, p := range plants {
		if !slices.ContainsFunc(found, func(f finding) bool {
			return f.file() == p.file && f.FromLinter == p.linter && strings.Contains(f.Text, p.says)
		}) {
			t.Errorf("%s was planted and %s says nothing of %q\n%s", p.file, p.linter, p.says, p.src)
		}
	}
	for _, f := range found {
		if _, ok := control[f.file()]; ok {
			t.Errorf("the clean control was refused beside the plants: %s", f)
		}
	}
}

// A finding is what the test reads of one issue in the linter's report.
type finding struct {
	FromLinter string
	Text       string
	Pos        struct {
		Filename string
		Line     int
	}
}

func (f finding) file() string { return filepath.ToSlash(f.Pos.Filename) }

func (f finding) String() string {
	return fmt.Sprintf("%s:%d: %s (%s)", f.file(), f.Pos.Line, f.Text, f.FromLinter)
}

func texts(found []finding) []string {
	var all []string
	for _, f := range found {
		all = append(all, f.String())
	}
	return all
}

// linter builds the linter that the tools module names and returns a function
// that runs it over a module. Where it cannot be built without the network, the
// test is skipped: linting a checkout once (make lint) fetches what it needs.
func linter(t *testing.T) func(dir string) []finding {
	t.Helper()
	// Read here so that a cached result of this test falls with the tool's version.
	for _, name := range []string{"go.mod", "go.sum"} {
		read(t, "tools/"+name)
	}
	build := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools/go.mod", "-n", "golangci-lint")
	build.Dir = root
	build.Env = offline(t)
	out, err := build.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, lastLine(exit.Stderr))
		}
		t.Skipf("golangci-lint cannot be built from the module cache: %v", err)
	}
	bin := strings.TrimSpace(string(out))

	env := append(offline(t), "GOLANGCI_LINT_CACHE="+t.TempDir())
	return func(dir string) []finding {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, "run", "--output.json.path=stdout", "--show-stats=false", "./...")
		cmd.Dir = dir
		cmd.Env = env
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		var report struct{ Issues []finding }
		if jsonErr := json.Unmarshal(out, &report); jsonErr != nil {
			t.Fatalf("golangci-lint: %v, and its report does not parse: %v\n%s%s", err, jsonErr, out, stderr.String())
		}
		// Exit 1 means findings, 0 none; anything else is a linter that did not run.
		want := 0
		if len(report.Issues) > 0 {
			want = 1
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Fatalf("golangci-lint: exit %d with %d findings, want exit %d\n%s", got, len(report.Issues), want, stderr.String())
		}
		return report.Issues
	}
}

// offline is the environment without what would make the go command reach for
// the network or for a workspace around the checkout.
func offline(t *testing.T) []string {
	t.Helper()
	return append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly", "GOWORK=off")
}

// scratchModule is an empty module with this module's name, requirements and
// lint configuration.
func scratchModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		write(t, dir, name, read(t, name))
	}
	return dir
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func lastLine(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return lines[len(lines)-1]
}
