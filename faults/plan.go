// Package faults turns a fault plan into failures, and every failure into a
// trace event.
//
// A plan is data that prints and parses back; arming it over a file system
// makes it happen. The same plan is armed in process and inside a worker child.
// The package does not know which subject meets the faults nor what it should
// do about them.
package faults

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Plan lists the injections of one scenario. The zero Plan injects nothing.
type Plan struct {
	Injections []Injection `json:"injections,omitempty"`

	// Trace asks for the steps of the run. It is no part of the text form.
	Trace bool `json:"trace,omitempty"`

	// Record asks for what a subject that is watched from outside does to the tree. It is
	// no part of the text form either.
	Record bool `json:"record,omitempty"`

	// Names are those that the scenario speaks of. In the keys of a foreign process's
	// steps all others are numbered, as they come: they may be random.
	Names []string `json:"names,omitempty"`
}

// Stepped reports whether a run under p has to number its steps.
func (p Plan) Stepped() bool {
	return p.Trace || slices.ContainsFunc(p.Injections, func(in Injection) bool { return in.When.Step != "" })
}

// Injection pairs a place with an effect.
type Injection struct {
	ID   string `json:"id"` // unique in the plan; traces and reports use it
	When When   `json:"when"`
	Do   Effect `json:"do"`
}

// When selects operations. Zero fields match everything.
//
// Under and Class are portable: they speak of the tree, so they mean the same
// for a subject that writes in place and for one that writes a temporary and
// renames, and a sandbox can bring them about without the subject's help. Op,
// Name, Nth and Step look at how one implementation works.
//
// The host's own state folder is struck only by an Under that names it: a plan
// is about the agent's files, and a host without its Log runs no call at all.
type When struct {
	Under string     `json:"under,omitempty"` // directory holding the entry, relative to the sandbox
	Class Class      `json:"class,omitempty"`
	After bool       `json:"after,omitempty"` // the operation is performed first
	Op    vfs.OpKind `json:"op,omitempty"`
	Name  string     `json:"name,omitempty"` // path.Match pattern for the entry
	Nth   int        `json:"nth,omitempty"`  // 1-based; 0 is every match
	Step  string     `json:"step,omitempty"` // key of the one Step to strike, of a run that went the same way so far
}

// Portable reports whether w means the same for every subject.
func (w When) Portable() bool {
	return w.Op == "" && w.Name == "" && w.Nth == 0 && w.Step == "" && !w.After
}

// Effect is one thing that goes wrong. Exactly one field is set.
type Effect struct {
	Errno string      `json:"errno,omitempty"` // "EACCES": the operation fails so
	Short *int        `json:"short,omitempty"` // bytes that a write takes before it stops and says so
	Swap  []spec.Edit `json:"swap,omitempty"`  // an adversary changes the tree
	Crash bool        `json:"crash,omitempty"` // the process is killed here; what reached the kernel survives

	// Delay: so many steps of other threads come first, if they want to make any. First:
	// this step of another thread does, if it wants to be made by then. Only who holds
	// all threads, and lets them go one at a time, can do either by the count.
	Delay int    `json:"delay,omitempty"`
	First string `json:"first,omitempty"` // key of a step

	// Glimpse: somebody reads the tree. Nothing goes wrong by that, and it strikes
	// however often it is due.
	Glimpse bool `json:"glimpse,omitempty"`
}

// Orders reports whether e changes nothing but the order of steps.
func (e Effect) Orders() bool { return e.Delay != 0 || e.First != "" }

// String renders p, one injection a line, edits of a swap indented below it.
func (p Plan) String() string {
	var b strings.Builder
	for _, in := range p.Injections {
		b.WriteString(spec.FormatFields(in.fields()) + "\n")
		for _, e := range in.Do.Swap {
			b.WriteString("\t" + spec.FormatFields(e.Fields()) + "\n")
		}
	}
	return b.String()
}

