package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

type zooCmd struct {
	Only string `placeholder:"NAME" help:"One mutant."`
	Seed uint64 `default:"1" help:"Seed of the generated scenarios."`
	JSON bool   `help:"Print as JSON."`
}

func (zooCmd) Help() string {
	return `Every mutant is the reference with one behaviour changed, and must be caught by the
rule that it breaks. Exit code 1 if one survives.

Example: fsbench zoo --only keeps-temp`
}

// caught is one mutant's fate.
type caught struct {
	Name   string        `json:"name"`
	Rule   spec.RuleID   `json:"rule"`
	Breaks string        `json:"breaks"`
	Killed bool          `json:"killed"` // by the rule that it breaks
	By     []spec.RuleID `json:"by"`     // every rule that catches it
	In     string        `json:"in"`     // first scenario in which its own rule does
}

func (c *zooCmd) Run(a *app) error {
	list := mutants.All
	if c.Only != "" {
		m, err := mutants.ByName(c.Only)
		if err != nil {
			return usage(err)
		}
		list = []mutants.Mutant{m}
	}
	ss, err := zooScenarios(c.Seed)
	if err != nil {
		return err
	}
	p := a.progress("mutants", len(list))
	var fates []caught
	for _, m := range list {
		broken, err := fsbench.Survey(a.ctx, subject{m.Name, m.Variant, m.Tamper}.memory(), ss, nil)
		if err != nil {
			p.stop()
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
		fates = append(fates, caught{
			Name: m.Name, Rule: m.Rule, Breaks: m.Breaks, Killed: broken[m.Rule] != "",
			By: slices.Sorted(maps.Keys(broken)), In: broken[m.Rule],
		})
		p.step()
	}
	p.stop()
	return c.print(a, fates)
}

// zooScenarios are the corpus and the first of the smoke profile.
func zooScenarios(seed uint64) ([]scenarios.Scenario, error) {
	ss, err := scenarios.Corpus()
	if err != nil {
		return nil, err
	}
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		return nil, err
	}
	for i := range 200 {
		ss = append(ss, p.Draw(seed, i, fsbench.Version))
	}
	return ss, nil
}

func (c *zooCmd) print(a *app, fates []caught) error {
	killed := 0
	for _, f := range fates {
		if f.Killed {
			killed++
		}
	}
	if c.JSON {
		if err := a.json(map[string]any{"mutants": fates}); err != nil {
			return err
		}
	} else {
		t := table.NewWriter()
		t.SetOutputMirror(a.out)
		t.SetStyle(table.StyleLight)
		t.AppendHeader(table.Row{"rule", "mutant", "killed", "in", "also caught by"})
		for _, f := range fates {
			word := style().Good("yes")
			if !f.Killed {
				word = style().Bad("NO")
			}
			t.AppendRow(table.Row{f.Rule, f.Name, word, f.In, others(f)})
		}
		t.Render()
		fmt.Fprintf(a.out, "mutants: %d killed: %d\n", len(fates), killed)
	}
	if killed < len(fates) {
		return &exit{code: reports.ExitFailed}
	}
	return nil
}

func others(f caught) string {
	var out []string
	for _, id := range f.By {
		if id != f.Rule {
			out = append(out, string(id))
		}
	}
	return strings.Join(out, " ")
}
