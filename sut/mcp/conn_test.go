package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// sink takes what is written to a child.
type sink struct{ strings.Builder }

func (*sink) Close() error { return nil }

func request1(t *testing.T, id any, method, params string) *jsonrpc.Request {
	t.Helper()
	r := &jsonrpc.Request{Method: method, Params: []byte(params)}
	if id != nil {
		var err error
		if r.ID, err = jsonrpc.MakeID(id); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestConnReads has request 1 waiting for an answer and request 2 given up.
func TestConnReads(t *testing.T) {
	answer := func(id string) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, id) }
	for _, tc := range []struct {
		name  string
		input string
		want  []string
	}{
		{"answer", answer("1") + "\n", []string{"message", "EOF"}},
		{"with a carriage return", answer("1") + "\r\n", []string{"message", "EOF"}},
		{"empty lines", "\n \r\n" + answer("1") + "\n", []string{"message", "EOF"}},
		{"second answer", answer("1") + "\n" + answer("1") + "\n", []string{"message", "unknown-id", "EOF"}},
		{"answer to nothing", answer("7") + "\n", []string{"unknown-id", "EOF"}},
		{"answer to a text", answer(`"1"`) + "\n", []string{"unknown-id", "EOF"}},
		{"late answer", answer("2") + "\n" + answer("2") + "\n", []string{"WARN an answer came after its deadline", "unknown-id", "EOF"}},
		{"request", `{"jsonrpc":"2.0","id":"a","method":"ping"}` + "\n", []string{"message", "EOF"}},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n", []string{"EOF"}},
		{"banner", "hello\n" + answer("1") + "\n", []string{"not-json", "message", "EOF"}},
		{"something after it", answer("1") + " done\n", []string{"not-json", "EOF"}},
		{"two in a line", answer("1") + answer("1") + "\n", []string{"not-json", "EOF"}},
		{"batch", "[" + answer("1") + "]\n", []string{"not-object", "EOF"}},
		{"other version", `{"jsonrpc":"1.0","id":1,"result":{}}` + "\n", []string{"not-jsonrpc", "EOF"}},
		{"id that is none", answer("[1]") + "\n", []string{"not-jsonrpc", "EOF"}},
		{"not UTF-8", `{"jsonrpc":"2.0","id":1,"result":{"x":"` + "\xff\"}}\n", []string{"bad-utf8", "EOF"}},
		{"unfinished", answer("1")[:20], []string{"unfinished-line", "EOF"}},
		{"unfinished for want of an end", answer("1"), []string{"unfinished-line", "EOF"}},
		{"log of no interest", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","data":1}}` + "\n", []string{"EOF"}},
		{"log", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":1}}` + "\n", []string{"ERROR the server logged", "EOF"}},
		{"log that is none", `{"jsonrpc":"2.0","method":"notifications/message","params":[1]}` + "\n", []string{"EOF"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			c := newConn(&sink{}, strings.NewReader(tc.input))
			defer c.Close()
			c.fault = func(kind, _, _ string) { got = append(got, kind) }
			c.diag = func(level, msg string, _ map[string]string) { got = append(got, level+" "+msg) }
			for _, m := range []*jsonrpc.Request{
				request1(t, 1.0, "tools/call", "{}"), request1(t, 2.0, "tools/call", "{}"),
				request1(t, nil, "notifications/cancelled", `{"requestId":2}`),
				request1(t, nil, "notifications/cancelled", `{"requestId":9}`),
				request1(t, nil, "notifications/cancelled", `{"requestId":[]}`),
			} {
				if err := c.Write(t.Context(), m); err != nil {
					t.Fatal(err)
				}
			}
			for {
				_, err := c.Read(t.Context())
				if err != nil {
					got = append(got, err.Error())
					break
				}
				got = append(got, "message")
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A child that does not read keeps no writer waiting, and no closer.
func TestConnToTheDeaf(t *testing.T) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	c := newConn(ours, strings.NewReader(""))
	big := `{"x":"` + strings.Repeat("x", 1<<20) + `"}`
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 4 {
			if err := c.Write(context.Background(), request1(t, 1.0, "tools/call", big)); err != nil {
				t.Error(err)
			}
		}
		_ = c.Close()
		if err := c.Write(context.Background(), request1(t, 1.0, "tools/call", "{}")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a write after close: %v", err)
		}
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("somebody is kept waiting")
	}
}
