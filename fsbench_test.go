package fsbench_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/internal/golden"
	"github.com/fsbench/fsbench/internal/mutants"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/trace"
)

func corpusScenario(tb testing.TB, name string) scenarios.Scenario {
	tb.Helper()
	corpus, err := scenarios.Corpus()
	if err != nil {
		tb.Fatal(err)
	}
	i := slices.IndexFunc(corpus, func(s scenarios.Scenario) bool { return s.Name == name })
	if i < 0 {
		tb.Fatalf("no scenario %s in the corpus", name)
	}
	return corpus[i]
}

// TestJourney shows one denied write from the call to the fault, the handlers, the
// landed bytes and the Log, as docs/ARCHITECTURE.md prints it; and beside it what
// comes of it when the handler lies.
func TestJourney(t *testing.T) {
	for _, name := range []string{"denied-write", "denied-write-liar"} {
		t.Run(name, func(t *testing.T) {
			j := fsbench.Judge(t.Context(), fsbench.Memory(&inproc.Driver{}), corpusScenario(t, name))
			if j.Err != nil {
				t.Fatal(j.Err)
			}
			var b bytes.Buffer
			if err := trace.Write(&b, j.Run.Events); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "trace/"+name+".jsonl", b.String())
			b.Reset()
			if err := reports.WriteStory(&b, j.Run.Events); err != nil {
				t.Fatal(err)
			}
			golden.Check(t, "trace/"+name+".txt", b.String())
		})
	}
}

// TestJourneyInDocs keeps the page true.
func TestJourneyInDocs(t *testing.T) {
	page, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	story, err := os.ReadFile("golden/trace/denied-write.txt")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(page, story) {
		t.Error("docs/ARCHITECTURE.md does not show golden/trace/denied-write.txt; mend: paste that file below \"One denied write\"")
	}
}

// TestRejudge judges the recorded traces again: what was sound stays sound.
func TestRejudge(t *testing.T) {
	for _, name := range []string{"denied-write", "denied-write-liar"} {
		f, err := os.Open("golden/trace/" + name + ".jsonl")
		if err != nil {
			t.Fatal(err)
		}
		events, err := trace.Read(f, f.Name())
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if v := model.Judge(model.Files{}, events); len(v.Findings) > 0 || v.Exercised["FB-004"] == 0 {
			t.Errorf("%s: %v, FB-004 exercised %d times", name, v.Findings, v.Exercised["FB-004"])
		}
	}
}

