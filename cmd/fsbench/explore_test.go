package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/reports"
)

// TestExploreExits: the worst that is known decides, and a bench that does not find
// what is bad is a broken one.
func TestExploreExits(t *testing.T) {
	base := explore.Bases("")[0]
	step := faults.Step{Key: "k", Op: "sync", Class: faults.Flush, Path: "ws/d"}
	at := func(v explore.Verdict) explore.Point {
		return explore.Point{Number: 1, Verdict: v, Strikes: []explore.Strike{{Step: step}}, Why: "why"}
	}
	seen := func(points ...explore.Point) explore.Map {
		return explore.Map{Base: base, Steps: []faults.Step{step}, Points: append([]explore.Point{{Verdict: explore.Pass}}, points...)}
	}
	unseen := explore.Map{Base: base, Points: []explore.Point{{Verdict: explore.Pass}}}
	skipped := explore.Map{Base: base, Points: []explore.Point{{Verdict: explore.Skip, Why: "not claimed"}}}
	bad := seen(at(explore.Fail))
	bad.Findings = []explore.Finding{{Point: 1, Rule: "AT-001"}}
	red, green, blind := fate{explore.Controls[0], 9, true}, fate{explore.Controls[0], 9, false}, fate{explore.Controls[0], 0, false}
	for _, tt := range []struct {
		name    string
		control fate
		maps    []explore.Map
		code    int
		says    string
	}{
		{"all is well", red, []explore.Map{seen(at(explore.Pass))}, reports.ExitOK, ""},
		{"a rule is broken", red, []explore.Map{seen(at(explore.Pass)), bad}, reports.ExitFailed, ""},
		{"a control is green", green, []explore.Map{bad}, reports.ExitBroken, "control walks-again is green"},
		{"a control was not seen, and the subject was", blind, []explore.Map{seen(at(explore.Pass))}, reports.ExitBroken, "is green"},
		{"the bench broke at a point", red, []explore.Map{bad, seen(at(explore.Broken))}, reports.ExitBroken, "point 1"},
		{"no step was seen", blind, []explore.Map{unseen}, reports.ExitInconclusive, "no step of the subject was seen below the root"},
		{"none of one call", red, []explore.Map{seen(at(explore.Pass)), unseen}, reports.ExitInconclusive, "no step of the subject"},
		{"nothing struck", red, []explore.Map{seen(at(explore.Inconclusive))}, reports.ExitInconclusive, "nothing that was tried struck"},
		{"one call is not claimed", red, []explore.Map{skipped, seen(at(explore.Pass))}, reports.ExitOK, ""},
		{"none is", red, []explore.Map{skipped, skipped}, reports.ExitInconclusive, "not claimed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &exploration{controls: []fate{tt.control}, maps: tt.maps}
			var errs bytes.Buffer
			a := &app{ctx: t.Context(), asked: t.Context(), err: &errs}
			if code := a.finish(r.exit()); code != tt.code || !strings.Contains(errs.String(), tt.says) || strings.Count(errs.String(), "\n") > 1 {
				t.Errorf("exit %d, says %q, want %d and one line with %q", code, errs.String(), tt.code, tt.says)
			}
			var out bytes.Buffer
			r.text(&out) // whatever was found can be shown
			if !strings.Contains(out.String(), tt.control.Mutant) || !strings.Contains(out.String(), base.Title) {
				t.Errorf("it does not show the control and the call:\n%s", out.String())
			}
		})
	}
}
