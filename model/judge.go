package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Verdict is what a trace says of the rules.
type Verdict struct {
	Findings []Finding

	// Exercised counts, for every rule, the exchanges in which it could have been
	// broken. A rule that is not in it was neither kept nor broken.
	Exercised map[spec.RuleID]int
}

// Judge replays events against m and runs every check. It needs nothing but the
// trace, so that old traces can be judged again by a newer model.
func Judge(m Model, events []trace.Event) Verdict {
	j := &judge{m: m, v: Verdict{Exercised: map[spec.RuleID]int{}}, known: versions{}}
	j.meet(&trace.Header{})
	for i := range events {
		j.event(&events[i])
	}
	j.trailing()
	slices.SortStableFunc(j.v.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Rule, b.Rule))
	})
	return j.v
}

// Checked returns the rules that Judge can find broken, ordered.
func Checked() []spec.RuleID {
	set := map[spec.RuleID]bool{}
	for _, id := range branchRules {
		set[id] = true
	}
	for _, c := range Checks {
		set[c.Rule] = true
	}
	return slices.Sorted(maps.Keys(set))
}

// judge is a judgement under way.
type judge struct {
	m       Model
	v       Verdict
	header  *trace.Header
	unbound map[spec.RuleID]bool // rules for roles that the subject does not claim
	states  []State              // every way in which the sandbox may be; none until it was seen
	world   spec.World           // as it was seen after the last call or edit; nil if it was not
	known   versions
	x       *Exchange         // the call under way
	last    *Exchange         // the call before
	wire    []trace.WireFault // seen outside any call
}

func (j *judge) event(e *trace.Event) {
	switch {
	case e.Header != nil:
		j.meet(e.Header)
	case e.Invoke != nil:
		j.x = &Exchange{Header: j.header, Call: *e.Invoke, Before: j.world, Wire: j.wire, Seq: []uint64{e.Seq}, known: j.known}
		j.wire = nil
		j.x.Expect = j.known.meaning(j.x)
	case e.Wire != nil && j.x == nil:
		j.wire = append(j.wire, *e.Wire)
	case j.x == nil:
		j.between(e)
	case e.Return != nil:
		j.x.Out = *e.Return
		j.x.Seq = append(j.x.Seq, e.Seq)
		j.judge()
		j.last, j.x = j.x, nil
	default:
		j.within(e)
	}
}

// meet takes in what the subject claims. A rule for a role that it does not claim
// does not bind it.
func (j *judge) meet(h *trace.Header) {
	j.header, j.unbound = h, map[spec.RuleID]bool{}
	for _, r := range spec.Rules {
		if r.Role != toolsRole && !slices.Contains(h.Claims, r.Role) {
			j.unbound[r.ID] = true
		}
	}
}

// toolsRole is the role of whatever is called: its rules always bind.
const toolsRole = "tools"

// between takes in what is seen outside any call.
func (j *judge) between(e *trace.Event) {
	switch {
	case e.World != nil:
		j.known.seen(e.World)
		j.world = e.World
		j.states = []State{j.m.Init(e.World)}
	case e.Edit != nil:
		j.known.touched(e.Edit.Path, e.Edit.Op)
		j.known.touched(e.Edit.To, e.Edit.Op)
	}
}

// within takes in what is seen during a call.
func (j *judge) within(e *trace.Event) {
	x := j.x
	switch {
	case e.Fault != nil && e.Fault.Effect == trace.EffectDelay:
		// Who has to wait is promised nothing less.
	case e.Fault != nil:
		x.Fired = append(x.Fired, *e.Fault)
	case e.Edit != nil:
		s := Swapped{Edit: *e.Edit}
		if n := len(x.Fired); n > 0 {
			s.At = x.Fired[n-1]
		}
		x.Edits = append(x.Edits, s)
	case e.Consult != nil:
		x.Consults = append(x.Consults, *e.Consult)
	case e.Diag != nil:
		x.Diags = append(x.Diags, *e.Diag)
	case e.Wire != nil:
		x.Wire = append(x.Wire, *e.Wire)
	case e.Log != nil:
		x.Log = append(x.Log, *e.Log)
	case e.Crash != nil:
		x.Crashed = true
	case e.Glimpse != nil:
		x.Glimpses = append(x.Glimpses, *e.Glimpse)
	case e.Left != nil:
		x.Left = append(x.Left, e.Left.Paths...)
	case e.World != nil:
		x.After = e.World
		x.Seq = append(x.Seq, e.Seq)
	}
}

func (j *judge) judge() {
	x := j.x
	at := map[spec.RuleID]bool{}
	x.trees = stages(x.Before, x.Edits)
	j.states = j.match(x, at)
	if x.Before != nil {
		j.check(x, Checks, at)
	}
	for id := range at {
		j.v.Exercised[id]++
	}
	j.known.learn(x)
	if x.After != nil {
		j.known.seen(x.After)
	}
	j.world = x.After
}

// check runs checks on x and notes in at the rules that applied.
func (j *judge) check(x *Exchange, checks []Check, at map[spec.RuleID]bool) {
	for _, c := range checks {
		if j.unbound[c.Rule] {
			continue
		}
		applied, broken := c.Run(x)
		if applied {
			at[c.Rule] = true
		}
		for _, f := range broken {
			f.Rule = c.Rule
			j.found(x, f)
		}
	}
}

