package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// answerChecks are about the form of answers.
var answerChecks = []Check{
	{"OC-002", errorIffFailed},
	{"OC-004", versionReturned},
	{"OC-005", errorNamed},
	{"OC-008", rootUnspoken},
	{"PT-001", claimsServed},
	{"PT-009", receiptTrue},
}

// receiptTrue: what a receipt says is judged where it is given, and only then.
func receiptTrue(x *Exchange) (int, []Finding) {
	for _, f := range x.Wire {
		if f.Kind == "bad-receipt" {
			return 1, broke(f.Line+" "+f.Note, "a destination that is absolute and below the root")
		}
	}
	r := x.Out.Receipt
	if r == nil || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 {
		return 0, nil
	}
	p, below := worldPath(x.Header, r.Dst)
	n, there := x.After[p]
	if r.Dst != "" && (!below || !there || n.Type != spec.TypeFile) {
		return 1, broke(fmt.Sprintf("receipt for %q", r.Dst), "the absolute name of the file that was placed")
	}
	sum := sha256.Sum256(n.Content)
	if r.Dst != "" && r.SHA256 != "" && r.SHA256 != hex.EncodeToString(sum[:]) {
		return 1, broke(fmt.Sprintf("receipt with digest %s", r.SHA256), "the digest of the bytes in place")
	}
	return 1, nil
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

// errorNamed counts the failures that something struck: their names are held by
// branches.
func errorNamed(x *Exchange) (int, []Finding) {
	if x.Out.Status == spec.StatusFailed && len(faultKinds(x.Fired)) > 0 {
		return 1, nil
	}
	return 0, nil
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
