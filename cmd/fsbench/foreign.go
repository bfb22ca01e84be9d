package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	execsut "github.com/fsbench/fsbench/sut/exec"
	"github.com/fsbench/fsbench/sut/mcp"
	"github.com/fsbench/fsbench/sut/stdio"
	"github.com/fsbench/fsbench/trace"
)

// foreign is a subject that is a command of somebody else, and how it is told what
// to do.
type foreign struct {
	Stdio    bool          `help:"CMD speaks the protocol of docs/PROTOCOL.md on standard input and output (the default)."`
	MCP      bool          `name:"mcp" help:"CMD is a file server that speaks the Model Context Protocol."`
	Exec     bool          `help:"CMD does one call and ends: {path} is the file, and the content comes on standard input."`
	Binding  string        `placeholder:"FILE" help:"With --mcp: YAML that says which tools are meant."`
	Preset   string        `placeholder:"NAME" help:"With --mcp: a binding that is known; filesystem."`
	Read     []string      `placeholder:"PATH" sep:"none" help:"File or folder that CMD may read beside the system's own and what its arguments name."`
	Prepare  string        `placeholder:"LINE" help:"Run this shell line once before the first scenario, with the network, in a folder that CMD then finds at {cache}, read-only."`
	Deadline time.Duration `default:"20s" help:"How long one call of CMD may take; what became of it is unknown then."`
	Engine   string        `default:"any" enum:"any,ptrace,notify" help:"What stops CMD at its steps: ptrace, or notify, which sees no results; any is the better one that works here."`
	Trusted  bool          `name:"trusted-subject" help:"Run CMD although nothing keeps it from the rest of this machine."`
	Cmd      []string      `arg:"" optional:"" passthrough:"" name:"cmd" help:"Subject, after --."`

	name string // of a program, as it was given
}

// argv is the command line of the subject.
func (f foreign) argv() []string {
	if len(f.Cmd) > 0 && f.Cmd[0] == "--" {
		return f.Cmd[1:]
	}
	return f.Cmd
}

// given reports whether a foreign subject was named.
func (f foreign) given() bool { return len(f.argv()) > 0 }

// check reports flags that do not go together.
func (f foreign) check() error {
	ways := 0
	for _, set := range []bool{f.Stdio, f.MCP, f.Exec} {
		if set {
			ways++
		}
	}
	switch {
	case ways > 1:
		return errors.New("--stdio, --mcp and --exec: want one of them")
	case !f.given() && (ways > 0 || f.Binding != "" || f.Preset != "" || len(f.Read) > 0 || f.Prepare != ""):
		return errors.New("want a command after --, as in: fsbench explore --stdio -- fsbench serve --stdio")
	case !f.MCP && (f.Binding != "" || f.Preset != ""):
		return errors.New("--binding and --preset: want --mcp with them")
	case f.Deadline < 0:
		return fmt.Errorf("--deadline %v: want a time that a call may take", f.Deadline)
	case f.MCP && (f.Binding == "") == (f.Preset == ""):
		return errors.New("--mcp: want --binding FILE or --preset NAME")
	}
	return nil
}

// arena is where the subject meets plans: in a jail on disk, watched from outside.
func (f foreign) arena(lab *disk.Lab) (fsbench.Arena, error) {
	a := fsbench.Arena{Box: func() (sandbox.Sandbox, error) { return lab.Foreign() }, Deadline: f.Deadline}
	var err error
	switch {
	case f.MCP:
		a.Driver, err = f.server()
	case f.Exec:
		a.Driver = execsut.New(execsut.Options{
			Plain: execsut.PlainArgv(f.argv()...),
			Info:  sut.Info{Name: cmp.Or(f.name, f.argv()[0]), Version: "unknown", Roles: []sut.Role{sut.RoleTools}, Features: []string{string(spec.CallWrite)}},
		})
	default:
		var probe sut.Env
		if probe, err = probing(lab); err == nil {
			a.Driver = stdio.New(stdio.Options{Command: stdio.Argv(f.argv()...), Probe: probe})
		}
	}
	if err == nil {
		a.Driver = sut.Reuse(a.Driver)
	}
	return a, err
}

