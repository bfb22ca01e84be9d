package fallback_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/fallback"
	"github.com/fsbench/fsbench/spec"
)

// script is what one handler does when it is asked.
type script struct {
	name string
	do   func(r *spec.WriteRequest) (bool, error)
}

var (
	yes    = script{"yes", func(*spec.WriteRequest) (bool, error) { return true, nil }}
	no     = script{"no", func(*spec.WriteRequest) (bool, error) { return false, nil }}
	fails  = script{"fails", func(*spec.WriteRequest) (bool, error) { return false, errors.New("no channel") }}
	panics = script{"panics", func(*spec.WriteRequest) (bool, error) { panic("lost") }}
	exits  = script{"exits", func(*spec.WriteRequest) (bool, error) { runtime.Goexit(); return true, nil }}
	late   = script{"late", func(*spec.WriteRequest) (bool, error) { return true, errors.New("after all") }}
	scribe = script{"scribe", func(r *spec.WriteRequest) (bool, error) {
		copy(r.Content, "XXXX")
		r.Dst, r.Session = "/elsewhere", "other"
		return false, nil
	}}
)

// logged returns a registry and what it warns of, one line a warning.
func logged() (*fallback.Registry, *bytes.Buffer) {
	var out bytes.Buffer
	plain := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	return &fallback.Registry{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: plain}))}, &out
}

func request() spec.WriteRequest {
	return spec.WriteRequest{
		Denial:  spec.Denial{Call: 1, Session: "s1", Dst: "/ws/a", Cause: spec.ErrAccess},
		Content: spec.Content("text"), Exclusive: true,
	}
}

const warning = `level=WARN msg="fallback handler failed; asking the next" handler=`

func TestHandlersAreAskedInOrder(t *testing.T) {
	for _, tt := range []struct {
		name     string
		handlers []script
		asked    string // names, in the order of being asked
		landed   bool
		warnings []string
	}{
		{"nobody", nil, "", false, nil},
		{"the first yes ends it", []script{no, yes, yes}, "no yes", true, nil},
		{"nobody says yes", []script{no, no}, "no no", false, nil},
		{"a failure is logged and passed over", []script{fails, yes}, "fails yes", true, []string{`1 dst=/ws/a error="no channel"`}},
		{"a panic too", []script{no, panics, yes}, "no panics yes", true, []string{`2 dst=/ws/a error="panic: lost"`}},
		{"an end of the goroutine too", []script{exits, yes}, "exits yes", true, []string{`1 dst=/ws/a error="it ended its goroutine"`}},
		{
			"a yes that comes with an error is none",
			[]script{late, fails},
			"late fails", false,
			[]string{`1 dst=/ws/a error="after all"`, `2 dst=/ws/a error="no channel"`},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			reg, out := logged()
			var asked []string
			for _, h := range tt.handlers {
				reg.HandleWrite(func(_ context.Context, r spec.WriteRequest) (bool, error) {
					asked = append(asked, h.name)
					return h.do(&r)
				})
			}
			if got := reg.OfferWrite(t.Context(), request()); got != tt.landed {
				t.Errorf("landed = %v, want %v", got, tt.landed)
			}
			if got := strings.Join(asked, " "); got != tt.asked {
				t.Errorf("asked %q, want %q", got, tt.asked)
			}
			var want strings.Builder
			for _, w := range tt.warnings {
				want.WriteString(warning + w + "\n")
			}
			if diff := cmp.Diff(want.String(), out.String()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEveryHandlerGetsItsOwnCopy(t *testing.T) {
	reg, _ := logged()
	var got []spec.WriteRequest
	for range 3 {
		reg.HandleWrite(func(_ context.Context, r spec.WriteRequest) (bool, error) {
			got = append(got, spec.WriteRequest{Denial: r.Denial, Content: bytes.Clone(r.Content), Exclusive: r.Exclusive})
			return scribe.do(&r)
		})
	}
	req := request()
	reg.OfferWrite(t.Context(), req)
	if diff := cmp.Diff([]spec.WriteRequest{request(), request(), request()}, got); diff != "" {
		t.Errorf("handlers were given (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(request(), req); diff != "" {
		t.Errorf("the request that was offered has changed (-want +got):\n%s", diff)
	}
}

// TestSeamsAreSeparate: a capability to write is never one to delete, nor the
// other way round.
func TestSeamsAreSeparate(t *testing.T) {
	var reg fallback.Registry
	var writes int
	var deletes []spec.DeleteRequest
	reg.HandleWrite(func(context.Context, spec.WriteRequest) (bool, error) { writes++; return true, nil })
	reg.HandleDelete(func(_ context.Context, r spec.DeleteRequest) (bool, error) {
		deletes = append(deletes, r)
		return false, nil
	})
	del := spec.DeleteRequest{Denial: request().Denial, ConfirmedFile: true}
	if reg.OfferDelete(t.Context(), del) {
		t.Error("a delete landed, and its one handler declined")
	}
	if !reg.OfferWrite(t.Context(), request()) {
		t.Error("a write did not land, and its one handler said yes")
	}
	if diff := cmp.Diff([]spec.DeleteRequest{del}, deletes); diff != "" || writes != 1 {
		t.Errorf("%d writes, want 1; deletes (-want +got):\n%s", writes, diff)
	}
}

func TestDisposal(t *testing.T) {
	type handle = func(context.Context, spec.WriteRequest) (bool, error)
	for _, tt := range []struct {
		name string
		play func(reg *fallback.Registry, named func(string) handle, offer func())
		want string // who was asked, offers separated by |
	}{
		{"before it is called", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			reg.HandleWrite(named("a"))
			reg.HandleWrite(named("b"))()
			offer()
		}, "a|"},
		{"twice is once", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			h := named("a")
			first := reg.HandleWrite(h)
			reg.HandleWrite(h)
			first()
			first()
			offer()
		}, "a|"},
		{"of the second of two equal functions", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			h := named("a")
			reg.HandleWrite(h)
			reg.HandleWrite(named("b"))
			second := reg.HandleWrite(h)
			offer()
			second()
			offer()
		}, "a b a|a b|"},
		{"during the walk, by one before it", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			var dispose func()
			first := named("a")
			reg.HandleWrite(func(ctx context.Context, r spec.WriteRequest) (bool, error) {
				dispose()
				return first(ctx, r)
			})
			dispose = reg.HandleWrite(named("b"))
			reg.HandleWrite(named("c"))
			offer()
		}, "a c|"},
		{"by itself", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			var dispose func()
			first := named("a")
			dispose = reg.HandleWrite(func(ctx context.Context, r spec.WriteRequest) (bool, error) {
				dispose()
				return first(ctx, r)
			})
			offer()
			offer()
		}, "a||"},
		{"one that comes during the walk waits for the next", func(reg *fallback.Registry, named func(string) handle, offer func()) {
			first := named("a")
			var once sync.Once
			reg.HandleWrite(func(ctx context.Context, r spec.WriteRequest) (bool, error) {
				once.Do(func() { reg.HandleWrite(named("b")) })
				return first(ctx, r)
			})
			offer()
			offer()
		}, "a|a b|"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var reg fallback.Registry
			var asked []string
			named := func(name string) handle {
				return func(context.Context, spec.WriteRequest) (bool, error) {
					asked = append(asked, name)
					return false, nil
				}
			}
			var got strings.Builder
			tt.play(&reg, named, func() {
				asked = nil
				reg.OfferWrite(t.Context(), request())
				got.WriteString(strings.Join(asked, " ") + "|")
			})
			if got.String() != tt.want {
				t.Errorf("asked %q, want %q", got.String(), tt.want)
			}
		})
	}
}

