package model

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// raced returns the branches of a call during which an adversary may have struck:
// it takes effect before, between or after the edits, and the rest of them follow.
func (f Files) raced(s State, x *Exchange) []Branch {
	trees := stages(s.World, x.Edits)
	last := trees[len(trees)-1]
	made := everMade(trees, x)
	var out []Branch
	for i, w := range trees {
		branches := f.at(trees, i, x)
		if x.Crashed {
			branches = crash(w, i, x, branches)
		}
		for _, b := range branches {
			for _, e := range x.Edits[b.seen:] {
				b.Next.World = tree{b.Next.World}.edited(e.Edit)
			}
			b.Spare = append(alsoCarried(b.Spare, x.Edits[b.seen:]), made...)
			out = append(out, b)
			if len(x.Edits) > 0 {
				b.Status, b.Errs, b.HasContent, b.Must = spec.StatusUnknown, nil, false, ""
				out = append(out, b)
			}
		}
	}
	if blinded(x) {
		out = append(out, misled(out, last, x)...)
	}
	if barred(x) {
		for _, b := range out {
			if b.Status == spec.StatusOK {
				b.Status, b.Errs, b.Must = spec.StatusFailed, []spec.ErrKind{spec.ErrAccess}, ""
				out = append(out, b)
			}
		}
	}
	if len(x.Edits) == 0 {
		return out
	}
	out = append(out, window(trees, x)...)
	if x.Crashed || tookAway(trees, x) {
		for _, st := range []spec.Status{spec.StatusOK, spec.StatusFailed, spec.StatusUnknown} {
			out = append(out, Branch{Status: st, Next: State{last}, Rule: "PR-005", Loose: true})
		}
	}
	// Whoever meets an adversary may give up: all that happened is then what the
	// adversary did, and what handlers did somewhere in between.
	for i, w := range trees {
		if i > 0 && !acted(x) {
			break
		}
		w = brokered(brokered(w, x, spec.SeamWrite), x, spec.SeamDelete)
		for _, e := range x.Edits[i:] {
			w = tree{w}.edited(e.Edit)
		}
		b := Branch{Status: spec.StatusFailed, Next: State{w}, Rule: "AT-002", Spare: append(spares(last, x), made...)}
		out = append(out, b)
		b.Status = spec.StatusUnknown
		out = append(out, b)
	}
	return out
}

// everMade returns the directories that the call may have made on its way in any tree
// that it met, and what they are called after the edits that followed.
func everMade(trees []spec.World, x *Exchange) []string {
	var out []string
	for i := range x.Edits {
		out = append(out, alsoCarried(spares(trees[i], x), x.Edits[i:])...)
	}
	return out
}

// alsoCarried returns paths, and what they are called after edits: a directory that
// the call made may be carried along with the one that holds it.
func alsoCarried(paths []string, edits []Swapped) []string {
	out := slices.Clip(paths)
	for _, p := range paths {
		if now := carried(p, edits); now != p {
			out = append(out, now)
		}
	}
	return out
}

// tookAway reports whether the adversary took hold of something that was not there
// before the call: the subject had made it, and what became of it the edits cannot
// tell.
func tookAway(trees []spec.World, x *Exchange) bool {
	for i, e := range x.Edits {
		switch e.Edit.Op {
		case spec.EditRename, spec.EditExchange, spec.EditRemove:
			if _, there := trees[i][e.Edit.Path]; !there {
				return true
			}
		case spec.EditWrite, spec.EditMkdir, spec.EditSymlink, spec.EditHardlink, spec.EditFIFO, spec.EditChmod, spec.EditTouch:
		}
	}
	return false
}

// blinded reports whether the subject was told that something is missing by an
// operation that only looks. What it does next rests on a lie: its failures are
// not judged by the error that they name.
func blinded(x *Exchange) bool {
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.Effect == string(spec.ErrNotFound) && !f.After && (f.Class == "read" || f.Op == "probe")
	})
}

// misled returns the branches of a subject that was blinded: it may give up, or
// believe a handler whose work it cannot check. If it was also told that something
// failed which did not, it takes that for the truth.
func misled(branches []Branch, last spec.World, x *Exchange) []Branch {
	b := Branch{Status: spec.StatusFailed, Next: State{last}, Rule: "AT-002", Spare: spares(last, x), Litter: true}
	out := []Branch{b}
	if x.Call.Kind != spec.CallRead {
		b.Status = spec.StatusUnknown
		out = append(out, b)
	}
	if acted(x) {
		b.Next.World = brokered(brokered(last, x, spec.SeamWrite), x, spec.SeamDelete)
		out = append(out, b)
		if _, accepted := consulted(x, spec.SeamWrite); !accepted {
			b.Status = spec.StatusFailed
			out = append(out, b)
		}
	}
	if confirmed(b.Next.World, x) {
		b.Status = spec.StatusOK
		out = append(out, b)
	}
	if !slices.ContainsFunc(x.Fired, func(f trace.Fired) bool { return f.After }) {
		return out
	}
	for _, b := range branches {
		if b.Status == spec.StatusOK && !b.HasContent {
			b.Status, b.Must, b.Litter = spec.StatusFailed, "", true
			out = append(out, b)
		}
	}
	return out
}

