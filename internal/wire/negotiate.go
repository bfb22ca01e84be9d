package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fsbench/fsbench/spec"
)

// Range is the least and the most that one side speaks. A side that speaks one
// version only may write it as a bare number.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// String returns "2", or "1 to 3".
func (r Range) String() string {
	if r.Min == r.Max {
		return fmt.Sprint(r.Min)
	}
	return fmt.Sprintf("%d to %d", r.Min, r.Max)
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Range) UnmarshalJSON(raw []byte) error {
	if string(raw) != "null" && json.Unmarshal(raw, &r.Min) == nil {
		r.Max = r.Min
	} else {
		type plain Range // without this method
		if err := Decode(raw, (*plain)(r)); err != nil {
			return fmt.Errorf(`want {"min":n,"max":n}: %w`, err)
		}
	}
	if r.Min < 1 || r.Max < r.Min {
		return errors.New("want 1 <= min <= max")
	}
	return nil
}

// Common returns the highest version that both sides speak.
func Common(runner, child Range) (int, error) {
	version := min(runner.Max, child.Max)
	if version < max(runner.Min, child.Min) {
		return 0, Faultf(BadVersion, "no common version: the runner speaks %v, the child speaks %v", runner, child)
	}
	return version, nil
}

// CheckPolicies refuses a declaration that names a policy, or a value of one,
// that is unknown. A subject judged by a word that nobody knows would not be
// judged at all.
func CheckPolicies(declared spec.Policies) error {
	for _, name := range slices.Sorted(maps.Keys(declared)) {
		values, known := spec.PolicyValues[name]
		if !known {
			return Faultf(BadPolicy, "policy %q is unknown, want one of %q", name, slices.Sorted(maps.Keys(spec.PolicyValues)))
		}
		if !slices.Contains(values, declared[name]) {
			return Faultf(BadPolicy, "policy %s: %q is unknown, want one of %q", name, declared[name], values)
		}
	}
	return nil
}

// Check returns the first fault of a Greeting.
func (g Greeting) Check() *Fault {
	if _, err := Common(Speaks, g.Protocol); err != nil {
		return asFault(err, BadVersion)
	}
	for _, role := range g.Roles {
		if !slices.Contains(Roles, role) {
			return Faultf(BadOutcome, "role %q is unknown, want %q", role, Roles)
		}
	}
	if err := CheckPolicies(g.Policies); err != nil {
		return asFault(err, BadPolicy)
	}
	if g.Limits.MaxContent < 0 || g.Limits.Concurrency < 1 {
		return Faultf(BadOutcome, "limits: want max_content at least 0 and concurrency at least 1")
	}
	return nil
}

// asFault returns err as a fault, of kind k if it is not one already.
func asFault(err error, k Kind) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return Faultf(k, "%v", err)
}
