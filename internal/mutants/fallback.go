package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/impl/host"
	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/vfs"
)

// deniedBut returns a Steps function that changes what counts as a denial.
func deniedBut(kind spec.ErrKind, is bool) func(*tools.Steps) {
	return func(s *tools.Steps) {
		ref := s.Denied
		s.Denied = func(k spec.ErrKind) bool {
			if k == kind {
				return is
			}
			return ref(k)
		}
	}
}

// fallbacks holds the mutants of FB- rules.
var fallbacks = []Mutant{
	{
		Name: "diverts-full-disk", Rule: "FB-001", Breaks: "asks handlers after ENOSPC",
		Variant: inproc.Variant{Steps: deniedBut(spec.ErrNoSpace, true)},
	},
	{
		Name: "diverts-busy", Rule: "FB-001", Breaks: "asks handlers after EBUSY",
		Variant: inproc.Variant{Steps: deniedBut(spec.ErrBusy, true)},
	},
	{
		Name: "overlooks-erofs", Rule: "FB-002", Breaks: "does not take EROFS for a denial",
		Variant: inproc.Variant{Steps: deniedBut(spec.ErrReadOnly, false)},
	},
	{
		Name: "overlooks-eperm", Rule: "FB-002", Breaks: "does not take EPERM for a denial",
		Variant: inproc.Variant{Steps: deniedBut(spec.ErrNotPermitted, false)},
	},
	{
		Name: "last-first", Rule: "FB-003", Breaks: "asks the handler that came last first",
		Variant: inproc.Variant{Handlers: func(hs []sut.Handler) []sut.Handler {
			hs = slices.Clone(hs)
			slices.Reverse(hs)
			return hs
		}},
	},
	{
		Name: "asks-twice", Rule: "FB-003", Breaks: "asks every handler a second time before the next one",
		Variant: inproc.Variant{Handlers: func(hs []sut.Handler) (twice []sut.Handler) {
			for _, h := range hs {
				twice = append(twice, h, h)
			}
			return twice
		}},
	},
	{
		Name: "trusts-yes", Rule: "FB-004", Breaks: "takes a handler's yes for success without looking",
		Variant: inproc.Variant{Steps: func(s *tools.Steps) {
			s.ReadBack = func(look func() (string, error)) (string, error) {
				v, err := look()
				if err != nil {
					return "trusted", nil
				}
				return v, nil
			}
		}},
	},
	{
		Name: "asks-everybody", Rule: "FB-005", Breaks: "goes on asking after a yes",
		Variant: inproc.Variant{Seam: asking(func(bool, error) bool { return false })},
	},
	{
		Name: "empties-for-delete", Rule: "FB-006", Breaks: "offers a denied delete to write handlers, as an empty write",
		Variant: inproc.Variant{Seam: func(ref tools.Seam, _ sut.Env) tools.Seam {
			return seam{ref: ref, delete: func(ctx context.Context, r spec.DeleteRequest) bool {
				return ref.OfferDelete(ctx, r) || ref.OfferWrite(ctx, spec.WriteRequest{Denial: r.Denial, Content: spec.Content{}})
			}}
		}},
	},
	{
		Name: "deletes-for-write", Rule: "FB-007", Breaks: "asks delete handlers to clear the way for a denied write",
		Variant: inproc.Variant{Seam: func(ref tools.Seam, _ sut.Env) tools.Seam {
			return seam{ref: ref, write: func(ctx context.Context, r spec.WriteRequest) bool {
				return ref.OfferWrite(ctx, r) || ref.OfferDelete(ctx, spec.DeleteRequest{Denial: r.Denial}) && ref.OfferWrite(ctx, r)
			}}
		}},
	},
	{
		Name: "ends-with-failure", Rule: "FB-008", Breaks: "stops asking when a handler fails",
		Variant: inproc.Variant{Seam: asking(func(landed bool, err error) bool { return landed || err != nil })},
	},
	{
		Name: "silent-failure", Rule: "FB-009", Breaks: "says nothing of a handler that failed",
		Variant: inproc.Variant{Logger: slog.New(slog.DiscardHandler)},
	},
	{
		Name: "blames-handlers", Rule: "FB-010", Breaks: "reports that handlers declined in the place of the denial",
		Variant: inproc.Variant{Each: blamesHandlers},
	},
	{
		Name: "mkdir-is-missing", Rule: "FB-011", Breaks: "takes a parent that may not be made for one that is missing",
		Variant: inproc.Variant{FS: port(hooks{mkdir: func(d vfs.Dir, name string, perm fs.FileMode) error {
			err := d.Mkdir(name, perm)
			if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
				return relabel(err, "mkdirat", name, syscall.ENOENT)
			}
			return err
		}})},
	},
	{
		Name: "diverts-missing", Rule: "FB-012", Breaks: "asks handlers to delete what is not there",
		Variant: inproc.Variant{Each: func() inproc.Variant { return whileDeleting(missingIsDenied) }},
	},
	{
		Name: "lexical-destination", Rule: "FB-013", Breaks: "derives the destination from the spelling of the path",
		Variant: inproc.Variant{Seam: denials(func(env sut.Env, d *spec.Denial) {
			d.Dst = path.Join(env.Root, strings.TrimPrefix(d.Target, env.Root))
		})},
	},
	{
		Name: "names-the-temp", Rule: "FB-013", Breaks: "tells handlers the name of a temporary file",
		Variant: inproc.Variant{Seam: rewriting(func(_ sut.Env, r *spec.WriteRequest) {
			r.Dst = path.Join(path.Dir(r.Dst), tools.TempPrefix+"x"+tools.TempSuffix)
		}, nil)},
	},
	{
		Name: "trims-newline", Rule: "FB-014", Breaks: "hands handlers the bytes without the last newline",
		Variant: inproc.Variant{Seam: rewriting(func(_ sut.Env, r *spec.WriteRequest) {
			r.Content = spec.Content(strings.TrimSuffix(string(r.Content), "\n"))
		}, nil)},
	},
	{
		Name: "only-utf8", Rule: "FB-014", Breaks: "hands handlers text in the place of bytes",
		Variant: inproc.Variant{Seam: rewriting(func(_ sut.Env, r *spec.WriteRequest) {
			r.Content = spec.Content(strings.ToValidUTF8(string(r.Content), "\uFFFD"))
		}, nil)},
	},
	{
		Name: "always-eacces", Rule: "FB-015", Breaks: "calls every denial EACCES",
		Variant: inproc.Variant{Seam: denials(func(_ sut.Env, d *spec.Denial) { d.Cause = spec.ErrAccess })},
	},
	{
		Name: "handlers-session", Rule: "FB-016", Breaks: "names the session that registered the handlers",
		Variant: inproc.Variant{Seam: denials(func(_ sut.Env, d *spec.Denial) { d.Session = "s1" })},
	},
	{
		Name: "shares-request", Rule: "FB-017", Breaks: "gives all handlers the same bytes to scribble on",
		Variant: inproc.Variant{Seam: sharing},
	},
	{
		Name: "offers-directories", Rule: "FB-018", Breaks: "asks delete handlers about directories",
		Variant: inproc.Variant{Each: func() inproc.Variant { return whileDeleting(directoriesAreUnknown) }},
	},
	{
		Name: "confirms-anything", Rule: "FB-019", Breaks: "confirms a file to delete handlers without having seen one",
		Variant: inproc.Variant{Seam: rewriting(nil, func(_ sut.Env, r *spec.DeleteRequest) { r.ConfirmedFile = true })},
	},
	{
		Name: "resolves-the-leaf", Rule: "FB-020", Breaks: "has the target of a link deleted, and not the link",
		Variant: inproc.Variant{Seam: rewriting(nil, func(env sut.Env, r *spec.DeleteRequest) {
			_ = at(env, r.Dst, func(d vfs.Dir, name string) error {
				text, err := d.Readlink(name)
				if err == nil {
					r.Dst = path.Join(path.Dir(r.Dst), text)
				}
				return err
			})
		})},
	},
	{
		Name: "ends-with-no", Rule: "FB-021", Breaks: "stops asking when a handler says no",
		Variant: inproc.Variant{Seam: asking(func(landed bool, err error) bool { return landed || err == nil })},
	},
	{
		Name: "skips-the-second", Rule: "FB-021", Breaks: "never asks the second handler",
		Variant: inproc.Variant{Handlers: func(hs []sut.Handler) []sut.Handler {
			if len(hs) < 2 {
				return hs
			}
			return slices.Delete(slices.Clone(hs), 1, 2)
		}},
	},
	{
		Name: "moves-anyway", Rule: "FB-023", Breaks: "removes the source of a move whose destination was not written",
		Variant: inproc.Variant{Do: on(spec.CallMove, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			out := next(c)
			if out.Status == spec.StatusFailed && (out.Err == spec.ErrAccess || out.Err == spec.ErrReadOnly || out.Err == spec.ErrNotPermitted) {
				_ = at(env, c.Path, func(d vfs.Dir, name string) error { return d.Remove(name) })
			}
			return out
		})},
	},
	{
		Name: "half-done-is-done", Rule: "FB-024", Breaks: "calls a move done whose source could not be removed",
		Variant: inproc.Variant{Do: on(spec.CallMove, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			_, before := look(env, c.To)
			out := next(c)
			_, after := look(env, c.To)
			if out.Status == spec.StatusFailed && errors.Is(before, syscall.ENOENT) && after == nil {
				return done(c, nil)
			}
			return out
		})},
	},
	{
		Name: "not-exclusive", Rule: "FB-025", Breaks: "does not tell handlers that the destination must not exist",
		Variant: inproc.Variant{Seam: rewriting(func(_ sut.Env, r *spec.WriteRequest) { r.Exclusive = false }, nil)},
	},
	{
		Name: "always-exclusive", Rule: "FB-025", Breaks: "tells handlers that a file which is to be replaced must not exist",
		Variant: inproc.Variant{Seam: rewriting(func(_ sut.Env, r *spec.WriteRequest) { r.Exclusive = true }, nil)},
	},
	{
		Name: "offers-fifos", Rule: "FB-026", Breaks: "takes a FIFO for a file that it may not write to",
		Variant: inproc.Variant{FS: port(hooks{lstat: func(d vfs.Dir, name string) (vfs.Info, error) {
			info, err := d.Lstat(name)
			if info.Mode&fs.ModeNamedPipe != 0 {
				info.Mode &^= fs.ModeType
			}
			return info, err
		}})},
	},
	{
		Name: "offers-dangling", Rule: "FB-027", Breaks: "asks handlers about the end of a dangling link",
		Variant: inproc.Variant{Steps: func(s *tools.Steps) { s.Identified = func(bool, bool) bool { return true } }},
	},
	{
		Name: "keeps-denials-quiet", Rule: "FB-030", Breaks: "puts no denial by the system on record",
		Variant: inproc.Variant{Log: func(l host.Logger) host.Logger { return withoutDenials{l} }},
	},
	{
		Name: "claims-landing", Rule: "FB-030", Breaks: "records every denial as landed by a handler",
		Variant: inproc.Variant{Log: func(l host.Logger) host.Logger { return landing{l} }},
	},
	{
		Name: "nobody-asked", Rule: "FB-030", Breaks: "puts a denial on record only if there is a handler to ask",
		Variant: inproc.Variant{Each: nobodyAsked},
	},
	{
		Name: "result-first", Rule: "FB-031", Breaks: "records denials after the result of their call",
		Variant: inproc.Variant{Log: func(l host.Logger) host.Logger { return &resultFirst{Logger: l} }},
	},
}

