package model

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// difference is one path at which the observed tree is not what a branch says.
type difference struct {
	path string
}

// differences compares the tree that b leaves with the one that was observed,
// in the order of paths.
func differences(b Branch, x *Exchange) []difference {
	var out []difference
	for p, want := range b.Next.World {
		got, there := x.After[p]
		if private(p) || b.Loose && open(x, p) || there && alike(want, got) || !there && slices.Contains(b.Spare, p) {
			continue
		}
		out = append(out, difference{p})
	}
	for p, got := range x.After {
		if _, known := b.Next.World[p]; known || private(p) || b.Loose && open(x, p) {
			continue
		}
		if slices.Contains(b.Spare, p) && got.Type == spec.TypeDir || b.Litter && litter(x, p, got) {
			continue
		}
		out = append(out, difference{p})
	}
	slices.SortFunc(out, func(a, b difference) int { return strings.Compare(a.path, b.path) })
	return out
}

// inside reports whether p is the workspace or in it.
func inside(p string) bool {
	return p == spec.Workspace || strings.HasPrefix(p, spec.Workspace+"/")
}

// open reports whether a Loose branch leaves p open: it is in the workspace, or in
// a directory that the adversary has carried out of it while the subject held it.
func open(x *Exchange, p string) bool {
	return inside(p) || slices.ContainsFunc(x.Edits, func(e Swapped) bool {
		return e.Edit.Op == spec.EditRename && inside(e.Edit.Path) && strings.HasPrefix(p, e.Edit.To+"/")
	})
}

// litter reports whether p may be a private file left over: new, a file, next to
// something that the call aimed at.
func litter(x *Exchange, p string, n spec.Node) bool {
	if _, old := x.Before[p]; old || n.Type != spec.TypeFile {
		return false
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		for _, w := range worlds(x) {
			if s := resolve(w, x.Header, path, true); s.no == nil && (dirOf(s.path) == dirOf(p) || slices.Contains(s.missing, dirOf(p))) {
				return p != s.path
			}
		}
	}
	return false
}

// worlds returns the tree before the call and after each edit during it.
func worlds(x *Exchange) []spec.World {
	out := []spec.World{x.Before}
	for _, e := range x.Edits {
		out = append(out, tree{out[len(out)-1]}.edited(e.Edit))
	}
	return out
}

// rule names what a difference breaks: first by where it is, then by what the
// subject said.
func (d difference) rule(b Branch, x *Exchange) spec.RuleID {
	before, old := x.Before[d.path]
	after, now := x.After[d.path]
	switch {
	case !inside(d.path) && len(x.Edits) > 0:
		return "PR-005"
	case !inside(d.path):
		return "PR-010"
	case x.Crashed:
		return "AT-007"
	case b.Rule == "AT-017" || b.Rule == "FB-023" || b.Rule == "FB-024":
		return b.Rule
	case target(x, d.path):
		if x.Out.Status == spec.StatusFailed {
			if now && bytes.Equal(after.Content, x.Call.Content) && x.Call.Kind == spec.CallWrite {
				return "AT-015"
			}
			if b.Rule == "" || b.Rule == "FB-010" || b.Rule == "OC-005" {
				return "AT-002"
			}
		}
		return b.Rule
	case old && planted(d.path):
		return "PR-013"
	case old && (before.Hard != "" || before.Nlink > 1):
		return "AT-013"
	case !old && after.Type == spec.TypeFile && litter(x, d.path, after):
		return "AT-003"
	}
	return "AT-004"
}

// target reports whether the call aimed at p.
func target(x *Exchange, p string) bool {
	for _, w := range worlds(x) {
		for _, path := range []string{x.Call.Path, x.Call.To} {
			if s := resolve(w, x.Header, path, x.Call.Kind != spec.CallDelete); s.no == nil && s.path == p {
				return true
			}
		}
	}
	return false
}

// planted recognises the name of a private file, as somebody who lies in wait
// for one would choose it.
func planted(p string) bool {
	name := baseOf(p)
	return strings.HasPrefix(name, ".") && strings.Contains(name, "tmp")
}
