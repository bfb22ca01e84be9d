package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fsbench/fsbench/spec"
)

// ErrUnspeakable is wrapped where a value has no form on the wire: a path that
// is not UTF-8, arguments that are not JSON. Encoders would send something else
// in its place, and the subject would be judged for a call that was never made.
var ErrUnspeakable = errors.New("the protocol cannot carry this")

// speakable checks name, value pairs.
func speakable(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if !utf8.ValidString(pairs[i+1]) {
			return fmt.Errorf("%s %q is not UTF-8: %w", pairs[i], pairs[i+1], ErrUnspeakable)
		}
	}
	return nil
}

// Carrier says how content travels; Inline is one, (*Spool).Carry another.
type Carrier func(content []byte) (Content, error)

// Inline puts content into the message, whatever its size.
func Inline(content []byte) (Content, error) { return Content{B64: content}, nil }

// Bytes returns the content, nil if there is none. read is asked for a file's.
func (c Content) Bytes(read func(path string) ([]byte, error)) ([]byte, error) {
	switch {
	case c.File == "":
		return c.B64, nil
	case c.B64 != nil:
		return nil, errors.New("content_b64 and content_file: want at most one")
	}
	b, err := read(c.File)
	if err != nil {
		return nil, fmt.Errorf("content_file: %w", err)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

// argsDepth is what the line, its params and the call leave for arguments.
const argsDepth = MaxDepth - 3

// FromCall puts c on the wire. Its client stays behind: which calls overlap is
// the runner's business.
func FromCall(c spec.Call, carry Carrier) (Call, error) {
	err := speakable("path", c.Path, "to", c.To, "session", string(c.Session),
		"expect_version", c.ExpectVersion, "tool", c.Tool)
	if err != nil {
		return Call{}, err
	}
	w := Call{
		ID: c.ID, Session: c.Session, Kind: c.Kind, Path: c.Path, To: c.To,
		ExpectVersion: c.ExpectVersion, Tool: c.Tool,
	}
	if len(c.Args) > 0 {
		if f := checkJSON(c.Args, argsDepth); f != nil {
			return Call{}, fmt.Errorf("args: %w: %w", f, ErrUnspeakable)
		}
		if name, _ := duplicate(c.Args); name != "" {
			return Call{}, fmt.Errorf("args hold %q twice: %w", name, ErrUnspeakable)
		}
		w.Args = json.RawMessage(c.Args)
	}
	if c.Content != nil {
		w.Content, err = carry(c.Content)
	}
	return w, err
}

// Spec returns the call that c stands for.
func (c Call) Spec(read func(path string) ([]byte, error)) (spec.Call, error) {
	switch {
	case c.ID == 0:
		return spec.Call{}, errors.New("id: want at least 1")
	case !slices.Contains(spec.CallKinds, c.Kind):
		return spec.Call{}, fmt.Errorf("kind %q: want one of %q", c.Kind, spec.CallKinds)
	}
	content, err := c.Bytes(read)
	return spec.Call{
		ID: c.ID, Session: c.Session, Kind: c.Kind, Path: c.Path, To: c.To, Content: content,
		ExpectVersion: c.ExpectVersion, Tool: c.Tool, Args: spec.Content(c.Args),
	}, err
}

// FromOutcome puts o on the wire. Version travels in the receipt.
func FromOutcome(o spec.Outcome) (Outcome, error) {
	w := Outcome{B64: o.Content}
	switch {
	case o.Status == spec.StatusOK:
		w.Outcome = Applied
	case o.Status == spec.StatusUnknown:
		w.Outcome = Unknown
	case o.Err == spec.ErrDeclined:
		w.Outcome = Declined
	default:
		w.Outcome = NotApplied
	}
	failed := w.Outcome == NotApplied || w.Outcome == Declined
	if failed || o.Err != spec.ErrNone || o.Errno != "" || o.Detail != "" {
		w.Error = &Failure{Errno: o.Errno, Message: strings.ToValidUTF8(o.Detail, "\uFFFD")}
	}
	if failed || o.Err != spec.ErrNone {
		w.Error.Class = spec.ClassOf(o.Err)
		w.Error.Errno = errnoFor(o.Err, o.Errno)
	}
	r := spec.Receipt{}
	if o.Receipt != nil {
		r = *o.Receipt
	}
	if o.Receipt != nil || o.Version != "" {
		w.Receipt = &Receipt{r.Dst, r.SHA256, r.Size, r.Mode, r.Durable, o.Version}
	}
	return w, speakable("errno", o.Errno, "receipt.dst", r.Dst, "receipt.sha256", r.SHA256,
		"receipt.mode", r.Mode, "receipt.durable", r.Durable, "version", o.Version)
}

// errnoFor returns errno if class and errno together still mean kind, and else
// the errno that makes them: several kinds share a class.
func errnoFor(kind spec.ErrKind, errno string) string {
	if k, ok := spec.KindOf(spec.ClassOf(kind), errno); kind == spec.ErrDeclined || ok && k == kind {
		return errno
	}
	if isErrno(kind) {
		return string(kind)
	}
	return ""
}

func isErrno(kind spec.ErrKind) bool {
	return strings.HasPrefix(string(kind), "E") && strings.ToUpper(string(kind)) == string(kind)
}

// Check returns the first fault of an answer to a call in root.
func (o Outcome) Check(root string) *Fault {
	class := spec.Class("")
	if o.Error != nil {
		class = o.Error.Class
	}
	_, known := spec.KindOf(class, "")
	switch {
	case !slices.Contains(Words, o.Outcome):
		return Faultf(BadOutcome, "outcome %q is unknown, want one of %q", o.Outcome, Words)
	case class != "" && !known:
		return Faultf(BadOutcome, "error.class %q is unknown", class)
	case class == "" && (o.Outcome == NotApplied || o.Outcome == Declined):
		return Faultf(BadOutcome, "error.class is missing: %s requires it", o.Outcome)
	case o.Receipt == nil:
		return nil
	}
	r := o.Receipt
	switch {
	case r.Dst != "" && !under(root, r.Dst):
		return Faultf(BadReceipt, "receipt.dst: want an absolute path under the root")
	case r.Size < 0:
		return Faultf(BadReceipt, "receipt.size: want at least 0")
	case r.Durable != "" && !slices.Contains(Durables, r.Durable):
		return Faultf(BadReceipt, "receipt.durable %q is unknown, want one of %q", r.Durable, Durables)
	}
	return nil
}

// under reports whether p is an absolute path to something inside root. It
// looks at names only, so a root reached through a link must be resolved first.
func under(root, p string) bool {
	rel, err := filepath.Rel(root, p)
	return filepath.IsAbs(p) && err == nil && rel != "." && filepath.IsLocal(rel)
}

// Spec returns what o says about call. Contradictions stay in it (an error
// beside applied): they are for the rules to find.
func (o Outcome) Spec(call spec.CallID) spec.Outcome {
	s := spec.Outcome{Call: call, Content: o.B64}
	switch o.Outcome {
	case Applied:
		s.Status = spec.StatusOK
	case NotApplied, Declined:
		s.Status = spec.StatusFailed
	case Unknown:
	}
	if o.Error != nil {
		s.Err, _ = spec.KindOf(o.Error.Class, o.Error.Errno)
		s.Errno, s.Detail = o.Error.Errno, o.Error.Message
	}
	if o.Outcome == Declined {
		s.Err = spec.ErrDeclined
	}
	if r := o.Receipt; r != nil {
		s.Version = r.Version
		if *r == (Receipt{}) || *r != (Receipt{Version: r.Version}) {
			s.Receipt = &spec.Receipt{Dst: r.Dst, SHA256: r.SHA256, Size: r.Size, Mode: r.Mode, Durable: r.Durable}
		}
	}
	return s
}

// FromCause puts the error of a denial on the wire, with its errno wherever it
// is one: a class alone would translate it.
func FromCause(kind spec.ErrKind) Cause {
	c := Cause{Class: spec.ClassOf(kind)}
	if isErrno(kind) {
		c.Errno = string(kind)
	}
	return c
}

// Spec returns the error that c stands for.
func (c Cause) Spec() (spec.ErrKind, error) {
	kind, known := spec.KindOf(c.Class, c.Errno)
	if !known {
		return spec.ErrOther, fmt.Errorf("cause.class %q is unknown", c.Class)
	}
	return kind, nil
}

// FromWrite puts r on the wire. Of the denial only what a broker may know goes
// along: the destination, the cause and the session.
func FromWrite(handler string, r spec.WriteRequest, carry Carrier) (BrokerWrite, error) {
	if err := speakable("dst", r.Dst, "session", string(r.Session)); err != nil {
		return BrokerWrite{}, err
	}
	bytes := []byte(r.Content)
	if bytes == nil {
		bytes = []byte{}
	}
	content, err := carry(bytes)
	return BrokerWrite{
		Handler: handler, Dst: r.Dst, Content: content, Cause: FromCause(r.Cause),
		Session: r.Session, Exclusive: r.Exclusive,
	}, err
}

// Spec returns the request that b stands for.
func (b BrokerWrite) Spec(read func(path string) ([]byte, error)) (spec.WriteRequest, error) {
	cause, err := b.Cause.Spec()
	if err != nil {
		return spec.WriteRequest{}, err
	}
	content, err := b.Bytes(read)
	if err == nil && content == nil {
		err = errors.New("content_b64 or content_file is missing")
	}
	return spec.WriteRequest{
		Denial:  spec.Denial{Session: b.Session, Dst: b.Dst, Cause: cause},
		Content: content, Exclusive: b.Exclusive,
	}, err
}

// FromDelete puts r on the wire, as FromWrite does.
func FromDelete(handler string, r spec.DeleteRequest) (BrokerDelete, error) {
	return BrokerDelete{
		Handler: handler, Dst: r.Dst, Cause: FromCause(r.Cause),
		ConfirmedFile: r.ConfirmedFile, Session: r.Session,
	}, speakable("dst", r.Dst, "session", string(r.Session))
}

// Spec returns the request that b stands for.
func (b BrokerDelete) Spec() (spec.DeleteRequest, error) {
	cause, err := b.Cause.Spec()
	return spec.DeleteRequest{
		Denial:        spec.Denial{Session: b.Session, Dst: b.Dst, Cause: cause},
		ConfirmedFile: b.ConfirmedFile,
	}, err
}

// FromLogEntry puts e on the wire.
func FromLogEntry(e spec.LogEntry) LogEntry { return LogEntry(e) }

// Spec returns the entry that e stands for.
func (e LogEntry) Spec() spec.LogEntry { return spec.LogEntry(e) }

// FromConfession puts c on the wire.
func FromConfession(c spec.Confession) Confession {
	if c.Denials == nil {
		c.Denials = []json.RawMessage{}
	}
	return Confession(c)
}

// Spec returns the confession that c stands for.
func (c Confession) Spec() spec.Confession { return spec.Confession(c) }