// blamesHandlers replaces the answer of a call in which handlers were asked in
// vain.
func blamesHandlers() inproc.Variant {
	asked := false
	note := func(context.Context) { asked = true }
	return inproc.Variant{
		Seam: func(ref tools.Seam, _ sut.Env) tools.Seam {
			return seam{
				write: func(ctx context.Context, r spec.WriteRequest) bool {
					note(ctx)
					return ref.OfferWrite(ctx, r)
				},
				delete: func(ctx context.Context, r spec.DeleteRequest) bool {
					note(ctx)
					return ref.OfferDelete(ctx, r)
				},
			}
		},
		Do: func(next inproc.Do, _ sut.Env) inproc.Do {
			return func(ctx context.Context, c spec.Call) spec.Outcome {
				asked = false
				out := next(ctx, c)
				if asked && out.Status == spec.StatusFailed {
					out.Err, out.Errno = spec.ErrDeclined, ""
				}
				return out
			}
		},
	}
}

// whileDeleting returns a variant whose port is hooked during deletes only.
func whileDeleting(h func(deleting func() bool) hooks) inproc.Variant {
	deleting := false
	return inproc.Variant{
		FS: port(h(func() bool { return deleting })),
		Do: func(next inproc.Do, _ sut.Env) inproc.Do {
			return func(ctx context.Context, c spec.Call) spec.Outcome {
				deleting = c.Kind == spec.CallDelete
				defer func() { deleting = false }()
				return next(ctx, c)
			}
		},
	}
}

