package explore_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

const big = `title: everything at once
rules: AT-001
policies: hardlink=break links=follow
-- world --
out dir
out/c file content=keep
ws/a file mode=0600 mtime=7 content="old bytes"
ws/b hard to=ws/a
ws/d dir mode=0700 owner=other
ws/d/e dir
ws/d/e/f file immutable=yes x:user.note=n content=deep
ws/l link to=d
-- brokers --
write declines
delete honest
write honest
-- steps --
1 read a session=s2
edit write ws/new content=new
2 write a content="first version" expect=@1
3 read a
4 write a content="second version" expect=@3
5 delete d/e/f
-- faults --
one op=write under=ws nth=3 errno=ENOSPC
two class=create under=ws/d swap
	rename ws/d to=ws/d.away
	symlink ws/d to=../out
`

func parse(t *testing.T, text string) scenarios.Scenario {
	t.Helper()
	s, err := scenarios.Parse("file", "s", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func calls(s scenarios.Scenario, kind spec.CallKind) []spec.Call {
	return slices.DeleteFunc(s.Calls(), func(c spec.Call) bool { return c.Kind != kind })
}

// TestMinimal: of a scenario only that is left which the planted bug needs, in the
// plainest form.
func TestMinimal(t *testing.T) {
	for _, tt := range []struct {
		name   string
		broken func(s scenarios.Scenario) bool
		want   string
	}{
		{
			"any delete",
			func(s scenarios.Scenario) bool { return len(calls(s, spec.CallDelete)) > 0 },
			"title: everything at once\nrules: AT-001\n-- steps --\n1 delete d/e/f\n",
		},
		{
			"a write that expects what a read returned",
			func(s scenarios.Scenario) bool {
				for _, c := range s.Calls() {
					for _, r := range s.Calls() {
						if r.Kind == spec.CallRead && c.Kind == spec.CallWrite && c.ExpectVersion == "@"+string('0'+rune(r.ID)) {
							return true
						}
					}
				}
				return false
			},
			"title: everything at once\nrules: AT-001\n-- steps --\n1 read a\n2 write a content=f expect=@1\n",
		},
		{
			"a second handler and a fault",
			func(s scenarios.Scenario) bool {
				return len(s.Brokers) > 1 && slices.ContainsFunc(s.Brokers, func(b spec.Broker) bool { return b.Kind == spec.Honest }) &&
					strings.Contains(s.Faults.String(), "symlink")
			},
			"title: everything at once\nrules: AT-001\n-- brokers --\ndelete honest\nwrite honest\n-- steps --\n1 read a\n" +
				"-- faults --\ntwo class=create under=ws/d swap\n\tsymlink ws/d to=../out\n",
		},
		{
			"the second match of a fault",
			func(s scenarios.Scenario) bool {
				return len(s.Faults.Injections) > 0 && s.Faults.Injections[0].When.Nth >= 2
			},
			"title: everything at once\nrules: AT-001\n-- steps --\n1 read a\n-- faults --\none op=write under=ws nth=2 errno=ENOSPC\n",
		},
		{
			"a deep file",
			func(s scenarios.Scenario) bool { return s.World["ws/d/e/f"].Type == spec.TypeFile },
			"title: everything at once\nrules: AT-001\n-- world --\nws/d dir\nws/d/e dir\nws/d/e/f file content=d\n-- steps --\n1 read a\n",
		},
		{
			"a policy",
			func(s scenarios.Scenario) bool { return s.Policies[spec.PolicyLinks] == spec.LinksFollow },
			"title: everything at once\nrules: AT-001\npolicies: links=follow\n-- steps --\n1 read a\n",
		},
		{
			"an edit between calls",
			func(s scenarios.Scenario) bool {
				return slices.ContainsFunc(s.Steps, func(st scenarios.Step) bool { return st.Edit != nil })
			},
			"title: everything at once\nrules: AT-001\n-- steps --\n1 read a\nedit write ws/new content=new\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := explore.Shrink(parse(t, big), 10000, tt.broken)
			if diff := cmp.Diff(tt.want, got.String()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestRuleIsHeldFixed: a smaller scenario that breaks another rule is no smaller case
// of this one.
func TestRuleIsHeldFixed(t *testing.T) {
	breaks := func(s scenarios.Scenario) string {
		switch {
		case len(calls(s, spec.CallWrite)) > 1 && len(s.Faults.Injections) > 0:
			return "ours"
		case len(s.Steps) > 0:
			return "another" // much easier to break
		}
		return ""
	}
	got, tried := explore.Shrink(parse(t, big), 10000, func(s scenarios.Scenario) bool { return breaks(s) == "ours" })
	if breaks(got) != "ours" || len(got.Calls()) != 2 || len(got.Faults.Injections) != 1 {
		t.Errorf("after %d scenarios it breaks %q:\n%s", tried, breaks(got), got)
	}
}

func TestBudget(t *testing.T) {
	for _, budget := range []int{0, 1, 7, 40} {
		asked := 0
		s := parse(t, big)
		got, tried := explore.Shrink(s, budget, func(scenarios.Scenario) bool {
			asked++
			return true
		})
		if tried != asked || tried > budget {
			t.Errorf("budget %d: asked %d times, reported %d", budget, asked, tried)
		}
		if budget == 0 && got.String() != s.String() {
			t.Errorf("without a budget it became\n%s", got)
		}
	}
	// Where nothing helps, it ends by itself.
	if _, tried := explore.Shrink(parse(t, big), 1<<30, func(scenarios.Scenario) bool { return false }); tried == 0 || tried > 100 {
		t.Errorf("%d scenarios tried in vain", tried)
	}
}

// TestCandidates: whatever is tried can be run, is numbered, refers to calls that are
// there, and leaves the scenario that it came from as it was.
func TestCandidates(t *testing.T) {
	soak, err := scenarios.ProfileByName("soak")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := soak.Gen().Draw(rt, "scenario")
		before := s.String()
		keep := rapid.Uint64().Draw(rt, "keep")
		explore.Shrink(s, 200, func(c scenarios.Scenario) bool {
			if err := c.Check(); err != nil {
				rt.Fatalf("a candidate cannot be run: %v\n%s", err, c)
			}
			if back, err := scenarios.Parse("file", c.Name, []byte(c.String())); err != nil || back.String() != c.String() {
				rt.Fatalf("a candidate does not print: %v\n%s", err, c)
			}
			keep = keep*6364136223846793005 + 1442695040888963407
			return keep>>63 == 0
		})
		if after := s.String(); after != before {
			rt.Errorf("the scenario changed (-before +after):\n%s", cmp.Diff(before, after))
		}
	})
}

// TestReferencesAreMended: when a call goes, later ones keep the version that they
// meant, and lose one that nobody returned.
func TestReferencesAreMended(t *testing.T) {
	s := parse(t, "-- steps --\n1 read a\n2 read b\n3 write b expect=@2\n4 write a expect=@1\n")
	kept := func(paths ...string) func(scenarios.Scenario) bool {
		return func(c scenarios.Scenario) bool {
			var got []string
			for _, call := range c.Calls() {
				got = append(got, string(call.Kind)+" "+call.Path+" "+call.ExpectVersion)
			}
			return slices.Equal(got, paths)
		}
	}
	for _, want := range [][]string{
		{"read a ", "read b ", "write b @2"},
		{"read a ", "read b ", "write a @1"},
		{"read a ", "write b ", "write a @1"}, // the read of b is gone
		{"read b ", "write b @1", "write a "}, // the read of a is gone, and b's has its number
	} {
		if got, _ := explore.Shrink(s, 4, kept(want...)); !kept(want...)(got) {
			t.Errorf("no candidate is %q", want)
		}
	}
}
