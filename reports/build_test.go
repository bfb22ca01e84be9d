package reports_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func rule(id spec.RuleID, strength spec.Strength, role string) spec.Rule {
	return spec.Rule{ID: id, Title: "Title of " + string(id), Strength: strength, Level: spec.L1, Role: role}
}

// judged makes one run in a sandbox whose subject claims every role of these tests.
func judged(sandbox, scenario string, change func(*reports.Judged)) reports.Judged {
	j := reports.Judged{
		Run:    runner.Run{Scenario: scenarios.Scenario{Name: scenario}, Sandbox: sandbox},
		Replay: "fsbench replay here/" + scenario, Verdict: model.Verdict{Exercised: map[spec.RuleID]int{}},
	}
	j.Run.SUT.Roles = append(j.Run.SUT.Roles, "tools", "registry")
	if change != nil {
		change(&j)
	}
	return j
}

func exercises(id spec.RuleID, n int) func(*reports.Judged) {
	return func(j *reports.Judged) { j.Verdict.Exercised[id] = n }
}

func breaks(id spec.RuleID) func(*reports.Judged) {
	return func(j *reports.Judged) {
		j.Verdict.Exercised[id] = 1
		j.Verdict.Findings = []model.Finding{{Rule: id, Call: 2, Got: "this", Want: []string{"that", "or that"}, Seq: []uint64{3, 4}}}
	}
}

func unfired(f func(*reports.Judged)) func(*reports.Judged) {
	return func(j *reports.Judged) {
		f(j)
		j.Run.Unfired = []string{"f"}
	}
}

func skips(id spec.RuleID, why string) func(*reports.Judged) {
	return func(j *reports.Judged) { j.Run.Skip, j.Run.Scenario.Rules = why, []spec.RuleID{id} }
}

func fails(id spec.RuleID) func(*reports.Judged) {
	return func(j *reports.Judged) { j.Err, j.Run.Scenario.Rules = errors.New("no space"), []spec.RuleID{id} }
}

