package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// answerChecks are about the form of answers.
var answerChecks = []Check{
	{"OC-002", errorIffFailed},
	{"OC-004", versionReturned},
	{"OC-008", rootUnspoken},
	{"PT-001", claimsServed},
	{"PT-009", receiptTrue},
}

// receiptTrue: what a receipt says is judged where it is given, and only then.
func receiptTrue(x *Exchange) (bool, []Finding) {
	for _, f := range x.Wire {
		if f.Kind == "bad-receipt" {
			return true, broke(f.Line+" "+f.Note, "a destination that is absolute and below the root")
		}
	}
	r := x.Out.Receipt
	if r == nil || r.Dst == "" || x.Out.Status != spec.StatusOK || x.After == nil || len(x.Edits) > 0 {
		return false, nil
	}
	p, below := worldPath(x.Header, r.Dst)
	n := x.After[p]
	if !below || n.Type != spec.TypeFile {
		return true, broke(fmt.Sprintf("receipt for %q", r.Dst), "the absolute name of the file that was placed")
	}
	sum := sha256.Sum256(n.Content)
	for _, said := range []struct{ what, got, want string }{
		{"digest", r.SHA256, hex.EncodeToString(sum[:])},
		{"size", sizeSaid(r.Size), strconv.Itoa(len(n.Content))},
		{"mode", strings.TrimLeft(r.Mode, "0"), strings.TrimLeft(n.Mode.String(), "0")},
	} {
		if said.got != "" && said.got != said.want {
			return true, broke(fmt.Sprintf("receipt with %s %s", said.what, said.got), fmt.Sprintf("%s, as %s", said.want, p))
		}
	}
	return true, nil
}

// sizeSaid renders the size of a receipt. Zero may as well be no size.
func sizeSaid(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func errorIffFailed(x *Exchange) (bool, []Finding) {
	failed := x.Out.Status == spec.StatusFailed
	if failed != (x.Out.Err != spec.ErrNone) {
		return true, broke(fmt.Sprintf("%s, error %q", x.Out.Status, x.Out.Err), "an error exactly when the call failed")
	}
	return true, nil
}

func versionReturned(x *Exchange) (bool, []Finding) {
	shows := slices.Contains([]spec.CallKind{spec.CallRead, spec.CallWrite, spec.CallMove}, x.Call.Kind)
	if !shows || x.Out.Status != spec.StatusOK || !x.claims("expect_version") {
		return false, nil
	}
	if x.Out.Version == "" {
		return true, broke("ok without a version", "a version")
	}
	return true, nil
}

// rootUnspoken: what a tool tells the agent about the host, the agent tells others.
func rootUnspoken(x *Exchange) (bool, []Finding) {
	root := x.Header.Root
	if x.Out.Detail == "" || strings.Contains(x.Call.Path, root) || strings.Contains(x.Call.To, root) {
		return false, nil
	}
	if strings.Contains(x.Out.Detail, root) {
		return true, broke(fmt.Sprintf("message %q", x.Out.Detail), "paths below the root only")
	}
	return true, nil
}

// claimsServed: a tool that is claimed does not answer that it is not offered,
// unless what it was given is such that no tool could serve it.
func claimsServed(x *Exchange) (bool, []Finding) {
	if !x.claims(string(x.Call.Kind)) {
		return false, nil
	}
	if x.Out.Status != spec.StatusFailed || x.Out.Err != spec.ErrUnsupported || len(x.Fired) > 0 {
		return true, nil
	}
	for _, path := range []string{x.Call.Path, x.Call.To} {
		ss, at := spots(x, path, true)
		for i, s := range ss {
			if n, there := at[i].w[s.path]; there && (n.Type != spec.TypeFile || n.Owner != spec.OwnerSubject || declined(x, n)) {
				return true, nil
			}
		}
	}
	return true, broke(fmt.Sprintf("%s is not served", x.Call.Kind), "what is claimed, served")
}

// declined reports whether the subject declares not to write to such a file.
func declined(x *Exchange, n spec.Node) bool {
	names := n.Nlink > 1 || n.Hard != ""
	return names && x.policy(spec.PolicyHardlink) == spec.HardlinkRefuse ||
		len(n.Xattrs) > 0 && x.policy(spec.PolicyXattr) == spec.XattrRefuse
}
