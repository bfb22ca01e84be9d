// Package fallback is the registry of handlers that may perform a primitive
// which the operating system denied.
//
// Handlers are process-wide and ordered; the first that says it has done
// exactly what was asked ends the search. A handler may be offered the denial
// of any session. The registry does not look at the tree and does not decide
// what a denial is: it carries requests to handlers and answers back.
package fallback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fsbench/fsbench/spec"
)

// WriteHandler reports whether it placed exactly r.Content at r.Dst, durably.
// It returns false when it merely started to.
type WriteHandler func(ctx context.Context, r spec.WriteRequest) (landed bool, err error)

// DeleteHandler reports whether it unlinked r.Dst, and nothing else.
type DeleteHandler func(ctx context.Context, r spec.DeleteRequest) (landed bool, err error)

// Registry holds the handlers of both seams. The zero Registry is ready to use.
type Registry struct {
	// Logger receives one warning for every handler that fails (FB-009); nil
	// means slog.Default.
	Logger *slog.Logger

	mu      sync.Mutex
	writes  []*entry[WriteHandler]
	deletes []*entry[DeleteHandler]
}

// entry is one registration. Its address is its identity: the same function
// registered twice is two entries, and disposing of one leaves the other.
type entry[H any] struct {
	handle H
	gone   atomic.Bool
}

// HandleWrite appends h. The returned function takes this registration out, and
// does nothing when called again. It does not wait for h, should h be at work: a
// handler may dispose of itself.
func (r *Registry) HandleWrite(h WriteHandler) (dispose func()) {
	e := &entry[WriteHandler]{handle: h}
	return add(&r.mu, &r.writes, e)
}

// HandleDelete is HandleWrite for the other seam. A capability to write is
// never one to delete.
func (r *Registry) HandleDelete(h DeleteHandler) (dispose func()) {
	e := &entry[DeleteHandler]{handle: h}
	return add(&r.mu, &r.deletes, e)
}

func add[H any](mu *sync.Mutex, list *[]*entry[H], e *entry[H]) (dispose func()) {
	mu.Lock()
	defer mu.Unlock()
	*list = append(*list, e)
	return func() {
		e.gone.Store(true)
		mu.Lock()
		defer mu.Unlock()
		*list = slices.DeleteFunc(*list, func(x *entry[H]) bool { return x == e })
	}
}

// OfferWrite asks the write handlers in order whether they land the bytes. Every
// handler gets its own copy of the request: one that scribbles over it must not
// choose what the next one writes (FB-017).
//
// When ctx ends nobody is asked any more and a handler that is at work is not
// waited for: it may land the bytes after OfferWrite has returned false.
func (r *Registry) OfferWrite(ctx context.Context, req spec.WriteRequest) (landed bool) {
	return offer(ctx, r, &r.writes, req.Dst, func(h WriteHandler) (bool, error) {
		mine := req
		mine.Content = bytes.Clone(req.Content)
		return h(ctx, mine)
	})
}

// OfferDelete asks the delete handlers in order. It stops waiting as OfferWrite
// does.
func (r *Registry) OfferDelete(ctx context.Context, req spec.DeleteRequest) (landed bool) {
	return offer(ctx, r, &r.deletes, req.Dst, func(h DeleteHandler) (bool, error) { return h(ctx, req) })
}

// offer walks a snapshot of the list. A handler disposed of since it was taken
// is passed over: after its session has ended it must not act for another.
func offer[H any](ctx context.Context, r *Registry, list *[]*entry[H], dst string, ask func(H) (bool, error)) bool {
	r.mu.Lock()
	entries := slices.Clone(*list)
	r.mu.Unlock()
	for i, e := range entries {
		if ctx.Err() != nil {
			return false
		}
		if e.gone.Load() {
			continue
		}
		landed, err := isolated(ctx, e.handle, ask)
		switch {
		case errors.Is(err, errLeft):
			r.logger().Warn("fallback handler left at work", "handler", i+1, "dst", dst, "error", ctx.Err())
		case err != nil:
			r.logger().Warn("fallback handler failed; asking the next", "handler", i+1, "dst", dst, "error", err)
		case landed:
			return true
		}
	}
	return false
}

// isolated keeps what a handler does to itself from the call and the handlers
// after it (FB-008): a panic, or an end of its goroutine, is an error, and one
// that never answers is left behind when ctx ends.
func isolated[H any](ctx context.Context, h H, ask func(H) (bool, error)) (bool, error) {
	type answer struct {
		landed bool
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		a := answer{err: errors.New("it ended its goroutine")}
		defer func() {
			if p := recover(); p != nil {
				a = answer{err: fmt.Errorf("panic: %v", p)}
			}
			answered <- a
		}()
		a.landed, a.err = ask(h)
	}()
	select {
	case a := <-answered:
		return a.landed, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-answered: // at the same time: an answer is worth more
		return a.landed, a.err
	default:
		return false, errLeft
	}
}

// errLeft is of a handler that had not answered when the call was given up.
var errLeft = errors.New("no answer yet")

func (r *Registry) logger() *slog.Logger {
	if r.Logger != nil {
		return r.Logger
	}
	return slog.Default()
}
