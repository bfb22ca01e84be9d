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

// Branches implements Model. What a subject does not claim it may do or refuse.
func (f Files) Branches(s State, x *Exchange) []Branch {
	out := f.raced(s, x)
	if x.Call.ExpectVersion != "" && !x.versioned() {
		plain := *x
		plain.Call.ExpectVersion, plain.Expect = "", NoExpectation
		out = optional(append(out, f.raced(s, &plain)...))
	}
	if !x.claims(string(x.Call.Kind)) {
		trees := stages(s.World, x.Edits)
		out = append(optional(out), Branch{Status: spec.StatusFailed, Next: State{trees[len(trees)-1]}, Rule: "OC-001"})
	}
	return out
}

// optional takes the demands from branches: each is allowed, and none asked for.
func optional(branches []Branch) []Branch {
	for i := range branches {
		branches[i].Must = ""
	}
	return branches
}

// at returns the branches of a call that meets the tree as edits up to i left it.
func (f Files) at(trees []spec.World, i int, x *Exchange) []Branch {
	w := trees[i]
	var out []Branch
	switch x.Call.Kind {
	case spec.CallRead:
		out = f.read(w, x)
	case spec.CallWrite:
		out = f.write(w, x)
	case spec.CallDelete:
		out = f.delete(w, x)
	case spec.CallMove:
		out = f.move(trees, i, x)
	case spec.CallEdit, spec.CallView, spec.CallTool:
		if x.claims(string(x.Call.Kind)) {
			return undescribed(w)
		}
		return []Branch{refusing(w, "OC-001", spec.ErrUnsupported, spec.ErrInvalid)}
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		if s := resolve(w, x.Header, path, true); s.perhaps != nil {
			out = append(out, Branch{Status: spec.StatusFailed, Errs: s.perhaps, Next: State{w}, Rule: "OC-001"})
		}
	}
	for k := range out {
		out[k].seen = max(out[k].seen, i)
	}
	return out
}

// undescribed returns the branches of a kind of call that this model knows
// nothing of, and that the subject claims to serve.
func undescribed(w spec.World) []Branch {
	var out []Branch
	for _, st := range []spec.Status{spec.StatusOK, spec.StatusFailed, spec.StatusUnknown} {
		out = append(out, Branch{Status: st, Next: State{w}, Rule: "PR-010", Loose: true})
	}
	return out
}

// refusing is the branch of a call that must be refused.
func refusing(w spec.World, rule spec.RuleID, kinds ...spec.ErrKind) Branch {
	return Branch{Status: spec.StatusFailed, Errs: kinds, Next: State{w}, Rule: rule, Must: rule}
}

// branch is refusing for r.
func (r *refusal) branch(w spec.World) Branch { return refusing(w, r.rule, r.kinds...) }

func (Files) read(w spec.World, x *Exchange) []Branch {
	s := reach(w, x.Header, x.Call.Path, true)
	if s.no != nil {
		return faulty([]Branch{s.no.branch(w)}, w, x, nil)
	}
	n, there := w[s.path]
	var b Branch
	switch {
	case !there:
		b = refusing(w, "OC-001", spec.ErrNotFound)
	case n.Type == spec.TypeLink:
		b = refusing(w, "PR-003", spec.ErrLoop, spec.ErrEscapes)
	case n.Type == spec.TypeDir:
		b = refusing(w, "PR-009", spec.ErrIsDir, spec.ErrUnsupported)
	case n.Type != spec.TypeFile:
		b = refusing(w, "PR-009", spec.ErrUnsupported, spec.ErrInvalid, spec.ErrAccess)
	case grants(n)&4 == 0:
		b = refusing(w, "OC-001", spec.ErrAccess)
	default:
		b = Branch{
			Status: spec.StatusOK, Next: State{w}, Content: n.Content, HasContent: true, Rule: "OC-006", Must: "OC-001",
		}
	}
	return faulty([]Branch{b}, w, x, nil)
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
		if dangles(w, h, s.path) {
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
	case len(s.missing)+len(s.detour) > 0 && h.Policies[spec.PolicyMissingParent] == spec.ParentRefuse:
		return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrNotFound}, rule: "OC-001"}}
	case len(s.missing) > 0:
		if k := t.refusesEntries(dirOf(s.missing[0])); len(k) > 0 {
			// What a tool goes on to meet, where a parent could not be made, is ENOENT.
			return condition{denied: append(k, spec.ErrNotFound), rule: "FB-011"}
		}
	default:
		if k := t.refusesEntries(dirOf(s.path)); len(k) > 0 {
			return condition{denied: k, rule: "FB-010"}
		}
	}
	return condition{}
}

// dangles reports whether the link p leads to nothing, or nowhere that counts.
func dangles(w spec.World, h *trace.Header, p string) bool {
	following := &trace.Header{Root: h.Root, Policies: spec.Policies{spec.PolicyLinks: spec.LinksFollow}}
	to := resolve(w, following, strings.TrimPrefix(p, spec.Workspace+"/"), true)
	return to.no != nil || !tree{w}.has(to.path)
}

