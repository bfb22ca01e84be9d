// Package reports turns judged runs into something that a person or a CI job can
// act on: verdicts, waivers, the canonical report and what is shown in a
// terminal. It judges nothing: findings come to it, and it arranges them.
package reports

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"

	"github.com/fsbench/fsbench/spec"
)

// Schema is the version of the report format.
const Schema = 1

// Verdict is what is to be said of one rule.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Skip         Verdict = "skip"         // a needed capability, role or sandbox is absent
	Inconclusive Verdict = "inconclusive" // no fault fired that should have, or nothing put the rule to the test
	Broken       Verdict = "broken"       // the bench failed
	Waived       Verdict = "waived"       // failed, and a waiver says so
	Stale        Verdict = "stale"        // a waiver exists and the rule passed: it must go
)

// Report is the outcome of a whole invocation.
type Report struct {
	Schema   int           `json:"schema"`
	Digest   string        `json:"digest"` // over rules, verdicts, findings and counts
	Suite    string        `json:"suite"`  // version of fsbench
	Subject  Subject       `json:"subject"`
	Seed     uint64        `json:"seed"`
	Profile  string        `json:"profile,omitempty"`
	Rules    []RuleResult  `json:"rules"`
	Findings []Finding     `json:"findings"`
	Broken   []BrokenRun   `json:"broken,omitempty"`
	Totals   Totals        `json:"totals"`
	Coverage Coverage      `json:"coverage"`
	Skipped  []SkippedRuns `json:"skipped,omitempty"`
}

// Subject is what was judged.
type Subject struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// RuleResult is the verdict on one rule.
type RuleResult struct {
	ID        spec.RuleID          `json:"id"`
	Title     string               `json:"title"`
	Strength  spec.Strength        `json:"strength"`
	Verdict   Verdict              `json:"verdict"`
	Exercised int                  `json:"exercised"`
	Sandboxes map[string]InSandbox `json:"sandboxes"`
	Scenarios int                  `json:"scenarios"` // that exercised it
	Mutants   []string             `json:"mutants"`
	Skips     []SkipCount          `json:"skips"`
	Waiver    *Waiver              `json:"waiver,omitempty"`
}

// InSandbox is a rule's share of one kind of sandbox.
type InSandbox struct {
	Verdict   Verdict     `json:"verdict"`
	Exercised int         `json:"exercised"`
	Skips     []SkipCount `json:"skips"`
}

// SkipCount says how many scenarios were skipped for one reason.
type SkipCount struct {
	Reason string `json:"reason"`
	Count  int    `json:"count"`
}

// SkippedRuns is SkipCount for a whole run, by sandbox.
type SkippedRuns struct {
	Sandbox string `json:"sandbox"`
	SkipCount
}

// Finding is one broken rule with the evidence and the way to see it again.
type Finding struct {
	Rule     spec.RuleID   `json:"rule"`
	Title    string        `json:"title"`
	Strength spec.Strength `json:"strength"`
	Scenario string        `json:"scenario"`
	Sandbox  string        `json:"sandbox"`
	Call     spec.CallID   `json:"call"`
	Got      string        `json:"got"`
	Want     []string      `json:"want"`
	Replay   string        `json:"replay"` // a command line
	Origin   string        `json:"origin,omitempty"`
	Count    int           `json:"count"` // exchanges that broke the rule; this is the first
	Waived   bool          `json:"waived,omitempty"`
}

// BrokenRun is a failure of the bench itself.
type BrokenRun struct {
	Scenario string `json:"scenario"`
	Sandbox  string `json:"sandbox"`
	Error    string `json:"error"`
}

// Totals counts what was done.
type Totals struct {
	Scenarios     int         `json:"scenarios"`
	Calls         int         `json:"calls"`
	Events        int         `json:"events"`
	Faults        FaultTotals `json:"faults"`
	WithFault     int         `json:"scenarios_with_fault"` // in which at least one fault fired
	Generated     int         `json:"generated"`
	GeneratedHit  int         `json:"generated_with_fault"`
	CrashStates   int         `json:"crash_states"`
	Interleavings int         `json:"interleavings"`
	Skipped       int         `json:"skipped"`
}

// FaultTotals counts injections.
type FaultTotals struct {
	Planned   int `json:"planned"`
	Fired     int `json:"fired"` // injections that fired at least once
	Kernel    int `json:"kernel"`
	Synthetic int `json:"synthetic"`
	Strikes   int `json:"strikes"` // times that they did
}

// Coverage counts what the calls met. A zero is a hole in the scenarios.
type Coverage struct {
	Calls   map[string]int `json:"calls"`   // by kind
	Errnos  map[string]int `json:"errnos"`  // that struck
	Brokers map[string]int `json:"brokers"` // that were asked, by script
}

// digested is what the digest covers: nothing of the machine, of times or of
// where files were written.
type digested struct {
	Rules    []RuleResult
	Findings []Finding
	Totals   Totals
	Coverage Coverage
}

// seal computes the digest of r.
func (r *Report) seal() error {
	d := digested{r.Rules, make([]Finding, len(r.Findings)), r.Totals, r.Coverage}
	for i, f := range r.Findings {
		f.Replay = ""
		d.Findings[i] = f
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("digest report: %w", err)
	}
	sum := sha256.Sum256(raw)
	r.Digest = "sha256:" + hex.EncodeToString(sum[:])
	return nil
}

// WriteJSON writes r in its canonical form.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// ReadJSON reads what WriteJSON wrote. name is for errors.
func ReadJSON(rd io.Reader, name string) (*Report, error) {
	var r Report
	dec := json.NewDecoder(rd)
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("%s: want a report as fsbench run writes it: %w", name, err)
	}
	if r.Schema != Schema {
		return nil, fmt.Errorf("%s: report schema %d, want %d", name, r.Schema, Schema)
	}
	return &r, nil
}

// Exit codes of the commands that judge.
const (
	ExitOK           = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitBroken       = 3
	ExitInconclusive = 4
)

// ExitCode says what r amounts to: 3 if the bench broke, else 1 if a MUST rule is
// broken or a waiver is stale, else 4 if a rule that was to be put to the test
// never conclusively was, else 0.
func (r *Report) ExitCode() int {
	code := ExitOK
	for _, rule := range r.Rules {
		switch {
		case rule.Verdict == Broken:
			return ExitBroken
		case rule.Verdict == Stale, rule.Verdict == Fail && rule.Strength == spec.Must:
			code = ExitFailed
		case rule.Verdict == Inconclusive && code == ExitOK:
			code = ExitInconclusive
		}
	}
	if len(r.Broken) > 0 {
		return ExitBroken
	}
	return code
}
