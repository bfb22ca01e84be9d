package explore

import (
	"context"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
)

// mostTurns bounds the turns of one order: the places at which it is not the usual
// thread's turn. Nearly every race that is known shows with two.
const mostTurns = 2

// Orders counts the orders in which the threads of a subject took their steps.
type Orders struct {
	Choices  int // steps of the usual order at which another thread wanted to make one
	Tried    int // beside the usual one
	Distinct int // of those, that were unlike each other and the usual one
	Left     int // known, and not tried
}

// Turns reports whether p only lets other threads of the subject come first: it is one
// order of many.
func (p Point) Turns() bool {
	return len(p.Strikes) > 0 && !slices.ContainsFunc(p.Strikes, func(s Strike) bool { return s.Effect.Do.First == "" })
}

// order is one order that was tried, and what can be made of it.
type order struct {
	turns []Strike
	steps []faults.Step
	from  int // the first step at which another turn would make another order
}

// orders tries the orders of the steps of the subject's threads: first those with one
// turn, in the order of the steps, then those with two.
func (x *exploration) orders(ctx context.Context, earlier int) error {
	for _, s := range x.m.Steps {
		if len(s.Rivals) > 0 {
			x.m.Orders.Choices++
		}
	}
	if x.opt.Schedules == 0 {
		return nil
	}
	seen := map[string]bool{sequence(x.m.Steps): true}
	level := []order{{steps: x.m.Steps}}
	for range mostTurns {
		next := turned(level)
		n := min(len(next), x.opt.Schedules-x.m.Orders.Tried)
		x.m.Orders.Left += len(next) - n
		start := len(x.m.Points)
		if err := x.run(ctx, next[:n]); err != nil {
			return err
		}
		x.m.Orders.Tried += n
		level = nil
		for i, p := range x.m.Points[start:] {
			steps := x.last[i][min(earlier, len(x.last[i])):]
			if p.Verdict != Pass && p.Verdict != Fail || seen[sequence(steps)] {
				continue
			}
			seen[sequence(steps)] = true
			x.m.Orders.Distinct++
			level = append(level, order{p.Strikes, steps, after(steps, p.Strikes)})
		}
	}
	return nil
}

// turned returns the orders that have one turn more than those of a level.
func turned(level []order) []Point {
	var out []Point
	for _, o := range level {
		for _, s := range o.steps[o.from:] {
			for _, rival := range s.Rivals {
				turn := Strike{s, Effect{Name: "yields to " + rival, Group: Order, Do: faults.Effect{First: rival}}}
				if checkStep(s) == nil {
					out = append(out, Point{Strikes: slices.Concat(o.turns, []Strike{turn})})
				}
			}
		}
	}
	return out
}

// after returns the position of the step that follows the last of turns.
func after(steps []faults.Step, turns []Strike) int {
	first := turns[len(turns)-1].Effect.Do.First
	return slices.IndexFunc(steps, func(s faults.Step) bool { return s.Key == first }) + 1
}

// sequence is what makes an order.
func sequence(steps []faults.Step) string {
	var keys []string
	for _, s := range steps {
		keys = append(keys, s.Key)
	}
	return strings.Join(keys, "\n")
}
