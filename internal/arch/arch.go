// Package arch holds the import table of the module and judges imports by it:
// which package may know which. Its tests parse every Go file of the module in
// their own process, so that the test cache sees each file they depend on.
//
// It knows only the packages of this module, by folder. What the standard
// library and other modules may be used for is the linter's part (depguard and
// forbidigo in .golangci.yml). It compiles nothing, so it also reads files that
// the running platform would leave out; and it imports nothing of the module,
// since it judges all of it.
package arch

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Module is the path that the imports of this module begin with.
const Module = "github.com/fsbench/fsbench"

// A Table says, for each package folder, which folders of this module its
// non-test files may import. Folders are slash paths from the module root; ""
// is the root package.
type Table map[string][]string

// Imports is the table of this module. docs/ARCHITECTURE.md prints it and says
// why the edges that are missing are missing: change both in one commit.
var Imports = withCommand(Table{
	// The words and the port: leaves.
	"spec":        {},
	"vfs":         {},
	"vfs/memfs":   {"vfs"},
	"vfs/osfs":    {"vfs"},
	"vfs/aferofs": {"vfs"},
	"vfs/vfstest": {"vfs"},

	// What is judged. A product does not know that it is tested.
	"impl/publish":      {"vfs"},
	"impl/fallback":     {"spec"},
	"impl/writepolicy":  {"spec", "vfs"},
	"impl/eventlog":     {"spec", "vfs"},
	"impl/confession":   {"spec"}, // Pure: the host hands it the fold of the log.
	"impl/availability": {"spec"},
	"impl/tools":        {"spec", "vfs", "impl/publish", "impl/fallback"}, // No policy: the host asks it.
	"impl/host": {
		"spec", "vfs", "impl/tools", "impl/fallback", "impl/writepolicy", "impl/eventlog", "impl/confession",
		"impl/availability",
	},
	"atomicfile": {"vfs", "vfs/osfs", "impl/publish"},

	// The record, and what judges it.
	"trace": {"spec"},
	"model": {"spec", "trace"},

	// What goes wrong, where, and in which order.
	"faults":              {"spec", "vfs", "trace"},
	"faults/supervisor":   {"faults", "spec", "vfs", "trace"},
	"scenarios":           {"spec", "vfs", "faults"},
	"sandbox":             {"spec", "vfs", "trace", "faults"},
	"sandbox/sandboxtest": {"sandbox", "spec"},
	"sandbox/mem":         {"sandbox", "spec", "vfs", "trace", "faults", "vfs/memfs"},
	"sandbox/jail":        {"sandbox", "spec"},
	"sandbox/disk": {
		"sandbox", "sandbox/jail", "spec", "vfs", "trace", "faults", "faults/supervisor", "vfs/osfs",
	},
	"sandbox/powercut": {"sandbox", "sandbox/jail", "spec", "vfs", "trace", "faults", "vfs/osfs"},

	// How a subject is driven.
	"internal/wire":    {"spec"},
	"internal/process": {},
	"sut":              {"spec", "vfs"},
	"sut/suttest":      {"sut", "spec"},
	"sut/inproc": {
		"sut", "spec", "vfs", "impl/host", "impl/tools", "impl/fallback", "impl/writepolicy", "impl/eventlog",
		"impl/confession", "impl/availability",
	},
	"sut/stdio": {"sut", "spec", "internal/wire", "internal/process"},
	"sut/exec":  {"sut", "spec", "internal/wire", "internal/process"},
	"sut/mcp":   {"sut", "spec", "internal/process"},
	"sut/omp":   {"sut", "spec", "internal/wire"},
	"runner":    {"spec", "trace", "faults", "sandbox", "scenarios", "sut"},

	// What searches, and what tells.
	"explore":             {"spec", "trace", "faults", "sandbox", "scenarios", "sut", "runner", "model"},
	"reports":             {"spec", "trace", "faults", "scenarios", "model", "runner", "explore"},
	"reports/junit":       {"reports"},
	"reports/sarif":       {"reports"},
	"reports/html":        {"reports", "spec", "trace"},
	"reports/certificate": {"reports", "spec"},
	"bench/strategy":      {"vfs", "vfs/osfs", "impl/publish"},
	"bench": {
		"spec", "vfs", "vfs/osfs", "vfs/memfs", "trace", "faults", "sandbox", "sandbox/jail", "sandbox/powercut",
		"bench/strategy", "impl/publish", "internal/wire",
	},

	"": {
		"spec", "vfs", "vfs/memfs", "vfs/aferofs", "faults", "scenarios", "sut", "sandbox", "sandbox/mem", "runner",
		"model", "explore", "reports",
	},
	"internal/mutants": {
		"spec", "vfs", "sut", "sut/inproc", "impl/publish", "impl/fallback", "impl/writepolicy", "impl/eventlog",
		"impl/confession", "impl/availability", "impl/tools", "impl/host",
	},
	"internal/serve": {
		"spec", "vfs", "vfs/osfs", "trace", "faults", "internal/wire", "sut", "sut/inproc", "internal/mutants",
	},
	"internal/golden":  {},
	"internal/hostile": {}, // For tests.
	"internal/arch":    {},

	"sdk/go":           {},
	"examples/brokers": {"sdk/go"},
})

