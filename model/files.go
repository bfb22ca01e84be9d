package model

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Files is the sequential specification of the file tools and of the fallback
// seam behind them.
type Files struct{}

var _ Model = Files{}

// Init implements Model.
func (Files) Init(w spec.World) State { return State{World: w} }

// Branches implements Model. Where an adversary struck during the call, the call
// may take effect before, between or after the edits; the rest of them follow.
func (f Files) Branches(s State, x *Exchange) []Branch {
	stages := []spec.World{s.World}
	for _, e := range x.Edits {
		stages = append(stages, tree{stages[len(stages)-1]}.edited(e.Edit))
	}
	last := stages[len(stages)-1]
	var out []Branch
	for i, w := range stages {
		branches := f.at(w, x)
		if x.Crashed {
			branches = crash(w, x, branches)
		}
		for _, b := range branches {
			for _, e := range x.Edits[i:] {
				b.Next.World = tree{b.Next.World}.edited(e.Edit)
			}
			out = append(out, b)
			if len(x.Edits) > 0 {
				b.Status, b.Errs, b.HasContent, b.Must = spec.StatusUnknown, nil, false, ""
				out = append(out, b)
			}
		}
	}
	if blinded(x) {
		for _, st := range []spec.Status{spec.StatusFailed, spec.StatusUnknown} {
			out = append(out, Branch{Status: st, Next: State{last}, Rule: "PR-010", Loose: true})
		}
	}
	if len(x.Edits) > 0 {
		out = append(out, f.window(stages, x)...)
		if acted(x) || len(faultKinds(x.Fired)) > 0 || x.Crashed || x.Call.Kind == spec.CallMove || between(stages, x) {
			for _, st := range []spec.Status{spec.StatusOK, spec.StatusFailed, spec.StatusUnknown} {
				out = append(out, Branch{Status: st, Next: State{last}, Rule: "PR-005", Loose: true})
			}
		}
		out = append(out,
			Branch{Status: spec.StatusFailed, Next: State{last}, Rule: "PR-005", Spare: spares(last, x)},
			Branch{Status: spec.StatusUnknown, Next: State{last}, Rule: "PR-005", Spare: spares(last, x)})
	}
	return out
}

// between reports whether the adversary took hold of something that was not there
// before the call: the subject had made it, and what became of it the edits cannot
// tell.
func between(stages []spec.World, x *Exchange) bool {
	for i, e := range x.Edits {
		switch e.Edit.Op {
		case spec.EditRename, spec.EditExchange, spec.EditRemove:
			if _, there := stages[i][e.Edit.Path]; !there {
				return true
			}
		case spec.EditWrite, spec.EditMkdir, spec.EditSymlink, spec.EditHardlink, spec.EditFIFO, spec.EditChmod, spec.EditTouch:
		}
	}
	return false
}

// blinded reports whether the subject was told that something is missing by an
// operation that only looks. What it does next rests on a lie: its failures are
// not judged by the tree that it could not see.
func blinded(x *Exchange) bool {
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		return f.Effect == string(spec.ErrNotFound) && !f.After && (f.Class == "read" || f.Op == "probe")
	})
}

// namingOps are the operations that give a file its name.
var namingOps = []string{"publish", "rename", "link"}

// window returns the branches of the one race that the contract leaves open: the
// destination of a replacement changes between the last look and the rename, and
// what was put there is lost.
func (f Files) window(stages []spec.World, x *Exchange) []Branch {
	if x.Call.Kind != spec.CallWrite {
		return nil
	}
	var out []Branch
	for i, e := range x.Edits {
		s := resolve(stages[i], x.Header, x.Call.Path, true)
		if _, there := stages[i][s.path]; s.no != nil || !there || !slices.Contains(namingOps, e.At.Op) {
			continue
		}
		next := tree{tree{stages[len(stages)-1]}.without(s.path)}.with(s.path, x.Call.Content)
		for _, st := range []spec.Status{spec.StatusOK, spec.StatusUnknown} {
			out = append(out, Branch{Status: st, Next: State{next}, Rule: "AT-001", Spare: spares(stages[i], x)})
		}
	}
	return out
}

