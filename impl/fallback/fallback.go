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
// does nothing when called again.
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
		*list = slices.DeleteFunc(slices.Clone(*list), func(x *entry[H]) bool { return x == e })
	}
}

// OfferWrite asks the write handlers in order whether they land the bytes. Every
// handler gets its own copy of the request: one that scribbles over it must not
// choose what the next one writes (FB-017).
func (r *Registry) OfferWrite(ctx context.Context, req spec.WriteRequest) (landed bool) {
	return offer(r, &r.writes, req.Dst, func(h WriteHandler) (bool, error) {
		mine := req
		mine.Content = bytes.Clone(req.Content)
		return h(ctx, mine)
	})
}

// OfferDelete asks the delete handlers in order.
func (r *Registry) OfferDelete(ctx context.Context, req spec.DeleteRequest) (landed bool) {
	return offer(r, &r.deletes, req.Dst, func(h DeleteHandler) (bool, error) { return h(ctx, req) })
}

// offer walks a snapshot of the list. A handler disposed of since it was taken
// is passed over: after its session has ended it must not act for another.
func offer[H any](r *Registry, list *[]*entry[H], dst string, ask func(H) (bool, error)) bool {
	r.mu.Lock()
	entries := slices.Clone(*list)
	r.mu.Unlock()
	for i, e := range entries {
		if e.gone.Load() {
			continue
		}
		landed, err := isolated(e.handle, ask)
		if err != nil {
			r.logger().Warn("fallback handler failed; asking the next", "handler", i+1, "dst", dst, "error", err)
			continue
		}
		if landed {
			return true
		}
	}
	return false
}

// isolated turns a handler's panic into an error: one broken handler must not
// take the call, or the handlers after it, down (FB-008).
func isolated[H any](h H, ask func(H) (bool, error)) (landed bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			landed, err = false, fmt.Errorf("panic: %v", p)
		}
	}()
	return ask(h)
}

func (r *Registry) logger() *slog.Logger {
	if r.Logger != nil {
		return r.Logger
	}
	return slog.Default()
}
