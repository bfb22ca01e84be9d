package model

import (
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// wireRules say which rule each departure from the protocol breaks.
var wireRules = []struct {
	rule  spec.RuleID
	kinds []string
}{
	{"PT-002", []string{"not-json", "not-object", "not-jsonrpc", "bad-utf8", "unfinished-line"}},
	{"PT-003", []string{"second-answer"}},
	{"PT-004", []string{"unknown-id", "unknown-method"}},
	{"PT-005", []string{"duplicate-key"}},
	{"PT-006", []string{"too-deep", "line-too-long"}},
	{"PT-008", []string{"bad-outcome"}},
}

// wireChecks hold a subject to the protocol wherever it is spoken to over it.
var wireChecks = func() []Check {
	var out []Check
	for _, r := range wireRules {
		out = append(out, Check{r.rule, func(x *Exchange) (bool, []Finding) {
			if !x.Header.Wire {
				return false, nil
			}
			for _, f := range x.Wire {
				if slices.Contains(r.kinds, f.Kind) {
					return true, broke(fmt.Sprintf("%s: %s %s", f.Kind, f.Line, f.Note), "protocol messages as documented")
				}
			}
			return true, nil
		}})
	}
	return out
}()
