package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/serve"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/stdio"
	"github.com/fsbench/fsbench/sut/suttest"
)

const childEnv = "FSBENCH_SERVE_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
		if err := serve.Serve(context.Background(), os.Stdin, os.Stdout, serve.Options{Driver: suttest.Plain(), Log: log}); err != nil {
			log.Error(err.Error())
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// names returns roots that nobody looks at.
func names() func() (string, error) {
	var n atomic.Int32
	return func() (string, error) { return fmt.Sprintf("/made/%d", n.Add(1)), nil }
}

// wiretap keeps every line of both directions.
type wiretap struct {
	mu    sync.Mutex
	lines []string // "> " is the runner's, "< " the child's
	torn  [2][]byte
}

func (w *wiretap) hear(side int, b []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.torn[side] = append(w.torn[side], b...)
	for {
		line, rest, whole := bytes.Cut(w.torn[side], []byte{'\n'})
		if !whole {
			return
		}
		w.lines = append(w.lines, []string{"> ", "< "}[side]+string(line))
		w.torn[side] = rest
	}
}

// main returns a child that serves d and is overheard.
func (w *wiretap) main(opt func() serve.Options) stdio.Main {
	return func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		o := opt()
		o.Log = slog.New(slog.NewJSONHandler(errs, nil))
		return serve.Serve(ctx, &tapReader{in, w}, &tapWriter{out, w}, o)
	}
}

type tapReader struct {
	io.Reader
	w *wiretap
}

func (t *tapReader) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	t.w.hear(0, b[:n])
	return n, err
}

func (t *tapReader) Close() error { return t.Reader.(io.Closer).Close() }

type tapWriter struct {
	io.Writer
	w *wiretap
}

func (t *tapWriter) Write(b []byte) (int, error) {
	t.w.hear(1, b)
	return t.Writer.Write(b)
}

func (t *tapWriter) Close() error { return t.Writer.(io.Closer).Close() }

func plain() serve.Options { return serve.Options{Driver: suttest.Plain()} }

// The adaptor and the server together carry what a plain subject says, and no
// line of either departs from the schemas.
func TestAdaptorContract(t *testing.T) {
	var tap wiretap
	synctest.Test(t, func(t *testing.T) {
		d := stdio.Pipe(tap.main(plain), stdio.Options{})
		if err := suttest.TestDriver(t.Context(), d, names()); err != nil {
			t.Error(err)
		}
	})
	tap.validate(t)
}

func TestAdaptorContractProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the test binary runs itself through /proc/self/exe")
	}
	d := stdio.New(stdio.Options{Command: stdio.Argv("/proc/self/exe"), Probe: sut.Env{Wrap: asChild}})
	if err := suttest.TestDriver(t.Context(), wrapped{d}, names()); err != nil {
		t.Error(err)
	}
}

func asChild(cmd *exec.Cmd) error {
	cmd.Env = append(os.Environ(), childEnv+"=1", "GORACE=atexit_sleep_ms=0")
	return nil
}

// wrapped gives every session's child its environment.
type wrapped struct{ sut.Driver }

func (w wrapped) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	env.Wrap = asChild
	return w.Driver.Open(ctx, env)
}

// conversation is a runner that speaks by hand.
type conversation struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	done chan error
	id   int // of the last request that ask made
}

func converse(ctx context.Context, t *testing.T, opt serve.Options) *conversation {
	t.Helper()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	c := &conversation{t: t, in: in, out: bufio.NewReader(out), done: make(chan error, 1)}
	go func() { c.done <- serve.Serve(ctx, theirIn, theirOut, opt) }()
	return c
}

