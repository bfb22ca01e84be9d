package wire

import (
	"fmt"
	"strings"
)

// Kind names a departure from the protocol. The set is closed.
type Kind string

// The kinds of departure.
const (
	NotJSON        Kind = "not-json"        // a banner, a stray print, something after the object
	NotObject      Kind = "not-object"      // JSON, but a batch or a bare value
	BadUTF8        Kind = "bad-utf8"        // bytes that are not UTF-8, or an escape that is half a character
	DuplicateKey   Kind = "duplicate-key"   // one member twice: readers disagree on which counts
	TooDeep        Kind = "too-deep"        // more than MaxDepth
	LineTooLong    Kind = "line-too-long"   // more than MaxLine
	UnfinishedLine Kind = "unfinished-line" // end of file where a line feed was due
	NotJSONRPC     Kind = "not-jsonrpc"     // an object, but no JSON-RPC 2.0 message
	UnknownID      Kind = "unknown-id"      // an answer to nothing that was asked
	SecondAnswer   Kind = "second-answer"   // an answer to what was answered before
	UnknownMethod  Kind = "unknown-method"  // a request that the receiver does not serve
	BadParams      Kind = "bad-params"      // a request whose parameters are not the method's
	BadOutcome     Kind = "bad-outcome"     // an answer that is not what its method promises
	BadReceipt     Kind = "bad-receipt"     // a receipt that cannot be one for this root
	BadPolicy      Kind = "bad-policy"      // a declared policy, or a value of it, that does not exist
	BadVersion     Kind = "bad-version"     // no protocol version in common
)

// Kinds lists every Kind, for tables that must be total.
var Kinds = []Kind{
	NotJSON, NotObject, BadUTF8, DuplicateKey, TooDeep, LineTooLong, UnfinishedLine, NotJSONRPC,
	UnknownID, SecondAnswer, UnknownMethod, BadParams, BadOutcome, BadReceipt, BadPolicy, BadVersion,
}

// Fault is one departure from the protocol.
type Fault struct {
	Kind Kind
	Line string // how the line began, as Escape shows it
	Note string // what was expected
}

// Error makes a Fault usable where a whole answer is refused for it.
func (f Fault) Error() string { return string(f.Kind) + ": " + f.Note }

// Faultf returns a Fault without its line, which the Conn knows.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Note: fmt.Sprintf(format, args...)}
}

// shown is how much of a faulty line a report shows.
const shown = 200 // bytes

// Escape returns the first 200 bytes of line in printable ASCII. What a child
// prints ends up on terminals and in web pages: nothing of it may act there.
func Escape(line []byte) string {
	var b strings.Builder
	for _, c := range line[:min(len(line), shown)] {
		switch {
		case c == '\\':
			b.WriteString(`\\`)
		case c >= ' ' && c <= '~':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	return b.String()
}
