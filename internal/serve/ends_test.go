package serve_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/suttest"
)

// fake is a driver of functions.
type fake struct {
	sut.Driver
	do     func(ctx context.Context, c spec.Call) (spec.Outcome, error)
	env    sut.Env
	closed atomic.Int32
}

func (f *fake) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	f.env = env
	s, err := f.Driver.Open(ctx, env)
	return &fakeSession{s, f}, err
}

type fakeSession struct {
	sut.Session
	f *fake
}

func (s *fakeSession) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	return s.f.do(ctx, c)
}

func (s *fakeSession) Close() error {
	s.f.closed.Add(1)
	return s.Session.Close()
}

// blocked is a subject whose calls end with their context.
func blocked(started chan<- struct{}) *fake {
	return &fake{Driver: suttest.Plain(), do: func(ctx context.Context, c spec.Call) (spec.Outcome, error) {
		started <- struct{}{}
		<-ctx.Done()
		return spec.Outcome{Call: c.ID}, nil
	}}
}

const slowCall = `{"jsonrpc":"2.0","id":9,"method":"do","params":{"call":{"id":1,"kind":"read","path":"f"}}}`

// Whatever ends the conversation ends the call under way, and the session.
func TestEnds(t *testing.T) {
	for _, tc := range []struct {
		name string
		end  func(c *conversation, cancel func())
		want error
	}{
		{"end of file", func(c *conversation, _ func()) { _ = c.in.Close() }, nil},
		{"torn line", func(c *conversation, _ func()) { _, _ = io.WriteString(c.in, `{"jso`); _ = c.in.Close() }, nil},
		{"context", func(_ *conversation, cancel func()) { cancel() }, context.Canceled},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				started := make(chan struct{})
				f := blocked(started)
				c := converse(ctx, t, serve.Options{Driver: f})
				c.ask(wire.MethodHello, hello)
				c.ask(wire.MethodOpen, openRun)
				c.say(slowCall)
				<-started
				go func() { _, _ = io.Copy(io.Discard, c.out) }()
				tc.end(c, cancel)
				if err := <-c.done; !errors.Is(err, tc.want) || (err == nil) != (tc.want == nil) {
					t.Errorf("%v, want %v", err, tc.want)
				}
				if n := f.closed.Load(); n != 1 {
					t.Errorf("the session was closed %d times, want once", n)
				}
			})
		})
	}
}

// One who pipes in a request and closes the pipe gets the answer.
func TestAnswersAfterTheEnd(t *testing.T) {
	const line = `{"jsonrpc":"2.0","id":1,"method":"hello","params":` + hello + "}\n"
	for range 200 { // what is to be caught was a race
		var out bytes.Buffer
		if err := serve.Serve(t.Context(), strings.NewReader(line), &out, plain()); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(out.String(), `"implementation"`) {
			t.Fatalf("answered %q, want the result of hello", out.String())
		}
	}
}

// endless is an input that can neither be closed nor read.
type endless struct{ stop <-chan struct{} }

func (e endless) Read([]byte) (int, error) {
	<-e.stop
	return 0, io.EOF
}

func TestContextEndsAnInputThatCannotBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stop := make(chan struct{})
		done := make(chan error, 1)
		go func() { done <- serve.Serve(ctx, endless{stop}, io.Discard, plain()) }()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
		close(stop)
	})
}

// What a process is given as standard input is often in blocking mode, where a
// read goes on after Close.
func TestContextEndsABlockingRead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	_ = r.Fd() // puts it into blocking mode
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve.Serve(ctx, r, io.Discard, plain()) }()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%v, want context.Canceled", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("Serve waits for its input")
	}
}

func TestCancelAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		c := converse(t.Context(), t, serve.Options{Driver: blocked(started)})
		c.ask(wire.MethodHello, hello)
		c.ask(wire.MethodOpen, openRun)

		c.say(slowCall)
		<-started
		c.say(`{"jsonrpc":"2.0","method":"cancel","params":{"id":9}}`)
		if diff := cmp.Diff(`{"jsonrpc":"2.0","id":9,"result":{"outcome":"unknown"}}`, c.hear()); diff != "" {
			t.Errorf("cancelled (-want +got):\n%s", diff)
		}
		before := time.Now()
		got := c.ask(wire.MethodDo, `{"call":{"id":2,"kind":"read","path":"f"},"deadline_ms":700}`)
		if diff := cmp.Diff(`"result":{"outcome":"unknown"}`, got); diff != "" || time.Since(before) != 700*time.Millisecond {
			t.Errorf("after %v (-want +got):\n%s", time.Since(before), diff)
		}

		// Quiesce waits for the calls before it, and only as long as it is wanted.
		<-started
		c.say(slowCall)
		<-started
		c.say(`{"jsonrpc":"2.0","id":10,"method":"quiesce"}`)
		synctest.Wait()
		c.say(`{"jsonrpc":"2.0","method":"cancel","params":{"id":10}}`)
		if diff := cmp.Diff(`{"jsonrpc":"2.0","id":10,"error":{"code":-32097,"message":"quiesce: context canceled"}}`, c.hear()); diff != "" {
			t.Errorf("quiesce given up (-want +got):\n%s", diff)
		}
		c.say(`{"jsonrpc":"2.0","id":11,"method":"quiesce"}`)
		synctest.Wait()
		c.say(`{"jsonrpc":"2.0","method":"cancel","params":{"id":9}}`)
		got = c.hear() + "\n" + c.hear()
		want := `{"jsonrpc":"2.0","id":9,"result":{"outcome":"unknown"}}` + "\n" + `{"jsonrpc":"2.0","id":11,"result":{}}`
		if got != want {
			t.Errorf("the call and then quiesce: %s", cmp.Diff(want, got))
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}
