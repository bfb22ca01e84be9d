// Package tools is the reference file tools: read, write, delete and move below
// one held root. It is where the operating system's refusal becomes a
// spec.Denial, and the only place that makes one.
//
// It asks no policy (the host does, before it calls), writes no Log, and does
// not know that it is tested: it reaches the tree through the vfs port alone.
package tools

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Seam is where a denied primitive is offered to handlers. It reports whether
// one of them has done exactly what was asked.
type Seam interface {
	OfferWrite(ctx context.Context, r spec.WriteRequest) (landed bool)
	OfferDelete(ctx context.Context, r spec.DeleteRequest) (landed bool)
}

// Steps are the decisions that a call turns on, one function each. Default
// returns the reference's own.
type Steps struct {
	// Denied reports whether an errno is a refusal that handlers may be asked
	// about (FB-001).
	Denied func(spec.ErrKind) bool

	// Version names the state of a file: which object it is and what it holds.
	Version func(id vfs.ID, content []byte) string

	// ReadBack decides what a handler's yes is worth: look reads what is in place
	// and fails unless it is what was asked for (FB-004).
	ReadBack func(look func() (version string, err error)) (string, error)

	// Protected reports whether a file carries no write bit at all (AT-012).
	Protected func(vfs.Info) bool

	// Same reports whether an entry is still the one that was seen.
	Same func(seen, now vfs.Info) bool

	// LastLook is taken just before a file is replaced; look fails if the
	// destination has changed since the first look (AT-011).
	LastLook func(look func() error) error

	// Identified reports whether handlers may be told of a destination: one that is
	// named by a link must exist (FB-027).
	Identified func(linked, exists bool) bool

	// TempName is publish.Publisher.TempName for a destination.
	TempName func(name string) string
}

// Default returns the reference's steps.
func Default() Steps {
	return Steps{
		Denied:     denied,
		Version:    version,
		ReadBack:   func(look func() (string, error)) (string, error) { return look() },
		Protected:  func(i vfs.Info) bool { return i.Mode.Perm()&0o222 == 0 },
		Same:       same,
		LastLook:   func(look func() error) error { return look() },
		Identified: func(linked, exists bool) bool { return !linked || exists },
		TempName:   func(string) string { return TempPrefix + rand.Text() + TempSuffix },
	}
}

// Private files carry names that an administrator can recognise and that no
// tool would choose.
const (
	TempPrefix = ".fsbench-"
	TempSuffix = ".tmp"
)

// NewFileMode is the mode of files that the tools create: the agent's user only.
const NewFileMode fs.FileMode = 0o600

// MaxContent bounds what is read into memory for one call.
const MaxContent = 16 << 20 // bytes

// Tools serves calls below Root. It is safe for concurrent use.
type Tools struct {
	Root     vfs.Dir // held for the life of the Tools
	RootPath string  // absolute name of Root, for absolute spellings and for requests
	Caps     vfs.Caps
	Follow   bool // links are resolved inside the root; otherwise they are refused
	Seam     Seam
	Steps    Steps
}

// Refusal is one denial of a call and what became of it.
type Refusal struct {
	spec.Denial
	Landed bool // a handler did what the system would not
}

// Result is the answer to one call and the denials met on the way.
type Result struct {
	spec.Outcome
	Refusals []Refusal
}

// Do serves one call.
func (t *Tools) Do(ctx context.Context, c spec.Call) Result {
	k := &call{t: t, ctx: ctx, Call: c}
	var out spec.Outcome
	switch c.Kind {
	case spec.CallRead:
		out = k.read()
	case spec.CallWrite:
		out = k.write()
	case spec.CallDelete:
		out = k.delete()
	case spec.CallMove:
		out = k.move()
	case spec.CallEdit, spec.CallView, spec.CallTool:
		out = k.failed(&refused{kind: spec.ErrUnsupported, text: "this tool is not offered"})
	default:
		out = k.failed(&refused{kind: spec.ErrInvalid, text: "no such tool"})
	}
	out.Call = c.ID
	return Result{out, k.refusals}
}

// call is one call under way.
type call struct {
	spec.Call
	t        *Tools
	ctx      context.Context
	refusals []Refusal
	made     []made // directories made for the call, parents first
	masked   error  // the denial of a directory that was to be made
	dst      string // where bytes are placed, absolute
}

// made is a directory that a call made: its path below the root and what it is.
type made struct {
	rel string
	id  vfs.ID
}

// walk walks to a path as the call spells it. With mk set, missing directories are
// made; with last set, a link at the end is followed if links are.
func (k *call) walk(spelled string, mk, last bool) (vfs.Place, error) {
	w := &vfs.Walker{Root: k.t.Root, RootPath: k.t.RootPath, Follow: k.t.Follow}
	if mk {
		w.Make = k.mkdir
	}
	return w.Walk(k.t.below(spelled), last)
}

// below cuts the root off a path that is spelled absolutely: errors repeat what was
// walked, and must not tell where the root lies (OC-008).
func (t *Tools) below(spelled string) string {
	rest, ok := strings.CutPrefix(spelled, strings.TrimSuffix(t.RootPath, "/"))
	if !ok || t.RootPath == "" || rest != "" && rest[0] != '/' {
		return spelled
	}
	return strings.TrimLeft(rest, "/")
}

// mkdir makes a parent. That somebody else made it in the meantime is no error:
// opening it decides. A refusal is shown as the missing parent that it leaves,
// and remembered as the denial that it is (FB-011).
func (k *call) mkdir(d vfs.Dir, name, rel string) error {
	err := d.Mkdir(name, 0o777)
	switch {
	case err == nil:
		info, err := d.Lstat(name)
		if err != nil {
			return err
		}
		k.made = append(k.made, made{rel, info.ID})
		return publish.SyncDir(d)
	case kindOf(err) == spec.ErrExists:
		return nil
	case k.t.Steps.Denied(kindOf(err)):
		k.masked = err
		return missing(name)
	}
	return err
}

// undo takes away the directories that a failed call made, as long as they are
// empty and still the ones that it made: nothing of anybody else's can be lost.
// What cannot be taken away stays.
func (k *call) undo() {
	for _, m := range slices.Backward(k.made) {
		place, err := k.walk(m.rel, false, false)
		if err != nil {
			continue
		}
		if now, err := place.Dir.Lstat(place.Name); err == nil && now.ID == m.id {
			_ = place.Dir.Rmdir(place.Name)
		}
		_ = place.Close()
	}
	k.made = nil
}

// abs returns the absolute name of a path below the root.
func (t *Tools) abs(rel string) string { return path.Join(t.RootPath, rel) }

// destination returns the path below the root that a walk which ended early was
// going to: handlers are told the final destination or nothing. What is left to
// walk may only be plain names, since the directories that ".." would leave do not
// exist.
func destination(err error) (rel string, ok bool) {
	var we *vfs.WalkError
	if !errors.As(err, &we) || we.Rest == "" {
		return "", false
	}
	for c := range strings.SplitSeq(we.Rest, "/") {
		if c == ".." {
			return "", false
		}
	}
	return path.Join(we.At, we.Rest), true
}

// publisher returns the publisher for a destination called name.
func (t *Tools) publisher(name string) *publish.Publisher {
	return &publish.Publisher{Caps: t.Caps, TempName: func() string { return t.Steps.TempName(name) }}
}
