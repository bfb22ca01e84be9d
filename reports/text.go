package reports

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/fsbench/fsbench/spec"
)

// Style colours words for a terminal. The zero Style leaves them plain.
type Style struct {
	Good, Bad, Warn, Dim func(string) string
}

func apply(f func(string) string, s string) string {
	if f == nil || s == "" {
		return s
	}
	return f(s)
}

func (st Style) verdict(v Verdict) string {
	switch v {
	case Pass:
		return apply(st.Good, string(v))
	case Fail, Broken, Stale:
		return apply(st.Bad, string(v))
	case Waived, Inconclusive:
		return apply(st.Warn, string(v))
	case Skip:
	}
	return string(v)
}

// WriteText writes r for people. Rules that passed are counted by family; with all
// set every rule has a line.
func (r *Report) WriteText(w io.Writer, st Style, all bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "fsbench %s  subject %s %s  seed %d\n", r.Suite, spec.Printable(r.Subject.Name), spec.Printable(r.Subject.Version), r.Seed)
	t := r.Totals
	fmt.Fprintf(&b, "%d scenarios (%d generated), %d calls, %d events, %d crash states\n",
		t.Scenarios, t.Generated, t.Calls, t.Events, t.CrashStates)
	fmt.Fprintf(&b, "faults: %d planned, %d fired (%d by the kernel, %d synthetic), %d strikes; a fault fired in %s of the generated scenarios\n",
		t.Faults.Planned, t.Faults.Fired, t.Faults.Kernel, t.Faults.Synthetic, t.Faults.Strikes, percent(t.GeneratedHit, t.Generated))
	for _, c := range []struct {
		name string
		m    map[string]int
	}{{"calls", r.Coverage.Calls}, {"errnos", r.Coverage.Errnos}, {"handlers", r.Coverage.Brokers}} {
		fmt.Fprintf(&b, "%s:", c.name)
		for _, k := range slices.Sorted(maps.Keys(c.m)) {
			fmt.Fprintf(&b, " %s %d", k, c.m[k])
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	r.families(&b, st)
	r.exceptions(&b, st, all)
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "skipped on %s: %d scenarios: %s\n", s.Sandbox, s.Count, spec.Printable(s.Reason))
	}
	for _, f := range r.Findings {
		b.WriteString("\n")
		writeFinding(&b, f, st)
	}
	for _, br := range r.Broken {
		fmt.Fprintf(&b, "\n%s in scenario %s on %s: %s\n", apply(st.Bad, "the bench broke"), br.Scenario, br.Sandbox, spec.Printable(br.Error))
	}
	fmt.Fprintf(&b, "\n%s\ndigest %s\n", r.summary(st), r.Digest)
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(n, of int) string {
	if of == 0 {
		return "none"
	}
	return fmt.Sprintf("%d %%", 100*n/of)
}

// families writes one line for each family of rules.
func (r *Report) families(b *strings.Builder, st Style) {
	tw := table{tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)}
	count := map[string]map[Verdict]int{}
	exercised := map[string]map[string]int{}
	var order []string
	for _, rule := range r.Rules {
		f := rule.ID.Family()
		if count[f] == nil {
			count[f], exercised[f] = map[Verdict]int{}, map[string]int{}
			order = append(order, f)
		}
		count[f][rule.Verdict]++
		for name, box := range rule.Sandboxes {
			exercised[f][name] += box.Exercised
		}
	}
	for _, f := range order {
		var parts []string
		for _, v := range []Verdict{Pass, Fail, Stale, Broken, Waived, Inconclusive, Skip} {
			if n := count[f][v]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, st.verdict(v)))
			}
		}
		var boxes []string
		for _, name := range slices.Sorted(maps.Keys(exercised[f])) {
			boxes = append(boxes, fmt.Sprintf("%s %d", name, exercised[f][name]))
		}
		tw.row("%s\t%s\texercised: %s\n", f, strings.Join(parts, ", "), strings.Join(boxes, ", "))
	}
	tw.end()
}

// table lines up columns in memory, where writing cannot fail.
type table struct{ w *tabwriter.Writer }

func (t table) row(format string, args ...any) { _, _ = fmt.Fprintf(t.w, format, args...) }

func (t table) end() { _ = t.w.Flush() }

// exceptions writes a line for each rule that did not pass everywhere.
func (r *Report) exceptions(b *strings.Builder, st Style, all bool) {
	tw := table{tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)}
	for _, rule := range r.Rules {
		for _, name := range slices.Sorted(maps.Keys(rule.Sandboxes)) {
			box := rule.Sandboxes[name]
			if box.Verdict == Pass && !all {
				continue
			}
			why := ""
			if box.Verdict == Skip || box.Verdict == Inconclusive {
				for _, s := range box.Skips {
					why += fmt.Sprintf(" (%d scenarios: %s)", s.Count, spec.Printable(s.Reason))
				}
			}
			tw.row("%s\t%s\t%s\t%d\t%s%s\n", rule.ID, name, st.verdict(box.Verdict), box.Exercised, rule.Title, apply(st.Dim, why))
		}
	}
	tw.end()
}

// writeFinding says, in this order: the rule, what was seen, everything that was
// allowed, and how to see it again.
func writeFinding(b *strings.Builder, f Finding, st Style) {
	word := apply(st.Bad, "broken")
	switch {
	case f.Waived:
		word = apply(st.Warn, "waived")
	case f.Strength != "MUST":
		word = apply(st.Warn, "warning")
	}
	fmt.Fprintf(b, "%s %s: %s\n", f.Rule, word, f.Title)
	fmt.Fprintf(b, "  scenario %s on %s, call %d", f.Scenario, f.Sandbox, f.Call)
	if f.Count > 1 {
		fmt.Fprintf(b, " (and %d more)", f.Count-1)
	}
	fmt.Fprintf(b, "\n  got   %s\n", spec.Printable(f.Got))
	for i, want := range f.Want {
		label := "want "
		if i > 0 {
			label = "  or "
		}
		fmt.Fprintf(b, "  %s %s\n", label, spec.Printable(want))
	}
	if f.Replay != "" {
		fmt.Fprintf(b, "  replay: %s\n", f.Replay)
	}
	if f.Origin != "" {
		fmt.Fprintf(b, "  %s\n", apply(st.Dim, f.Origin))
	}
}

func (r *Report) summary(st Style) string {
	n := map[Verdict]int{}
	for _, rule := range r.Rules {
		n[rule.Verdict]++
	}
	var parts []string
	for _, v := range []Verdict{Pass, Fail, Stale, Broken, Waived, Inconclusive, Skip} {
		if n[v] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[v], st.verdict(v)))
		}
	}
	rules := "rules"
	if len(r.Rules) == 1 {
		rules = "rule"
	}
	return fmt.Sprintf("%d %s: %s", len(r.Rules), rules, strings.Join(parts, ", "))
}
