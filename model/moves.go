package model

import (
	"bytes"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// move is two primitives in a row: the destination is written, then the source is
// unlinked. Each may be denied, and handled, on its own, and the second failing
// does not undo the first.
func (f Files) move(w spec.World, x *Exchange) []Branch {
	src := reach(w, x.Header, x.Call.Path, false)
	dst := resolve(w, x.Header, x.Call.To, true)
	no := src.no
	if no == nil {
		no = fromSource(w, x, src)
	}
	switch {
	case no != nil && dst.no != nil:
		// Two reasons to refuse: which is met first is the tool's affair.
		no = &refusal{rule: no.rule, kinds: append(slices.Clone(no.kinds), dst.no.kinds...)}
	case no == nil && dst.no != nil && x.Expect == ExpectUnclear:
		no = &refusal{rule: dst.no.rule, kinds: append(slices.Clone(dst.no.kinds), spec.ErrConflict)}
	case no == nil:
		no = dst.no
	}
	spare := mayLeave(x, dst)
	if no != nil {
		b := refusing(w, no.rule, no.kinds...)
		b.Spare = spare
		return faulty([]Branch{b}, w, x, spare)
	}
	n, there := w[dst.path]
	if there {
		kinds := []spec.ErrKind{spec.ErrExists, spec.ErrConflict}
		switch n.Type {
		case spec.TypeDir:
			kinds = append(kinds, spec.ErrIsDir, spec.ErrUnsupported)
		case spec.TypeLink:
			kinds = append(kinds, spec.ErrLoop, spec.ErrEscapes)
		case spec.TypeFile:
			// Whoever asks first whether it may be written hears that it may not.
			kinds = append(kinds, tree{w}.refusesBytes(dst.path)...)
		case spec.TypeFIFO, spec.TypeOther, spec.TypeHidden:
			kinds = append(kinds, spec.ErrUnsupported)
		}
		b := refusing(w, "AT-018", kinds...)
		b.Spare = spare
		return faulty([]Branch{b}, w, x, spare)
	}
	return f.moveTo(w, x, src, dst)
}

// fromSource returns the refusal of a source that cannot be moved.
func fromSource(w spec.World, x *Exchange, s spot) *refusal {
	n, there := w[s.path]
	switch {
	case !there:
		return refuse("OC-001", spec.ErrNotFound, spec.ErrConflict).no
	case n.Type == spec.TypeLink:
		return refuse("PR-003", spec.ErrLoop, spec.ErrEscapes, spec.ErrUnsupported).no
	case n.Type == spec.TypeDir:
		return refuse("PR-009", spec.ErrIsDir, spec.ErrUnsupported).no
	case n.Type != spec.TypeFile:
		return refuse("PR-009", spec.ErrUnsupported, spec.ErrInvalid, spec.ErrAccess).no
	case grants(n)&4 == 0:
		return refuse("OC-001", spec.ErrAccess).no
	}
	if b, refused := expecting(w, x, s, "AT-009"); refused {
		return refuse(b.Rule, b.Errs...).no
	}
	return nil
}

// moveTo returns the branches of a move whose source can be read and whose
// destination is free.
func (f Files) moveTo(w spec.World, x *Exchange, src, dst spot) []Branch {
	content := w[src.path].Content
	c := toWrite(w, x.Header, dst)
	spare := mayLeave(x, dst)
	landed := brokered(w, x, spec.SeamWrite)
	var out []Branch
	var written []spec.World // the ways in which the destination may have come to hold the bytes
	if len(c.denied) == 0 {
		written = append(written, placed(w, x.Header, dst.path, content))
	}
	_, accepted := consulted(x, spec.SeamWrite)
	switch {
	case accepted:
		if n := landed[dst.path]; n.Type == spec.TypeFile && bytes.Equal(n.Content, content) {
			written = append(written, landed)
		}
		out = append(out, Branch{Status: spec.StatusUnknown, Next: State{landed}, Rule: "FB-023", Must: "FB-023"})
	case len(c.denied) > 0:
		out = append(out, Branch{
			Status: spec.StatusFailed, Errs: c.denied, Next: State{landed}, Rule: "FB-023", Must: "FB-010", Spare: spare,
		})
	}
	if x.Expect == ExpectUnclear {
		out = append(out, refusing(w, "AT-010", spec.ErrConflict))
	}
	if n := w[src.path]; n.Owner != spec.OwnerSubject {
		out = append(out, Branch{Status: spec.StatusFailed, Errs: []spec.ErrKind{spec.ErrUnsupported}, Next: State{w}, Rule: "AT-022", Spare: spare})
	}
	for _, t1 := range written {
		out = append(out, f.moveFrom(t1, x, src, spare)...)
	}
	return faulty(out, landed, x, spare)
}

// moveFrom returns the branches of the second half: the destination is written in
// w, the source is to go.
func (Files) moveFrom(w spec.World, x *Exchange, src spot, spare []string) []Branch {
	t := tree{w}
	denied := t.refusesRemoval(src.path)
	if w[src.path].Mount != spec.MountNone {
		denied = append(denied, spec.ErrBusy)
	}
	var out []Branch
	if len(denied) == 0 {
		out = append(out, Branch{
			Status: spec.StatusOK, Next: State{t.without(src.path)}, Rule: "AT-017", Must: "OC-001", Spare: spare,
		})
	}
	after := brokered(w, x, spec.SeamDelete)
	_, accepted := consulted(x, spec.SeamDelete)
	_, still := after[src.path]
	switch {
	case accepted && !still:
		out = append(out,
			Branch{Status: spec.StatusOK, Next: State{after}, Rule: "AT-017", Must: "OC-001", Spare: spare},
			Branch{Status: spec.StatusUnknown, Next: State{after}, Rule: "AT-017", Spare: spare})
	case accepted:
		out = append(out, Branch{Status: spec.StatusUnknown, Next: State{after}, Rule: "FB-024", Must: "FB-024", Spare: spare})
	case len(denied) > 0:
		out = append(out, Branch{Status: spec.StatusFailed, Errs: denied, Next: State{after}, Rule: "FB-024", Must: "FB-024", Spare: spare})
	}
	if deniedAfterwards(x) {
		out = append(out, refusing(t.without(src.path), "FB-024", spec.ErrNotFound))
	}
	if len(x.Edits) > 0 {
		// Somebody was at the source in between: it is not the file that was copied.
		out = append(out, Branch{Status: spec.StatusFailed, Next: State{w}, Rule: "FB-024", Spare: spare})
	}
	// A fault between the two halves leaves both files; one after them, only the new.
	out = faulty(out, after, x, spare)
	if x.Crashed || len(faultKinds(x.Fired)) > 0 {
		out = append(out,
			Branch{Status: spec.StatusUnknown, Next: State{w}, Rule: "FB-024", Spare: spare, Litter: litters(x)},
			Branch{Status: spec.StatusUnknown, Next: State{t.without(src.path)}, Rule: "AT-017", Spare: spare, Litter: litters(x)})
	}
	return out
}
