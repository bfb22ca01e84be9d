package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// text writes the maps and the findings for people.
func (r *exploration) text(w io.Writer) {
	fmt.Fprintf(w, "fsbench %s  subject %s %s  sandbox %s  engine %s\n",
		fsbench.Version, spec.Printable(r.subject.Name), spec.Printable(r.subject.Version), r.sandbox, r.engine)
	if r.engine.Why != "" {
		fmt.Fprintln(w, style().Warn("what takes the results of calls cannot be tried, for want of a better engine: "+r.engine.Why))
	}
	if r.loose {
		fmt.Fprintln(w, style().Warn("the subject is trusted: nothing keeps it from the rest of this machine"))
	}
	for _, f := range r.controls {
		word := style().Good("red, as it must be")
		switch {
		case f.red:
		case f.steps == 0:
			word = style().Warn("no step was seen; wanted")
		default:
			word = style().Bad("GREEN; wanted")
		}
		fmt.Fprintf(w, "control %s (%s): %s: %s\n", f.Mutant, f.Bad, word, f.Control)
	}
	fmt.Fprintln(w, "numbers are points that pass; BAD break a rule, ? did not strike, - could not be tried")
	steps, points, struck, unknown, runs, findings := 0, 0, 0, 0, 0, 0
	var fired explore.Fired
	for _, m := range r.maps {
		r.table(w, m)
		r.findings(w, m)
		steps, points, struck, unknown = steps+len(m.Steps), points+len(m.Points), struck+m.Struck(), unknown+m.Unknown()
		runs, findings = runs+m.Runs, findings+len(m.Findings)
		fired = fired.Plus(m.Fired())
	}
	fmt.Fprintf(w, "\nfaults that struck: %d of the kernel itself, %d in its place\n", fired.Kernel, fired.Synthetic)
	fmt.Fprintf(w, "steps: %d points: %d struck: %d unknown: %d runs: %d findings: %d\n", steps, points, struck, unknown, runs, findings)
}

// table writes what came of one call: a line for each step, a column for each group of
// effects.
func (r *exploration) table(w io.Writer, m explore.Map) {
	fmt.Fprintf(w, "\n%s: %s\n", m.Base.Name, m.Base.Title)
	if why := m.Skip(); why != "" {
		fmt.Fprintf(w, "skipped: %s\n", spec.Printable(why))
		return
	}
	t := table.NewWriter()
	t.SetOutputMirror(w)
	t.SetStyle(table.StyleLight)
	head := table.Row{"", "step"}
	for _, g := range groups(m) {
		head = append(head, g)
	}
	t.AppendHeader(head)
	cells, denials, pairs := tally(m)
	for i, s := range m.Steps {
		name := s.Key
		if s.Call != "" {
			name += " (" + s.Call + ")"
		}
		row := table.Row{i + 1, spec.Printable(name)}
		for _, g := range groups(m) {
			row = append(row, cells[s.Key][g].String())
		}
		t.AppendRow(row)
	}
	if len(m.Steps) > 0 && m.Blank() == "" {
		t.Render()
	}
	outside(w, m)
	if why := m.Blank(); why != "" {
		fmt.Fprintf(w, "%s: %s\n", style().Warn("not explored"), why)
	}
	fmt.Fprintf(w, "%d steps, %d points: %d pass", len(m.Steps), len(m.Points), m.Count(explore.Pass))
	for _, v := range explore.Verdicts[1:] {
		if n := m.Count(v); n > 0 {
			fmt.Fprintf(w, ", %d %s", n, v)
		}
	}
	fmt.Fprintf(w, "; in %d the subject said that it cannot tell\n", m.Unknown())
	if denials != nil {
		fmt.Fprintf(w, "denials of the whole call: %s%s\n", denials, unmet(m))
	}
	if o := m.Orders; o.Choices > 0 {
		fmt.Fprintf(w, "at %d of the steps another thread could have come first; orders tried: %d, distinct: %d, known and left: %d\n",
			o.Choices, o.Tried, o.Distinct, o.Left)
	}
	if pairs != nil {
		fmt.Fprintf(w, "pairs: %s", pairs)
		if m.Left > 0 {
			fmt.Fprintf(w, ", of %d", m.Left+pairs.total())
		}
		fmt.Fprintln(w)
	}
}

