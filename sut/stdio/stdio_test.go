package stdio

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

func TestMain(m *testing.M) {
	if name := os.Getenv(hostileEnv); name != "" {
		playProcess(name)
		return
	}
	os.Exit(m.Run())
}

// asFunction returns a Driver of a script that runs in this process.
func asFunction(name string, opt Options) *Driver {
	var lives atomic.Int32
	return Pipe(func(ctx context.Context, in io.Reader, out, errs io.Writer) error {
		scripts[name].play(&actor{ctx: ctx, in: bufio.NewReader(in), out: out, errs: errs, life: int(lives.Add(1))})
		return nil
	}, opt)
}

// witness records what a session tells its Env.
type witness struct {
	t *testing.T // of the bubble that the session lives in

	mu     sync.Mutex
	faults []string
	diags  []string
	writes []spec.WriteRequest
}

// env has a handler of each seam: h1 lands, h2 throws.
func (w *witness) env(root string) sut.Env {
	return sut.Env{
		Root: root,
		Handlers: []sut.Handler{
			{Seam: spec.SeamWrite, Write: func(_ context.Context, r spec.WriteRequest) (bool, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.writes = append(w.writes, r)
				return true, nil
			}},
			{Seam: spec.SeamDelete, Delete: func(context.Context, spec.DeleteRequest) (bool, error) {
				return false, errors.New("boom")
			}},
		},
		WireFault: func(kind, line, note string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.faults = append(w.faults, kind)
		},
		Diag: func(level, msg string, attrs map[string]string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.diags = append(w.diags, fmt.Sprintf("%s %s %v", level, msg, attrs))
		},
	}
}

func faults(kinds ...wire.Kind) (texts []string) {
	for _, k := range kinds {
		texts = append(texts, string(k))
	}
	return texts
}

const (
	ok      = spec.StatusOK
	unknown = spec.StatusUnknown
)

// play is one script, and what must come of two calls to it.
type play struct {
	name   string
	want   [2]spec.Status
	faults []string
	died   int // children that ended unasked
}

var plays = []play{
	{"good", [2]spec.Status{ok, ok}, nil, 0},
	{"banner", [2]spec.Status{ok, ok}, faults(wire.NotJSON), 0},
	{"print in a call", [2]spec.Status{ok, ok}, faults(wire.NotJSON), 0},
	{"blank line", [2]spec.Status{ok, ok}, faults(wire.NotJSON), 0},
	{"garbage after object", [2]spec.Status{unknown, ok}, faults(wire.NotJSON), 0},
	{"batch", [2]spec.Status{unknown, ok}, faults(wire.NotObject), 0},
	{"bad bytes", [2]spec.Status{unknown, ok}, faults(wire.BadUTF8), 0},
	{"half a character", [2]spec.Status{unknown, ok}, faults(wire.BadUTF8), 0},
	{"depth 64", [2]spec.Status{ok, ok}, nil, 0},
	{"depth 65", [2]spec.Status{unknown, ok}, faults(wire.TooDeep), 0},
	{"17 MiB", [2]spec.Status{unknown, ok}, faults(wire.LineTooLong), 0},
	{"duplicate key", [2]spec.Status{unknown, ok}, faults(wire.DuplicateKey), 0},
	{"no version member", [2]spec.Status{unknown, ok}, faults(wire.NotJSONRPC), 0},
	{"result and error", [2]spec.Status{unknown, ok}, faults(wire.NotJSONRPC), 0},
	{"neither", [2]spec.Status{unknown, ok}, faults(wire.NotJSONRPC), 0},
	{"stray member", [2]spec.Status{unknown, ok}, faults(wire.NotJSONRPC), 0},
	{"request with null id", [2]spec.Status{ok, ok}, faults(wire.NotJSONRPC), 0},
	{"request without id", [2]spec.Status{ok, ok}, faults(wire.NotJSONRPC), 0},
	{"unknown id", [2]spec.Status{ok, ok}, faults(wire.UnknownID), 0},
	{"null id", [2]spec.Status{ok, ok}, faults(wire.UnknownID), 0},
	{"second answer", [2]spec.Status{ok, ok}, faults(wire.SecondAnswer), 0},
	{"unknown word", [2]spec.Status{unknown, ok}, faults(wire.BadOutcome), 0},
	{"unknown class", [2]spec.Status{unknown, ok}, faults(wire.BadOutcome), 0},
	{"no class", [2]spec.Status{unknown, ok}, faults(wire.BadOutcome), 0},
	{"no outcome", [2]spec.Status{unknown, ok}, faults(wire.BadOutcome), 0},
	{"receipt elsewhere", [2]spec.Status{unknown, ok}, faults(wire.BadReceipt), 0},
	{"relative receipt", [2]spec.Status{unknown, ok}, faults(wire.BadReceipt), 0},
	{"unknown method", [2]spec.Status{unknown, ok}, faults(wire.UnknownMethod), 0},
	{"unknown notification", [2]spec.Status{ok, ok}, faults(wire.UnknownMethod), 0},
	{"event of no worker", [2]spec.Status{ok, ok}, faults(wire.UnknownMethod), 0},
	{"edit of no worker", [2]spec.Status{unknown, ok}, faults(wire.UnknownMethod), 0},
	{"unknown handler", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"handler of other seam", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"no handler", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"no content", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"file of its choice", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"unknown cause", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"list of params", [2]spec.Status{unknown, ok}, faults(wire.BadParams), 0},
	{"refuses the call", [2]spec.Status{unknown, ok}, nil, 0},
	{"dies in a call", [2]spec.Status{unknown, ok}, nil, 1},
	{"ends mid-line", [2]spec.Status{unknown, ok}, faults(wire.UnfinishedLine), 1},
	{"ends before line feed", [2]spec.Status{unknown, ok}, faults(wire.UnfinishedLine), 1},
	{"silent in a call", [2]spec.Status{unknown, ok}, nil, 0},
	{"late", [2]spec.Status{unknown, ok}, nil, 0},
	{"stops reading", [2]spec.Status{unknown, unknown}, nil, 0},
	{"closes stdout and lives", [2]spec.Status{unknown, ok}, nil, 1},
	{"floods stderr", [2]spec.Status{ok, ok}, nil, 0},
	{"floods stdout", [2]spec.Status{unknown, ok}, flood(wire.NotJSON, 256), 1},
	{"deaf to the end", [2]spec.Status{ok, ok}, nil, 0},
}

