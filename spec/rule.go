package spec

import (
	"slices"
	"strings"
)

// RuleID is a stable identifier such as "FB-004". Ids are never reused.
type RuleID string

// Family returns the letters of id.
func (id RuleID) Family() string {
	family, _, _ := strings.Cut(string(id), "-")
	return family
}

// Strength is how much a rule binds, as in RFC 2119.
type Strength string

// The strengths. A broken SHOULD is a warning and changes no exit code.
const (
	Must   Strength = "MUST"
	Should Strength = "SHOULD"
)

// Level is where in a certificate a rule counts.
type Level string

// The levels.
const (
	L0 Level = "L0" // speaks the protocol
	L1 Level = "L1" // functional, typed errors, fidelity as declared
	L2 Level = "L2" // statically confined
	L3 Level = "L3" // race confined
	L4 Level = "L4" // fault honest
	L5 Level = "L5" // crash atomic and durable as declared
)

// Source says where a rule comes from, so that a finding can be argued with.
type Source struct {
	Doc   string // short name of a document in Documents
	Place string // heading or subject in it
}

// Documents are the public addresses of the sources.
var Documents = map[string]string{
	"fallbacks":         "https://present-sketch-tp94.here.now/",
	"write-denials":     "https://github.com/Ranvier-Technologies/pixir/blob/main/lib/pixir/permissions/write_denials.ex",
	"filesystem-plugin": "https://github.com/Dorshitrit/abot-runtime",
	"protocol":          "https://github.com/fsbench/fsbench/blob/main/docs/PROTOCOL.md",
	"linux":             "https://man7.org/linux/man-pages/",
}

// Rule is one obligation.
type Rule struct {
	ID       RuleID
	Title    string // imperative, one line
	Strength Strength
	Level    Level
	Role     string // the role that it binds
	Source   Source
}

// RuleByID returns a rule and whether it exists.
func RuleByID(id RuleID) (Rule, bool) {
	i, ok := slices.BinarySearchFunc(Rules, id, func(r Rule, id RuleID) int { return strings.Compare(string(r.ID), string(id)) })
	if !ok {
		return Rule{}, false
	}
	return Rules[i], true
}
