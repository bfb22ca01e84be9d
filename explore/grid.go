package explore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Try runs a scenario and judges the record. An error means that the bench failed.
type Try func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error)

// Options say how a call is explored.
type Options struct {
	Try     Try
	Pairs   int // pairs of effects to be tried, at most; 0 for single effects only
	Replays int // how often each finding is tried again

	// Schedules is how many orders of the steps of the subject's threads are tried, at
	// most, beside the usual one.
	Schedules int

	// Warm makes the call once more at the beginning. It tells whoever orders the steps
	// of a strange subject's threads whether there is anything to order.
	Warm bool

	// Denials also has whole calls refused, for a sandbox that leaves that to the kernel.
	Denials bool

	// Readers has somebody read the tree after every operation of a call that goes wrong.
	// It costs a look each time.
	Readers bool

	// Only says which steps to strike; nil for all.
	Only func(faults.Step) bool

	// Progress hears how many of the points that are known so far are done. It may be
	// nil.
	Progress func(done, of int)
}

// Verdict is what is to be said of one point.
type Verdict string

// The verdicts.
const (
	Pass         Verdict = "pass"
	Fail         Verdict = "fail"
	Inconclusive Verdict = "inconclusive" // what was to strike did not
	Skip         Verdict = "skip"         // the subject or the sandbox cannot
	Broken       Verdict = "broken"       // the bench failed
)

// Verdicts lists every Verdict.
var Verdicts = []Verdict{Pass, Fail, Inconclusive, Skip, Broken}

// Point is one run: what struck where, and what came of it. The point without strikes
// is the call that nobody disturbs.
type Point struct {
	Number  int
	Strikes []Strike
	Watched bool // readers looked after every operation
	Verdict Verdict
	Rules   []spec.RuleID // broken
	Unknown bool          // the subject itself said that it cannot tell what became of the call
	Fired   Fired
	Why     string // of a skip, of what broke, and what did not strike or could not be seen
}

// Fired counts the faults that struck: those of the kernel itself, and those that the
// bench has answered in its place.
type Fired struct {
	Kernel    int `json:"kernel"`
	Synthetic int `json:"synthetic"`
}

// Fired counts the faults that struck at all points.
func (m Map) Fired() Fired {
	var sum Fired
	for _, p := range m.Points {
		sum = sum.Plus(p.Fired)
	}
	return sum
}

// Plus returns the sum of both.
func (f Fired) Plus(g Fired) Fired { return Fired{f.Kernel + g.Kernel, f.Synthetic + g.Synthetic} }

func fired(run runner.Run) Fired {
	var sum Fired
	for _, e := range run.Events {
		switch {
		case e.Fault == nil:
		case e.Fault.By == trace.Kernel:
			sum.Kernel++
		default:
			sum.Synthetic++
		}
	}
	return sum
}

// Finding is one rule that is broken at one point.
type Finding struct {
	Point    int // its number
	Rule     spec.RuleID
	Got      string
	Want     []string
	Scenario scenarios.Scenario

	// Of the runs in which the point was tried again, those that showed it again. Where
	// very many points break rules, the later ones are not tried again.
	Again, Of int
}

// Map is what is known of one call: its steps, and what came of every point.
type Map struct {
	Base     scenarios.Scenario
	Steps    []faults.Step
	Touched  []faults.Touch // outside the root, by the subject from its start to the end of the call
	Points   []Point        // by number
	Findings []Finding
	Runs     int // of the subject
	Left     int // pairs beyond Options.Pairs
	Orders   Orders
}

// Blank says why nothing was tried at the steps of the call although it could be made;
// empty if it was.
func (m Map) Blank() string {
	switch n := len(m.Steps); {
	case len(m.Points) == 1 && m.Points[0].Unknown:
		return "what becomes of the call is not known even if nobody disturbs it"
	case n == 0 && len(m.Points) > 0 && m.Skip() == "" && m.Err() == nil:
		why := "no step of the subject was seen below the root"
		if unseen, _, _ := strings.Cut(m.Points[0].Why, "; "); unseen != "" {
			why += ": " + unseen
		}
		return why
	case n > MostSteps:
		return fmt.Sprintf("the call takes %d steps below the root, and more than %d are not explored", n, MostSteps)
	}
	return ""
}

// Count counts the points with a verdict.
func (m Map) Count(v Verdict) int {
	n := 0
	for _, p := range m.Points {
		if p.Verdict == v {
			n++
		}
	}
	return n
}

