package mutants

import (
	"slices"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
)

// outcomes holds the mutants of OC- rules.
var outcomes = []Mutant{
	{
		Name: "needs-content", Rule: "OC-001", Breaks: "refuses to write an empty file",
		Variant: inproc.Variant{Do: on(spec.CallWrite, func(_ sut.Env, next func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			if len(c.Content) == 0 {
				return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrInvalid, Detail: "nothing to write"}
			}
			return next(c)
		})},
	},
	{
		Name: "nameless-errors", Rule: "OC-002", Breaks: "fails without naming an error",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			out.Err = spec.ErrNone
			return out
		})},
	},
	{
		Name: "never-sure", Rule: "OC-003", Breaks: "does not know what became of a call that failed",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if out.Status != spec.StatusFailed {
				return out
			}
			return spec.Outcome{Call: c.ID, Detail: out.Detail}
		})},
	},
	{
		Name: "unsure-of-denials", Rule: "OC-003", Breaks: "does not know what became of a call that was denied",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if out.Err == spec.ErrAccess || out.Err == spec.ErrNotPermitted || out.Err == spec.ErrReadOnly {
				return spec.Outcome{Call: c.ID, Detail: out.Detail}
			}
			return out
		})},
	},
	{
		Name: "no-versions", Rule: "OC-004", Breaks: "returns no versions",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			out.Version = ""
			return out
		})},
	},
	{
		Name: "one-error-for-all", Rule: "OC-005", Breaks: "calls every failure of the file system by one name",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			system := []spec.ErrKind{
				spec.ErrNoSpace, spec.ErrQuota, spec.ErrIO, spec.ErrCrossDevice, spec.ErrBusy, spec.ErrTooManyFiles,
			}
			if slices.Contains(system, out.Err) {
				out.Err, out.Errno = spec.ErrOther, ""
			}
			return out
		})},
	},
	{
		Name: "reads-short", Rule: "OC-006", Breaks: "leaves out the last byte of what it reads",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if c.Kind == spec.CallRead && len(out.Content) > 0 {
				out.Content = out.Content[:len(out.Content)-1]
			}
			return out
		})},
	},
	{
		Name: "deletes-directories", Rule: "OC-007", Breaks: "says that it has deleted a directory that it left",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if c.Kind == spec.CallDelete && out.Err == spec.ErrIsDir {
				return spec.Outcome{Call: c.ID, Status: spec.StatusOK}
			}
			return out
		})},
	},
	{
		Name: "shows-the-root", Rule: "OC-008", Breaks: "tells the agent where on the host the root is",
		Variant: inproc.Variant{Do: answers(func(env sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			if out.Status == spec.StatusFailed {
				out.Detail = env.Root + ": " + out.Detail
			}
			return out
		})},
	},
}