// admit says what the subject may see of this machine: not out, the report folder. It
// reports whether nothing is kept from it.
func (f foreign) admit(lab *disk.Lab, out string) (loose bool, err error) {
	dir, err := os.Getwd()
	if err != nil {
		return false, err
	}
	read, err := jail.Needs(f.argv(), dir)
	if err != nil {
		return false, usage(err)
	}
	// What it was prepared with it has anyway.
	read = slices.DeleteFunc(read, func(p string) bool { return strings.HasPrefix(p, lab.Dir+"/") })
	also, err := f.shown()
	if err != nil {
		return false, err
	}
	hide, err := hidden(out)
	if err != nil {
		return false, err
	}
	return f.confine(lab, disk.Foreign{Read: append(read, also...), Hide: hide, Env: jail.Environment()})
}

// shown lists what --read names.
func (f foreign) shown() ([]string, error) {
	var out []string
	for _, p := range f.Read {
		p, err := filepath.Abs(p)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// hidden lists what no subject sees beside the usual: the report folder, if there is one.
func hidden(out string) ([]string, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(out); err != nil {
		return nil, nil //nolint:nilerr // there is nothing to hide
	}
	return []string{out}, nil
}

// confine lets a subject in. It reports whether nothing keeps it from the rest of this
// machine.
func (f foreign) confine(lab *disk.Lab, subject disk.Foreign) (loose bool, err error) {
	err = lab.Admit(subject)
	if errors.Is(err, sandbox.ErrCannot) && f.Trusted {
		return true, lab.Trust(subject)
	}
	if errors.Is(err, sandbox.ErrCannot) {
		return false, refused(err, "fsbench doctor says what would help, and --trusted-subject runs it all the same")
	}
	return false, err
}

// refused is how a command ends that this machine cannot carry out: what it was to find
// out is not known.
func refused(err error, help string) error {
	return &exit{reports.ExitInconclusive, fmt.Errorf("%w; %s", err, help)}
}

// prepared returns the subject as it is once --prepare has run.
func (f foreign) prepared(ctx context.Context, lab *disk.Lab, out string) (foreign, error) {
	if f.Prepare == "" {
		return f, nil
	}
	if _, err := f.confine(lab, disk.Foreign{}); err != nil {
		return f, err
	}
	read, err := jail.Needs(strings.Fields(f.Prepare), lab.Dir)
	if err != nil {
		return f, usage(fmt.Errorf("--prepare: %w", err))
	}
	hide, err := hidden(out)
	if err != nil {
		return f, err
	}
	also, err := f.shown()
	if err != nil {
		return f, err
	}
	env, resolver := jail.NetworkNeeds()
	cache, err := lab.Prepare(ctx, f.Prepare, disk.Foreign{
		Read: slices.Concat(read, also, resolver), Hide: hide, Env: append(jail.Environment(), env...),
	})
	if err != nil {
		return f, err
	}
	f.name, f.Cmd = f.argv()[0], slices.Clone(f.Cmd)
	for i, word := range f.Cmd {
		f.Cmd[i] = strings.ReplaceAll(word, "{cache}", cache)
	}
	f.Binding = strings.ReplaceAll(f.Binding, "{cache}", cache)
	return f, nil
}

func (f foreign) server() (sut.Driver, error) {
	b, err := f.binding()
	if err != nil {
		return nil, usage(err)
	}
	b.Command = f.argv()
	return mcp.New(mcp.Options{Binding: b})
}

func (f foreign) binding() (mcp.Binding, error) {
	switch f.Preset {
	case "":
		return mcp.Load(f.Binding)
	case "filesystem":
		for _, arg := range f.argv() {
			if strings.HasSuffix(arg, "/dist/index.js") {
				return mcp.Filesystem(filepath.Dir(filepath.Dir(arg)))
			}
		}
		return mcp.Binding{}, errors.New("preset filesystem: want the server's own dist/index.js in CMD, as in: node FOLDER/dist/index.js {root}")
	}
	return mcp.Binding{}, fmt.Errorf("preset %q: want filesystem", f.Preset)
}

// probing is where a subject may say who it is: an empty sandbox, in which nothing
// strikes.
func probing(lab *disk.Lab) (sut.Env, error) {
	box, err := lab.Foreign()
	if err != nil {
		return sut.Env{}, err
	}
	if err := box.Build(spec.World{spec.Workspace: {Type: spec.TypeDir, Mode: 0o755}}); err != nil {
		return sut.Env{}, err
	}
	return sut.Env{Root: box.Root(), Wrap: func(cmd *exec.Cmd) error {
		a, err := box.Arm(faults.Plan{}, &trace.Recorder{})
		if err != nil {
			return fmt.Errorf("ask who it is: %w", err)
		}
		return a.Child().Wrap(cmd)
	}}, nil
}

// engine chooses what stops the subject at its steps.
func (f foreign) engine(lab *disk.Lab) (disk.Engine, error) {
	if f.Engine != "" && f.Engine != anyEngine {
		lab.Use(supervisor.Engine(f.Engine))
	}
	e, err := lab.Engine()
	if errors.Is(err, sandbox.ErrCannot) {
		err = refused(err, "fsbench doctor says what would help")
	}
	return e, err
}

// anyEngine is the best one that works here.
const anyEngine = "any"

// ground is where the subject is explored, with the controls in its place.
func (f foreign) ground(ctx context.Context, out string) (ground, func() error, error) {
	lab, err := disk.NewLab("")
	if err != nil {
		return ground{}, nil, err
	}
	var drivers []sut.Driver
	done := func() error {
		var errs []error
		for _, d := range drivers {
			errs = append(errs, d.Close())
		}
		return errors.Join(append(errs, lab.Close())...)
	}
	enter := func(f foreign) (fsbench.Arena, error) {
		arena, err := f.arena(lab)
		if err == nil {
			drivers = append(drivers, arena.Driver)
		}
		return arena, err
	}
	g := ground{sandbox: "disk", warm: true, replayed: "--sandbox disk " + f.String()}
	g.control = func(mutant string) (fsbench.Arena, error) {
		bad := foreign{Stdio: true, Cmd: []string{"/proc/self/exe", "serve", "--stdio", "--subject", "mutant:" + mutant}}
		return enter(bad)
	}
	if f, err = f.prepared(ctx, lab, out); err == nil {
		g.loose, err = f.admit(lab, out)
	}
	if err == nil {
		g.engine, err = f.engine(lab)
	}
	if err == nil {
		g.arena, err = enter(f)
	}
	if err == nil {
		var info sut.Info
		if info, err = g.arena.Driver.Info(ctx); err != nil {
			err = fmt.Errorf("the subject does not say who it is: %w", err)
		}
		g.subject = reports.Subject{Name: info.Name, Version: info.Version}
	}
	if err != nil {
		return g, nil, errors.Join(err, done())
	}
	return g, done, nil
}

// String is how the subject is named on a command line.
func (f foreign) String() string {
	var words []string
	for _, flag := range []struct {
		name string
		set  bool
	}{{"--stdio", f.Stdio}, {"--mcp", f.MCP}, {"--exec", f.Exec}, {"--trusted-subject", f.Trusted}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	add := func(name, value string) {
		if value != "" {
			words = append(words, name, quoted(value))
		}
	}
	add("--preset", f.Preset)
	add("--binding", f.Binding)
	if f.Engine != anyEngine {
		add("--engine", f.Engine)
	}
	add("--prepare", f.Prepare)
	for _, p := range f.Read {
		add("--read", p)
	}
	if f.Deadline != 0 && f.Deadline != runner.DefaultDeadline {
		add("--deadline", f.Deadline.String())
	}
	words = append(words, "--")
	for _, arg := range f.argv() {
		words = append(words, quoted(arg))
	}
	return strings.Join(words, " ")
}

// quoted is a word as a shell reads it.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-{}") == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
