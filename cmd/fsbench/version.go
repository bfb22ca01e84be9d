package main

import (
	"fmt"
	"runtime"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

type versionCmd struct {
	JSON bool `help:"Print as JSON."`
}

func (versionCmd) Help() string { return `Example: fsbench version --json` }

func (c *versionCmd) Run(a *app) error {
	v := struct {
		Version  string `json:"version"`
		Go       string `json:"go"`
		Platform string `json:"platform"`
		Rules    int    `json:"rules"`
		Protocol [2]int `json:"protocol"`
		Trace    int    `json:"trace_format"`
		Report   int    `json:"report_schema"`
	}{
		fsbench.Version, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH, len(spec.Rules),
		[2]int{wire.Speaks.Min, wire.Speaks.Max},
		trace.Format, reports.Schema,
	}
	if c.JSON {
		return a.json(v)
	}
	_, err := fmt.Fprintf(a.out, "fsbench %s (%s, %s)\n%d rules, protocol %d to %d, trace format %d, report schema %d\n",
		v.Version, v.Go, v.Platform, v.Rules, v.Protocol[0], v.Protocol[1], v.Trace, v.Report)
	return err
}
