package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/fsbench/fsbench/internal/process"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// errEnded says that the child is gone and nothing was answered.
var errEnded = fmt.Errorf("it ended: %w", ErrChild)

// child is one life of a session's process.
type child struct {
	s     *Session
	peer  peer
	conn  *wire.Conn
	rpc   *jrpc2.Client
	hello wire.Greeting

	opened bool
	armed  atomic.Bool
	asked  atomic.Bool   // to end
	gone   chan struct{} // nothing more will be heard of it
	reaped chan struct{} // nothing of it is left
}

// greet starts a child and learns what it is.
func (s *Session) greet(ctx context.Context) (*child, error) {
	p, err := s.d.launch(s.env, s.d.chosen(s.env.Policies), &s.diags)
	if err != nil {
		return nil, err
	}
	c := &child{s: s, peer: p, gone: make(chan struct{}), reaped: make(chan struct{})}
	c.conn = wire.NewConn(p.out, p.in, wire.ConnOptions{
		Fault: c.fault, Late: c.late, Notify: c.notify, Request: c.admit, Result: c.check, HoldEOF: true,
	})
	c.rpc = jrpc2.NewClient(c.conn, &jrpc2.ClientOptions{
		OnCallback: c.serve,
		OnStop:     func(*jrpc2.Client, error) { close(c.gone) },
	})
	go c.reap()

	hello := wire.Hello{Protocol: wire.Speaks, Edition: s.d.opt.Edition, Runner: s.d.opt.Runner, Wants: wire.Roles}
	err = c.request(ctx, wire.MethodHello, hello, &c.hello)
	if err == nil {
		if difference := s.d.recognise(c.hello); difference != "" {
			c.fault(wire.Fault{Kind: wire.BadOutcome, Note: difference})
			err = fmt.Errorf("%s: %w", difference, ErrChild)
		}
	}
	if err != nil {
		c.discard()
		return nil, err
	}
	return c, nil
}

// open gives the child its plan, if it is to have one and takes one, and its
// root. A child that takes no plan meets none of it, so that every injection
// stays unfired: the caller sees that.
func (c *child) open(ctx context.Context, arm bool) error {
	env := c.s.env
	for name, value := range env.Policies {
		if declared := c.hello.Policies[name]; declared != value {
			return fmt.Errorf("%s: %s, it declares %q: %w", name, value, declared, sut.ErrPolicy)
		}
	}
	if arm && c.hello.Capabilities[wire.FeatureWorker] {
		c.armed.Store(true)
		if err := c.request(ctx, wire.MethodArm, wire.Arm{Plan: env.Worker.Plan}, &wire.Unfired{}); err != nil {
			return err
		}
	}
	params := wire.Open{Session: "s", Root: env.Root}
	if slices.Contains(c.hello.Roles, string(sut.RoleRegistry)) {
		for i, h := range env.Handlers {
			params.Brokers = append(params.Brokers, wire.BrokerID{ID: handlerID(i), Seam: h.Seam})
		}
	}
	if slices.Contains(c.hello.Roles, string(sut.RoleBroker)) {
		params.Allow = process.Argv(c.s.d.opt.Allow, env.Root)
	}
	c.opened = true
	return c.request(ctx, wire.MethodOpen, params, &wire.Empty{})
}

