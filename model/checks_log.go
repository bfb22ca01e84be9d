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

// keepsLog reports whether the subject claims to write a Log and the call belongs
// to a session that has one.
func keepsLog(x *Exchange) bool {
	return slices.Contains(x.Header.Claims, "host") && x.Call.Session != "" && !x.Crashed
}

// denialsOnRecord: for every seam at which handlers were asked the Log holds the
// denial, with the destination and the cause that the handlers were told, and
// says that it landed exactly when it did.
func denialsOnRecord(x *Exchange) (int, []Finding) {
	if !keepsLog(x) || len(x.Consults) == 0 {
		return 0, nil
	}
	logged, _ := decisions(x)
	for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
		for _, c := range x.Consults {
			if seamOf(c) != seam {
				continue
			}
			told := spec.Denial{}
			if c.Write != nil {
				told = c.Write.Denial
			} else {
				told = c.Delete.Denial
			}
			i := slices.IndexFunc(logged, func(d decision) bool { return d.Dst == told.Dst && d.Cause == string(told.Cause) })
			if i < 0 {
				return 1, broke(fmt.Sprintf("%d denials on record", len(logged)), fmt.Sprintf("%s of %s at %s", told.Cause, seam, told.Dst))
			}
			if _, accepted := consulted(x, seam); logged[i].Landed && !accepted {
				return 1, broke("landed: true", "landed: false, since no handler said yes")
			} else if !logged[i].Landed && accepted && x.Out.Status == spec.StatusOK {
				return 1, broke("landed: false", "landed: true, since the call succeeded by a handler")
			}
			break // the handlers of one seam were told of one denial
		}
	}
	return 1, nil
}

func denialBeforeResult(x *Exchange) (int, []Finding) {
	_, at := decisions(x)
	result := slices.IndexFunc(x.Log, func(e spec.LogEntry) bool { return e.Type == spec.LogToolResult })
	if !keepsLog(x) || len(at) == 0 {
		return 0, nil
	}
	if result < 0 || at[len(at)-1] > result {
		return 1, broke("the result stands before the denial", "every denial of a call before its result")
	}
	return 1, nil
}
