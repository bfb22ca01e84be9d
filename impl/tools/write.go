package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// write puts the call's content at its path, whole.
func (k *call) write() spec.Outcome {
	v, err := k.place(k.Path, bytesTo{content: k.Content, expect: k.ExpectVersion})
	if err != nil {
		k.undo()
		return k.failed(err)
	}
	return spec.Outcome{Status: spec.StatusOK, Version: v, Receipt: k.receipt(k.Content)}
}

// receipt is for the caller's own books: where the bytes are, and which.
func (k *call) receipt(content []byte) *spec.Receipt {
	sum := sha256.Sum256(content)
	return &spec.Receipt{Dst: k.dst, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))}
}

// bytesTo is what is to be placed, and on what condition.
type bytesTo struct {
	content []byte
	like    vfs.File // for a move: the file whose mode, owner and attributes are kept
	expect  string   // version of the destination, spec.VersionAbsent, or empty
	from    string   // for a move: where the source is, below the root
}

func (b bytesTo) exclusive() bool { return b.expect == spec.VersionAbsent }

// place walks to path and puts the bytes there, itself or by a handler, and
// returns the version of what is then in place.
func (k *call) place(path string, b bytesTo) (string, error) {
	place, err := k.walk(path, true, true)
	if err != nil {
		return k.placeUnder(path, b, err)
	}
	defer place.Close()
	if place.Rel == b.from {
		// Once the bytes are here the source is unlinked: here.
		return "", &refused{kind: spec.ErrExists, text: "the destination is the source"}
	}
	tgt, err := k.probe(place)
	if err != nil {
		return "", err
	}
	defer tgt.close()
	k.dst = k.t.abs(place.Rel)
	dst := k.dst
	if !k.t.Steps.Identified(place.Linked, tgt.exists) {
		dst = ""
	}
	if err := k.expected(place, tgt, b.expect); err != nil {
		if tgt.denied != nil {
			k.deny(path, dst, tgt.denied)
		}
		return "", err
	}
	id, err := k.publish(place, tgt, b)
	switch {
	case err == nil:
		return k.t.Steps.Version(id, b.content), nil
	case !k.deniedStep(err):
		return "", err
	}
	v, landed, offerErr := k.offerWrite(path, dst, err, b)
	switch {
	case landed || offerErr != nil:
		return v, offerErr
	case tgt.exists && k.t.Steps.Protected(tgt.info):
		err = &refused{kind: spec.ErrReadOnlyTarget, text: "the file is read-only", err: err}
	}
	return "", err
}

// placeUnder goes on where a directory on the way could not be made. Handlers are
// asked if that was a denial; otherwise the walk's own error stands.
func (k *call) placeUnder(path string, b bytesTo, walkErr error) (string, error) {
	if k.masked == nil {
		return "", blocked(walkErr)
	}
	if rel, ok := destination(walkErr); ok {
		k.dst = k.t.abs(rel)
		// Nothing can be there: a caller that saw something saw it go.
		if err := k.expected(vfs.Place{}, &target{}, b.expect); err != nil {
			k.deny(path, k.dst, k.masked)
			return "", err
		}
	}
	if v, landed, err := k.offerWrite(path, k.dst, k.masked, b); landed || err != nil {
		return v, err
	}
	return "", fmt.Errorf("%w: making it: %w", walkErr, k.masked)
}

// target is what stands at a destination before the call touches it.
type target struct {
	exists bool
	file   vfs.File // open for writing, unless the kernel refused
	info   vfs.Info
	denied error // the kernel's refusal to write to it
}

func (t *target) close() {
	if t.file != nil {
		_ = t.file.Close() // nothing was written through it
	}
}