func (in Injection) fields() []spec.Field {
	fields := []spec.Field{{Value: in.ID}}
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, spec.Field{Key: key, Value: value})
		}
	}
	if in.When.After {
		fields = append(fields, spec.Field{Value: "after"})
	}
	add("class", string(in.When.Class))
	add("op", string(in.When.Op))
	add("under", in.When.Under)
	add("name", in.When.Name)
	if in.When.Nth != 0 {
		add("nth", strconv.Itoa(in.When.Nth))
	}
	add("step", in.When.Step)
	add("errno", in.Do.Errno)
	if in.Do.Short != nil {
		add("short", strconv.Itoa(*in.Do.Short))
	}
	if in.Do.Swap != nil {
		fields = append(fields, spec.Field{Value: "swap"})
	}
	if in.Do.Crash {
		fields = append(fields, spec.Field{Value: "crash"})
	}
	if in.Do.Delay != 0 {
		add("delay", strconv.Itoa(in.Do.Delay))
	}
	add("first", in.Do.First)
	if in.Do.Glimpse {
		fields = append(fields, spec.Field{Value: "glimpse"})
	}
	return fields
}

// ParsePlan reads what String wrote. name and line say where text begins, for
// errors.
func ParsePlan(name string, line int, text string) (Plan, error) {
	var p Plan
	var starts []int // the line of each injection
	for i, row := range strings.Split(text, "\n") {
		at := func(err error) error { return fmt.Errorf("%s:%d: %w", name, line+i, err) }
		if t := strings.TrimSpace(row); t == "" || t[0] == '#' {
			continue
		}
		fields, err := spec.ParseFields(row)
		if err != nil {
			return Plan{}, at(err)
		}
		if row[0] != ' ' && row[0] != '\t' {
			in, err := parseInjection(fields)
			if err != nil {
				return Plan{}, at(err)
			}
			p.Injections = append(p.Injections, in)
			starts = append(starts, line+i)
			continue
		}
		n := len(p.Injections)
		if n == 0 || p.Injections[n-1].Do.Swap == nil {
			return Plan{}, at(fmt.Errorf("an indented edit: want an injection with the word swap above it"))
		}
		e, err := spec.ParseEdit(fields)
		if err != nil {
			return Plan{}, at(err)
		}
		p.Injections[n-1].Do.Swap = append(p.Injections[n-1].Do.Swap, e)
	}
	if i, err := p.firstWrong(); err != nil {
		return Plan{}, fmt.Errorf("%s:%d: %w", name, starts[i], err)
	}
	return p, nil
}

func parseInjection(fields []spec.Field) (Injection, error) {
	if fields[0].Key != "" {
		return Injection{}, fmt.Errorf("injection: want its id first, as in: deny class=create under=ws errno=EACCES")
	}
	in := Injection{ID: fields[0].Value}
	for _, f := range fields[1:] {
		var err error
		switch f.Key {
		case "":
			err = in.flag(f.Value)
		case "class":
			in.When.Class = Class(f.Value)
		case "op":
			in.When.Op = vfs.OpKind(f.Value)
		case "under":
			in.When.Under = f.Value
		case "name":
			in.When.Name = f.Value
		case "nth":
			in.When.Nth, err = number(f)
		case "step":
			in.When.Step = f.Value
		case "errno":
			in.Do.Errno = f.Value
		case "short":
			var n int
			n, err = number(f)
			in.Do.Short = &n
		case "delay":
			in.Do.Delay, err = number(f)
		case "first":
			in.Do.First = f.Value
		default:
			err = fmt.Errorf("%q is unknown: want class=, op=, under=, name=, nth=, step=, errno=, short=, delay= or first=", f)
		}
		if err != nil {
			return Injection{}, err
		}
	}
	return in, nil
}

func (in *Injection) flag(word string) error {
	switch word {
	case "after":
		in.When.After = true
	case "swap":
		in.Do.Swap = []spec.Edit{}
	case "crash":
		in.Do.Crash = true
	case "glimpse":
		in.Do.Glimpse = true
	default:
		return fmt.Errorf("word %q is unknown: want after, swap, crash or glimpse", word)
	}
	return nil
}

