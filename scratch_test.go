package fsbench

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"strings"
	"bytes"
	"sort"

	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/trace"
)

func TestScratch(t *testing.T) {
	n, _ := strconv.Atoi(os.Getenv("N"))
	seed, _ := strconv.Atoi(os.Getenv("SEED"))
	p := scenarios.Profiles[0]
	shown := map[string]int{}
	ex := map[string]int{}
	fired := 0
	lim, _ := strconv.Atoi(os.Getenv("LIM"))
	if lim == 0 { lim = 1 }
	calls, ok := 0, 0
	for i := 0; i < n; i++ {
		s := p.Draw(uint64(seed), i, "x")
		run, err := runner.Execute(context.Background(), &inproc.Driver{}, mem.New(), s)
		if err != nil {
			t.Errorf("broken %v\n%s", err, s)
			if shown["broken"]++; shown["broken"] > 2 { t.FailNow() }
			continue
		}
		v := model.Judge(model.Files{}, run.Events)
		f := false
		for _, e := range run.Events { if e.Fault != nil { f = true }; if e.Return != nil { calls++; if e.Return.Status == 1 { ok++ } } }
		if f { fired++ }
		for k, c := range v.Exercised { ex[string(k)] += c }
		for _, fi := range v.Findings {
			shown[string(fi.Rule)]++
			if shown[string(fi.Rule)] > lim { continue }
			var b bytes.Buffer
			trace.Write(&b, run.Events)
			fmt.Printf("=== %s call %d\n got  %s\n", fi.Rule, fi.Call, fi.Got)
			for _, w := range fi.Want { fmt.Printf(" want %s\n", w) }
			fmt.Printf("%s\n", strings.ReplaceAll(s.String(), strings.Repeat("n", 250), "NNN"))
			for _, e := range run.Events {
				if e.Call == fi.Call && e.Log == nil && e.World == nil {
					var bb bytes.Buffer
					trace.Write(&bb, []trace.Event{e})
					if bb.Len() > 400 { bb.Truncate(400); bb.WriteString("...\n") }
					fmt.Print(bb.String())
				}
			}
		}
	}
	fmt.Println("findings", shown)
	fmt.Println("fired", fired, "of", n, "calls", calls, "ok", ok)
	var keys []string
	for k := range ex { keys = append(keys, k) }
	sort.Strings(keys)
	for _, k := range keys { fmt.Print(k, "=", ex[k], " ") }
	fmt.Println()
}
