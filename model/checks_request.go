package model

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// requestChecks are about what handlers are told.
var requestChecks = []Check{
	{"FB-013", exactDestination},
	{"FB-014", exactBytes},
	{"FB-015", denialAsSeen},
	{"FB-016", originator},
	{"FB-017", ownCopy},
	{"FB-019", confirmedOnlyIfSeen},
	{"FB-020", linkItself},
	{"FB-025", exclusiveIntent},
}

// each runs f over the consultations, stopping at the first finding.
func each(x *Exchange, f func(c trace.Consult, d spec.Denial) (applies bool, broken []Finding)) (applied bool, broken []Finding) {
	for _, c := range x.Consults {
		d := spec.Denial{}
		if c.Write != nil {
			d = c.Write.Denial
		} else if c.Delete != nil {
			d = c.Delete.Denial
		}
		applies, broken := f(c, d)
		applied = applied || applies
		if broken != nil {
			return applied, broken
		}
	}
	return applied, nil
}

// destinations returns the absolute names that the call's primitive at a seam may
// have acted on.
func destinations(x *Exchange, seam spec.Seam) []string {
	write, remove := aims(x.Call)
	path, last := write, true
	if seam == spec.SeamDelete {
		path, last = remove, false
	}
	ends := []bool{last}
	if last && blinded(x) {
		ends = append(ends, false) // told that a link is not there, it acts on its name
	}
	var out []string
	for _, w := range worlds(x) {
		for _, last := range ends {
			s := resolve(w, x.Header, path, last)
			if s.no != nil && s.no.rule == "PR-008" {
				return nil // hidden: it cannot be told from here what may be known of it
			}
			if s.no == nil {
				out = append(out, strings.TrimSuffix(x.Header.Root, "/")+strings.TrimPrefix(s.path, spec.Workspace))
			}
		}
	}
	return out
}

func exactDestination(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, d spec.Denial) (bool, []Finding) {
		want := destinations(x, seamOf(c))
		if want == nil || slices.Contains(want, d.Dst) {
			return want != nil, nil
		}
		return true, broke(fmt.Sprintf("handler %d was told %q", c.Handler, d.Dst), want...)
	})
}

// requested returns the bytes that a write handler may be handed.
func requested(x *Exchange) []spec.Content {
	if x.Call.Kind == spec.CallWrite {
		return []spec.Content{x.Call.Content}
	}
	var out []spec.Content
	ss, at := spots(x, x.Call.Path, false)
	for i, s := range ss {
		out = append(out, at[i].w[s.path].Content)
	}
	return out
}

func exactContent(x *Exchange, c trace.Consult) bool {
	return slices.ContainsFunc(requested(x), func(want spec.Content) bool { return bytes.Equal(want, c.Write.Content) })
}

// scribbled reports whether a handler that scribbles over its request was asked
// before c.
func scribbled(x *Exchange, c trace.Consult) bool {
	for _, e := range x.Consults {
		if e.Handler == c.Handler && seamOf(e) == seamOf(c) {
			return false
		}
		if i := e.Handler - 1; e.Write != nil && i < len(x.Header.Brokers) && x.Header.Brokers[i].Kind == spec.Mutates {
			return true
		}
	}
	return false
}

func exactBytes(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, _ spec.Denial) (bool, []Finding) {
		if c.Write == nil || scribbled(x, c) {
			return false, nil
		}
		if !exactContent(x, c) {
			return true, broke(fmt.Sprintf("handler %d was handed %s", c.Handler, quote(c.Write.Content)), "the bytes that were to be written")
		}
		return true, nil
	})
}

func ownCopy(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, _ spec.Denial) (bool, []Finding) {
		if c.Write == nil || !scribbled(x, c) {
			return false, nil
		}
		if !exactContent(x, c) {
			return true, broke(fmt.Sprintf("handler %d was handed %s, after another had scribbled over its request", c.Handler, quote(c.Write.Content)),
				"the bytes that were to be written")
		}
		return true, nil
	})
}

func denialAsSeen(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, d spec.Denial) (bool, []Finding) {
		kinds := deniedBy(x, seamOf(c))
		if len(kinds) == 0 || slices.Contains(kinds, d.Cause) {
			return len(kinds) > 0, nil
		}
		want := make([]string, len(kinds))
		for i, k := range kinds {
			want[i] = string(k)
		}
		return true, broke(fmt.Sprintf("handler %d was told %s", c.Handler, d.Cause), want...)
	})
}

func originator(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, d spec.Denial) (bool, []Finding) {
		if d.Session != x.Call.Session {
			return true, broke(fmt.Sprintf("handler %d was told session %q", c.Handler, d.Session), fmt.Sprintf("session %q", x.Call.Session))
		}
		return true, nil
	})
}

func confirmedOnlyIfSeen(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, _ spec.Denial) (bool, []Finding) {
		if c.Delete == nil {
			return false, nil
		}
		_, remove := aims(x.Call)
		ss, at := spots(x, remove, false)
		for i, s := range ss {
			if at[i].w[s.path].Type == spec.TypeFile && at[i].searchable(dirOf(s.path)) {
				return false, nil // it can have been seen, and need not have been
			}
		}
		if c.Delete.ConfirmedFile {
			return true, broke("a handler was told that this is a regular file", "confirmed_file false")
		}
		return true, nil
	})
}

func linkItself(x *Exchange) (bool, []Finding) {
	_, remove := aims(x.Call)
	return each(x, func(c trace.Consult, d spec.Denial) (bool, []Finding) {
		s := resolve(x.Before, x.Header, remove, false)
		if c.Delete == nil || s.no != nil || x.Before[s.path].Type != spec.TypeLink {
			return false, nil
		}
		if p, ok := worldPath(x.Header, d.Dst); !ok || p != s.path {
			return true, broke(fmt.Sprintf("handler %d was told %q", c.Handler, d.Dst), fmt.Sprintf("the link itself, %s", s.path))
		}
		return true, nil
	})
}

// exclusiveIntent: whoever may only create says so, and whoever is to replace a
// file does not.
func exclusiveIntent(x *Exchange) (bool, []Finding) {
	return each(x, func(c trace.Consult, _ spec.Denial) (bool, []Finding) {
		switch {
		case c.Write == nil || !x.claims("exclusive"):
			return false, nil
		case x.mustCreate() && !c.Write.Exclusive:
			return true, broke(fmt.Sprintf("handler %d was not told that the destination must not exist", c.Handler), "exclusive true")
		case x.Call.ExpectVersion == "" && c.Write.Exclusive && !x.mustCreate() && everywhere(x, x.Call.Path, true, exists):
			return true, broke(fmt.Sprintf("handler %d was told that the destination, which exists, must not", c.Handler), "exclusive false")
		}
		return x.mustCreate(), nil
	})
}

func exists(t tree, s spot) bool { return t.has(s.path) }
