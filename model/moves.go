package model

import (
	"bytes"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// move is two primitives in a row: the destination is written, then the source is
// unlinked. Each may be denied, and handled, on its own, and the second failing
// does not undo the first. The source is looked at in the tree as edits up to i left
// it; more of them may come before the destination is looked at, and more before
// the source goes.
func (f Files) move(trees []spec.World, i int, x *Exchange) []Branch {
	w := trees[i]
	src := reach(w, x.Header, x.Call.Path, false)
	no := src.no
	if no == nil {
		no = fromSource(w, x, src)
	}
	var out []Branch
	if no != nil {
		dst := resolve(w, x.Header, x.Call.To, true)
		b := no.branch(w)
		b.Spare = mayLeave(x, dst)
		if too := untakeable(w, x, dst); too != nil {
			b.Errs = append(slices.Clone(b.Errs), too.kinds...) // which is met first is the tool's affair
		}
		out = faulty([]Branch{b}, w, x, b.Spare)
		if src.no != nil || !no.soft {
			return out
		}
		out = optional(out)
	}
	for j := i; j < len(trees); j++ {
		for _, b := range f.moveTo(trees, i, j, x, src.path) {
			b.seen = max(b.seen, j)
			out = append(out, b)
		}
	}
	return out
}

// heldName returns what the name p is called after edits to whoever holds its
// directory, and whether it still names the same.
func heldName(p string, edits []Swapped) (string, bool) {
	name := join(carried(dirOf(p), edits), baseOf(p))
	return name, name == carried(p, edits)
}

// carried returns where edits took what was at p: whoever holds it goes along.
func carried(p string, edits []Swapped) string {
	for _, e := range edits {
		switch e.Edit.Op {
		case spec.EditRename:
			p, _ = rebased(p, e.Edit.Path, e.Edit.To)
		case spec.EditExchange:
			moved := false
			if p, moved = rebased(p, e.Edit.Path, e.Edit.To); !moved {
				p, _ = rebased(p, e.Edit.To, e.Edit.Path)
			}
		case spec.EditWrite, spec.EditMkdir, spec.EditSymlink, spec.EditHardlink, spec.EditFIFO, spec.EditRemove, spec.EditChmod, spec.EditTouch:
		}
	}
	return p
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
		no := refuse("OC-001", spec.ErrAccess).no
		no.soft = true // who renames need not read
		return no
	}
	if b, refused := expecting(w, x, s, "AT-009"); refused {
		return refuse(b.Rule, b.Errs...).no
	}
	return nil
}

// untakeable returns the refusal of a destination that cannot be named, that
// exists, or that the subject declares not to make.
func untakeable(w spec.World, x *Exchange, s spot) *refusal {
	n, there := w[s.path]
	switch {
	case s.no != nil:
		return s.no
	case !there:
		return toWrite(w, x.Header, s).must
	}
	kinds := []spec.ErrKind{spec.ErrExists, spec.ErrConflict}
	switch n.Type {
	case spec.TypeDir:
		kinds = append(kinds, spec.ErrIsDir, spec.ErrUnsupported)
	case spec.TypeLink:
		kinds = append(kinds, spec.ErrLoop, spec.ErrEscapes)
	case spec.TypeFile:
		// Whoever asks first whether it may be written hears that it may not.
		kinds = append(kinds, tree{w}.refusesBytes(s.path)...)
	case spec.TypeFIFO, spec.TypeOther, spec.TypeHidden:
		kinds = append(kinds, spec.ErrUnsupported)
	}
	return refuse("AT-018", kinds...).no
}

// moveTo returns the branches of a move that has read the file src in the tree as
// edits up to i left it, and meets its destination in the one as edits up to j did.
func (f Files) moveTo(trees []spec.World, i, j int, x *Exchange, src string) []Branch {
	w, content := trees[j], trees[i][src].Content
	from, _ := heldName(src, x.Edits[i:j])
	dst := resolve(w, x.Header, x.Call.To, true)
	spare := mayLeave(x, dst)
	if no := untakeable(w, x, dst); no != nil {
		out := []Branch{untaken(w, x, no, from, dst)}
		if _, accepted := consulted(x, spec.SeamWrite); accepted && blinded(x) && dst.no == nil && bytes.Equal(w[dst.path].Content, content) {
			// Told that nothing is there, and that a handler has placed what is.
			out = append(optional(out), f.moveFrom(w, x, from, spare)...)
		}
		return faulty(out, w, x, spare)
	}
	landed := brokered(w, x, spec.SeamWrite)
	out, written := f.placingMoved(w, x, dst, content)
	if k := append(crossing(w, from, dst.path), unremovable(w, from)...); len(k) > 0 {
		// A tool that renames hears this before the destination is written.
		out = append(out, Branch{Status: spec.StatusFailed, Errs: k, Next: State{landed}, Rule: "FB-023", Spare: spare})
	}
	n := w[from]
	if n.Owner != spec.OwnerSubject || len(n.Xattrs) > 0 && x.policy(spec.PolicyXattr) == spec.XattrRefuse {
		out = append(out, Branch{Status: spec.StatusFailed, Errs: []spec.ErrKind{spec.ErrUnsupported}, Next: State{w}, Rule: "AT-022", Spare: spare})
	}
	for _, t1 := range written {
		for k := j; k < len(trees); k++ {
			if k > j {
				t1 = tree{t1}.edited(x.Edits[k-1].Edit)
			}
			from, same := heldName(src, x.Edits[i:k])
			if !same && x.Edits[k-1].At.Op != "remove" {
				continue // another file has the name, and that could be seen
			}
			for _, b := range f.moveFrom(t1, x, from, spare) {
				b.seen = k
				out = append(out, b)
			}
		}
	}
	return append(faulty(out, landed, x, spare), torn(w, x, dst)...)
}

