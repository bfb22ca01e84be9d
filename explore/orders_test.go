package explore_test

import (
	"context"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/scenarios"
)

// racing is a subject of several threads with a few steps each. A plan is followed as a
// supervisor follows it: the smallest step is made, or the one that is to come first.
type racing struct {
	threads [][]string
	bad     string // the order that breaks a rule: its steps, by their first words
}

func (r racing) try(_ context.Context, s scenarios.Scenario) (runner.Run, model.Verdict, error) {
	run := runner.Run{Scenario: s}
	left := slices.Clone(r.threads)
	spent := map[string]bool{}
	var order []string
	for len(left) > 0 {
		slices.SortFunc(left, func(a, b []string) int { return strings.Compare(a[0], b[0]) })
		i := 0
		for _, in := range s.Faults.Injections {
			j := slices.IndexFunc(left, func(t []string) bool { return t[0] == in.Do.First })
			if in.When.Step == left[0][0] && j > 0 && !spent[in.ID] && i == 0 {
				i, spent[in.ID] = j, true
			}
		}
		made := step(left[i][0])
		for j, t := range left {
			if j != i {
				made.Rivals = append(made.Rivals, t[0])
			}
		}
		run.Steps = append(run.Steps, made)
		order = append(order, strings.Fields(made.Key)[3])
		if left[i] = left[i][1:]; len(left[i]) == 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	for _, in := range s.Faults.Injections {
		if !spent[in.ID] {
			run.Unfired = append(run.Unfired, in.ID)
		}
	}
	var v model.Verdict
	if strings.Join(order, "") == r.bad {
		v.Findings = []model.Finding{{Rule: "AT-001", Got: r.bad}}
	}
	return run, v, nil
}

// twoThreads have six orders: abxy is the usual one.
func twoThreads(bad string) racing {
	k := func(name string) string { return "rename create ws/d/" + name + " " + name }
	return racing{threads: [][]string{{k("a"), k("b")}, {k("x"), k("y")}}, bad: bad}
}

// TestOrders: of two threads with two steps each every order is found, those with one
// turn first, and no more are tried than was asked for.
func TestOrders(t *testing.T) {
	const all = 9
	for _, tt := range []struct {
		bad       string
		schedules int
		turns     []string // of the order that is found: who gives way, and to whom
		orders    explore.Orders
	}{
		{"xaby", all, []string{"a x"}, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"axby", all, []string{"b x"}, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"xyab", all, []string{"a x", "a y"}, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"xayb", all, []string{"a x", "b y"}, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"axyb", all, []string{"b x", "b y"}, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"abxy", all, nil, explore.Orders{Choices: 2, Tried: 5, Distinct: 5}},
		{"xaby", 1, []string{"a x"}, explore.Orders{Choices: 2, Tried: 1, Distinct: 1, Left: 3}},
		{"xaby", 0, nil, explore.Orders{Choices: 2}},
	} {
		m := mapOf(t, base(t, "write"), explore.Options{
			Try: twoThreads(tt.bad).try, Schedules: tt.schedules, Replays: 10, Only: func(faults.Step) bool { return false },
		})
		if m.Orders != tt.orders || len(m.Points) != 1+tt.orders.Tried {
			t.Errorf("%s: %+v in %d points, want %+v", tt.bad, m.Orders, len(m.Points), tt.orders)
		}
		var got []string
		for _, f := range m.Findings {
			if f.Again != 10 || f.Of != 10 {
				t.Errorf("%s shows again in %d of %d", tt.bad, f.Again, f.Of)
			}
			for _, s := range m.Points[f.Point].Strikes {
				got = append(got, path.Base(s.Step.Path)+" "+s.Effect.Do.First[len(s.Effect.Do.First)-1:])
			}
			back, err := scenarios.Parse("s", f.Scenario.Name, []byte(f.Scenario.String()))
			if err != nil {
				t.Fatal(err)
			}
			if _, v, _ := twoThreads(tt.bad).try(t.Context(), back); len(v.Findings) == 0 {
				t.Errorf("%s is not found again from its file:\n%s", tt.bad, back)
			}
		}
		if diff := cmp.Diff(tt.turns, got); diff != "" {
			t.Errorf("%s, turns (-want +got):\n%s", tt.bad, diff)
		}
	}
}

// TestDelays: a delay is tried where another thread wants to make a step, and nowhere else.
func TestDelays(t *testing.T) {
	m := mapOf(t, base(t, "write"), explore.Options{Try: twoThreads("").try, Pairs: 1000})
	var at []string
	for _, p := range m.Points {
		for _, s := range p.Strikes {
			if s.Effect.Group == explore.Order {
				at = append(at, path.Base(s.Step.Path))
			}
		}
	}
	if diff := cmp.Diff([]string{"a", "b"}, at); diff != "" {
		t.Errorf("delayed (-want +got):\n%s", diff)
	}
}
