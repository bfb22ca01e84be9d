package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

// over sends v as the result of a line and decodes what arrives into back.
func over(t *rapid.T, v, back any) {
	line := marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "result": v})
	m, fault := Parse(line)
	if fault != nil {
		t.Fatalf("%s: %v", line, fault)
	}
	if err := Decode(m.Result, back); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

func noFile(path string) ([]byte, error) { return nil, fmt.Errorf("%q was asked for", path) }

func TestCallRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genCall.Draw(t, "call")
		w, err := FromCall(want, Inline)
		if err != nil {
			t.Fatal(err)
		}
		var back Call
		over(t, w, &back)
		got, err := back.Spec(noFile)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("call (-want +got):\n%s", diff)
		}
	})
}

func TestOutcomeRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genOutcome.Draw(t, "outcome")
		w, err := FromOutcome(want)
		if err != nil {
			t.Fatal(err)
		}
		var back Outcome
		over(t, w, &back)
		got := back.Spec(want.Call)
		// What the wire cannot say: an errno that contradicts the kind, and an
		// empty receipt beside a version, which travels in one.
		if want.Err != spec.ErrNone && got.Errno != want.Errno {
			if kind, _ := spec.KindOf(spec.ClassOf(want.Err), want.Errno); kind == want.Err {
				t.Fatalf("errno %q became %q, and it meant the same", want.Errno, got.Errno)
			}
			want.Errno = got.Errno
		}
		if want.Version != "" && want.Receipt != nil && *want.Receipt == (spec.Receipt{}) {
			want.Receipt = nil
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("outcome (-want +got):\n%s", diff)
		}
	})
}

// Every kind survives, alone and as a cause: a class that stands for two kinds
// is told apart by the errno.
func TestKindsSurvive(t *testing.T) {
	for _, w := range spec.ErrWords {
		o, err := FromOutcome(spec.Outcome{Status: spec.StatusFailed, Err: w.Kind})
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Spec(0).Err; got != w.Kind {
			t.Errorf("%s became %s: %+v", w.Kind, got, o.Error)
		}
		if f := o.Check("/r"); f != nil {
			t.Errorf("%s: %v", w.Kind, f)
		}
		if w.Kind == spec.ErrDeclined {
			continue // a handler's answer is never the cause of asking one
		}
		if got, err := FromCause(w.Kind).Spec(); got != w.Kind || err != nil {
			t.Errorf("cause %s became %s, %v", w.Kind, got, err)
		}
	}
}

func TestBrokerRoundTrip(t *testing.T) {
	kind := func(d *spec.Denial) {
		if d.Cause == spec.ErrDeclined {
			d.Cause = spec.ErrPolicy // one class, and no errno to tell them apart
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		want := genWrite.Draw(t, "write")
		kind(&want.Denial)
		w, err := FromWrite("h1", want, Inline)
		if err != nil {
			t.Fatal(err)
		}
		var back BrokerWrite
		over(t, w, &back)
		got, err := back.Spec(noFile)
		if err != nil {
			t.Fatal(err)
		}
		if want.Content == nil {
			want.Content = spec.Content{} // a request always has content
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("write (-want +got):\n%s", diff)
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		want := genDelete.Draw(t, "delete")
		kind(&want.Denial)
		w, err := FromDelete("h1", want)
		if err != nil {
			t.Fatal(err)
		}
		var back BrokerDelete
		over(t, w, &back)
		got, err := back.Spec()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("delete (-want +got):\n%s", diff)
		}
	})
}

func TestLogEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genEntry.Draw(t, "entry")
		var back LogEntry
		over(t, FromLogEntry(want), &back)
		if diff := cmp.Diff(want, back.Spec()); diff != "" {
			t.Fatalf("entry (-want +got):\n%s", diff)
		}
	})
}

func TestConfessionRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genConfession.Draw(t, "confession")
		var back Confession
		over(t, FromConfession(want), &back)
		if want.Denials == nil {
			want.Denials = []json.RawMessage{}
		}
		if diff := cmp.Diff(want, back.Spec()); diff != "" {
			t.Fatalf("confession (-want +got):\n%s", diff)
		}
	})
}

func TestEditRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genEdit.Draw(t, "edit")
		var back Edit
		over(t, Edit{want}, &back)
		if diff := cmp.Diff(want, back.Edit); diff != "" {
			t.Fatalf("edit (-want +got):\n%s", diff)
		}
	})
}

