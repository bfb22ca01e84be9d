package model

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// fileChecks are about what a call leaves beside the bytes, and about the rules
// that a single branch cannot carry.
var fileChecks = []Check{
	{"AT-004", nothingElse},
	{"AT-005", modeKept},
	{"AT-006", newMode},
	{"AT-008", newcomerSurvives},
	{"AT-011", changeNoticed},
	{"AT-017", movedMode},
	{"AT-021", attributesKept},
	{"AT-022", ownerKept},
	{"AT-023", noSuccessUnsynced},
	{"AT-026", nothingLeftOpen},
	{"AT-024", neverHalf},
	{"AT-025", neverWider},
}

// nothingElse: what a call does not change keeps its mode, owner and attributes
// too. That it keeps its bytes is seen to by branches.
func nothingElse(x *Exchange) (bool, []Finding) {
	if x.After == nil || len(x.Edits) > 0 || x.Crashed || acted(x) {
		return false, nil
	}
	var own []string // what the call may change
	if x.Out.Status != spec.StatusFailed && x.Call.Kind != spec.CallRead {
		own = targets(x)
	}
	changed := ""
	for p, before := range x.Before {
		after, there := x.After[p]
		if private(p) || !there || !alike(before, after) || sameDress(before, after) || slices.Contains(own, p) {
			continue
		}
		if changed == "" || p < changed {
			changed = p
		}
	}
	if changed != "" {
		return true, broke(dress(changed, x.After[changed]), dress(changed, x.Before[changed])+", as before")
	}
	return true, nil
}

func sameDress(a, b spec.Node) bool {
	return a.Mode == b.Mode && a.Owner == b.Owner && a.Immutable == b.Immutable && sameXattrs(a, b)
}

func sameXattrs(a, b spec.Node) bool {
	return maps.EqualFunc(a.Xattrs, b.Xattrs, func(a, b spec.Content) bool { return bytes.Equal(a, b) })
}

func dress(p string, n spec.Node) string {
	s := fmt.Sprintf("%s: mode %s owner %q", p, n.Mode, n.Owner)
	if n.Immutable {
		s += " immutable"
	}
	for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
		s += fmt.Sprintf(" %s=%s", name, quote(n.Xattrs[name]))
	}
	return s
}

func modeKept(x *Exchange) (bool, []Finding) {
	p, before, after, ok := replaced(x)
	if !ok {
		return false, nil
	}
	// A write takes setuid and setgid away; it may.
	if before.Mode&0o777 != after.Mode&0o777 {
		return true, broke(fmt.Sprintf("%s: mode %s", p, after.Mode), fmt.Sprintf("mode %s", before.Mode))
	}
	return true, nil
}

