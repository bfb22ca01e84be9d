package mutants_test

import (
	"slices"
	"testing"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/sut/stdio"
)

// arena is the memory arena of a mutant, with a wire for what is about the protocol.
func arena(m mutants.Mutant) fsbench.Arena {
	d := &inproc.Driver{Variant: m.Variant}
	info := inproc.Reference()
	if m.Variant.Name != "" {
		info.Name = m.Variant.Name
	}
	a := fsbench.Memory(d)
	a.Wire = stdio.PipeEach(
		func(env sut.Env) stdio.Main { return serve.Function(d, env, m.Tamper) },
		stdio.Options{Info: &info, Settable: info.Settable},
	)
	return a
}

func corpusAndSmoke(t *testing.T, generated int) []scenarios.Scenario {
	t.Helper()
	ss, err := scenarios.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	for i := range generated {
		ss = append(ss, p.Draw(1, i, fsbench.Version))
	}
	return ss
}

// TestEveryMutantIsKilled fails if a mutant survives corpus and smoke, or is caught
// only by rules other than the one that it breaks.
func TestEveryMutantIsKilled(t *testing.T) {
	ss := corpusAndSmoke(t, 100)
	for _, m := range mutants.All {
		t.Run(m.Name, func(t *testing.T) {
			t.Parallel()
			broken, err := fsbench.Survey(t.Context(), arena(m), ss, func(broken map[spec.RuleID]string) bool {
				return broken[m.Rule] != ""
			})
			if err != nil {
				t.Fatal(err)
			}
			if broken[m.Rule] == "" {
				t.Errorf("%s is not caught by %s, which it breaks (%s); caught by %v", m.Name, m.Rule, m.Breaks, broken)
			}
		})
	}
}

// TestReferencePasses is the control: what kills the mutants leaves the reference
// alone.
func TestReferencePasses(t *testing.T) {
	broken, err := fsbench.Survey(t.Context(), arena(mutants.Mutant{}), corpusAndSmoke(t, 1000), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(broken) > 0 {
		t.Errorf("the reference breaks %v", broken)
	}
}

// TestEveryRuleIsDone fails if a rule lacks a check, a mutant or a scenario, or has
// more mutants than anybody would read.
func TestEveryRuleIsDone(t *testing.T) {
	checked, byRule := model.Checked(), mutants.ByRule()
	corpus, err := scenarios.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	shown := map[spec.RuleID]bool{}
	for _, s := range corpus {
		for _, id := range s.Rules {
			shown[id] = true
		}
	}
	for _, r := range spec.Rules {
		if !slices.Contains(checked, r.ID) {
			t.Errorf("%s has no check", r.ID)
		}
		if n := len(byRule[r.ID]); n < 1 || n > 3 {
			t.Errorf("%s has %d mutants, want 1 to 3", r.ID, n)
		}
		if !shown[r.ID] {
			t.Errorf("%s is not named by any scenario of the corpus", r.ID)
		}
	}
	for id := range byRule {
		if _, known := spec.RuleByID(id); !known {
			t.Errorf("mutants %v break %s, which is no rule", byRule[id], id)
		}
	}
}

// TestScenariosShowTheirRules fails if a scenario of the corpus names a rule that
// the reference does not put to the test in it.
func TestScenariosShowTheirRules(t *testing.T) {
	corpus, err := scenarios.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	a := arena(mutants.Mutant{})
	for _, s := range corpus {
		j := fsbench.Judge(t.Context(), a, s)
		if j.Err != nil || j.Run.Skip != "" {
			t.Errorf("%s: %v %s", s.Name, j.Err, j.Run.Skip)
			continue
		}
		if len(j.Run.Unfired) > 0 {
			t.Errorf("%s: never fired: %v", s.Name, j.Run.Unfired)
		}
		for _, id := range s.Rules {
			if j.Verdict.Exercised[id] == 0 {
				t.Errorf("%s names %s and does not put it to the test", s.Name, id)
			}
		}
	}
}
