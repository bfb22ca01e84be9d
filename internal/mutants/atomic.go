package mutants

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/vfs"
)

// atomicity holds the mutants of AT- rules about one undisturbed or failing call.
var atomicity = []Mutant{
	{
		Name: "short-is-done", Rule: "AT-001", Breaks: "takes a write that the kernel cut short for a complete one",
		Variant: inproc.Variant{FS: port(hooks{write: func(f vfs.File, p []byte) (int, error) {
			n, err := f.Write(p)
			if errors.Is(err, io.ErrShortWrite) {
				return len(p), nil
			}
			return n, err
		}})},
	},
	{
		Name: "keeps-handles", Rule: "AT-026", Breaks: "leaves a file open that it has replaced",
		Variant: inproc.Variant{FS: port(hooks{rename: func(d vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			if _, err := to.OpenFile(toName, vfs.ReadOnly, 0); err != nil && !errors.Is(err, syscall.ENOENT) {
				return err
			}
			return d.Rename(name, to, toName, flag)
		}})},
	},
	{
		Name: "interrupted-is-done", Rule: "AT-001", Breaks: "takes a write that was interrupted for a complete one",
		Variant: inproc.Variant{FS: port(hooks{write: func(f vfs.File, p []byte) (int, error) {
			n, err := f.Write(p)
			if errors.Is(err, syscall.EINTR) {
				return len(p), nil
			}
			return n, err
		}})},
	},
	{
		Name: "writes-in-place", Rule: "AT-002", Breaks: "truncates an existing file and writes to it in place",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			info, err := look(env, c.Path)
			if err != nil || !info.Mode.IsRegular() || info.Mode.Perm()&0o200 == 0 || c.ExpectVersion != "" || info.Nlink > 1 {
				return next(c)
			}
			return done(c, at(env, c.Path, func(d vfs.Dir, name string) error { return overwrite(d, name, c.Content, 0) }))
		})},
	},
	{
		Name: "keeps-temp", Rule: "AT-003", Breaks: "does not take its temporary file away when a write fails",
		Variant: inproc.Variant{FS: port(hooks{remove: func(d vfs.Dir, name string) error {
			if isTemp(name) {
				return nil
			}
			return d.Remove(name)
		}})},
	},
	{
		Name: "tidies-up", Rule: "AT-004", Breaks: "removes empty files that lie beside the one that it writes",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			out := next(c)
			if out.Status != spec.StatusOK {
				return out
			}
			_ = at(env, c.Path, func(d vfs.Dir, name string) error {
				names, _, err := d.ReadDir(0)
				for _, other := range names {
					if info, err := d.Lstat(other); err == nil && other != name && info.Mode.IsRegular() && info.Size == 0 {
						_ = d.Remove(other)
					}
				}
				return err
			})
			return out
		})},
	},
	{
		Name: "drops-mode", Rule: "AT-005", Breaks: "does not give a replacement the mode of the file it replaces",
		Variant: inproc.Variant{FS: port(hooks{chmod: func(vfs.File, fs.FileMode) error { return nil }})},
	},
	{
		Name: "public-files", Rule: "AT-006", Breaks: "lets everybody read the files that it creates",
		Variant: inproc.Variant{FS: port(hooks{openFile: func(d vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
			if flag&(vfs.Create|vfs.Doomed) != 0 && perm == tools.NewFileMode {
				perm = 0o644
			}
			return d.OpenFile(name, flag, perm)
		}})},
	},
	{
		Name: "reserves-the-name", Rule: "AT-024", Breaks: "makes an empty file under the name of a new one before it has the bytes",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			if _, err := look(env, c.Path); !errors.Is(err, syscall.ENOENT) || c.ExpectVersion != "" {
				return next(c)
			}
			_ = at(env, c.Path, func(d vfs.Dir, name string) error {
				f, err := d.OpenFile(name, vfs.WriteOnly|vfs.Create|vfs.Exclusive, tools.NewFileMode)
				if err != nil {
					return err
				}
				return f.Close()
			})
			return next(c)
		})},
	},
	{
		Name: "public-draft", Rule: "AT-025", Breaks: "keeps the new bytes in a file that everybody may read while it replaces one",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			info, err := look(env, c.Path)
			if err != nil || !info.Mode.IsRegular() {
				return next(c)
			}
			const draft = ".fsbench-draft.tmp"
			_ = at(env, c.Path, func(d vfs.Dir, _ string) error {
				f, err := d.OpenFile(draft, vfs.WriteOnly|vfs.Create|vfs.Exclusive, 0o644)
				if err != nil {
					return err
				}
				_, err = f.Write(c.Content)
				return errors.Join(err, f.Close())
			})
			out := next(c)
			_ = at(env, c.Path, func(d vfs.Dir, _ string) error { return d.Remove(draft) })
			return out
		})},
	},
	{
		Name: "ignores-version", Rule: "AT-009", Breaks: "writes whatever version the caller expects",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(_ sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			c.ExpectVersion = ""
			return next(c)
		})},
	},
	{
		Name: "version-by-size", Rule: "AT-009", Breaks: "tells versions apart by size alone",
		Variant: inproc.Variant{Steps: func(s *tools.Steps) {
			s.Version = func(_ vfs.ID, content []byte) string { return fmt.Sprintf("size-%d", len(content)) }
		}},
	},
	{
		Name: "version-by-date", Rule: "AT-010", Breaks: "takes another date for another version",
		Variant: inproc.Variant{Do: dated},
	},
	{
		Name: "no-last-look", Rule: "AT-011", Breaks: "does not look at the destination again before replacing it",
		Variant: inproc.Variant{Steps: func(s *tools.Steps) {
			s.LastLook = func(func() error) error { return nil }
		}},
	},
	{
		Name: "replaces-read-only", Rule: "AT-012", Breaks: "replaces a read-only file, as a rename can",
		Variant: inproc.Variant{
			Steps: func(s *tools.Steps) { s.Protected = func(vfs.Info) bool { return false } },
			FS: port(hooks{openFile: func(d vfs.Dir, name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
				f, err := d.OpenFile(name, flag, perm)
				if flag&vfs.Probe != 0 && errors.Is(err, syscall.EACCES) {
					return d.OpenFile(name, vfs.ReadOnly|vfs.NonBlock, 0)
				}
				return f, err
			}}),
		},
	},
	{
		Name: "writes-through-names", Rule: "AT-013", Breaks: "writes in place to a file that has other names",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			info, err := look(env, c.Path)
			if err != nil || !info.Mode.IsRegular() || info.Nlink < 2 || info.Mode.Perm()&0o200 == 0 || c.ExpectVersion != "" {
				return next(c)
			}
			return done(c, at(env, c.Path, func(d vfs.Dir, name string) error { return overwrite(d, name, c.Content, 0) }))
		})},
	},
	{
		Name: "moves-without-mode", Rule: "AT-017", Breaks: "gives a moved file the mode of a new one",
		Variant: inproc.Variant{Do: on(spec.CallMove, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			out := next(c)
			if out.Status == spec.StatusOK {
				_ = at(env, c.To, func(d vfs.Dir, name string) error { return setMode(d, name, 0o600) })
			}
			return out
		})},
	},
	{
		Name: "moves-over", Rule: "AT-018", Breaks: "removes what is at the destination of a move",
		Variant: inproc.Variant{Do: on(spec.CallMove, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			if src, err := look(env, c.Path); err == nil && src.Mode.IsRegular() {
				_ = at(env, c.To, func(d vfs.Dir, name string) error { return removeOther(d, name, src.ID) })
			}
			return next(c)
		})},
	},
	{
		Name: "deletes-any-version", Rule: "AT-019", Breaks: "deletes whatever version the caller expects",
		Variant: inproc.Variant{Do: on(spec.CallDelete, func(_ sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			c.ExpectVersion = ""
			return next(c)
		})},
	},
	{
		Name: "drops-attributes", Rule: "AT-021", Breaks: "does not copy extended attributes to a replacement",
		Variant: inproc.Variant{FS: port(hooks{xattrs: func(vfs.File) ([]string, error) { return nil, nil }})},
	},
	{
		Name: "takes-over", Rule: "AT-022", Breaks: "replaces another user's file by one of its own",
		Variant: inproc.Variant{FS: port(hooks{chown: func(vfs.File, int, int) error { return nil }})},
	},
}

func setMode(d vfs.Dir, name string, perm fs.FileMode) (err error) {
	f, err := d.OpenFile(name, vfs.ReadOnly|vfs.NonBlock, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return f.Chmod(perm)
}

// removeOther removes a file unless it is the one that is to be moved.
func removeOther(d vfs.Dir, name string, id vfs.ID) error {
	info, err := d.Lstat(name)
	if err != nil || !info.Mode.IsRegular() || info.ID == id {
		return err
	}
	return d.Remove(name)
}

// dated appends the modification time to versions, and compares it.
func dated(next inproc.Do, env sut.Env) inproc.Do {
	date := func(p string) string {
		info, err := look(env, p)
		if err != nil {
			return ""
		}
		return fmt.Sprintf("@%d", info.Mtime.UnixNano())
	}
	return func(ctx context.Context, c spec.Call) spec.Outcome {
		if v, at, found := strings.Cut(c.ExpectVersion, "@"); found {
			c.ExpectVersion = v
			if "@"+at != date(c.Path) {
				return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrConflict, Detail: "the date has changed"}
			}
		}
		out := next(ctx, c)
		if out.Version != "" {
			p := c.Path
			if c.To != "" {
				p = c.To
			}
			out.Version += date(p)
		}
		return out
	}
}