func newMode(x *Exchange) (bool, []Finding) {
	want, declared := map[string]spec.Mode{spec.Mode0600: 0o600, spec.ModeUmask: 0o644}[x.policy(spec.PolicyMode)]
	if !declared || x.Call.Kind != spec.CallWrite || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 || acted(x) {
		return false, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	_, old := x.Before[s.path]
	n, there := x.After[s.path]
	if s.no != nil || old || !there {
		return false, nil
	}
	if n.Mode != want {
		return true, broke(fmt.Sprintf("%s: mode %s", s.path, n.Mode), fmt.Sprintf("mode %s", want))
	}
	return true, nil
}

// newcomerSurvives: somebody puts an entry at the destination of a call that may
// only create. The kernel decides that exactly, so there is no window: the entry is
// there afterwards, or the call came first and was overwritten by it. An adversary
// who writes into the file that the call has made is no newcomer.
func newcomerSurvives(x *Exchange) (bool, []Finding) {
	write, _ := aims(x.Call)
	if write == "" || len(x.Edits) == 0 || !x.mustCreate() || x.After == nil || acted(x) {
		return false, nil
	}
	s := resolve(x.Before, x.Header, write, true)
	if _, there := x.Before[s.path]; s.no != nil || there {
		return false, nil
	}
	last := x.Edits[len(x.Edits)-1]
	made := worlds(x)[len(x.Edits)][s.path]
	if last.Edit.Path != s.path || made.Type == "" || staging(last.At) && last.At.Path == s.path {
		return false, nil
	}
	if after, there := x.After[s.path]; !there || !alike(made, after) {
		return true, broke(fmt.Sprintf("%s, %s holds %s", x.Out.Status, s.path, quote(after.Content)),
			fmt.Sprintf("what came there meanwhile, %s %s", made.Type, quote(made.Content)))
	}
	return true, nil
}

// staging recognises the operations before a file gets its name: an adversary who
// strikes at one of them strikes before the last look at the destination.
func staging(f trace.Fired) bool {
	return slices.Contains([]string{"open-doomed", "write", "chmod", "chown", "set-xattr", "sync", "datasync"}, f.Op)
}

// changeNoticed: the destination was changed while the new bytes were staged, by
// somebody the caller did not know of when it stated its expectation. The last
// look before publication must have seen it.
func changeNoticed(x *Exchange) (bool, []Finding) {
	if x.Call.Kind != spec.CallWrite || !x.versioned() || x.Expect != ExpectCurrent || x.After == nil || x.Crashed {
		return false, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	for _, e := range x.Edits {
		changes := e.Edit.Op == spec.EditWrite && e.Edit.Path == s.path && !bytes.Equal(e.Edit.Content, x.Before[s.path].Content)
		if s.no != nil || !changes || e.At.After || !staging(e.At) || e.At.Path == s.path {
			continue
		}
		if x.Out.Status == spec.StatusOK || bytes.Equal(x.After[s.path].Content, x.Call.Content) {
			return true, broke(fmt.Sprintf("%s, %s holds %s", x.Out.Status, s.path, quote(x.After[s.path].Content)),
				fmt.Sprintf("failed conflict, %s holds %s", s.path, quote(e.Edit.Content)))
		}
		return true, nil
	}
	return false, nil
}

func movedMode(x *Exchange) (bool, []Finding) {
	if _, accepted := consulted(x, spec.SeamWrite); accepted {
		return false, nil // the mode is the handler's affair
	}
	if x.Call.Kind != spec.CallMove || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 || acted(x) {
		return false, nil
	}
	src := resolve(x.Before, x.Header, x.Call.Path, false)
	dst := resolve(x.Before, x.Header, x.Call.To, true)
	if src.no != nil || dst.no != nil {
		return false, nil
	}
	before, after := x.Before[src.path], x.After[dst.path]
	if before.Mode&0o777 != after.Mode&0o777 {
		return true, broke(fmt.Sprintf("%s: mode %s", dst.path, after.Mode), fmt.Sprintf("mode %s", before.Mode))
	}
	return true, nil
}

func attributesKept(x *Exchange) (bool, []Finding) {
	p, before, after, ok := replaced(x)
	if !ok || len(before.Xattrs) == 0 || x.policy(spec.PolicyXattr) == spec.XattrDrop {
		return false, nil
	}
	if !sameXattrs(before, after) {
		return true, broke(dress(p, after), dress(p, before))
	}
	return true, nil
}

func ownerKept(x *Exchange) (bool, []Finding) {
	if x.Call.Kind != spec.CallWrite || x.After == nil || len(x.Edits) > 0 {
		return false, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	before, old := x.Before[s.path]
	after, now := x.After[s.path]
	if s.no != nil || !old || !now || before.Type != spec.TypeFile || before.Owner == spec.OwnerSubject {
		return false, nil
	}
	if after.Owner != before.Owner {
		return true, broke(fmt.Sprintf("%s: owner %q", s.path, after.Owner), fmt.Sprintf("owner %q", before.Owner))
	}
	return true, nil
}

// noSuccessUnsynced: a barrier that failed promised nothing, unless it was only
// interrupted and then put up after all. What a subject does not promise it may
// report all the same.
func noSuccessUnsynced(x *Exchange) (bool, []Finding) {
	level := x.policy(spec.PolicyDurability)
	if level == spec.DurabilityNone || level == spec.DurabilityAtomic {
		return false, nil
	}
	for _, f := range x.Fired {
		barrier := f.Class == "flush" && f.Op != "close" && f.Op != "sync-range" && !madeUpFor(x, f)
		if !barrier || f.Effect == trace.EffectSwap || f.Effect == trace.EffectCrash || f.Op == "sync-dir" && level == spec.DurabilityCrashAtomic {
			continue
		}
		if x.Out.Status == spec.StatusOK {
			return true, broke(fmt.Sprintf("ok, after %s answered %s", f.Op, f.Effect), "failed, or unknown")
		}
		return true, nil
	}
	return false, nil
}

// madeUpFor reports whether what f has interrupted was tried again, and is done, or f
// says so itself.
func madeUpFor(x *Exchange, f trace.Fired) bool {
	return slices.ContainsFunc(x.Fired, func(g trace.Fired) bool {
		return g.Effect == trace.EffectAgain && g.Injection == f.Injection && g.Path == f.Path && g.Op == f.Op
	})
}

// nothingLeftOpen: a server that leaves something open at each call ends with EMFILE, and
// what it holds keeps its space, and its way out of the root, however it is removed.
func nothingLeftOpen(x *Exchange) (bool, []Finding) {
	if !x.Header.Counted || x.Crashed {
		return false, nil
	}
	if len(x.Left) > 0 {
		return true, broke(strings.Join(x.Left, " ")+" is still open", "nothing that was not open before the call")
	}
	return true, nil
}
