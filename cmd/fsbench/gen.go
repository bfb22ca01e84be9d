package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/scenarios"
)

type genCmd struct {
	Profile string `default:"smoke" help:"Generator profile: smoke or soak."`
	Seed    uint64 `default:"1" help:"Seed."`
	Count   int    `default:"1" help:"How many scenarios."`
	Out     string `placeholder:"DIR" help:"Folder for the files; without it they are printed."`
	JSON    bool   `help:"Print the names and files as JSON."`
}

func (genCmd) Help() string {
	return `A scenario is one text file: a world, calls, faults and handlers.

Example: fsbench gen --seed 7 --count 100 --out my-scenarios`
}

type generated struct {
	Name string `json:"name"`
	File string `json:"file,omitempty"`
	Text string `json:"text,omitempty"`
}

func (c *genCmd) Run(a *app) error {
	p, err := scenarios.ProfileByName(c.Profile)
	if err != nil {
		return usage(err)
	}
	if c.Count < 1 {
		return usage(fmt.Errorf("count %d: want at least 1", c.Count))
	}
	if c.Out != "" {
		if err := os.MkdirAll(c.Out, 0o755); err != nil {
			return usage(err)
		}
	}
	var list []generated
	for i := range c.Count {
		s := p.Draw(c.Seed, i, fsbench.Version)
		g := generated{Name: s.Name}
		if c.Out == "" {
			g.Text = s.String()
			if !c.JSON {
				if _, err := io.WriteString(a.out, g.Text); err != nil {
					return err
				}
			}
		} else {
			g.File = filepath.Join(c.Out, s.Name+".txtar")
			if err := os.WriteFile(g.File, []byte(s.String()), 0o644); err != nil {
				return err
			}
		}
		list = append(list, g)
	}
	switch {
	case c.JSON:
		return a.json(map[string]any{"scenarios": list})
	case c.Out != "":
		_, err = fmt.Fprintf(a.out, "%d scenarios in %s\n", len(list), c.Out)
	}
	return err
}
