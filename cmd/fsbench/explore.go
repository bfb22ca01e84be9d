package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/explore"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/spec"
)

type exploreCmd struct {
	Subject   string `default:"reference" help:"What to explore: reference, or mutant:NAME."`
	Sandbox   string `default:"mem" help:"Where to run: mem or disk."`
	Call      string `default:"all" help:"Which call: write, delete, move or all."`
	Pairs     bool   `help:"Try pairs of effects too: a failure or a kill after another effect."`
	Schedules int    `placeholder:"N" help:"Try up to N orders of the steps of CMD's threads beside the usual one, the nearest to it first."`
	Out       string `default:".fsbench" help:"Report folder; what breaks a rule is saved in its folder explore."`
	JSON      bool   `help:"Print as JSON."`

	foreign `embed:""`
}

func (exploreCmd) Help() string {
	return `Each call is made once undisturbed, and its steps are noted. Then it is made again
for each thing that can go wrong at each step: every errno that a kernel can give
there, an error although the step was performed, a kill before and after it, a short
write, and an adversary who swaps links, files and folders just before it; and, where
another thread of the subject could have made a step first, a delay. Two bad
subjects are explored first, and must be found bad.

The steps of CMD's threads have one order in all runs. --schedules tries others: those
in which one step gives way to one of another thread, then those in which two do.

Exit codes: 0 no rule is broken; 1 a MUST rule is; 2 usage; 3 the bench broke, or did
not find what is bad; 4 nothing was conclusive, as where no step can be seen.

A command after -- is explored on disk, in a jail, and watched from outside: it is
stopped before and after each of its steps, whatever it is written in.

Example: fsbench explore --call delete --pairs
         fsbench explore --stdio -- fsbench serve --stdio
         fsbench explore --mcp --preset filesystem -- node FOLDER/dist/index.js {root}
         fsbench explore --exec --call write -- tee {path}`
}

const (
	mostPairs = 20000 // of one call
	replays   = 10
)

// ground is where subjects are explored, and how one is seen again.
type ground struct {
	subject  reports.Subject
	sandbox  string
	engine   disk.Engine // what strikes: port is the subject's own file system port
	arena    fsbench.Arena
	control  func(mutant string) (fsbench.Arena, error)
	warm     bool   // the subject's threads may have to be ordered
	loose    bool   // nothing keeps the subject from the rest of this machine
	replayed string // flags that make replay run the same subject in the same place
}

func (c *exploreCmd) Run(a *app) error {
	kind, err := c.kind()
	if err != nil {
		return usage(err)
	}
	if err := c.check(); err != nil {
		return usage(err)
	}
	if c.Schedules < 0 || c.Schedules > 0 && !c.given() {
		return usage(fmt.Errorf("--schedules %d: want how many orders to try of the threads of a command after --", c.Schedules))
	}
	if err := emptyDir(c.dir()); err != nil {
		return usage(err)
	}
	stop, err := a.guard(c.dir())
	if err != nil {
		return err
	}
	defer stop()
	g, done, err := c.ground(a)
	if err != nil {
		return err
	}
	err = c.explore(a, g, kind)
	return errors.Join(err, done())
}

// dir is the folder of the scenarios that break rules.
func (c *exploreCmd) dir() string { return filepath.Join(c.Out, "explore") }

// kind returns the kind of call to explore; an empty one means all.
func (c *exploreCmd) kind() (spec.CallKind, error) {
	words := []string{"all"}
	for _, k := range explore.Kinds() {
		if string(k) == c.Call {
			return k, nil
		}
		words = append(words, string(k))
	}
	if c.Call == "all" {
		return "", nil
	}
	return "", fmt.Errorf("call %q: want one of %s", c.Call, strings.Join(words, ", "))
}

// ground returns where to explore, and what ends it.
func (c *exploreCmd) ground(a *app) (ground, func() error, error) {
	if c.given() {
		return c.foreign.ground(a.ctx, c.Out)
	}
	sub, err := parseSubject(c.Subject)
	if err != nil {
		return ground{}, nil, usage(err)
	}
	g := ground{
		subject: sub.reportsAs(), sandbox: c.Sandbox, engine: disk.Engine{Name: "port"},
		replayed: fmt.Sprintf("--sandbox %s --subject %s", c.Sandbox, c.Subject),
	}
	in, done := subject.memory, func() error { return nil }
	switch c.Sandbox {
	case "mem":
	case "disk":
		lab, err := disk.NewLab("")
		if err != nil {
			return ground{}, nil, err
		}
		in, done = func(s subject) fsbench.Arena { return s.disk(lab) }, lab.Close
	default:
		return ground{}, nil, usage(fmt.Errorf("sandbox %q: want mem or disk", c.Sandbox))
	}
	g.arena = in(sub)
	g.control = func(mutant string) (fsbench.Arena, error) {
		bad, err := parseSubject("mutant:" + mutant)
		return in(bad), err
	}
	return g, done, nil
}

