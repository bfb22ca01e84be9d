package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/creachadair/jrpc2/channel"
	"github.com/google/go-cmp/cmp"
)

// discard is a writer that is always there.
type discard struct{ bytes.Buffer }

func (*discard) Close() error { return nil }

// heard is what came out of a Conn, in order.
type heard struct {
	mu   sync.Mutex
	said []string
}

func (h *heard) add(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.said = append(h.said, fmt.Sprintf(format, args...))
}

// options report to h.
func (h *heard) options() ConnOptions {
	return ConnOptions{
		Fault:  func(f Fault) { h.add("fault %s", f.Kind) },
		Late:   func(method string, line []byte) { h.add("late %s %s", method, line) },
		Notify: func(method string, params json.RawMessage) { h.add("notify %s %s", method, params) },
		Request: func(m Message) *Fault {
			switch m.Method {
			case "known", "event":
				return nil
			case "fussy":
				return Faultf(BadParams, "want other parameters")
			}
			return Faultf(UnknownMethod, "no such method")
		},
		Result: func(_ string, result json.RawMessage) *Fault {
			if string(result) == `"bad"` {
				return Faultf(BadOutcome, "want a good one")
			}
			return nil
		},
	}
}

// send has c ask method under id.
func send(t *testing.T, c *Conn, id int, method string) {
	t.Helper()
	if err := c.Send(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":%q}`, id, method)); err != nil {
		t.Fatal(err)
	}
}