// withCommand adds the row of the command, which may import whatever is not
// there for tests or for other people.
func withCommand(t Table) Table {
	var row []string
	for _, pkg := range t.packages() {
		switch pkg {
		case "vfs/aferofs", "sut/suttest", "sandbox/sandboxtest", "internal/arch", "internal/golden", "internal/hostile", "sdk/go",
			"examples/brokers":
		default:
			row = append(row, pkg)
		}
	}
	t["cmd/fsbench"] = row
	return t
}

// testExtras is what test files may import beside the row of their package.
var testExtras = []string{
	"vfs/memfs", "vfs/osfs", "vfs/vfstest", "internal/golden", "internal/hostile", "sandbox/mem", "sandbox/sandboxtest", "sut/suttest",
}

// ownTestExtras is what the tests of one package may import beside the extras
// of all: a server's round trips need the client at the other end.
var ownTestExtras = map[string][]string{
	"internal/serve": {"sut/stdio"},
}

// testsObeyTheRow names the packages whose tests get no extras: the words and
// the judge are tested with what they know.
var testsObeyTheRow = []string{"spec", "model"}

// testsMayCross names the packages whose tests may import everything but
// commands: there the model is checked against the implementation.
var testsMayCross = []string{"", "internal/mutants"}

// A File is the imports of one Go file.
type File struct {
	Path    string // slash path from the module root
	Imports []Import
}

// An Import is one import declaration.
type Import struct {
	Path string
	Line int // 1-based
}

// A Violation is one import, or one package without a row, that the table does
// not allow.
type Violation struct {
	File   string
	Line   int    // 1-based
	Import string // empty when the package has no row
	What   string
	Mend   string
}

// String says where, what, and how to mend it.
func (v Violation) String() string {
	return fmt.Sprintf("%s:%d: %s\n\tmend: %s", v.File, v.Line, v.What, v.Mend)
}

// Check judges the imports of files by the table, in the order of the files.
// Imports of other modules are not its business.
func (t Table) Check(files []File) []Violation {
	var found []Violation
	missing := map[string]bool{}
	for _, f := range files {
		pkg := folder(f.Path)
		if _, ok := t[pkg]; !ok {
			if !missing[pkg] {
				missing[pkg] = true
				found = append(found, noRow(f.Path, pkg))
			}
			continue
		}
		for _, imp := range f.Imports {
			if to, ours := inModule(imp.Path); ours && !t.allows(pkg, to, isTest(f.Path)) {
				found = append(found, t.forbidden(f.Path, imp, pkg, to))
			}
		}
	}
	return found
}

// allows says whether a file of package from may import package to.
func (t Table) allows(from, to string, test bool) bool {
	if isCommand(to) {
		return false
	}
	if slices.Contains(t[from], to) {
		return true
	}
	if !test {
		return false
	}
	_, known := t[to]
	switch {
	case to == from: // An external test package.
		return true
	case slices.Contains(testsMayCross, from):
		return known
	case slices.Contains(testsObeyTheRow, from):
		return false
	default:
		return slices.Contains(testExtras, to) || slices.Contains(ownTestExtras[from], to)
	}
}

func noRow(file, pkg string) Violation {
	return Violation{
		File: file,
		Line: 1,
		What: fmt.Sprintf("package folder %q has no row in the import table", pkg),
		Mend: "decide what it may import and add its row to internal/arch/arch.go and docs/ARCHITECTURE.md",
	}
}

func (t Table) forbidden(file string, imp Import, pkg, to string) Violation {
	v := Violation{File: file, Line: imp.Line, Import: imp.Path}
	who := name(pkg)
	if isTest(file) {
		who = "the tests of " + who
	}
	v.What = fmt.Sprintf("imports %q, but %s may import only: %s", imp.Path, who, t.list(pkg, isTest(file)))
	switch _, known := t[to]; {
	case isCommand(to):
		v.What = fmt.Sprintf("imports %q, but nothing imports a command", imp.Path)
		v.Mend = "move what is needed out of cmd into the package that it belongs to"
	case !known:
		v.Mend = fmt.Sprintf("%q has no row in the import table: the path is wrong, "+
			"or the package belongs to another module, or internal/arch/arch.go lacks its row", to)
	default:
		v.Mend = "take the value as an argument from a caller that may import both, " +
			"or move the code to a package that may; an edge that the design needs is added to " +
			"internal/arch/arch.go and docs/ARCHITECTURE.md in one commit that says why"
	}
	return v
}

// list spells what a file of pkg may import.
func (t Table) list(pkg string, test bool) string {
	if test && slices.Contains(testsMayCross, pkg) {
		return "everything but commands"
	}
	var may []string
	for _, to := range t.packages() {
		if t.allows(pkg, to, test) {
			may = append(may, name(to))
		}
	}
	if len(may) == 0 {
		return "nothing of this module"
	}
	return strings.Join(may, ", ")
}

