// Package serve exposes a sut.Driver over the protocol of docs/PROTOCOL.md: it
// is the child's side of what sut/stdio is the runner's side of.
//
// It serves whatever Driver it is given and adds nothing to what that says: no
// retry, no repair, no second opinion. A fault plan is armed by a function that
// it is given; what a plan means is not known here.
package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/vfs"
)

// concurrency is how many requests are worked on at a time. It is far more than
// a runner makes: a cancel must never queue behind what it cancels.
const concurrency = 128

// finish is how long a server goes on after the end of its input, for what it
// was asked before and for an output that nobody reads.
const finish = 2 * time.Second

// Options say what is served.
type Options struct {
	Driver sut.Driver // stays its owner's: Serve closes the sessions that it opened, and no more
	FS     vfs.FS     // becomes Env.FS where no plan is armed; may be nil

	// Policies are those of the driver's Settable that were chosen when this
	// server was started. They are declared, and become Env.Policies.
	Policies spec.Policies

	// Arm puts a fault plan in force over root and makes this a worker. emit
	// returns when the message has left the process, so that it is known even if
	// the process dies of it; edit has the runner change the tree, and returns
	// when that is done. disarm lists the injections that never fired. A file
	// system with the methods Begin(spec.CallID) and Left() []string is told of each
	// call, and asked what it has left open.
	Arm func(plan json.RawMessage, root string, emit func(faults.Message) error, edit func(spec.Edit) (bool, error)) (
		fs vfs.FS, disarm func() []string, err error)

	// Fold folds events, or a Log file where events is nil, without a session.
	// It is nil for a server that only confesses its own sessions.
	Fold func(events []json.RawMessage, log []byte) (spec.Confession, error)

	Homepage string
	Issues   string

	// Log takes the diagnostics of the subject and the runner's departures from
	// the protocol. It is where standard error is; nil discards them.
	Log *slog.Logger
}

// Serve answers what it reads from r until the end of r or of ctx. It fails
// with what ended ctx, and with what went wrong in closing a session.
//
// It closes r and w where they can be closed, and does not wait for that: a read
// of standard input may not be woken by it, and must not keep the process.
func Serve(ctx context.Context, r io.Reader, w io.Writer, opt Options) error {
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &server{opt: opt, ctx: ctx}
	s.conn = wire.NewConn(r, closer(w), wire.ConnOptions{Fault: s.fault, AnswerUnread: true, Finish: finish})
	s.rpc = jrpc2.NewServer(s, &jrpc2.ServerOptions{
		AllowPush: true, DisableBuiltin: true, Concurrency: concurrency,
		NewContext: func() context.Context { return ctx },
	})
	stop := context.AfterFunc(ctx, s.rpc.Stop)
	defer stop()
	status := s.rpc.Start(s.conn).WaitStatus()
	_ = s.conn.Close()
	return errors.Join(status.Err, context.Cause(ctx), s.closeSession())
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func closer(w io.Writer) io.WriteCloser {
	if wc, ok := w.(io.WriteCloser); ok {
		return wc
	}
	return nopCloser{w}
}

// fault notes a line of the runner's that is no message. The Conn answers it.
func (s *server) fault(f wire.Fault) {
	s.opt.Log.Warn("the runner departed from the protocol", "kind", string(f.Kind), "line", f.Line, "note", f.Note)
}

// Assign implements jrpc2.Assigner.
func (s *server) Assign(_ context.Context, method string) jrpc2.Handler {
	switch method {
	case wire.MethodHello:
		return serve(s.hello)
	case wire.MethodOpen:
		return serve(s.open)
	case wire.MethodDo:
		return serve(s.do)
	case wire.MethodLog:
		return serve(s.log)
	case wire.MethodConfess:
		return serve(s.confess)
	case wire.MethodCancel:
		return serve(s.cancel)
	case wire.MethodQuiesce:
		return serve(s.quiesce)
	case wire.MethodClose, wire.MethodShutdown:
		return serve(s.close)
	case wire.MethodArm:
		if s.opt.Arm != nil {
			return serve(s.arm)
		}
	case wire.MethodDisarm:
		if s.opt.Arm != nil {
			return serve(s.disarm)
		}
	}
	return nil
}

// serve makes a handler of a method on decoded parameters.
func serve[P, R any](method func(context.Context, P) (R, error)) jrpc2.Handler {
	return func(ctx context.Context, req *jrpc2.Request) (any, error) {
		params := json.RawMessage(req.ParamString())
		if len(params) == 0 {
			params = json.RawMessage("{}")
		}
		var p P
		if err := wire.Decode(params, &p); err != nil {
			return nil, badParams(err)
		}
		return method(ctx, p)
	}
}

func badParams(err error) error { return jrpc2.Errorf(jrpc2.InvalidParams, "%v", err) }

// tooSoon says what must come before or has already been.
func tooSoon(format string, args ...any) error { return jrpc2.Errorf(wire.CodeState, format, args...) }

// greeting returns what the driver claims, in the words of the protocol.
func (s *server) greeting(info sut.Info) wire.Greeting {
	g := wire.Greeting{
		Protocol: wire.Speaks,
		Implementation: wire.Implementation{
			Name: info.Name, Version: info.Version, Language: "go", Homepage: s.opt.Homepage, Issues: s.opt.Issues,
		},
		Roles:        []string{},
		Capabilities: map[string]bool{},
		Policies:     spec.Policies{},
		Limits:       wire.Limits{MaxContent: wire.MaxReply, Concurrency: 1},
	}
	for _, role := range info.Roles {
		g.Roles = append(g.Roles, string(role))
	}
	for _, feature := range info.Features {
		g.Capabilities[feature] = true
	}
	if s.opt.Arm != nil {
		g.Capabilities[wire.FeatureWorker] = true
	}
	maps.Copy(g.Policies, info.Policies)
	maps.Copy(g.Policies, s.opt.Policies)
	return g
}

func (s *server) hello(ctx context.Context, p wire.Hello) (wire.Greeting, error) {
	if _, err := wire.Common(p.Protocol, wire.Speaks); err != nil {
		return wire.Greeting{}, badParams(err)
	}
	info, err := s.opt.Driver.Info(ctx)
	if err != nil {
		return wire.Greeting{}, fmt.Errorf("hello: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.greeted = true
	return s.greeting(info), nil
}