func overExisting(t tree, h *trace.Header, s spot, n spec.Node) condition {
	if (n.Nlink > 1 || n.Hard != "") && h.Policies[spec.PolicyHardlink] == spec.HardlinkRefuse {
		return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrUnsupported, spec.ErrConflict}, rule: "AT-013"}}
	}
	if k := t.refusesBytes(s.path); len(k) > 0 {
		c := condition{denied: k, rule: "FB-010"}
		if n.Mode&0o222 == 0 {
			c.denied, c.rule = append(c.denied, spec.ErrReadOnlyTarget), "AT-012"
		}
		return c
	}
	if len(n.Xattrs) > 0 && h.Policies[spec.PolicyXattr] == spec.XattrRefuse {
		return condition{must: &refusal{kinds: []spec.ErrKind{spec.ErrUnsupported}, rule: "AT-021"}}
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
		b := s.no.branch(w)
		b.Spare = spare
		return faulty([]Branch{b}, w, x, spare)
	}
	var out []Branch
	if b, refused := expecting(w, x, s, "AT-009"); refused {
		out = []Branch{b}
	} else {
		out = f.placing(w, x, s)
	}
	if len(s.detour) > 0 {
		b := refusing(w, out[0].Rule, spec.ErrNotFound) // a kernel goes by no missing directory
		b.Must = out[0].Must
		out = append(out, b)
	}
	for i := range out {
		out[i].Spare = append(out[i].Spare, spare...)
	}
	return append(faulty(out, brokered(w, x, spec.SeamWrite), x, spare), torn(w, x, s)...)
}

// mayLeave returns the directories that may be there after the call although its
// branch does not say so: made on the way and kept, or made and taken away.
func mayLeave(x *Exchange, s spot) []string {
	if x.policy(spec.PolicyParents) == spec.ParentsRemove && len(x.Fired) == 0 && !acted(x) && !x.Crashed {
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
	stale := x.Expect == ExpectStale
	if len(x.Edits) > 0 {
		now := x.known.meaningIn(w, x)
		stale = now == ExpectStale || now == ExpectCurrent && !alike(n, x.Before[s.path])
	}
	if stale {
		// Who may not read the file cannot tell, and must not write.
		return refusing(w, rule, spec.ErrConflict, spec.ErrInspect, spec.ErrAccess), true
	}
	return Branch{}, false
}

// placing returns the branches of putting the call's bytes at a spot: natively, by
// a handler, or not.
func (Files) placing(w spec.World, x *Exchange, s spot) []Branch {
	content := x.Call.Content
	c := toWrite(w, x.Header, s)
	if c.must != nil {
		return []Branch{c.must.branch(w)}
	}
	var out []Branch
	if len(c.denied) == 0 {
		b := Branch{Status: spec.StatusOK, Next: State{placed(w, x.Header, s.path, content)}, Rule: "AT-001", Must: "OC-001"}
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
	if h.Policies[spec.PolicyHardlink] == spec.HardlinkInPlace {
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
		return faulty([]Branch{s.no.branch(w)}, w, x, nil)
	}
	n, there := w[s.path]
	if there && n.Type != spec.TypeDir {
		if b, refused := expecting(w, x, s, "AT-019"); refused {
			return faulty([]Branch{b}, w, x, nil)
		}
	}
	out := f.removing(w, x, s)
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
		return []Branch{s.no.branch(after)}
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
	if _, accepted := consulted(x, spec.SeamWrite); !accepted {
		return []Branch{s.no.branch(after)}
	}
	out := []Branch{{Status: spec.StatusUnknown, Next: State{after}, Rule: "FB-004"}}
	if bytes.Equal(after[s.path].Content, x.Call.Content) {
		out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: "FB-004"})
	}
	return out
}

// removing returns the branches of unlinking what is at a spot.
func (Files) removing(w spec.World, x *Exchange, s spot) []Branch {
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
	if n.Type == spec.TypeLink && x.policy(spec.PolicyLinks) != spec.LinksFollow {
		out = append(out, refusing(w, "PR-003", spec.ErrLoop))
	}
	if n.Mount != spec.MountNone {
		denied = append(denied, spec.ErrBusy)
	}
	if x.Expect == ExpectUnclear || x.Expect == ExpectCurrent && grants(n)&4 == 0 || x.Call.ExpectVersion != "" && n.Type != spec.TypeFile {
		out = append(out, refusing(w, "AT-010", spec.ErrConflict, spec.ErrExists, spec.ErrAccess, spec.ErrInspect, spec.ErrLoop, spec.ErrUnsupported))
	}
	if len(denied) == 0 {
		b := Branch{Status: spec.StatusOK, Next: State{t.without(s.path)}, Rule: "OC-007", Must: "OC-001"}
		if x.Expect == ExpectCurrent {
			b.Must = "AT-010"
		}
		return append(out, b)
	}
	after := brokered(w, x, spec.SeamDelete)
	if _, accepted := consulted(x, spec.SeamDelete); accepted {
		if _, still := after[s.path]; !still {
			out = append(out, Branch{Status: spec.StatusOK, Next: State{after}, Rule: "OC-007", Must: "OC-001"})
		}
		return append(out, Branch{Status: spec.StatusUnknown, Next: State{after}, Rule: "OC-007", Must: "OC-007"})
	}
	return append(out, Branch{Status: spec.StatusFailed, Errs: denied, Next: State{after}, Rule: "FB-010", Must: "FB-010"})
}
