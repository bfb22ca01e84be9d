package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/sut/stdio"
)

// subject is one of those that this program brings along.
type subject struct {
	name    string // as the command line has it
	variant inproc.Variant
	tamper  func(io.Writer) io.Writer
}

func parseSubject(name string) (subject, error) {
	if name == "reference" {
		return subject{name: name}, nil
	}
	mutant, ok := strings.CutPrefix(name, "mutant:")
	if !ok {
		return subject{}, fmt.Errorf("subject %q: want reference, or mutant: and a name that fsbench zoo lists", name)
	}
	m, err := mutants.ByName(mutant)
	return subject{name, m.Variant, m.Tamper}, err
}

func (s subject) driver() *inproc.Driver { return &inproc.Driver{Variant: s.variant} }

func (s subject) info() sut.Info {
	info, err := s.driver().Info(context.Background())
	if err != nil {
		panic("fsbench: the reference does not know itself: " + err.Error())
	}
	return info
}

func (s subject) reportsAs() reports.Subject {
	info := s.info()
	return reports.Subject{Name: info.Name, Version: info.Version}
}

// memory is the arena in this process. What is about the protocol goes over a pipe
// to a server in this process.
func (s subject) memory() fsbench.Arena {
	a := fsbench.Memory(s.driver())
	info := s.info()
	a.Wire = stdio.PipeEach(
		func(env sut.Env) stdio.Main { return serve.Function(s.driver(), env, s.tamper) },
		stdio.Options{Info: &info, Settable: info.Settable},
	)
	return a
}

func (s subject) tampered(out io.Writer) io.Writer {
	if s.tamper == nil {
		return out
	}
	return s.tamper(out)
}

// disk is the arena in a lab: this program once more, in a jail, as a worker.
func (s subject) disk(lab *disk.Lab) fsbench.Arena {
	info := s.info()
	exe := "/proc/self/exe" // by this name, since the child may not be able to search the folder
	if _, err := os.Stat(exe); err != nil {
		exe = os.Args[0]
	}
	return fsbench.Arena{
		Driver: stdio.New(stdio.Options{
			ContentDir: lab.Content,
			Info:       &info, Settable: info.Settable,
			Command: func(_ string, policies spec.Policies) []string {
				argv := []string{exe, "serve", "--stdio", "--worker", "--subject", s.name}
				for _, name := range slices.Sorted(maps.Keys(policies)) {
					argv = append(argv, "--policy", name+"="+policies[name])
				}
				return argv
			},
		}),
		Box: func() (sandbox.Sandbox, error) { return lab.New() },
	}
}
