// Package fsbench decides whether an agent's file tools can be trusted: it runs
// them in a sandbox under denials, faults, races and crashes, records what
// happens, and holds the record against an executable model of the contract.
//
// The work is a pipeline of four values, each plain data that can be saved and
// fed to the next stage on its own:
//
//	scenarios.Scenario -> runner.Run -> []model.Finding -> reports.Report
//	     gen               run            judge              report
package fsbench

//go:generate sh -c "go run ./cmd/fsbench rules doc > docs/RULES.md"

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// Version of fsbench. A seed means nothing without it.
const Version = "0.1.0"

// Arena is a kind of sandbox and the driver that reaches a subject in it.
type Arena struct {
	Driver sut.Driver
	Box    func() (sandbox.Sandbox, error)

	// Wire drives the same subject over the protocol, for scenarios about it; nil
	// where Driver already does, or nothing can.
	Wire sut.Driver

	Deadline time.Duration // of one call; 0 means the runner's
}

// Memory returns the arena in this process's memory.
func Memory(d sut.Driver) Arena {
	return Arena{
		Driver: d, Box: func() (sandbox.Sandbox, error) { return mem.New(), nil },
		Deadline: 2 * time.Second, // nothing there waits for a disk
	}
}

// Judge runs one scenario in an arena and judges the record.
func Judge(ctx context.Context, a Arena, s scenarios.Scenario) reports.Judged {
	box, err := a.Box()
	if err != nil {
		return reports.Judged{Run: runner.Run{Scenario: s}, Err: fmt.Errorf("make sandbox: %w", err)}
	}
	d := a.Driver
	if a.Wire != nil && slices.Contains(s.Needs, scenarios.NeedWire) {
		d = a.Wire
	}
	run, err := runner.Execute(ctx, d, box, s, runner.Options{Deadline: a.Deadline})
	j := reports.Judged{Run: run, Err: err}
	if err == nil && run.Skip == "" {
		j.Verdict = model.Judge(model.Files{}, run.Events)
	}
	return j
}

// Task is one scenario in one arena.
type Task struct {
	Arena    Arena
	Scenario scenarios.Scenario
}

// JudgeAll judges tasks on all processors and hands the results to done one at a
// time, in the order of the tasks, however they finish. It stops early when ctx
// ends.
func JudgeAll(ctx context.Context, n int, task func(i int) Task, done func(i int, j reports.Judged)) error {
	return explore.Ordered(ctx, n, func(i int) reports.Judged {
		t := task(i)
		return Judge(ctx, t.Arena, t.Scenario)
	}, done)
}

// Survey judges scenarios in an arena and returns, for every rule that its subject
// breaks, the first scenario that shows it. It stops early once enough of them are
// known; enough may be nil.
func Survey(ctx context.Context, a Arena, ss []scenarios.Scenario, enough func(map[spec.RuleID]string) bool) (map[spec.RuleID]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	broken := map[spec.RuleID]string{}
	var bench error
	done := false
	err := JudgeAll(ctx, len(ss), func(i int) Task { return Task{a, ss[i]} }, func(i int, j reports.Judged) {
		if j.Err != nil && bench == nil && !done {
			bench = fmt.Errorf("scenario %s: %w", ss[i].Name, j.Err)
		}
		for _, f := range j.Verdict.Findings {
			if _, known := broken[f.Rule]; !known {
				broken[f.Rule] = ss[i].Name
			}
		}
		if !done && enough != nil && enough(broken) {
			done = true
			cancel()
		}
	})
	if done {
		return broken, nil
	}
	return broken, errors.Join(err, bench)
}

// Check runs one scenario against d in memory through the whole pipeline.
func Check(ctx context.Context, d sut.Driver, s scenarios.Scenario, w []reports.Waiver) (*reports.Report, error) {
	info, err := d.Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("identify subject: %w", err)
	}
	b := reports.NewBuilder(reports.Options{
		Suite: Version, Subject: reports.Subject{Name: info.Name, Version: info.Version}, Rules: spec.Rules, Waivers: w,
	})
	b.Add(Judge(ctx, Memory(d), s))
	return b.Report()
}

// Shrink makes s smaller while it breaks rule in a, and returns what it found.
func Shrink(ctx context.Context, a Arena, s scenarios.Scenario, rule spec.RuleID, budget int) (scenarios.Scenario, int) {
	return explore.Shrink(s, budget, func(c scenarios.Scenario) bool {
		return ctx.Err() == nil && breaks(Judge(ctx, a, c), rule)
	})
}

func breaks(j reports.Judged, rule spec.RuleID) bool {
	for _, f := range j.Verdict.Findings {
		if f.Rule == rule {
			return true
		}
	}
	return false
}

// Test is the entry point for Go authors: it generates scenarios, fails t on the
// first broken rule, and shrinks the scenario that broke it. The rule is held
// fixed while shrinking, so that a failure of one rule does not turn into a
// smaller failure of another.
func Test(t *testing.T, d sut.Driver, p scenarios.Profile) {
	t.Helper()
	var pinned spec.RuleID
	rapid.Check(t, func(rt *rapid.T) {
		j := Judge(t.Context(), Memory(d), p.Gen().Draw(rt, "scenario"))
		if j.Err != nil {
			rt.Fatalf("the bench broke: %v", j.Err)
		}
		for _, f := range j.Verdict.Findings {
			if pinned == "" {
				pinned = f.Rule
			}
			if f.Rule == pinned {
				rt.Fatalf("%s broken by call %d\n got %s\nwant %s", f.Rule, f.Call, f.Got, strings.Join(f.Want, "\n  or "))
			}
		}
	})
}

// Explore tries every effect at every step of the call of base in an arena, and
// judges what comes of each.
func Explore(ctx context.Context, a Arena, base scenarios.Scenario, opt explore.Options) (explore.Map, error) {
	opt.Try = func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
		j := Judge(ctx, a, s)
		return j.Run, j.Verdict, j.Err
	}
	return explore.Explore(ctx, base, opt)
}
