package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/reports/junit"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

type runCmd struct {
	Subject string  `default:"reference" help:"What to judge: reference, or mutant:NAME."`
	Profile string  `default:"smoke" help:"Generator profile: smoke or soak."`
	Sandbox string  `default:"all" help:"Where to run: mem, disk or all."`
	Rules   string  `placeholder:"LIST" help:"Judge these rules only: families and ids, as in FB,AT-003."`
	Seed    *uint64 `help:"Seed of the generated scenarios; a random one is printed otherwise."`
	Count   int     `help:"Generated scenarios in memory; the profile says otherwise. On disk the share is the profile's."`
	Shard   string  `placeholder:"I/N" help:"Run only the I-th of N parts of the scenarios, from 1."`
	Out     string  `default:".fsbench" help:"Report folder."`
	Waivers string  `placeholder:"FILE" help:"YAML list of waivers: subject, rule, reason, issue, expires."`
	JSON    bool    `help:"Print the report as JSON."`
	All     bool    `help:"Print a line for every rule."`
}

func (runCmd) Help() string {
	return `Exit codes: 0 all rules pass, are waived or skipped; 1 a MUST rule is broken or a
waiver is stale; 2 usage; 3 the bench broke; 4 a rule was never conclusively tried.

Example: fsbench run --seed 7 --sandbox mem --rules FB,AT-003 --json`
}

func (c *runCmd) Run(a *app) error {
	r, err := c.prepare(a)
	if err != nil {
		return err
	}
	stop, err := a.guard(c.Out)
	if err != nil {
		return errors.Join(err, r.close())
	}
	defer stop()
	defer func() { _ = r.close() }()
	if err := r.judge(); err != nil {
		return err
	}
	rep, err := r.builder.Report()
	if err != nil {
		return err
	}
	if err := r.close(); err != nil {
		return err
	}
	if err := r.write(rep); err != nil {
		return err
	}
	if c.JSON {
		err = rep.WriteJSON(a.out)
	} else {
		err = rep.WriteText(a.out, style(), c.All)
	}
	if err != nil {
		return err
	}
	if code := rep.ExitCode(); code != reports.ExitOK {
		return &exit{code: code}
	}
	return nil
}

// campaign is one run under way.
type campaign struct {
	a       *app
	cmd     *runCmd
	subject subject
	seed    uint64
	lab     *disk.Lab             // nil without the disk
	tasks   []func() fsbench.Task // drawn where they are run
	builder *reports.Builder
	saved   map[spec.RuleID]string // replay commands of rules already found broken
	mem     fsbench.Arena
}

// prepare checks everything that the caller asked for before anything is run.
func (c *runCmd) prepare(a *app) (*campaign, error) {
	r := &campaign{a: a, cmd: c, saved: map[spec.RuleID]string{}}
	var err error
	if r.subject, err = parseSubject(c.Subject); err != nil {
		return nil, usage(err)
	}
	profile, err := scenarios.ProfileByName(c.Profile)
	if err != nil {
		return nil, usage(err)
	}
	rules, err := selectRules(c.Rules)
	if err != nil {
		return nil, usage(err)
	}
	waivers, err := readWaivers(c.Waivers)
	if err != nil {
		return nil, usage(err)
	}
	part, err := parseShard(c.Shard)
	if err != nil {
		return nil, usage(err)
	}
	if err := makeReportDir(c.Out); err != nil {
		return nil, usage(err)
	}
	r.seed = uint64(time.Now().UnixNano()) % 1e9 // any will do: it is printed
	if c.Seed != nil {
		r.seed = *c.Seed
	}
	if c.Count > 0 {
		profile.Count = c.Count
	}
	r.builder = reports.NewBuilder(reports.Options{
		Suite: fsbench.Version, Subject: r.subject.reportsAs(), Seed: r.seed, Profile: profile.Name,
		Rules: rules, Mutants: mutants.ByRule(), Waivers: waivers,
	})
	return r, r.plan(profile, part)
}

// plan makes the list of tasks: the corpus and the generated scenarios in every
// sandbox that was asked for.
func (r *campaign) plan(profile scenarios.Profile, part shard) error {
	corpus, err := scenarios.Corpus()
	if err != nil {
		return err
	}
	add := func(arena fsbench.Arena, generated int) {
		for _, s := range corpus {
			if part.has(s.Name) {
				r.tasks = append(r.tasks, func() fsbench.Task { return fsbench.Task{Arena: arena, Scenario: s} })
			}
		}
		for i := range generated {
			if name := profile.NameOf(r.seed, i); part.has(name) {
				r.tasks = append(r.tasks, func() fsbench.Task {
					return fsbench.Task{Arena: arena, Scenario: profile.Draw(r.seed, i, fsbench.Version)}
				})
			}
		}
	}
	r.mem = r.subject.memory()
	switch r.cmd.Sandbox {
	case "mem", "all":
		add(r.mem, profile.Count)
	case "disk":
	default:
		return usage(fmt.Errorf("sandbox %q: want mem, disk or all", r.cmd.Sandbox))
	}
	if r.cmd.Sandbox != "mem" {
		if r.lab, err = disk.NewLab(""); err != nil {
			return err
		}
		add(r.subject.disk(r.lab), profile.Disk)
	}
	return nil
}