// request is call for everything but a Do: a child's silence has a limit there,
// whatever the caller's deadline.
func (c *child) request(ctx context.Context, method string, params, result any) error {
	limit, cancel := context.WithTimeout(ctx, c.s.d.opt.Patience)
	defer cancel()
	err := c.call(limit, method, params, result)
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("silent for %v: %w", c.s.d.opt.Patience, ErrChild)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// call makes a request. An answer that the protocol forbids has become an error
// by now; what the child refused, and its end, are errors that wrap ErrChild.
func (c *child) call(ctx context.Context, method string, params, result any) error {
	responses, err := c.rpc.Batch(ctx, []jrpc2.Spec{{Method: method, Params: params}})
	switch {
	case errors.Is(err, wire.ErrUnspeakable):
		return err
	case err != nil:
		_ = c.conn.Close() // it does not read, or is no more
		<-c.reaped
		return errEnded
	}
	response := responses[0]
	answered := c.conn.Settle(response.ID())
	refusal := response.Error()
	switch {
	case refusal == nil:
		if err := wire.Decode(json.RawMessage(response.ResultString()), result); err != nil {
			panic("stdio: an answer that was checked: " + err.Error())
		}
		return nil
	case ctx.Err() != nil && answered:
		c.late(method, nil)
		return ctx.Err()
	case ctx.Err() != nil:
		_ = c.rpc.Notify(context.WithoutCancel(ctx), wire.MethodCancel, wire.Cancel{ID: json.RawMessage(response.ID())})
		return ctx.Err()
	case !answered:
		<-c.reaped
		return errEnded
	}
	return errors.Join(refusal, ErrChild)
}

func (c *child) dead() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// farewell is what a child is told before its standard input ends.
func (c *child) farewell() []string {
	var methods []string
	if c.opened {
		methods = append(methods, wire.MethodQuiesce)
	}
	if c.armed.Load() {
		methods = append(methods, wire.MethodDisarm)
	}
	if c.opened {
		methods = append(methods, wire.MethodClose)
	}
	return append(methods, wire.MethodShutdown)
}

// end asks the child to end, and sees to it.
func (c *child) end(ctx context.Context) {
	c.asked.Store(true)
	ctx, cancel := context.WithTimeout(ctx, c.s.d.opt.Grace)
	defer cancel()
	for _, method := range c.farewell() {
		var result any = &wire.Empty{}
		if method == wire.MethodDisarm {
			result = &wire.Unfired{}
		}
		if err := c.call(ctx, method, wire.Empty{}, result); errors.Is(err, errEnded) || ctx.Err() != nil {
			break
		}
	}
	c.discard()
}

// discard ends the child without asking. It sees the end of its standard input,
// and has the grace period to take it in.
func (c *child) discard() {
	if !c.dead() {
		c.asked.Store(true)
	}
	_ = c.conn.Close()
	<-c.reaped
}

// reap waits for the end of the conversation and makes it the end of the child.
func (c *child) reap() {
	defer close(c.reaped)
	<-c.gone
	_ = c.conn.Close()
	_ = c.rpc.Close() // waits for handlers under way; their context has ended
	if !c.awaitEnd() {
		c.peer.kill()
		if !c.awaitEnd() {
			c.s.fail(errors.New("the child is still there after it was killed"))
			return
		}
	}
	c.conn.Wait()
	if !c.asked.Load() {
		c.s.diags.report("ERROR", "the child ended", map[string]string{"state": c.peer.state()})
	}
}

func (c *child) awaitEnd() bool {
	patience := time.NewTimer(c.s.d.opt.Grace)
	defer patience.Stop()
	select {
	case <-c.peer.ended:
		return true
	case <-patience.C:
		return false
	}
}

// fault passes on a departure from the protocol.
func (c *child) fault(f wire.Fault) {
	if report := c.s.env.WireFault; report != nil {
		report(string(f.Kind), f.Line, f.Note)
	}
}

// late notes an answer that nobody waits for any more.
func (c *child) late(method string, line []byte) {
	c.s.diags.report("WARN", "an answer came after its deadline", map[string]string{
		"method": method, "line": wire.Escape(line),
	})
}

// handlerID is what open calls the handler at index i.
func handlerID(i int) string { return "h" + strconv.Itoa(i+1) }

// handler returns the handler that the child named, if it serves the seam.
func (c *child) handler(id string, seam spec.Seam) (sut.Handler, *wire.Fault) {
	for i, h := range c.s.env.Handlers {
		if handlerID(i) != id {
			continue
		}
		if h.Seam != seam {
			break // a capability to write is not one to delete
		}
		return h, nil
	}
	return sut.Handler{}, wire.Faultf(wire.BadParams, "handler: %q is none of the %s seam", id, seam)
}
