package explore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// fake is a subject that makes these steps whatever happens, and breaks what it is
// told to.
type fake struct {
	steps   []faults.Step
	onError []faults.Step // made where an errno has struck, after it
	unfired func(faults.Injection) bool
	breaks  func([]faults.Injection) []spec.RuleID
	unknown func([]faults.Injection) bool // it says that it cannot tell; otherwise ok
	tries   atomic.Int64
}

func (f *fake) try(_ context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
	f.tries.Add(1)
	time.Sleep(time.Duration(rand.New(rand.NewPCG(uint64(f.tries.Load()), 0)).IntN(50)) * time.Microsecond)
	run := runner.Run{Scenario: s, Steps: slices.Clone(f.steps)}
	for _, in := range s.Faults.Injections {
		if f.unfired != nil && f.unfired(in) {
			run.Unfired = append(run.Unfired, in.ID)
		}
		if in.Do.Crash {
			run.Events = append(run.Events, trace.Event{Crash: &trace.Crash{}})
		}
		if in.Do.Errno != "" {
			run.Steps = append(run.Steps, f.onError...)
		}
	}
	answer := spec.Outcome{Status: spec.StatusOK}
	if f.unknown != nil && f.unknown(s.Faults.Injections) {
		answer.Status = spec.StatusUnknown
	}
	run.Events = append(run.Events, trace.Event{Return: &answer})
	var v model.Verdict
	if f.breaks != nil {
		for _, id := range f.breaks(s.Faults.Injections) {
			v.Findings = append(v.Findings, model.Finding{Rule: id, Got: s.Faults.String()})
		}
	}
	return run, v, nil
}

func step(key string) faults.Step {
	w := strings.Fields(key)
	s := faults.Step{Key: key, Class: faults.Class(w[1]), Path: w[2]}
	in, err := faults.ParsePlan("", 1, "f op="+w[0]+" crash")
	if err != nil {
		panic(err)
	}
	s.Op = in.Injections[0].When.Op
	return s
}

var fewSteps = []faults.Step{
	step("open-dir read ws/d 1"), step("open-doomed create ws/d 1"), step("write modify ws/d/.t 1"),
	step("rename remove ws/d/.t 1"), step("rename create ws/d/f 1"), step("sync-dir flush ws/d 1"), step("seek read ws/d/f 1"),
}

func base(t *testing.T, name string) scenarios.Scenario {
	t.Helper()
	for _, b := range explore.Bases("") {
		if b.Name == name {
			return b
		}
	}
	t.Fatalf("no base %s", name)
	return scenarios.Scenario{}
}

func mapOf(t *testing.T, b scenarios.Scenario, opt explore.Options) explore.Map {
	t.Helper()
	m, err := explore.Explore(t.Context(), b, opt)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestBases: each kind has a base, whose last call is of it.
func TestBases(t *testing.T) {
	for _, k := range explore.Kinds() {
		bases := explore.Bases(k)
		if len(bases) == 0 {
			t.Errorf("no base for %s", k)
		}
		for _, b := range bases {
			if calls := b.Calls(); calls[len(calls)-1].Kind != k || b.World["out/c"].Type != spec.TypeFile || len(b.Rules) == 0 {
				t.Errorf("%s: want a last call of kind %s, a file out/c and rules", b.Name, k)
			}
		}
	}
	if len(explore.Bases("view")) > 0 {
		t.Error("a base for a kind that there is none for")
	}
}

// TestNothingToDisturb: where the call alone already takes the bench down, has no end, or
// takes more steps than anybody could strike, it is not made thousands of times.
func TestNothingToDisturb(t *testing.T) {
	many := fake{}
	for i := range explore.MostSteps + 1 {
		many.steps = append(many.steps, step(fmt.Sprintf("stat read ws/d %d", i)))
	}
	broken := fake{steps: fewSteps}
	for _, tt := range []struct {
		name string
		f    *fake
		err  error
		want string
	}{
		{"no end", &fake{steps: fewSteps, unknown: func([]faults.Injection) bool { return true }}, nil, "even if nobody disturbs it"},
		{"many steps", &many, nil, "1001 steps"},
		{"the tree cannot be looked at", &broken, errors.New("more than 20000 entries"), ""},
	} {
		m := mapOf(t, base(t, "write"), explore.Options{Replays: 3, Pairs: 9, Try: func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
			run, v, _ := tt.f.try(ctx, s)
			return run, v, tt.err
		}})
		if m.Runs != 1 || len(m.Points) != 1 || !strings.Contains(m.Blank(), tt.want) || (m.Blank() == "") != (tt.want == "") {
			t.Errorf("%s: %d runs, %q; want 1, and %q", tt.name, m.Runs, m.Blank(), tt.want)
		}
		if err := m.Err(); (err == nil) != (tt.err == nil) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
	}
}

