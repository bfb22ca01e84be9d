package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/creachadair/jrpc2"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

// server is the state of one conversation.
type server struct {
	opt  Options
	ctx  context.Context // of the conversation; calls out of a file system have no other
	conn *wire.Conn
	rpc  *jrpc2.Server

	mu      sync.Mutex
	greeted bool
	plan    json.RawMessage // armed, not opened yet
	current *opened         // nil outside open and close
}

// opened is the one session that is open.
type opened struct {
	session sut.Session
	disarm  func() []string // nil without a plan
	counts  counter         // nil without a plan
	calls   calls

	mu      sync.Mutex // held from asking for entries until they are kept, so that their order is the Log's
	entries map[spec.SessionID][]wire.LogEntry
}

func (s *server) open(ctx context.Context, p wire.Open) (wire.Empty, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.greeted:
		return wire.Empty{}, tooSoon("open: want hello first")
	case s.current != nil:
		return wire.Empty{}, tooSoon("open: want close first, one session is open at a time")
	case !filepath.IsAbs(p.Root):
		return wire.Empty{}, badParams(errors.New("root: want an absolute path"))
	case p.Policy != nil:
		return wire.Empty{}, badParams(errors.New("policy: this server's write policy is chosen when it is started"))
	case p.Workspace != "" && p.Workspace != p.Root:
		return wire.Empty{}, badParams(errors.New("workspace: this server's workspace is its root"))
	}
	env := sut.Env{Root: p.Root, FS: s.opt.FS, Policies: s.opt.Policies, Diag: s.diag}
	for _, b := range p.Brokers {
		h, err := s.handler(b)
		if err != nil {
			return wire.Empty{}, badParams(err)
		}
		env.Handlers = append(env.Handlers, h)
	}
	o := &opened{entries: map[spec.SessionID][]wire.LogEntry{}}
	if s.plan != nil {
		var err error
		env.FS, o.disarm, err = s.opt.Arm(s.plan, p.Root, s.emit, s.edit)
		if err != nil {
			return wire.Empty{}, badParams(fmt.Errorf("plan: %w", err))
		}
		o.counts, _ = env.FS.(counter)
		s.plan = nil
	}
	var err error
	if o.session, err = s.opt.Driver.Open(ctx, env); err != nil {
		if o.disarm != nil {
			o.disarm()
		}
		return wire.Empty{}, fmt.Errorf("open: %w", err)
	}
	s.current = o
	return wire.Empty{}, nil
}

// need returns the open session.
func (s *server) need(method string) (*opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return nil, tooSoon("%s: want open first", method)
	}
	return s.current, nil
}

func (s *server) do(ctx context.Context, p wire.Do) (wire.Outcome, error) {
	call, err := p.Call.Spec(wire.ReadFile)
	if err != nil {
		return wire.Outcome{}, badParams(fmt.Errorf("call.%w", err))
	}
	o, err := s.need(wire.MethodDo)
	if err != nil {
		return wire.Outcome{}, err
	}
	o.calls.begin()
	defer o.calls.end()
	if p.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(p.Deadline)*time.Millisecond)
		defer cancel()
	}
	if o.counts != nil {
		o.counts.Begin(call.ID)
	}
	outcome, err := o.session.Do(ctx, call)
	if err == nil {
		err = s.left(o)
	}
	switch {
	case err != nil:
		return wire.Outcome{}, fmt.Errorf("do: %w", err)
	case len(outcome.Content) > wire.MaxReply:
		// Cutting it short would be an answer that the subject did not give.
		return wire.Outcome{}, fmt.Errorf("do: %d bytes of content, at most %d fit in an answer", len(outcome.Content), wire.MaxReply)
	}
	return wire.FromOutcome(outcome)
}

// counter is a file system that is told of each call.
type counter interface {
	Begin(id spec.CallID)
	Left() []string // what the call has left open
}

// left tells the runner of a worker what its call has left open.
func (s *server) left(o *opened) error {
	if o.counts == nil {
		return nil
	}
	paths := o.counts.Left()
	if len(paths) == 0 {
		return nil
	}
	return s.emit(faults.Message{Event: trace.Event{Actor: trace.ActorWorld, Left: &trace.Left{Paths: paths}}})
}

// log answers with the whole Log. The driver gives what is new each time, and
// the runner may be another one than the last.
func (s *server) log(ctx context.Context, p wire.Log) (wire.Entries, error) {
	o, err := s.need(wire.MethodLog)
	if err != nil {
		return wire.Entries{}, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	entries, ok, err := o.session.Log(ctx, p.Session)
	switch {
	case err != nil:
		return wire.Entries{}, fmt.Errorf("log: %w", err)
	case !ok:
		return wire.Entries{}, errors.New("log: this subject exposes no Log")
	}
	for _, e := range entries {
		o.entries[p.Session] = append(o.entries[p.Session], wire.FromLogEntry(e))
	}
	return wire.Entries{Entries: append([]wire.LogEntry{}, o.entries[p.Session]...)}, nil
}

func (s *server) confess(ctx context.Context, p wire.Confess) (wire.Confession, error) {
	switch {
	case p.Session != nil && p.Events == nil && p.Log == nil:
		return s.confessSession(ctx, *p.Session)
	case p.Session != nil || (p.Events == nil) == (p.Log == nil):
		return wire.Confession{}, badParams(errors.New("want exactly one of session, events and log_b64"))
	case s.opt.Fold == nil:
		return wire.Confession{}, badParams(errors.New("this server confesses its own sessions only: want session"))
	}
	c, err := s.opt.Fold(p.Events, p.Log)
	if err != nil {
		return wire.Confession{}, fmt.Errorf("confess: %w", err)
	}
	return wire.FromConfession(c), nil
}

func (s *server) confessSession(ctx context.Context, id spec.SessionID) (wire.Confession, error) {
	o, err := s.need(wire.MethodConfess)
	if err != nil {
		return wire.Confession{}, err
	}
	c, ok, err := o.session.Confession(ctx, id)
	switch {
	case err != nil:
		return wire.Confession{}, fmt.Errorf("confess: %w", err)
	case !ok:
		return wire.Confession{}, errors.New("confess: this subject has no confession")
	}
	return wire.FromConfession(c), nil
}

// cancel ends the context of a request under way; its answer still comes.
func (s *server) cancel(_ context.Context, p wire.Cancel) (wire.Empty, error) {
	s.rpc.CancelRequest(string(p.ID))
	return wire.Empty{}, nil
}

// quiesce waits for the calls under way.
func (s *server) quiesce(ctx context.Context, _ wire.Session) (wire.Empty, error) {
	o, err := s.need(wire.MethodQuiesce)
	if err != nil {
		return wire.Empty{}, err
	}
	return wire.Empty{}, o.calls.wait(ctx)
}

// calls counts the calls under way.
type calls struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is 0 again
}

