package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fsbench/fsbench/internal/golden"
)

// TestMain lets the test binary stand in for the program: under its own name in
// the stories, and as the helpers that the program starts of itself.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "exe" { // started through /proc/self/exe: a worker
		main()
	}
	testscript.Main(m, map[string]func(){"fsbench": main})
}

// TestStories runs the command line as its users do.
func TestStories(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "../../golden/cli",
		UpdateScripts: os.Getenv("UPDATE_GOLDEN") == "1" && os.Getenv("CI") == "",
	})
}

// TestRulesPage holds docs/RULES.md against the catalogue.
func TestRulesPage(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run([]string{"rules", "doc"}, strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	page, err := os.ReadFile("../../docs/RULES.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(page) != out.String() {
		t.Error("docs/RULES.md is not what the catalogue says; run: go generate .")
	}
}

// verbs are the words that a command can begin with.
var verbs = []string{
	"run", "gen", "judge", "replay", "shrink", "explore", "report", "rules", "zoo", "serve", "doctor", "version",
}

// TestHelp keeps the help of every verb, with its example, under review.
func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, verb := range append([]string{"", "rules list", "rules explain"}, verbs...) {
		var out, errs bytes.Buffer
		args := append(strings.Fields(verb), "--help")
		if code := run(args, strings.NewReader(""), &out, &errs); code != 0 || errs.Len() > 0 {
			t.Errorf("%v: exit %d, stderr %q", args, code, errs.String())
		}
		if verb != "" && !strings.Contains(out.String(), "Example: fsbench") {
			t.Errorf("the help of %q has no example", verb)
		}
		all.WriteString("$ fsbench " + strings.Join(args, " ") + "\n" + out.String() + "\n")
	}
	golden.Check(t, "help.txt", all.String())
}

// documented matches a command that a document shows: a line of its own, an
// example of the help, or a code span with arguments.
var documented = regexp.MustCompile("(?m)^(?:Example: |\\s+replay: )?(?:go run \\./cmd/)?fsbench ([a-z]+(?: [^`\n]+)?)$|`fsbench ([^ `]+ [^`]+)`")

// TestDocumentedCommands holds every command that the documents show, and every
// example of the help, against the command line.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	adrs, err := filepath.Glob("../../docs/adr/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(append(pages, adrs...), "../../README.md", "../../CONTRIBUTING.md", "../../golden/help.txt")
	found := 0
	for _, page := range pages {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range documented.FindAllStringSubmatch(string(data), -1) {
			line, _, _ := strings.Cut(m[1]+m[2], " > ")
			found++
			if _, err := newParser(io.Discard, io.Discard, func(int) {}).Parse(strings.Fields(line)); err != nil {
				t.Errorf("%s shows %q: %v", page, line, err)
			}
		}
	}
	if found < 20 {
		t.Errorf("found %d commands in the documents, want at least 20: the pattern no longer sees them", found)
	}
}