// TestUnfiredIsInconclusive: a fault that never fires leaves every rule of its
// scenario untried, however well the subject did.
func TestUnfiredIsInconclusive(t *testing.T) {
	s := corpusScenario(t, "denied-write")
	s.Faults.Injections = slices.Clone(s.Faults.Injections)
	s.Faults.Injections[0].When.Under = "ws/nowhere"
	rep, err := fsbench.Check(t.Context(), &inproc.Driver{}, s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rep.Rules {
		if r.Verdict != reports.Inconclusive {
			t.Errorf("%s is %s, want inconclusive", r.ID, r.Verdict)
		}
	}
	if code := rep.ExitCode(); code != reports.ExitInconclusive {
		t.Errorf("exit code %d, want %d", code, reports.ExitInconclusive)
	}
}

// TestReference holds the reference against generated scenarios, through the entry
// point that other Go authors use.
func TestReference(t *testing.T) {
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	fsbench.Test(t, &inproc.Driver{}, p)
}

// TestFaultsFire: at least three generated scenarios of ten meet a fault. A
// generator that hardly ever strikes looks like a subject that never fails.
func TestFaultsFire(t *testing.T) {
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	b := reports.NewBuilder(reports.Options{Rules: spec.Rules})
	arena := fsbench.Memory(&inproc.Driver{})
	err = fsbench.JudgeAll(t.Context(), 3000,
		func(i int) fsbench.Task { return fsbench.Task{Arena: arena, Scenario: p.Draw(3, i, fsbench.Version)} },
		func(_ int, j reports.Judged) { b.Add(j) })
	if err != nil {
		t.Fatal(err)
	}
	rep, err := b.Report()
	if err != nil {
		t.Fatal(err)
	}
	if hit, of := rep.Totals.GeneratedHit, rep.Totals.Generated; hit*10 < of*3 {
		t.Errorf("a fault fired in %d of %d generated scenarios, want at least 30 %%", hit, of)
	}
	for name, counts := range map[string]map[string]int{
		"call": rep.Coverage.Calls, "errno": rep.Coverage.Errnos, "broker": rep.Coverage.Brokers,
	} {
		for what, n := range counts {
			if n == 0 {
				t.Errorf("%s %s never met", name, what)
			}
		}
	}
}

// TestDigest: two runs of one seed say the same, on however many processors.
func TestDigest(t *testing.T) {
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	m, err := mutants.ByName("keeps-temp")
	if err != nil {
		t.Fatal(err)
	}
	digest := func() string {
		b := reports.NewBuilder(reports.Options{Rules: spec.Rules})
		arena := fsbench.Memory(&inproc.Driver{Variant: m.Variant})
		err := fsbench.JudgeAll(t.Context(), 300,
			func(i int) fsbench.Task { return fsbench.Task{Arena: arena, Scenario: p.Draw(9, i, fsbench.Version)} },
			func(_ int, j reports.Judged) { b.Add(j) })
		if err != nil {
			t.Fatal(err)
		}
		rep, err := b.Report()
		if err != nil {
			t.Fatal(err)
		}
		if len(rep.Findings) == 0 {
			t.Fatal("nothing was found: the digest would cover nothing")
		}
		return rep.Digest
	}
	if a, b := digest(), digest(); a != b {
		t.Errorf("digests %s and %s", a, b)
	}
}

// TestShrinkHoldsTheRule: a scenario is made smaller around the rule that it
// breaks, and not into a failure of another.
func TestShrinkHoldsTheRule(t *testing.T) {
	m, err := mutants.ByName("writes-in-place")
	if err != nil {
		t.Fatal(err)
	}
	arena := fsbench.Memory(&inproc.Driver{Variant: m.Variant})
	s := corpusScenario(t, "busy-and-full")
	small, _ := fsbench.Shrink(t.Context(), arena, s, "AT-002", 500)
	j := fsbench.Judge(t.Context(), arena, small)
	if !slices.ContainsFunc(j.Verdict.Findings, func(f model.Finding) bool { return f.Rule == "AT-002" }) {
		t.Fatalf("the smaller scenario does not break AT-002:\n%s", small)
	}
	if len(small.Steps) > 2 || len(small.Faults.Injections) != 1 {
		t.Errorf("want two steps at most and one fault left:\n%s", small)
	}
}

// TestCancelled: an interrupted campaign ends at once and says so.
func TestCancelled(t *testing.T) {
	p, err := scenarios.ProfileByName("smoke")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	seen := 0
	arena := fsbench.Memory(&inproc.Driver{})
	err = fsbench.JudgeAll(ctx, 1<<30,
		func(i int) fsbench.Task { return fsbench.Task{Arena: arena, Scenario: p.Draw(1, i, fsbench.Version)} },
		func(int, reports.Judged) {
			if seen++; seen == 10 {
				cancel()
			}
		})
	if err == nil || seen > 1000 {
		t.Errorf("err %v after %d scenarios", err, seen)
	}
}

// ExampleCheck judges a subject in one scenario.
func ExampleCheck() {
	s, err := scenarios.Parse("example.txtar", "example", []byte(strings.TrimLeft(`
title: a denied write is landed by a handler
-- world --
ws/d dir
-- brokers --
write honest
-- steps --
1 write d/a content=hello
-- faults --
deny class=create under=ws/d errno=EACCES
`, "\n")))
	if err != nil {
		fmt.Println(err)
		return
	}
	var subject sut.Driver = &inproc.Driver{} // yours, behind an adaptor
	rep, err := fsbench.Check(context.Background(), subject, s, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range rep.Rules {
		if r.ID == "FB-002" || r.ID == "FB-004" {
			fmt.Println(r.ID, r.Verdict)
		}
	}
	// Output:
	// FB-002 pass
	// FB-004 pass
}

// BenchmarkCampaign runs, records and judges generated scenarios of up to eight
// calls, faults included. The budget is 3.3 scenarios a millisecond on two cores.
func BenchmarkCampaign(b *testing.B) {
	p, err := scenarios.ProfileByName("soak")
	if err != nil {
		b.Fatal(err)
	}
	arena := fsbench.Memory(&inproc.Driver{})
	events := 0
	b.ResetTimer()
	err = fsbench.JudgeAll(b.Context(), b.N,
		func(i int) fsbench.Task { return fsbench.Task{Arena: arena, Scenario: p.Draw(1, i, fsbench.Version)} },
		func(_ int, j reports.Judged) { events += len(j.Run.Events) })
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "scenarios/s")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}

// quoted matches a Go excerpt in a document; its first line names the file.
var quoted = regexp.MustCompile("(?s)```go\n// ([^\n]+\\.go)\n(.*?)```")

// TestDocumentsQuoteTheCode fails when code that a document shows is no longer
// there: indented differently it may be.
func TestDocumentsQuoteTheCode(t *testing.T) {
	page, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	words := func(b []byte) string { return strings.Join(strings.Fields(string(b)), " ") }
	excerpts := quoted.FindAllSubmatch(page, -1)
	if len(excerpts) == 0 {
		t.Error("CONTRIBUTING.md shows no code: the pattern no longer sees it")
	}
	for _, m := range excerpts {
		code, err := os.ReadFile(string(m[1]))
		if err != nil {
			t.Errorf("CONTRIBUTING.md: %v", err)
			continue
		}
		if !strings.Contains(words(code), words(m[2])) {
			t.Errorf("CONTRIBUTING.md shows code that %s does not hold:\n%s", m[1], m[2])
		}
	}
}
