package suttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// Plain returns a subject for adaptors to be tried with: it keeps its files in
// memory, so that any root will do, and is denied DeniedFile and nothing else.
// It claims what it does and does what it claims.
func Plain() sut.Driver { return &plain{} }

type plain struct {
	mu     sync.Mutex
	closed bool
}

// errClosed is what a closed plain subject answers with.
var errClosed = errors.New("closed")

func (*plain) Info(context.Context) (sut.Info, error) {
	return sut.Info{
		Name: "plain", Version: "1", Roles: []sut.Role{sut.RoleTools, sut.RoleRegistry},
		Features: []string{"confess", "delete", "log", "read", "write"},
		Policies: spec.Policies{spec.PolicyLinks: spec.LinksRefuse},
	}, nil
}

func (p *plain) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, fmt.Errorf("plain: %w", errClosed)
	}
	info, _ := p.Info(ctx) // never fails
	for name, value := range env.Policies {
		if info.Policies[name] != value {
			return nil, fmt.Errorf("plain: %s=%s: %w", name, value, sut.ErrPolicy)
		}
	}
	return &plainSession{
		env: env, files: map[string]spec.Content{DeniedFile: spec.Content("denied")},
		log: map[spec.SessionID][]spec.LogEntry{},
	}, nil
}

func (p *plain) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

type plainSession struct {
	env sut.Env

	mu     sync.Mutex
	closed bool
	files  map[string]spec.Content
	seq    int
	log    map[spec.SessionID][]spec.LogEntry // not handed out yet
}

func (s *plainSession) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return spec.Outcome{}, fmt.Errorf("plain: %w", errClosed)
	}
	o := spec.Outcome{Call: c.ID}
	if ctx.Err() != nil {
		return o, nil
	}
	s.note(c)
	content, exists := s.files[c.Path]
	switch {
	case c.Kind == spec.CallRead && exists:
		o.Status, o.Content = spec.StatusOK, content
	case c.Kind == spec.CallWrite && c.Path != DeniedFile:
		s.files[c.Path] = c.Content
		o.Status = spec.StatusOK
		o.Receipt = &spec.Receipt{Dst: filepath.Join(s.env.Root, c.Path), Size: int64(len(c.Content))}
	case c.Kind == spec.CallWrite, c.Kind == spec.CallDelete && c.Path == DeniedFile:
		o.Status, o.Err = s.offer(ctx, c)
	case c.Kind == spec.CallDelete && exists:
		delete(s.files, c.Path)
		o.Status = spec.StatusOK
	case c.Kind == spec.CallRead, c.Kind == spec.CallDelete:
		o.Status, o.Err, o.Detail = spec.StatusFailed, spec.ErrNotFound, "there is no such file"
	default:
		o.Status, o.Err = spec.StatusFailed, spec.ErrUnsupported
	}
	return o, nil
}

// note logs a call.
func (s *plainSession) note(c spec.Call) {
	s.log[c.Session] = append(s.log[c.Session], spec.LogEntry{
		ID: fmt.Sprintf("%016x", s.seq), Session: string(c.Session), Seq: json.RawMessage(fmt.Sprint(s.seq)),
		Time: "2026-01-01T00:00:00Z", Type: spec.LogToolCall, Data: json.RawMessage(fmt.Sprintf(`{"call_id":"%d"}`, c.ID)),
	})
	s.seq++
}

// offer asks the handlers of the seam in order. One that is busy when ctx ends
// is not waited for.
func (s *plainSession) offer(ctx context.Context, c spec.Call) (spec.Status, spec.ErrKind) {
	denial := spec.Denial{
		Call: c.ID, Session: c.Session, Tool: string(c.Kind), Gate: spec.GateOS, Target: c.Path,
		Dst: filepath.Join(s.env.Root, c.Path), Cause: spec.ErrAccess,
	}
	for i, h := range s.env.Handlers {
		if (h.Seam == spec.SeamWrite) != (c.Kind == spec.CallWrite) {
			continue
		}
		type answer struct {
			landed bool
			err    error
		}
		answered := make(chan answer, 1)
		go func() {
			var a answer
			if h.Seam == spec.SeamWrite {
				a.landed, a.err = h.Write(ctx, spec.WriteRequest{Denial: denial, Content: c.Content})
			} else {
				a.landed, a.err = h.Delete(ctx, spec.DeleteRequest{Denial: denial, ConfirmedFile: true})
			}
			answered <- a
		}()
		select {
		case a := <-answered:
			if a.landed {
				return spec.StatusOK, spec.ErrNone
			}
			if a.err != nil && s.env.Diag != nil {
				s.env.Diag("WARN", "a handler failed", map[string]string{"handler": fmt.Sprint(i + 1), "error": a.err.Error()})
			}
		case <-ctx.Done():
			return spec.StatusUnknown, spec.ErrNone
		}
	}
	return spec.StatusFailed, spec.ErrAccess
}

func (s *plainSession) Log(_ context.Context, id spec.SessionID) ([]spec.LogEntry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	entries := s.log[id]
	s.log[id] = nil
	return entries, true, nil
}

// Confession is of no policy denial: it has no policy.
func (*plainSession) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	none := 0
	return spec.Confession{Count: &none, Denials: []json.RawMessage{}}, true, nil
}

func (s *plainSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