// What has no form on the wire is refused. Encoders would send U+FFFD, and the
// subject would be judged for another path.
func TestUnspeakable(t *testing.T) {
	bad := "a\xff"
	call := func(change func(*spec.Call)) error {
		c := spec.Call{ID: 1, Kind: spec.CallWrite, Path: "p"}
		change(&c)
		_, err := FromCall(c, Inline)
		return err
	}
	outcome := func(o spec.Outcome) error { _, err := FromOutcome(o); return err }
	write := func(d spec.Denial) error {
		_, err := FromWrite("h", spec.WriteRequest{Denial: d}, Inline)
		return err
	}
	remove := func(d spec.Denial) error { _, err := FromDelete("h", spec.DeleteRequest{Denial: d}); return err }
	for name, err := range map[string]error{
		"path":           call(func(c *spec.Call) { c.Path = bad }),
		"to":             call(func(c *spec.Call) { c.To = bad }),
		"session":        call(func(c *spec.Call) { c.Session = spec.SessionID(bad) }),
		"expect_version": call(func(c *spec.Call) { c.ExpectVersion = bad }),
		"tool":           call(func(c *spec.Call) { c.Tool = bad }),
		"args":           call(func(c *spec.Call) { c.Args = spec.Content(`{"a":`) }),
		"deep args":      call(func(c *spec.Call) { c.Args = spec.Content(nest(argsDepth + 1)) }),
		"double args":    call(func(c *spec.Call) { c.Args = spec.Content(`{"a":1,"a":2}`) }),
		"dst":            outcome(spec.Outcome{Receipt: &spec.Receipt{Dst: bad}}),
		"version":        outcome(spec.Outcome{Version: bad}),
		"write dst":      write(spec.Denial{Dst: bad}),
		"write session":  write(spec.Denial{Session: spec.SessionID(bad)}),
		"delete dst":     remove(spec.Denial{Dst: bad}),
	} {
		if !errors.Is(err, ErrUnspeakable) {
			t.Errorf("%s: %v, want ErrUnspeakable", name, err)
		}
	}
	if err := call(func(c *spec.Call) { c.Args = spec.Content(nest(argsDepth)) }); err != nil {
		t.Errorf("args of the greatest depth: %v", err)
	}
	if err := outcome(spec.Outcome{Detail: bad}); err != nil {
		t.Errorf("detail: %v, want it repaired: it is for people", err)
	}
}