// confirmed reports whether a blinded subject has reason to believe the handler
// that accepted: the name that was to go is said to be gone, or the bytes that were
// to be placed stood there before and still do.
func confirmed(w spec.World, x *Exchange) bool {
	if _, accepted := consulted(x, spec.SeamDelete); accepted {
		return true
	}
	_, accepted := consulted(x, spec.SeamWrite)
	s := resolve(w, x.Header, x.Call.Path, true)
	return accepted && x.Call.Kind == spec.CallWrite && s.no == nil && bytes.Equal(w[s.path].Content, x.Call.Content)
}

// shutOut reports whether the subject was told that it may not look.
func shutOut(x *Exchange) bool {
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.Op == "lstat" && !f.After && f.Effect == string(spec.ErrAccess)
	})
}

// barred reports whether the subject was told that it may not look and, of a removal
// that was performed, that it may not remove. Nobody can tell that from a directory
// that it may not search.
func barred(x *Exchange) bool {
	return shutOut(x) && slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.Op == "remove" && f.After && f.Effect == string(spec.ErrAccess)
	})
}

// namingOps are the operations that give a file its name.
var namingOps = []string{"publish", "rename", "link"}

// inWindow reports whether an adversary struck where whoever replaces a file has had
// the last look at it: at an operation that names the new one, at a look at what has
// the new one's name when that was taken, or at the close of the new one before that.
// An edit that sets the date back is hidden from then on where it
// comes behind the look at the bytes.
func inWindow(e Swapped, target string) bool {
	switch {
	case slices.Contains(namingOps, e.At.Op):
		return true
	case e.At.Path != target:
		return e.At.Op == "close" || e.At.Op == "lstat" && dirOf(e.At.Path) == dirOf(target)
	}
	return e.Edit.Op == spec.EditWrite && e.Edit.Mtime != 0 && (e.At.Class == "read" || e.At.Op == "close")
}

// window returns the branches of the one race that the contract leaves open: the
// destination of a replacement changes between the last look and the rename, and
// what was put there is lost.
func window(trees []spec.World, x *Exchange) []Branch {
	if x.Call.Kind != spec.CallWrite {
		return nil
	}
	var out []Branch
	for i, e := range x.Edits {
		s := resolve(trees[i], x.Header, x.Call.Path, true)
		if s.no != nil {
			s = resolve(trees[0], x.Header, x.Call.Path, true) // it was walked before somebody was at the way there
		}
		if _, there := trees[i][s.path]; s.no != nil || !there || !inWindow(e, s.path) {
			continue
		}
		next := tree{tree{trees[len(trees)-1]}.without(s.path)}.with(s.path, x.Call.Content)
		for _, st := range []spec.Status{spec.StatusOK, spec.StatusUnknown} {
			out = append(out, Branch{Status: st, Next: State{next}, Rule: "AT-001", Spare: spares(trees[i], x)})
		}
	}
	return out
}

// crash returns what may be found after the process was killed somewhere in a
// call: the tree as it was, or as any allowed behaviour leaves it. What was
// acknowledged before the call is in w, and stays.
func crash(w spec.World, i int, x *Exchange, branches []Branch) []Branch {
	litter := x.policy(spec.PolicyTempAfterKill) != spec.TempNone
	out := []Branch{{Status: spec.StatusUnknown, Next: State{w}, Rule: "AT-007", Litter: litter, Spare: spares(w, x), seen: i}}
	for _, b := range branches {
		b.Status, b.Errs, b.HasContent, b.Rule, b.Must, b.Litter = spec.StatusUnknown, nil, false, "AT-007", "", litter
		out[0].Spare = append(out[0].Spare, b.Spare...)
		out = append(out, b)
	}
	return out
}

// torn returns the branches of a subject that declares to write in place and was
// interrupted, or met, in the middle of the bytes. It has to say that it cannot
// tell, unless nothing but an adversary was in its way.
func torn(w spec.World, x *Exchange, s spot) []Branch {
	interrupted := x.Crashed || len(faultKinds(x.Fired)) > 0
	if x.policy(spec.PolicyDurability) != spec.DurabilityNone || !interrupted && len(x.Edits) == 0 {
		return nil
	}
	if c := toWrite(w, x.Header, s); c.must != nil || len(c.denied) > 0 {
		return nil
	}
	next := placed(w, x.Header, s.path, x.Call.Content)
	b := Branch{Status: spec.StatusUnknown, Next: State{next}, Rule: "AT-001", Torn: []string{s.path}, Spare: mayLeave(x, s)}
	if x.policy(spec.PolicyHardlink) == spec.HardlinkInPlace {
		b.Torn = append(b.Torn, tree{w}.siblings(s.path)...)
	}
	out := []Branch{b}
	if !interrupted {
		b.Status = spec.StatusOK
		out = append(out, b)
	}
	return out
}

