package spec

import "encoding/json"

// LogEntry is one record of the session Log, as it stands on disk. Seq and Data
// stay raw: the confession copies values whatever their type, and 1, 1.0 and
// "1" are different sequence numbers.
type LogEntry struct {
	ID      string          `json:"id"`
	Session string          `json:"session_id"`
	Seq     json.RawMessage `json:"seq"`
	Time    string          `json:"ts"`
	Type    string          `json:"type"`
	Data    json.RawMessage `json:"data"`
}

// Log event types that the thin host writes.
const (
	LogUserMessage        = "user_message"
	LogAssistantMessage   = "assistant_message"
	LogTurnFailed         = "turn_failed"
	LogToolCall           = "tool_call"
	LogToolResult         = "tool_result"
	LogPermissionDecision = "permission_decision"
)

// StateDir is the host's own folder in the workspace. Sessions are logged in
// StateDir/sessions/ID.ndjson; the rules about the tree do not bind it.
const StateDir = ".pixir"

// Confession is the write_denials member of every bounded-write envelope and
// workflow checkpoint. Count is nil, and Status "unavailable", when the Log
// could not be read: that is not zero.
type Confession struct {
	Count   *int              `json:"count,omitempty"`
	Status  string            `json:"status,omitempty"`
	Error   string            `json:"error,omitempty"`
	Denials []json.RawMessage `json:"denials"` // never null
}
