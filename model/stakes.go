package model

import (
	"slices"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// atStake returns the rules that the branches of an exchange could have shown
// broken: by an answer that none of all gives, or by a tree that none of fits, the
// branches that answer as the subject did, explains. A rule is not kept by a
// subject that could not have broken it.
func atStake(x *Exchange, all, fits []Branch) map[spec.RuleID]bool {
	set := map[spec.RuleID]bool{}
	if len(all) == 0 {
		return set
	}
	for _, status := range []spec.Status{spec.StatusOK, spec.StatusFailed, spec.StatusUnknown} {
		if !slices.ContainsFunc(all, func(b Branch) bool { return b.Status == status && b.acceptsAny() }) {
			set[wrongAnswer(status, all)] = true
		}
	}
	if x.After == nil || x.Before == nil {
		return set
	}
	for _, b := range fits {
		set[b.Rule] = true
	}
	for _, s := range treeStakes {
		if s.applies(x, fits) {
			set[s.rule] = true
		}
	}
	return set
}

// acceptsAny reports whether b fits every answer of its status.
func (b Branch) acceptsAny() bool {
	switch b.Status {
	case spec.StatusFailed:
		return len(b.Errs) == 0
	case spec.StatusOK:
		return !b.HasContent
	case spec.StatusUnknown:
	}
	return true
}

// treeStakes say when the observed tree could have broken a rule that no branch
// carries, or not in every exchange that puts it to the test.
var treeStakes = []struct {
	rule    spec.RuleID
	applies func(x *Exchange, fits []Branch) bool
}{
	{"AT-002", failedOverOld},
	{"AT-003", mayNotLitter},
	{"AT-013", hasOtherNames},
	{"AT-015", mayHaveLanded},
	{"PR-005", raced},
	{"PR-010", hasCanary},
	{"PR-013", hasPlanted},
}

func loose(b Branch) bool { return b.Loose }

func failedOverOld(x *Exchange, fits []Branch) bool {
	if x.Out.Status != spec.StatusFailed || x.Call.Kind != spec.CallWrite || slices.ContainsFunc(fits, loose) {
		return false
	}
	s := resolve(x.Before, x.Header, x.Call.Path, true)
	return s.no == nil && x.Before[s.path].Type == spec.TypeFile
}

func mayNotLitter(x *Exchange, fits []Branch) bool {
	write, _ := aims(x.Call)
	return write != "" && !slices.ContainsFunc(fits, func(b Branch) bool { return b.Litter || b.Loose })
}

func hasOtherNames(x *Exchange, _ []Branch) bool {
	p, before, _, ok := replaced(x)
	return ok && (before.Hard != "" || before.Nlink > 1) && len(tree{x.Before}.siblings(p)) > 0
}

// mayHaveLanded recognises the errors behind which the call may have taken effect.
func mayHaveLanded(x *Exchange, fits []Branch) bool {
	if slices.ContainsFunc(fits, loose) {
		return false
	}
	return slices.ContainsFunc(x.Fired, func(f trace.Fired) bool {
		switch {
		case f.Effect == trace.EffectSwap:
			return false
		case f.Op == "sync-dir":
			return x.Call.Kind == spec.CallWrite || x.Call.Kind == spec.CallDelete
		case f.Op == "remove":
			return f.After && x.Call.Kind == spec.CallDelete
		}
		return f.After && x.Call.Kind == spec.CallWrite && slices.Contains(namingOps, f.Op)
	})
}

// raced recognises an adversary who could have led the call somewhere else. What
// lies outside the workspace stays closed however much struck.
func raced(x *Exchange, _ []Branch) bool {
	return slices.ContainsFunc(x.Edits, func(e Swapped) bool {
		return e.Edit.Op == spec.EditRename || e.Edit.Op == spec.EditExchange || e.Edit.Op == spec.EditSymlink
	})
}

func hasCanary(x *Exchange, _ []Branch) bool {
	for p := range x.Before {
		if !inside(p) {
			return true
		}
	}
	return false
}

func hasPlanted(x *Exchange, fits []Branch) bool {
	if write, _ := aims(x.Call); write == "" || slices.ContainsFunc(fits, loose) {
		return false
	}
	for p := range x.Before {
		if planted(p) {
			return true
		}
	}
	return false
}