func TestOutcomeCheck(t *testing.T) {
	const root = "/box/ws"
	for _, tc := range []struct {
		name, raw string
		want      Kind
	}{
		{"applied", `{"outcome":"applied"}`, ""},
		{"unknown with an error", `{"outcome":"unknown","error":{"message":"m"}}`, ""},
		{"applied with an error", `{"outcome":"applied","error":{"class":"io_error"}}`, ""}, // for the rules
		{"declined", `{"outcome":"declined","error":{"class":"policy_denied"}}`, ""},
		{"under the root", `{"outcome":"applied","receipt":{"dst":"/box/ws/a/../b","durable":"file+dir"}}`, ""},
		{"word", `{"outcome":"done"}`, BadOutcome},
		{"word in capitals", `{"outcome":"Applied"}`, BadOutcome},
		{"class", `{"outcome":"not_applied","error":{"class":"EACCES"}}`, BadOutcome},
		{"class beside applied", `{"outcome":"applied","error":{"class":"fine"}}`, BadOutcome},
		{"no error", `{"outcome":"not_applied"}`, BadOutcome},
		{"no class", `{"outcome":"declined","error":{"errno":"EACCES"}}`, BadOutcome},
		{"relative", `{"outcome":"applied","receipt":{"dst":"a"}}`, BadReceipt},
		{"outside", `{"outcome":"applied","receipt":{"dst":"/box/other"}}`, BadReceipt},
		{"sibling", `{"outcome":"applied","receipt":{"dst":"/box/ws2/a"}}`, BadReceipt},
		{"dots", `{"outcome":"applied","receipt":{"dst":"/box/ws/../a"}}`, BadReceipt},
		{"the root", `{"outcome":"applied","receipt":{"dst":"/box/ws/"}}`, BadReceipt},
		{"size", `{"outcome":"applied","receipt":{"size":-1}}`, BadReceipt},
		{"durable", `{"outcome":"applied","receipt":{"durable":"very"}}`, BadReceipt},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var o Outcome
			if err := Decode(json.RawMessage(tc.raw), &o); err != nil {
				t.Fatal(err)
			}
			var got Kind
			if f := o.Check(root); f != nil {
				got = f.Kind
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("kind (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeclinedHasItsOwnWord(t *testing.T) {
	got := Outcome{Outcome: Declined, Error: &Failure{Class: "permission_denied", Errno: "EACCES"}}.Spec(4)
	want := spec.Outcome{Call: 4, Status: spec.StatusFailed, Err: spec.ErrDeclined, Errno: "EACCES"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

func TestCallRefused(t *testing.T) {
	for _, tc := range []struct{ name, raw, want string }{
		{"id", `{"id":0,"kind":"read","path":"p"}`, "id: want at least 1"},
		{"kind", `{"id":1,"kind":"append","path":"p"}`, `kind "append": want one of ["read" "write" "edit" "delete" "move" "dev_view" "tool"]`},
		{"two contents", `{"id":1,"kind":"write","path":"p","content_b64":"","content_file":"/f"}`, "content_b64 and content_file: want at most one"},
		{"file", `{"id":1,"kind":"write","path":"p","content_file":"/f"}`, `content_file: "/f" was asked for`},
	} {
		var c Call
		if err := Decode(json.RawMessage(tc.raw), &c); err != nil {
			t.Fatal(err)
		}
		_, err := c.Spec(noFile)
		if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestSpool(t *testing.T) {
	parent := t.TempDir()
	s := NewSpool(parent)
	for _, size := range []int{0, MaxInline, MaxInline + 1, 1 << 20} {
		want := []byte(strings.Repeat("x", size))
		c, err := s.Carry(want)
		if err != nil {
			t.Fatal(err)
		}
		if byFile := c.File != ""; byFile != (size > MaxInline) {
			t.Errorf("%d bytes went by file: %v", size, byFile)
		}
		for who, read := range map[string]func(string) ([]byte, error){"runner": s.Read, "child": ReadFile} {
			got, err := c.Bytes(read)
			if err != nil {
				t.Fatalf("%s: %v", who, err)
			}
			if !bytes.Equal(want, got) {
				t.Errorf("%s read %d bytes, want %d", who, len(got), len(want))
			}
		}
	}
	secret := filepath.Join(parent, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(secret); err == nil {
		t.Errorf("a file that was not handed out was read: %q", got)
	}
	if got, err := ReadFile("secret"); err == nil {
		t.Errorf("a relative path was read: %q", got)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(parent)
	if err != nil || len(left) != 1 {
		t.Errorf("%v, %v left behind, want the secret only", left, err)
	}
}

func TestNegotiation(t *testing.T) {
	for _, tc := range []struct {
		runner, child Range
		want          int
		wantErr       string
	}{
		{Range{1, 1}, Range{1, 1}, 1, "<nil>"},
		{Range{1, 3}, Range{2, 5}, 3, "<nil>"},
		{Range{2, 5}, Range{1, 3}, 3, "<nil>"},
		{Range{1, 1}, Range{99, 99}, 0, "bad-version: no common version: the runner speaks 1, the child speaks 99"},
		{Range{4, 6}, Range{1, 3}, 0, "bad-version: no common version: the runner speaks 4 to 6, the child speaks 1 to 3"},
	} {
		got, err := Common(tc.runner, tc.child)
		if diff := cmp.Diff([]any{tc.want, tc.wantErr}, []any{got, fmt.Sprint(err)}); diff != "" {
			t.Errorf("%v and %v (-want +got):\n%s", tc.runner, tc.child, diff)
		}
	}
}

func TestGreetingCheck(t *testing.T) {
	sound := func() Greeting {
		return Greeting{
			Protocol: Range{1, 1}, Roles: []string{"tools"}, Limits: Limits{Concurrency: 1},
			Policies: spec.Policies{"links": "refuse", "durability": "none"},
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*Greeting)
		want   Kind
	}{
		{"sound", func(*Greeting) {}, ""},
		{"version", func(g *Greeting) { g.Protocol = Range{99, 99} }, BadVersion},
		{"policy", func(g *Greeting) { g.Policies["colour"] = "red" }, BadPolicy},
		{"value", func(g *Greeting) { g.Policies["links"] = "sometimes" }, BadPolicy},
		{"role", func(g *Greeting) { g.Roles = append(g.Roles, "oracle") }, BadOutcome},
		{"concurrency", func(g *Greeting) { g.Limits.Concurrency = 0 }, BadOutcome},
		{"content", func(g *Greeting) { g.Limits.MaxContent = -1 }, BadOutcome},
	} {
		g := sound()
		tc.change(&g)
		var got Kind
		if f := g.Check(); f != nil {
			got = f.Kind
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