func (c *exploreCmd) explore(a *app, g ground, kind spec.CallKind) error {
	r := exploration{ground: g, dir: c.dir()}
	for _, ctl := range explore.Controls {
		fate, err := g.try(a, ctl)
		if err != nil {
			return fmt.Errorf("control %s: %w", ctl.Mutant, err)
		}
		r.controls = append(r.controls, fate)
	}
	opt := explore.Options{Replays: replays, Warm: g.warm, Denials: g.warm, Readers: g.sandbox == "mem", Schedules: c.Schedules}
	if c.Pairs {
		opt.Pairs = mostPairs
	}
	for _, base := range explore.Bases(kind) {
		p := a.progress(base.Name, 1)
		opt.Progress = p.at
		m, err := fsbench.Explore(a.ctx, g.arena, base, opt)
		p.stop()
		if err != nil {
			return err
		}
		r.maps = append(r.maps, m)
		if err := r.save(m); err != nil {
			return err
		}
		if m.Err() != nil {
			break
		}
	}
	if c.JSON {
		if err := a.json(r.json()); err != nil {
			return err
		}
	} else {
		r.text(a.out)
	}
	return r.exit()
}

// exploration is what was found.
type exploration struct {
	ground
	dir      string // of the scenarios that break rules
	controls []fate
	maps     []explore.Map
}

// fate is what came of a control.
type fate struct {
	explore.Control
	steps int
	red   bool
}

// try explores a control.
func (g ground) try(a *app, ctl explore.Control) (fate, error) {
	arena, err := g.control(ctl.Mutant)
	if err != nil {
		return fate{}, err
	}
	p := a.progress("control "+ctl.Mutant, 1)
	defer p.stop()
	m, err := fsbench.Explore(a.ctx, arena, explore.Bases("")[0], explore.Options{Progress: p.at, Only: ctl.At, Warm: g.warm})
	if err = errors.Join(err, m.Err()); err != nil {
		return fate{}, err
	}
	_, red := ctl.Red(m)
	return fate{ctl, len(m.Steps), red}, nil
}

// save leaves the scenarios that break rules in the folder.
func (r *exploration) save(m explore.Map) error {
	for _, f := range m.Findings {
		if err := os.WriteFile(r.file(f), []byte(f.Scenario.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r *exploration) file(f explore.Finding) string {
	return filepath.Join(r.dir, fmt.Sprintf("%s-%s.txtar", f.Rule, f.Scenario.Name))
}

func (r *exploration) replay(f explore.Finding) string {
	return fmt.Sprintf("fsbench replay %s %s", r.file(f), r.replayed)
}

// exit returns the exit code, with a line that says why where it is not plain.
func (r *exploration) exit() error {
	for _, m := range r.maps {
		if err := m.Err(); err != nil {
			return err
		}
	}
	seen := slices.ContainsFunc(r.maps, func(m explore.Map) bool { return len(m.Steps) > 0 })
	for _, f := range r.controls {
		if !f.red && (f.steps > 0 || seen) {
			return fmt.Errorf("control %s is green: it %s, and was not found as %s", f.Mutant, f.Bad, f.Control)
		}
	}
	for _, m := range r.maps {
		for _, f := range m.Findings {
			if ruleOf(f.Rule).Strength == spec.Must {
				return &exit{code: reports.ExitFailed}
			}
		}
	}
	if why := r.inconclusive(); why != "" {
		return &exit{reports.ExitInconclusive, errors.New("inconclusive: " + why)}
	}
	return nil
}

// inconclusive says which call proves nothing, or why none does; it is empty if all
// that were explored prove something.
func (r *exploration) inconclusive() string {
	skip, proven := "", false
	for _, m := range r.maps {
		switch {
		case m.Skip() != "":
			skip = cmp.Or(skip, m.Base.Name+": "+m.Skip())
		case m.Blank() != "":
			return m.Base.Name + ": " + m.Blank()
		case m.Struck() == 0:
			return m.Base.Name + ": nothing that was tried struck"
		default:
			proven = true
		}
	}
	if proven {
		return ""
	}
	return skip
}

func ruleOf(id spec.RuleID) spec.Rule {
	for _, r := range spec.Rules {
		if r.ID == id {
			return r
		}
	}
	return spec.Rule{ID: id, Strength: spec.Must}
}

// emptyDir makes a folder for scenarios, without those of an earlier run.
func emptyDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("report folder: %w; name another with --out", err)
	}
	old, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return err
	}
	for _, file := range old {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("report folder: %w; name another with --out", err)
		}
	}
	return nil
}
