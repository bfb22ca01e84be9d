package spec

// CallID numbers the calls of a scenario, dense from 1. Zero means "no call".
type CallID uint32

// SessionID names an agent session. Empty means "outside any tool call".
type SessionID string

// CallKind names a tool entry point.
type CallKind string

// The tool entry points.
const (
	CallRead   CallKind = "read"
	CallWrite  CallKind = "write"
	CallEdit   CallKind = "edit"
	CallDelete CallKind = "delete"
	CallMove   CallKind = "move"
	CallView   CallKind = "dev_view"
	CallTool   CallKind = "tool" // any other named tool; its name and raw arguments stand beside it
)

// CallKinds lists every CallKind, for tables that must be total.
var CallKinds = []CallKind{CallRead, CallWrite, CallEdit, CallDelete, CallMove, CallView, CallTool}

// VersionAbsent is the version of a name that holds nothing. A call that
// expects it must not find anything there.
const VersionAbsent = "absent"

// Call is one request to the system under test.
type Call struct {
	ID      CallID    `json:"id"`
	Client  int       `json:"client,omitempty"` // calls of one client never overlap
	Session SessionID `json:"session,omitempty"`
	Kind    CallKind  `json:"kind"`
	Path    string    `json:"path"`         // as the agent spelled it: not cleaned, not resolved
	To      string    `json:"to,omitempty"` // move destination, spelled likewise
	Content Content   `json:"content,omitempty"`

	// ExpectVersion is the version the caller last saw, or VersionAbsent. In a
	// scenario "@3" stands for the version that call 3 returned; the runner
	// puts the real one in its place before the call is made.
	ExpectVersion string `json:"expect_version,omitempty"`

	Tool string  `json:"tool,omitempty"` // CallTool only
	Args Content `json:"args,omitempty"` // CallTool only: raw JSON
}