// trailing judges departures from the protocol after the last answer, by the call
// that came last.
func (j *judge) trailing() {
	if len(j.wire) == 0 || j.last == nil {
		return
	}
	x := *j.last
	x.Wire = j.wire
	j.check(&x, wireChecks, map[spec.RuleID]bool{})
}

func (j *judge) found(x *Exchange, f Finding) {
	f.Call = x.Call.ID
	if j.unbound[f.Rule] {
		f.Rule = "OC-001"
	}
	if f.Seq == nil {
		f.Seq = x.Seq
	}
	f.Got, f.Want = x.withoutRoot(f.Got), slices.Clone(f.Want)
	for i, want := range f.Want {
		f.Want[i] = x.withoutRoot(want)
	}
	j.v.Findings = append(j.v.Findings, f)
}

// withoutRoot returns text without the place where this run happened to be: the
// same finding reads the same everywhere.
func (x *Exchange) withoutRoot(text string) string {
	if x.Header.Root == "" {
		return text
	}
	return strings.ReplaceAll(text, x.Header.Root, "{root}")
}

// match keeps the states that explain the answer and the observed tree, and notes
// in at the rules that were at stake. Where the tree was not observed, it keeps all
// that explain the answer; an unknown answer is explained by every branch that
// allows one.
func (j *judge) match(x *Exchange, at map[spec.RuleID]bool) []State {
	var next, allowed []State
	var all, fits []Branch
	for _, s := range j.states {
		for _, b := range j.m.Branches(s, x) {
			all, allowed = append(all, b), append(allowed, b.Next)
			if !b.answers(x.Out) {
				continue
			}
			fits = append(fits, b)
			if x.After == nil || len(differences(b, x)) == 0 {
				next = append(next, b.Next)
			}
		}
	}
	for id := range atStake(x, all, fits) {
		if !j.unbound[id] {
			at[id] = true
		}
	}
	if len(all) > 0 && len(next) == 0 {
		j.blame(x, all, fits)
		next = allowed
	}
	if x.After != nil {
		// What was observed is more than any branch can say: modes, owners, times.
		return []State{j.m.Init(x.After)}
	}
	return distinctStates(next)
}

// distinctStates returns states without repetitions, in order.
func distinctStates(states []State) []State {
	var out []State
	for _, s := range states {
		if !slices.ContainsFunc(out, func(o State) bool { return maps.EqualFunc(s.World, o.World, alike) }) {
			out = append(out, s)
		}
	}
	return out
}

// answers reports whether b says what the subject said.
func (b Branch) answers(out spec.Outcome) bool {
	switch {
	case b.Status != out.Status:
		return false
	case b.Status == spec.StatusFailed:
		return len(b.Errs) == 0 || slices.Contains(b.Errs, out.Err)
	case b.HasContent && b.Status == spec.StatusOK:
		return string(b.Content) == string(out.Content)
	}
	return true
}

// only returns the rule that demands the one kind of answer that is allowed.
func only(all []Branch) (spec.RuleID, bool) {
	var must spec.RuleID
	for _, b := range all {
		if b.Must == "" || b.Status != all[0].Status {
			return "", false
		}
		must = cmp.Or(must, b.Must)
	}
	return must, must != ""
}

// blame reports why nothing explains the exchange.
func (j *judge) blame(x *Exchange, all, fits []Branch) {
	want := make([]string, 0, len(all))
	for _, b := range all {
		if s := b.String(); !slices.Contains(want, s) {
			want = append(want, s)
		}
	}
	f := Finding{Got: gotString(x), Want: want}
	if len(fits) == 0 {
		f.Rule = wrongAnswer(x.Out.Status, all)
		j.found(x, f)
		return
	}
	best, least := fits[0], differences(fits[0], x)
	for _, b := range fits[1:] {
		if d := differences(b, x); len(d) < len(least) {
			best, least = b, d
		}
	}
	rules := map[spec.RuleID]string{} // and the first path that shows each broken
	for _, p := range least {
		id := differenceRule(p, best, x)
		rules[id] = cmp.Or(rules[id], p)
	}
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		f.Rule = id
		f.Got = fmt.Sprintf("%s (see %s)", gotString(x), rules[id])
		j.found(x, f)
	}
}

// wrongAnswer names the rule that an answer of a status breaks which no branch
// gives.
func wrongAnswer(status spec.Status, all []Branch) spec.RuleID {
	must, one := only(all)
	switch {
	case status == spec.StatusUnknown:
		return "OC-003"
	case one && status == spec.StatusOK && all[0].Status == spec.StatusOK && all[0].HasContent:
		return all[0].Rule // it answered, with other bytes
	case one:
		return must
	case status == spec.StatusFailed:
		for _, b := range all {
			if b.Status == spec.StatusFailed {
				return "OC-005"
			}
		}
	case status == spec.StatusOK:
		for _, b := range all {
			if b.Status == spec.StatusOK && b.HasContent {
				return b.Rule
			}
		}
		for _, b := range all {
			if b.Must != "" {
				return b.Must
			}
		}
	}
	return "OC-001"
}