// Unknown counts the points of which the subject said that it cannot tell.
func (m Map) Unknown() int {
	n := 0
	for _, p := range m.Points {
		if p.Unknown {
			n++
		}
	}
	return n
}

// Struck counts the points at which everything struck that was to strike.
func (m Map) Struck() int {
	n := 0
	for _, p := range m.Points {
		if len(p.Strikes) > 0 && (p.Verdict == Pass || p.Verdict == Fail) {
			n++
		}
	}
	return n
}

// Scenario returns the scenario of a point.
func (m Map) Scenario(p Point) scenarios.Scenario { return point(m.Base, p) }

// MostSteps is how many steps a call may take to be explored: one that takes more, as
// it likes, would keep the bench busy for days. Of such a call only the steps are known.
const MostSteps = 1000

// Explore runs the call of base once undisturbed, and then once for every effect at
// every step that the subject made. It returns an error if ctx ends, or if a step
// cannot be struck; what else goes wrong with the bench is the verdict of a point.
func Explore(ctx context.Context, base scenarios.Scenario, opt Options) (Map, error) {
	x := &exploration{opt: opt, m: Map{Base: base}}
	if opt.Warm {
		if _, _, err := opt.Try(ctx, point(base, Point{})); ctx.Err() != nil {
			return x.m, err
		}
		x.m.Runs++
	}
	if err := x.run(ctx, []Point{{}}); err != nil {
		return x.m, err
	}
	if p := x.m.Points[0]; p.Verdict == Broken || p.Unknown {
		return x.m, nil // it would be so at every point, and take as long each time
	}
	earlier, err := x.earlier(ctx)
	if err != nil {
		return x.m, err
	}
	x.m.Steps = x.last[0][min(earlier, len(x.last[0])):]
	if len(x.m.Steps) > MostSteps {
		return x.m, nil
	}
	for _, s := range x.m.Steps {
		if err := checkStep(s); err != nil {
			return x.m, err
		}
	}
	singles := x.singles()
	if err := x.run(ctx, singles); err != nil {
		return x.m, err
	}
	traces := x.last
	if err := x.run(ctx, x.denials()); err != nil {
		return x.m, err
	}
	if opt.Pairs > 0 {
		if err := x.run(ctx, x.pairs(singles, traces)); err != nil {
			return x.m, err
		}
	}
	if err := x.orders(ctx, earlier); err != nil {
		return x.m, err
	}
	return x.m, x.again(ctx)
}

// earlier returns the number of steps that the calls before the last one take: they
// only lead up to it, and are not struck.
func (x *exploration) earlier(ctx context.Context) (int, error) {
	lead := clone(x.m.Base)
	lead.Steps = lead.Steps[:len(lead.Steps)-1]
	if len(lead.Calls()) == 0 {
		return 0, nil
	}
	lead.Faults.Trace = true
	run, _, err := x.opt.Try(ctx, lead)
	x.m.Runs++
	if err != nil {
		return 0, fmt.Errorf("%s, without its last call: %w", x.m.Base.Name, err)
	}
	return len(run.Steps), nil
}

// exploration is one under way.
type exploration struct {
	opt  Options
	m    Map
	last [][]faults.Step // what the subject did at each of the points that were run last
}

// tried is the result of one run.
type tried struct {
	run     runner.Run
	verdict model.Verdict
	err     error
}

// run tries points, and appends them to the map with what came of them.
func (x *exploration) run(ctx context.Context, points []Point) error {
	start := len(x.m.Points)
	x.last = make([][]faults.Step, len(points))
	return Ordered(ctx, len(points), func(i int) tried {
		p := points[i]
		p.Number = start + i
		s := point(x.m.Base, p)
		s.Faults.Trace = true
		run, verdict, err := x.opt.Try(ctx, s)
		return tried{run, verdict, err}
	}, func(i int, t tried) {
		p := points[i]
		p.Number = start + i
		p.judge(t)
		x.m.Runs++
		x.m.Points = append(x.m.Points, p)
		for _, f := range firsts(t.verdict.Findings) {
			x.m.Findings = append(x.m.Findings, Finding{
				Point: p.Number, Rule: f.Rule, Got: f.Got, Want: f.Want, Scenario: x.m.Scenario(p),
			})
		}
		x.last[i] = t.run.Steps
		if start+i == 0 {
			x.m.Touched = t.run.Touched
		}
		if x.opt.Progress != nil {
			x.opt.Progress(len(x.m.Points), start+len(points))
		}
	})
}