func (c *calls) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n++; c.n == 1 {
		c.idle = make(chan struct{})
	}
}

func (c *calls) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n--; c.n == 0 {
		close(c.idle)
	}
}

func (c *calls) wait(ctx context.Context) error {
	c.mu.Lock()
	n, idle := c.n, c.idle
	c.mu.Unlock()
	if n == 0 {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("quiesce: %w", ctx.Err())
	}
}

// close serves shutdown too: the process then ends with its standard input.
func (s *server) close(context.Context, wire.Session) (wire.Empty, error) {
	return wire.Empty{}, s.closeSession()
}

func (s *server) closeSession() error {
	s.mu.Lock()
	o := s.current
	s.current, s.plan = nil, nil
	s.mu.Unlock()
	if o == nil {
		return nil
	}
	if o.disarm != nil {
		o.disarm()
	}
	if err := o.session.Close(); err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

func (s *server) arm(_ context.Context, p wire.Arm) (wire.Unfired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		return wire.Unfired{}, tooSoon("worker/arm: want it before open")
	}
	s.plan = p.Plan
	return wire.Unfired{Unfired: []string{}}, nil
}

func (s *server) disarm(context.Context, wire.Empty) (wire.Unfired, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil || s.current.disarm == nil {
		return wire.Unfired{}, tooSoon("worker/disarm: no plan is armed")
	}
	unfired := append([]string{}, s.current.disarm()...)
	s.current.disarm = nil
	return wire.Unfired{Unfired: unfired}, nil
}

// emit sends one message of a plan and waits until it has left the process: the next
// thing that happens may be this process's death.
func (s *server) emit(m faults.Message) error {
	if err := s.rpc.Notify(s.ctx, wire.MethodEvent, m); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	return s.conn.Flush(s.ctx)
}

// edit has the runner change the tree, and reports whether that could be done.
func (s *server) edit(e spec.Edit) (done bool, err error) {
	response, err := s.rpc.Callback(s.ctx, wire.MethodEdit, wire.Edit{Edit: e})
	if err != nil {
		return false, fmt.Errorf("edit: %w", err)
	}
	var answer wire.Edited
	if err := wire.Decode(json.RawMessage(response.ResultString()), &answer); err != nil {
		return false, fmt.Errorf("edit: %w", err)
	}
	return answer.Done, nil
}

// handler makes a handler that asks the runner.
func (s *server) handler(b wire.BrokerID) (sut.Handler, error) {
	h := sut.Handler{Seam: b.Seam}
	switch b.Seam {
	case spec.SeamWrite:
		h.Write = func(ctx context.Context, r spec.WriteRequest) (bool, error) {
			w, err := wire.FromWrite(b.ID, r, wire.Inline)
			if err != nil {
				return false, err
			}
			return s.ask(ctx, wire.MethodWrite, w)
		}
	case spec.SeamDelete:
		h.Delete = func(ctx context.Context, r spec.DeleteRequest) (bool, error) {
			w, err := wire.FromDelete(b.ID, r)
			if err != nil {
				return false, err
			}
			return s.ask(ctx, wire.MethodDelete, w)
		}
	default:
		return h, fmt.Errorf("brokers: seam %q: want write or delete", b.Seam)
	}
	return h, nil
}

// ask asks the runner's handler, and stops waiting when ctx ends.
//
// The request itself lasts as long as the conversation: were it to end with
// ctx, the library would forget it and answer the runner's late answer with an
// error, which the runner never asked for.
func (s *server) ask(ctx context.Context, method string, params any) (landed bool, err error) {
	type reply struct {
		response *jrpc2.Response
		err      error
	}
	replied := make(chan reply, 1)
	go func() {
		response, err := s.rpc.Callback(s.ctx, method, params)
		replied <- reply{response, err}
	}()
	var answer wire.Landed
	select {
	case r := <-replied:
		if err = r.err; err == nil {
			err = wire.Decode(json.RawMessage(r.response.ResultString()), &answer)
		}
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", method, err)
	}
	return answer.Landed, nil
}

// diag writes a diagnostic as a log line.
func (s *server) diag(level, msg string, attrs map[string]string) {
	var l slog.Level
	if l.UnmarshalText([]byte(strings.ToUpper(level))) != nil {
		l = slog.LevelError // a level that nobody knows must not hide what it labels
	}
	var pairs []slog.Attr
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		pairs = append(pairs, slog.String(name, attrs[name]))
	}
	s.opt.Log.LogAttrs(s.ctx, l, msg, pairs...)
}