// probe asks the kernel whether the destination may be written, before anything
// is staged: publication by rename would slip past the file's own permissions
// (AT-012).
func (k *call) probe(place vfs.Place) (*target, error) {
	f, err := place.Dir.OpenFile(place.Name, vfs.Probe, 0)
	if err != nil {
		return k.refusedProbe(place, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode.IsRegular() {
		err = notRegular()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &target{exists: true, file: f, info: info}, nil
}

func (k *call) refusedProbe(place vfs.Place, err error) (*target, error) {
	switch kind := kindOf(err); {
	case kind == spec.ErrNotFound:
		return &target{}, nil
	case !k.t.Steps.Denied(kind):
		return nil, err
	}
	info, lookErr := place.Dir.Lstat(place.Name)
	switch {
	case lookErr == nil && info.Mode&fs.ModeSymlink != 0:
		return nil, err
	case lookErr == nil && !info.Mode.IsRegular():
		return nil, notRegular() // known not to be a file: no handler is to write to it (FB-026)
	case lookErr == nil:
		return &target{exists: true, info: info, denied: err}, nil
	case kindOf(lookErr) == spec.ErrNotFound:
		return &target{denied: err}, nil
	case kindOf(lookErr) == spec.ErrAccess:
		return nil, &refused{kind: spec.ErrInspect, text: "cannot look at the target", err: err}
	}
	return nil, lookErr
}

// expected compares the destination with the version that the caller saw.
func (k *call) expected(place vfs.Place, tgt *target, want string) error {
	switch {
	case want == "":
		return nil
	case want == spec.VersionAbsent && tgt.exists:
		return &refused{kind: spec.ErrExists, text: "the target exists"}
	case want == spec.VersionAbsent:
		return nil
	case !tgt.exists:
		return conflict("the target is gone")
	}
	return k.holds(place, tgt.info.ID, want)
}

// holds reports a conflict unless the file at place is the object id in the
// state want.
func (k *call) holds(place vfs.Place, id vfs.ID, want string) error {
	s, err := k.load(place)
	if err != nil {
		return err
	}
	defer s.close()
	if s.info.ID != id || k.t.Steps.Version(id, s.content) != want {
		return conflict("the target has changed")
	}
	return nil
}

// publish puts the bytes in place without help.
func (k *call) publish(place vfs.Place, tgt *target, b bytesTo) (vfs.ID, error) {
	if tgt.denied != nil {
		return vfs.ID{}, tgt.denied
	}
	r := publish.Request{Dir: place.Dir, Name: place.Name, Content: b.content, Perm: NewFileMode, Like: b.like}
	if tgt.exists {
		if k.t.Steps.Protected(tgt.info) {
			return vfs.ID{}, &refused{kind: spec.ErrReadOnlyTarget, text: "the file is read-only"}
		}
		r.Replace, r.Like = true, tgt.file
		r.Check = func() error {
			return k.t.Steps.LastLook(func() error { return k.unchanged(place, tgt, b.expect) })
		}
	}
	id, err := k.t.publisher(place.Name).Put(r)
	var p *publish.Error
	if !r.Replace && errors.As(err, &p) && !p.Unknown && kindOf(err) == spec.ErrExists {
		err = &refused{kind: spec.ErrConflict, text: "the target appeared meanwhile", err: err}
	}
	return id, err
}

// unchanged is the last look before a file is replaced. A change between it and
// the rename is not seen: that window is the kernel's to close, and is stated in
// the documentation. Reading the bytes takes a while, in which the file may be
// replaced: the entry is looked at once more after it.
func (k *call) unchanged(place vfs.Place, tgt *target, expect string) error {
	if err := k.sameEntry(place, tgt); err != nil || expect == "" {
		return err
	}
	if err := k.holds(place, tgt.info.ID, expect); err != nil {
		return err
	}
	return k.sameEntry(place, tgt)
}

func (k *call) sameEntry(place vfs.Place, tgt *target) error {
	now, err := place.Dir.Lstat(place.Name)
	switch {
	case kindOf(err) == spec.ErrNotFound:
		return conflict("the target is gone")
	case err != nil:
		return err
	case !k.t.Steps.Same(tgt.info, now):
		return conflict("the target has changed")
	}
	return nil
}

// deny puts a denial on record, before anything has become of it.
func (k *call) deny(path, dst string, cause error) *Refusal {
	k.refusals = append(k.refusals, Refusal{Denial: spec.Denial{
		Call: k.ID, Session: k.Session, Tool: string(k.Kind), Gate: spec.GateOS,
		Target: path, Dst: dst, Cause: kindOf(cause),
	}})
	return &k.refusals[len(k.refusals)-1]
}

// offerWrite asks the handlers about a denial, and returns the version of what one
// of them placed. Without a destination they are not asked, and the denial is on
// record all the same.
func (k *call) offerWrite(path, dst string, cause error, b bytesTo) (version string, landed bool, err error) {
	r := k.deny(path, dst, cause)
	if dst == "" {
		return "", false, nil
	}
	if !k.t.Seam.OfferWrite(k.ctx, spec.WriteRequest{Denial: r.Denial, Content: b.content, Exclusive: b.exclusive()}) {
		return "", false, k.givenUp()
	}
	// A handler that says yes before the bytes are there, or places others, leaves
	// the call unknown and not a success (FB-004).
	version, err = k.t.Steps.ReadBack(func() (string, error) { return k.inPlace(dst, b.content) })
	if err != nil {
		return "", false, &unknown{err}
	}
	r.Landed = true
	return version, true, nil
}

// givenUp is the outcome of a call whose handlers have not landed it, if nobody
// waited for the end: one of them may still be at work.
func (k *call) givenUp() error {
	if k.ctx.Err() == nil {
		return nil
	}
	return &unknown{errors.New("the call was given up while handlers were asked")}
}

// inPlace returns the version of the file at dst, which must hold want. No link is
// followed: dst has none, unless a handler or somebody else made one.
func (k *call) inPlace(dst string, want []byte) (string, error) {
	w := &vfs.Walker{Root: k.t.Root, RootPath: k.t.RootPath}
	place, err := w.Walk(k.t.below(dst), false)
	if err != nil {
		return "", err
	}
	defer place.Close()
	s, err := k.load(place)
	if err != nil {
		return "", err
	}
	defer s.close()
	if !bytes.Equal(want, s.content) {
		return "", errors.New("a handler reported success, but other bytes are in place")
	}
	return k.t.Steps.Version(s.info.ID, s.content), nil
}