func build(tb testing.TB, opt reports.Options, js ...reports.Judged) *reports.Report {
	tb.Helper()
	b := reports.NewBuilder(opt)
	for _, j := range js {
		b.Add(j)
	}
	r, err := b.Report()
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

var subject = reports.Subject{Name: "it", Version: "1"}

func waiver(id spec.RuleID) []reports.Waiver {
	return []reports.Waiver{
		{Subject: "another", Rule: "AT-001", Reason: "r", Issue: "i", Expires: "2030-01-01"},
		{Subject: "it", Rule: id, Reason: "r", Issue: "i", Expires: "2030-01-01"},
	}
}

// TestVerdicts: the verdict on a rule is the first that applies over its scenarios and
// sandboxes, in the order broken, fail, stale, waived, pass, inconclusive, skip.
func TestVerdicts(t *testing.T) {
	const id = spec.RuleID("AT-001")
	for _, tt := range []struct {
		name    string
		waived  bool
		should  bool
		runs    []reports.Judged
		want    reports.Verdict
		boxes   string
		counted int // exercised
		exit    int
	}{
		{"nothing ran", false, false, nil, reports.Inconclusive, "", 0, 4},
		{"pass", false, false, []reports.Judged{judged("mem", "a", exercises(id, 3))}, reports.Pass, "mem=pass", 3, 0},
		{
			"pass in two", false, false,
			[]reports.Judged{judged("mem", "a", exercises(id, 3)), judged("disk", "a", exercises(id, 2))},
			reports.Pass, "disk=pass mem=pass", 5, 0,
		},
		{"fail", false, false, []reports.Judged{judged("mem", "a", breaks(id))}, reports.Fail, "mem=fail", 1, 1},
		{"a broken SHOULD", false, true, []reports.Judged{judged("mem", "a", breaks(id))}, reports.Fail, "mem=fail", 1, 0},
		{
			"fail in one of two", false, false,
			[]reports.Judged{judged("mem", "a", exercises(id, 3)), judged("disk", "b", breaks(id))},
			reports.Fail, "disk=fail mem=pass", 4, 1,
		},
		{
			"fail although a fault never fired", false, false,
			[]reports.Judged{judged("mem", "a", unfired(breaks(id)))},
			reports.Fail, "mem=fail", 1, 1,
		},
		{"waived", true, false, []reports.Judged{judged("mem", "a", breaks(id))}, reports.Waived, "mem=waived", 1, 0},
		{"stale", true, false, []reports.Judged{judged("mem", "a", exercises(id, 3))}, reports.Stale, "mem=stale", 3, 1},
		{
			"waived in one and stale in the other", true, false,
			[]reports.Judged{judged("mem", "a", exercises(id, 3)), judged("disk", "b", breaks(id))},
			reports.Waived, "disk=waived mem=stale", 4, 0,
		},
		{"waived and untried", true, false, []reports.Judged{judged("mem", "a", nil)}, reports.Inconclusive, "mem=inconclusive", 0, 4},
		{"broken", false, false, []reports.Judged{judged("mem", "a", fails(id))}, reports.Broken, "mem=broken", 0, 3},
		{
			"broken beside fail", false, false,
			[]reports.Judged{judged("mem", "a", breaks(id)), judged("disk", "b", fails(id))},
			reports.Broken, "disk=broken mem=fail", 1, 3,
		},
		{"broken and waived", true, false, []reports.Judged{judged("mem", "a", fails(id))}, reports.Broken, "mem=broken", 0, 3},
		{
			"broken elsewhere", false, false,
			[]reports.Judged{judged("mem", "a", exercises(id, 1)), judged("mem", "b", fails("ZZ-999"))},
			reports.Pass, "mem=pass", 1, 3,
		},
		{"never fired", false, false, []reports.Judged{judged("mem", "a", unfired(exercises(id, 2)))}, reports.Inconclusive, "mem=inconclusive", 2, 4},
		{
			"one unfired beside a passing one", false, false,
			[]reports.Judged{judged("mem", "a", unfired(exercises(id, 2))), judged("mem", "b", exercises(id, 1))},
			reports.Pass, "mem=pass", 3, 0,
		},
		{"never exercised", false, false, []reports.Judged{judged("mem", "a", exercises("AT-002", 9))}, reports.Inconclusive, "mem=inconclusive", 0, 4},
		{"skip", false, false, []reports.Judged{judged("mem", "a", skips(id, "no links"))}, reports.Skip, "mem=skip", 0, 0},
		{
			"skip beside inconclusive", false, false,
			[]reports.Judged{judged("mem", "a", skips(id, "no links")), judged("mem", "b", unfired(exercises(id, 1)))},
			reports.Inconclusive, "mem=inconclusive", 1, 4,
		},
		{
			"skip on disk, pass in memory", false, false,
			[]reports.Judged{judged("disk", "a", skips(id, "no links")), judged("mem", "a", exercises(id, 1))},
			reports.Pass, "disk=skip mem=pass", 1, 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opt := reports.Options{Subject: subject, Rules: []spec.Rule{rule(id, spec.Must, "tools")}}
			if tt.should {
				opt.Rules[0].Strength = spec.Should
			}
			if tt.waived {
				opt.Waivers = waiver(id)
			}
			r := build(t, opt, tt.runs...)
			got := r.Rules[0]
			var boxes []string
			for _, name := range slices.Sorted(maps.Keys(got.Sandboxes)) {
				boxes = append(boxes, name+"="+string(got.Sandboxes[name].Verdict))
			}
			if got.Verdict != tt.want || strings.Join(boxes, " ") != tt.boxes || got.Exercised != tt.counted {
				t.Errorf("got %s (%v), exercised %d; want %s (%s), exercised %d", got.Verdict, boxes, got.Exercised, tt.want, tt.boxes, tt.counted)
			}
			if code := r.ExitCode(); code != tt.exit {
				t.Errorf("exit code %d, want %d", code, tt.exit)
			}
			if (got.Waiver != nil) != tt.waived {
				t.Errorf("waiver %+v", got.Waiver)
			}
		})
	}
}