// faulty adds what faults that struck allow: the call may fail with their kinds
// and leave the tree as w, or leave its outcome unknown where they can have hidden
// it. A call that must be refused anyway may name either error.
func faulty(out []Branch, w spec.World, x *Exchange, spare []string) []Branch {
	kinds := faultKinds(x.Fired)
	if len(kinds) == 0 {
		return out
	}
	litter, hidden := litters(x), hides(x)
	for i, b := range out {
		out[i].Litter = out[i].Litter || litter
		if hidden && b.Status == spec.StatusOK && !b.HasContent {
			b.Status, b.Must = spec.StatusUnknown, ""
			out = append(out, b)
		}
	}
	rule := spec.RuleID("AT-002")
	switch x.Call.Kind {
	case spec.CallDelete:
		rule = "OC-007"
	case spec.CallRead:
		rule = "AT-004"
	case spec.CallWrite, spec.CallMove, spec.CallEdit, spec.CallView, spec.CallTool:
	}
	out = append(out, Branch{
		Status: spec.StatusFailed, Errs: kinds, Next: State{w}, Rule: rule, Must: "OC-005", Spare: spare, Litter: litter,
	})
	if hidden {
		out = append(out, Branch{Status: spec.StatusUnknown, Next: State{w}, Rule: rule, Spare: spare, Litter: litter})
	}
	return out
}

// clearOps are operations whose failure leaves nothing in doubt: they come before
// a byte is written or a name is given.
var clearOps = []string{"mkdir", "probe", "open-doomed", "open-file"}

// hides reports whether a fault that struck can have hidden from the subject what
// became of its call. A read has nothing that could be hidden.
func hides(x *Exchange) bool {
	return x.Call.Kind != spec.CallRead && slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.After || !slices.Contains(clearOps, f.Op)
	})
}

// faultKinds returns the errors that a call may name because of what struck it.
func faultKinds(fired []trace.Fired) []spec.ErrKind {
	var kinds []spec.ErrKind
	for _, f := range fired {
		kind := spec.ErrKind(f.Effect)
		switch {
		case f.Effect == trace.EffectShort:
			kinds = append(kinds, spec.ErrIO, spec.ErrNoSpace, spec.ErrOther)
			continue
		case f.Effect == trace.EffectSwap || f.Effect == trace.EffectCrash || f.Effect == trace.EffectAgain:
			continue
		case f.After:
			// Performed and yet refused: what the call meets next is its own doing.
			kinds = append(kinds, spec.ErrConflict, spec.ErrExists, spec.ErrNotFound)
		}
		kinds = append(kinds, kind)
		if kind == spec.ErrNotFound {
			kinds = append(kinds, spec.ErrConflict, spec.ErrExists, spec.ErrInspect) // what was there a moment ago
		}
		if f.Class == "read" {
			kinds = append(kinds, spec.ErrInspect)
		}
		if f.Op == "mkdir" && denial(kind) {
			kinds = append(kinds, spec.ErrNotFound)
		}
		if f.Op == "chown" || f.Op == "chmod" || strings.Contains(f.Op, "xattr") {
			kinds = append(kinds, spec.ErrUnsupported)
		}
	}
	return distinct(kinds)
}

// distinct returns kinds without repetitions, in order.
func distinct(kinds []spec.ErrKind) []spec.ErrKind {
	var out []spec.ErrKind
	for _, k := range kinds {
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	return out
}

// litters reports whether a private file may be left over: the clean-up itself
// was struck, or could not see what it had to clean up.
func litters(x *Exchange) bool {
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.Op == "remove" || f.Class == "read" || f.After
	})
}

// denial reports whether a kind is a permission denial: of what the system may
// answer, these three may reach a handler, and nothing else may.
func denial(k spec.ErrKind) bool {
	return k == spec.ErrNotPermitted || k == spec.ErrAccess || k == spec.ErrReadOnly
}

// spares returns the directories that a call may have made or left on the way to
// its targets.
func spares(w spec.World, x *Exchange) []string {
	var out []string
	for _, p := range []string{x.Call.Path, x.Call.To} {
		s := resolve(w, x.Header, p, true)
		out = append(out, s.missing...)
		out = append(out, s.detour...)
	}
	return out
}
