package model_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fsbench/fsbench/model"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func TestCheckedIsTheCatalogue(t *testing.T) {
	var want []spec.RuleID
	for _, r := range spec.Rules {
		want = append(want, r.ID)
	}
	if diff := cmp.Diff(want, model.Checked()); diff != "" {
		t.Errorf("(-catalogue +checked):\n%s", diff)
	}
}

// judgeOne judges the only trace of text.
func judgeOne(t *testing.T, lines ...string) model.Verdict {
	t.Helper()
	s := newScript(t.Name(), 0)
	for _, row := range lines {
		fields, err := spec.ParseFields(row)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.do(fields); err != nil {
			t.Fatalf("%s: %v", row, err)
		}
	}
	return model.Judge(model.Files{}, s.events)
}

// TestUnknownKeepsAllStates: as long as nobody looks, every way in which an unknown
// call may have ended stays open; a read then tells.
func TestUnknownKeepsAllStates(t *testing.T) {
	for _, tt := range []struct {
		name string
		then []string
		want []spec.RuleID
	}{
		{"old", []string{"call read a", "unseen", "answer ok content=old"}, nil},
		{"new", []string{"call read a", "unseen", "answer ok content=new"}, nil},
		{"neither", []string{"call read a", "unseen", "answer ok content=other"}, []spec.RuleID{"OC-006"}},
		{
			"first the one and then the other",
			[]string{"call read a", "unseen", "answer ok content=old", "call read a", "unseen", "answer ok content=new"},
			[]spec.RuleID{"OC-006"},
		},
		{
			"twice the same", []string{"call read a", "unseen", "answer ok content=new", "call read a", "unseen", "answer ok content=new"}, nil,
		},
		{
			"two unknown calls, and the older one",
			[]string{
				"call write a content=newer", "unseen", "fired sync-dir flush ws EIO", "answer unknown", "call read a", "unseen", "answer ok content=new",
			},
			nil,
		},
		{"seen at last", []string{"call read a", "answer ok content=old"}, nil},
	} {
		v := judgeOne(t, append([]string{"call write a content=new", "unseen", "fired sync-dir flush ws EIO", "answer unknown"}, tt.then...)...)
		var got []spec.RuleID
		for _, f := range v.Findings {
			got = append(got, f.Rule)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s%s", tt.name, diff, findings(v))
		}
	}
}

