package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/fallback"
	"github.com/fsbench/fsbench/impl/host"
	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// bench is a host in a workspace "ws" that holds the file "f" and, in the closed
// directory "d", the file "g".
type bench struct {
	t     *testing.T
	admin memfs.Admin
	root  vfs.Dir
	reg   *fallback.Registry
	cfg   host.Config
	host  *host.Host
}

func newBench(t *testing.T, change func(*host.Config)) *bench {
	t.Helper()
	me := memfs.Cred{UID: 1000, GID: 1000}
	store := memfs.New(memfs.Cred{})
	b := &bench{t: t, admin: store.Admin(), reg: &fallback.Registry{}}
	for _, e := range []struct {
		path string
		node memfs.Node
	}{
		{"ws", memfs.Node{Type: fs.ModeDir, Bits: 0o755}},
		{"ws/f", memfs.Node{Bits: 0o600, Data: []byte("old")}},
		{"ws/d", memfs.Node{Type: fs.ModeDir, Bits: 0o555}},
		{"ws/d/g", memfs.Node{Bits: 0o600, Data: []byte("old")}},
	} {
		e.node.UID, e.node.GID = me.UID, me.GID
		b.must(b.admin.Make(e.path, e.node))
	}
	port := store.As(me)
	var err error
	b.root, err = port.OpenRoot("/ws")
	b.must(err)
	var mu sync.Mutex
	ids := 0
	b.cfg = host.Config{
		Root:  b.root,
		Tools: &tools.Tools{Root: b.root, RootPath: "/ws", Caps: port.Caps(), Seam: b.reg, Steps: tools.Default()},
		Now:   func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
		NewID: func() string {
			mu.Lock()
			defer mu.Unlock()
			ids++
			return fmt.Sprint(ids)
		},
	}
	if change != nil {
		change(&b.cfg)
	}
	b.host = host.New(b.cfg)
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// log describes the events of session s1, one a line: type and data.
func (b *bench) log() []string {
	b.t.Helper()
	raw, err := b.host.ReadLog("s1", 0)
	b.must(err)
	return b.events(raw)
}

func (b *bench) events(raw []byte) []string {
	b.t.Helper()
	var events []string
	for line := range strings.Lines(string(raw)) {
		var e spec.LogEntry
		b.must(json.Unmarshal([]byte(line), &e))
		events = append(events, e.Type+" "+string(e.Data))
	}
	return events
}

// onDisk is log for a host that is closed.
func (b *bench) onDisk() []string {
	b.t.Helper()
	return b.events([]byte(b.content("ws/" + spec.StateDir + "/sessions/s1.ndjson")))
}

func (b *bench) content(p string) string {
	b.t.Helper()
	n, err := b.admin.Look(p)
	b.must(err)
	return string(n.Data)
}

const (
	opened = `user_message {"text":"run the calls of this turn"}`
	ended  = `assistant_message {"text":"done"}`
)

func call(id spec.CallID, kind spec.CallKind, path, content string) spec.Call {
	c := spec.Call{ID: id, Session: "s1", Kind: kind, Path: path}
	if kind == spec.CallWrite {
		c.Content = spec.Content(content)
	}
	return c
}

func TestTurn(t *testing.T) {
	b := newBench(t, nil)
	read := b.host.Do(t.Context(), call(1, spec.CallRead, "f", ""))
	wrote := b.host.Do(t.Context(), call(2, spec.CallWrite, "f", "new"))
	b.host.Do(t.Context(), call(3, spec.CallRead, "no", ""))
	moved := call(4, spec.CallMove, "f", "")
	moved.To = "h"
	b.host.Do(t.Context(), moved)
	version := func(out spec.Outcome) string {
		if out.Status != spec.StatusOK || out.Version == "" {
			t.Errorf("call %d: %+v, want ok and a version", out.Call, out)
		}
		return `{"version":"` + out.Version + `"}`
	}
	got := b.log()
	want := []string{
		opened,
		`tool_call {"call_id":"c1","name":"read","args":{"path":"f"}}`,
		`tool_result {"call_id":"c1","ok":true,"output":` + version(read) + `}`,
		`tool_call {"call_id":"c2","name":"write","args":{"bytes":3,"path":"f"}}`,
		`tool_result {"call_id":"c2","ok":true,"output":` + version(wrote) + `}`,
		`tool_call {"call_id":"c3","name":"read","args":{"path":"no"}}`,
		`tool_result {"call_id":"c3","ok":false,"error":{"kind":"file_not_found","message":"openat no: no such file or directory"}}`,
		`tool_call {"call_id":"c4","name":"move","args":{"path":"f","to":"h"}}`,
	}
	if diff := cmp.Diff(want, got[:min(len(want), len(got))]); diff != "" {
		t.Errorf("the Log (-want +got):\n%s", diff)
	}
	b.must(b.host.Close())
	if all := b.onDisk(); len(all) != len(want)+2 || all[len(all)-1] != ended {
		t.Errorf("the Turn does not end after its last result:\n%s", strings.Join(all, "\n"))
	}
}

// TestDenials: what was refused is on record before the result of its call, with
// what became of it.
func TestDenials(t *testing.T) {
	const denied = `permission_decision {"call_id":"c1","decision":"deny","gate":"os","tool":`
	for _, tt := range []struct {
		name  string
		write func(b *bench, r spec.WriteRequest) bool
		call  spec.Call
		want  []string // between the call and the end
	}{
		{
			"declined", func(*bench, spec.WriteRequest) bool { return false }, call(1, spec.CallWrite, "d/new", "x"),
			[]string{
				denied + `"write","requested_path":"d/new","dst":"/ws/d/new","cause":"EACCES","landed":false}`,
				`tool_result {"call_id":"c1","ok":false,"error":{"kind":"access_denied",`,
			},
		},
		{
			"landed", func(b *bench, r spec.WriteRequest) bool {
				b.must(b.admin.Write(r.Dst[1:], r.Content, memfs.Node{Bits: 0o600, UID: 1000, GID: 1000}))
				return true
			}, call(1, spec.CallWrite, "d/new", "x"),
			[]string{
				denied + `"write","requested_path":"d/new","dst":"/ws/d/new","cause":"EACCES","landed":true}`,
				`tool_result {"call_id":"c1","ok":true,"output":{"version":"`,
			},
		},
		{
			"a lie", func(*bench, spec.WriteRequest) bool { return true }, call(1, spec.CallWrite, "d/new", "x"),
			[]string{
				denied + `"write","requested_path":"d/new","dst":"/ws/d/new","cause":"EACCES","landed":false}`,
				`tool_result {"call_id":"c1","ok":false,"error":{"kind":"outcome_unknown",`,
			},
		},
		{
			"without a destination", func(*bench, spec.WriteRequest) bool { return true }, call(1, spec.CallWrite, "d/no/../x", "x"),
			[]string{
				denied + `"write","requested_path":"d/no/../x","cause":"EACCES","landed":false}`,
				`tool_result {"call_id":"c1","ok":false,"error":{"kind":"file_not_found",`,
			},
		},
		{
			"delete", nil, call(1, spec.CallDelete, "d/g", ""),
			[]string{
				denied + `"delete","requested_path":"d/g","dst":"/ws/d/g","cause":"EACCES","landed":false}`,
				`tool_result {"call_id":"c1","ok":false,"error":{"kind":"access_denied",`,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			b.reg.HandleWrite(func(_ context.Context, r spec.WriteRequest) (bool, error) { return tt.write(b, r), nil })
			b.host.Do(t.Context(), tt.call)
			got := b.log()[2:]
			for i, line := range got {
				if i < len(tt.want) && strings.HasPrefix(line, tt.want[i]) {
					got[i] = tt.want[i] // the rest is a version or a message
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the Log (-want +got):\n%s", diff)
			}
		})
	}
}

// broken is a Log that fails at the nth record, counted from 0.
type broken struct {
	host.Logger
	at    int
	lands bool // the record is written all the same
}

var errLog = errors.New("the Log is full")

func (l *broken) Append(typ string, data any) error {
	l.at--
	if l.at != -1 {
		return l.Logger.Append(typ, data)
	}
	if l.lands {
		return errors.Join(l.Logger.Append(typ, data), errLog)
	}
	return errLog
}

// TestLogFails: an act off the record is worse than none. A call that could not be
// put on record is not run; one whose end could not be is unknown.
func TestLogFails(t *testing.T) {
	for _, tt := range []struct {
		at     int // the record that fails: the Turn, the call, the denial, the result
		path   string
		want   spec.Status
		ran    bool
		events int
	}{
		{0, "f", spec.StatusFailed, false, 0},
		{1, "f", spec.StatusFailed, false, 1},
		{2, "f", spec.StatusUnknown, true, 2},
		{2, "d/g", spec.StatusUnknown, true, 2},
		{3, "d/g", spec.StatusUnknown, true, 3},
		{4, "f", spec.StatusOK, true, 3},
	} {
		for _, lands := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d %s lands=%v", tt.at, tt.path, lands), func(t *testing.T) {
				b := newBench(t, func(c *host.Config) {
					c.WrapLog = func(l host.Logger) host.Logger { return &broken{l, tt.at, lands} }
				})
				ran := false
				b.reg.HandleWrite(func(_ context.Context, r spec.WriteRequest) (bool, error) {
					ran = true
					return true, b.admin.Write(r.Dst[1:], r.Content, memfs.Node{})
				})
				out := b.host.Do(t.Context(), call(1, spec.CallWrite, tt.path, "new"))
				if out.Status != tt.want || out.Call != 1 || (out.Err == spec.ErrOther) != (tt.want == spec.StatusFailed) {
					t.Errorf("got %+v, want %v", out, tt.want)
				}
				if ran = ran || b.content("ws/f") == "new"; ran != tt.ran {
					t.Errorf("the call ran: %v, want %v", ran, tt.ran)
				}
				events := tt.events
				if lands && out.Status != spec.StatusOK {
					events++
				}
				if got := b.log(); len(got) != events {
					t.Errorf("%d events, want %d:\n%s", len(got), events, strings.Join(got, "\n"))
				}
			})
		}
	}
}