func flood(kind wire.Kind, n int) []string {
	return strings.Split(strings.Repeat(string(kind)+" ", n-1)+string(kind), " ")
}

// perform makes two calls and checks what comes of them.
func (p play) perform(t *testing.T, d *Driver, wrap func(*exec.Cmd) error, deadline time.Duration) {
	t.Helper()
	var w witness
	env := w.env("/r")
	env.Wrap = wrap
	s, err := d.Open(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range p.want {
		ctx, cancel := context.WithTimeout(t.Context(), deadline)
		o, err := s.Do(ctx, spec.Call{ID: spec.CallID(i + 1), Kind: spec.CallRead, Path: "f"})
		cancel()
		if err != nil {
			t.Errorf("call %d: %v", i+1, err)
		}
		if o.Status != want {
			t.Errorf("call %d: %v, want %v", i+1, o.Status, want)
		}
	}
	if err := errors.Join(s.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(p.faults, w.faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	died := 0
	for _, d := range w.diags {
		if strings.HasPrefix(d, "ERROR the child ended ") {
			died++
		}
	}
	if died != p.died {
		t.Errorf("%d children ended unasked, want %d: %q", died, p.died, w.diags)
	}
	if n := len(s.(*Session).Stderr()); n > 64<<10 {
		t.Errorf("%d bytes of standard error were kept", n)
	}
}

// In a bubble the clock moves when nothing else does, so silence costs no time,
// and a goroutine that is left over fails the test.
func TestHostileFunctions(t *testing.T) {
	for _, p := range plays {
		t.Run(p.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				p.perform(t, asFunction(p.name, Options{}), nil, time.Minute)
				if took := time.Since(start); took > 3*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A child that cannot be opened is an error that says so, within its time.
func TestUnopenable(t *testing.T) {
	for _, tc := range []struct {
		name   string
		want   string
		faults []string
	}{
		{"version 99", "open a session: hello: [-32001] bad-version: no common version: the runner speaks 1, the child speaks 99\nthe child did not answer as it must", faults(wire.BadVersion)},
		{"unknown policy", "open a session: hello: [-32001] bad-policy: policy links: \"sometimes\" is unknown, want one of [\"refuse\" \"follow\"]\nthe child did not answer as it must", faults(wire.BadPolicy)},
		{"no capabilities", "open a session: hello: [-32001] bad-outcome: hello: capabilities is missing\nthe child did not answer as it must", faults(wire.BadOutcome)},
		{"refuses to open", "open a session: open: [-32000] no\nthe child did not answer as it must", nil},
		{"dies at once", "open a session: hello: it ended: the child did not answer as it must", nil},
		{"silent in a greeting", "open a session: hello: silent for 10s: the child did not answer as it must", nil},
		{"never reads", "open a session: hello: silent for 10s: the child did not answer as it must", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var w witness
				d := asFunction(tc.name, Options{})
				s, err := d.Open(t.Context(), w.env("/r"))
				if err == nil {
					t.Fatalf("it was opened: %v", s.Close())
				}
				if !errors.Is(err, ErrChild) {
					t.Errorf("%v, want an error that wraps ErrChild", err)
				}
				if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
					t.Errorf("error (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.faults, w.faults); diff != "" {
					t.Errorf("faults (-want +got):\n%s", diff)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