// TestEveryEffectOnce: at every step everything that a kernel can give is tried once,
// and nothing that it cannot; and what is tried can be saved.
func TestEveryEffectOnce(t *testing.T) {
	for _, b := range explore.Bases("") {
		m := mapOf(t, b, explore.Options{Try: (&fake{steps: fewSteps}).try})
		seen := map[string]bool{}
		for _, p := range m.Points[1:] {
			if len(p.Strikes) != 1 || seen[p.Strikes[0].String()] {
				t.Fatalf("point %d strikes %v: want one effect that was not there before", p.Number, p.Strikes)
			}
			st := p.Strikes[0]
			seen[st.String()] = true
			s := m.Scenario(p)
			if back, err := scenarios.Parse(s.Name, s.Name, []byte(s.String())); err != nil || back.String() != s.String() {
				t.Errorf("%s cannot be saved: %v", st, err)
			}
		}
		for _, st := range m.Steps {
			var want []string
			for _, e := range (faults.When{Op: st.Op, Class: st.Class}).Possible() {
				want = append(want, e)
				if st.Class != faults.Read && e != "EINTR" {
					want = append(want, e+" after")
				}
			}
			want = append(want, "crash before", "crash after", "root and outside trade places")
			if st.Op == "write" {
				want = append(want, "short 1")
			}
			for _, e := range want {
				if !seen[e+" at "+st.Key] {
					t.Errorf("%s: %s was not tried at %s", b.Name, e, st.Key)
				}
			}
			for _, e := range faults.Errnos {
				if seen[e+" at "+st.Key] && !slices.Contains(want, e) {
					t.Errorf("%s: %s was tried at %s, and no kernel gives it", b.Name, e, st.Key)
				}
			}
		}
	}
}

// TestAlphabet: every move of the adversary is there, at the step where it hurts.
func TestAlphabet(t *testing.T) {
	names := func(b string, s faults.Step) []string {
		var out []string
		for _, e := range explore.Effects(base(t, b), s) {
			if e.Group == explore.Swap {
				out = append(out, e.Name)
			}
		}
		return out
	}
	for _, tt := range []struct {
		base, step string
		want       []string
	}{
		{"write", "rename remove ws/d/.t 1", []string{
			"entry becomes a link", "entry becomes a directory", "entry becomes a FIFO", "entry becomes another file", "entry moves outside",
			"parent becomes a link", "parent becomes a directory", "parent becomes a FIFO", "parent moves outside",
			"target becomes a link", "target becomes a directory", "target becomes a FIFO",
			"target is edited", "target is edited unnoticeably", "target gets a name outside",
			"target becomes a name of a file outside", "target goes", "root and outside trade places",
		}},
		{"delete", "remove remove ws/d/f 1", []string{ // what is done to the entry is done to the target
			"entry becomes a link", "entry becomes a directory", "entry becomes a FIFO", "entry becomes another file", "entry moves outside",
			"parent becomes a link", "parent becomes a directory", "parent becomes a FIFO", "parent moves outside",
			"target is edited", "target is edited unnoticeably", "target gets a name outside",
			"target becomes a name of a file outside", "target goes", "root and outside trade places",
		}},
		{"move", "lstat read ws/d 1", []string{
			"entry becomes a link", "entry becomes a directory", "entry becomes a FIFO", "entry becomes another file", "entry moves outside",
			"source becomes a link", "source becomes a directory", "source becomes a FIFO",
			"source is edited", "source is edited unnoticeably", "source gets a name outside",
			"source becomes a name of a file outside", "source goes",
			"target becomes a link", "target becomes a directory", "target becomes a FIFO",
			"target's parent becomes a link", "target's parent moves outside",
			"target is edited", "target is edited unnoticeably", "target gets a name outside",
			"target becomes a name of a file outside", "target goes", "root and outside trade places",
		}},
	} {
		if diff := cmp.Diff(tt.want, names(tt.base, step(tt.step))); diff != "" {
			t.Errorf("%s, %s (-want +got):\n%s", tt.base, tt.step, diff)
		}
	}
}

