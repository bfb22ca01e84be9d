package mutants

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/vfs"
)

// on returns a Do function that gives calls of one kind to f and passes the others
// on.
func on(kind spec.CallKind, f func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome) func(inproc.Do, sut.Env) inproc.Do {
	return func(next inproc.Do, env sut.Env) inproc.Do {
		return func(ctx context.Context, c spec.Call) spec.Outcome {
			if c.Kind != kind {
				return next(ctx, c)
			}
			return f(env, func(c spec.Call) spec.Outcome { return next(ctx, c) }, c)
		}
	}
}

// answers returns a Do function that lets f change every answer.
func answers(f func(env sut.Env, c spec.Call, out spec.Outcome) spec.Outcome) func(inproc.Do, sut.Env) inproc.Do {
	return func(next inproc.Do, env sut.Env) inproc.Do {
		return func(ctx context.Context, c spec.Call) spec.Outcome { return f(env, c, next(ctx, c)) }
	}
}

// at runs f where path leads below the root, with no link followed. It returns an
// error if path leads nowhere.
func at(env sut.Env, p string, f func(d vfs.Dir, name string) error) error {
	root, err := env.FS.OpenRoot(env.Root)
	if err != nil {
		return err
	}
	defer root.Close()
	place, err := (&vfs.Walker{Root: root, RootPath: env.Root}).Walk(p, false)
	if err != nil {
		return err
	}
	defer place.Close()
	return f(place.Dir, place.Name)
}

// look describes what is at path, without following links.
func look(env sut.Env, p string) (info vfs.Info, err error) {
	err = at(env, p, func(d vfs.Dir, name string) (err error) {
		info, err = d.Lstat(name)
		return err
	})
	return info, err
}

// overwrite truncates the file and writes to it in place.
func overwrite(d vfs.Dir, name string, content []byte, flag vfs.Flag) (err error) {
	f, err := d.OpenFile(name, vfs.WriteOnly|vfs.Truncate|vfs.NonBlock|flag, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	for len(content) > 0 {
		n, err := f.Write(content)
		content = content[n:]
		if err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)) {
			return err
		}
	}
	return f.Sync()
}

// sloppy writes as a tool does that joins strings: the whole path at once, through
// whatever links there are, in the last component too.
func sloppy(env sut.Env, abs string, content []byte) error {
	for range 10 {
		d, err := env.FS.OpenRoot(path.Dir(abs))
		if err != nil {
			return err
		}
		name := path.Base(abs)
		if text, err := d.Readlink(name); err == nil {
			if !path.IsAbs(text) {
				text = path.Join(path.Dir(abs), text)
			}
			abs = text
			if err := d.Close(); err != nil {
				return err
			}
			continue
		}
		err = overwrite(d, name, content, vfs.Create)
		return errors.Join(err, d.Close())
	}
	return syscall.ELOOP
}

// done is the answer to a call that the mutant has served by itself.
func done(c spec.Call, err error) spec.Outcome {
	if err != nil {
		return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: errnoKind(err), Detail: "not written"}
	}
	return spec.Outcome{Call: c.ID, Status: spec.StatusOK, Version: "mutant"}
}

// errnoKind names the first errno under err.
func errnoKind(err error) spec.ErrKind {
	for _, k := range []struct {
		errno syscall.Errno
		kind  spec.ErrKind
	}{
		{syscall.EPERM, spec.ErrNotPermitted},
		{syscall.EACCES, spec.ErrAccess},
		{syscall.EROFS, spec.ErrReadOnly},
		{syscall.ENOENT, spec.ErrNotFound},
		{syscall.EEXIST, spec.ErrExists},
		{syscall.ENOTDIR, spec.ErrNotDir},
		{syscall.EISDIR, spec.ErrIsDir},
		{syscall.ELOOP, spec.ErrLoop},
		{syscall.ENOSPC, spec.ErrNoSpace},
		{syscall.EDQUOT, spec.ErrQuota},
		{syscall.EIO, spec.ErrIO},
	} {
		if errors.Is(err, k.errno) {
			return k.kind
		}
	}
	return spec.ErrOther
}

