package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/reports/junit"
)

type reportCmd struct {
	Report string `arg:"" default:".fsbench" help:"Report folder or report.json."`
	Format string `default:"text" help:"text, json or junit."`
	JSON   bool   `help:"The same as --format json."`
	All    bool   `help:"In text, a line for every rule."`
	Schema bool   `help:"Print the JSON Schema of reports instead."`
}

func (reportCmd) Help() string {
	return `Example: fsbench report .fsbench --format junit > junit.xml`
}

func (c *reportCmd) Run(a *app) error {
	if c.Schema {
		_, err := io.WriteString(a.out, reports.ReportSchema)
		return err
	}
	file := c.Report
	if info, err := os.Stat(file); err == nil && info.IsDir() {
		file = filepath.Join(file, "report.json")
	}
	f, err := os.Open(file)
	if err != nil {
		return usage(err)
	}
	defer func() { _ = f.Close() }()
	rep, err := reports.ReadJSON(f, file)
	if err != nil {
		return usage(err)
	}
	if c.JSON {
		c.Format = "json"
	}
	switch c.Format {
	case "text":
		return rep.WriteText(a.out, style(), c.All)
	case "json":
		return rep.WriteJSON(a.out)
	case "junit":
		return junit.Write(a.out, rep)
	}
	return usage(fmt.Errorf("format %q: want text, json or junit", c.Format))
}
