package suttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// roots are names only: the plain subject looks at none.
func roots() func() (string, error) {
	var n atomic.Int32
	return func() (string, error) { return fmt.Sprintf("/made/%d", n.Add(1)), nil }
}

func TestPlainIsSound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := TestDriver(t.Context(), Plain(), roots()); err != nil {
			t.Error(err)
		}
	})
}

// mutant is a plain subject behind an adaptor with one thing wrong.
type mutant struct {
	sut.Driver
	info  func(sut.Info) (sut.Info, error)
	open  func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error)
	do    func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error)
	log   func(next []spec.LogEntry) ([]spec.LogEntry, bool, error)
	con   func() (spec.Confession, bool, error)
	end   func(s *mutantSession) error
	close func() error
}

func (m *mutant) Info(ctx context.Context) (sut.Info, error) {
	info, err := m.Driver.Info(ctx)
	if m.info != nil && err == nil {
		return m.info(info)
	}
	return info, err
}

func (m *mutant) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	next := func(env sut.Env) (sut.Session, error) {
		s, err := m.Driver.Open(ctx, env)
		if err != nil {
			return nil, err
		}
		return &mutantSession{Session: s, m: m, env: env}, nil
	}
	if m.open != nil {
		return m.open(env, next)
	}
	return next(env)
}

func (m *mutant) Close() error {
	if m.close != nil {
		return m.close()
	}
	return m.Driver.Close()
}

type mutantSession struct {
	sut.Session
	m      *mutant
	env    sut.Env
	closes int
}

func (s *mutantSession) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	if s.m.do != nil {
		return s.m.do(ctx, s.Session, c)
	}
	return s.Session.Do(ctx, c)
}

func (s *mutantSession) Log(ctx context.Context, id spec.SessionID) ([]spec.LogEntry, bool, error) {
	entries, exposed, err := s.Session.Log(ctx, id)
	if s.m.log != nil {
		return s.m.log(entries)
	}
	return entries, exposed, err
}

func (s *mutantSession) Confession(ctx context.Context, id spec.SessionID) (spec.Confession, bool, error) {
	if s.m.con != nil {
		return s.m.con()
	}
	return s.Session.Confession(ctx, id)
}

func (s *mutantSession) Close() error {
	s.closes++
	if s.m.end != nil {
		return s.m.end(s)
	}
	return s.Session.Close()
}

// rewrite changes what handlers are given.
func rewrite(change func(*spec.WriteRequest)) func(sut.Env, func(sut.Env) (sut.Session, error)) (sut.Session, error) {
	return func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
		handlers := append([]sut.Handler(nil), env.Handlers...)
		for i, h := range handlers {
			if h.Write != nil {
				handlers[i].Write = func(ctx context.Context, r spec.WriteRequest) (bool, error) {
					change(&r)
					return h.Write(ctx, r)
				}
			}
		}
		env.Handlers = handlers
		return next(env)
	}
}

var errBroken = errors.New("broken")