// say sends a line.
func (c *conversation) say(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// hear returns the next line.
func (c *conversation) hear() string {
	c.t.Helper()
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.t.Fatalf("%q, %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// ask sends a request and returns what is behind the id of its answer.
func (c *conversation) ask(method, params string) string {
	c.t.Helper()
	c.id++
	c.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask %d","method":%q,"params":%s}`, c.id, method, params))
	return strings.TrimSuffix(strings.TrimPrefix(c.hear(), fmt.Sprintf(`{"jsonrpc":"2.0","id":"ask %d",`, c.id)), "}")
}

// end closes the input and returns how the server ended.
func (c *conversation) end() error {
	_ = c.in.Close()
	return <-c.done
}

const (
	hello   = `{"protocol":{"min":1,"max":1},"edition":"1","runner":"test","wants":["tools"]}`
	openRun = `{"session":"s","root":"/r"}`
)

type exchange struct{ method, params, want string }

func TestConversations(t *testing.T) {
	greeted := []exchange{{wire.MethodHello, hello, `"result":{"protocol":{"min":1,"max":1},"implementation":{"name":"plain","version":"1","language":"go"},"roles":["tools","registry"],"capabilities":{"confess":true,"delete":true,"log":true,"read":true,"write":true},"policies":{"links":"refuse"},"limits":{"max_content":11534336,"concurrency":1}}`}}
	opened := append(greeted[:1:1], exchange{wire.MethodOpen, openRun, `"result":{}`})
	for _, tc := range []struct {
		name   string
		before []exchange
		then   []exchange
	}{
		{"first things first", nil, []exchange{
			{wire.MethodOpen, openRun, `"error":{"code":-32002,"message":"open: want hello first"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"read","path":"f"}}`, `"error":{"code":-32002,"message":"do: want open first"}`},
			{wire.MethodLog, `{"session":"s1"}`, `"error":{"code":-32002,"message":"log: want open first"}`},
			{wire.MethodConfess, `{"session":"s1"}`, `"error":{"code":-32002,"message":"confess: want open first"}`},
			{wire.MethodQuiesce, `{}`, `"error":{"code":-32002,"message":"quiesce: want open first"}`},
			{wire.MethodClose, `{}`, `"result":{}`},
		}},
		{"versions", nil, []exchange{
			{wire.MethodHello, `{"protocol":{"min":7,"max":9},"edition":"1","runner":"test","wants":[]}`, `"error":{"code":-32602,"message":"bad-version: no common version: the runner speaks 7 to 9, the child speaks 1"}`},
			{wire.MethodHello, `{"protocol":{"min":1,"max":9},"edition":"1","runner":"test","wants":[]}`, greeted[0].want},
		}},
		{"methods that are not there", greeted, []exchange{
			{"fs/read", `{}`, `"error":{"code":-32601,"message":"method not found","data":"fs/read"}`},
			{"rpc.serverInfo", `{}`, `"error":{"code":-32601,"message":"method not found","data":"rpc.serverInfo"}`},
			{wire.MethodArm, `{"plan":{}}`, `"error":{"code":-32601,"message":"method not found","data":"worker/arm"}`},
			{wire.MethodDisarm, `{}`, `"error":{"code":-32601,"message":"method not found","data":"worker/disarm"}`},
			{wire.MethodTurn, `{"session":"s","action":"begin"}`, `"error":{"code":-32601,"message":"method not found","data":"turn"}`},
		}},
		{"what open wants", greeted, []exchange{
			{wire.MethodOpen, `{"session":"s"}`, `"error":{"code":-32602,"message":"root is missing"}`},
			{wire.MethodOpen, `[]`, `"error":{"code":-32602,"message":"want an object"}`},
			{wire.MethodOpen, `{"session":"s","root":"r"}`, `"error":{"code":-32602,"message":"root: want an absolute path"}`},
			{wire.MethodOpen, `{"session":"s","root":"/r","workspace":"/w"}`, `"error":{"code":-32602,"message":"workspace: this server's workspace is its root"}`},
			{wire.MethodOpen, `{"session":"s","root":"/r","policy":{}}`, `"error":{"code":-32602,"message":"policy: this server's write policy is chosen when it is started"}`},
			{wire.MethodOpen, `{"session":"s","root":"/r","brokers":[{"id":"h1","seam":"read"}]}`, `"error":{"code":-32602,"message":"brokers: seam \"read\": want write or delete"}`},
			{wire.MethodOpen, `{"session":"s","root":"/r","workspace":"/r"}`, `"result":{}`},
			{wire.MethodOpen, openRun, `"error":{"code":-32002,"message":"open: want close first, one session is open at a time"}`},
			{wire.MethodClose, `{"session":"s"}`, `"result":{}`},
			{wire.MethodOpen, openRun, `"result":{}`},
		}},
		{"what do wants", opened, []exchange{
			{wire.MethodDo, `{}`, `"error":{"code":-32602,"message":"call is missing"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"read"}}`, `"error":{"code":-32602,"message":"call.path is missing"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"append","path":"f"}}`, `"error":{"code":-32602,"message":"call.kind \"append\": want one of [\"read\" \"write\" \"edit\" \"delete\" \"move\" \"dev_view\" \"tool\"]"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"write","path":"f","content_b64":"?"}}`, `"error":{"code":-32602,"message":"call.content_b64: want standard base64 with padding"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"write","path":"f","content_file":"f"}}`, `"error":{"code":-32602,"message":"call.content_file: want an absolute path"}`},
			{wire.MethodDo, `{"call":{"id":1,"kind":"write","path":"f","session":null}}`, `"error":{"code":-32602,"message":"call.session: want a string"}`},
		}},
		{"calls", opened, []exchange{
			{wire.MethodDo, `{"call":{"id":1,"kind":"write","path":"f","content_b64":"/w=="}}`, `"result":{"outcome":"applied","receipt":{"dst":"/r/f","size":1}}`},
			{wire.MethodDo, `{"call":{"id":2,"kind":"read","path":"f"},"deadline_ms":1000}`, `"result":{"outcome":"applied","content_b64":"/w=="}`},
			{wire.MethodDo, `{"call":{"id":3,"kind":"read","path":"g"}}`, `"result":{"outcome":"not_applied","error":{"class":"not_found","message":"there is no such file"}}`},
			{wire.MethodQuiesce, `{}`, `"result":{}`},
			{wire.MethodClose, `{}`, `"result":{}`},
			{wire.MethodDo, `{"call":{"id":4,"kind":"read","path":"f"}}`, `"error":{"code":-32002,"message":"do: want open first"}`},
			{wire.MethodShutdown, `{}`, `"result":{}`},
		}},
		{"the whole Log, each time", opened, []exchange{
			{wire.MethodLog, `{"session":"s1"}`, `"result":{"entries":[]}`},
			{wire.MethodDo, `{"call":{"id":7,"session":"s1","kind":"read","path":"g"}}`, `"result":{"outcome":"not_applied","error":{"class":"not_found","message":"there is no such file"}}`},
			{wire.MethodLog, `{"session":"s1"}`, `"result":{"entries":[{"id":"0000000000000000","session_id":"s1","seq":0,"ts":"2026-01-01T00:00:00Z","type":"tool_call","data":{"call_id":"7"}}]}`},
			{wire.MethodLog, `{"session":"s1"}`, `"result":{"entries":[{"id":"0000000000000000","session_id":"s1","seq":0,"ts":"2026-01-01T00:00:00Z","type":"tool_call","data":{"call_id":"7"}}]}`},
			{wire.MethodLog, `{}`, `"error":{"code":-32602,"message":"session is missing"}`},
		}},
		{"confessions", opened, []exchange{
			{wire.MethodConfess, `{"session":"s1"}`, `"result":{"count":0,"denials":[]}`},
			{wire.MethodConfess, `{}`, `"error":{"code":-32602,"message":"want exactly one of session, events and log_b64"}`},
			{wire.MethodConfess, `{"session":"s1","events":[]}`, `"error":{"code":-32602,"message":"want exactly one of session, events and log_b64"}`},
			{wire.MethodConfess, `{"events":[]}`, `"error":{"code":-32602,"message":"this server confesses its own sessions only: want session"}`},
			{wire.MethodConfess, `{"session":null}`, `"error":{"code":-32602,"message":"session: want a string"}`},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := converse(t.Context(), t, plain())
				for _, x := range append(tc.before[:len(tc.before):len(tc.before)], tc.then...) {
					if diff := cmp.Diff(x.want, c.ask(x.method, x.params)); diff != "" {
						t.Errorf("%s %s (-want +got):\n%s", x.method, x.params, diff)
					}
				}
				if err := c.end(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A line that is no message is answered as JSON-RPC asks, and logged.
func TestRunnerDeparts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		opt := plain()
		opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))
		c := converse(t.Context(), t, opt)
		for _, tc := range []struct{ line, want string }{
			{`hello?`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not-json: want one JSON object, and nothing beside it"}}`},
			{`[]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"not-object: want one JSON object"}}`},
			{`{"jsonrpc":"2.0","id":5,"method":"quiesce","params":{"a":1,"a":1}}`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"duplicate-key: \"a\" stands twice in one object"}}`},
		} {
			c.say(tc.line)
			if diff := cmp.Diff(tc.want, c.hear()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.line, diff)
			}
		}
		c.say(`{"jsonrpc":"2.0","id":6,"result":{}}`) // to nothing that was asked: nothing to answer
		if err := c.end(); err != nil {
			t.Error(err)
		}
		want := `level=WARN msg="the runner departed from the protocol" kind=not-json line=hello? note="want one JSON object, and nothing beside it"
level=WARN msg="the runner departed from the protocol" kind=not-object line=[] note="want one JSON object"
level=WARN msg="the runner departed from the protocol" kind=duplicate-key line="{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"quiesce\",\"params\":{\"a\":1,\"a\":1}}" note="\"a\" stands twice in one object"
level=WARN msg="the runner departed from the protocol" kind=unknown-id line="{\"jsonrpc\":\"2.0\",\"id\":6,\"result\":{}}" note="no request had the id 6"
`
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestAnswersThatCannotBeGiven(t *testing.T) {
	answers := map[string]spec.Outcome{
		"big":  {Status: spec.StatusOK, Content: make([]byte, wire.MaxReply+1)},
		"odd":  {Status: spec.StatusOK, Receipt: &spec.Receipt{Dst: "/r/\xff"}},
		"fits": {Status: spec.StatusOK, Content: make([]byte, wire.MaxReply)},
	}
	synctest.Test(t, func(t *testing.T) {
		f := &fake{Driver: suttest.Plain(), do: func(_ context.Context, c spec.Call) (spec.Outcome, error) {
			if o, known := answers[c.Path]; known {
				return o, nil
			}
			return spec.Outcome{}, errors.New("no disk")
		}}
		c := converse(t.Context(), t, serve.Options{Driver: f})
		c.ask(wire.MethodHello, hello)
		c.ask(wire.MethodOpen, openRun)
		for path, want := range map[string]string{
			"big":  `"error":{"code":-32098,"message":"do: 11534337 bytes of content, at most 11534336 fit in an answer"}`,
			"odd":  `"error":{"code":-32098,"message":"receipt.dst \"/r/\\xff\" is not UTF-8: the protocol cannot carry this"}`,
			"gone": `"error":{"code":-32098,"message":"do: no disk"}`,
			"fits": `"result":{"outcome":"applied"`,
		} {
			got := c.ask(wire.MethodDo, fmt.Sprintf(`{"call":{"id":1,"kind":"read","path":%q}}`, path))
			if !strings.HasPrefix(got, want) {
				t.Errorf("%s: %.200s, want %s", path, got, want)
			}
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}

func TestFold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opt := plain()
		opt.Fold = func(events []json.RawMessage, log []byte) (spec.Confession, error) {
			if log != nil {
				return spec.Confession{Status: "unavailable", Error: string(log)}, nil
			}
			n := len(events)
			return spec.Confession{Count: &n, Denials: events}, nil
		}
		c := converse(t.Context(), t, opt)
		for params, want := range map[string]string{
			`{"events":[]}`:          `"result":{"count":0,"denials":[]}`,
			`{"events":[{"a":1}]}`:   `"result":{"count":1,"denials":[{"a":1}]}`,
			`{"log_b64":"eA=="}`:     `"result":{"status":"unavailable","error":"x","denials":[]}`,
			`{"log_b64":"eA==\n"}`:   `"error":{"code":-32602,"message":"log_b64: want standard base64 with padding"}`,
			`{"events":{"seq":"1"}}`: `"error":{"code":-32602,"message":"events: want a list"}`,
		} {
			if diff := cmp.Diff(want, c.ask(wire.MethodConfess, params)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", params, diff)
			}
		}
		if err := c.end(); err != nil {
			t.Error(err)
		}
	})
}
