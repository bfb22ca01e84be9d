package model_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// The traces of these tests are written by hand, in testdata. A trace begins with a
// line that says what is expected of it:
//
//	AT-001 keeps: ...        no rule is broken, and this one was put to the test
//	AT-001 breaks: ...       this rule is broken, and no other
//	AT-001 FB-002 breaks: ...  these are
//	fine: ...                no rule is broken
//
// The indented lines below it are the trace, in order. It starts from the subject of
// newScript and from this tree, which lines before the first call change:
//
//	out/c  "keep"
//	ws/a   "old"
//	ws/d/  empty
type script struct {
	file   string
	line   int
	title  string
	rules  []spec.RuleID
	keeps  bool
	events []trace.Event

	head    *trace.Header
	w       spec.World
	call    *spec.Call // under way
	calls   spec.CallID
	started bool
	unseen  bool // nobody looks at the tree before the answer
}

func newScript(file string, line int) *script {
	dir := spec.Node{Type: spec.TypeDir, Mode: 0o755}
	return &script{
		file: file, line: line,
		head: &trace.Header{
			Format: trace.Format, Scenario: "s", Subject: "x", Sandbox: "mem", Root: "/r/ws",
			Policies: spec.Policies{
				spec.PolicyLinks: spec.LinksRefuse, spec.PolicyHardlink: spec.HardlinkBreak, spec.PolicyDurability: spec.DurabilityDurable,
				spec.PolicyMode: spec.Mode0600, spec.PolicyXattr: spec.XattrPreserve, spec.PolicyMissingParent: spec.ParentCreate,
				spec.PolicyTempAfterKill: spec.TempLeft, spec.PolicyParents: spec.ParentsRemove,
			},
			Claims: []string{"tools", "registry", "host", "read", "write", "delete", "move", "expect_version", "exclusive"},
		},
		w: spec.World{
			"out": dir, "out/c": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("keep")},
			"ws": dir, "ws/a": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("old")}, "ws/d": dir,
		},
	}
}

// readScripts reads the traces of all files of testdata that match pattern.
func readScripts(tb testing.TB, pattern string) []*script {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		tb.Fatalf("%s: %v, %v", pattern, files, err)
	}
	var out []*script
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			tb.Fatal(err)
		}
		var s *script
		for i, row := range strings.Split(string(text), "\n") {
			fail := func(err error) {
				if err != nil {
					tb.Fatalf("%s:%d: %s: %v", file, i+1, strings.TrimSpace(row), err)
				}
			}
			switch {
			case strings.TrimSpace(row) == "" || row[0] == '#':
			case row[0] != '\t':
				s = newScript(filepath.Base(file), i+1)
				fail(s.expect(row))
				out = append(out, s)
			default:
				fields, err := spec.ParseFields(row)
				fail(err)
				fail(s.do(fields))
			}
		}
	}
	for _, s := range out {
		if s.call != nil || len(s.events) == 0 {
			tb.Fatalf("%s:%d: the last call is not answered", s.file, s.line)
		}
	}
	return out
}

func (s *script) expect(row string) error {
	what, title, ok := strings.Cut(row, ": ")
	words := strings.Fields(what)
	s.title = title
	switch {
	case !ok || len(words) == 0:
	case words[len(words)-1] == "keeps" && len(words) == 2, what == "fine":
		s.keeps = true
		fallthrough
	case words[len(words)-1] == "breaks" && len(words) > 1:
		for _, id := range words[:len(words)-1] {
			s.rules = append(s.rules, spec.RuleID(id))
		}
		return nil
	}
	return fmt.Errorf("want RULE keeps, RULE breaks or fine, and a title behind a colon")
}

// line is one line of a trace, taken apart: words, then options.
type line struct {
	words []string
	opt   map[string]string
}

func (l line) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

func (l line) has(word string) bool { return slices.Contains(l.words, word) }