// Each way to be a bad adaptor is told, and told as what it is.
func TestBrokenDrivers(t *testing.T) {
	calls := 0
	for _, tc := range []struct {
		name string
		m    mutant
		want string // in the error
	}{
		{"info fails", mutant{info: func(i sut.Info) (sut.Info, error) { return i, errBroken }}, "info: broken"},
		{"info changes", mutant{info: func(i sut.Info) (sut.Info, error) {
			calls++
			i.Version = fmt.Sprint(calls)
			return i, nil
		}}, "info: it was"},
		{"no name", mutant{info: func(i sut.Info) (sut.Info, error) { i.Name = ""; return i, nil }}, "info: want a name"},
		{"unknown role", mutant{info: func(i sut.Info) (sut.Info, error) { i.Roles = append(i.Roles[:2:2], "oracle"); return i, nil }}, `info: role "oracle" is unknown`},
		{"unknown policy", mutant{info: func(i sut.Info) (sut.Info, error) { i.Policies = spec.Policies{"links": "sometimes"}; return i, nil }}, "info: policy links=sometimes is unknown"},
		{"unknown settable", mutant{info: func(i sut.Info) (sut.Info, error) { i.Settable = []string{"colour"}; return i, nil }}, "info: policy colour is said to be settable and is unknown"},
		{"open fails", mutant{open: func(sut.Env, func(sut.Env) (sut.Session, error)) (sut.Session, error) { return nil, errBroken }}, "outcome: open: broken"},
		{"failure as error", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			if o.Status == spec.StatusFailed {
				return spec.Outcome{}, errors.New(string(o.Err))
			}
			return o, err
		}}, "outcome: read: an error, want an outcome: ENOENT"},
		{"outcome beside error", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			o.Call = c.ID
			return o, err
		}}, "want one or the other"},
		{"answer of another call", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			if err == nil {
				o.Call++
			}
			return o, err
		}}, "outcome: read: the outcome is of call 2, want 1"},
		{"failed without a kind", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			o.Err = ""
			return o, err
		}}, `outcome: read: failed with "", want a kind of failure`},
		{"kind without failure", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			if o.Status == spec.StatusUnknown && err == nil {
				o.Err = spec.ErrOther
			}
			return o, err
		}}, `cancelled: read: unknown with the error "other", want none`},
		{"all is well", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			o, err := s.Do(ctx, c)
			if o.Status == spec.StatusFailed {
				o.Status, o.Err = spec.StatusOK, ""
			}
			return o, err
		}}, "handlers asked with no bytes: every handler declined, and the outcome is ok"},
		{"cancelled is an error", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			if ctx.Err() != nil {
				return spec.Outcome{}, ctx.Err()
			}
			return s.Do(ctx, c)
		}}, "cancelled: read: an error, want an outcome: context canceled"},
		{"cancelled is ignored", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			return s.Do(context.WithoutCancel(ctx), c)
		}}, "cancelled: a call whose context had ended: failed, want unknown"},
		{"cancelled ends the session", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			if c.ID > 3 {
				return spec.Outcome{Call: c.ID}, nil
			}
			return s.Do(ctx, c)
		}}, "sessions: after another session was closed: unknown, want an answer"},
		{"any policy", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			env.Policies = nil
			return next(env)
		}}, "policy: opened with case=exact, which it does not declare"},
		{"policy as any error", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if env.Policies != nil {
				return nil, errBroken
			}
			return next(env)
		}}, "policy: open with case=exact: want an error that wraps sut.ErrPolicy, got: broken"},
		{"log fails", mutant{log: func([]spec.LogEntry) ([]spec.LogEntry, bool, error) { return nil, true, errBroken }}, "log: broken"},
		{"log repeats itself", mutant{log: func([]spec.LogEntry) ([]spec.LogEntry, bool, error) {
			return []spec.LogEntry{{ID: "1"}}, true, nil
		}}, "log: again: 1 entries"},
		{"log that is none", mutant{log: func(next []spec.LogEntry) ([]spec.LogEntry, bool, error) { return next, false, nil }}, "log: 1 entries of a Log that is not exposed"},
		{"confession of null", mutant{con: func() (spec.Confession, bool, error) { return spec.Confession{}, true, nil }}, "log: confession: denials are null"},
		{"confession fails", mutant{con: func() (spec.Confession, bool, error) { return spec.Confession{}, false, errBroken }}, "log: confession: broken"},
		{"confession that is none", mutant{con: func() (spec.Confession, bool, error) { return spec.Confession{Status: "x"}, false, nil }}, "and there is none"},
		{"one session at a time", mutant{}, ""}, // filled in below
		{"one session, unsaid", mutant{}, "sessions: open: broken"},
		{"bytes cut", mutant{open: rewrite(func(r *spec.WriteRequest) { r.Content = r.Content[:min(len(r.Content), 4096)] })}, "handlers asked with 1 MiB: handler 1 was given 4096 bytes"},
		{"bytes as text", mutant{open: rewrite(func(r *spec.WriteRequest) {
			r.Content = spec.Content(strings.ToValidUTF8(string(r.Content), "\ufffd"))
		})}, "handlers asked with every byte value: handler 1 was given"},
		{"relative destination", mutant{open: rewrite(func(r *spec.WriteRequest) { r.Dst = DeniedFile })}, `was asked for "denied/file", want an absolute path under the root`},
		{"session of somebody", mutant{open: rewrite(func(r *spec.WriteRequest) { r.Session = "" })}, `was asked for session "", want "suttest-1"`},
		{"handlers turned round", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if len(env.Handlers) == 3 {
				env.Handlers = []sut.Handler{env.Handlers[2], env.Handlers[1], env.Handlers[0]}
			}
			return next(env)
		}}, "handlers were asked in the order [3 1], want 1 and 3"},
		{"handlers forgotten", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			env.Handlers = nil
			return next(env)
		}}, "given up: no handler was asked"},
		{"answers invented", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if len(env.Handlers) == 3 {
				h := env.Handlers[0]
				env.Handlers[0].Write = func(ctx context.Context, r spec.WriteRequest) (bool, error) {
					_, _ = h.Write(ctx, r)
					return true, nil
				}
			}
			return next(env)
		}}, "handler that fails: every handler failed, and the outcome is ok"},
		{"seams confused", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if len(env.Handlers) == 3 {
				w := env.Handlers[0].Write
				env.Handlers[1].Delete = func(ctx context.Context, r spec.DeleteRequest) (bool, error) {
					return w(ctx, spec.WriteRequest{Denial: r.Denial})
				}
			}
			return next(env)
		}}, "delete handlers: handler 1 was asked, want 2"},
		{"handler waited for", mutant{do: func(ctx context.Context, s sut.Session, c spec.Call) (spec.Outcome, error) {
			if c.Path == DeniedFile {
				ctx = context.WithoutCancel(ctx)
			}
			return s.Do(ctx, c)
		}}, "given up: the call went on for"},
		{"close fails", mutant{end: func(s *mutantSession) error { return errors.Join(s.Session.Close(), errBroken) }}, "outcome: first close: broken"},
		{"close twice fails", mutant{end: func(s *mutantSession) error {
			if s.closes > 1 {
				return errBroken
			}
			return s.Session.Close()
		}}, "outcome: second close: broken"},
		{"close does nothing", mutant{end: func(*mutantSession) error { return nil }}, "a call after close gave an outcome, want an error"},
		{"talks after close", mutant{end: func(s *mutantSession) error {
			if s.closes == 2 {
				s.env.Diag("WARN", "by the way", nil)
			}
			return s.Session.Close()
		}}, "Diag was called after close"},
		{"departs from the protocol", mutant{open: func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if env.WireFault != nil {
				env.WireFault("not-json", "", "")
			}
			return next(env)
		}}, "1 protocol faults, want none"},
		{"driver close fails", mutant{close: func() error { return errBroken }}, "close: first: broken"},
		{"driver close does nothing", mutant{close: func() error { return nil }}, "close: a session was opened after it"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := tc.m
				m.Driver = Plain()
				switch tc.name {
				case "one session at a time":
					m.open, m.end = single(errors.ErrUnsupported)
				case "one session, unsaid":
					m.open, m.end = single(errBroken)
				}
				err := TestDriver(t.Context(), &m, roots())
				if tc.want == "" {
					if err != nil {
						t.Errorf("%v, want no complaint", err)
					}
					return
				}
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%v\nwant: %s", err, tc.want)
				}
			})
		})
	}
}

