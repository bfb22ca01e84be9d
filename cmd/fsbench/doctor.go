package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/disk"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/vfs/memfs"
	"github.com/fsbench/fsbench/vfs/osfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

type doctorCmd struct {
	Dir   string `placeholder:"DIR" help:"Folder whose file system is looked at; the one for temporary files otherwise."`
	Sweep bool   `help:"Only remove what killed runs have left in the folder."`
	JSON  bool   `help:"Print as JSON."`
}

func (doctorCmd) Help() string {
	return `Runs the conformance checks of the port on this machine's file system and on the one
in memory, and says what cannot be brought about here, why, and what would help.

Example: fsbench doctor --dir /var/tmp`
}

// health is what the doctor finds.
type health struct {
	Platform string   `json:"platform"`
	Root     bool     `json:"root"`
	Dir      string   `json:"dir"`
	Caps     []string `json:"capabilities"`
	Mem      string   `json:"memory_conformance"`
	Disk     string   `json:"disk_conformance"`
	Sandbox  string   `json:"disk_sandbox"`
	Jail     string   `json:"jail"`   // of foreign subjects
	Engine   string   `json:"engine"` // what stops them at their steps
	Notes    []string `json:"notes"`
	Cures    []string `json:"cures"`
	Profiles []string `json:"profiles"`
}

func (c *doctorCmd) Run(a *app) error {
	dir := c.Dir
	if dir == "" {
		dir = os.TempDir()
	}
	if c.Sweep {
		return c.sweep(a, dir)
	}
	h := health{
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Root: os.Geteuid() == 0, Dir: dir, Notes: []string{}, Cures: []string{},
		Mem: "ok", Disk: "ok", Sandbox: "ok", Jail: "none", Engine: "none",
	}
	cred := memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}
	if err := vfstest.TestFS(memfs.New(cred).As(cred), "/"); err != nil {
		h.Mem = err.Error()
	}
	if err := h.disk(dir); err != nil {
		h.Disk = err.Error()
	}
	lab, err := disk.NewLab(dir)
	if err != nil {
		h.Sandbox = err.Error()
	} else {
		h.foreign(lab)
		h.Notes = append(h.Notes, lab.Notes()...)
		h.Cures = append(h.Cures, lab.Cures()...)
		if err := lab.Close(); err != nil {
			return err
		}
	}
	for _, p := range scenarios.Profiles {
		h.Profiles = append(h.Profiles, p.Name)
	}
	return c.print(a, h)
}

// foreign finds out how programs of somebody else can be explored.
func (h *health) foreign(lab *disk.Lab) {
	subject := disk.Foreign{Env: jail.Environment()}
	h.Jail = "ok"
	if err := lab.Admit(subject); err != nil {
		h.Jail = "none: " + plain(err)
		if err := lab.Trust(subject); err == nil {
			h.Jail += "; foreign subjects run with --trusted-subject only"
		}
	}
	e, err := lab.Engine()
	if err != nil {
		h.Engine = "none: " + plain(err)
		return
	}
	h.Engine = e.String()
	if e.Why != "" {
		h.Engine += ", for want of a better one: " + e.Why
	}
}

// plain is err without what is said of all that a sandbox cannot do.
func plain(err error) string { return strings.TrimPrefix(err.Error(), sandbox.ErrCannot.Error()+": ") }

func (h *health) disk(dir string) error {
	fsys, err := osfs.Probe(dir)
	if err != nil {
		return err
	}
	h.Caps = strings.Fields(fsys.Caps().String())
	tmp, err := os.MkdirTemp(dir, "fsbench-doctor-")
	if err != nil {
		return err
	}
	err = vfstest.TestFS(fsys, tmp)
	if rmErr := os.RemoveAll(tmp); err == nil {
		err = rmErr
	}
	return err
}

func (c *doctorCmd) sweep(a *app, dir string) error {
	removed, err := disk.Sweep(dir)
	switch {
	case c.JSON:
		return errors.Join(err, a.json(map[string][]string{"removed": append([]string{}, removed...)}))
	case err == nil && len(removed) == 0:
		fmt.Fprintf(a.out, "nothing to remove in %s\n", dir)
	}
	for _, p := range removed {
		fmt.Fprintf(a.out, "removed %s\n", p)
	}
	return err
}

func (c *doctorCmd) print(a *app, h health) error {
	sick := h.Mem != "ok" || h.Disk != "ok"
	if c.JSON {
		if err := a.json(h); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(a.out, "platform      %s, root %v\n", h.Platform, h.Root)
		fmt.Fprintf(a.out, "memory        conformance: %s\n", h.Mem)
		fmt.Fprintf(a.out, "disk          conformance in %s: %s\n", h.Dir, h.Disk)
		fmt.Fprintf(a.out, "capabilities  %s\n", strings.Join(h.Caps, " "))
		fmt.Fprintf(a.out, "disk sandbox  %s\n", h.Sandbox)
		fmt.Fprintf(a.out, "jail          %s\n", h.Jail)
		fmt.Fprintf(a.out, "engine        %s\n", h.Engine)
		for _, n := range h.Notes {
			fmt.Fprintf(a.out, "note          %s\n", n)
		}
		for _, cure := range h.Cures {
			fmt.Fprintf(a.out, "cure          %s\n", cure)
		}
		fmt.Fprintf(a.out, "profiles      %s\n", strings.Join(h.Profiles, " "))
	}
	if sick {
		return &exit{code: reports.ExitBroken}
	}
	return nil
}
