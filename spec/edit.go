package spec

import (
	"fmt"
	"slices"
	"strconv"
)

// EditOp is a way in which somebody else changes the World.
type EditOp string

// The ways. None follows a link in the last component.
const (
	EditWrite    EditOp = "write"    // create, or overwrite the bytes in place
	EditMkdir    EditOp = "mkdir"    //
	EditSymlink  EditOp = "symlink"  // To is the link's text
	EditHardlink EditOp = "hardlink" // To is the existing name
	EditFIFO     EditOp = "fifo"     //
	EditRename   EditOp = "rename"   // Path goes to To, over whatever is there
	EditExchange EditOp = "exchange" // Path and To trade places
	EditRemove   EditOp = "remove"   // with everything below
	EditChmod    EditOp = "chmod"    //
	EditTouch    EditOp = "touch"    // set the modification time, nothing else
)

// EditOps lists every EditOp, for tables that must be total.
var EditOps = []EditOp{
	EditWrite, EditMkdir, EditSymlink, EditHardlink, EditFIFO,
	EditRename, EditExchange, EditRemove, EditChmod, EditTouch,
}

// Edit is one change of the World by somebody other than the SUT: a step of a
// scenario, or part of a swap between two operations of a call.
type Edit struct {
	Op      EditOp  `json:"op"`
	Path    string  `json:"path"`
	To      string  `json:"to,omitempty"`
	Content Content `json:"content,omitempty"`
	Mode    Mode    `json:"mode,omitempty"`
	Mtime   int64   `json:"mtime,omitempty"` // seconds; EditWrite and EditTouch
}

// Fields returns the text form of e.
func (e Edit) Fields() []Field {
	fields := []Field{{"", string(e.Op)}, {"", e.Path}}
	if e.To != "" {
		fields = append(fields, Field{"to", e.To})
	}
	if e.Mode != 0 {
		fields = append(fields, Field{"mode", e.Mode.String()})
	}
	if e.Mtime != 0 {
		fields = append(fields, Field{"mtime", strconv.FormatInt(e.Mtime, 10)})
	}
	if e.Content != nil {
		fields = append(fields, Field{"content", e.Content.String()})
	}
	return fields
}

// ParseEdit reads the text form of an Edit.
func ParseEdit(fields []Field) (Edit, error) {
	if len(fields) < 2 || fields[0].Key != "" || fields[1].Key != "" {
		return Edit{}, fmt.Errorf("edit: want an operation and a path, as in: rename ws/a to=ws/b")
	}
	e := Edit{Op: EditOp(fields[0].Value), Path: fields[1].Value}
	for _, f := range fields[2:] {
		var err error
		switch f.Key {
		case "to":
			e.To = f.Value
		case "mode":
			err = e.Mode.UnmarshalText([]byte(f.Value))
		case "mtime":
			if e.Mtime, err = strconv.ParseInt(f.Value, 10, 64); err != nil {
				err = fmt.Errorf("mtime %q: want seconds", f.Value)
			}
		case "content":
			err = e.Content.UnmarshalText([]byte(f.Value))
		default:
			err = fmt.Errorf("edit: %q is unknown, want to=, mode=, mtime= or content=", f)
		}
		if err != nil {
			return Edit{}, err
		}
	}
	return e, e.Check()
}

// Check reports the first thing that keeps e from being carried out.
func (e Edit) Check() error {
	if !slices.Contains(EditOps, e.Op) {
		return fmt.Errorf("edit %q: want one of %v", e.Op, EditOps)
	}
	if err := checkPath(e.Path); err != nil {
		return err
	}
	switch e.Op {
	case EditRename, EditExchange, EditHardlink:
		if err := checkPath(e.To); err != nil {
			return fmt.Errorf("edit %s: %w", e.Op, err)
		}
	case EditSymlink:
		if e.To == "" {
			return fmt.Errorf("edit symlink: want to= with the link's text")
		}
	case EditWrite, EditMkdir, EditFIFO, EditRemove, EditChmod, EditTouch:
	}
	return nil
}
