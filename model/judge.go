package model

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

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
	for i := range events {
		j.event(&events[i])
	}
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
	m      Model
	v      Verdict
	header *trace.Header
	states []State // every way in which the sandbox may be, as far as seen
	world  spec.World
	known  versions
	x      *Exchange
	wire   []trace.WireFault // seen outside any call
}

func (j *judge) event(e *trace.Event) {
	switch {
	case e.Header != nil:
		j.header = e.Header
	case e.Invoke != nil:
		j.x = &Exchange{Header: j.header, Call: *e.Invoke, Before: j.world, Wire: j.wire, Seq: []uint64{e.Seq}}
		j.wire = nil
		j.x.Expect = j.known.meaning(j.header, j.world, j.x.Call)
	case e.Wire != nil && j.x == nil:
		j.wire = append(j.wire, *e.Wire)
	case j.x == nil:
		j.between(e)
	case e.Return != nil:
		j.x.Out = *e.Return
		j.x.Seq = append(j.x.Seq, e.Seq)
		j.judge()
		j.x = nil
	default:
		j.within(e)
	}
}

// between takes in what is seen outside any call.
func (j *judge) between(e *trace.Event) {
	switch {
	case e.World != nil:
		j.known.seen(j.world, e.World)
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
	case e.World != nil:
		x.After = e.World
		x.Seq = append(x.Seq, e.Seq)
	}
}

func (j *judge) judge() {
	x := j.x
	j.states = j.match(x)
	for _, c := range Checks {
		applied, broken := c.Run(x)
		if applied > 0 {
			j.v.Exercised[c.Rule] += applied
		}
		for _, f := range broken {
			f.Rule = c.Rule
			j.found(f)
		}
	}
	j.known.learn(x)
	if x.After != nil {
		j.known.seen(j.world, x.After)
		j.world = x.After
	}
}

func (j *judge) found(f Finding) {
	f.Call = j.x.Call.ID
	if f.Seq == nil {
		f.Seq = j.x.Seq
	}
	j.v.Findings = append(j.v.Findings, f)
}

// match keeps the states that explain the answer and the observed tree. Where
// the tree was not observed, it keeps all that explain the answer; an unknown
// answer is explained by every branch.
func (j *judge) match(x *Exchange) []State {
	var next []State
	var all, fits []Branch
	for _, s := range j.states {
		for _, b := range j.m.Branches(s, x) {
			all = append(all, b)
			if !b.answers(x) {
				continue
			}
			fits = append(fits, b)
			if x.After == nil || len(differences(b, x)) == 0 {
				next = append(next, b.Next)
			}
		}
	}
	j.exercise(all, fits)
	if len(next) == 0 {
		j.blame(x, all, fits)
	}
	if x.After != nil {
		// What was observed is more than any branch can say: modes, owners, times.
		return []State{j.m.Init(x.After)}
	}
	return next
}

// answers reports whether b says what the subject said.
func (b Branch) answers(x *Exchange) bool {
	switch {
	case b.Status != x.Out.Status:
		return false
	case b.Status == spec.StatusFailed:
		return len(b.Errs) == 0 || slices.Contains(b.Errs, x.Out.Err)
	case b.HasContent && b.Status == spec.StatusOK:
		return string(b.Content) == string(x.Out.Content)
	}
	return true
}

// exercise counts the rules that this exchange could have broken: those that
// decide the tree behind the answer that was given, and those that allowed one
// kind of answer only.
func (j *judge) exercise(all, fits []Branch) {
	set := map[spec.RuleID]bool{}
	for _, b := range fits {
		set[b.Rule] = true
	}
	if must, ok := only(all); ok {
		set[must] = true
	}
	delete(set, "")
	set["OC-001"], set["OC-003"] = true, true
	for id := range set {
		j.v.Exercised[id]++
	}
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
		f.Rule = wrongAnswer(x, all)
		j.found(f)
		return
	}
	best := fits[0]
	for _, b := range fits[1:] {
		if len(differences(b, x)) < len(differences(best, x)) {
			best = b
		}
	}
	rules := map[spec.RuleID]string{}
	for _, d := range differences(best, x) {
		if _, dup := rules[d.rule(best, x)]; !dup {
			rules[d.rule(best, x)] = d.path
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rules)) {
		f.Rule = id
		f.Got = fmt.Sprintf("%s (see %s)", gotString(x), rules[id])
		j.found(f)
	}
}

// wrongAnswer names the rule that an answer breaks which no branch gives.
func wrongAnswer(x *Exchange, all []Branch) spec.RuleID {
	must, one := only(all)
	switch {
	case x.Out.Status == spec.StatusUnknown:
		return "OC-003"
	case one && x.Out.Status == spec.StatusOK && all[0].Status == spec.StatusOK && all[0].HasContent:
		return all[0].Rule // it answered, with other bytes
	case one:
		return must
	case x.Out.Status == spec.StatusFailed:
		for _, b := range all {
			if b.Status == spec.StatusFailed {
				return "OC-005"
			}
		}
	case x.Out.Status == spec.StatusOK:
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
