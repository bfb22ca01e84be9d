package junit_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/reports/junit"
)

// report holds one rule for every verdict, in two sandboxes.
func report() *reports.Report {
	in := func(mem, disk reports.Verdict) map[string]reports.InSandbox {
		return map[string]reports.InSandbox{
			"mem": {Verdict: mem}, "disk": {Verdict: disk, Skips: []reports.SkipCount{{Reason: "no <links>", Count: 2}}},
		}
	}
	r := &reports.Report{
		Schema: reports.Schema, Digest: "sha256:0", Subject: reports.Subject{Name: "it", Version: "1"},
		Rules: []reports.RuleResult{
			{ID: "AT-001", Title: "Title of AT-001", Strength: "MUST", Sandboxes: in(reports.Pass, reports.Pass)},
			{ID: "AT-002", Title: "Title of AT-002", Strength: "MUST", Sandboxes: in(reports.Fail, reports.Skip)},
			{ID: "AT-003", Title: "Title of AT-003", Strength: "SHOULD", Sandboxes: in(reports.Fail, reports.Inconclusive)},
			{ID: "FB-001", Title: "Title of FB-001", Strength: "MUST", Sandboxes: in(reports.Waived, reports.Stale)},
			{ID: "OC-001", Title: "Title of OC-001", Strength: "MUST", Sandboxes: in(reports.Broken, reports.Pass)},
		},
		Findings: []reports.Finding{
			{
				Rule: "AT-002", Scenario: "s1", Sandbox: "mem", Call: 2, Got: `ok, ws/a="<b>&\x00"`, Want: []string{"failed", "or unknown"},
				Replay: "fsbench replay s1",
			},
			{Rule: "AT-003", Scenario: "s2", Sandbox: "mem", Call: 1, Got: "g", Want: []string{"w"}, Replay: "fsbench replay s2"},
		},
		Broken: []reports.BrokenRun{{Scenario: "s9", Sandbox: "mem", Error: "no space"}},
	}
	return r
}

// The parts of JUnit XML that CI systems read.
type (
	suites struct {
		XMLName  xml.Name `xml:"testsuites"`
		Name     string   `xml:"name,attr"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Errors   int      `xml:"errors,attr"`
		Skipped  int      `xml:"skipped,attr"`
		Suites   []suite  `xml:"testsuite"`
	}
	suite struct {
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Errors   int        `xml:"errors,attr"`
		Skipped  int        `xml:"skipped,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	testcase struct {
		Name      string  `xml:"name,attr"`
		Class     string  `xml:"classname,attr"`
		Failure   *result `xml:"failure"`
		Error     *result `xml:"error"`
		Skipped   *result `xml:"skipped"`
		SystemOut string  `xml:"system-out"`
	}
	result struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

func write(t *testing.T, r *reports.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := junit.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestVerdicts: what fails a build is a broken MUST, a stale waiver and a broken
// bench; all else is a pass or a skip with its reason.
func TestVerdicts(t *testing.T) {
	var got suites
	if err := xml.Unmarshal([]byte(write(t, report())), &got); err != nil {
		t.Fatal(err)
	}
	if got.Name != "fsbench it" || got.Tests != 10 || got.Failures != 2 || got.Errors != 1 || got.Skipped != 3 {
		t.Errorf("totals: %+v", got)
	}
	var lines []string
	for _, s := range got.Suites {
		if s.Tests != len(s.Cases) {
			t.Errorf("suite %s: %d tests, %d cases", s.Name, s.Tests, len(s.Cases))
		}
		for _, c := range s.Cases {
			line := s.Name + " " + c.Class + " " + c.Name + ":"
			for word, r := range map[string]*result{"failure": c.Failure, "error": c.Error, "skipped": c.Skipped} {
				if r != nil {
					line += " " + word + " (" + r.Message + ") " + r.Type
				}
			}
			if c.SystemOut != "" {
				line += " out"
			}
			lines = append(lines, line)
		}
	}
	want := []string{
		"disk fsbench.AT.disk AT-001 Title of AT-001:",
		"disk fsbench.AT.disk AT-002 Title of AT-002: skipped (skip; 2 scenarios: no <links>) ",
		"disk fsbench.AT.disk AT-003 Title of AT-003: skipped (inconclusive; 2 scenarios: no <links>) ",
		"disk fsbench.FB.disk FB-001 Title of FB-001: failure (the rule is kept: its waiver must go) stale",
		"disk fsbench.OC.disk OC-001 Title of OC-001:",
		"mem fsbench.AT.mem AT-001 Title of AT-001:",
		"mem fsbench.AT.mem AT-002 Title of AT-002: failure (AT-002 is broken) fail",
		"mem fsbench.AT.mem AT-003 Title of AT-003: out",
		"mem fsbench.FB.mem FB-001 Title of FB-001: skipped (waived) ",
		"mem fsbench.OC.mem OC-001 Title of OC-001: error (the bench broke) broken",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestEvidence: a failure says what was seen, what was allowed and how to see it
// again.
func TestEvidence(t *testing.T) {
	var got suites
	if err := xml.Unmarshal([]byte(write(t, report())), &got); err != nil {
		t.Fatal(err)
	}
	mem := got.Suites[1].Cases
	for name, text := range map[string]struct{ got, want string }{
		"failure": {mem[1].Failure.Text, "scenario s1 on mem, call 2\ngot   ok, ws/a=\"<b>&\\x00\"\nwant  failed\nwant  or unknown\nreplay: fsbench replay s1\n"},
		"warning": {mem[2].SystemOut, "warning: scenario s2 on mem, call 1\ngot   g\nwant  w\nreplay: fsbench replay s2\n"},
		"error":   {mem[4].Error.Text, "s9 on mem: no space\n"},
	} {
		if text.got != text.want {
			t.Errorf("%s (-want +got):\n%s", name, cmp.Diff(text.want, text.got))
		}
	}
}

func TestFile(t *testing.T) {
	got := write(t, report())
	const file = "testdata/junit.xml"
	if os.Getenv("UPDATE_GOLDEN") == "1" && os.Getenv("CI") == "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; to write it: UPDATE_GOLDEN=1 go test ./reports/junit", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWriteFails(t *testing.T) {
	if err := junit.Write(fullDisk{}, report()); err == nil || err.Error() != "write junit: no space" {
		t.Errorf("got %v", err)
	}
}