func (r *campaign) close() error {
	if r.lab == nil {
		return nil
	}
	lab := r.lab
	r.lab = nil
	return lab.Close()
}

func (r *campaign) judge() error {
	p := r.a.progress("scenarios", len(r.tasks))
	defer p.stop()
	var saveErr error
	err := fsbench.JudgeAll(r.a.ctx, len(r.tasks), func(i int) fsbench.Task { return r.tasks[i]() }, func(_ int, j reports.Judged) {
		j.Replay, saveErr = r.keep(j, saveErr)
		r.builder.Add(j)
		p.step()
	})
	return errors.Join(err, saveErr)
}

// keep saves the scenario and the trace that show a rule broken for the first
// time, and returns the command that shows it again.
func (r *campaign) keep(j reports.Judged, err error) (string, error) {
	for _, f := range j.Verdict.Findings {
		if cmd, known := r.saved[f.Rule]; known || err != nil {
			if len(j.Verdict.Findings) == 1 {
				return cmd, err
			}
			continue
		}
		s := j.Run.Scenario
		if s.Origin.Profile != "" && j.Run.Sandbox == "mem" {
			s, _ = fsbench.Shrink(r.a.ctx, r.mem, s, f.Rule, 400)
		}
		name := fmt.Sprintf("%s-%s-%s", f.Rule, j.Run.Sandbox, s.Name)
		file := filepath.Join(r.cmd.Out, "scenarios", name+".txtar")
		if err = os.WriteFile(file, []byte(s.String()), 0o644); err == nil {
			err = writeTrace(filepath.Join(r.cmd.Out, "traces", name+".jsonl"), j.Run.Events)
		}
		r.saved[f.Rule] = fmt.Sprintf("fsbench replay %s --sandbox %s --subject %s", file, j.Run.Sandbox, r.subject.name)
	}
	return r.commands(j), err
}

// commands joins the replay commands of what a run has found.
func (r *campaign) commands(j reports.Judged) string {
	for _, f := range j.Verdict.Findings {
		if cmd := r.saved[f.Rule]; cmd != "" {
			return cmd
		}
	}
	return ""
}

func writeTrace(file string, events []trace.Event) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return trace.Write(f, events)
}

// write leaves the report in its folder.
func (r *campaign) write(rep *reports.Report) error {
	for name, render := range map[string]func(f *os.File) error{
		"report.json": func(f *os.File) error { return rep.WriteJSON(f) },
		"junit.xml":   func(f *os.File) error { return junit.Write(f, rep) },
	} {
		f, err := os.Create(filepath.Join(r.cmd.Out, name))
		if err != nil {
			return err
		}
		if err := errors.Join(render(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// makeReportDir makes the report folder, empties it of what an earlier run saved,
// and tries whether it can be written: before the run, not after it.
func makeReportDir(dir string) error {
	for _, sub := range []string{"scenarios", "traces"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return fmt.Errorf("report folder: %w; name another with --out", err)
		}
		for _, pattern := range []string{"*.txtar", "*.jsonl"} {
			old, err := filepath.Glob(filepath.Join(dir, sub, pattern))
			if err != nil {
				return err
			}
			for _, file := range old {
				if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("report folder: %w; name another with --out", err)
				}
			}
		}
	}
	f, err := os.CreateTemp(dir, ".try-")
	if err != nil {
		return fmt.Errorf("report folder: %w; name another with --out", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// selectRules reads a list of families and ids; an empty one means all.
func selectRules(list string) ([]spec.Rule, error) {
	if list == "" {
		return spec.Rules, nil
	}
	wanted := strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
	var out []spec.Rule
	used := map[string]bool{}
	for _, r := range spec.Rules {
		for _, w := range wanted {
			if string(r.ID) == w || r.ID.Family() == strings.TrimSuffix(w, "-") {
				used[w] = true
				out = append(out, r)
				break
			}
		}
	}
	for _, w := range wanted {
		if !used[w] {
			return nil, fmt.Errorf("rule %q: want ids or families of %s; see fsbench rules", w, strings.Join(families(), ", "))
		}
	}
	return out, nil
}

func families() []string {
	var out []string
	for _, r := range spec.Rules {
		if f := r.ID.Family(); len(out) == 0 || out[len(out)-1] != f {
			out = append(out, f)
		}
	}
	return out
}

func readWaivers(file string) ([]reports.Waiver, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("waivers: %w", err)
	}
	defer func() { _ = f.Close() }()
	var ws []reports.Waiver
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(&ws); err != nil {
		return nil, fmt.Errorf("waivers: %s: want a list of subject, rule, reason, issue and expires: %w", file, err)
	}
	if err := reports.CheckWaivers(ws, time.Now().Format(time.DateOnly)); err != nil {
		return nil, fmt.Errorf("waivers: %s: %w", file, err)
	}
	return ws, nil
}
