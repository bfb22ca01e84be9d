package spec

import "fmt"

// Status says what is known about a call.
//
// The zero value is StatusUnknown on purpose: an answer that never arrived must
// read neither as success nor as failure (AT-015).
type Status uint8

// The three things that can be known.
const (
	StatusUnknown Status = iota // no answer, or the SUT says that it cannot tell
	StatusOK
	StatusFailed
)

var statusNames = [...]string{StatusUnknown: "unknown", StatusOK: "ok", StatusFailed: "failed"}

// String returns the word used in traces.
func (s Status) String() string {
	if int(s) < len(statusNames) {
		return statusNames[s]
	}
	return fmt.Sprintf("status(%d)", uint8(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) {
	if int(s) >= len(statusNames) {
		return nil, fmt.Errorf("spec: no such status %d", uint8(s))
	}
	return []byte(statusNames[s]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(text []byte) error {
	for i, name := range statusNames {
		if name == string(text) {
			*s = Status(i)
			return nil
		}
	}
	return fmt.Errorf("status %q: want unknown, ok or failed", text)
}

// Outcome is the SUT's answer to one call.
type Outcome struct {
	Call   CallID  `json:"call"`
	Status Status  `json:"status"`
	Err    ErrKind `json:"err,omitempty"`   // set if and only if Status is StatusFailed (OC-002)
	Errno  string  `json:"errno,omitempty"` // the kernel's word under Err, where the SUT passed it on

	Detail  string  `json:"detail,omitempty"`  // for people; only its silence about the host is judged (OC-008)
	Content Content `json:"content,omitempty"` // reads only
	Version string  `json:"version,omitempty"` // of the bytes read, or now at the destination

	Receipt *Receipt `json:"receipt,omitempty"`
}

// Receipt is what a SUT may say about bytes it placed. Every field is optional.
type Receipt struct {
	Dst     string `json:"dst,omitempty"` // absolute, under the root
	SHA256  string `json:"sha256,omitempty"`
	Size    int64  `json:"size,omitempty"` // bytes
	Mode    string `json:"mode,omitempty"` // octal
	Durable string `json:"durable,omitempty"`
}
