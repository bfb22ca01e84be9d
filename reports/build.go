package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Judged is one run with its verdict, or with the failure of the bench.
type Judged struct {
	Run     runner.Run
	Verdict model.Verdict
	Err     error
	Replay  string // a command line that runs it again
}

// Options are what a report says beside its runs.
type Options struct {
	Suite   string
	Subject Subject
	Seed    uint64
	Profile string
	Rules   []spec.Rule              // that the report is about
	Mutants map[spec.RuleID][]string // that each rule is known to kill
	Waivers []Waiver
}

// Builder folds judged runs into a report. Runs must be added in a fixed order
// for the report to be the same each time.
type Builder struct {
	opt   Options
	rep   Report
	rules map[spec.RuleID]*tally
	first map[spec.RuleID]int // index in rep.Findings
	skips map[SkippedRuns]int
	boxes map[string]bool
	about map[spec.RuleID]spec.Rule // Options.Rules by id
}

// tally is what is known of one rule so far.
type tally struct {
	boxes     map[string]*boxTally
	scenarios int // runs that exercised it
}

type boxTally struct {
	conclusive   int // exchanges in scenarios whose faults all fired
	inconclusive int
	failed       bool
	broken       bool
	skips        map[string]int
}

// NewBuilder returns an empty Builder.
func NewBuilder(opt Options) *Builder {
	b := &Builder{
		opt: opt, rules: map[spec.RuleID]*tally{}, first: map[spec.RuleID]int{},
		skips: map[SkippedRuns]int{}, boxes: map[string]bool{}, about: map[spec.RuleID]spec.Rule{},
	}
	b.rep = Report{
		Schema: Schema, Suite: opt.Suite, Subject: opt.Subject, Seed: opt.Seed, Profile: opt.Profile, Rules: []RuleResult{}, Findings: []Finding{},
		Coverage: Coverage{Calls: map[string]int{}, Errnos: map[string]int{}, Brokers: map[string]int{}},
	}
	for _, k := range []spec.CallKind{spec.CallRead, spec.CallWrite, spec.CallDelete, spec.CallMove} {
		b.rep.Coverage.Calls[string(k)] = 0
	}
	for _, e := range faults.Errnos {
		b.rep.Coverage.Errnos[e] = 0
	}
	for _, k := range spec.BrokerKinds {
		b.rep.Coverage.Brokers[string(k)] = 0
	}
	for _, r := range opt.Rules {
		b.about[r.ID] = r
		b.rules[r.ID] = &tally{boxes: map[string]*boxTally{}}
	}
	return b
}

func (b *Builder) box(rule spec.RuleID, name string) *boxTally {
	t := b.rules[rule]
	if t.boxes[name] == nil {
		t.boxes[name] = &boxTally{skips: map[string]int{}}
	}
	return t.boxes[name]
}

func (b *Builder) isAbout(id spec.RuleID) bool {
	_, is := b.about[id]
	return is
}

// Add takes in one judged run.
func (b *Builder) Add(j Judged) {
	run := &j.Run
	b.boxes[run.Sandbox] = true
	if j.Err != nil {
		b.rep.Broken = append(b.rep.Broken, BrokenRun{run.Scenario.Name, run.Sandbox, j.Err.Error()})
		for _, id := range run.Scenario.Rules {
			if b.isAbout(id) {
				b.box(id, run.Sandbox).broken = true
			}
		}
		return
	}
	if run.Skip != "" {
		b.skip(run)
		return
	}
	b.count(run)
	for _, r := range b.opt.Rules {
		if !claims(run, r.Role) {
			b.box(r.ID, run.Sandbox).skips["the subject does not claim the role "+r.Role]++
		}
	}
	for id, n := range j.Verdict.Exercised {
		if !b.isAbout(id) {
			continue
		}
		b.rules[id].scenarios++
		if len(run.Unfired) > 0 {
			b.box(id, run.Sandbox).inconclusive += n
		} else {
			b.box(id, run.Sandbox).conclusive += n
		}
	}
	for _, f := range j.Verdict.Findings {
		if b.isAbout(f.Rule) {
			b.find(j, f)
		}
	}
}

// claims reports whether the subject of a run claims a role. What is called has
// tools, whatever it claims.
func claims(run *runner.Run, role string) bool {
	for _, r := range run.SUT.Roles {
		if string(r) == role {
			return true
		}
	}
	return role == "tools"
}

func (b *Builder) skip(run *runner.Run) {
	b.rep.Totals.Skipped++
	b.skips[SkippedRuns{Sandbox: run.Sandbox, SkipCount: SkipCount{Reason: run.Skip}}]++
	for _, id := range run.Scenario.Rules {
		if b.isAbout(id) {
			b.box(id, run.Sandbox).skips[run.Skip]++
		}
	}
}

