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
	{"AT-002", failedLeavesTarget},
	{"AT-003", noLitter},
	{"AT-004", nothingElse},
	{"AT-005", modeKept},
	{"AT-006", newMode},
	{"AT-008", newcomerSurvives},
	{"AT-011", changeNoticed},
	{"AT-013", otherNames},
	{"AT-015", unknownIsSaid},
	{"AT-017", movedMode},
	{"AT-021", attributesKept},
	{"AT-022", ownerKept},
	{"AT-023", noSuccessUnsynced},
	{"PR-005", heldInRaces},
	{"PR-010", canary},
	{"PR-013", plantedStay},
}

// The checks below that return no findings of their own only count: their rule is
// carried by branches, which cannot tell how often it was at stake.

func failedLeavesTarget(x *Exchange) (int, []Finding) {
	if x.Out.Status == spec.StatusFailed && x.Call.Kind == spec.CallWrite && x.After != nil {
		if s := resolve(x.Before, x.Header, x.Call.Path, true); s.no == nil && x.Before[s.path].Type == spec.TypeFile {
			return 1, nil
		}
	}
	return 0, nil
}

func noLitter(x *Exchange) (int, []Finding) {
	if write, _ := aims(x.Call); write != "" && x.Out.Status != spec.StatusUnknown && x.After != nil {
		return 1, nil
	}
	return 0, nil
}

func nothingElse(x *Exchange) (int, []Finding) {
	if x.After == nil || len(x.Edits) > 0 || x.Crashed || acted(x) {
		return 0, nil
	}
	for p, before := range x.Before {
		after, there := x.After[p]
		if private(p) || !there || !alike(before, after) || target(x, p) {
			continue // gone or other bytes: branches see to it
		}
		if before.Mode != after.Mode || before.Owner != after.Owner || before.Immutable != after.Immutable {
			return 1, broke(fmt.Sprintf("%s: mode %s owner %q", p, after.Mode, after.Owner),
				fmt.Sprintf("%s: mode %s owner %q, as before", p, before.Mode, before.Owner))
		}
	}
	return 1, nil
}

func modeKept(x *Exchange) (int, []Finding) {
	p, before, after, ok := replaced(x)
	if !ok {
		return 0, nil
	}
	// A write takes setuid and setgid away; it may.
	if before.Mode&0o777 != after.Mode&0o777 {
		return 1, broke(fmt.Sprintf("%s: mode %s", p, after.Mode), fmt.Sprintf("mode %s", before.Mode))
	}
	return 1, nil
}

