// Package host runs the calls of a Turn against the file tools and writes what
// happened to the session's Log.
//
// Every denial by the operating system goes on record as it was made, with what
// became of it. The host does not decide what a denial is, and it does not judge
// itself: the Log is evidence for others.
package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fsbench/fsbench/impl/eventlog"
	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Logger receives the events of one session.
type Logger interface {
	Append(typ string, data any) error
}

// Config is what a Host is made of.
type Config struct {
	Root  vfs.Dir // of the workspace; the Logs live below it
	Tools *tools.Tools

	// Now and NewID stamp Log records.
	Now   func() time.Time
	NewID func() string

	// WrapLog may stand between the host and a session's Log; nil does not.
	WrapLog func(Logger) Logger
}

// Host serves calls of any number of sessions.
type Host struct {
	cfg Config

	mu       sync.Mutex
	sessions map[spec.SessionID]*session
}

// session is one agent session: at most one Turn is open in it.
type session struct {
	log *eventlog.Log
	to  Logger

	mu     sync.Mutex
	inTurn bool
}

// New returns a Host without sessions.
func New(cfg Config) *Host {
	return &Host{cfg: cfg, sessions: map[spec.SessionID]*session{}}
}

// Do runs one call. The first call of a session opens a Turn. A call outside any
// session is served and not logged. Where the Log cannot be written the call is
// not run, or its outcome is unknown: an act off the record is worse than none.
func (h *Host) Do(ctx context.Context, c spec.Call) spec.Outcome {
	if c.Session == "" {
		return h.cfg.Tools.Do(ctx, c).Outcome
	}
	if err := eventlog.CheckID(string(c.Session)); err != nil {
		return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrInvalid, Detail: err.Error()}
	}
	s, err := h.session(c.Session)
	if err == nil {
		err = s.begin(c)
	}
	if err != nil {
		return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrOther, Detail: err.Error()}
	}
	res := h.cfg.Tools.Do(ctx, c)
	if err := s.record(c, res); err != nil {
		return spec.Outcome{Call: c.ID, Status: spec.StatusUnknown, Detail: err.Error()}
	}
	return res.Outcome
}

func (h *Host) session(id spec.SessionID) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	log, err := eventlog.Open(h.cfg.Root, id, h.cfg.Now, h.cfg.NewID)
	if err != nil {
		return nil, err
	}
	s := &session{log: log, to: log}
	if h.cfg.WrapLog != nil {
		s.to = h.cfg.WrapLog(log)
	}
	h.sessions[id] = s
	return s, nil
}

func callID(c spec.Call) string { return fmt.Sprintf("c%d", c.ID) }

type message struct {
	Text string `json:"text"`
}

type toolCall struct {
	CallID string         `json:"call_id"`
	Name   string         `json:"name"`
	Args   map[string]any `json:"args"`
}

// begin puts a call on record before it is run.
func (s *session) begin(c spec.Call) error {
	if err := s.openTurn(); err != nil {
		return err
	}
	args := map[string]any{"path": c.Path}
	if c.To != "" {
		args["to"] = c.To
	}
	if c.Content != nil {
		args["bytes"] = len(c.Content)
	}
	return s.to.Append(spec.LogToolCall, toolCall{callID(c), string(c.Kind), args})
}

func (s *session) openTurn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inTurn {
		return nil
	}
	if err := s.to.Append(spec.LogUserMessage, message{"run the calls of this turn"}); err != nil {
		return err
	}
	s.inTurn = true
	return nil
}

func (s *session) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.inTurn {
		err = s.to.Append(spec.LogAssistantMessage, message{"done"})
	}
	return errors.Join(err, s.log.Close())
}

// decision is a denial by the operating system. Its gate keeps it out of the
// confession, which is about the write policy alone.
type decision struct {
	CallID        string `json:"call_id"`
	Decision      string `json:"decision"`
	Gate          string `json:"gate"`
	Tool          string `json:"tool"`
	RequestedPath string `json:"requested_path"`
	Dst           string `json:"dst,omitempty"`
	Cause         string `json:"cause"`
	Landed        bool   `json:"landed"`
}

type toolResult struct {
	CallID string       `json:"call_id"`
	OK     bool         `json:"ok"`
	Output *toolOutput  `json:"output,omitempty"`
	Error  *resultError `json:"error,omitempty"`
}

type toolOutput struct {
	Version string `json:"version,omitempty"`
}

type resultError struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
}

// record writes the denials first and then the result, so that whoever sees a
// result has seen what was refused on the way to it (FB-031).
func (s *session) record(c spec.Call, res tools.Result) error {
	for _, r := range res.Refusals {
		err := s.to.Append(spec.LogPermissionDecision, decision{
			CallID: callID(c), Decision: "deny", Gate: string(r.Gate), Tool: r.Tool,
			RequestedPath: r.Target, Dst: r.Dst, Cause: string(r.Cause), Landed: r.Landed,
		})
		if err != nil {
			return err
		}
	}
	out := toolResult{CallID: callID(c), OK: res.Status == spec.StatusOK}
	switch res.Status {
	case spec.StatusOK:
		out.Output = &toolOutput{res.Version}
	case spec.StatusFailed:
		out.Error = &resultError{spec.ToolCodeOf(res.Err), res.Detail}
	case spec.StatusUnknown:
		out.Error = &resultError{"outcome_unknown", res.Detail}
	}
	return s.to.Append(spec.LogToolResult, out)
}

// ReadLog returns the bytes of a session's Log from off on. There is none, and that
// is no error, for calls outside any session and for an id that no session can have.
func (h *Host) ReadLog(id spec.SessionID, off int64) ([]byte, error) {
	if eventlog.CheckID(string(id)) != nil {
		return nil, nil //nolint:nilerr // see above
	}
	s, err := h.session(id)
	if err != nil {
		return nil, err
	}
	return s.log.Read(off)
}

// Close ends the open Turns, in the order of the sessions' ids, and releases the
// Logs.
func (h *Host) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(h.sessions)) {
		errs = append(errs, h.sessions[id].close())
	}
	clear(h.sessions)
	return errors.Join(errs...)
}
