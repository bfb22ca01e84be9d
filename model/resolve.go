package model

import (
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

const (
	mostLinks = 40  // followed in one path
	nameLimit = 255 // bytes in one name
)

// spot is where a path leads in a World.
type spot struct {
	path    string         // in the World; empty if the path leads nowhere
	missing []string       // directories that are missing on the way, in the World
	detour  []string       // directories that are missing and left again by "..", or before the refusal
	linked  bool           // the last component was named by a link
	perhaps []spec.ErrKind // what a kernel would answer, and a tool that walks by itself need not
	no      *refusal       // the path must be refused
}

// refusal is a must: one of the kinds, or the rule is broken.
type refusal struct {
	kinds   []spec.ErrKind
	rule    spec.RuleID
	genuine bool // the kind is a name that is genuinely missing
	soft    bool // a tool of another kind need not meet it
}

func refuse(rule spec.RuleID, kinds ...spec.ErrKind) spot {
	return spot{no: &refusal{kinds: kinds, rule: rule}}
}

// walk is a resolution under way.
type walk struct {
	t       tree
	h       *trace.Header
	cur     string   // the directory reached
	todo    []string // components left
	gone    []string // missing directories on the way
	detour  []string
	links   int
	inLink  int      // components at the front of todo that a link's text put there
	hidden  *refusal // a directory on the way may not be searched
	perhaps []spec.ErrKind
}

// resolve follows a path as a kernel would under the declared link policy, from
// the workspace, clamped to it. With last set, a link in the last component is
// followed too, where links are followed at all.
func resolve(w spec.World, h *trace.Header, path string, last bool) spot {
	k := &walk{t: tree{w}, h: h, cur: spec.Workspace}
	rest := path
	if strings.HasPrefix(path, "/") {
		var ok bool
		if rest, ok = below(h.Root, path); !ok {
			return refuse("PR-006", spec.ErrEscapes)
		}
	}
	k.todo = strings.Split(rest, "/")
	switch end := k.todo[len(k.todo)-1]; {
	case path == "", end == "", end == ".", strings.IndexByte(path, 0) >= 0:
		return refuse("PR-011", spec.ErrInvalid, spec.ErrIsDir, spec.ErrNotDir, spec.ErrNotFound, spec.ErrEscapes)
	case end == "..":
		return refuse("PR-011", spec.ErrInvalid, spec.ErrIsDir, spec.ErrNotFound, spec.ErrEscapes)
	}
	follow := h.Policies[spec.PolicyLinks] == spec.LinksFollow
	for {
		c := k.todo[0]
		final := len(k.todo) == 1
		if s, done := k.component(c, final, follow, last); done {
			if k.hidden != nil {
				s.no = k.hidden
			}
			if s.no != nil {
				s.detour = append(k.detour, k.gone...) // made on the way to the refusal
			}
			if s.no != nil && len(s.detour) > 0 {
				s.no.kinds = append(s.no.kinds, spec.ErrNotFound) // met first by whoever makes nothing
			}
			s.perhaps = k.perhaps
			return s
		}
	}
}

// reach is resolve for a call that makes no directories: a missing one on the way
// ends it.
func reach(w spec.World, h *trace.Header, path string, last bool) spot {
	s := resolve(w, h, path, last)
	if s.no == nil && len(s.detour) > 0 {
		return refuse("OC-001", spec.ErrNotFound)
	}
	return s
}

// below returns an absolute path as one below the root; the root itself is ".".
func below(root, path string) (string, bool) {
	root = strings.TrimSuffix(root, "/")
	if path == root {
		return ".", true
	}
	return strings.CutPrefix(path, root+"/")
}

func (k *walk) next() {
	k.todo = k.todo[1:]
	k.inLink = max(0, k.inLink-1)
}

// component takes one step. It returns the result when the walk ends.
func (k *walk) component(c string, final, follow, last bool) (spot, bool) {
	p := join(k.cur, c)
	n, there := k.t.w[p]
	switch blind := len(k.gone) == 0 && !k.t.searchable(k.cur); {
	case blind && c == "..":
		k.perhaps = []spec.ErrKind{spec.ErrAccess, spec.ErrInspect}
	case blind && c != "" && c != ".":
		k.hidden = refuse("PR-008", spec.ErrInspect, spec.ErrAccess).no
	}
	switch {
	case c == "" || c == ".":
		k.next()
		return k.directory()
	case c == "..":
		return k.up()
	case len(c) > nameLimit:
		return refuse("PR-012", spec.ErrNameTooLong), true
	case len(k.gone) > 0:
		return k.beyond(p, final)
	case there && n.Type == spec.TypeLink && follow && (!final || last):
		return k.follow(n.Link)
	case final:
		return spot{path: p, linked: k.inLink > 0, detour: k.detour}, true
	case !there && k.inLink > 0:
		s := refuse("FB-012", spec.ErrNotFound)
		s.no.genuine = true
		return s, true
	case !there:
		return k.beyond(p, final)
	case n.Type == spec.TypeLink:
		return refuse("PR-002", spec.ErrLoop, spec.ErrEscapes), true
	case n.Type != spec.TypeDir:
		return refuse("PR-007", spec.ErrNotDir), true
	}
	k.cur = p
	k.next()
	return k.directory()
}

// directory ends a walk whose link text ran out at a directory.
func (k *walk) directory() (spot, bool) {
	if len(k.todo) > 0 {
		return spot{}, false
	}
	return refuse("PR-009", spec.ErrIsDir, spec.ErrInvalid, spec.ErrUnsupported), true
}

func (k *walk) up() (spot, bool) {
	switch {
	case len(k.gone) > 0:
		// Into a missing directory and out again: a kernel says ENOENT; a tool that
		// makes parents may make this one and go on.
		k.detour = append(k.detour, k.gone[len(k.gone)-1])
		k.gone = k.gone[:len(k.gone)-1]
		k.cur = dirOf(k.cur)
	case k.cur == spec.Workspace && k.inLink > 0:
		return refuse("PR-002", spec.ErrEscapes, spec.ErrLoop), true
	case k.cur == spec.Workspace:
		return refuse("PR-001", spec.ErrEscapes), true
	default:
		k.cur = dirOf(k.cur)
	}
	k.next()
	return k.directory()
}

// beyond walks on where there is nothing yet.
func (k *walk) beyond(p string, final bool) (spot, bool) {
	if final {
		return spot{path: p, missing: k.gone, detour: k.detour}, true
	}
	k.gone = append(k.gone, p)
	k.cur = p
	k.next()
	return spot{}, false
}

func (k *walk) follow(text string) (spot, bool) {
	if k.links++; k.links > mostLinks {
		return refuse("PR-002", spec.ErrLoop), true
	}
	if strings.HasPrefix(text, "/") {
		rest, ok := below(k.h.Root, text)
		if !ok {
			return refuse("PR-002", spec.ErrEscapes, spec.ErrLoop), true
		}
		k.cur, text = spec.Workspace, rest
	}
	parts := strings.Split(text, "/")
	k.next()
	k.todo = append(parts, k.todo...)
	k.inLink += len(parts)
	return spot{}, false
}