func newMode(x *Exchange) (int, []Finding) {
	want, declared := map[string]spec.Mode{"0600": 0o600, "umask": 0o644}[x.Header.Policies[spec.PolicyMode]]
	if !declared || x.Call.Kind != spec.CallWrite || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 || acted(x) {
		return 0, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	if _, old := x.Before[s.path]; s.no != nil || old {
		return 0, nil
	}
	if n, there := x.After[s.path]; there && n.Mode != want {
		return 1, broke(fmt.Sprintf("%s: mode %s", s.path, n.Mode), fmt.Sprintf("mode %s", want))
	}
	return 1, nil
}

// newcomerSurvives: somebody puts an entry at the destination of a call that may
// only create. The kernel decides that exactly, so there is no window: the entry is
// there afterwards, or the call came first and was overwritten by it.
func newcomerSurvives(x *Exchange) (int, []Finding) {
	write, _ := aims(x.Call)
	only := x.Call.Kind == spec.CallMove || x.Call.ExpectVersion == spec.VersionAbsent
	s := resolve(x.Before, x.Header, write, true)
	if _, there := x.Before[s.path]; write == "" || !only || s.no != nil || there || x.After == nil || acted(x) {
		return 0, nil
	}
	for i, e := range x.Edits {
		made := worlds(x)[i+1][s.path]
		if e.Edit.Path != s.path || made.Type == "" || i != len(x.Edits)-1 {
			continue
		}
		if after, there := x.After[s.path]; !there || !alike(made, after) {
			return 1, broke(fmt.Sprintf("%s, %s holds %s", x.Out.Status, s.path, quote(after.Content)),
				fmt.Sprintf("what came there meanwhile, %s %s", made.Type, quote(made.Content)))
		}
		return 1, nil
	}
	return 0, nil
}

// stagingOps are the operations before a file gets its name: an adversary that
// strikes at one of them strikes before the last look at the destination.
var stagingOps = []string{"open-doomed", "write", "chmod", "chown", "set-xattr", "sync", "datasync"}

// changeNoticed: the destination was changed while the new bytes were staged, by
// somebody the caller did not know of when it stated its expectation. The last
// look before publication must have seen it.
func changeNoticed(x *Exchange) (int, []Finding) {
	if x.Call.Kind != spec.CallWrite || x.Expect != ExpectCurrent || x.After == nil || x.Crashed {
		return 0, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	for _, e := range x.Edits {
		changes := e.Edit.Op == spec.EditWrite && e.Edit.Path == s.path && !bytes.Equal(e.Edit.Content, x.Before[s.path].Content)
		if s.no != nil || !changes || e.At.After || !slices.Contains(stagingOps, e.At.Op) || e.At.Path == s.path {
			continue
		}
		if x.Out.Status == spec.StatusOK || bytes.Equal(x.After[s.path].Content, x.Call.Content) {
			return 1, broke(fmt.Sprintf("%s, %s holds %s", x.Out.Status, s.path, quote(x.After[s.path].Content)),
				fmt.Sprintf("failed conflict, %s holds %s", s.path, quote(e.Edit.Content)))
		}
		return 1, nil
	}
	return 0, nil
}

func otherNames(x *Exchange) (int, []Finding) {
	if p, before, _, ok := replaced(x); ok && (before.Hard != "" || before.Nlink > 1) && len(tree{x.Before}.siblings(p)) > 0 {
		return 1, nil
	}
	return 0, nil
}

// unknownIsSaid counts the errors behind which bytes may have landed.
func unknownIsSaid(x *Exchange) (int, []Finding) {
	for _, f := range x.Fired {
		if f.After && x.Call.Kind == spec.CallWrite && slices.Contains([]string{"publish", "rename", "link"}, f.Op) ||
			f.Op == "sync-dir" && f.Effect != trace.EffectSwap {
			return 1, nil
		}
	}
	return 0, nil
}

func movedMode(x *Exchange) (int, []Finding) {
	if x.Call.Kind != spec.CallMove || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 || acted(x) {
		return 0, nil
	}
	src := resolve(x.Before, x.Header, x.Call.Path, false)
	dst := resolve(x.Before, x.Header, x.Call.To, true)
	if src.no != nil || dst.no != nil {
		return 0, nil
	}
	before, after := x.Before[src.path], x.After[dst.path]
	if before.Mode&0o777 != after.Mode&0o777 {
		return 1, broke(fmt.Sprintf("%s: mode %s", dst.path, after.Mode), fmt.Sprintf("mode %s", before.Mode))
	}
	return 1, nil
}

func attributesKept(x *Exchange) (int, []Finding) {
	p, before, after, ok := replaced(x)
	if !ok || len(before.Xattrs) == 0 || x.Header.Policies[spec.PolicyXattr] == "drop" {
		return 0, nil
	}
	if !maps.EqualFunc(before.Xattrs, after.Xattrs, func(a, b spec.Content) bool { return bytes.Equal(a, b) }) {
		return 1, broke(fmt.Sprintf("%s: attributes %v", p, after.Xattrs), fmt.Sprintf("attributes %v", before.Xattrs))
	}
	return 1, nil
}

func ownerKept(x *Exchange) (int, []Finding) {
	if x.Call.Kind != spec.CallWrite || x.After == nil || len(x.Edits) > 0 {
		return 0, nil
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	before, old := x.Before[s.path]
	if s.no != nil || !old || before.Type != spec.TypeFile || before.Owner == spec.OwnerSubject {
		return 0, nil
	}
	if after := x.After[s.path]; after.Owner != before.Owner {
		return 1, broke(fmt.Sprintf("%s: owner %q", s.path, after.Owner), fmt.Sprintf("owner %q", before.Owner))
	}
	return 1, nil
}

func noSuccessUnsynced(x *Exchange) (int, []Finding) {
	if x.Header.Policies["durability"] == "none" || x.Header.Policies["durability"] == "atomic" {
		return 0, nil
	}
	for _, f := range x.Fired {
		if f.Class != "flush" || f.Op == "close" || f.Op == "sync-range" || f.Effect == trace.EffectSwap || f.Effect == trace.EffectCrash {
			continue
		}
		if x.Out.Status == spec.StatusOK {
			return 1, broke(fmt.Sprintf("ok, after %s answered %s", f.Op, f.Effect), "failed, or unknown")
		}
		return 1, nil
	}
	return 0, nil
}

func heldInRaces(x *Exchange) (int, []Finding) {
	for _, e := range x.Edits {
		if e.Edit.Op == spec.EditRename || e.Edit.Op == spec.EditExchange || e.Edit.Op == spec.EditSymlink {
			return 1, nil
		}
	}
	return 0, nil
}

func canary(x *Exchange) (int, []Finding) {
	for p := range x.Before {
		if p != spec.Workspace && !strings.HasPrefix(p, spec.Workspace+"/") && x.After != nil {
			return 1, nil
		}
	}
	return 0, nil
}

func plantedStay(x *Exchange) (int, []Finding) {
	if write, _ := aims(x.Call); write == "" || x.After == nil {
		return 0, nil
	}
	for p := range x.Before {
		if planted(p) {
			return 1, nil
		}
	}
	return 0, nil
}
