package arch_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/arch"
)

// root is the module root as seen from this package's folder, where tests run.
var root = filepath.Join("..", "..")

func TestImportsObeyTheTable(t *testing.T) {
	files, err := arch.Read(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	// A reader that finds nothing allows everything.
	for _, must := range []string{"fsbench.go", "internal/arch/arch_test.go", "model/model.go"} {
		if !slices.ContainsFunc(files, func(f arch.File) bool { return f.Path == must }) {
			t.Errorf("%s was not read: the test looks at the wrong tree", must)
		}
	}
	for _, v := range arch.Imports.Check(files) {
		t.Error(v)
	}
}

func TestTableHasNoFaults(t *testing.T) {
	for _, f := range arch.Imports.Faults() {
		t.Error(f)
	}
}

// TestTableReportsItsFaults edits the real table, one fault at a time.
func TestTableReportsItsFaults(t *testing.T) {
	tests := []struct {
		name     string
		from, to string
		want     string
	}{
		{"cycle of two", "trace", "model", "cycle: trace -> model -> trace"},
		{"cycle of one", "spec", "spec", "cycle: spec -> spec"},
		{"long cycle", "spec", "reports", "cycle: "},
		{"name without a row", "trace", "nowhere", "trace may import nowhere, which has no row"},
		{"a command", "reports", "cmd/fsbench", "reports may import cmd/fsbench, a command"},
		{"judge sees the port", "model", "vfs", "model reaches vfs"},
		{"judge sees the port through the trace", "trace", "vfs", "model reaches vfs"},
		{"product sees the trace", "impl/publish", "trace", "impl/publish reaches trace"},
		{"product sees the bench through the port", "vfs", "sut", "impl/publish reaches sut"},
		{"product sees a backend", "impl/tools", "vfs/osfs", "impl/host reaches vfs/osfs"},
		{"runner judges", "runner", "model", "runner reaches model: executing is not judging"},
		{"runner judges through a sandbox", "sandbox", "model", "runner reaches model"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			table := maps.Clone(arch.Imports)
			table[tt.from] = append(slices.Clone(table[tt.from]), tt.to)
			faults := table.Faults()
			if !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Errorf("%s -> %s: no fault says %q; got %q", tt.from, tt.to, tt.want, faults)
			}
		})
	}
}