// TestExitCodeOrder: of several rules the worst decides.
func TestExitCodeOrder(t *testing.T) {
	run := []reports.Judged{
		judged("mem", "a", exercises("AT-001", 1)), judged("mem", "b", breaks("AT-002")),
		judged("mem", "c", skips("AT-004", "why")), judged("mem", "d", fails("AT-005")),
	}
	for _, tt := range []struct {
		rules []spec.RuleID
		runs  int
		want  int
	}{
		{[]spec.RuleID{"AT-001", "AT-004"}, 3, 0},
		{[]spec.RuleID{"AT-001", "AT-003", "AT-004"}, 3, 4},
		{[]spec.RuleID{"AT-002", "AT-003"}, 3, 1},
		{[]spec.RuleID{"AT-003", "AT-002"}, 3, 1},
		{[]spec.RuleID{"AT-002", "AT-005"}, 4, 3},
		{[]spec.RuleID{"AT-001"}, 4, 3}, // the bench broke, if not for this rule
	} {
		opt := reports.Options{Subject: subject}
		for _, id := range tt.rules {
			opt.Rules = append(opt.Rules, rule(id, spec.Must, "tools"))
		}
		if got := build(t, opt, run[:tt.runs]...).ExitCode(); got != tt.want {
			t.Errorf("%v of %d runs: exit code %d, want %d", tt.rules, tt.runs, got, tt.want)
		}
	}
}

// TestUnclaimedRole: what a subject does not claim to be is skipped, and not held
// against it as untried.
func TestUnclaimedRole(t *testing.T) {
	opt := reports.Options{Subject: subject, Rules: []spec.Rule{rule("AT-001", spec.Must, "tools"), rule("FB-030", spec.Must, "host")}}
	r := build(t, opt, judged("mem", "a", exercises("AT-001", 1)), judged("mem", "b", nil))
	want := []reports.SkipCount{{Reason: "the subject does not claim the role host", Count: 2}}
	if diff := cmp.Diff(want, r.Rules[1].Skips); diff != "" || r.Rules[1].Verdict != reports.Skip || r.ExitCode() != 0 {
		t.Errorf("%s, exit code %d (-want +got):\n%s", r.Rules[1].Verdict, r.ExitCode(), diff)
	}
}

// full is a report in which everything occurs.
func full(tb testing.TB) *reports.Report {
	tb.Helper()
	opt := reports.Options{
		Suite: "0.1.0", Subject: subject, Seed: 7, Profile: "smoke",
		Rules: []spec.Rule{
			rule("AT-001", spec.Must, "tools"), rule("AT-002", spec.Must, "tools"), rule("AT-003", spec.Should, "tools"),
			rule("FB-001", spec.Must, "registry"), rule("FB-002", spec.Must, "registry"), rule("FB-003", spec.Must, "registry"),
			rule("FB-030", spec.Must, "host"), rule("OC-001", spec.Must, "tools"),
		},
		Mutants: map[spec.RuleID][]string{"AT-001": {"short-is-done"}},
		Waivers: append(waiver("FB-001"), waiver("FB-002")[1]),
	}
	generated := judged("mem", "smoke-7-1", breaks("AT-003"))
	generated.Run.Scenario.Origin = scenarios.Origin{Profile: "smoke", Seed: 7, Version: "0.1.0"}
	generated.Run.Scenario.Faults = faults.Plan{Injections: []faults.Injection{{ID: "f1"}, {ID: "f2"}}}
	generated.Run.Scenario.Brokers = []spec.Broker{{Seam: spec.SeamWrite, Kind: spec.Liar}}
	generated.Run.Unfired = []string{"f2"}
	generated.Run.Events = []trace.Event{
		{Invoke: &spec.Call{ID: 1, Kind: spec.CallWrite}},
		{Fault: &trace.Fired{Injection: "f1", By: trace.Synthetic, Effect: "EIO"}},
		{Fault: &trace.Fired{Injection: "f1", By: trace.Synthetic, Effect: "EIO"}},
		{Consult: &trace.Consult{Handler: 1}},
		{Consult: &trace.Consult{Handler: 9}}, // one of them is nobody
		{Crash: &trace.Crash{}},
		{Return: &spec.Outcome{}},
	}
	kernel := judged("disk", "corpus-1", exercises("AT-001", 2))
	kernel.Run.Scenario.Faults = faults.Plan{Injections: []faults.Injection{{ID: "k"}}}
	kernel.Run.Events = []trace.Event{{Fault: &trace.Fired{Injection: "k", By: trace.Kernel, Effect: "EACCES"}}}
	return build(tb, opt,
		judged("mem", "corpus-1", exercises("AT-001", 5)),
		judged("mem", "corpus-2", breaks("AT-002")), judged("disk", "corpus-2", breaks("AT-002")),
		generated, kernel,
		judged("mem", "corpus-3", breaks("FB-001")), judged("mem", "corpus-4", exercises("FB-002", 1)),
		judged("mem", "corpus-5", skips("FB-003", "the file system has no capability link")),
		judged("disk", "corpus-6", fails("OC-001")),
	)
}