// TestVerdicts: what did not strike proves nothing, and a rule that is broken is
// broken all the same.
func TestVerdicts(t *testing.T) {
	isErrno := func(name string) func(faults.Injection) bool {
		return func(in faults.Injection) bool { return in.Do.Errno == name }
	}
	f := &fake{
		steps: fewSteps[:1], unknown: func(ins []faults.Injection) bool { return len(ins) > 0 },
		unfired: func(in faults.Injection) bool { return isErrno("EIO")(in) || isErrno("ELOOP")(in) },
		breaks: func(ins []faults.Injection) []spec.RuleID {
			if slices.ContainsFunc(ins, isErrno("ELOOP")) || slices.ContainsFunc(ins, isErrno("EMFILE")) {
				return []spec.RuleID{"AT-001", "AT-002", "AT-001"}
			}
			return nil
		},
	}
	m := mapOf(t, base(t, "write"), explore.Options{Try: f.try, Replays: 10})
	for _, p := range m.Points {
		want := explore.Pass
		for _, st := range p.Strikes {
			switch st.Effect.Name {
			case "EIO":
				want = explore.Inconclusive
			case "ELOOP", "EMFILE":
				want = explore.Fail
			}
		}
		if p.Verdict != want {
			t.Errorf("%v is %s, want %s", p.Strikes, p.Verdict, want)
		}
		if unknown := len(p.Strikes) > 0 && p.Strikes[0].Effect.Group != explore.Crash; p.Unknown != unknown {
			t.Errorf("%v: unknown is %v", p.Strikes, p.Unknown)
		}
	}
	if len(m.Findings) != 4 || m.Count(explore.Fail) != 2 || m.Count(explore.Inconclusive) != 1 || m.Struck() != len(m.Points)-2 {
		t.Errorf("%d findings, %d failed, %d struck of %d", len(m.Findings), m.Count(explore.Fail), m.Struck(), len(m.Points))
	}
	for _, x := range m.Findings {
		if x.Again != 10 || x.Of != 10 {
			t.Errorf("%s was seen again in %d of %d", x.Rule, x.Again, x.Of)
		}
		if want := fmt.Sprintf("explore-write-%03d", x.Point); x.Scenario.Name != want || !strings.Contains(x.Scenario.Title, " at open-dir read ws/d 1") {
			t.Errorf("scenario %s, %s", x.Scenario.Name, x.Scenario.Title)
		}
	}
}

// TestFlakyIsSaid: how often a finding shows again is counted and not assumed.
func TestFlakyIsSaid(t *testing.T) {
	var n atomic.Int64
	f := &fake{breaks: func([]faults.Injection) []spec.RuleID {
		if n.Add(1)%2 == 1 {
			return []spec.RuleID{"AT-001"}
		}
		return nil
	}}
	m := mapOf(t, base(t, "write"), explore.Options{Try: f.try, Replays: 10})
	if len(m.Findings) != 1 || m.Findings[0].Again != 5 || m.Findings[0].Of != 10 {
		t.Errorf("%+v: want it again in 5 of 10", m.Findings)
	}
}