func (b *Builder) find(j Judged, f model.Finding) {
	b.box(f.Rule, j.Run.Sandbox).failed = true
	if i, again := b.first[f.Rule]; again {
		b.rep.Findings[i].Count++
		return
	}
	rule := b.about[f.Rule]
	b.first[f.Rule] = len(b.rep.Findings)
	o := j.Run.Scenario.Origin
	origin := ""
	if o.Profile != "" {
		origin = fmt.Sprintf("seed=%d profile=%s version=%s", o.Seed, o.Profile, o.Version)
	}
	b.rep.Findings = append(b.rep.Findings, Finding{
		Rule: f.Rule, Title: rule.Title, Strength: rule.Strength, Scenario: j.Run.Scenario.Name, Sandbox: j.Run.Sandbox,
		Call: f.Call, Got: f.Got, Want: append([]string{}, f.Want...), Replay: j.Replay, Origin: origin, Count: 1,
	})
}

func (b *Builder) count(run *runner.Run) {
	t, c := &b.rep.Totals, &b.rep.Coverage
	t.Scenarios++
	t.Events += len(run.Events)
	t.Faults.Planned += len(run.Scenario.Faults.Injections)
	t.Faults.Fired += len(run.Scenario.Faults.Injections) - len(run.Unfired)
	kernel, synthetic := map[string]bool{}, map[string]bool{}
	for i := range run.Events {
		e := &run.Events[i]
		switch {
		case e.Invoke != nil:
			t.Calls++
			c.Calls[string(e.Invoke.Kind)]++
		case e.Fault != nil && e.Fault.Effect == trace.EffectAgain: // the end of a strike
		case e.Fault != nil:
			t.Faults.Strikes++
			if e.Fault.By == trace.Kernel {
				kernel[e.Fault.Injection] = true
			} else {
				synthetic[e.Fault.Injection] = true
			}
			if _, isErrno := c.Errnos[e.Fault.Effect]; isErrno {
				c.Errnos[e.Fault.Effect]++
			}
		case e.Consult != nil:
			if n := e.Consult.Handler; n >= 1 && n <= len(run.Scenario.Brokers) {
				c.Brokers[string(run.Scenario.Brokers[n-1].Kind)]++
			}
		case e.Crash != nil:
			t.CrashStates++
		}
	}
	t.Faults.Kernel += len(kernel)
	t.Faults.Synthetic += len(synthetic)
	if run.Scenario.Origin.Profile != "" {
		t.Generated++
	}
	if len(kernel)+len(synthetic) > 0 {
		t.WithFault++
		if run.Scenario.Origin.Profile != "" {
			t.GeneratedHit++
		}
	}
}

// Report returns the finished report.
func (b *Builder) Report() (*Report, error) {
	rep := b.rep
	for _, r := range b.opt.Rules {
		rep.Rules = append(rep.Rules, b.result(r))
	}
	for _, s := range slices.SortedFunc(maps.Keys(b.skips), func(x, y SkippedRuns) int {
		return cmp.Or(strings.Compare(x.Sandbox, y.Sandbox), strings.Compare(x.Reason, y.Reason))
	}) {
		n := b.skips[s]
		s.Count = n
		rep.Skipped = append(rep.Skipped, s)
	}
	for i, f := range rep.Findings {
		rep.Findings[i].Waived = waiverFor(b.opt.Waivers, b.opt.Subject.Name, f.Rule) != nil
	}
	slices.SortStableFunc(rep.Findings, func(x, y Finding) int { return strings.Compare(string(x.Rule), string(y.Rule)) })
	err := rep.seal()
	return &rep, err
}

func (b *Builder) result(r spec.Rule) RuleResult {
	t := b.rules[r.ID]
	out := RuleResult{
		ID: r.ID, Title: r.Title, Strength: r.Strength, Sandboxes: map[string]InSandbox{}, Scenarios: t.scenarios,
		Mutants: b.opt.Mutants[r.ID], Skips: []SkipCount{}, Waiver: waiverFor(b.opt.Waivers, b.opt.Subject.Name, r.ID),
	}
	if out.Mutants == nil {
		out.Mutants = []string{}
	}
	all := &boxTally{skips: map[string]int{}}
	for _, name := range slices.Sorted(maps.Keys(b.boxes)) {
		bt := b.box(r.ID, name)
		out.Sandboxes[name] = InSandbox{Verdict: bt.verdict(out.Waiver != nil), Exercised: bt.conclusive + bt.inconclusive, Skips: counts(bt.skips)}
		all.conclusive += bt.conclusive
		all.inconclusive += bt.inconclusive
		all.failed = all.failed || bt.failed
		all.broken = all.broken || bt.broken
		for reason, n := range bt.skips {
			all.skips[reason] += n
		}
	}
	out.Exercised = all.conclusive + all.inconclusive
	out.Verdict = all.verdict(out.Waiver != nil)
	out.Skips = counts(all.skips)
	return out
}

// verdict is the first that applies. One unfired scenario beside passing ones is
// counted and not decisive; a rule that only skipped scenarios speak of is skipped.
func (t *boxTally) verdict(waived bool) Verdict {
	switch {
	case t.broken:
		return Broken
	case t.failed && waived:
		return Waived
	case t.failed:
		return Fail
	case t.conclusive > 0 && waived:
		return Stale
	case t.conclusive > 0:
		return Pass
	case t.inconclusive > 0 || len(t.skips) == 0:
		return Inconclusive
	}
	return Skip
}

func counts(m map[string]int) []SkipCount {
	out := []SkipCount{}
	for _, reason := range slices.Sorted(maps.Keys(m)) {
		out = append(out, SkipCount{reason, m[reason]})
	}
	return out
}