// TestFindingListsWhatWasAllowed: of all states that were possible, and no other.
func TestFindingListsWhatWasAllowed(t *testing.T) {
	v := judgeOne(t,
		"call write a content=new", "unseen", "fired sync-dir flush ws EIO", "answer unknown",
		"call read a", "unseen", "answer ok content=other")
	want := []model.Finding{{
		Rule: "OC-006", Call: 2, Got: `ok "other"`, Seq: []uint64{6, 7},
		Want: []string{
			`ok "new", tree: out/c="keep" ws/a="new" ws/d/`,
			`ok "old", tree: out/c="keep" ws/a="old" ws/d/`,
		},
	}}
	if diff := cmp.Diff(want, v.Findings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNothingWasSeen: without any observation there is nothing to judge a tree by,
// and no call is held to one.
func TestNothingWasSeen(t *testing.T) {
	v := judgeOne(t, "unseen", "call write a content=new", "unseen", "answer ok", "call read b", "unseen", "answer failed EIO")
	if len(v.Findings) > 0 || len(v.Exercised) > 0 {
		t.Errorf("exercised %v\n%s", v.Exercised, findings(v))
	}
}

// TestUnseenIsNotPutToTheTest: a rule about the tree is not kept where nobody looked.
func TestUnseenIsNotPutToTheTest(t *testing.T) {
	v := judgeOne(t, "call write a content=new", "unseen", "answer ok")
	for _, id := range []spec.RuleID{"AT-001", "AT-003", "AT-004", "AT-005", "PR-010"} {
		if v.Exercised[id] > 0 {
			t.Errorf("%s was put to the test", id)
		}
	}
	if v.Exercised["OC-001"] != 1 {
		t.Errorf("the answer was not judged: %v", v.Exercised)
	}
	// What was not seen before a call is no measure of it either.
	v = judgeOne(t, "call write a content=new", "unseen", "answer ok", "has ws/a file content=new mode=0600", "call write b content=x", "has ws/b file content=x", "answer ok")
	if len(v.Findings) > 0 {
		t.Errorf("a stale observation was taken for what was there:\n%s", findings(v))
	}
}

func TestExercisedCountsExchanges(t *testing.T) {
	v := judgeOne(t,
		"broker write declines", "broker write throws", "broker write declines", "has ws/d dir mode=0555",
		"call write d/b content=new", "asked 1 write /r/ws/d/b EACCES declined", "asked 2 write /r/ws/d/b EACCES threw", "warned",
		"asked 3 write /r/ws/d/b EACCES declined", "answer failed EACCES")
	for _, id := range []spec.RuleID{"FB-001", "FB-002", "FB-013", "FB-014", "FB-021", "OC-003"} {
		if v.Exercised[id] != 1 {
			t.Errorf("%s: %d exchanges of 1", id, v.Exercised[id])
		}
	}
}

// TestVacuous: a rule that nothing in the exchange could have broken is not counted.
func TestVacuous(t *testing.T) {
	for _, tt := range []struct {
		name  string
		rule  spec.RuleID
		trace []string
	}{
		{"no clean-up is held to leave nothing that was struck itself", "AT-003", []string{
			"call write a content=new", "fired rename remove ws/.t EIO", "fired remove remove ws/.t EIO", "answer failed EIO",
		}},
		{"unknown is allowed", "OC-003", []string{"call write a content=new", "fired sync-dir flush ws EIO", "has ws/a file content=new", "answer unknown"}},
		{"any error is allowed", "OC-005", []string{
			"call write a content=new", "fired sync flush ws/.t swap", "edit remove ws/a", "lacks ws/a", "answer failed EIO",
		}},
		{"one handler cannot be asked out of order", "FB-003", []string{
			"broker write declines", "has ws/d dir mode=0555", "call write d/b content=new",
			"asked 1 write /r/ws/d/b EACCES declined", "answer failed EACCES",
		}},
		{"nobody comes after the last yes", "FB-005", []string{
			"broker write honest", "has ws/d dir mode=0555", "call write d/b content=new",
			"asked 1 write /r/ws/d/b EACCES landed acted", "has ws/d/b file content=new", "answer ok",
		}},
		{"nobody comes after the last no", "FB-021", []string{
			"broker write declines", "has ws/d dir mode=0555", "call write d/b content=new",
			"asked 1 write /r/ws/d/b EACCES declined", "answer failed EACCES",
		}},
		{"a file that was seen may be confirmed or not", "FB-019", []string{
			"broker delete declines", "has ws/d dir mode=0555", "has ws/d/x file content=x", "call delete d/x",
			"asked 1 delete /r/ws/d/x EACCES confirmed declined", "answer failed EACCES",
		}},
		{"a receipt that says nothing", "PT-009", []string{"call write a content=new", "has ws/a file content=new", `answer ok dst=""`}},
		{"no handlers, no diversion", "FB-001", []string{"call write a content=new", "has ws/a file content=new", "answer ok"}},
		{"there is nothing outside", "PR-010", []string{"lacks out", "call write a content=new", "has ws/a file content=new", "answer ok"}},
		{"it is not over the wire", "PT-002", []string{"call read a", "answer ok content=old"}},
		{"a role that is not claimed", "FB-002", []string{
			"claims tools write", "broker write honest", "has ws/d dir mode=0555", "call write d/b content=new", "answer failed EACCES",
		}},
	} {
		v := judgeOne(t, tt.trace...)
		if len(v.Findings) > 0 {
			t.Errorf("%s:\n%s", tt.name, findings(v))
		}
		if n := v.Exercised[tt.rule]; n > 0 {
			t.Errorf("%s: %s counted %d times", tt.name, tt.rule, n)
		}
	}
}

// TestRootIsNotShown: where a run happened to be is no part of what it found.
func TestRootIsNotShown(t *testing.T) {
	v := judgeOne(t, "policy links=follow", "has ws/l link to=/r/ws/d", "broker write declines", "has ws/d dir mode=0555",
		"call write l/b content=new", "asked 1 write /r/ws/l/b EACCES declined", "answer failed EACCES", "call read l/b", "answer ok content=x")
	if len(v.Findings) != 2 {
		t.Fatalf("%d findings\n%s", len(v.Findings), findings(v))
	}
	if diff := cmp.Diff([]string{"{root}/d/b"}, v.Findings[0].Want); diff != "" || v.Findings[0].Got != `handler 1 was told "{root}/l/b"` {
		t.Errorf("got %s (-want +got):\n%s", v.Findings[0].Got, diff)
	}
	if text := findings(v); bytes.Contains([]byte(text), []byte("/r/ws")) {
		t.Errorf("the root is shown:\n%s", text)
	}
}

// spy is the model, held to what it promises.
type spy struct {
	model.Files
	t        *testing.T
	branches int
}

func (m *spy) Branches(s model.State, x *model.Exchange) []model.Branch {
	before := snapshot(m.t, s, x)
	first := m.Files.Branches(s, x)
	if after := snapshot(m.t, s, x); before != after {
		m.t.Errorf("the input changed (-before +after):\n%s", cmp.Diff(before, after))
	}
	for range 3 {
		again := m.Files.Branches(s, x)
		if diff := cmp.Diff(first, again, cmpopts.IgnoreUnexported(model.Branch{}), cmpopts.EquateEmpty()); diff != "" {
			m.t.Errorf("asked again (-first +again):\n%s", diff)
		}
	}
	m.branches += len(first)
	return first
}

func snapshot(t *testing.T, s model.State, x *model.Exchange) string {
	t.Helper()
	raw, err := json.Marshal(struct {
		S model.State
		X *model.Exchange
	}{s, x})
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestBranchesIsPure: the same input gives the same branches in the same order, and
// stays as it was; so does what was seen, for a trace that is judged twice.
func TestBranchesIsPure(t *testing.T) {
	m := &spy{t: t}
	for _, s := range readScripts(t, "*.txt") {
		raw, err := json.Marshal(s.events)
		if err != nil {
			t.Fatal(err)
		}
		first := model.Judge(m, s.events)
		for range 3 {
			if diff := cmp.Diff(first, model.Judge(model.Files{}, s.events)); diff != "" {
				t.Errorf("%s:%d: judged again (-first +again):\n%s", s.file, s.line, diff)
			}
		}
		if again, err := json.Marshal(s.events); err != nil || !bytes.Equal(raw, again) {
			t.Errorf("%s:%d: judging changed the trace", s.file, s.line)
		}
	}
	if m.branches < 500 {
		t.Errorf("only %d branches", m.branches)
	}
}

// TestEncodedIsJudgedTheSame: a trace that was saved and read is the trace that it was.
func TestEncodedIsJudgedTheSame(t *testing.T) {
	for _, s := range readScripts(t, "*.txt") {
		var b bytes.Buffer
		if err := trace.Write(&b, s.events); err != nil {
			t.Fatal(err)
		}
		back, err := trace.Read(&b, s.file)
		if err != nil {
			t.Fatalf("%s:%d: %v", s.file, s.line, err)
		}
		if diff := cmp.Diff(model.Judge(model.Files{}, s.events), model.Judge(model.Files{}, back)); diff != "" {
			t.Errorf("%s:%d (-before +after):\n%s", s.file, s.line, diff)
		}
	}
}

// TestNoHeader: a trace that begins in the middle is judged by what a subject that
// claims nothing is held to.
func TestNoHeader(t *testing.T) {
	s := readScripts(t, "AT.txt")[0]
	v := model.Judge(model.Files{}, s.events[1:])
	if len(v.Findings) > 0 {
		t.Errorf("\n%s", findings(v))
	}
	if v := model.Judge(model.Files{}, nil); len(v.Findings)+len(v.Exercised) > 0 {
		t.Errorf("nothing was judged to be %+v", v)
	}
}

// TestFindingsAreOrdered: by call, then by rule.
func TestFindingsAreOrdered(t *testing.T) {
	v := judgeOne(t, "has ws/b file content=b",
		"call write a content=new", "lacks ws/b out/c", "answer ok", "call read a", `answer ok content=x version=""`)
	var got []string
	for _, f := range v.Findings {
		got = append(got, string(rune('0'+f.Call))+" "+string(f.Rule))
	}
	if !slices.IsSorted(got) || len(got) != 5 {
		t.Errorf("got %q", got)
	}
}

func BenchmarkJudge(b *testing.B) {
	var traces [][]trace.Event
	for _, s := range readScripts(b, "*.txt") {
		traces = append(traces, s.events)
	}
	events := 0
	b.ReportAllocs()
	for b.Loop() {
		for _, t := range traces {
			model.Judge(model.Files{}, t)
			events += len(t)
		}
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