func missingIsDenied(deleting func() bool) hooks {
	return hooks{
		lstat: func(d vfs.Dir, name string) (vfs.Info, error) {
			info, err := d.Lstat(name)
			if deleting() && errors.Is(err, syscall.ENOENT) {
				err = relabel(err, "fstatat", name, syscall.EACCES)
			}
			return info, err
		},
		remove: func(d vfs.Dir, name string) error {
			err := d.Remove(name)
			if deleting() && errors.Is(err, syscall.ENOENT) {
				err = relabel(err, "unlinkat", name, syscall.EACCES)
			}
			return err
		},
	}
}

func directoriesAreUnknown(deleting func() bool) hooks {
	return hooks{lstat: func(d vfs.Dir, name string) (vfs.Info, error) {
		info, err := d.Lstat(name)
		if deleting() && err == nil && info.Mode.IsDir() {
			return vfs.Info{}, relabel(syscall.EACCES, "fstatat", name, syscall.EACCES)
		}
		return info, err
	}}
}

// sharing asks write handlers with one and the same request.
func sharing(ref tools.Seam, env sut.Env) tools.Seam {
	return seam{ref: ref, write: func(ctx context.Context, r spec.WriteRequest) bool {
		for _, h := range env.Handlers {
			if h.Write == nil {
				continue
			}
			yes, err := guarded(func() (bool, error) { return h.Write(ctx, r) })
			if err != nil && env.Diag != nil {
				env.Diag("WARN", "handler failed", nil)
			}
			if yes && err == nil {
				return true
			}
		}
		return false
	}}
}