// TestGivenUp: who never answers keeps nobody waiting once the call is over, and
// is not followed by others.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg, out := logged()
		release := make(chan struct{})
		asked := 0
		reg.HandleWrite(func(context.Context, spec.WriteRequest) (bool, error) {
			<-release
			return true, nil
		})
		reg.HandleWrite(func(context.Context, spec.WriteRequest) (bool, error) { asked++; return true, nil })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool)
		go func() { done <- reg.OfferWrite(ctx, request()) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("the offer ended before its handler answered")
		default:
		}
		cancel()
		if <-done {
			t.Error("landed, and nobody has said so")
		}
		if reg.OfferWrite(ctx, request()) || asked != 0 {
			t.Errorf("%d handlers were asked after the end of the call, want 0", asked)
		}
		const want = `level=WARN msg="fallback handler left at work" handler=1 dst=/ws/a error="context canceled"` + "\n"
		if diff := cmp.Diff(want, out.String()); diff != "" {
			t.Errorf("warnings (-want +got):\n%s", diff)
		}
		close(release)
	})
}

// TestConcurrentUse is for the race detector; what it can assert is that a handler
// whose disposal has returned is not asked by an offer that starts after it.
func TestConcurrentUse(t *testing.T) {
	var reg fallback.Registry
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := range 200 {
				after := request()
				after.Session = spec.SessionID(fmt.Sprintf("%d-%d", worker, i))
				dispose := reg.HandleWrite(func(_ context.Context, r spec.WriteRequest) (bool, error) {
					if r.Session == after.Session {
						t.Error("a handler was asked by an offer made after its disposal")
					}
					r.Content[0] = 'X'
					return false, nil
				})
				reg.HandleDelete(func(context.Context, spec.DeleteRequest) (bool, error) { return false, nil })()
				reg.OfferWrite(t.Context(), request())
				dispose()
				reg.OfferWrite(t.Context(), after)
				reg.OfferDelete(t.Context(), spec.DeleteRequest{})
			}
		})
	}
	wg.Wait()
}