// TestFewAreTriedAgain: a subject that breaks everything is not run ten times over.
func TestFewAreTriedAgain(t *testing.T) {
	f := &fake{steps: fewSteps, breaks: func([]faults.Injection) []spec.RuleID { return []spec.RuleID{"AT-001", "AT-002"} }}
	m := mapOf(t, base(t, "move"), explore.Options{Try: f.try, Pairs: 200, Replays: 2})
	again := 0
	for _, x := range m.Findings {
		again += x.Of
	}
	if len(m.Findings) != 2*len(m.Points) || again != 2*2*min(len(m.Points), 200) || m.Runs != len(m.Points)+again/2 || int64(m.Runs) != f.tries.Load() {
		t.Errorf("%d points, %d findings, %d tried again, %d runs of %d", len(m.Points), len(m.Findings), again, m.Runs, f.tries.Load())
	}
}

// TestNothingSeen: without steps there is nothing to strike, and nothing is proven.
func TestNothingSeen(t *testing.T) {
	m := mapOf(t, base(t, "write"), explore.Options{Try: (&fake{}).try, Pairs: 10})
	if len(m.Points) != 1 || m.Struck() != 0 {
		t.Errorf("%d points, %d struck: want the undisturbed one", len(m.Points), m.Struck())
	}
}

func TestDeterministic(t *testing.T) {
	explored := func() explore.Map {
		f := &fake{steps: fewSteps, onError: fewSteps[5:6], breaks: func(ins []faults.Injection) []spec.RuleID {
			if len(ins) > 0 && len(ins[0].When.Step)%3 == 0 {
				return []spec.RuleID{"AT-001"}
			}
			return nil
		}}
		return mapOf(t, base(t, "move"), explore.Options{Try: f.try, Pairs: 50, Replays: 1})
	}
	if diff := cmp.Diff(explored(), explored()); diff != "" {
		t.Errorf("two explorations differ:\n%s", diff)
	}
}

// TestPairs: the second effect strikes a step that came after the first, also one that
// only an error brings about.
func TestPairs(t *testing.T) {
	cleanup := step("remove remove ws/d/.t 1")
	f := &fake{steps: fewSteps, onError: []faults.Step{cleanup}}
	m := mapOf(t, base(t, "write"), explore.Options{Try: f.try, Pairs: 1 << 20})
	at := func(s faults.Step) int {
		return slices.IndexFunc(append(slices.Clone(fewSteps), cleanup), func(o faults.Step) bool { return o.Key == s.Key })
	}
	pairs, cleanups := 0, 0
	seen := map[string]bool{}
	for _, p := range m.Points {
		if len(p.Strikes) < 2 {
			continue
		}
		pairs++
		first, second := p.Strikes[0], p.Strikes[1]
		if at(first.Step) >= at(second.Step) || first.Effect.Group == explore.Crash {
			t.Errorf("%s is followed by %s", first, second)
		}
		if second.Step.Key == cleanup.Key {
			cleanups++
			if first.Effect.Do.Errno == "" {
				t.Errorf("%s: the step of the clean-up was not made after it", first)
			}
		}
		if key := first.String() + second.String(); seen[key] {
			t.Errorf("%s and %s twice", first, second)
		} else {
			seen[key] = true
		}
		if err := m.Scenario(p).Check(); err != nil {
			t.Errorf("%s and %s: %v", first, second, err)
		}
	}
	if pairs < 100 || cleanups < 10 || m.Left != 0 {
		t.Errorf("%d pairs, %d of them at the clean-up, %d left", pairs, cleanups, m.Left)
	}
	few := mapOf(t, base(t, "write"), explore.Options{Try: f.try, Pairs: 20})
	if got := len(few.Points) - (len(m.Points) - pairs); got != 20 || few.Left != pairs-20 {
		t.Errorf("%d pairs and %d left, want 20 and %d", got, few.Left, pairs-20)
	}
}

