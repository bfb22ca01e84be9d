package main

import (
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
)

type shrinkCmd struct {
	Scenario string `arg:"" help:"Scenario file, or PROFILE:SEED:N."`
	Rule     string `help:"Rule to hold fixed; the first that is broken otherwise."`
	Subject  string `default:"reference" help:"What to judge: reference, or mutant:NAME."`
	Budget   int    `default:"2000" help:"Scenarios to try at most."`
	Out      string `placeholder:"FILE" help:"Where to write the smaller scenario; without it it is printed."`
	JSON     bool   `help:"Print what was found as JSON."`
}

func (shrinkCmd) Help() string {
	return `The rule is held fixed: a smaller scenario that breaks another rule is not taken.

Example: fsbench shrink smoke:7:12 --subject mutant:keeps-temp --rule AT-003`
}

func (c *shrinkCmd) Run(a *app) error {
	s, err := loadScenario(c.Scenario)
	if err != nil {
		return usage(err)
	}
	sub, err := parseSubject(c.Subject)
	if err != nil {
		return usage(err)
	}
	arena := sub.memory()
	j := fsbench.Judge(a.ctx, arena, s)
	if j.Err != nil {
		return j.Err
	}
	rule := spec.RuleID(c.Rule)
	if rule == "" && len(j.Verdict.Findings) > 0 {
		rule = j.Verdict.Findings[0].Rule
	}
	if _, known := spec.RuleByID(rule); rule != "" && !known {
		return usage(fmt.Errorf("rule %q: see fsbench rules for those that exist", rule))
	}
	if !slices.ContainsFunc(j.Verdict.Findings, func(f model.Finding) bool { return f.Rule == rule }) {
		return &exit{reports.ExitInconclusive, fmt.Errorf("%s does not break %s for %s: nothing to shrink", c.Scenario, orAny(rule), c.Subject)}
	}
	small, tried := fsbench.Shrink(a.ctx, arena, s, rule, c.Budget)
	if a.ctx.Err() != nil {
		return a.ctx.Err()
	}
	return c.print(a, rule, small.String(), len(s.Steps), len(small.Steps), tried)
}

func orAny(rule spec.RuleID) string {
	if rule == "" {
		return "any rule"
	}
	return string(rule)
}

func (c *shrinkCmd) print(a *app, rule spec.RuleID, text string, before, after, tried int) error {
	if c.Out != "" {
		if err := os.WriteFile(c.Out, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if c.JSON {
		return a.json(map[string]any{"rule": rule, "steps_before": before, "steps": after, "tried": tried, "scenario": text})
	}
	fmt.Fprintf(a.err, "%s: %d steps of %d left, %d scenarios tried\n", rule, after, before, tried)
	if c.Out != "" {
		_, err := fmt.Fprintf(a.out, "replay: fsbench replay %s --subject %s\n", c.Out, c.Subject)
		return err
	}
	_, err := io.WriteString(a.out, text)
	return err
}
