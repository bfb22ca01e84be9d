package spec_test

import (
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/fsbench/fsbench/spec"
)

func TestCatalogue(t *testing.T) {
	id := regexp.MustCompile(`^[A-Z]{2}-[0-9]{3}$`)
	levels := []spec.Level{spec.L0, spec.L1, spec.L2, spec.L3, spec.L4, spec.L5}
	roles := []string{"tools", "registry", "broker", "confessor", "host"}
	titles := map[string]spec.RuleID{}
	last := spec.RuleID("")
	for _, r := range spec.Rules {
		if !id.MatchString(string(r.ID)) {
			t.Errorf("id %q: want two capitals and three digits", r.ID)
		}
		if r.ID <= last {
			t.Errorf("%s comes after %s: want the catalogue in order, each id once", r.ID, last)
		}
		last = r.ID
		if other, twice := titles[r.Title]; twice {
			t.Errorf("%s and %s have one title", r.ID, other)
		}
		titles[r.Title] = r.ID
		if why := unlikeATitle(r.Title); why != "" {
			t.Errorf("%s: title %q %s", r.ID, r.Title, why)
		}
		if r.Strength != spec.Must && r.Strength != spec.Should {
			t.Errorf("%s: strength %q", r.ID, r.Strength)
		}
		if !slices.Contains(levels, r.Level) {
			t.Errorf("%s: level %q", r.ID, r.Level)
		}
		if !slices.Contains(roles, r.Role) {
			t.Errorf("%s: role %q, want one of %v", r.ID, r.Role, roles)
		}
		if spec.Documents[r.Source.Doc] == "" || r.Source.Place == "" {
			t.Errorf("%s: source %+v: want a known document and a place in it", r.ID, r.Source)
		}
	}
}

// unlikeATitle says what keeps s from being an imperative of one line.
func unlikeATitle(s string) string {
	first, _, _ := strings.Cut(s, " ")
	switch {
	case s == "" || strings.TrimSpace(s) != s || strings.ContainsAny(s, "\n\t"):
		return "is not one line"
	case !unicode.IsUpper(rune(s[0])):
		return "does not begin with a capital"
	case strings.HasSuffix(s, "."):
		return "ends with a dot"
	case slices.Contains([]string{"A", "An", "The", "It", "Every", "No", "All"}, first) || strings.HasSuffix(first, "s") && first != "Pass":
		return "is no imperative"
	}
	return ""
}

func TestDocuments(t *testing.T) {
	cited := map[string]bool{}
	for _, r := range spec.Rules {
		cited[r.Source.Doc] = true
	}
	for _, doc := range slices.Sorted(maps.Keys(spec.Documents)) {
		if !strings.HasPrefix(spec.Documents[doc], "https://") {
			t.Errorf("document %s has address %q", doc, spec.Documents[doc])
		}
		if !cited[doc] {
			t.Errorf("document %s is the source of nothing", doc)
		}
	}
}

func TestRuleByID(t *testing.T) {
	for _, r := range spec.Rules {
		if got, ok := spec.RuleByID(r.ID); !ok || got != r {
			t.Errorf("%s found as %+v, %v", r.ID, got, ok)
		}
		if family := r.ID.Family(); family != string(r.ID[:2]) {
			t.Errorf("%s is of family %q", r.ID, family)
		}
	}
	for _, id := range []spec.RuleID{"", "AT-000", "AT-0010", "ZZ-999"} {
		if got, ok := spec.RuleByID(id); ok {
			t.Errorf("%q found as %+v", id, got)
		}
	}
}

// TestCitedRulesExist reads every Go file of the module: code that exists because
// of a rule says so, and a rule that does not exist is a comment that misleads.
func TestCitedRulesExist(t *testing.T) {
	families := map[string]bool{}
	for _, r := range spec.Rules {
		families[r.ID.Family()] = true
	}
	id := regexp.MustCompile(`\b(` + strings.Join(slices.Sorted(maps.Keys(families)), "|") + `)-[0-9]{3}\b`)
	cited := map[spec.RuleID]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != ".." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(path) != ".go" || filepath.Base(path) == "rules.go" && filepath.Base(filepath.Dir(path)) == "spec":
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range id.FindAllString(string(text), -1) {
			cited[spec.RuleID(m)] = true
			if _, known := spec.RuleByID(spec.RuleID(m)); !known && path != filepath.Join("..", "spec", "rules_test.go") {
				t.Errorf("%s cites %s, which is no rule", path, m)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range spec.Rules {
		if !cited[r.ID] {
			t.Errorf("%s is cited nowhere: no code knows it", r.ID)
		}
	}
}

func TestPolicyValues(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(spec.PolicyValues)) {
		values := spec.PolicyValues[name]
		if len(values) < 2 || len(slices.Compact(slices.Sorted(slices.Values(values)))) != len(values) {
			t.Errorf("policy %s: %v is no choice", name, values)
		}
	}
}