// Faults says what is wrong with the table itself: a name without a row, a
// cycle, or an edge through which a package reaches what it must not know.
func (t Table) Faults() []string {
	var faults []string
	for _, pkg := range t.packages() {
		for _, to := range t[pkg] {
			if _, ok := t[to]; !ok {
				faults = append(faults, fmt.Sprintf("%s may import %s, which has no row", name(pkg), name(to)))
			}
			if isCommand(to) {
				faults = append(faults, fmt.Sprintf("%s may import %s, a command", name(pkg), name(to)))
			}
		}
	}
	if c := t.cycle(); c != nil {
		faults = append(faults, "cycle: "+strings.Join(c, " -> "))
	}
	for _, pkg := range t.packages() {
		for _, to := range t.reach(pkg) {
			if why := unreachable(pkg, to); why != "" {
				faults = append(faults, fmt.Sprintf("%s reaches %s: %s", name(pkg), name(to), why))
			}
		}
	}
	return faults
}

// unreachable says why from must not reach to by any path; "" means it may.
func unreachable(from, to string) string {
	product := func(pkg string) bool { return strings.HasPrefix(pkg, "impl/") }
	leaf := func(pkg string) bool { return pkg == "spec" || pkg == "vfs" }
	switch {
	case from == "model" && to != "spec" && to != "trace":
		return "the judge knows the words and the trace, so that it cannot inherit what it judges"
	case product(from) && !product(to) && !leaf(to):
		return "a product does not know that it is tested"
	case from == "runner" && to == "model":
		return "executing is not judging"
	}
	return ""
}

// reach is what from may come to import by any path, sorted, without itself
// unless there is a cycle.
func (t Table) reach(from string) []string {
	seen := map[string]bool{}
	todo := slices.Clone(t[from])
	for len(todo) > 0 {
		pkg := todo[0]
		todo = todo[1:]
		if seen[pkg] {
			continue
		}
		seen[pkg] = true
		todo = append(todo, t[pkg]...)
	}
	return slices.Sorted(maps.Keys(seen))
}

// cycle is one way from a package back to itself, or nil.
func (t Table) cycle() []string {
	done := map[string]bool{}
	var visit func(pkg string, trail []string) []string
	visit = func(pkg string, trail []string) []string {
		if i := slices.Index(trail, pkg); i >= 0 {
			return append(slices.Clone(trail[i:]), pkg)
		}
		if done[pkg] {
			return nil
		}
		for _, to := range t[pkg] {
			if c := visit(to, append(trail, pkg)); c != nil {
				return c
			}
		}
		done[pkg] = true
		return nil
	}
	for _, pkg := range t.packages() {
		if c := visit(pkg, nil); c != nil {
			return c
		}
	}
	return nil
}

func (t Table) packages() []string { return slices.Sorted(maps.Keys(t)) }

// Read collects the imports of every Go file below the root of fsys, which is a
// module. It leaves out what the go command leaves out: testdata, names that
// begin with a dot or an underscore, and nested modules. A file that does not
// parse up to its last import is an error.
func Read(fsys fs.FS) ([]File, error) {
	var files []File
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case p == ".":
			return nil
		case d.IsDir() && skipped(fsys, p):
			return fs.SkipDir
		case d.IsDir() || path.Ext(p) != ".go" || hidden(p):
			return nil
		}
		f, err := readFile(fsys, p)
		files = append(files, f)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read imports: %w", err)
	}
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	return files, nil
}

func readFile(fsys fs.FS, name string) (File, error) {
	src, err := fs.ReadFile(fsys, name)
	if err != nil {
		return File{}, err
	}
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, name, src, parser.ImportsOnly)
	if err != nil {
		return File{}, err
	}
	f := File{Path: name}
	for _, spec := range parsed.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return File{}, fmt.Errorf("%s: import %s: %w", name, spec.Path.Value, err)
		}
		f.Imports = append(f.Imports, Import{Path: p, Line: set.Position(spec.Pos()).Line})
	}
	return f, nil
}

func skipped(fsys fs.FS, dir string) bool {
	if hidden(dir) || path.Base(dir) == "testdata" {
		return true
	}
	_, err := fs.Stat(fsys, path.Join(dir, "go.mod"))
	return err == nil
}

func hidden(p string) bool {
	base := path.Base(p)
	return base[0] == '.' || base[0] == '_'
}

// inModule turns an import path into a folder of this module, if it is one.
func inModule(importPath string) (dir string, ours bool) {
	if importPath == Module {
		return "", true
	}
	return strings.CutPrefix(importPath, Module+"/")
}

func folder(file string) string {
	if dir := path.Dir(file); dir != "." {
		return dir
	}
	return ""
}

func name(pkg string) string {
	if pkg == "" {
		return "the root package"
	}
	return pkg
}

func isTest(file string) bool { return strings.HasSuffix(file, "_test.go") }

func isCommand(pkg string) bool { return pkg == "cmd" || strings.HasPrefix(pkg, "cmd/") }