// single refuses a second session at a time with why.
func single(why error) (
	func(sut.Env, func(sut.Env) (sut.Session, error)) (sut.Session, error), func(*mutantSession) error,
) {
	open := 0
	return func(env sut.Env, next func(sut.Env) (sut.Session, error)) (sut.Session, error) {
			if open > 0 {
				return nil, why
			}
			s, err := next(env)
			if err == nil {
				open++
			}
			return s, err
		}, func(s *mutantSession) error {
			if s.closes == 1 {
				open--
			}
			return s.Session.Close()
		}
}

func TestRootsThatCannotBeMade(t *testing.T) {
	err := TestDriver(t.Context(), Plain(), func() (string, error) { return "", errBroken })
	if !errors.Is(err, errBroken) {
		t.Errorf("%v, want the error of who makes the roots", err)
	}
}

func TestPlainFiles(t *testing.T) {
	s, err := Plain().Open(t.Context(), sut.Env{Root: "/r"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		call spec.Call
		want spec.Outcome
	}{
		{spec.Call{ID: 1, Kind: spec.CallWrite, Path: "f", Content: spec.Content("x")}, spec.Outcome{Call: 1, Status: spec.StatusOK, Receipt: &spec.Receipt{Dst: "/r/f", Size: 1}}},
		{spec.Call{ID: 2, Kind: spec.CallRead, Path: "f"}, spec.Outcome{Call: 2, Status: spec.StatusOK, Content: spec.Content("x")}},
		{spec.Call{ID: 3, Kind: spec.CallDelete, Path: "f"}, spec.Outcome{Call: 3, Status: spec.StatusOK}},
		{spec.Call{ID: 4, Kind: spec.CallDelete, Path: "f"}, spec.Outcome{Call: 4, Status: spec.StatusFailed, Err: spec.ErrNotFound, Detail: "there is no such file"}},
		{spec.Call{ID: 5, Kind: spec.CallMove, Path: "f"}, spec.Outcome{Call: 5, Status: spec.StatusFailed, Err: spec.ErrUnsupported}},
		{spec.Call{ID: 6, Kind: spec.CallWrite, Path: DeniedFile}, spec.Outcome{Call: 6, Status: spec.StatusFailed, Err: spec.ErrAccess}},
	} {
		got, err := s.Do(t.Context(), tc.call)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.call.Kind, diff)
		}
	}
}
