package model

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// differences returns the paths, in order, at which the observed tree is not what
// b leaves.
func differences(b Branch, x *Exchange) []string {
	var out []string
	for p, want := range b.Next.World {
		if got, there := x.After[p]; !there || !alike(want, got) {
			if !b.explains(x, p) {
				out = append(out, p)
			}
		}
	}
	for p := range x.After {
		if _, known := b.Next.World[p]; !known && !b.explains(x, p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// explains reports whether b leaves it open what is at p.
func (b Branch) explains(x *Exchange, p string) bool {
	got, there := x.After[p]
	_, known := b.Next.World[p]
	switch {
	case private(p), hosted(x, p), b.Loose && open(x, p):
		return true
	case !there:
		return slices.Contains(b.Spare, p)
	case got.Type == spec.TypeFile && slices.Contains(b.Torn, p):
		return true
	case known:
		return false
	}
	return slices.Contains(b.Spare, p) && got.Type == spec.TypeDir || b.Litter && litter(x, p, got)
}

// inside reports whether p is the workspace or in it.
func inside(p string) bool {
	return p == spec.Workspace || strings.HasPrefix(p, spec.Workspace+"/")
}

// hosted reports whether p belongs to the host, in a state folder that the adversary
// has carried somewhere else: the host holds it, and goes on writing to it.
func hosted(x *Exchange, p string) bool {
	const state = spec.Workspace + "/" + spec.StateDir
	now := carried(state, x.Edits)
	return now != state && (p == now || strings.HasPrefix(p, now+"/"))
}

// open reports whether a Loose branch leaves p open: it is in the workspace, or has
// been carried out of it by the adversary, by whom it may have been held. What was
// carried into it is not.
func open(x *Exchange, p string) bool { return inside(origin(p, x.Edits)) }

// origin returns where what is at p after edits was before them: carried, backwards.
func origin(p string, edits []Swapped) string {
	back := slices.Clone(edits)
	slices.Reverse(back)
	for i, e := range back {
		back[i].Edit.Path, back[i].Edit.To = e.Edit.To, e.Edit.Path
	}
	return carried(p, back)
}

// litter reports whether p may be a private file left over: new, a file, next to
// something that the call aimed at.
func litter(x *Exchange, p string, n spec.Node) bool {
	if _, old := x.Before[p]; old || n.Type != spec.TypeFile {
		return false
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		for i, w := range worlds(x) {
			s := resolve(w, x.Header, path, true)
			if s.no != nil {
				continue
			}
			for _, dir := range append(s.missing, dirOf(s.path)) {
				if dirOf(p) == dir || dirOf(p) == carried(dir, x.Edits[i:]) {
					return p != s.path
				}
			}
		}
	}
	return false
}

// stages returns a tree and what each edit then makes of it.
func stages(w spec.World, edits []Swapped) []spec.World {
	out := []spec.World{w}
	for _, e := range edits {
		out = append(out, tree{out[len(out)-1]}.edited(e.Edit))
	}
	return out
}

// worlds returns the tree before the call and after each edit during it.
func worlds(x *Exchange) []spec.World {
	if x.trees == nil {
		return stages(x.Before, x.Edits)
	}
	return x.trees
}

// differenceRule names what a difference at p from b breaks: first by where it is,
// then by what the subject said.
func differenceRule(p string, b Branch, x *Exchange) spec.RuleID {
	before, old := x.Before[p]
	after, now := x.After[p]
	left := !old && now && litter(x, p, after)
	switch {
	case len(x.Edits) > 0 && (!inside(p) || !inside(origin(p, x.Edits))):
		return "PR-005"
	case !inside(p):
		return "PR-010"
	case x.Crashed && left:
		return "AT-003" // declared not to be left even then
	case x.Crashed:
		return "AT-007"
	case slices.Contains(targets(x), p):
		return targetRule(b, x, after, now)
	case old && planted(p):
		return "PR-013"
	case old && (before.Hard != "" || before.Nlink > 1):
		return "AT-013"
	case left:
		return "AT-003"
	}
	return "AT-004"
}

// targetRule names what a target that is not as b says breaks. n is what is there
// now, if anything is.
func targetRule(b Branch, x *Exchange, n spec.Node, now bool) spec.RuleID {
	if x.Out.Status != spec.StatusFailed || b.Rule == "FB-023" || b.Rule == "FB-024" {
		return b.Rule
	}
	switch {
	case x.Call.Kind == spec.CallWrite && now && bytes.Equal(n.Content, x.Call.Content):
		return "AT-015"
	case x.Call.Kind == spec.CallDelete && !now:
		return "AT-015"
	case b.Rule == "FB-010" || b.Rule == "OC-001":
		return "AT-002"
	}
	return b.Rule
}

// targets returns the paths that the call aimed at, whenever it looked, and what
// they are called after the edits.
func targets(x *Exchange) []string {
	write, remove := aims(x.Call)
	read := ""
	if write == "" && remove == "" {
		read = x.Call.Path
	}
	var out []string
	for i, w := range worlds(x) {
		for _, aim := range []struct {
			path string
			last bool
		}{{write, true}, {remove, false}, {read, true}} {
			if aim.path == "" {
				continue
			}
			s := resolve(w, x.Header, aim.path, aim.last)
			if s.no != nil {
				continue
			}
			for _, p := range []string{s.path, carried(s.path, x.Edits[i:])} {
				if !slices.Contains(out, p) {
					out = append(out, p)
				}
			}
		}
	}
	return out
}

// planted recognises the name of a private file, as somebody who lies in wait
// for one would choose it.
func planted(p string) bool {
	name := baseOf(p)
	return strings.HasPrefix(name, ".") && strings.Contains(name, "tmp")
}
