// Package junit renders a report as JUnit XML, for the CI systems that show it.
package junit

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/jstemmer/go-junit-report/v2/junit"

	"github.com/fsbench/fsbench/reports"
)

// Write writes r: a suite for each kind of sandbox, a case for each rule. A broken
// SHOULD is no failure; it is told in the case's output.
func Write(w io.Writer, r *reports.Report) error {
	var suites junit.Testsuites
	suites.Name = "fsbench " + r.Subject.Name
	boxes := map[string]bool{}
	for _, rule := range r.Rules {
		for name := range rule.Sandboxes {
			boxes[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(boxes)) {
		suite := junit.Testsuite{Name: name, Time: "0", Package: "fsbench"}
		suite.AddProperty("digest", r.Digest)
		suite.AddProperty("subject", r.Subject.Name+" "+r.Subject.Version)
		for _, rule := range r.Rules {
			suite.AddTestcase(testcase(r, rule, name))
		}
		suites.AddSuite(suite)
	}
	if err := suites.WriteXML(w); err != nil {
		return fmt.Errorf("write junit: %w", err)
	}
	return nil
}

func testcase(r *reports.Report, rule reports.RuleResult, box string) junit.Testcase {
	in := rule.Sandboxes[box]
	tc := junit.Testcase{Name: string(rule.ID) + " " + rule.Title, Classname: "fsbench." + rule.ID.Family() + "." + box}
	text := evidence(r, rule)
	switch in.Verdict {
	case reports.Fail:
		if rule.Strength == "MUST" {
			tc.Failure = &junit.Result{Message: string(rule.ID) + " is broken", Type: string(in.Verdict), Data: text}
		} else {
			tc.SystemOut = &junit.Output{Data: "warning: " + text}
		}
	case reports.Stale:
		tc.Failure = &junit.Result{Message: "the rule is kept: its waiver must go", Type: string(in.Verdict)}
	case reports.Broken:
		tc.Error = &junit.Result{Message: "the bench broke", Type: string(in.Verdict), Data: broken(r)}
	case reports.Skip, reports.Inconclusive, reports.Waived:
		tc.Skipped = &junit.Result{Message: string(in.Verdict) + reasons(in.Skips)}
	case reports.Pass:
	}
	return tc
}

func reasons(skips []reports.SkipCount) string {
	var b strings.Builder
	for _, s := range skips {
		fmt.Fprintf(&b, "; %d scenarios: %s", s.Count, s.Reason)
	}
	return b.String()
}

func evidence(r *reports.Report, rule reports.RuleResult) string {
	var b strings.Builder
	for _, f := range r.Findings {
		if f.Rule == rule.ID {
			fmt.Fprintf(&b, "scenario %s on %s, call %d\ngot   %s\n", f.Scenario, f.Sandbox, f.Call, f.Got)
			for _, want := range f.Want {
				fmt.Fprintf(&b, "want  %s\n", want)
			}
			fmt.Fprintf(&b, "replay: %s\n", f.Replay)
		}
	}
	return b.String()
}

func broken(r *reports.Report) string {
	var b strings.Builder
	for _, br := range r.Broken {
		fmt.Fprintf(&b, "%s on %s: %s\n", br.Scenario, br.Sandbox, br.Error)
	}
	return b.String()
}