func isLink(i vfs.Info) bool { return i.Mode&fs.ModeSymlink != 0 }

func isTemp(name string) bool { return strings.HasPrefix(name, tools.TempPrefix) }

// relabel returns err with another errno, in the form that the port gives errors.
func relabel(err error, op, name string, errno syscall.Errno) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: errno}
}

// seam is a tools.Seam made of two functions; a nil one asks the reference's.
type seam struct {
	ref    tools.Seam
	write  func(ctx context.Context, r spec.WriteRequest) bool
	delete func(ctx context.Context, r spec.DeleteRequest) bool
}

func (s seam) OfferWrite(ctx context.Context, r spec.WriteRequest) bool {
	if s.write == nil {
		return s.ref.OfferWrite(ctx, r)
	}
	return s.write(ctx, r)
}

func (s seam) OfferDelete(ctx context.Context, r spec.DeleteRequest) bool {
	if s.delete == nil {
		return s.ref.OfferDelete(ctx, r)
	}
	return s.delete(ctx, r)
}

// rewriting returns a Seam function that changes requests before they are offered.
func rewriting(write func(env sut.Env, r *spec.WriteRequest), del func(env sut.Env, r *spec.DeleteRequest)) func(tools.Seam, sut.Env) tools.Seam {
	return func(ref tools.Seam, env sut.Env) tools.Seam {
		return seam{
			ref: ref,
			write: func(ctx context.Context, r spec.WriteRequest) bool {
				if write != nil {
					write(env, &r)
				}
				return ref.OfferWrite(ctx, r)
			},
			delete: func(ctx context.Context, r spec.DeleteRequest) bool {
				if del != nil {
					del(env, &r)
				}
				return ref.OfferDelete(ctx, r)
			},
		}
	}
}

// denials returns a rewriting of what both kinds of request share.
func denials(f func(env sut.Env, d *spec.Denial)) func(tools.Seam, sut.Env) tools.Seam {
	return rewriting(
		func(env sut.Env, r *spec.WriteRequest) { f(env, &r.Denial) },
		func(env sut.Env, r *spec.DeleteRequest) { f(env, &r.Denial) },
	)
}

// asking returns a Seam function that asks the handlers by itself: until stop says
// that an answer ends it.
func asking(stop func(landed bool, err error) bool) func(tools.Seam, sut.Env) tools.Seam {
	return func(_ tools.Seam, env sut.Env) tools.Seam {
		run := func(ask func(h sut.Handler) (bool, bool, error)) bool {
			landed := false
			for _, h := range env.Handlers {
				asked, yes, err := ask(h)
				if !asked {
					continue
				}
				landed = landed || yes && err == nil
				if err != nil && env.Diag != nil {
					env.Diag("WARN", "handler failed", nil)
				}
				if stop(yes, err) {
					break
				}
			}
			return landed
		}
		return seam{
			write: func(ctx context.Context, r spec.WriteRequest) bool {
				return run(func(h sut.Handler) (bool, bool, error) {
					if h.Write == nil {
						return false, false, nil
					}
					mine := r
					mine.Content = append(spec.Content{}, r.Content...)
					yes, err := guarded(func() (bool, error) { return h.Write(ctx, mine) })
					return true, yes, err
				})
			},
			delete: func(ctx context.Context, r spec.DeleteRequest) bool {
				return run(func(h sut.Handler) (bool, bool, error) {
					if h.Delete == nil {
						return false, false, nil
					}
					yes, err := guarded(func() (bool, error) { return h.Delete(ctx, r) })
					return true, yes, err
				})
			},
		}
	}
}

// guarded turns a handler's panic into an error.
func guarded(f func() (bool, error)) (landed bool, err error) {
	defer func() {
		if recover() != nil {
			landed, err = false, errors.New("panic")
		}
	}()
	return f()
}
