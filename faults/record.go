package faults

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Record is what a foreign process, with all that it started, did to a tree: enough
// to have the tree again as it was after every step.
//
// Everything in it is known by its identity and not by a path. A path says nothing
// of a file that was opened earlier, has another name, or has none yet.
type Record struct {
	UID       uint32 // what the subject ran as
	Start     []Held // what was there when it began
	Mutations []Mutation
	Gaps      []Gap
}

// Complete reports whether the tree after every step follows from the record.
func (r Record) Complete() bool {
	for _, g := range r.Gaps {
		if !g.Coarse {
			return false
		}
	}
	return true
}

// Held is an entry that was there from the start. "." is the tree itself.
type Held struct {
	Path Raw    `json:"path"`
	ID   vfs.ID `json:"id"`
}

// Gap says that something happened, or may have, that the record does not tell.
type Gap struct {
	Key    string `json:"key,omitempty"` // of the step at which it was found out
	Call   string `json:"call,omitempty"`
	Object vfs.ID `json:"object,omitzero"`
	Path   Raw    `json:"path,omitempty"`
	Reason string `json:"reason"`

	// Coarse is for a gap between two steps: the content is right again at each step,
	// but what led to it, and in which order, is not known.
	Coarse bool `json:"coarse,omitempty"`
}

// Change says what a mutation does. The set is closed.
type Change string

// The changes. What a call did is recorded, and not what it was asked for.
const (
	ChangeMake     Change = "make"      // Object comes to be: Type, Mode, UID, GID, Text of a link; At, or no name
	ChangeWrite    Change = "write"     // Data at Off
	ChangeResize   Change = "resize"    // to Size
	ChangeClear    Change = "clear"     // Size bytes at Off become zeros; the file grows by none of it
	ChangeReserve  Change = "reserve"   // room for Size bytes at Off; nothing to be seen but another time
	ChangeLink     Change = "link"      // Object gets the name At; without one, a name elsewhere
	ChangeUnlink   Change = "unlink"    // Object loses the name At; without one, a name elsewhere
	ChangeRename   Change = "rename"    // Object moves from At to To, over what is there; one may be elsewhere
	ChangeExchange Change = "exchange"  // what is at At and at To trade places
	ChangeMode     Change = "mode"      // Mode
	ChangeOwner    Change = "owner"     // UID and GID
	ChangeXattr    Change = "xattr"     // the attribute Text becomes Data
	ChangeNoXattr  Change = "no-xattr"  // the attribute Text goes
	ChangeTimes    Change = "times"     // Mtime
	ChangeSync     Change = "sync"      // Object is made durable: Scope says what of it
	ChangeSyncAll  Change = "sync-all"  // a whole file system, or all of them
	ChangeEdit     Change = "edit"      // the adversary's Edit, between two calls
	ChangeKnown    Change = "known"     // what is at Path since then is Object
	ChangeSyncPart Change = "sync-part" // Size bytes at Off; 0 is up to the end. A hint: no promise outlives a power cut
)

// Changes lists every change, for tables that must be total.
var Changes = []Change{
	ChangeMake, ChangeWrite, ChangeResize, ChangeClear, ChangeReserve, ChangeLink, ChangeUnlink, ChangeRename,
	ChangeExchange, ChangeMode, ChangeOwner, ChangeXattr, ChangeNoXattr, ChangeTimes, ChangeSync, ChangeSyncAll,
	ChangeSyncPart, ChangeEdit, ChangeKnown,
}

// Entry is a name in a directory. The zero Entry is one outside of the tree.
type Entry struct {
	Dir  vfs.ID `json:"dir"`
	Name Raw    `json:"name"`
}

// Mutation is one effect of one call. A call that has several has several mutations
// with the same key.
type Mutation struct {
	Key    string `json:"key"`              // of the step, as Step has it
	Call   string `json:"call,omitempty"`   // none: it was not the subject
	Result int64  `json:"result,omitempty"` // what the call returned
	Path   Raw    `json:"path,omitempty"`   // where that was at the time; for people, but for ChangeKnown

	Do     Change `json:"do"`
	Object vfs.ID `json:"object,omitzero"`
	At     Entry  `json:"at,omitzero"`
	To     Entry  `json:"to,omitzero"`

	Type    spec.NodeType `json:"type,omitempty"`
	Mode    spec.Mode     `json:"mode,omitempty"`
	UID     uint32        `json:"uid,omitempty"`
	GID     uint32        `json:"gid,omitempty"`
	Text    Raw           `json:"text,omitempty"`
	Off     int64         `json:"off,omitempty"`   // bytes
	Size    int64         `json:"size,omitempty"`  // bytes
	Mtime   int64         `json:"mtime,omitempty"` // nanoseconds since 1970
	Data    spec.Content  `json:"data,omitempty"`
	Durable bool          `json:"durable,omitempty"` // of a write: made as with O_SYNC or O_DSYNC
	Scope   Scope         `json:"scope,omitempty"`
	Edit    *spec.Edit    `json:"edit,omitempty"`
}

// Scope says what a flush makes durable.
type Scope string

// The scopes.
const (
	ScopeAll  Scope = ""     // content and what is known of it
	ScopeData Scope = "data" // content, and what is needed to find it
)

// Raw is a name or a text as the file system has it: any bytes. Those that are no
// text would not survive JSON.
type Raw string

// MarshalText implements encoding.TextMarshaler.
func (r Raw) MarshalText() ([]byte, error) { return spec.Content(r).MarshalText() }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Raw) UnmarshalText(text []byte) error {
	var c spec.Content
	err := c.UnmarshalText(text)
	*r = Raw(c)
	return err
}

// recordLine is one line of a record. The first is about the whole.
type recordLine struct {
	UID      *uint32   `json:"uid,omitempty"`
	Start    *Held     `json:"start,omitempty"`
	Mutation *Mutation `json:"mutation,omitempty"`
	Gap      *Gap      `json:"gap,omitempty"`
}

// Write writes r as lines of JSON.
func (r Record) Write(w io.Writer) error {
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	lines := []recordLine{{UID: &r.UID}}
	for i := range r.Start {
		lines = append(lines, recordLine{Start: &r.Start[i]})
	}
	for i := range r.Mutations {
		lines = append(lines, recordLine{Mutation: &r.Mutations[i]})
	}
	for i := range r.Gaps {
		lines = append(lines, recordLine{Gap: &r.Gaps[i]})
	}
	for _, l := range lines {
		if err := enc.Encode(l); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
	}
	return out.Flush()
}

// ReadRecord reads what Write has written.
func ReadRecord(in io.Reader) (Record, error) {
	var r Record
	dec := json.NewDecoder(in)
	dec.DisallowUnknownFields()
	for n := 1; ; n++ {
		var l recordLine
		err := dec.Decode(&l)
		switch {
		case errors.Is(err, io.EOF) && n > 1:
			return r, nil
		case err != nil:
			return r, fmt.Errorf("record: line %d: %w", n, err)
		case (l.UID != nil) != (n == 1):
			return r, fmt.Errorf("record: line %d: want the identity on the first line, and only there", n)
		case l.UID != nil:
			r.UID = *l.UID
		case l.Start != nil:
			r.Start = append(r.Start, *l.Start)
		case l.Mutation != nil:
			r.Mutations = append(r.Mutations, *l.Mutation)
		case l.Gap != nil:
			r.Gaps = append(r.Gaps, *l.Gap)
		default:
			return r, fmt.Errorf("record: line %d holds nothing", n)
		}
	}
}
