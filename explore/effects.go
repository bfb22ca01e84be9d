package explore

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

// Group is a kind of effect.
type Group string

// The groups.
const (
	Errno Group = "errno" // the step fails
	After Group = "after" // the step is performed, and fails
	Crash Group = "crash" // the process is killed before the step, or after it
	Short Group = "short" // a write takes less than it was given
	Swap  Group = "swap"  // an adversary changes the tree before the step
	Look  Group = "look"  // a reader looks after the step
	Order Group = "order" // another thread of the subject comes first

	// Denial is of the whole call, and of no step.
	Denial Group = "denial"
)

// Groups lists every Group of effects at steps.
var Groups = []Group{Errno, After, Crash, Short, Swap, Look, Order}

// Effect is one thing that can go wrong at a step.
type Effect struct {
	Name  string // of one step's effects no two have the same
	Group Group
	After bool // the step is performed first
	Do    faults.Effect
	All   faults.When // of a denial: what is refused
}

// Strike is an effect at a step, or a denial.
type Strike struct {
	Step   faults.Step
	Effect Effect
}

// String says what strikes where, in one line.
func (s Strike) String() string {
	if s.Effect.Group == Denial {
		return s.Effect.Name
	}
	return s.Effect.Name + " at " + s.Step.Key
}

func (s Strike) injection(i int) faults.Injection {
	in := faults.Injection{ID: []string{"strike", "second"}[i], When: s.Effect.All, Do: s.Effect.Do}
	if s.Effect.Group != Denial {
		in.When = faults.When{Op: s.Step.Op, Class: s.Step.Class, After: s.Effect.After, Step: s.Step.Key}
	}
	return in
}

// Effects returns everything that is tried at a step of the call of base, in order.
// Only what a kernel can give is tried, and only swaps that can be carried out.
func Effects(base scenarios.Scenario, s faults.Step) []Effect {
	var out []Effect
	possible := faults.When{Op: s.Op, Class: s.Class}.Possible()
	for _, e := range possible {
		out = append(out, Effect{Name: e, Group: Errno, Do: faults.Effect{Errno: e}})
	}
	if changes(s) {
		for _, e := range (faults.When{Op: s.Op, Class: s.Class, After: true}).Possible() {
			out = append(out, Effect{Name: e + " after", Group: After, After: true, Do: faults.Effect{Errno: e}})
		}
	}
	out = append(out,
		Effect{Name: "crash before", Group: Crash, Do: faults.Effect{Crash: true}},
		Effect{Name: "crash after", Group: Crash, After: true, Do: faults.Effect{Crash: true}},
	)
	if changes(s) {
		out = append(out, Effect{Name: "look", Group: Look, After: true, Do: faults.Effect{Glimpse: true}})
	}
	if s.Op == "write" {
		took := 1
		out = append(out, Effect{Name: "short 1", Group: Short, Do: faults.Effect{Short: &took}})
	}
	if len(s.Rivals) > 0 {
		out = append(out, Effect{Name: "delay", Group: Order, Do: faults.Effect{Delay: MostSteps}})
	}
	return append(out, swaps(base, s)...)
}

// changes reports whether a step leaves something behind that could have happened in
// spite of an error.
func changes(s faults.Step) bool {
	if s.Op == "probe" {
		return false // it only asks whether something could be written
	}
	switch s.Class {
	case faults.Create, faults.Modify, faults.Remove, faults.Flush:
		return true
	case faults.Read:
	}
	return false
}

// swaps returns the moves of an adversary before a step: on the entry that the step is
// about, on the directory that holds it, on what the call is about, and on the root.
func swaps(base scenarios.Scenario, s faults.Step) []Effect {
	var out []Effect
	add := func(name string, edits ...spec.Edit) {
		out = append(out, Effect{Name: name, Group: Swap, Do: faults.Effect{Swap: edits}})
	}
	about, parent := aims(base), path.Dir(s.Path)
	way := slices.ContainsFunc(about, func(a aim) bool { return strings.HasPrefix(a.path, s.Path+"/") })
	if inside(s.Path) {
		to := canary
		if way {
			to = outside
		}
		replacements(add, "entry", faults.StepHere, up(s.Path)+to)
		add("entry becomes another file", aside(faults.StepHere), spec.Edit{Op: spec.EditWrite, Path: faults.StepHere, Content: spec.Content("planted")})
		add("entry moves outside", spec.Edit{Op: spec.EditRename, Path: faults.StepHere, To: outside + "/moved"})
	}
	if inside(parent) {
		replacements(add, "parent", faults.StepParent, up(parent)+outside)
		add("parent moves outside", spec.Edit{Op: spec.EditRename, Path: faults.StepParent, To: outside + "/moved"})
	}
	for _, a := range about {
		if a.path != s.Path {
			replacements(add, a.role, a.path, up(a.path)+canary)
		}
		if dir := path.Dir(a.path); inside(dir) && dir != parent && dir != s.Path {
			add(a.role+"'s parent becomes a link", aside(dir), spec.Edit{Op: spec.EditSymlink, Path: dir, To: up(dir) + outside})
			add(a.role+"'s parent moves outside", spec.Edit{Op: spec.EditRename, Path: dir, To: outside + "/moved"})
		}
		add(a.role+" is edited", spec.Edit{Op: spec.EditWrite, Path: a.path, Content: spec.Content("edited by another")})
		add(a.role+" is edited unnoticeably", spec.Edit{Op: spec.EditWrite, Path: a.path, Content: spec.Content(oddBytes), Mtime: oldMtime})
		add(a.role+" gets a name outside", spec.Edit{Op: spec.EditHardlink, Path: outside + "/h", To: a.path})
		add(a.role+" becomes a name of a file outside", aside(a.path), spec.Edit{Op: spec.EditHardlink, Path: a.path, To: canary})
		add(a.role+" goes", spec.Edit{Op: spec.EditRemove, Path: a.path})
	}
	add("root and outside trade places", spec.Edit{Op: spec.EditExchange, Path: spec.Workspace, To: outside})
	return out
}

// replacements puts other kinds of entries in the place of what is at p, which goes
// aside: a link with the text to, a directory, a FIFO.
func replacements(add func(string, ...spec.Edit), what, p, to string) {
	add(what+" becomes a link", aside(p), spec.Edit{Op: spec.EditSymlink, Path: p, To: to})
	add(what+" becomes a directory", aside(p), spec.Edit{Op: spec.EditMkdir, Path: p})
	add(what+" becomes a FIFO", aside(p), spec.Edit{Op: spec.EditFIFO, Path: p})
}

func aside(p string) spec.Edit { return spec.Edit{Op: spec.EditRename, Path: p, To: p + ".away"} }

// up returns how a link at p gets to the top of the sandbox.
func up(p string) string { return strings.Repeat("../", strings.Count(p, "/")) }

// checkStep reports a step at which nothing could be armed: whoever saw it gave it a name
// that no plan knows.
func checkStep(s faults.Step) error {
	p := faults.Plan{Injections: []faults.Injection{Strike{s, Effect{Do: faults.Effect{Crash: true}}}.injection(0)}}
	if err := p.Check(); err != nil {
		return fmt.Errorf("step %s: %w", s.Key, err)
	}
	return nil
}