// do takes in one line.
func (s *script) do(fields []spec.Field) error {
	l := line{opt: map[string]string{}}
	for _, f := range fields {
		if f.Key == "" {
			l.words = append(l.words, f.Value)
		} else {
			l.opt[f.Key] = f.Value
		}
	}
	verb := l.words[0]
	l.words = l.words[1:]
	switch verb {
	case "policy": // name=value; an empty value declares nothing
		for name, value := range l.opt {
			s.head.Policies[name] = value
			if value == "" {
				delete(s.head.Policies, name)
			}
		}
	case "claims":
		s.head.Claims = l.words
	case "broker":
		s.head.Brokers = append(s.head.Brokers, spec.Broker{Seam: spec.Seam(l.word(0)), Kind: spec.BrokerKind(l.word(1))})
	case "wire":
		s.head.Wire = true
	case "counted":
		s.head.Counted = true
	case "has":
		return s.has(l)
	case "lacks":
		s.changed()
		for _, p := range l.words {
			maps.DeleteFunc(s.w, func(q string, _ spec.Node) bool { return q == p || strings.HasPrefix(q, p+"/") })
		}
	case "unseen":
		s.unseen = true
	default:
		return s.happens(verb, l, fields)
	}
	return nil
}

// changed leaves the tree that was seen so far as it was.
func (s *script) changed() { s.w = s.w.Clone() }

// has puts an entry into the tree. What the line does not say of an entry that is
// there already stays as it is.
func (s *script) has(l line) error {
	p, typ := l.word(0), spec.NodeType(l.word(1))
	n := s.w[p]
	if n.Type != typ {
		n = spec.Node{Type: typ, Mode: 0o644}
		switch {
		case typ == spec.TypeDir:
			n.Mode = 0o755
		case typ == spec.TypeLink:
			n.Mode = 0o777
		case s.started:
			n.Mode = 0o600 // as the subject declares
		}
	}
	n.Xattrs = maps.Clone(n.Xattrs)
	for key, value := range l.opt {
		var err error
		switch key {
		case "content":
			err = n.Content.UnmarshalText([]byte(value))
		case "mode":
			err = n.Mode.UnmarshalText([]byte(value))
		case "to":
			n.Link = value
		case "owner":
			n.Owner = spec.Owner(value)
		case "hard":
			n.Hard = value
		case "nlink":
			n.Nlink, err = strconv.Atoi(value)
		case "mount":
			n.Mount = spec.Mount(value)
		default:
			name, ok := strings.CutPrefix(key, "x:")
			if !ok {
				return fmt.Errorf("has: %s= is unknown", key)
			}
			if n.Xattrs == nil {
				n.Xattrs = map[string]spec.Content{}
			}
			if n.Xattrs[name] = spec.Content(value); value == "" {
				delete(n.Xattrs, name)
			}
		}
		if err != nil {
			return err
		}
	}
	n.Immutable = n.Immutable || l.has("immutable")
	s.changed()
	s.w[p] = n
	return nil
}

func (s *script) emit(e trace.Event) {
	if !s.started {
		s.started = true
		s.events = append(s.events, trace.Event{Seq: 1, Header: s.head})
		if !s.unseen {
			s.events = append(s.events, trace.Event{Seq: 2, World: s.w})
		}
		s.unseen = false
	}
	e.Seq = uint64(len(s.events) + 1)
	s.events = append(s.events, e)
}

// happens takes in a line that is an event.
func (s *script) happens(verb string, l line, fields []spec.Field) error {
	switch verb {
	case "call": // KIND PATH [to=] [content=] [expect=] [session=]
		s.calls++
		s.call = &spec.Call{
			ID: s.calls, Session: "s1", Kind: spec.CallKind(l.word(0)), Path: l.word(1), To: l.opt["to"], ExpectVersion: l.opt["expect"],
		}
		if content, ok := l.opt["content"]; ok {
			s.call.Content = spec.Content(content)
		}
		if session, ok := l.opt["session"]; ok {
			s.call.Session = spec.SessionID(session)
		}
		s.emit(trace.Event{Invoke: s.call})
	case "fired": // OP CLASS PATH EFFECT [after]
		s.emit(trace.Event{Fault: &trace.Fired{
			Injection: "f", By: trace.Synthetic, Op: l.word(0), Class: l.word(1), Path: l.word(2), Effect: l.word(3), After: l.has("after"),
		}})
	case "edit":
		e, err := spec.ParseEdit(fields[1:])
		if err != nil {
			return err
		}
		s.emit(trace.Event{Edit: &e})
	case "looks": // AFTER: a reader, during a call
		s.emit(trace.Event{Glimpse: &trace.Glimpse{After: l.word(0), World: s.w.Clone()}})
	case "leaves": // PATH: what the call has left open
		s.emit(trace.Event{Left: &trace.Left{Paths: []string{l.word(0)}}})
	case "sees": // between calls: the bench looks
		s.emit(trace.Event{World: s.w})
	case "asked":
		return s.asked(l)
	case "warned":
		s.emit(trace.Event{Diag: &trace.Diag{Level: "WARN", Msg: "m"}})
	case "departed":
		s.emit(trace.Event{Wire: &trace.WireFault{Kind: l.word(0)}})
	case "crash":
		s.emit(trace.Event{Crash: &trace.Crash{Model: trace.ProcessKill}})
	case "logged":
		return s.logged(l)
	case "answer":
		return s.answer(l)
	default:
		return fmt.Errorf("%s is unknown", verb)
	}
	return nil
}

