package mcp

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// maxReports is how many diagnostics and faults a session may leave in its trace.
const maxReports = 1000

// session is one root and the servers that are started for it, one after the
// other: when one dies, the call under way is unknown, and the next call gets
// another on the same root.
type session struct {
	d   *Driver
	env sut.Env

	baton chan struct{} // held while the child is replaced or ended; guards child
	child *child

	closed   atomic.Bool
	close    sync.Once
	closeErr error

	mu      sync.Mutex
	failed  error // the bench could not do its part
	reports int
	quiet   bool // closed: nobody listens any more
}

// live returns a child that is greeted, a new one if need be.
func (s *session) live(ctx context.Context) (*child, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err() // a select might choose the baton
	}
	select {
	case s.baton <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.baton }()
	if s.closed.Load() {
		return nil, fmt.Errorf("session: %w", ErrClosed)
	}
	if s.child != nil && !s.child.over() {
		return s.child, nil
	}
	if s.child != nil {
		s.child.await() // two servers in one root would be a race of the bench's making
		s.child = nil
	}
	c, err := s.greet(ctx)
	if err != nil {
		return nil, err
	}
	s.child = c
	return c, nil
}

// Do implements sut.Session. A call that the binding has no words for is refused
// here, as unsupported, and the trace says so. If the deadline of ctx passes,
// the server is told to cancel, and an answer that comes all the same is a
// diagnostic.
func (s *session) Do(ctx context.Context, call spec.Call) (spec.Outcome, error) {
	out := spec.Outcome{Call: call.ID}
	if s.closed.Load() {
		return spec.Outcome{}, fmt.Errorf("session: %w", ErrClosed)
	}
	r, refusal := s.d.opt.Binding.request(s.env.Root, call)
	if refusal != "" {
		s.report("WARN", "the binding cannot carry this call", map[string]string{"why": refusal})
		out.Status, out.Err, out.Detail = spec.StatusFailed, spec.ErrUnsupported, refusal
		return out, nil
	}
	a, err := s.ask(ctx, r)
	if err = errors.Join(err, s.failure()); err != nil {
		return spec.Outcome{}, fmt.Errorf("call %d: %w", call.ID, err)
	}
	switch {
	case a.refusal != nil:
		out.Status, out.Detail = spec.StatusFailed, a.refusal.Message
	case a.result == nil:
		return out, nil
	case a.result.IsError:
		out.Status, out.Detail = spec.StatusFailed, textOf(a.result.Content)
	default:
		out.Status = spec.StatusOK
		if call.Kind == spec.CallRead {
			out.Content = contentOf(a.result.Content)
		}
	}
	if out.Status == spec.StatusFailed {
		out.Err, out.Errno = kindOf(s.d.texts, out.Detail)
	}
	return out, nil
}

// answer is what came back: a result, an error of JSON-RPC, or neither where
// nobody knows.
type answer struct {
	result  *sdk.CallToolResult
	refusal *jsonrpc.Error
}

// ask makes one request and never a second. An error is the bench's.
func (s *session) ask(ctx context.Context, r request) (answer, error) {
	c, err := s.live(ctx)
	if err != nil {
		return answer{}, s.bench(ctx, err)
	}
	result, err := c.mcp.CallTool(ctx, &sdk.CallToolParams{Name: r.tool, Arguments: r.args})
	switch {
	case err != nil:
		return answer{refusal: s.unanswered(ctx, c, err)}, nil
	case result.NeedsInput():
		s.report("WARN", "the server wants an answer from somebody before it goes on", nil)
		return answer{}, nil
	}
	return answer{result: result}, nil
}

// bench returns err unless it is the caller's deadline or the server's doing.
func (s *session) bench(ctx context.Context, err error) error {
	if ctx.Err() == nil && !errors.Is(err, ErrServer) {
		return err
	}
	if ctx.Err() == nil {
		s.report("ERROR", "the server did not come up again", map[string]string{"error": err.Error()})
	}
	return nil
}

// unanswered returns what the server refused the request with, if err is that.
func (s *session) unanswered(ctx context.Context, c *child, err error) *jsonrpc.Error {
	var refusal *jsonrpc.Error
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &refusal):
		s.report("WARN", "the server answered with an error", map[string]string{
			"code": strconv.FormatInt(refusal.Code, 10), "message": refusal.Message,
		})
	case c.over():
		c.await() // its end is told before the outcome that it explains
	default:
		s.fault("bad-outcome", "", err.Error())
	}
	return refusal
}

// textOf returns the text of a result, for people and for ErrorText.
func textOf(blocks []sdk.Content) string {
	var texts []string
	for _, block := range blocks {
		if text, ok := block.(*sdk.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// contentOf returns the bytes that a result holds, in whatever form they come.
func contentOf(blocks []sdk.Content) spec.Content {
	content := spec.Content{}
	for _, block := range blocks {
		switch block := block.(type) {
		case *sdk.TextContent:
			content = append(content, block.Text...)
		case *sdk.ImageContent:
			content = append(content, block.Data...)
		case *sdk.AudioContent:
			content = append(content, block.Data...)
		case *sdk.EmbeddedResource:
			if r := block.Resource; r != nil {
				content = append(append(content, r.Text...), r.Blob...)
			}
		}
	}
	return content
}

// report passes on a diagnostic.
func (s *session) report(level, msg string, attrs map[string]string) {
	s.tell(func() {
		if s.env.Diag != nil {
			s.env.Diag(level, msg, attrs)
		}
	})
}

// fault passes on a departure from MCP.
func (s *session) fault(kind, line, note string) {
	s.tell(func() {
		if s.env.WireFault != nil {
			s.env.WireFault(kind, line, note)
		}
	})
}

func (s *session) tell(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet || s.reports > maxReports {
		return
	}
	if s.reports++; s.reports <= maxReports {
		what()
	} else if s.env.Diag != nil {
		s.env.Diag("ERROR", "more diagnostics were left out", nil)
	}
}

// fail keeps the first error of the bench's own part. No answer after it is
// worth anything.
func (s *session) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = err
	}
}

func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed
}

// Rest implements sut.Lasting. A server knows of no runs: it is enough that it lives.
func (s *session) Rest(ctx context.Context) error { return s.Again(ctx) }

// Again implements sut.Lasting.
func (s *session) Again(ctx context.Context) error {
	select {
	case s.baton <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.baton }()
	if s.closed.Load() || s.child == nil || s.child.over() {
		return ErrServer
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reports = 0 // what one run made the bench write down leaves the next its share
	return s.failed
}

// Close implements sut.Session. The server sees the end of its standard input,
// and is killed after the grace period.
func (s *session) Close() error {
	s.close.Do(func() {
		s.closed.Store(true)
		s.baton <- struct{}{} // a server being started is bounded in time
		defer func() { <-s.baton }()
		if s.child != nil {
			s.child.end()
		}
		s.d.forget(s)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.quiet, s.closeErr = true, s.failed
	})
	return s.closeErr
}