// TestPlantedImports plants one import in one in-memory file of a module.
func TestPlantedImports(t *testing.T) {
	tests := []struct {
		name   string
		file   string
		imp    string // folder of this module, or an import path of another
		refuse string // part of the violation; empty when the import is allowed
	}{
		{"allowed", "impl/tools/a.go", "impl/publish", ""},
		{"judge imports product", "model/a.go", "impl/publish", `imports "github.com/fsbench/fsbench/impl/publish", but model may import only: spec, trace`},
		{"judge imports port", "model/a.go", "vfs", "model may import only: spec, trace"},
		{"judge imports faults", "model/a.go", "faults", "model may import only"},
		{"judge imports runner", "model/a.go", "runner", "model may import only"},
		{"words import anything", "spec/a.go", "trace", "spec may import only: nothing of this module"},
		{"product imports trace", "impl/host/a.go", "trace", "impl/host may import only"},
		{"product imports a backend", "impl/tools/a.go", "vfs/osfs", "impl/tools may import only"},
		{"tools import policy", "impl/tools/a.go", "impl/writepolicy", "impl/tools may import only"},
		{"runner imports judge", "runner/a.go", "model", "runner may import only"},
		{"adaptor imports generators", "sut/stdio/a.go", "scenarios", "sut/stdio may import only"},
		{"other platform's file", "vfs/a_plan9.go", "spec", "vfs may import only"},
		{"own package", "vfs/a.go", "vfs", "vfs may import only"},
		{"root imports an adaptor", "a.go", "sut/stdio", "the root package may import only"},
		{"other modules are not judged", "model/a.go", "example.org/other", ""},
		{"a module that shares the prefix", "model/a.go", "github.com/fsbench/fsbenchmark", ""},

		{"command imports a stage", "cmd/fsbench/a.go", "internal/serve", ""},
		{"command imports the root", "cmd/fsbench/a.go", "", ""},
		{"command imports the facade", "cmd/fsbench/a.go", "vfs/aferofs", "cmd/fsbench may import only"},
		{"command imports test helpers", "cmd/fsbench/a.go", "internal/golden", "cmd/fsbench may import only"},
		{"command imports the adaptor contract", "cmd/fsbench/a.go", "sut/suttest", "cmd/fsbench may import only"},
		{"command imports this package", "cmd/fsbench/a.go", "internal/arch", "cmd/fsbench may import only"},
		{"command imports an SDK", "cmd/fsbench/a.go", "sdk/go", "cmd/fsbench may import only"},
		{"command imports an example", "cmd/fsbench/a.go", "examples/brokers", "cmd/fsbench may import only"},
		{"command test imports test helpers", "cmd/fsbench/a_test.go", "internal/golden", ""},

		{"import of a command", "reports/a.go", "cmd/fsbench", "nothing imports a command"},
		{"import of a command by a root test", "a_test.go", "cmd/fsbench", "nothing imports a command"},
		{"import of a command by its test", "cmd/fsbench/a_test.go", "cmd/fsbench", "nothing imports a command"},
		{"import of a part of a command", "reports/a.go", "cmd/fsbench/verbs", "nothing imports a command"},

		{"package without a row", "helpers/a.go", "", `package folder "helpers" has no row`},
		{"folder above packages", "impl/a.go", "", `package folder "impl" has no row`},
		{"import of a package without a row", "runner/a.go", "helpers", `"helpers" has no row in the import table`},
		{"import of a package without a row by a root test", "a_test.go", "helpers", `"helpers" has no row`},
		{"import of a nested module", "runner/a.go", "tools", `"tools" has no row in the import table`},

		{"test of own package", "model/a_test.go", "model", ""},
		{"judge's test imports an extra", "model/a_test.go", "vfs/memfs", "the tests of model may import only"},
		{"words' test imports an extra", "spec/a_test.go", "internal/golden", "the tests of spec may import only: spec"},
		{"test imports the row", "impl/tools/a_test.go", "spec", ""},
		{"test imports memfs", "impl/tools/a_test.go", "vfs/memfs", ""},
		{"test imports osfs", "impl/tools/a_test.go", "vfs/osfs", ""},
		{"test imports vfstest", "vfs/memfs/a_test.go", "vfs/vfstest", ""},
		{"test imports golden", "trace/a_test.go", "internal/golden", ""},
		{"test imports the memory sandbox", "runner/a_test.go", "sandbox/mem", ""},
		{"test imports the adaptor contract", "sut/stdio/a_test.go", "sut/suttest", ""},
		{"test imports beyond", "impl/tools/a_test.go", "model", "the tests of impl/tools may import only"},
		{"product file imports an extra", "impl/tools/a.go", "vfs/memfs", "impl/tools may import only"},
		{"root test crosses", "a_test.go", "impl/publish", ""},
		{"mutants test crosses", "internal/mutants/a_test.go", "model", ""},
		{"mutants do not", "internal/mutants/a.go", "model", "internal/mutants may import only"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			imp := tt.imp
			if !strings.Contains(imp, ".") {
				imp = strings.TrimSuffix(arch.Module+"/"+imp, "/")
			}
			src := fmt.Sprintf("package p\n\nimport (\n\t\"fmt\"\n\n\tx %q\n)\n", imp)
			got := check(t, fstest.MapFS{tt.file: {Data: []byte(src)}})
			if tt.refuse == "" {
				if len(got) != 0 {
					t.Fatalf("%s importing %s was refused: %v", tt.file, imp, got)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%s importing %s: got %d violations, want 1: %v", tt.file, imp, len(got), got)
			}
			text := got[0].String()
			for _, part := range []string{tt.file + ":", tt.refuse, "\n\tmend: "} {
				if !strings.Contains(text, part) {
					t.Errorf("violation does not say %q:\n%s", part, text)
				}
			}
			if got[0].Import != "" && got[0].Line != 6 {
				t.Errorf("violation names line %d, the import is on line 6:\n%s", got[0].Line, text)
			}
		})
	}
}

func TestReadSkipsWhatIsNotOfTheModule(t *testing.T) {
	bad := &fstest.MapFile{Data: []byte("package p\n\nimport \"github.com/fsbench/fsbench/cmd/fsbench\"\n")}
	tree := fstest.MapFS{
		"go.mod":                {Data: []byte("module " + arch.Module + "\n")},
		"tools/go.mod":          {Data: []byte("module other\n")},
		"tools/a.go":            bad,
		"tools/deep/a.go":       bad,
		"model/testdata/a.go":   bad,
		"model/testdata/b/a.go": bad,
		".github/a.go":          bad,
		"model/.hidden/a.go":    bad,
		"_old/a.go":             bad,
		"model/_a.go":           bad,
		"model/.a.go":           bad,
		"model/notes.txt":       bad,
		"model/a.go":            {Data: []byte("package model\n\nimport \"github.com/fsbench/fsbench/spec\"\n")},
	}
	files, err := arch.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	want := []arch.File{{Path: "model/a.go", Imports: []arch.Import{{Path: arch.Module + "/spec", Line: 3}}}}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("files read (-want +got):\n%s", diff)
	}
}

func TestReadTakesBrokenFilesAsErrors(t *testing.T) {
	_, err := arch.Read(fstest.MapFS{"model/a.go": {Data: []byte("package model\n\nimport (\n")}})
	if err == nil || !strings.Contains(err.Error(), "model/a.go") {
		t.Errorf("an unfinished import declaration gave %v, want an error that names the file", err)
	}
}

func TestPackageWithoutRowIsReportedOnce(t *testing.T) {
	src := []byte("package helpers\n")
	got := check(t, fstest.MapFS{"helpers/a.go": {Data: src}, "helpers/b.go": {Data: src}})
	if len(got) != 1 {
		t.Errorf("got %v, want one violation for the folder", got)
	}
}

func check(t *testing.T, tree fstest.MapFS) []arch.Violation {
	t.Helper()
	files, err := arch.Read(tree)
	if err != nil {
		t.Fatal(err)
	}
	return arch.Imports.Check(files)
}
