package model

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// logChecks are about the session Log as evidence.
var logChecks = []Check{
	{"FB-030", denialsOnRecord},
	{"FB-031", denialBeforeResult},
}

// decision is what a permission_decision of the operating system's gate says.
type decision struct {
	CallID   string `json:"call_id"`
	Decision string `json:"decision"`
	Gate     string `json:"gate"`
	Dst      string `json:"dst"`
	Cause    string `json:"cause"`
	Landed   bool   `json:"landed"`
}

func decisions(x *Exchange) (out []decision, at []int) {
	for i, e := range x.Log {
		var d decision
		if e.Type != spec.LogPermissionDecision || json.Unmarshal(e.Data, &d) != nil {
			continue
		}
		if d.Gate == string(spec.GateOS) && d.Decision == "deny" {
			out = append(out, d)
			at = append(at, i)
		}
	}
	return out, at
}

// keepsLog reports whether the subject claims to show its Log and the call belongs
// to a session that has one.
func keepsLog(x *Exchange) bool { return x.claims("log") && x.Call.Session != "" && !x.Crashed }

// denialsOnRecord: the Log holds every denial about which handlers were asked, and
// every one that was the answer because there was nobody to ask.
func denialsOnRecord(x *Exchange) (applied bool, broken []Finding) {
	if !keepsLog(x) {
		return false, nil
	}
	logged, _ := decisions(x)
	for _, aim := range seamAims(x.Call) {
		if told, asked := firstTold(x, aim.seam); asked {
			applied = true
			if broken := misrecorded(x, aim.seam, told, logged); broken != nil {
				return true, broken
			}
			continue
		}
		if x.Out.Status != spec.StatusFailed || len(x.Edits) > 0 || x.Expect != NoExpectation {
			continue
		}
		if answersDenial(x, aim.seam) && offerable(x, aim.seam, aim.path) && halfway(x, aim.seam) {
			applied = true
			if len(logged) == 0 {
				return true, broke("no denial on record", fmt.Sprintf("the denied %s that the call answered with", aim.seam))
			}
		}
	}
	return applied, nil
}

// firstTold returns what the first handler of a seam was told, and whether there
// was one. The handlers of one seam are told of one denial.
func firstTold(x *Exchange, seam spec.Seam) (spec.Denial, bool) {
	for _, c := range x.Consults {
		switch {
		case seamOf(c) != seam:
		case c.Delete != nil:
			return c.Delete.Denial, true
		case c.Write != nil:
			return c.Write.Denial, true
		}
	}
	return spec.Denial{}, false
}

// misrecorded finds that the Log lacks the denial that handlers were told of, or
// says wrongly whether one of them landed it.
func misrecorded(x *Exchange, seam spec.Seam, told spec.Denial, logged []decision) []Finding {
	i := slices.IndexFunc(logged, func(d decision) bool { return d.Dst == told.Dst && d.Cause == string(told.Cause) })
	_, accepted := consulted(x, seam)
	switch {
	case i < 0:
		return broke(fmt.Sprintf("%d denials on record", len(logged)), fmt.Sprintf("%s of %s at %s", told.Cause, seam, told.Dst))
	case logged[i].Landed && !accepted:
		return broke("landed: true", "landed: false, since no handler said yes")
	case !logged[i].Landed && accepted && x.Out.Status == spec.StatusOK:
		return broke("landed: false", "landed: true, since the call succeeded by a handler")
	}
	return nil
}

func denialBeforeResult(x *Exchange) (bool, []Finding) {
	_, at := decisions(x)
	result := slices.IndexFunc(x.Log, func(e spec.LogEntry) bool { return e.Type == spec.LogToolResult })
	if !keepsLog(x) || len(at) == 0 {
		return false, nil
	}
	if result < 0 || at[len(at)-1] > result {
		return true, broke("the result stands before the denial", "every denial of a call before its result")
	}
	return true, nil
}
