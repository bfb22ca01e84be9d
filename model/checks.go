package model

import (
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// Checks lists every Check.
var Checks = slices.Concat(seamChecks, requestChecks, fileChecks, answerChecks, logChecks, wireChecks)

// branchRules are the rules that branches carry, and that differences from them
// break.
var branchRules = []spec.RuleID{
	"AT-001", "AT-002", "AT-003", "AT-004", "AT-007", "AT-008", "AT-009", "AT-010", "AT-012", "AT-013", "AT-015",
	"AT-017", "AT-018", "AT-019", "AT-021", "AT-022", "FB-004", "FB-010", "FB-011", "FB-012", "FB-023", "FB-024",
	"OC-001", "OC-003", "OC-005", "OC-006", "OC-007", "PR-001", "PR-002", "PR-003", "PR-004", "PR-005", "PR-006",
	"PR-007", "PR-008", "PR-009", "PR-010", "PR-011", "PR-012", "PR-013",
}

// broke makes the one finding of a check.
func broke(got string, want ...string) []Finding { return []Finding{{Got: got, Want: want}} }

// spots returns where a path of the call may have led, given when an adversary
// struck, and the tree that it led through. Paths that lead nowhere are left out.
func spots(x *Exchange, path string, last bool) (out []spot, at []tree) {
	for _, w := range worlds(x) {
		if s := resolve(w, x.Header, path, last); s.no == nil {
			out = append(out, s)
			at = append(at, tree{w})
		}
	}
	return out, at
}

// aims returns the path that a call writes to, and the path that it unlinks;
// empty where it does neither.
func aims(c spec.Call) (write, remove string) {
	switch c.Kind {
	case spec.CallWrite:
		return c.Path, ""
	case spec.CallDelete:
		return "", c.Path
	case spec.CallMove:
		return c.To, c.Path
	case spec.CallRead, spec.CallEdit, spec.CallView, spec.CallTool:
	}
	return "", ""
}

// replaced returns the path of a file that the call itself replaced, with what
// was there before and after. A file that a handler wrote is the handler's.
func replaced(x *Exchange) (p string, before, after spec.Node, ok bool) {
	if x.Call.Kind != spec.CallWrite || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 || acted(x) {
		return "", spec.Node{}, spec.Node{}, false
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	if s.no != nil {
		return "", spec.Node{}, spec.Node{}, false
	}
	before, old := x.Before[s.path]
	after, now := x.After[s.path]
	return s.path, before, after, old && now && before.Type == spec.TypeFile
}
