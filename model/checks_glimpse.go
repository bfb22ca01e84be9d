package model

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// seen reports whether what readers found during x can be judged: nobody but the
// subject was at the tree, and it was not killed, which AT-007 is about.
func seen(x *Exchange) bool {
	return len(x.Glimpses) > 0 && len(x.Edits) == 0 && !acted(x) && !x.Crashed
}

// neverHalf: a reader who comes at any moment finds each file of the call as it was
// before or as it is to be, and never a moved file under neither of its names.
func neverHalf(x *Exchange) (bool, []Finding) {
	write, remove := aims(x.Call)
	if !seen(x) || write == "" && remove == "" || x.policy(spec.PolicyDurability) == spec.DurabilityNone {
		return false, nil
	}
	content := x.Call.Content
	from := resolve(x.Before, x.Header, remove, false)
	if x.Call.Kind == spec.CallMove {
		content = x.Before[from.path].Content
	}
	to := resolve(x.Before, x.Header, write, true)
	if remove != "" && from.no != nil || write != "" && to.no != nil {
		return false, nil
	}
	var out []Finding
	for _, g := range x.Glimpses {
		gone := false
		if remove != "" {
			was := x.Before[from.path]
			is, there := g.World[from.path]
			if gone = !there; there && !alike(is, was) {
				out = append(out, broke(fmt.Sprintf("after %s, %s is neither whole nor gone", g.After, from.path), "one of both")...)
			}
		}
		if write == "" {
			continue
		}
		was, existed := x.Before[to.path]
		is, there := g.World[to.path]
		whole := there && is.Type == spec.TypeFile && bytes.Equal(is.Content, content)
		if asBefore := there == existed && (!there || alike(is, was)); !asBefore && !whole || gone && !whole {
			out = append(out, broke(fmt.Sprintf("after %s, a reader of %s finds %s", g.After, to.path, found(is, there)), "the old file or the new one")...)
		}
	}
	return true, firstOf(out)
}

// neverWider: while a file is replaced its bytes are nowhere, not under a temporary
// name either, open to more people than the file is.
func neverWider(x *Exchange) (bool, []Finding) {
	if !seen(x) || x.Call.Kind != spec.CallWrite || len(x.Call.Content) == 0 {
		return false, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	was, there := x.Before[s.path]
	if s.no != nil || !there || was.Type != spec.TypeFile {
		return false, nil
	}
	var out []Finding
	for _, g := range x.Glimpses {
		for _, p := range slices.Sorted(maps.Keys(g.World)) {
			n := g.World[p]
			_, old := x.Before[p]
			if old && p != s.path || n.Type != spec.TypeFile || !bytes.Equal(n.Content, x.Call.Content) {
				continue
			}
			if wider := n.Mode &^ was.Mode & 0o777; wider != 0 {
				out = append(out, broke(fmt.Sprintf("after %s, %s has mode %s", g.After, p, n.Mode), fmt.Sprintf("no more than mode %s", was.Mode))...)
			}
		}
	}
	return true, firstOf(out)
}

// firstOf keeps the first of findings that say the same of one moment after the
// other.
func firstOf(all []Finding) []Finding { return all[:min(1, len(all))] }

// found says what a reader finds.
func found(n spec.Node, there bool) string {
	switch {
	case !there:
		return "nothing"
	case n.Type != spec.TypeFile:
		return "an entry of type " + string(n.Type)
	}
	return fmt.Sprintf("%d bytes that are neither", len(n.Content))
}
