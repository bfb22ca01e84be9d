package model_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/spec"
)

// TestRules judges the traces of testdata: what breaks a rule is found to break this
// rule and no other, and what keeps it could have broken it.
func TestRules(t *testing.T) {
	kept, broken := map[spec.RuleID]bool{}, map[spec.RuleID]bool{}
	for _, s := range readScripts(t, "*.txt") {
		t.Run(fmt.Sprintf("%s:%d", s.file, s.line), func(t *testing.T) {
			v := model.Judge(model.Files{}, s.events)
			var got, want []spec.RuleID
			for _, f := range v.Findings {
				if !slices.Contains(got, f.Rule) {
					got = append(got, f.Rule)
				}
			}
			if !s.keeps {
				want = slices.Sorted(slices.Values(s.rules))
			}
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: broken rules (-want +got):\n%s%s", s.title, diff, findings(v))
			}
			for _, id := range s.rules {
				if s.keeps && v.Exercised[id] == 0 {
					t.Errorf("%s: %s was not put to the test", s.title, id)
				}
				kept[id] = kept[id] || s.keeps
				broken[id] = broken[id] || !s.keeps
			}
		})
	}
	for _, r := range spec.Rules {
		if !kept[r.ID] || !broken[r.ID] {
			t.Errorf("%s: a trace keeps it: %v, a trace breaks it: %v", r.ID, kept[r.ID], broken[r.ID])
		}
	}
}

func findings(v model.Verdict) string {
	s := ""
	for _, f := range v.Findings {
		s += fmt.Sprintf("%s by call %d: got %s\n", f.Rule, f.Call, f.Got)
		for _, want := range f.Want {
			s += "\twant " + want + "\n"
		}
	}
	return s
}