// untaken is the branch of a move whose destination is refused.
func untaken(w spec.World, x *Exchange, no *refusal, from string, dst spot) Branch {
	b := no.branch(w)
	b.Errs = append(slices.Clone(b.Errs), crossing(w, from, dst.path)...)
	if x.Expect == ExpectUnclear {
		b.Errs = append(b.Errs, spec.ErrConflict)
	}
	if len(dst.detour) > 0 {
		b.Errs = append(b.Errs, spec.ErrNotFound)
	}
	b.Spare = mayLeave(x, dst)
	return b
}

// crossing returns what a tool may hear that renames from one mount to another.
func crossing(w spec.World, from, to string) []spec.ErrKind {
	if t := (tree{w}); t.mount(dirOf(from)) != t.mount(dirOf(to)) {
		return []spec.ErrKind{spec.ErrCrossDevice}
	}
	return nil
}

// placingMoved returns the branches of a move that ends with its first half, and the
// trees in which the destination has come to hold the bytes, for the second.
func (Files) placingMoved(w spec.World, x *Exchange, dst spot, content spec.Content) (out []Branch, written []spec.World) {
	c := toWrite(w, x.Header, dst)
	spare := mayLeave(x, dst)
	landed := brokered(w, x, spec.SeamWrite)
	if len(c.denied) == 0 {
		written = append(written, placed(w, x.Header, dst.path, content))
	}
	_, accepted := consulted(x, spec.SeamWrite)
	switch {
	case accepted:
		if n := landed[dst.path]; n.Type == spec.TypeFile && bytes.Equal(n.Content, content) {
			written = append(written, landed)
		}
		out = append(out, Branch{Status: spec.StatusUnknown, Next: State{landed}, Rule: "FB-023", Must: "FB-023", Spare: spare})
	case len(c.denied) > 0:
		out = append(out, Branch{
			Status: spec.StatusFailed, Errs: c.denied, Next: State{landed}, Rule: "FB-023", Must: "FB-010", Spare: spare,
		})
	}
	if x.Expect == ExpectUnclear {
		b := refusing(w, "AT-010", spec.ErrConflict)
		b.Spare = spare
		out = append(out, b)
	}
	return out, written
}

// unremovable returns the errors with which a kernel may refuse to take the name p
// away.
func unremovable(w spec.World, p string) []spec.ErrKind {
	denied := tree{w}.refusesRemoval(p)
	if w[p].Mount != spec.MountNone {
		denied = append(denied, spec.ErrBusy)
	}
	return denied
}

// moveFrom returns the branches of the second half: the destination is written in
// w, and the source, now at from, is to go.
func (Files) moveFrom(w spec.World, x *Exchange, from string, spare []string) []Branch {
	t := tree{w}
	denied := unremovable(w, from)
	var out []Branch
	if len(denied) == 0 {
		out = append(out, Branch{
			Status: spec.StatusOK, Next: State{t.without(from)}, Rule: "AT-017", Must: "OC-001", Spare: spare,
		})
	}
	after := brokered(w, x, spec.SeamDelete)
	_, accepted := consulted(x, spec.SeamDelete)
	_, still := after[from]
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
		out = append(out, refusing(t.without(from), "FB-024", spec.ErrNotFound))
	}
	if len(x.Edits) > 0 {
		// Somebody was at the source in between: it is not the file that was copied.
		out = append(out, Branch{Status: spec.StatusFailed, Next: State{w}, Rule: "FB-024", Spare: spare})
	}
	// A fault between the two halves leaves both files; one after them, only the new.
	out = faulty(out, after, x, spare)
	if x.Crashed || hides(x) {
		out = append(out,
			Branch{Status: spec.StatusUnknown, Next: State{w}, Rule: "FB-024", Spare: spare, Litter: litters(x)},
			Branch{Status: spec.StatusUnknown, Next: State{t.without(from)}, Rule: "AT-017", Spare: spare, Litter: litters(x)})
	}
	return out
}
