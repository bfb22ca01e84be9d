package model

import (
	"bytes"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// tree asks of a World what a kernel would answer to the subject.
type tree struct{ w spec.World }

func dirOf(p string) string {
	if i := strings.LastIndexByte(p, '/'); i >= 0 {
		return p[:i]
	}
	return ""
}

func baseOf(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }

func join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// grants returns the permission bits (4 read, 2 write, 1 search) that the subject
// has on a node.
func grants(n spec.Node) spec.Mode {
	if n.Owner == spec.OwnerSubject {
		return n.Mode >> 6 & 7
	}
	return n.Mode & 7
}

func (t tree) has(p string) bool {
	_, ok := t.w[p]
	return ok
}

func (t tree) searchable(dir string) bool { return grants(t.w[dir])&1 != 0 }

// readOnly reports whether p lies on a read-only mount.
func (t tree) readOnly(p string) bool { return t.w[t.mount(p)].Mount == spec.MountReadOnly }

// mount returns the nearest mount point at or above p; empty stands for the one
// that everything lies on.
func (t tree) mount(p string) string {
	for p != "" && t.w[p].Mount == spec.MountNone {
		p = dirOf(p)
	}
	return p
}

// refusesEntries returns the errnos with which a kernel may refuse to add an
// entry to dir. Which of several it gives is its own affair.
func (t tree) refusesEntries(dir string) []spec.ErrKind {
	var kinds []spec.ErrKind
	n := t.w[dir]
	if t.readOnly(dir) {
		kinds = append(kinds, spec.ErrReadOnly)
	}
	if n.Immutable {
		kinds = append(kinds, spec.ErrNotPermitted)
	}
	if grants(n)&3 != 3 {
		kinds = append(kinds, spec.ErrAccess)
	}
	return kinds
}

// refusesBytes is refusesEntries for writing to the file p.
func (t tree) refusesBytes(p string) []spec.ErrKind {
	var kinds []spec.ErrKind
	n := t.w[p]
	if t.readOnly(p) {
		kinds = append(kinds, spec.ErrReadOnly)
	}
	if n.Immutable {
		kinds = append(kinds, spec.ErrNotPermitted)
	}
	if grants(n)&2 == 0 {
		kinds = append(kinds, spec.ErrAccess)
	}
	return kinds
}

// refusesRemoval is refusesEntries for unlinking p.
func (t tree) refusesRemoval(p string) []spec.ErrKind {
	kinds := t.refusesEntries(dirOf(p))
	d, n := t.w[dirOf(p)], t.w[p]
	sticky := d.Mode&0o1000 != 0 && d.Owner != spec.OwnerSubject && n.Owner != spec.OwnerSubject
	if sticky || n.Immutable {
		kinds = append(kinds, spec.ErrNotPermitted)
	}
	return kinds
}

// siblings returns the other names of the file p, in order.
func (t tree) siblings(p string) []string {
	first := p
	if h := t.w[p].Hard; h != "" {
		first = h
	} else if t.w[p].Nlink < 2 {
		return nil
	}
	var names []string
	for q, n := range t.w {
		if q != p && (q == first || n.Hard == first) && n.Type == spec.TypeFile {
			names = append(names, q)
		}
	}
	slices.Sort(names)
	return names
}

// with returns the World in which p holds a file with these bytes, made with its
// parents where it was missing.
func (t tree) with(p string, content spec.Content) spec.World {
	w := t.w.Clone()
	for d := dirOf(p); d != "" && w[d].Type == ""; d = dirOf(d) {
		w[d] = spec.Node{Type: spec.TypeDir, Mode: 0o755}
	}
	n := w[p]
	n.Type, n.Content = spec.TypeFile, content
	w[p] = n
	return w
}

// without returns the World in which p is gone, with everything below it.
func (t tree) without(p string) spec.World {
	w := t.w.Clone()
	for q := range t.w {
		if q == p || strings.HasPrefix(q, p+"/") {
			delete(w, q)
		}
	}
	return w
}

// edited returns the World after an adversary's edit. An edit of what is not
// there yet, or in a place that is taken, does nothing: it met something that the
// subject made in between.
func (t tree) edited(e spec.Edit) spec.World {
	switch e.Op {
	case spec.EditMkdir, spec.EditSymlink, spec.EditHardlink, spec.EditFIFO:
		if t.has(e.Path) {
			return t.w
		}
		return t.put(e.Path, t.made(e))
	case spec.EditWrite:
		w := t.with(e.Path, e.Content)
		if !t.has(e.Path) {
			n := w[e.Path]
			n.Mode = mode(e, 0o644)
			w[e.Path] = n
		}
		for _, p := range t.siblings(e.Path) {
			w = tree{w}.with(p, e.Content) // in place: every name sees it
		}
		return w
	case spec.EditRename:
		if !t.has(e.Path) {
			return t.w
		}
		return tree{tree{t.without(e.To)}.moved(e.Path, e.To)}.w
	case spec.EditExchange:
		return t.exchanged(e.Path, e.To)
	case spec.EditRemove:
		return t.without(e.Path)
	case spec.EditChmod:
		if !t.has(e.Path) {
			return t.w
		}
		n := t.w[e.Path]
		n.Mode = e.Mode
		return t.put(e.Path, n)
	case spec.EditTouch:
	}
	return t.w
}

// made returns the entry that an edit makes.
func (t tree) made(e spec.Edit) spec.Node {
	switch e.Op {
	case spec.EditMkdir:
		return spec.Node{Type: spec.TypeDir, Mode: mode(e, 0o755)}
	case spec.EditSymlink:
		return spec.Node{Type: spec.TypeLink, Mode: 0o777, Link: e.To}
	case spec.EditHardlink:
		n := t.w[e.To]
		n.Hard = e.To
		return n
	case spec.EditFIFO:
		return spec.Node{Type: spec.TypeFIFO, Mode: mode(e, 0o644)}
	case spec.EditWrite, spec.EditRename, spec.EditExchange, spec.EditRemove, spec.EditChmod, spec.EditTouch:
	}
	return spec.Node{}
}

func mode(e spec.Edit, otherwise spec.Mode) spec.Mode {
	if e.Mode != 0 {
		return e.Mode
	}
	return otherwise
}

func (t tree) put(p string, n spec.Node) spec.World {
	w := t.w.Clone()
	w[p] = n
	return w
}

// moved returns the World in which what is at from, and below it, is at to.
func (t tree) moved(from, to string) spec.World {
	w := spec.World{}
	for q, n := range t.w {
		q, _ = rebased(q, from, to)
		n.Hard, _ = rebased(n.Hard, from, to)
		w[q] = n
	}
	return w
}

// rebased returns what p is called once from is called to, and whether that is
// something else.
func rebased(p, from, to string) (string, bool) {
	if p == from || strings.HasPrefix(p, from+"/") {
		return to + p[len(from):], true
	}
	return p, false
}

func (t tree) exchanged(p, q string) spec.World {
	if !t.has(p) || !t.has(q) {
		return t.w
	}
	const aside = "\x00" // no path holds it
	return tree{tree{tree{t.moved(p, aside)}.moved(q, p)}.moved(aside, q)}.w
}

// alike compares what a tree is to hold with what it holds: kinds, links and
// bytes. Modes, owners and attributes have checks of their own.
func alike(a, b spec.Node) bool {
	return a.Type == b.Type && a.Link == b.Link && bytes.Equal(a.Content, b.Content)
}