// crash returns what may be found after the process was killed somewhere in a
// call: the tree as it was, or as any allowed behaviour leaves it. What was
// acknowledged before the call is in w, and stays.
func crash(w spec.World, x *Exchange, branches []Branch) []Branch {
	out := []Branch{{Status: spec.StatusUnknown, Next: State{w}, Rule: "AT-007", Litter: true, Spare: spares(w, x)}}
	for _, b := range branches {
		b.Status, b.Errs, b.HasContent, b.Rule, b.Must, b.Litter = spec.StatusUnknown, nil, false, "AT-007", "", true
		out[0].Spare = append(out[0].Spare, b.Spare...)
		out = append(out, b)
	}
	return out
}

// at returns the branches of a call that meets the World w and nothing else.
func (f Files) at(w spec.World, x *Exchange) []Branch {
	var out []Branch
	switch x.Call.Kind {
	case spec.CallRead:
		out = f.read(w, x)
	case spec.CallWrite:
		out = f.write(w, x)
	case spec.CallDelete:
		out = f.delete(w, x)
	case spec.CallMove:
		out = f.move(w, x)
	case spec.CallEdit, spec.CallView, spec.CallTool:
		return []Branch{refusing(w, "OC-001", spec.ErrUnsupported, spec.ErrInvalid)}
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		if s := resolve(w, x.Header, path, true); s.perhaps != nil {
			out = append(out, Branch{Status: spec.StatusFailed, Errs: s.perhaps, Next: State{w}, Rule: "OC-001"})
		}
	}
	return out
}

// refusing is the branch of a call that must be refused.
func refusing(w spec.World, rule spec.RuleID, kinds ...spec.ErrKind) Branch {
	return Branch{Status: spec.StatusFailed, Errs: kinds, Next: State{w}, Rule: rule, Must: rule}
}

// faulty adds what faults that struck allow: the call may fail with their kinds
// and leave the tree as w, or leave its outcome unknown. A call that must be
// refused anyway may name either error.
func faulty(out []Branch, w spec.World, x *Exchange, spare []string) []Branch {
	kinds := faultKinds(x.Fired)
	if len(kinds) == 0 {
		return out
	}
	litter := litters(x)
	for i, b := range out {
		out[i].Litter = out[i].Litter || litter
		if b.Status == spec.StatusOK && !b.HasContent {
			b.Status, b.Must = spec.StatusUnknown, ""
			out = append(out, b)
		}
	}
	out = append(out,
		Branch{Status: spec.StatusFailed, Errs: kinds, Next: State{w}, Rule: "AT-002", Must: "OC-005", Spare: spare, Litter: litter},
		Branch{Status: spec.StatusUnknown, Next: State{w}, Rule: "AT-002", Spare: spare, Litter: litter})
	return out
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
		case f.Effect == trace.EffectSwap || f.Effect == trace.EffectCrash:
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
		return f.Class == "remove" || f.Class == "read" || f.After
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

func (Files) read(w spec.World, x *Exchange) []Branch {
	s := reach(w, x.Header, x.Call.Path, true)
	if s.no != nil {
		return faulty([]Branch{refusing(w, s.no.rule, s.no.kinds...)}, w, x, nil)
	}
	n, there := w[s.path]
	var out []Branch
	switch {
	case !there:
		out = append(out, refusing(w, "OC-001", spec.ErrNotFound))
	case n.Type == spec.TypeLink:
		out = append(out, refusing(w, "PR-003", spec.ErrLoop, spec.ErrEscapes))
	case n.Type == spec.TypeDir:
		out = append(out, refusing(w, "PR-009", spec.ErrIsDir, spec.ErrUnsupported))
	case n.Type != spec.TypeFile:
		out = append(out, refusing(w, "PR-009", spec.ErrUnsupported, spec.ErrInvalid, spec.ErrAccess))
	case grants(n)&4 == 0:
		out = append(out, refusing(w, "OC-001", spec.ErrAccess))
	default:
		out = append(out, Branch{
			Status: spec.StatusOK, Next: State{w}, Content: n.Content, HasContent: true, Rule: "OC-006", Must: "OC-001",
		})
	}
	return faulty(out, w, x, nil)
}

// condition is what stands in the way of writing to a spot.
type condition struct {
	must   *refusal       // no system and no handler may go past it
	denied []spec.ErrKind // every kind of native write is refused so
	soft   []spec.ErrKind // some kinds of native write are refused so
	rule   spec.RuleID    // broken by going past denied without a handler
}

// toWrite returns the condition of a spot that a call wants to hold bytes.
func toWrite(w spec.World, h *trace.Header, s spot) condition {
	t := tree{w}
	n, there := w[s.path]
	switch {
	case there && n.Type == spec.TypeLink:
		rule := spec.RuleID("PR-003")
		if to := resolve(w, &trace.Header{Root: h.Root, Policies: spec.Policies{spec.PolicyLinks: spec.LinksFollow}},
			strings.TrimPrefix(s.path, spec.Workspace+"/"), true); to.no != nil || !t.has(to.path) {
			rule = "PR-004"
		}
		return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrLoop, spec.ErrEscapes}, rule: rule}}
	case there && n.Type == spec.TypeDir:
		return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrIsDir, spec.ErrUnsupported, spec.ErrInvalid}, rule: "PR-009"}}
	case there && n.Type != spec.TypeFile:
		return condition{must: &refusal{
			kinds: []spec.ErrKind{spec.ErrUnsupported, spec.ErrInvalid, spec.ErrAccess, spec.ErrReadOnly}, rule: "PR-009",
		}}
	case there:
		return overExisting(t, h, s, n)
	case len(s.missing) > 0:
		if k := t.refusesEntries(dirOf(s.missing[0])); len(k) > 0 {
			// The kernel's word for a parent that could not be made is ENOENT.
			return condition{denied: []spec.ErrKind{spec.ErrNotFound}, rule: "FB-011"}
		}
	default:
		if k := t.refusesEntries(dirOf(s.path)); len(k) > 0 {
			return condition{denied: k, rule: "FB-010"}
		}
	}
	return condition{}
}

