package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// answerChecks are about the form of answers.
var answerChecks = []Check{
	{"OC-002", errorIffFailed},
	{"OC-004", versionReturned},
	{"OC-008", rootUnspoken},
	{"PT-001", claimsServed},
}

func errorIffFailed(x *Exchange) (int, []Finding) {
	failed := x.Out.Status == spec.StatusFailed
	if failed != (x.Out.Err != spec.ErrNone) {
		return 1, broke(fmt.Sprintf("%s, error %q", x.Out.Status, x.Out.Err), "an error exactly when the call failed")
	}
	return 1, nil
}

func versionReturned(x *Exchange) (int, []Finding) {
	shows := slices.Contains([]spec.CallKind{spec.CallRead, spec.CallWrite, spec.CallMove}, x.Call.Kind)
	if !shows || x.Out.Status != spec.StatusOK || !slices.Contains(x.Header.Claims, "expect_version") {
		return 0, nil
	}
	if x.Out.Version == "" {
		return 1, broke("ok without a version", "a version")
	}
	return 1, nil
}

// rootUnspoken: what a tool tells the agent about the host, the agent tells others.
func rootUnspoken(x *Exchange) (int, []Finding) {
	root := x.Header.Root
	if x.Out.Detail == "" || strings.Contains(x.Call.Path, root) || strings.Contains(x.Call.To, root) {
		return 0, nil
	}
	if strings.Contains(x.Out.Detail, root) {
		return 1, broke(fmt.Sprintf("message %q", x.Out.Detail), "paths below the root only")
	}
	return 1, nil
}

// claimsServed: a tool that is claimed does not answer that it is not offered,
// unless what it was given is such that no tool could serve it.
func claimsServed(x *Exchange) (int, []Finding) {
	if !slices.Contains(x.Header.Claims, string(x.Call.Kind)) {
		return 0, nil
	}
	if x.Out.Status != spec.StatusFailed || x.Out.Err != spec.ErrUnsupported || len(x.Fired) > 0 {
		return 1, nil
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		ss, trees := spots(x, path, true)
		for i, s := range ss {
			if n, there := trees[i].w[s.path]; there && (n.Type != spec.TypeFile || n.Owner != spec.OwnerSubject) {
				return 1, nil
			}
		}
	}
	return 1, broke(fmt.Sprintf("%s is not served", x.Call.Kind), "what is claimed, served")
}
