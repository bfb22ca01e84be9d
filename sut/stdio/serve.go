package stdio

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/creachadair/jrpc2"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
)

// admit checks what the child asks before anything acts on it. It runs in the
// order of the lines.
func (c *child) admit(m wire.Message) *wire.Fault {
	worker := c.armed.Load()
	switch {
	case m.Method == wire.MethodEvent && worker:
		if m.ID != nil {
			return wire.Faultf(wire.NotJSONRPC, "event is a notification: want no id")
		}
		return nil
	case m.Method == wire.MethodEdit && worker:
	case m.Method == wire.MethodWrite, m.Method == wire.MethodDelete, m.Method == wire.MethodPrompt:
	default:
		return wire.Faultf(wire.UnknownMethod, "the runner serves no method %q here", m.Method)
	}
	if m.ID == nil {
		return wire.Faultf(wire.NotJSONRPC, "%s needs an id to be answered by", m.Method)
	}
	switch m.Method {
	case wire.MethodWrite:
		_, f := c.writeRequest(m.Params)
		return f
	case wire.MethodDelete:
		_, f := c.deleteRequest(m.Params)
		return f
	case wire.MethodEdit:
		_, f := editRequest(m.Params)
		return f
	}
	return badParams(wire.Decode(m.Params, &wire.Prompt{}))
}

func badParams(err error) *wire.Fault {
	if err == nil {
		return nil
	}
	return wire.Faultf(wire.BadParams, "%v", err)
}

// action is what the child asked for, ready to be done.
type action func(ctx context.Context) (any, error)

func (c *child) writeRequest(params json.RawMessage) (action, *wire.Fault) {
	var b wire.BrokerWrite
	if err := wire.Decode(params, &b); err != nil {
		return nil, badParams(err)
	}
	h, f := c.handler(b.Handler, spec.SeamWrite)
	if f != nil {
		return nil, f
	}
	r, err := b.Spec(c.s.spool.Read)
	return func(ctx context.Context) (any, error) {
		landed, err := h.Write(ctx, r)
		return answer(b.Handler, landed, err)
	}, badParams(err)
}

func (c *child) deleteRequest(params json.RawMessage) (action, *wire.Fault) {
	var b wire.BrokerDelete
	if err := wire.Decode(params, &b); err != nil {
		return nil, badParams(err)
	}
	h, f := c.handler(b.Handler, spec.SeamDelete)
	if f != nil {
		return nil, f
	}
	r, err := b.Spec()
	return func(ctx context.Context) (any, error) {
		landed, err := h.Delete(ctx, r)
		return answer(b.Handler, landed, err)
	}, badParams(err)
}

func answer(handler string, landed bool, err error) (any, error) {
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", handler, err)
	}
	return wire.Landed{Landed: landed}, nil
}

func editRequest(params json.RawMessage) (spec.Edit, *wire.Fault) {
	var e wire.Edit
	err := wire.Decode(params, &e)
	if err == nil {
		err = e.Edit.Check()
	}
	return e.Edit, badParams(err)
}

// serve answers the child. Everything that gets here was admitted.
func (c *child) serve(ctx context.Context, req *jrpc2.Request) (any, error) {
	params := json.RawMessage(req.ParamString())
	var act action
	var f *wire.Fault
	switch req.Method() {
	case wire.MethodWrite:
		act, f = c.writeRequest(params)
	case wire.MethodDelete:
		act, f = c.deleteRequest(params)
	case wire.MethodEdit:
		act, f = c.edit(params)
	default: // ui/prompt: nobody sits in front of a test
		return wire.Allowed{Allowed: false}, nil
	}
	if f != nil {
		return nil, jrpc2.Errorf(jrpc2.InvalidParams, "%s", f.Note)
	}
	return act(ctx)
}

func (c *child) edit(params json.RawMessage) (action, *wire.Fault) {
	e, f := editRequest(params)
	return func(context.Context) (any, error) {
		done, err := c.s.env.Worker.Edit(e)
		if err != nil {
			err = fmt.Errorf("edit the tree: %w", err)
			c.s.fail(err)
			return nil, err
		}
		return wire.Edited{Done: done}, nil
	}, f
}

// notify takes a notification: admit lets nothing but events through.
func (c *child) notify(_ string, params json.RawMessage) {
	if err := c.s.env.Worker.Event(slices.Clone(params)); err != nil {
		c.s.fail(fmt.Errorf("take an event: %w", err))
	}
}

// check refuses an answer that is not what its method promises.
func (c *child) check(method string, result json.RawMessage) *wire.Fault {
	var err error
	switch method {
	case wire.MethodHello:
		var g wire.Greeting
		if err = wire.Decode(result, &g); err == nil {
			return g.Check()
		}
	case wire.MethodDo:
		var o wire.Outcome
		if err = wire.Decode(result, &o); err == nil {
			return o.Check(c.s.env.Root)
		}
	case wire.MethodLog:
		err = wire.Decode(result, &wire.Entries{})
	case wire.MethodConfess:
		err = wire.Decode(result, &wire.Confession{})
	case wire.MethodWrite, wire.MethodDelete:
		err = wire.Decode(result, &wire.Landed{})
	case wire.MethodArm, wire.MethodDisarm:
		err = wire.Decode(result, &wire.Unfired{})
	default:
		err = wire.Decode(result, &wire.Empty{})
	}
	if err == nil {
		return nil
	}
	return wire.Faultf(wire.BadOutcome, "%s: %v", method, err)
}