// TestNoLogNoCall: the Log cannot even be opened.
func TestNoLogNoCall(t *testing.T) {
	b := newBench(t, nil)
	b.must(b.admin.Make("ws/"+spec.StateDir, memfs.Node{Type: fs.ModeSymlink, Link: "d"}))
	out := b.host.Do(t.Context(), call(1, spec.CallWrite, "f", "new"))
	if out.Status != spec.StatusFailed || out.Err != spec.ErrOther || b.content("ws/f") != "old" {
		t.Errorf("got %+v, want it failed; the file holds %q", out, b.content("ws/f"))
	}
	if strings.Contains(out.Detail, "/ws") {
		t.Errorf("the message tells where the root is: %s", out.Detail)
	}
	if _, err := b.host.ReadLog("s1", 0); err == nil {
		t.Error("a Log that cannot be opened was read")
	}
}

func TestBadSessions(t *testing.T) {
	b := newBench(t, nil)
	for _, id := range []spec.SessionID{"../../etc/x", ".", "a b"} {
		c := call(1, spec.CallWrite, "f", "new")
		c.Session = id
		out := b.host.Do(t.Context(), c)
		if out.Status != spec.StatusFailed || out.Err != spec.ErrInvalid || b.content("ws/f") != "old" {
			t.Errorf("session %q: got %+v, want it refused; the file holds %q", id, out, b.content("ws/f"))
		}
		if raw, err := b.host.ReadLog(id, 0); raw != nil || err != nil {
			t.Errorf("ReadLog(%q) = %q, %v, want nothing", id, raw, err)
		}
	}
	if b.admin.Exists("ws/" + spec.StateDir) {
		t.Error("a session that was refused left a Log")
	}
}

