package spec

// Gate says who refused a primitive.
type Gate string

// The two makers of denials.
const (
	GateOS     Gate = "os"           // the kernel or the file system
	GatePolicy Gate = "write_policy" // the bounded-write policy
)

// Denial is one refused primitive. It is made once, where the refusal was seen,
// and then travels by value and unchanged through registry, broker and Log; no
// later stage may restate its fields.
type Denial struct {
	Call    CallID    `json:"call"`
	Session SessionID `json:"session,omitempty"` // who asked for the primitive, never whose handler answers (FB-016)
	Tool    string    `json:"tool"`              // also the name of an unknown tool
	Gate    Gate      `json:"gate"`
	Target  string    `json:"target"`            // what the call aimed at, as spelled
	Dst     string    `json:"dst,omitempty"`     // absolute destination; empty if it could not be identified
	Cause   ErrKind   `json:"cause"`             // the error as seen, never translated (FB-015)
	Matched string    `json:"matched,omitempty"` // policy rule; GatePolicy only
	Stopped string    `json:"stopped,omitempty"` // component where a walk stopped: never the target
}

// WriteRequest asks a handler to place exact bytes at Dst.
//
// It is a different type from DeleteRequest so that no handler can be handed
// the other kind (FB-006, FB-007).
type WriteRequest struct {
	Denial
	Content   Content `json:"content"`
	Exclusive bool    `json:"exclusive,omitempty"` // the destination must not exist
}

// DeleteRequest asks a handler for a plain unlink of Dst: never a recursive
// removal, never through a final symlink (FB-020).
type DeleteRequest struct {
	Denial
	ConfirmedFile bool `json:"confirmed_file"` // false means link, special, directory, nothing or unknown (FB-019)
}