func overExisting(t tree, h *trace.Header, s spot, n spec.Node) condition {
	if n.Nlink > 1 || n.Hard != "" {
		if h.Policies[spec.PolicyHardlink] == "refuse" {
			return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrUnsupported, spec.ErrConflict}, rule: "AT-013"}}
		}
	}
	if k := t.refusesBytes(s.path); len(k) > 0 {
		c := condition{denied: k, rule: "FB-010"}
		if n.Mode&0o222 == 0 {
			c.denied, c.rule = append(c.denied, spec.ErrReadOnlyTarget), "AT-012"
		}
		return c
	}
	var c condition
	c.soft = t.refusesRemoval(s.path)
	if n.Mount == spec.MountBind {
		c.soft = append(c.soft, spec.ErrBusy)
	}
	if n.Owner != spec.OwnerSubject {
		c.soft = append(c.soft, spec.ErrUnsupported)
	}
	return c
}

func (f Files) write(w spec.World, x *Exchange) []Branch {
	s := resolve(w, x.Header, x.Call.Path, true)
	if asked, _ := consulted(x, spec.SeamWrite); s.no != nil && s.no.rule == "PR-008" && asked {
		return faulty(unseenWrite(w, x, s), brokered(w, x, spec.SeamWrite), x, nil)
	}
	spare := mayLeave(x, s)
	if s.no != nil {
		b := refusing(w, s.no.rule, s.no.kinds...)
		b.Spare = spare
		return faulty([]Branch{b}, w, x, spare)
	}
	if b, refused := expecting(w, x, s, "AT-009"); refused {
		b.Spare = spare
		return faulty([]Branch{b}, w, x, spare)
	}
	out := f.placing(w, x, s, x.Call.Content, "AT-001")
	for i := range out {
		out[i].Spare = append(out[i].Spare, spare...)
	}
	return faulty(out, brokered(w, x, spec.SeamWrite), x, spare)
}

// mayLeave returns the directories that may be there after the call although its
// branch does not say so: made on the way and kept, or made and taken away.
func mayLeave(x *Exchange, s spot) []string {
	if x.Header.Policies[spec.PolicyParents] == "remove" && len(x.Fired) == 0 && !acted(x) && !x.Crashed {
		return s.detour
	}
	return append(slices.Clone(s.missing), s.detour...)
}