// judge says of p what came of it. What was to strike and did not proves nothing,
// whatever the subject did; a rule that is broken all the same is broken.
func (p *Point) judge(t tried) {
	for _, f := range firsts(t.verdict.Findings) {
		p.Rules = append(p.Rules, f.Rule)
	}
	p.Unknown, p.Fired = saidUnknown(t.run), fired(t.run)
	// Readers have nothing to look at where nothing was done any more.
	unfired := slices.DeleteFunc(slices.Clone(t.run.Unfired), func(id string) bool { return id == readers })
	p.Why = strings.Join(unfired, "; ")
	switch {
	case errors.Is(t.err, sandbox.ErrCannot):
		p.Verdict, p.Why = Skip, t.err.Error()
	case t.err != nil:
		p.Verdict, p.Why = Broken, t.err.Error()
	case t.run.Skip != "":
		p.Verdict, p.Why = Skip, t.run.Skip
	case len(p.Rules) > 0:
		p.Verdict = Fail
	case len(unfired) > 0:
		p.Verdict = Inconclusive
	default:
		p.Verdict = Pass
	}
}

// firsts returns the first finding of each rule, in order.
func firsts(findings []model.Finding) []model.Finding {
	var out []model.Finding
	for _, f := range findings {
		if !slices.ContainsFunc(out, func(o model.Finding) bool { return o.Rule == f.Rule }) {
			out = append(out, f)
		}
	}
	return out
}

// saidUnknown reports whether the subject answered that it does not know. One that was
// killed did not answer.
func saidUnknown(run runner.Run) bool {
	crashed := false
	for _, e := range run.Events {
		switch {
		case e.Crash != nil:
			crashed = true
		case e.Return != nil && e.Return.Status == spec.StatusUnknown && !crashed:
			return true
		}
	}
	return false
}

// singles returns the points of one effect each.
func (x *exploration) singles() []Point {
	var out []Point
	for _, s := range x.m.Steps {
		if x.opt.Only != nil && !x.opt.Only(s) {
			continue
		}
		for _, e := range Effects(x.m.Base, s) {
			out = append(out, Point{Strikes: []Strike{{s, e}}, Watched: x.opt.Readers && leavesTrees(e)})
		}
	}
	return out
}

// leavesTrees reports whether the trees that readers see after e are judged: an
// adversary's edits and a kill have rules of their own.
func leavesTrees(e Effect) bool { return e.Group == Errno || e.Group == After || e.Group == Short }

// denials returns the points of whole calls that are refused.
func (x *exploration) denials() []Point {
	var out []Point
	if x.opt.Denials {
		for _, e := range Denials(x.m.Base) {
			out = append(out, Point{Strikes: []Strike{{Effect: e}}})
		}
	}
	return out
}

// mostAgain bounds the points that are tried again: a subject that breaks more of them
// has no need of exact rates.
const mostAgain = 200

// again tries the points of findings again and counts how often they show the same.
func (x *exploration) again(ctx context.Context) error {
	var failed []Point
	for _, p := range x.m.Points {
		if len(p.Rules) > 0 && len(failed) < mostAgain {
			failed = append(failed, p)
		}
	}
	n := x.opt.Replays
	return Ordered(ctx, len(failed)*n, func(i int) []model.Finding {
		_, v, err := x.opt.Try(ctx, x.m.Scenario(failed[i/n]))
		if err != nil {
			return nil
		}
		return v.Findings
	}, func(i int, found []model.Finding) {
		x.m.Runs++
		for k := range x.m.Findings {
			f := &x.m.Findings[k]
			if f.Point != failed[i/n].Number {
				continue
			}
			f.Of++
			if slices.ContainsFunc(found, func(g model.Finding) bool { return g.Rule == f.Rule }) {
				f.Again++
			}
		}
	})
}

// Err returns the first failure of the bench, if there was one.
func (m Map) Err() error {
	for _, p := range m.Points {
		if p.Verdict == Broken {
			return fmt.Errorf("%s, point %d (%s): %s", m.Base.Name, p.Number, p, p.Why)
		}
	}
	return nil
}

// String says what strikes where.
func (p Point) String() string {
	out := ""
	for i, s := range p.Strikes {
		if i > 0 {
			out += "; "
		}
		out += s.String()
	}
	return cmp.Or(out, "undisturbed")
}

// Skip returns why the call was not explored at all, empty if it was.
func (m Map) Skip() string {
	if len(m.Points) > 0 && m.Points[0].Verdict == Skip {
		return m.Points[0].Why
	}
	return ""
}
