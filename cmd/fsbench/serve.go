package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs/osfs"
)

type serveCmd struct {
	Stdio   bool              `help:"Speak the protocol of docs/PROTOCOL.md on standard input and output."`
	Subject string            `default:"reference" help:"What to serve: reference, or mutant:NAME."`
	Policy  map[string]string `placeholder:"NAME=VALUE" help:"Choose a policy, as in links=follow."`
	Worker  bool              `hidden:"" help:"Arm fault plans that the runner sends."`
}

func (serveCmd) Help() string {
	return `The root comes with the runner's open request.

Example: fsbench serve --stdio --policy links=follow`
}

func (c *serveCmd) Run(a *app) error {
	if !c.Stdio {
		return usage(errors.New("serve: want --stdio, the only way to be spoken to so far"))
	}
	s, err := parseSubject(c.Subject)
	if err != nil {
		return usage(err)
	}
	for name, value := range c.Policy {
		values, known := spec.PolicyValues[name]
		switch {
		case !known || !slices.Contains(values, value):
			return usage(fmt.Errorf("policy %s=%s: want a policy and a value of docs/PROTOCOL.md", name, value))
		case value != values[0] && name != spec.PolicyLinks:
			return usage(fmt.Errorf("policy %s=%s: the reference only offers a choice of %s", name, value, spec.PolicyLinks))
		}
	}
	d := s.driver()
	d.Live = !c.Worker
	fsys := osfs.New()
	opt := serve.Options{Driver: d, FS: fsys, Policies: c.Policy, Log: serve.Warnings(a.err)}
	if c.Worker {
		opt.Arm = serve.Worker(fsys)
	}
	if err := serve.Serve(a.ctx, a.in, s.tampered(a.out), opt); err != nil && a.ctx.Err() == nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}
