package trace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

func drawWorld(rt *rapid.T) spec.World {
	w := spec.World{"ws": {Type: spec.TypeDir, Mode: 0o755}}
	for range rapid.IntRange(0, 4).Draw(rt, "entries") {
		n := spec.Node{
			Type: rapid.SampledFrom(spec.NodeTypes).Draw(rt, "type"),
			Mode: spec.Mode(rapid.IntRange(0, 0o7777).Draw(rt, "mode")),
			Link: rapid.SampledFrom([]string{"", "../x"}).Draw(rt, "link"),
		}
		if content := rapid.SliceOf(rapid.Byte()).Draw(rt, "content"); len(content) > 0 {
			n.Content = content
			n.Xattrs = map[string]spec.Content{"user.x": content}
		}
		w["ws/"+rapid.StringMatching(`[a-c]{1,2}`).Draw(rt, "name")] = n
	}
	return w
}

func drawEvent(rt *rapid.T) trace.Event {
	content := append(spec.Content{}, rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(rt, "content")...)
	text := rapid.String().Draw(rt, "text")
	denial := spec.Denial{Call: 1, Session: "s", Tool: "write", Gate: spec.GateOS, Target: text, Dst: "/r/a", Cause: spec.ErrAccess}
	e := rapid.SampledFrom([]trace.Event{
		{Actor: trace.ActorBench, Invoke: &spec.Call{ID: 1, Kind: spec.CallWrite, Path: text, Content: content, ExpectVersion: spec.VersionAbsent}},
		{Actor: trace.ActorFault, Fault: &trace.Fired{Injection: text, By: trace.Kernel, Op: "write", Class: "modify", Path: "ws/a", Effect: "EIO", After: true}},
		{Actor: trace.ActorFault, Edit: &spec.Edit{Op: spec.EditWrite, Path: "ws/a", Content: content, Mtime: 7}},
		{Actor: trace.ActorBench, Consult: &trace.Consult{Handler: 2, Write: &spec.WriteRequest{Denial: denial, Content: content, Exclusive: true}, Answer: trace.Landed, Acted: true}},
		{Actor: trace.ActorBench, Consult: &trace.Consult{Handler: 1, Delete: &spec.DeleteRequest{Denial: denial}, Answer: trace.Threw}},
		{Actor: trace.ActorSUT, Diag: &trace.Diag{Level: "WARN", Msg: text, Attrs: map[string]string{"k": text}}},
		{Actor: trace.ActorBench, Wire: &trace.WireFault{Kind: "not-json", Line: text, Note: "n"}},
		{Actor: trace.ActorFault, Crash: &trace.Crash{Model: trace.ProcessKill}},
		{Actor: trace.ActorWorld, Left: &trace.Left{Paths: []string{"ws/a", "ws/\x1b"}}},
		{Actor: trace.ActorSUT, Log: &spec.LogEntry{ID: "1", Session: "s", Seq: json.RawMessage("1.0"), Type: spec.LogToolCall, Data: json.RawMessage(`{"a":[1]}`)}},
		{Actor: trace.ActorWorld, World: drawWorld(rt)},
		{Actor: trace.ActorSUT, Return: &spec.Outcome{Call: 1, Status: spec.StatusFailed, Err: spec.ErrIO, Content: content, Receipt: &spec.Receipt{Dst: text}}},
	}).Draw(rt, "event")
	e.Call = spec.CallID(rapid.Uint32Range(0, 3).Draw(rt, "call"))
	return e
}

var header = trace.Event{Seq: 1, Actor: trace.ActorBench, Header: &trace.Header{
	Format: trace.Format, Scenario: "s", Subject: "x", Sandbox: "mem", Root: "/ws", Policies: spec.Policies{"links": "refuse"},
	Claims: []string{"tools"}, Brokers: []spec.Broker{{Seam: spec.SeamWrite, Kind: spec.Honest}}, Wire: true,
}}

func TestCodecRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		events := []trace.Event{header}
		for range rapid.IntRange(0, 6).Draw(rt, "events") {
			e := drawEvent(rt)
			e.Seq = uint64(len(events) + 1)
			events = append(events, e)
		}
		var b bytes.Buffer
		if err := trace.Write(&b, events); err != nil {
			rt.Fatal(err)
		}
		if lines := strings.Count(b.String(), "\n"); lines != len(events) {
			rt.Errorf("%d lines for %d events", lines, len(events))
		}
		text := b.String()
		back, err := trace.Read(&b, "t.jsonl")
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(events, back); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestMalformedTraces(t *testing.T) {
	const (
		head  = `{"seq":1,"actor":"bench","header":{"format":1,"scenario":"s","subject":"x","sandbox":"mem","root":"/ws"}}` + "\n"
		crash = `{"seq":2,"actor":"fault","crash":{"model":"process-kill"}}` + "\n"
	)
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "t.jsonl:1: want the header event first"},
		{"no header", strings.Replace(crash, "2", "1", 1), "t.jsonl:1: want the header event first"},
		{"no JSON", head + "and then\n", "t.jsonl:2: want one event as a JSON object: invalid character 'a' looking for beginning of value"},
		{"an empty line", head + "\n" + crash, "t.jsonl:2: want one event as a JSON object: EOF"},
		{"cut off", head + crash[:30], "t.jsonl:2: want one event as a JSON object: unexpected EOF"},
		{"two on a line", head + strings.TrimSpace(crash) + crash, "t.jsonl:2: want nothing after the event"},
		{"unknown member", head + `{"seq":2,"actor":"sut","colour":1}`, `t.jsonl:2: want one event as a JSON object: json: unknown field "colour"`},
		{"a line lost", head + strings.Replace(crash, "2", "3", 1), "t.jsonl:2: seq is 3, want 2: a line is missing or out of order"},
		{"a line twice", head + crash + crash, "t.jsonl:3: seq is 2, want 3: a line is missing or out of order"},
		{
			"nothing happened", head + `{"seq":2,"actor":"sut"}`,
			"t.jsonl:2: 0 things happened: want exactly one of header, invoke, fault, edit, consult, diag, wire, crash, log, world and return",
		},
		{
			"two things happened", head + `{"seq":2,"actor":"sut","crash":{"model":"m"},"edit":{"op":"remove","path":"a"}}`,
			"t.jsonl:2: 2 things happened: want exactly one of header, invoke, fault, edit, consult, diag, wire, crash, log, world and return",
		},
		{"a second header", head + strings.Replace(head, `"seq":1`, `"seq":2`, 1), "t.jsonl:2: want no second header"},
		{"another format", strings.Replace(head, `"format":1`, `"format":7`, 1), "t.jsonl:1: trace format 7, want 1: it was written by another fsbench"},
		{
			"no such status", head + `{"seq":2,"actor":"sut","return":{"call":1,"status":"done"}}`,
			`t.jsonl:2: want one event as a JSON object: status "done": want unknown, ok or failed`,
		},
	} {
		events, err := trace.Read(strings.NewReader(tt.text), "t.jsonl")
		got := fmt.Sprintf("%d events", len(events))
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestLineTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a line of 64 MiB")
	}
	long := strings.NewReader(strings.Repeat(" ", 64<<20) + "\n")
	_, err := trace.Read(long, "t.jsonl")
	if err == nil || !strings.HasPrefix(err.Error(), "t.jsonl:1: want a line of at most 67108864 bytes: ") {
		t.Errorf("got %v", err)
	}
}

func TestWriteFails(t *testing.T) {
	events := []trace.Event{{Seq: 1, Return: &spec.Outcome{Status: 9}}}
	err := trace.Write(&bytes.Buffer{}, events)
	if err == nil || !strings.HasPrefix(err.Error(), "encode event 1: ") {
		t.Errorf("got %v", err)
	}
}

// TestRecorderStamps: what happens during a call carries its number, until it is
// answered.
func TestRecorderStamps(t *testing.T) {
	var r trace.Recorder
	for _, e := range []trace.Event{
		{Header: &trace.Header{}},
		{World: spec.World{}},
		{Invoke: &spec.Call{ID: 4}},
		{Fault: &trace.Fired{}},
		{Crash: &trace.Crash{}, Call: 9}, // a call named by the emitter is left alone
		{Return: &spec.Outcome{}},
		{Wire: &trace.WireFault{}},
	} {
		e.Seq = 77 // the recorder's business
		r.Emit(e)
	}
	type stamp struct {
		Seq  uint64
		Call spec.CallID
	}
	var got []stamp
	for _, e := range r.Events() {
		got = append(got, stamp{e.Seq, e.Call})
	}
	want := []stamp{{1, 0}, {2, 0}, {3, 4}, {4, 4}, {5, 9}, {6, 4}, {7, 0}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEventsAreACopy(t *testing.T) {
	var r trace.Recorder
	r.Emit(trace.Event{Actor: trace.ActorBench})
	r.Events()[0].Actor = trace.ActorSUT
	if got := r.Events()[0].Actor; got != trace.ActorBench {
		t.Errorf("the record now says %s", got)
	}
}

// TestRecorderRace: events come from handlers, subjects and faults at once, and are
// in one dense order all the same.
func TestRecorderRace(t *testing.T) {
	const emitters, each = 8, 200
	var r trace.Recorder
	var wg sync.WaitGroup
	for range emitters {
		wg.Go(func() {
			for range each {
				r.Emit(trace.Event{Actor: trace.ActorFault, Crash: &trace.Crash{}})
				_ = r.Events()
			}
		})
	}
	wg.Wait()
	events := r.Events()
	if len(events) != emitters*each {
		t.Fatalf("%d events, want %d", len(events), emitters*each)
	}
	for i, e := range events {
		if e.Seq != uint64(i+1) {
			t.Fatalf("event %d has seq %d", i+1, e.Seq)
		}
	}
}

func benchEvents() []trace.Event {
	events := []trace.Event{header}
	w := spec.World{"ws": {Type: spec.TypeDir, Mode: 0o755}}
	for i := range 10 {
		w[fmt.Sprintf("ws/%d", i)] = spec.Node{Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("some text of a file\n")}
	}
	for i := range 30 {
		e := trace.Event{Actor: trace.ActorFault, Fault: &trace.Fired{Injection: "f1", By: trace.Synthetic, Op: "write", Class: "modify", Path: "ws/d/a", Effect: "EIO"}}
		if i%6 == 0 {
			e = trace.Event{Actor: trace.ActorWorld, World: w}
		}
		e.Seq = uint64(len(events) + 1)
		events = append(events, e)
	}
	return events
}

func BenchmarkWrite(b *testing.B) {
	events := benchEvents()
	var buf bytes.Buffer
	b.ReportAllocs()
	for b.Loop() {
		buf.Reset()
		if err := trace.Write(&buf, events); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(int64(buf.Len()))
	b.ReportMetric(float64(len(events)*b.N)/b.Elapsed().Seconds(), "events/s")
}

func BenchmarkRead(b *testing.B) {
	events := benchEvents()
	var buf bytes.Buffer
	if err := trace.Write(&buf, events); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(buf.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := trace.Read(bytes.NewReader(buf.Bytes()), "bench"); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(events)*b.N)/b.Elapsed().Seconds(), "events/s")
}
