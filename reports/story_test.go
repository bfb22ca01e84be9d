package reports_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// TestStory tells one event of every kind, and every way in which a tree changes.
func TestStory(t *testing.T) {
	dir := spec.Node{Type: spec.TypeDir, Mode: 0o755}
	file := spec.Node{Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("old")}
	long := spec.Content(strings.Repeat("é", 70))
	denial := spec.Denial{Session: "s1", Dst: "/ws/a", Cause: spec.ErrAccess}
	odd := spec.Node{
		Type: spec.TypeFile, Mode: 0o600, Owner: spec.OwnerOther, Content: spec.Content{0xff}, Nlink: 2, Immutable: true, Mount: spec.MountBind,
		Xattrs: map[string]spec.Content{"user.b": spec.Content("2"), "user.a": spec.Content("1 1")},
	}
	var rec trace.Recorder
	for _, e := range []trace.Event{
		{Header: &trace.Header{Subject: "it", Sandbox: "mem", Scenario: "s", Root: "/ws"}},
		{World: spec.World{"ws": dir, "ws/a": file, "ws/b": file, "ws/c": file}},
		{Edit: &spec.Edit{Op: spec.EditRename, Path: "ws/b", To: "ws/b b"}},
		{Invoke: &spec.Call{ID: 1, Session: "s1", Kind: spec.CallWrite, Path: "a", Content: long, ExpectVersion: spec.VersionAbsent}},
		{Fault: &trace.Fired{Injection: "f1", By: trace.Synthetic, Op: "write", Class: "modify", Path: "ws/a", Effect: "EIO", After: true}},
		{Consult: &trace.Consult{Handler: 1, Write: &spec.WriteRequest{Denial: denial, Content: spec.Content("x"), Exclusive: true}, Answer: trace.Landed, Acted: true}},
		{Consult: &trace.Consult{Handler: 2, Delete: &spec.DeleteRequest{Denial: denial}, Answer: trace.Threw}},
		{Diag: &trace.Diag{Level: "WARN", Msg: "handler failed", Attrs: map[string]string{"z": "1", "a": "two words"}}},
		{Wire: &trace.WireFault{Kind: "not-json", Line: "hello"}},
		{Crash: &trace.Crash{Model: trace.ProcessKill}},
		{Log: &spec.LogEntry{Type: spec.LogPermissionDecision, Data: json.RawMessage(`{"landed":false,"dst":"/ws/a"}`)}},
		{Log: &spec.LogEntry{Type: spec.LogToolResult, Data: json.RawMessage(`[1]`)}},
		{World: spec.World{
			"ws": dir, "ws/a": odd, "ws/c": {Type: spec.TypeFile, Mode: 0o600, Content: spec.Content("old")}, "ws/l": {Type: spec.TypeLink, Mode: 0o777, Link: "../x"},
			"ws/h": {Type: spec.TypeFile, Mode: 0o600, Hard: "ws/a", Content: spec.Content("not again")},
		}},
		{Return: &spec.Outcome{Call: 1, Status: spec.StatusFailed, Err: spec.ErrIO, Detail: "for people"}},
		{Invoke: &spec.Call{ID: 2, Kind: spec.CallRead, Path: "a b"}},
		{World: spec.World{"ws": dir}},
		{World: spec.World{"ws": dir}},
		{Return: &spec.Outcome{Call: 2, Status: spec.StatusOK, Content: spec.Content("x"), Version: "v"}},
		{},
	} {
		rec.Emit(e)
	}
	var b bytes.Buffer
	if err := reports.WriteStory(&b, rec.Events()); err != nil {
		t.Fatal(err)
	}
	sameAsFile(t, "story.txt", b.String())
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space") }

func TestWritersReportFailure(t *testing.T) {
	r := full(t)
	for name, err := range map[string]error{
		"story": reports.WriteStory(fullDisk{}, []trace.Event{{}}),
		"text":  r.WriteText(fullDisk{}, reports.Style{}, false),
		"JSON":  r.WriteJSON(fullDisk{}),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "no space") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
