package exec

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/fsbench/fsbench/internal/process"
	"github.com/fsbench/fsbench/spec"
)

// A plain command knows nothing of the protocol: it is given the path as an
// argument and the content on its standard input, and ends with exit code 0 if it
// has done what was asked. Of why it failed, its standard error tells.

// PlainArgv makes a Plain of an argument list in which {path} stands for the
// absolute path that the call is about, {to} for that of a move's destination and
// {root} for the root.
func PlainArgv(argv ...string) func(root string, c spec.Call) []string {
	return func(root string, c spec.Call) []string {
		out := process.Argv(argv, root)
		fill := strings.NewReplacer("{path}", path.Join(root, c.Path), "{to}", path.Join(root, c.To)).Replace
		for i, arg := range out {
			out[i] = fill(arg)
		}
		return out
	}
}

// doPlain performs a call with a plain command.
func (s *session) doPlain(ctx context.Context, call spec.Call) (spec.Outcome, error) {
	out := spec.Outcome{Call: call.ID}
	r, err := s.run(ctx, s.d.opt.Plain(s.env.Root, call), call.Content)
	switch {
	case err != nil:
		return out, fmt.Errorf("call %d: %w", call.ID, err)
	case r.givenUp:
		return out, nil
	case r.success:
		out.Status = spec.StatusOK
		if call.Kind == spec.CallRead {
			out.Content = r.out
		}
		return out, nil
	}
	s.diag(r)
	if r.exited {
		out.Status, out.Err, out.Detail = spec.StatusFailed, plainKind(r.errs), lastLine(r.errs)
	}
	return out, nil
}

// errnoName is how programs print an error's name, texts how they print what it
// means.
var errnoName = regexp.MustCompile(`\bE[A-Z]{2,}\b`)

var texts = []struct {
	text string
	kind spec.ErrKind
}{
	{"Operation not permitted", spec.ErrNotPermitted},
	{"Permission denied", spec.ErrAccess},
	{"Read-only file system", spec.ErrReadOnly},
	{"No such file or directory", spec.ErrNotFound},
	{"File exists", spec.ErrExists},
	{"Not a directory", spec.ErrNotDir},
	{"Is a directory", spec.ErrIsDir},
	{"Too many levels of symbolic links", spec.ErrLoop},
	{"No space left on device", spec.ErrNoSpace},
	{"Disk quota exceeded", spec.ErrQuota},
	{"Input/output error", spec.ErrIO},
	{"Invalid cross-device link", spec.ErrCrossDevice},
	{"Device or resource busy", spec.ErrBusy},
	{"File name too long", spec.ErrNameTooLong},
	{"Too many open files", spec.ErrTooManyFiles},
	{"File too large", spec.ErrFileTooBig},
	{"Interrupted system call", spec.ErrInterrupted},
	{"Unknown system error -122", spec.ErrQuota}, // EDQUOT, which Node has no name for
}

// plainKind reads from what a command complained of which error it met.
func plainKind(complaint string) spec.ErrKind {
	for _, name := range errnoName.FindAllString(complaint, -1) {
		for _, t := range texts {
			if string(t.kind) == name {
				return t.kind
			}
		}
	}
	for _, t := range texts {
		if strings.Contains(strings.ToLower(complaint), strings.ToLower(t.text)) {
			return t.kind
		}
	}
	return spec.ErrOther
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return s[strings.LastIndexByte(s, '\n')+1:]
}