// TestOutsideSessions: a call outside any session is served and not logged.
func TestOutsideSessions(t *testing.T) {
	b := newBench(t, nil)
	c := call(1, spec.CallWrite, "f", "new")
	c.Session = ""
	if out := b.host.Do(t.Context(), c); out.Status != spec.StatusOK {
		t.Errorf("got %+v, want ok", out)
	}
	raw, err := b.host.ReadLog("", 0)
	if raw != nil || err != nil || b.admin.Exists("ws/"+spec.StateDir) {
		t.Errorf("ReadLog = %q, %v, want nothing, and no state folder", raw, err)
	}
}

// TestSessions: every session has its Turn and its Log, and what a Log holds does
// not depend on the order in which a map is walked.
func TestSessions(t *testing.T) {
	var first []string
	for range 20 {
		b := newBench(t, nil)
		for _, id := range []spec.SessionID{"s1", "s2", "s3", "s1"} {
			c := call(1, spec.CallRead, "f", "")
			c.Session = id
			b.host.Do(t.Context(), c)
		}
		b.must(b.host.Close())
		var all []string
		for _, id := range []string{"s1", "s2", "s3"} {
			text := b.content("ws/" + spec.StateDir + "/sessions/" + id + ".ndjson")
			if n := strings.Count(text, `"type":"user_message"`); n != 1 {
				t.Errorf("%s has %d Turns, want 1:\n%s", id, n, text)
			}
			all = append(all, text)
		}
		if first == nil {
			first = all
		}
		if diff := cmp.Diff(first, all); diff != "" {
			t.Fatalf("two runs differ:\n%s", diff)
		}
	}
}

// TestReopened: a session that is met again continues its Log in a new Turn.
func TestReopened(t *testing.T) {
	b := newBench(t, nil)
	b.host.Do(t.Context(), call(1, spec.CallRead, "f", ""))
	b.must(b.host.Close())
	b.host = host.New(b.cfg)
	b.host.Do(t.Context(), call(2, spec.CallRead, "f", ""))
	var types []string
	for _, e := range b.log() {
		types = append(types, strings.Fields(e)[0])
	}
	want := "user_message tool_call tool_result assistant_message user_message tool_call tool_result"
	if diff := cmp.Diff(want, strings.Join(types, " ")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestConcurrentCalls is for the race detector. One Turn is opened, and every call
// is on record before its result.
func TestConcurrentCalls(t *testing.T) {
	b := newBench(t, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 10 {
				b.host.Do(t.Context(), call(spec.CallID(10*i+j+1), spec.CallRead, "f", ""))
				if _, err := b.host.ReadLog("s1", 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for _, e := range b.log() {
		typ, data, _ := strings.Cut(e, " ")
		var d struct {
			CallID string `json:"call_id"`
		}
		b.must(json.Unmarshal([]byte(data), &d))
		if typ == spec.LogToolResult && seen[spec.LogToolCall+d.CallID] != 1 {
			t.Errorf("a result of %s before the call", d.CallID)
		}
		seen[typ+d.CallID]++
	}
	if seen[spec.LogUserMessage] != 1 || len(seen) != 161 {
		t.Errorf("%d Turns and %d different events, want 1 and 161", seen[spec.LogUserMessage], len(seen))
	}
}