type withoutDenials struct{ host.Logger }

func (l withoutDenials) Append(typ string, data any) error {
	if typ == spec.LogPermissionDecision {
		return nil
	}
	return l.Logger.Append(typ, data)
}

func nobodyAsked() inproc.Variant {
	handlers := 0
	return inproc.Variant{
		Handlers: func(hs []sut.Handler) []sut.Handler {
			handlers = len(hs)
			return hs
		},
		Log: func(l host.Logger) host.Logger {
			if handlers == 0 {
				return withoutDenials{l}
			}
			return l
		},
	}
}

type landing struct{ host.Logger }

func (l landing) Append(typ string, data any) error {
	if typ != spec.LogPermissionDecision {
		return l.Logger.Append(typ, data)
	}
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	m["landed"] = true
	return l.Logger.Append(typ, m)
}

// resultFirst holds denials back until the result is written.
type resultFirst struct {
	host.Logger
	held []any
}

func (l *resultFirst) Append(typ string, data any) error {
	if typ == spec.LogPermissionDecision {
		l.held = append(l.held, data)
		return nil
	}
	err := l.Logger.Append(typ, data)
	if typ != spec.LogToolResult {
		return err
	}
	for _, d := range l.held {
		err = errors.Join(err, l.Logger.Append(spec.LogPermissionDecision, d))
	}
	l.held = nil
	return err
}