func TestTotals(t *testing.T) {
	got := full(t)
	want := reports.Totals{
		Scenarios: 7, Calls: 1, Events: 8, Faults: reports.FaultTotals{Planned: 3, Fired: 2, Kernel: 1, Synthetic: 1, Strikes: 3},
		WithFault: 2, Generated: 1, GeneratedHit: 1, CrashStates: 1, Skipped: 1,
	}
	if diff := cmp.Diff(want, got.Totals); diff != "" {
		t.Errorf("totals (-want +got):\n%s", diff)
	}
	if got.Coverage.Errnos["EIO"] != 2 || got.Coverage.Errnos["EACCES"] != 1 || got.Coverage.Errnos["EROFS"] != 0 || len(got.Coverage.Errnos) != len(faults.Errnos) {
		t.Errorf("errnos: %v", got.Coverage.Errnos)
	}
	if got.Coverage.Brokers["liar"] != 1 || len(got.Coverage.Brokers) != len(spec.BrokerKinds) {
		t.Errorf("handlers: %v", got.Coverage.Brokers)
	}
}

// TestFindings: of every rule the first finding is shown and the others counted.
func TestFindings(t *testing.T) {
	r := full(t)
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s %s on %s x%d waived=%v %s", f.Rule, f.Scenario, f.Sandbox, f.Count, f.Waived, f.Origin))
	}
	want := []string{
		"AT-002 corpus-2 on mem x2 waived=false ",
		"AT-003 smoke-7-1 on mem x1 waived=false seed=7 profile=smoke version=0.1.0",
		"FB-001 corpus-3 on mem x1 waived=true ",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestDigest: it is the same wherever and however often the same was seen, and
// another when something else was.
func TestDigest(t *testing.T) {
	const id = spec.RuleID("AT-001")
	opt := reports.Options{Subject: subject, Rules: []spec.Rule{rule(id, spec.Must, "tools")}}
	digest := func(opt reports.Options, js ...reports.Judged) string { return build(t, opt, js...).Digest }
	base := digest(opt, judged("mem", "a", breaks(id)))

	elsewhere := judged("mem", "a", breaks(id))
	elsewhere.Replay = "fsbench replay /tmp/somewhere/else"
	if got := digest(opt, elsewhere); got != base {
		t.Error("the digest depends on where files were written")
	}
	for range 20 {
		if got := full(t).Digest; got != full(t).Digest {
			t.Fatal("the digest depends on the order of maps")
		}
	}
	otherSeed := opt
	otherSeed.Seed, otherSeed.Suite = 9, "9"
	if got := digest(otherSeed, judged("mem", "a", breaks(id))); got != base {
		t.Error("the digest depends on more than rules, verdicts, findings and counts")
	}

	other := judged("mem", "a", breaks(id))
	other.Verdict.Findings[0].Got = "something else"
	counted := judged("mem", "a", breaks(id))
	counted.Run.Events = []trace.Event{{Invoke: &spec.Call{Kind: spec.CallRead}}}
	waived := opt
	waived.Waivers = waiver(id)
	for name, got := range map[string]string{
		"another finding":  digest(opt, other),
		"no finding":       digest(opt, judged("mem", "a", exercises(id, 1))),
		"another sandbox":  digest(opt, judged("disk", "a", breaks(id))),
		"one run more":     digest(opt, judged("mem", "a", breaks(id)), judged("mem", "b", nil)),
		"a call more":      digest(opt, counted),
		"a waiver":         digest(waived, judged("mem", "a", breaks(id))),
		"a broken bench":   digest(opt, judged("mem", "a", fails(id))),
		"a skipped run":    digest(opt, judged("mem", "a", breaks(id)), judged("mem", "b", skips(id, "why"))),
		"another scenario": digest(opt, judged("mem", "b", breaks(id))),
	} {
		if got == base {
			t.Errorf("%s: the digest is the same", name)
		}
	}
}

func TestCheckWaivers(t *testing.T) {
	good := reports.Waiver{Subject: "it", Rule: "AT-001", Reason: "slow disk", Issue: "https://example.com/1", Expires: "2026-12-31"}
	for _, tt := range []struct {
		name   string
		change func(*reports.Waiver)
		want   string
	}{
		{"good", func(*reports.Waiver) {}, ""},
		{"on its last day", func(w *reports.Waiver) { w.Expires = "2026-06-30" }, ""},
		{"expired", func(w *reports.Waiver) { w.Expires = "2026-06-29" }, "waiver 2 of AT-001: it expired on 2026-06-29; mend the rule or renew the waiver"},
		{"no such rule", func(w *reports.Waiver) { w.Rule = "ZZ-999" }, `waiver 2: there is no rule "ZZ-999"; see fsbench rules`},
		{"no subject", func(w *reports.Waiver) { w.Subject = "" }, "waiver 2 of AT-001: want subject, reason and issue"},
		{"no reason", func(w *reports.Waiver) { w.Reason = "" }, "waiver 2 of AT-001: want subject, reason and issue"},
		{"no issue", func(w *reports.Waiver) { w.Issue = "" }, "waiver 2 of AT-001: want subject, reason and issue"},
		{"no date", func(w *reports.Waiver) { w.Expires = "" }, `waiver 2 of AT-001: expires "", want a date as in 2027-01-31`},
		{"a day that is not", func(w *reports.Waiver) { w.Expires = "2027-02-30" }, `waiver 2 of AT-001: expires "2027-02-30", want a date as in 2027-01-31`},
		{"with a time", func(w *reports.Waiver) { w.Expires = "2027-01-31T00:00:00Z" }, `waiver 2 of AT-001: expires "2027-01-31T00:00:00Z", want a date as in 2027-01-31`},
	} {
		w := good
		tt.change(&w)
		got := ""
		if err := reports.CheckWaivers([]reports.Waiver{good, w}, "2026-06-30"); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// sameAsFile compares got with a file of testdata, and writes it when asked to.
func sameAsFile(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") == "1" && os.Getenv("CI") == "" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; to write it: UPDATE_GOLDEN=1 go test ./reports/...", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestText(t *testing.T) {
	for _, all := range []bool{false, true} {
		var b bytes.Buffer
		if err := full(t).WriteText(&b, reports.Style{}, all); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Error("colours without a style")
		}
		sameAsFile(t, map[bool]string{false: "report.txt", true: "report-all.txt"}[all], b.String())
	}
}

func TestStyle(t *testing.T) {
	mark := func(m string) func(string) string { return func(s string) string { return m + s + m } }
	var b bytes.Buffer
	if err := full(t).WriteText(&b, reports.Style{Good: mark("+"), Bad: mark("!"), Warn: mark("~"), Dim: mark("'")}, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"+pass+", "!fail!", "!stale!", "!broken!", "~waived~", "AT-003 ~warning~: ", "!the bench broke!", "'seed=7 profile=smoke version=0.1.0'"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in\n%s", want, b.String())
		}
	}
}

func schema(tb testing.TB) *jsonschema.Schema {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(reports.ReportSchema))
	if err != nil {
		tb.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("report.json", doc); err != nil {
		tb.Fatal(err)
	}
	s, err := c.Compile("report.json")
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func written(tb testing.TB, r *reports.Report) string {
	tb.Helper()
	var b bytes.Buffer
	if err := r.WriteJSON(&b); err != nil {
		tb.Fatal(err)
	}
	return b.String()
}

func validate(tb testing.TB, text string) error {
	tb.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	return schema(tb).Validate(doc)
}

func TestJSON(t *testing.T) {
	text := written(t, full(t))
	sameAsFile(t, "report.json", text)
	for name, r := range map[string]*reports.Report{
		"full":        full(t),
		"nothing ran": build(t, reports.Options{Suite: "0.1.0", Subject: subject, Rules: spec.Rules}),
		"no rules":    build(t, reports.Options{Suite: "0.1.0", Subject: subject}),
	} {
		if err := validate(t, written(t, r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	back, err := reports.ReadJSON(strings.NewReader(text), "report.json")
	if err != nil {
		t.Fatal(err)
	}
	if again := written(t, back); again != text {
		t.Errorf("written again it is another (-want +got):\n%s", cmp.Diff(text, again))
	}
}

// TestSchemaRefuses: each of these is a mistake that a consumer would trip over.
func TestSchemaRefuses(t *testing.T) {
	good := written(t, full(t))
	for old, broken := range map[string]string{
		`"schema": 1`:                       `"schema": 2`,
		`"digest": "sha256:`:                `"digest": "md5:`,
		`"id": "AT-001"`:                    `"id": "AT-1"`,
		`"verdict": "stale"`:                `"verdict": "flaky"`,
		`"strength": "SHOULD"`:              `"strength": "MAY"`,
		`"exercised": 7`:                    `"exercised": -7`,
		`"seed": 7`:                         `"seed": "7"`,
		`"mutants": []`:                     `"mutants": null`,
		`"skips": []`:                       `"skips": null`,
		`"interleavings": 0`:                `"interleaved": 0`,
		`"got": "this"`:                     `"gotten": "this"`,
		`"waived": true`:                    `"waived": false`,
		`"expires": "2030-01-01"`:           `"expires": "soon"`,
		`"profile": "smoke"`:                `"profile": 7`,
		`"suite": "0.1.0"`:                  `"suite": "0.1.0", "host": "here"`,
		`"reason": "r"`:                     `"because": "r"`,
		`"error": "no space"`:               `"error": null`,
		`"name": "it"`:                      `"name": ""`,
		`"that",`:                           `1,`,
		`"EIO": 2`:                          `"EIO": 2.5`,
		`"count": 2`:                        `"count": 0`,
		`"scenario": "corpus-6"`:            `"scenarios": "corpus-6"`,
		`"title": "Title of OC-001"`:        `"title": ""`,
		`"replay": "fsbench replay here/co`: `"again": "fsbench replay here/co`,
	} {
		if !strings.Contains(good, old) {
			t.Errorf("no %s in the report", old)
			continue
		}
		if err := validate(t, strings.Replace(good, old, broken, 1)); err == nil {
			t.Errorf("accepted %s in the place of %s", broken, old)
		}
	}
}

func TestReadJSONRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":             "r.json: want a report as fsbench run writes it: EOF",
		"[]":           "r.json: want a report as fsbench run writes it: json: cannot unmarshal array into Go value of type reports.Report",
		`{"schema":2}`: "r.json: report schema 2, want 1",
	} {
		if _, err := reports.ReadJSON(strings.NewReader(text), "r.json"); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	opt := reports.Options{Subject: subject, Rules: spec.Rules}
	builder := reports.NewBuilder(opt)
	j := judged("mem", "a", func(j *reports.Judged) {
		for _, r := range spec.Rules {
			j.Verdict.Exercised[r.ID] = 1
		}
	})
	b.ReportAllocs()
	for b.Loop() {
		builder.Add(j)
	}
}
