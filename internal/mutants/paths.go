package mutants

import (
	"errors"
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

// insteadOf returns a variant that writes by joining strings where the reference
// refuses with one of the kinds, for paths that meet the condition.
func insteadOf(condition func(env sut.Env, c spec.Call) bool, kinds ...spec.ErrKind) inproc.Variant {
	return inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
		out := next(c)
		for _, k := range kinds {
			if out.Status == spec.StatusFailed && out.Err == k && condition(env, c) {
				abs := c.Path
				if !path.IsAbs(abs) {
					abs = env.Root + "/" + abs
				}
				return done(c, sloppy(env, abs, c.Content))
			}
		}
		return out
	})}
}

// clearing returns a variant that removes what is at the path of a write, if it is
// of the kind, before the write.
func clearing(is func(vfs.Info) bool) inproc.Variant {
	return inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
		if info, err := look(env, c.Path); err == nil && is(info) {
			_ = at(env, c.Path, func(d vfs.Dir, name string) error { return d.Remove(name) })
		}
		return next(c)
	})}
}

func leafIsLink(env sut.Env, c spec.Call) bool {
	info, err := look(env, c.Path)
	return err == nil && isLink(info)
}

// paths holds the mutants of PR- rules.
var paths = []Mutant{
	{
		Name: "joins-paths", Rule: "PR-001", Breaks: "lets .. lead out of the root",
		Variant: insteadOf(func(_ sut.Env, c spec.Call) bool { return !path.IsAbs(c.Path) }, spec.ErrEscapes),
	},
	{
		Name: "follows-parents", Rule: "PR-002", Breaks: "follows a link on the way to the target wherever it leads",
		Variant: insteadOf(func(env sut.Env, c spec.Call) bool { return !leafIsLink(env, c) && !strings.Contains(c.Path, "..") }, spec.ErrLoop, spec.ErrEscapes),
	},
	{
		Name: "replaces-links", Rule: "PR-003", Breaks: "puts a file in the place of a link",
		Variant: clearing(isLink),
	},
	{
		Name: "creates-through-links", Rule: "PR-004", Breaks: "creates the file that a dangling link names",
		Variant: insteadOf(leafIsLink, spec.ErrLoop, spec.ErrEscapes),
	},
	{
		Name: "walks-again", Rule: "PR-005", Breaks: "looks every path up again for each step, and holds no directory",
		Variant: inproc.Variant{FS: byPath},
	},
	{
		Name: "prefix-is-inside", Rule: "PR-006", Breaks: "takes a path for inside that begins like the root",
		Variant: insteadOf(func(env sut.Env, c spec.Call) bool { return strings.HasPrefix(c.Path, env.Root) }, spec.ErrEscapes),
	},
	{
		Name: "replaces-blockers", Rule: "PR-007", Breaks: "removes a file that stands where it needs a directory",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			out := next(c)
			if out.Err != spec.ErrNotDir {
				return out
			}
			_ = at(env, path.Dir(c.Path), func(d vfs.Dir, name string) error { return d.Remove(name) })
			return next(c)
		})},
	},
	{
		Name: "unseen-is-absent", Rule: "PR-008", Breaks: "reports what it cannot look at as missing",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			if out.Err == spec.ErrInspect {
				out.Err, out.Errno = spec.ErrNotFound, ""
			}
			return out
		})},
	},
	{
		Name: "replaces-fifos", Rule: "PR-009", Breaks: "puts a file in the place of a FIFO",
		Variant: clearing(func(i vfs.Info) bool { return i.Mode&fs.ModeNamedPipe != 0 }),
	},
	{
		Name: "writes-outside", Rule: "PR-010", Breaks: "keeps a note of every write outside the root",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(env sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			out := next(c)
			if out.Status == spec.StatusOK {
				_ = sloppy(env, path.Dir(env.Root)+"/out/c", []byte("note"))
			}
			return out
		})},
	},
	{
		Name: "strips-slashes", Rule: "PR-011", Breaks: "takes a path that ends in a slash for a file's",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(_ sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			c.Path = strings.TrimRight(c.Path, "/")
			return next(c)
		})},
	},
	{
		Name: "long-temp-names", Rule: "PR-012", Breaks: "makes the names of temporary files by adding to the target's",
		Variant: inproc.Variant{Steps: func(s *tools.Steps) {
			s.TempName = func(name string) string { return tools.TempPrefix + name + tools.TempSuffix }
		}},
	},
	{
		Name: "takes-planted-names", Rule: "PR-013", Breaks: "removes what has the name that its temporary file was to have",
		Variant: inproc.Variant{FS: port(hooks{publish: func(d vfs.Dir, f vfs.File, name string) error {
			err := d.Publish(f, name)
			if isTemp(name) && errors.Is(err, syscall.EEXIST) {
				if err := d.Remove(name); err != nil {
					return err
				}
				return d.Publish(f, name)
			}
			return err
		}})},
	},
}
