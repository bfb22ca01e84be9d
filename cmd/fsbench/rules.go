package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

type rulesCmd struct {
	List    rulesListCmd    `cmd:"" default:"withargs" help:"List the rules."`
	Explain rulesExplainCmd `cmd:"" help:"Say what a rule asks, where it comes from and what shows it."`
}

type rulesListCmd struct {
	Family string `placeholder:"FB" help:"Only one family."`
	JSON   bool   `help:"Print as JSON."`
}

func (rulesListCmd) Help() string { return `Example: fsbench rules --family FB` }

// ruleInfo is a rule as scripts see it.
type ruleInfo struct {
	ID        spec.RuleID   `json:"id"`
	Title     string        `json:"title"`
	Strength  spec.Strength `json:"strength"`
	Level     spec.Level    `json:"level"`
	Role      string        `json:"role"`
	Source    string        `json:"source"`
	Mutants   []string      `json:"mutants"`
	Scenarios int           `json:"scenarios"` // of the corpus that name it
	names     []string
}

func describeRules(rules []spec.Rule) ([]ruleInfo, error) {
	corpus, err := scenarios.Corpus()
	if err != nil {
		return nil, err
	}
	by := mutants.ByRule()
	var out []ruleInfo
	for _, r := range rules {
		info := ruleInfo{
			ID: r.ID, Title: r.Title, Strength: r.Strength, Level: r.Level, Role: r.Role,
			Source:  spec.Documents[r.Source.Doc] + " (" + r.Source.Place + ")",
			Mutants: append([]string{}, by[r.ID]...),
		}
		for _, s := range corpus {
			if slices.Contains(s.Rules, r.ID) {
				info.names = append(info.names, s.Name)
			}
		}
		info.Scenarios = len(info.names)
		out = append(out, info)
	}
	return out, nil
}

func (c *rulesListCmd) Run(a *app) error {
	rules, err := selectRules(c.Family)
	if err != nil {
		return usage(err)
	}
	infos, err := describeRules(rules)
	if err != nil {
		return err
	}
	if c.JSON {
		return a.json(map[string]any{"rules": infos})
	}
	tw := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, r := range infos {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", r.ID, r.Strength, r.Level, r.Title)
	}
	return tw.Flush()
}

type rulesExplainCmd struct {
	ID   string `arg:"" help:"Rule, as in FB-004."`
	JSON bool   `help:"Print as JSON."`
}

func (rulesExplainCmd) Help() string { return `Example: fsbench rules explain FB-004` }

func (c *rulesExplainCmd) Run(a *app) error {
	r, ok := spec.RuleByID(spec.RuleID(strings.ToUpper(c.ID)))
	if !ok {
		return usage(fmt.Errorf("rule %q: see fsbench rules for those that exist", c.ID))
	}
	infos, err := describeRules([]spec.Rule{r})
	if err != nil {
		return err
	}
	info := infos[0]
	if c.JSON {
		return a.json(info)
	}
	fmt.Fprintf(a.out, "%s  %s\n%s, level %s, binds the role %s\nsource: %s\n", info.ID, info.Title, info.Strength, info.Level, info.Role, info.Source)
	for _, name := range info.Mutants {
		m, err := mutants.ByName(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.out, "mutant %s: %s\n", m.Name, m.Breaks)
	}
	_, err = fmt.Fprintf(a.out, "scenarios: %s\n", strings.Join(info.names, ", "))
	return err
}