// expecting returns the refusal of a call whose expectation the target does not
// meet.
func expecting(w spec.World, x *Exchange, s spot, rule spec.RuleID) (Branch, bool) {
	n, there := w[s.path]
	switch want := x.Call.ExpectVersion; {
	case want == "":
		return Branch{}, false
	case there && n.Type != spec.TypeFile:
		return Branch{}, false // refused for what it is
	case want == spec.VersionAbsent && there:
		if len(x.Edits) > 0 {
			rule = "AT-008"
		}
		return refusing(w, rule, spec.ErrExists, spec.ErrConflict), true
	case want == spec.VersionAbsent:
		return Branch{}, false
	case !there:
		return refusing(w, rule, spec.ErrConflict, spec.ErrNotFound), true
	}
	if x.Expect == ExpectStale || len(x.Edits) > 0 && !alike(n, x.Before[s.path]) {
		// Who may not read the file cannot tell, and must not write.
		return refusing(w, rule, spec.ErrConflict, spec.ErrInspect, spec.ErrAccess), true
	}
	return Branch{}, false
}

// placing returns the branches of putting bytes at a spot: natively, by a
// handler, or not.
func (f Files) placing(w spec.World, x *Exchange, s spot, content spec.Content, rule spec.RuleID) []Branch {
	c := toWrite(w, x.Header, s)
	if c.must != nil {
		return []Branch{refusing(w, c.must.rule, c.must.kinds...)}
	}
	var out []Branch
	if len(c.denied) == 0 {
		b := Branch{Status: spec.StatusOK, Next: State{placed(w, x.Header, s.path, content)}, Rule: rule, Must: "OC-001"}
		switch {
		case x.Expect == ExpectCurrent:
			b.Must = "AT-010"
		case len(baseOf(s.path)) > nameLimit-16:
			b.Must = "PR-012"
		}
		out = append(out, b)
	}
	if x.Expect == ExpectUnclear || x.Expect == ExpectCurrent && grants(w[s.path])&4 == 0 {
		out = append(out, refusing(w, "AT-010", spec.ErrConflict, spec.ErrAccess, spec.ErrInspect))
	}
	if len(s.detour) > 0 {
		out = append(out, refusing(w, rule, spec.ErrNotFound))
	}
	after := brokered(w, x, spec.SeamWrite)
	switch _, accepted := consulted(x, spec.SeamWrite); {
	case accepted:
		// A yes is worth what is in place after it.
		if n := after[s.path]; n.Type == spec.TypeFile && bytes.Equal(n.Content, content) {
			out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: "FB-004", Must: "FB-004"})
		}
		out = append(out, Branch{Status: spec.StatusUnknown, Next: State{after}, Rule: "FB-004", Must: "FB-004"})
	case len(c.denied) > 0:
		out = append(out, Branch{Status: spec.StatusFailed, Errs: c.denied, Next: State{after}, Rule: c.rule, Must: c.rule})
	}
	if len(c.soft) > 0 {
		out = append(out, Branch{Status: spec.StatusFailed, Errs: c.soft, Next: State{after}, Rule: "AT-002"})
	}
	return out
}

// placed returns the World after a native write, with what was declared for the
// other names of the file.
func placed(w spec.World, h *trace.Header, p string, content spec.Content) spec.World {
	t := tree{w}
	next := t.with(p, content)
	names := t.siblings(p)
	slices.Sort(names)
	if h.Policies[spec.PolicyHardlink] == "in_place" {
		for _, q := range names {
			next = tree{next}.with(q, content)
		}
		return next
	}
	// The name parts from the others: those are names of the old file now.
	for i, q := range append([]string{p}, names...) {
		n := next[q]
		n.Hard, n.Nlink = "", 0
		if i > 1 {
			n.Hard = names[0]
		} else if i == 1 && len(names) > 1 {
			n.Nlink = len(names)
		}
		next[q] = n
	}
	return next
}

func (f Files) delete(w spec.World, x *Exchange) []Branch {
	s := reach(w, x.Header, x.Call.Path, false)
	if s.no != nil && s.no.rule == "PR-008" {
		return faulty(unseen(w, x, s), brokered(w, x, spec.SeamDelete), x, nil)
	}
	if s.no != nil {
		return faulty([]Branch{refusing(w, s.no.rule, s.no.kinds...)}, w, x, nil)
	}
	n, there := w[s.path]
	if there && n.Type != spec.TypeDir {
		if b, refused := expecting(w, x, s, "AT-019"); refused {
			return faulty([]Branch{b}, w, x, nil)
		}
	}
	out := f.removing(w, x, s, "OC-007")
	if deniedAfterwards(x) {
		out = append(out, refusing(tree{w}.without(s.path), "OC-007", spec.ErrNotFound))
	}
	return faulty(out, brokered(w, x, spec.SeamDelete), x, nil)
}

