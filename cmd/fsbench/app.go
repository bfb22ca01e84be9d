package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
)

// cli is the command line. A verb is a field; its flags are its struct.
type cli struct {
	Run     runCmd     `cmd:"" help:"Judge a subject and write a report."`
	Gen     genCmd     `cmd:"" help:"Generate scenario files."`
	Judge   judgeCmd   `cmd:"" help:"Judge a recorded trace again."`
	Replay  replayCmd  `cmd:"" help:"Run one scenario again."`
	Shrink  shrinkCmd  `cmd:"" help:"Find a smaller scenario that breaks the same rule."`
	Explore exploreCmd `cmd:"" help:"Try every errno, kill and swap at every step of one call."`
	Report  reportCmd  `cmd:"" help:"Render a report in another format."`
	Rules   rulesCmd   `cmd:"" help:"List the rules, or explain one."`
	Zoo     zooCmd     `cmd:"" help:"Show which rules catch which wrong implementations."`
	Serve   serveCmd   `cmd:"" help:"Serve the reference to others."`
	Doctor  doctorCmd  `cmd:"" help:"Say what this machine can bring about."`
	Version versionCmd `cmd:"" help:"Print versions."`
}

// app is what every verb is given.
type app struct {
	ctx    context.Context
	asked  context.Context // ends when the user wants the program to end
	in     io.Reader
	out    io.Writer
	err    io.Writer
	outTTY bool // a person reads the output
	errTTY bool
}

// exit is an error that carries an exit code. A nil err has been reported already.
type exit struct {
	code int
	err  error
}

func (e *exit) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}

func (e *exit) Unwrap() error { return e.err }

// usage marks an error in what the caller asked for.
func usage(err error) error {
	if err == nil {
		return nil
	}
	return &exit{reports.ExitUsage, err}
}

// newParser returns a parser of the command line; exit is called once help is
// printed.
func newParser(out, errs io.Writer, exit func(int)) *kong.Kong {
	parser, err := kong.New(&cli{},
		kong.Name("fsbench"),
		kong.Description("Decides whether an agent's file tools can be trusted."),
		kong.Writers(out, errs),
		kong.Exit(exit),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
	)
	if err != nil {
		panic("fsbench: command line: " + err.Error())
	}
	return parser
}

// run is the whole program but for its process: it returns the exit code.
func run(args []string, in io.Reader, out, errs io.Writer) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{ctx: ctx, asked: ctx, in: in, out: out, err: errs, outTTY: isTerminal(out), errTTY: isTerminal(errs)}
	if os.Getenv("NO_COLOR") != "" || !a.outTTY {
		text.DisableColors()
	}
	done := errors.New("done") // help was printed
	parser := newParser(out, errs, func(int) { panic(done) })
	defer func() {
		if p := recover(); p != nil {
			if p != done { //nolint:errorlint // it is the very value
				panic(p)
			}
			code = reports.ExitOK
		}
	}()
	if len(args) == 0 {
		args = []string{"--help"}
	}
	k, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(errs, "fsbench: %v; see fsbench --help\n", err)
		return reports.ExitUsage
	}
	return a.finish(k.Run(a))
}

// finish turns a verb's error into one line and an exit code.
func (a *app) finish(err error) int {
	if err == nil {
		return reports.ExitOK
	}
	if why := context.Cause(a.ctx); errors.Is(why, errFull) {
		fmt.Fprintf(a.err, "fsbench: %v\n", why)
		return reports.ExitBroken
	}
	if a.asked.Err() != nil {
		fmt.Fprintln(a.err, "fsbench: interrupted")
		return 130
	}
	var e *exit
	if !errors.As(err, &e) {
		e = &exit{reports.ExitBroken, err}
	}
	if e.err != nil {
		fmt.Fprintf(a.err, "fsbench: %s\n", oneLine(e.err))
	}
	return e.code
}

// oneLine is an error that may quote what a subject has said, or a name that it has
// made up.
func oneLine(err error) string {
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		lines[i] = spec.Printable(l)
	}
	return strings.Join(lines, "; ")
}

// json writes v for a script.
func (a *app) json(v any) error {
	enc := json.NewEncoder(a.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(v)
}

// style colours reports. Colours are off in a pipe and where NO_COLOR is set.
func style() reports.Style {
	with := func(c text.Color) func(string) string {
		return func(s string) string { return c.Sprint(s) }
	}
	return reports.Style{Good: with(text.FgGreen), Bad: with(text.FgRed), Warn: with(text.FgYellow), Dim: with(text.Faint)}
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
