package main

import (
	"fmt"
	"os"

	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

type judgeCmd struct {
	Trace string `arg:"" help:"Trace file, as fsbench run and replay write it; - is standard input."`
	JSON  bool   `help:"Print findings and counts as JSON."`
}

func (judgeCmd) Help() string {
	return `The subject is not run again: a trace holds all that the judge looks at.

Example: fsbench judge .fsbench/traces/FB-004-mem-denied-write-liar.jsonl`
}

func (c *judgeCmd) Run(a *app) error {
	in := a.in
	if c.Trace != "-" {
		f, err := os.Open(c.Trace)
		if err != nil {
			return usage(err)
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	events, err := trace.Read(in, c.Trace)
	if err != nil {
		return usage(err)
	}
	return a.verdict(model.Judge(model.Files{}, events), c.JSON)
}

// verdict prints findings and turns them into an exit code.
func (a *app) verdict(v model.Verdict, asJSON bool) error {
	code := reports.ExitOK
	for _, f := range v.Findings {
		if r, _ := spec.RuleByID(f.Rule); r.Strength == spec.Must {
			code = reports.ExitFailed
		}
	}
	if asJSON {
		if v.Findings == nil {
			v.Findings = []model.Finding{}
		}
		if err := a.json(map[string]any{"findings": v.Findings, "exercised": v.Exercised}); err != nil {
			return err
		}
	} else {
		st := style()
		for _, f := range v.Findings {
			r, _ := spec.RuleByID(f.Rule)
			fmt.Fprintf(a.out, "%s %s: %s\n  call %d\n  got   %s\n", f.Rule, st.Bad("broken"), r.Title, f.Call, spec.Printable(f.Got))
			for i, want := range f.Want {
				label := "want "
				if i > 0 {
					label = "  or "
				}
				fmt.Fprintf(a.out, "  %s %s\n", label, spec.Printable(want))
			}
		}
		fmt.Fprintf(a.out, "%d findings, %d rules exercised\n", len(v.Findings), len(v.Exercised))
	}
	if code != reports.ExitOK {
		return &exit{code: code}
	}
	return nil
}