// Every line is reported, replaced or passed on.
func TestConn(t *testing.T) {
	for _, tc := range []struct {
		name  string
		input string   // after requests 1 and 2 were made and 2 was given up
		want  []string // what the callbacks are told, and then what the library sees
		sent  []string // what the Conn answers by itself
	}{
		{
			"an answer", `{"jsonrpc":"2.0","id":1,"result":"good"}` + "\n",
			[]string{`up {"jsonrpc":"2.0","id":1,"result":"good"}`},
			nil,
		},
		{
			"banner before an answer", "hello\n" + `{"jsonrpc":"2.0","id":1,"result":"good"}` + "\n",
			[]string{"fault not-json", `up {"jsonrpc":"2.0","id":1,"result":"good"}`},
			nil,
		},
		{
			"bad answer", `{"jsonrpc":"2.0","id":1,"result":"bad"}` + "\n",
			[]string{"fault bad-outcome", `up {"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"bad-outcome: want a good one"}}`},
			nil,
		},
		{
			"duplicate in an answer", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"a":2}}` + "\n",
			[]string{"fault duplicate-key", `up {"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"duplicate-key: \"a\" stands twice in one object"}}`},
			nil,
		},
		{
			"second answer", strings.Repeat(`{"jsonrpc":"2.0","id":1,"result":"good"}`+"\n", 2),
			[]string{"fault second-answer", `up {"jsonrpc":"2.0","id":1,"result":"good"}`},
			nil,
		},
		{
			"bad second answer", `{"jsonrpc":"2.0","id":1,"result":"good"}` + "\n" + `{"jsonrpc":"2.0","id":1}` + "\n",
			[]string{"fault not-jsonrpc", `up {"jsonrpc":"2.0","id":1,"result":"good"}`},
			nil,
		},
		{
			"late, and late again", strings.Repeat(`{"jsonrpc":"2.0","id":2,"result":"bad"}`+"\n", 2),
			[]string{`late second {"jsonrpc":"2.0","id":2,"result":"bad"}`, "fault second-answer"},
			nil,
		},
		{
			"unknown ids", `{"jsonrpc":"2.0","id":3,"result":1}` + "\n" + `{"jsonrpc":"2.0","id":"1","result":1}` + "\n" +
				`{"jsonrpc":"2.0","id":1.0,"result":1}` + "\n" + `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"what?"}}` + "\n",
			[]string{"fault unknown-id", "fault unknown-id", "fault unknown-id", "fault unknown-id"},
			nil,
		},
		{
			"requests", `{"jsonrpc":"2.0","id":7,"method":"known"}` + "\n" + `{"jsonrpc":"2.0","id":8,"method":"nonsense"}` + "\n" +
				`{"jsonrpc":"2.0","id":9,"method":"fussy"}` + "\n" + `{"jsonrpc":"2.0","id":"x","method":"known","params":{"a":1,"a":1}}` + "\n",
			[]string{"fault unknown-method", "fault bad-params", "fault duplicate-key", `up {"jsonrpc":"2.0","id":7,"method":"known"}`},
			[]string{
				`{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"unknown-method: no such method"}}`,
				`{"jsonrpc":"2.0","id":9,"error":{"code":-32602,"message":"bad-params: want other parameters"}}`,
				`{"jsonrpc":"2.0","id":"x","error":{"code":-32600,"message":"duplicate-key: \"a\" stands twice in one object"}}`,
			},
		},
		{
			"notifications", `{"jsonrpc":"2.0","method":"event","params":{"n":1}}` + "\n" + `{"jsonrpc":"2.0","method":"nonsense"}` + "\n" +
				`{"jsonrpc":"2.0","method":"event","params":{"n":2}}` + "\n",
			[]string{`notify event {"n":1}`, "fault unknown-method", `notify event {"n":2}`},
			nil,
		},
		{
			"torn", `{"jsonrpc":"2.0","id":1,"result":"good"}`,
			[]string{"fault unfinished-line"},
			nil,
		},
		{
			"too long", strings.Repeat("x", MaxLine+1) + "\n" + `{"jsonrpc":"2.0","id":1,"result":"good"}` + "\n",
			[]string{"fault line-too-long", `up {"jsonrpc":"2.0","id":1,"result":"good"}`},
			nil,
		},
		{
			"a flood of faults", strings.Repeat("x\n", 2*maxFaults) + `{"jsonrpc":"2.0","id":1,"result":"good"}` + "\n",
			strings.Split(strings.Repeat("fault not-json\n", maxFaults-1)+"fault not-json", "\n"),
			nil,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h heard
				var out discard
				in, feed := io.Pipe()
				c := NewConn(in, &out, h.options())
				send(t, c, 1, "first")
				send(t, c, 2, "second")
				if err := c.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				out.Reset()
				if c.Settle("2") {
					t.Error("request 2 was said to be answered")
				}
				go func() {
					_, _ = io.WriteString(feed, tc.input)
					_ = feed.Close()
				}()
				var up []string
				for {
					line, err := c.Recv()
					if errors.Is(err, io.EOF) {
						break
					}
					up = append(up, "up "+string(line))
				}
				if err := c.Flush(t.Context()); err != nil {
					t.Fatal(err)
				}
				_ = c.Close()
				c.Wait()
				if diff := cmp.Diff(tc.want, append(h.said, up...)); diff != "" {
					t.Errorf("heard (-want +got):\n%s", diff)
				}
				var sent []string
				for line := range strings.Lines(out.String()) {
					sent = append(sent, strings.TrimSuffix(line, "\n"))
				}
				if diff := cmp.Diff(tc.sent, sent); diff != "" {
					t.Errorf("sent (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// A server answers what it cannot read with the id null.
func TestAnswerUnread(t *testing.T) {
	var out discard
	c := NewConn(strings.NewReader("x\n[]\n"+`{"jsonrpc":"2.0","id":9,"result":1}`+"\n"), &out, ConnOptions{AnswerUnread: true})
	if line, err := c.Recv(); !errors.Is(err, io.EOF) {
		t.Fatalf("%s, %v, want the end of file", line, err)
	}
	if err := c.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	c.Wait()
	want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not-json: want one JSON object, and nothing beside it"}}
{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not-object: want one JSON object"}}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("sent (-want +got):\n%s", diff)
	}
}

// The end of file waits for the answers before it.
func TestHoldEOF(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		c := NewConn(in, &discard{}, ConnOptions{HoldEOF: true})
		send(t, c, 1, "first")
		go func() {
			_, _ = io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n")
			_ = feed.Close()
		}()
		if _, err := c.Recv(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			_, err := c.Recv()
			ended <- err
		}()
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("%v before the answer was settled", err)
		default:
		}
		if !c.Settle("1") {
			t.Error("request 1 was said not to be answered")
		}
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("%v, want the end of file", err)
		}
		_ = c.Close()
		c.Wait()
	})
}

// Close wakes a reader and a writer that the other side leaves waiting.
func TestCloseWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		_, out := io.Pipe()
		c := NewConn(in, out, ConnOptions{})
		send(t, c, 1, "first")
		ended := make(chan error, 1)
		go func() {
			_, err := c.Recv()
			ended <- err
		}()
		flushed := make(chan error, 1)
		go func() { flushed <- c.Flush(t.Context()) }()
		synctest.Wait()
		_ = c.Close()
		c.Wait()
		if err := <-ended; !errors.Is(err, channel.ErrClosed) {
			t.Errorf("Recv: %v, want channel.ErrClosed", err)
		}
		if err := <-flushed; err == nil {
			t.Error("Flush: no error, and nothing was written")
		}
	})
}

// A side that does not read stops nobody, and is noticed.
func TestSendNeverBlocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		_, out := io.Pipe()
		c := NewConn(in, out, ConnOptions{})
		line := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"m","params":{"a":%q}}`, strings.Repeat("x", 1<<20))
		var err error
		sent := 0
		for ; err == nil && sent < 1000; sent++ {
			err = c.Send(line)
		}
		if !errors.Is(err, ErrSlow) || sent != maxQueued/len(line)+1 {
			t.Errorf("line %d: %v, want ErrSlow at %d bytes", sent, err, maxQueued)
		}
		if err := c.Send([]byte(`{"jsonrpc":"2.0","method":"m"}`)); !errors.Is(err, ErrSlow) {
			t.Errorf("the next, short one: %v, want ErrSlow: a line was lost before it", err)
		}
		_ = c.Close()
		c.Wait()
	})
}