// TestBenchAndSkips: what cannot be brought about is skipped, and a bench that fails
// says so.
func TestBenchAndSkips(t *testing.T) {
	ok := (&fake{steps: fewSteps[:1]}).try
	m := mapOf(t, base(t, "write"), explore.Options{Try: func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
		run, v, _ := ok(ctx, s)
		switch {
		case strings.Contains(s.Title, "trade places"):
			return run, v, fmt.Errorf("swap: %w", sandbox.ErrCannot)
		case strings.Contains(s.Title, "EIO"):
			return run, v, errors.New("no sandbox")
		case strings.Contains(s.Title, "ELOOP"):
			run.Skip = "not claimed"
		}
		return run, v, nil
	}})
	if m.Count(explore.Skip) != 2 || m.Count(explore.Broken) != 1 {
		t.Errorf("%d skipped, %d broken, want 2 and 1", m.Count(explore.Skip), m.Count(explore.Broken))
	}
	if err := m.Err(); err == nil || !strings.Contains(err.Error(), "no sandbox") || !strings.Contains(err.Error(), "EIO at open-dir") {
		t.Errorf("Err = %v, want the point and its error", err)
	}
	odd := &fake{steps: []faults.Step{{Key: "k", Op: "teleport", Class: faults.Read, Path: "ws/d"}}}
	if _, err := explore.Explore(t.Context(), base(t, "write"), explore.Options{Try: odd.try}); err == nil || !strings.Contains(err.Error(), "step k") {
		t.Errorf("a step that no plan knows: %v", err)
	}
}

// TestOnlyTheLastCallIsStruck: what leads up to it is left alone.
func TestOnlyTheLastCallIsStruck(t *testing.T) {
	f := &fake{steps: fewSteps}
	lead := 0
	m := mapOf(t, base(t, "write-seen"), explore.Options{Try: func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
		run, v, err := f.try(ctx, s)
		if len(s.Calls()) == 1 {
			lead++
			run.Steps = run.Steps[:2]
		}
		return run, v, err
	}})
	if diff := cmp.Diff(fewSteps[2:], m.Steps); lead != 1 || diff != "" {
		t.Errorf("%d runs of what leads up, steps (-want +got):\n%s", lead, diff)
	}
}

func TestOrderedStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	last := -1
	err := explore.Ordered(ctx, 1<<20, func(i int) int { return i }, func(i, got int) {
		if i != got || i != last+1 {
			t.Errorf("result %d is number %d, after %d", got, i, last)
		}
		if last = i; i == 100 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) || last > 100000 {
		t.Errorf("it ended with %v after %d", err, last)
	}
}

// TestDenials: what a whole call is refused can be armed and saved, is tried once each
// where it is asked for, and counts as who refused it.
func TestDenials(t *testing.T) {
	for _, b := range explore.Bases("") {
		f := &fake{}
		m := mapOf(t, b, explore.Options{Denials: true, Try: func(ctx context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
			run, v, err := f.try(ctx, s)
			for _, in := range s.Faults.Injections {
				by := trace.Synthetic
				if in.When.Under == spec.Workspace {
					by = trace.Kernel
				}
				run.Events = append(run.Events, trace.Event{Fault: &trace.Fired{Injection: in.ID, By: by}})
			}
			return run, v, err
		}})
		want := explore.Denials(b)
		if len(want) < 4 || len(m.Points) != 1+len(want) {
			t.Fatalf("%s: %d denials and %d points, want at least 4, and one more", b.Name, len(want), len(m.Points))
		}
		kernel := 0
		seen := map[string]bool{}
		for i, e := range want {
			s := m.Scenario(m.Points[1+i])
			if seen[e.Name] {
				t.Errorf("%s: %s is there twice", b.Name, e.Name)
			}
			seen[e.Name] = true
			back, err := scenarios.Parse(s.Name, s.Name, []byte(s.String()))
			if err != nil {
				t.Fatalf("%s: %v", e.Name, err)
			}
			if got := back.Faults.Injections[0].When; !cmp.Equal(got, e.All) || !strings.HasSuffix(s.Title, e.Name) {
				t.Errorf("%s: saved as %+v with the title %q", e.Name, got, s.Title)
			}
			if e.All.Under == spec.Workspace {
				kernel++
			}
		}
		if got := m.Fired(); kernel == 0 || got != (explore.Fired{Kernel: kernel, Synthetic: len(want) - kernel}) {
			t.Errorf("%s: %+v struck, want %d of the kernel, of %d", b.Name, got, kernel, len(want))
		}
	}
}