// unmet names the denials that the subject did not come upon.
func unmet(m explore.Map) string {
	var names []string
	for _, p := range m.Points {
		if p.Verdict == explore.Inconclusive && len(p.Strikes) > 0 && p.Strikes[0].Effect.Group == explore.Denial {
			names = append(names, p.Strikes[0].Effect.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; not met: " + strings.Join(names, "; ")
}

// groups returns the kinds of effect that m has to show.
func groups(m explore.Map) []explore.Group {
	return slices.DeleteFunc(slices.Clone(explore.Groups), func(g explore.Group) bool {
		return g == explore.Order && m.Orders.Choices == 0
	})
}

// outside tells what the subject went for outside the root, and names what it wanted
// to change there.
func outside(w io.Writer, m explore.Map) {
	if len(m.Touched) == 0 {
		return
	}
	reads := 0
	var writes []string
	for _, t := range m.Touched {
		if t.Writes {
			writes = append(writes, t.Path)
		} else {
			reads++
		}
	}
	fmt.Fprintf(w, "outside the root it looks at %d paths", reads)
	if len(writes) > 0 {
		fmt.Fprintf(w, " and wants to change %s", spec.Printable(strings.Join(writes, " ")))
	}
	fmt.Fprintln(w)
}

// cell counts points by verdict.
type cell map[explore.Verdict]int

func (c cell) total() int {
	n := 0
	for _, k := range c {
		n += k
	}
	return n
}

// String shows how many passed, and marks the others.
func (c cell) String() string {
	var out []string
	if n := c[explore.Pass]; n > 0 {
		out = append(out, style().Good(strconv.Itoa(n)))
	}
	if n := c[explore.Fail]; n > 0 {
		out = append(out, style().Bad(fmt.Sprintf("%d BAD", n)))
	}
	if n := c[explore.Inconclusive]; n > 0 {
		out = append(out, style().Warn(fmt.Sprintf("%d?", n)))
	}
	if n := c[explore.Skip] + c[explore.Broken]; n > 0 {
		out = append(out, fmt.Sprintf("%d-", n))
	}
	if len(out) == 0 {
		return style().Dim(".")
	}
	return strings.Join(out, " ")
}

// tally counts the single points of m by step and group, the denials together, and the
// pairs together.
func tally(m explore.Map) (cells map[string]map[explore.Group]cell, denials, pairs cell) {
	cells = map[string]map[explore.Group]cell{}
	count := func(c *cell, p explore.Point) {
		if *c == nil {
			*c = cell{}
		}
		(*c)[p.Verdict]++
	}
	for _, p := range m.Points {
		switch {
		case len(p.Strikes) == 0:
			continue
		case p.Turns() && len(p.Strikes) > 1:
			continue
		case len(p.Strikes) > 1:
			count(&pairs, p)
			continue
		case p.Strikes[0].Effect.Group == explore.Denial:
			count(&denials, p)
			continue
		}
		s := p.Strikes[0]
		if cells[s.Step.Key] == nil {
			cells[s.Step.Key] = map[explore.Group]cell{}
		}
		if cells[s.Step.Key][s.Effect.Group] == nil {
			cells[s.Step.Key][s.Effect.Group] = cell{}
		}
		cells[s.Step.Key][s.Effect.Group][p.Verdict]++
	}
	return cells, denials, pairs
}

// shown bounds the findings of one rule and call that are shown to people.
const shown = 3

// findings writes the first of each rule's; all of them are saved.
func (r *exploration) findings(w io.Writer, m explore.Map) {
	count := map[spec.RuleID]int{}
	for _, f := range m.Findings {
		count[f.Rule]++
		if count[f.Rule] > shown {
			continue
		}
		fmt.Fprintf(w, "\n%s %s: %s\n", f.Rule, style().Bad("broken"), ruleOf(f.Rule).Title)
		fmt.Fprintf(w, "  %s, point %d: %s\n", m.Base.Name, f.Point, m.Points[f.Point])
		fmt.Fprintf(w, "  got   %s\n", spec.Printable(f.Got))
		for i, want := range f.Want {
			label := "want "
			if i > 0 {
				label = "  or "
			}
			fmt.Fprintf(w, "  %s %s\n", label, spec.Printable(want))
		}
		if f.Of > 0 {
			fmt.Fprintf(w, "  seen again in %d of %d\n", f.Again, f.Of)
		}
		fmt.Fprintf(w, "  replay: %s\n", r.replay(f))
	}
	for _, rule := range spec.Rules {
		if n := count[rule.ID] - shown; n > 0 {
			fmt.Fprintf(w, "\n%s: and %d more of %s, in %s\n", rule.ID, n, m.Base.Name, r.dir)
		}
	}
}

// The shapes of explore --json.
type (
	stepJSON struct {
		Scenario string `json:"scenario"`
		Key      string `json:"key"`
		Call     string `json:"call"` // the system call, or the port's operation
	}
	strikeJSON struct {
		Step   string `json:"step"`
		Effect string `json:"effect"`
	}
	findingJSON struct {
		Rule spec.RuleID `json:"rule"`
		strikeJSON
		Second   *strikeJSON `json:"second,omitempty"` // of a pair
		Scenario string      `json:"scenario"`
		Point    int         `json:"point"`
		Got      string      `json:"got"`
		Want     []string    `json:"want"`
		Again    int         `json:"again"` // of the runs in which it was tried again
		Of       int         `json:"of"`
		Replay   string      `json:"replay"`
	}
	controlJSON struct {
		Mutant string      `json:"mutant"`
		Rule   spec.RuleID `json:"rule"`
		Step   string      `json:"step"`
		Effect string      `json:"effect"`
		Red    bool        `json:"red"`
	}
	ordersJSON struct {
		Choices  int `json:"choices"` // steps at which another thread could have come first
		Tried    int `json:"tried"`
		Distinct int `json:"distinct"`
		Left     int `json:"left"`
	}
	callJSON struct {
		Scenario string                  `json:"scenario"`
		Skip     string                  `json:"skip,omitempty"`
		Blank    string                  `json:"not_explored,omitempty"` // why, although the call was made
		Steps    int                     `json:"steps"`
		Points   int                     `json:"points"`
		Struck   int                     `json:"struck"`
		Unknown  int                     `json:"unknown"`           // the subject said that it cannot tell
		Left     int                     `json:"left"`              // pairs that were not tried
		Orders   ordersJSON              `json:"orders"`            // of the steps of the subject's threads
		Touched  []faults.Touch          `json:"touched,omitempty"` // outside the root
		Verdicts map[explore.Verdict]int `json:"verdicts"`
		Effects  map[explore.Group]int   `json:"effects"` // points, by the group of the first effect
		Faults   explore.Fired           `json:"faults"`  // that struck
	}
	exploreJSON struct {
		Subject  string        `json:"subject"`
		Version  string        `json:"version"`
		Sandbox  string        `json:"sandbox"`
		Engine   string        `json:"engine"`
		Limits   string        `json:"engine_limits,omitempty"`
		Trusted  bool          `json:"trusted_subject,omitempty"` // it ran without a jail
		Runs     int           `json:"runs"`
		Faults   explore.Fired `json:"faults"` // that struck
		Steps    []stepJSON    `json:"steps"`
		Calls    []callJSON    `json:"calls"`
		Findings []findingJSON `json:"findings"`
		Controls []controlJSON `json:"controls"`
	}
)

func (r *exploration) json() exploreJSON {
	out := exploreJSON{
		Subject: r.subject.Name, Version: r.subject.Version, Sandbox: r.sandbox, Engine: string(r.engine.Name), Limits: r.engine.Name.Limits(), Trusted: r.loose,
		Steps: []stepJSON{}, Calls: []callJSON{}, Findings: []findingJSON{}, Controls: []controlJSON{},
	}
	for _, f := range r.controls {
		out.Controls = append(out.Controls, controlJSON{f.Mutant, f.Rule, f.Ops[0] + " " + f.Path, f.Effect, f.red})
	}
	for _, m := range r.maps {
		out.Runs += m.Runs
		out.Faults = out.Faults.Plus(m.Fired())
		c := callJSON{
			Scenario: m.Base.Name, Skip: m.Skip(), Blank: m.Blank(), Steps: len(m.Steps), Points: len(m.Points), Struck: m.Struck(),
			Unknown: m.Unknown(), Left: m.Left, Orders: ordersJSON(m.Orders), Touched: m.Touched, Verdicts: map[explore.Verdict]int{}, Effects: map[explore.Group]int{},
			Faults: m.Fired(),
		}
		for _, s := range m.Steps {
			out.Steps = append(out.Steps, stepJSON{m.Base.Name, s.Key, cmp.Or(s.Call, string(s.Op))})
		}
		for _, p := range m.Points {
			c.Verdicts[p.Verdict]++
			if len(p.Strikes) > 0 {
				c.Effects[p.Strikes[0].Effect.Group]++
			}
		}
		out.Calls = append(out.Calls, c)
		for _, f := range m.Findings {
			out.Findings = append(out.Findings, r.finding(m, f))
		}
	}
	return out
}

func (r *exploration) finding(m explore.Map, f explore.Finding) findingJSON {
	out := findingJSON{
		Rule: f.Rule, Scenario: m.Base.Name, Point: f.Point, Got: f.Got, Want: f.Want, Again: f.Again, Of: f.Of, Replay: r.replay(f),
	}
	out.Effect = "undisturbed"
	for i, s := range m.Points[f.Point].Strikes {
		strike := strikeJSON{s.Step.Key, s.Effect.Name}
		if i == 0 {
			out.strikeJSON = strike
		} else {
			out.Second = &strike
		}
	}
	return out
}