func TestSendRefuses(t *testing.T) {
	c := NewConn(strings.NewReader(""), &discard{}, ConnOptions{})
	defer c.Wait()
	defer c.Close()
	long := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":["` + strings.Repeat("x", MaxLine) + `"]}`)
	if err := c.Send(long); !errors.Is(err, ErrUnspeakable) {
		t.Errorf("a long line: %v, want ErrUnspeakable", err)
	}
	if err := c.Send([]byte("{\n}")); err == nil {
		t.Error("two lines were sent as one message")
	}
}

func TestFlushWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, _ := io.Pipe()
		there, out := io.Pipe()
		c := NewConn(in, out, ConnOptions{})
		send(t, c, 1, "first")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Flush(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody read, and Flush returned %v", err)
		}
		go func() { _, _ = io.Copy(io.Discard, there) }()
		if err := c.Flush(t.Context()); err != nil {
			t.Errorf("somebody read, and Flush returned %v", err)
		}
		_ = c.Close()
		c.Wait()
	})
}

// brokenPipe is a child that has closed its standard input.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
func (brokenPipe) Close() error              { return nil }

// A child that no longer listens may still have something to say.
func TestReadingGoesOnAfterAWriteFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, feed := io.Pipe()
		c := NewConn(in, brokenPipe{}, ConnOptions{})
		send(t, c, 1, "first")
		if err := c.Flush(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Flush: %v, want io.ErrClosedPipe", err)
		}
		go func() { _, _ = io.WriteString(feed, `{"jsonrpc":"2.0","id":1,"result":1}`+"\n") }()
		if _, err := c.Recv(); err != nil {
			t.Errorf("Recv: %v", err)
		}
		if err := c.Send([]byte(`{"jsonrpc":"2.0","method":"m"}`)); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("Send: %v, want io.ErrClosedPipe", err)
		}
		_ = c.Close()
		c.Wait()
	})
}
