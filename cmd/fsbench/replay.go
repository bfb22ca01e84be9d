package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

type replayCmd struct {
	Scenario string `arg:"" help:"Scenario file; or PROFILE:SEED:N for the N-th generated one, from 0."`
	Sandbox  string `default:"mem" help:"Where to run: mem or disk."`
	Subject  string `default:"reference" help:"What to judge: reference, or mutant:NAME."`
	Explain  bool   `help:"Tell what happened: calls, faults, handlers, Log, tree."`
	Keep     string `placeholder:"FILE" help:"Write the trace to a file."`
	Record   string `placeholder:"FILE" help:"Write what CMD did to the tree, step by step, to a file; that of a second process to FILE.2."`
	JSON     bool   `help:"Print findings and counts as JSON."`

	foreign `embed:""`
}

func (replayCmd) Help() string {
	return `Exit codes as for run.

Example: fsbench replay .fsbench/scenarios/FB-004-mem-denied-write-liar.txtar --explain
         fsbench replay scenarios/corpus/B13-executable-bit.txtar --explain --exec -- tee {path}`
}

func (c *replayCmd) Run(a *app) error {
	s, err := loadScenario(c.Scenario)
	if err != nil {
		return usage(err)
	}
	sub, err := parseSubject(c.Subject)
	if err != nil {
		return usage(err)
	}
	if err := c.check(); err != nil {
		return usage(err)
	}
	if c.Record != "" && !c.given() {
		return usage(errors.New("--record: want a command after --, as in: fsbench replay FILE --record R --exec -- tee {path}"))
	}
	s.Faults.Record = c.given() && (c.Explain || c.Record != "")
	s.Faults.Trace = s.Faults.Record
	var j reports.Judged
	if c.given() {
		j, err = c.judge(a, s, c.Record != "")
	} else {
		j, err = judgeIn(a, sub, c.Sandbox, s)
	}
	if err != nil {
		return err
	}
	if c.Keep != "" {
		if err := writeTrace(c.Keep, j.Run.Events); err != nil {
			return err
		}
	}
	if c.Explain {
		if err := errors.Join(reports.WriteStory(a.out, j.Run.Events), reports.WriteSteps(a.out, j.Run.Steps, j.Run.Records)); err != nil {
			return err
		}
	}
	if err := c.record(j.Run.Records); err != nil {
		return err
	}
	switch {
	case j.Err != nil:
		return j.Err
	case j.Run.Skip != "":
		fmt.Fprintf(a.out, "skipped: %s\n", spec.Printable(j.Run.Skip))
		return &exit{code: reports.ExitInconclusive}
	}
	if err := a.verdict(j.Verdict, c.JSON); err != nil {
		return err
	}
	if len(j.Run.Unfired) > 0 {
		fmt.Fprintf(a.err, "fsbench: inconclusive: never fired: %s\n", strings.Join(j.Run.Unfired, ", "))
		return &exit{code: reports.ExitInconclusive}
	}
	return nil
}

// record writes what was recorded, a file for each process.
func (c *replayCmd) record(records []faults.Record) error {
	for i, r := range records {
		name := c.Record
		if i > 0 {
			name += fmt.Sprintf(".%d", i+1)
		}
		if c.Record == "" {
			break
		}
		var b bytes.Buffer
		if err := errors.Join(r.Write(&b), os.WriteFile(name, b.Bytes(), 0o644)); err != nil {
			return err
		}
	}
	return nil
}

// judge runs one scenario with a subject of somebody else.
func (f foreign) judge(a *app, s scenarios.Scenario, keep bool) (reports.Judged, error) {
	g, done, err := f.ground(a.ctx, ".fsbench")
	if err != nil {
		return reports.Judged{}, err
	}
	// Who cannot have all is told what there is, unless it is to be kept.
	s.Faults.Record = s.Faults.Record && (keep || g.engine.Name == supervisor.Ptrace)
	j := fsbench.Judge(a.ctx, g.arena, s)
	return j, done()
}

// judgeIn runs one scenario in a sandbox of the kind.
func judgeIn(a *app, sub subject, kind string, s scenarios.Scenario) (reports.Judged, error) {
	switch kind {
	case "mem":
		return fsbench.Judge(a.ctx, sub.memory(), s), nil
	case "disk":
		lab, err := disk.NewLab("")
		if err != nil {
			return reports.Judged{}, err
		}
		j := fsbench.Judge(a.ctx, sub.disk(lab), s)
		return j, lab.Close()
	}
	return reports.Judged{}, usage(fmt.Errorf("sandbox %q: want mem or disk", kind))
}

// loadScenario reads a scenario file, or draws what a token names.
func loadScenario(name string) (scenarios.Scenario, error) {
	if parts := strings.Split(name, ":"); len(parts) == 3 {
		p, err := scenarios.ProfileByName(parts[0])
		if err != nil {
			return scenarios.Scenario{}, err
		}
		seed, err1 := strconv.ParseUint(parts[1], 10, 64)
		n, err2 := strconv.Atoi(parts[2])
		if err1 != nil || err2 != nil || n < 0 {
			return scenarios.Scenario{}, fmt.Errorf("token %q: want PROFILE:SEED:N, as in smoke:7:12", name)
		}
		return p.Draw(seed, n, fsbench.Version), nil
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return scenarios.Scenario{}, err
	}
	return scenarios.Parse(name, strings.TrimSuffix(filepath.Base(name), ".txtar"), data)
}