// asked: N write|delete DST CAUSE [session=] [content=] [exclusive] [confirmed]
// landed|declined|threw [acted].
func (s *script) asked(l line) error {
	n, err := strconv.Atoi(l.word(0))
	if err != nil {
		return err
	}
	d := spec.Denial{Call: s.calls, Session: s.call.Session, Gate: spec.GateOS, Dst: l.word(2), Cause: spec.ErrKind(l.word(3))}
	if session, ok := l.opt["session"]; ok {
		d.Session = spec.SessionID(session)
	}
	c := &trace.Consult{Handler: n, Acted: l.has("acted")}
	for _, a := range []trace.Answer{trace.Landed, trace.Declined, trace.Threw} {
		if l.has(string(a)) {
			c.Answer = a
		}
	}
	if c.Answer == "" {
		return fmt.Errorf("what did it say?")
	}
	switch spec.Seam(l.word(1)) {
	case spec.SeamWrite:
		c.Write = &spec.WriteRequest{Denial: d, Content: s.call.Content, Exclusive: l.has("exclusive")}
		if content, ok := l.opt["content"]; ok {
			c.Write.Content = spec.Content(content)
		}
	case spec.SeamDelete:
		c.Delete = &spec.DeleteRequest{Denial: d, ConfirmedFile: l.has("confirmed")}
	}
	s.emit(trace.Event{Consult: c})
	return nil
}

// logged: denial DST CAUSE [landed] | result.
func (s *script) logged(l line) error {
	e := &spec.LogEntry{ID: "1", Session: string(s.call.Session), Seq: json.RawMessage("1"), Type: spec.LogToolResult, Data: json.RawMessage("{}")}
	if l.word(0) == "denial" {
		data, err := json.Marshal(map[string]any{
			"decision": "deny", "gate": "os", "dst": l.word(1), "cause": l.word(2), "landed": l.has("landed"),
		})
		if err != nil {
			return err
		}
		e.Type, e.Data = spec.LogPermissionDecision, data
	}
	s.emit(trace.Event{Log: e})
	return nil
}

// answer: ok|failed|unknown [ERROR] [content=] [version=] [detail=] [dst=] [sha=]
// [size=] [mode=]. A success has a version, unless the line says version="".
func (s *script) answer(l line) error {
	out := &spec.Outcome{Call: s.calls, Err: spec.ErrKind(l.word(1)), Detail: l.opt["detail"]}
	if err := out.Status.UnmarshalText([]byte(l.word(0))); err != nil {
		return err
	}
	if out.Status == spec.StatusOK && s.call.Kind != spec.CallDelete {
		out.Version = fmt.Sprintf("v%d", s.calls)
	}
	if v, ok := l.opt["version"]; ok {
		out.Version = v
	}
	if content, ok := l.opt["content"]; ok {
		out.Content = spec.Content(content)
	}
	if dst, ok := l.opt["dst"]; ok {
		size, _ := strconv.ParseInt(l.opt["size"], 10, 64)
		out.Receipt = &spec.Receipt{Dst: dst, SHA256: l.opt["sha"], Size: size, Mode: l.opt["mode"]}
	}
	if !s.unseen {
		s.emit(trace.Event{World: s.w})
	}
	s.unseen = false
	s.emit(trace.Event{Return: out})
	s.call = nil
	return nil
}
