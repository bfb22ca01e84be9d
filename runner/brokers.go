package runner

import (
	"bytes"
	"context"
	"errors"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

var errScripted = errors.New("the broker is unavailable")

// handlers makes the scenario's scripted brokers. What each was asked, did and
// said goes into the trace: the bench knows it better than any subject can tell.
func (x *execution) handlers() []sut.Handler {
	var hs []sut.Handler
	for i, b := range x.scenario.Brokers {
		h := sut.Handler{Seam: b.Seam}
		switch b.Seam {
		case spec.SeamWrite:
			h.Write = func(_ context.Context, r spec.WriteRequest) (bool, error) { return x.write(i+1, b.Kind, r) }
		case spec.SeamDelete:
			h.Delete = func(_ context.Context, r spec.DeleteRequest) (bool, error) { return x.delete(i+1, b.Kind, r) }
		}
		hs = append(hs, h)
	}
	return hs
}

func (x *execution) write(handler int, kind spec.BrokerKind, r spec.WriteRequest) (bool, error) {
	if x.armed.Crashed() {
		return false, errScripted // the process that would have asked is dead
	}
	seen := r
	seen.Content = bytes.Clone(r.Content)
	c := &trace.Consult{Handler: handler, Write: &seen}
	var land func() error
	switch kind {
	case spec.Honest, spec.LateThrow:
		land = func() error { return x.box.Land(seen) }
	case spec.Short:
		half := seen
		half.Content = half.Content[:len(half.Content)/2]
		land = func() error { return x.box.Land(half) }
	case spec.Mutates:
		for i := range r.Content {
			r.Content[i] ^= 0x20
		}
	case spec.Liar, spec.Declines, spec.Throws, spec.Panics:
	}
	return x.answer(c, kind, land)
}

func (x *execution) delete(handler int, kind spec.BrokerKind, r spec.DeleteRequest) (bool, error) {
	if x.armed.Crashed() {
		return false, errScripted
	}
	c := &trace.Consult{Handler: handler, Delete: &r}
	var land func() error
	switch kind {
	case spec.Honest, spec.LateThrow:
		land = func() error { return x.box.Unlink(r) }
	case spec.Liar, spec.Short, spec.Mutates, spec.Declines, spec.Throws, spec.Panics:
	}
	return x.answer(c, kind, land)
}

// answer carries out what the script does, records it, and says what the script
// says. A broker that cannot do the work says no: it is honest about that.
func (x *execution) answer(c *trace.Consult, kind spec.BrokerKind, land func() error) (bool, error) {
	said := trace.Declined
	switch kind {
	case spec.Honest, spec.Liar, spec.Short:
		said = trace.Landed
	case spec.Throws, spec.Panics, spec.LateThrow:
		said = trace.Threw
	case spec.Declines, spec.Mutates:
	}
	if land != nil {
		if err := land(); err != nil {
			said = trace.Declined
		} else {
			c.Acted = true
		}
	}
	c.Answer = said
	x.rec.Emit(trace.Event{Actor: trace.ActorBench, Consult: c})
	switch {
	case said == trace.Threw && kind == spec.Panics:
		panic("the broker broke down")
	case said == trace.Threw:
		return false, errScripted
	}
	return said == trace.Landed, nil
}