func number(f spec.Field) (int, error) {
	n, err := strconv.Atoi(f.Value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%s: want a number from 0", f)
	}
	return n, nil
}

// Concerns reports whether in can strike at an operation of that kind.
func (in Injection) Concerns(op vfs.OpKind, class Class) bool {
	return slices.ContainsFunc(in.When.rows(), func(r pair) bool {
		return r.op == op && r.class == class && (in.Do.Errno == "" || slices.Contains(r.errnos, in.Do.Errno))
	})
}

// Errno returns the number of an errno that a plan may ask for; 0 for another.
func Errno(name string) syscall.Errno { return errnoByName[name] }

// Check reports the first thing that keeps p from being armed: an effect that
// is not one, an errno that no kernel gives at the selected operations, an edit
// that cannot be carried out.
func (p Plan) Check() error {
	_, err := p.firstWrong()
	return err
}

// firstWrong returns what Check reports and the position of the injection that it
// is about.
func (p Plan) firstWrong() (int, error) {
	seen := map[string]bool{}
	for i, in := range p.Injections {
		if seen[in.ID] || in.ID == "" {
			return i, fmt.Errorf("injection %q: want an id that is not empty and not taken", in.ID)
		}
		seen[in.ID] = true
		if err := in.check(); err != nil {
			return i, fmt.Errorf("injection %s: %w", in.ID, err)
		}
	}
	return 0, nil
}

func (in Injection) check() error {
	effects := 0
	for _, set := range []bool{
		in.Do.Errno != "", in.Do.Short != nil, in.Do.Swap != nil, in.Do.Crash, in.Do.Glimpse, in.Do.Delay != 0, in.Do.First != "",
	} {
		if set {
			effects++
		}
	}
	if effects != 1 {
		return fmt.Errorf("%d effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first=", effects)
	}
	if _, err := path.Match(in.When.Name, ""); err != nil {
		return fmt.Errorf("name %q: want a pattern as in path.Match", in.When.Name)
	}
	if u := in.When.Under; u != "" && (u != path.Clean(u) || u[0] == '/' || u == ".." || strings.HasPrefix(u, "../")) {
		return fmt.Errorf("under %q: want a clean path below the sandbox, as in: ws/d", u)
	}
	if in.When.Nth < 0 {
		return fmt.Errorf("nth %d: want a number from 1, or none for every match", in.When.Nth)
	}
	if in.Do.Short != nil && *in.Do.Short < 0 {
		return fmt.Errorf("short %d: want a number of bytes from 0", *in.Do.Short)
	}
	if in.Do.Swap != nil && len(in.Do.Swap) == 0 {
		return fmt.Errorf("swap: want at least one indented edit below it")
	}
	if in.Do.Orders() && in.When.After || in.Do.First != "" && in.When.Step == "" {
		return fmt.Errorf("delay, first: want no after, and with first=, the step= that comes later")
	}
	for _, e := range in.Do.Swap {
		if err := e.Check(); err != nil {
			return err
		}
	}
	rows := in.When.rows()
	if len(rows) == 0 {
		return fmt.Errorf("op %q, class %q: no operation is both; want an operation of %v, a class of %v",
			in.When.Op, in.When.Class, vfs.Ops, Classes)
	}
	if in.Do.Short != nil && (in.When.Op != vfs.OpWrite || in.When.After) {
		return fmt.Errorf("short: want op=write, and no after")
	}
	if in.Do.Errno != "" {
		return in.When.checkErrno(rows, in.Do.Errno)
	}
	return nil
}

// Order is a plan as a worker is given it.
type Order struct {
	Plan  Plan     `json:"plan"`
	Base  string   `json:"base"`            // Options.Base
	Watch []string `json:"watch,omitempty"` // Options.Watch
}