// deniedAfterwards reports whether an entry was removed and then reported as
// missing, as a file server does that was asked twice.
func deniedAfterwards(x *Exchange) bool {
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool { return f.After && f.Op == "remove" && f.Effect == "ENOENT" })
}

// unseen returns the branches of unlinking what is hidden. A handler may be asked
// to: the type is unknown then, and so, to the tool, is what became of it.
func unseen(w spec.World, x *Exchange, s spot) []Branch {
	after := brokered(w, x, spec.SeamDelete)
	if _, accepted := consulted(x, spec.SeamDelete); !accepted {
		return []Branch{refusing(after, s.no.rule, s.no.kinds...)}
	}
	out := []Branch{{Status: spec.StatusUnknown, Next: State{after}, Rule: "OC-007", Must: "OC-007"}}
	if _, still := after[s.path]; !still {
		out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: "OC-007", Must: "OC-007"})
	}
	return out
}

// unseenWrite is unseen for a write about which handlers were asked although its
// target is hidden. That they were is for a check; here the tree counts.
func unseenWrite(w spec.World, x *Exchange, s spot) []Branch {
	after := brokered(w, x, spec.SeamWrite)
	out := []Branch{refusing(after, s.no.rule, s.no.kinds...)}
	if _, accepted := consulted(x, spec.SeamWrite); accepted {
		out = []Branch{{Status: spec.StatusUnknown, Next: State{after}, Rule: "FB-004"}}
		if bytes.Equal(after[s.path].Content, x.Call.Content) {
			out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: "FB-004"})
		}
	}
	return out
}

// removing returns the branches of unlinking what is at a spot.
func (Files) removing(w spec.World, x *Exchange, s spot, rule spec.RuleID) []Branch {
	t := tree{w}
	n, there := w[s.path]
	denied := t.refusesRemoval(s.path)
	switch {
	case !there || len(s.missing) > 0:
		kinds := []spec.ErrKind{spec.ErrNotFound, spec.ErrConflict}
		if t.readOnly(s.path) {
			kinds = append(kinds, spec.ErrReadOnly) // unlink refuses before it looks
		}
		return []Branch{refusing(w, "OC-007", kinds...)}
	case n.Type == spec.TypeDir:
		return []Branch{refusing(w, "OC-007", append(denied, spec.ErrIsDir, spec.ErrUnsupported, spec.ErrNotPermitted)...)}
	}
	var out []Branch
	if n.Type == spec.TypeLink && x.Header.Policies[spec.PolicyLinks] != spec.LinksFollow {
		out = append(out, refusing(w, "PR-003", spec.ErrLoop))
	}
	if n.Mount != spec.MountNone {
		denied = append(denied, spec.ErrBusy)
	}
	if x.Expect == ExpectUnclear || x.Expect == ExpectCurrent && grants(n)&4 == 0 || x.Call.ExpectVersion != "" && n.Type != spec.TypeFile {
		out = append(out, refusing(w, "AT-010", spec.ErrConflict, spec.ErrExists, spec.ErrAccess, spec.ErrInspect, spec.ErrLoop, spec.ErrUnsupported))
	}
	if len(denied) == 0 {
		b := Branch{Status: spec.StatusOK, Next: State{t.without(s.path)}, Rule: rule, Must: "OC-001"}
		if x.Expect == ExpectCurrent {
			b.Must = "AT-010"
		}
		return append(out, b)
	}
	after := brokered(w, x, spec.SeamDelete)
	if _, accepted := consulted(x, spec.SeamDelete); accepted {
		if _, still := after[s.path]; !still {
			out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: rule, Must: "OC-001"})
		}
		return append(out, Branch{Status: spec.StatusUnknown, Next: State{after}, Rule: rule, Must: "OC-007"})
	}
	return append(out, Branch{Status: spec.StatusFailed, Errs: denied, Next: State{after}, Rule: "FB-010", Must: "FB-010"})
}
