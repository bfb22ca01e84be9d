package spec

import (
	"fmt"
	"maps"
	"slices"
)

// Workspace is the folder of a World that the SUT is given as its root. What a
// World holds beside it is canary: nothing there may ever change.
const Workspace = "ws"

// World is the content of a sandbox tree, as data: slash-separated paths below
// the sandbox to what is there. Parents of an entry are entries themselves.
type World map[string]Node

// Clone returns a copy of w that shares the nodes' contents.
func (w World) Clone() World { return maps.Clone(w) }

// Paths returns the paths of w, parents before children.
func (w World) Paths() []string { return slices.Sorted(maps.Keys(w)) }

// NodeType says what an entry is.
type NodeType string

// The types of entry.
const (
	TypeFile   NodeType = "file"
	TypeDir    NodeType = "dir"
	TypeLink   NodeType = "link"
	TypeFIFO   NodeType = "fifo"
	TypeOther  NodeType = "other"  // socket, device
	TypeHidden NodeType = "hidden" // there, but the bench could not look
)

// NodeTypes lists every type, for tables that must be total.
var NodeTypes = []NodeType{TypeFile, TypeDir, TypeLink, TypeFIFO, TypeOther, TypeHidden}

// Owner says whose an entry is, without numbers: the identity that the SUT runs
// as differs between machines.
type Owner string

// The owners.
const (
	OwnerSubject Owner = ""      // the identity that the SUT runs as
	OwnerOther   Owner = "other" // some other identity
)

// Mount says that an entry is a mount point.
type Mount string

// The kinds of mount.
const (
	MountNone     Mount = ""
	MountReadOnly Mount = "ro"   // the tree from here on is mounted read-only
	MountBind     Mount = "bind" // a plain mount point: it can be written, not replaced
)

// Node is one entry of a World.
type Node struct {
	Type    NodeType `json:"type"`
	Mode    Mode     `json:"mode"`
	Owner   Owner    `json:"owner,omitempty"`
	Content Content  `json:"content,omitempty"`
	Link    string   `json:"link,omitempty"` // TypeLink: its text

	// Hard is the first path, in order, of the names that share this file. It
	// is empty on that first name itself; there Nlink counts the names.
	Hard  string `json:"hard,omitempty"`
	Nlink int    `json:"nlink,omitempty"` // names; 0 stands for 1

	Xattrs    map[string]Content `json:"xattrs,omitempty"`
	Mtime     int64              `json:"mtime,omitempty"` // seconds; set when built, never observed
	Immutable bool               `json:"immutable,omitempty"`
	Mount     Mount              `json:"mount,omitempty"`
}

// Check reports the first thing wrong with w as a tree: a path out of form, an
// entry without a parent, a link without a target, a second name without a first.
func (w World) Check() error {
	for _, p := range w.Paths() {
		if err := checkPath(p); err != nil {
			return err
		}
		if dir, _, nested := cutLast(p); nested {
			if parent, ok := w[dir]; !ok || parent.Type != TypeDir {
				return fmt.Errorf("world: %q has no directory %q", p, dir)
			}
		}
		n := w[p]
		switch {
		case !slices.Contains(NodeTypes, n.Type):
			return fmt.Errorf("world: %q has type %q, want one of %v", p, n.Type, NodeTypes)
		case n.Type == TypeLink && n.Link == "":
			return fmt.Errorf("world: link %q leads nowhere: give it a target", p)
		case n.Hard != "" && w[n.Hard].Type != TypeFile:
			return fmt.Errorf("world: %q is a name of %q, which is not a file", p, n.Hard)
		case n.Hard != "" && n.Hard >= p:
			return fmt.Errorf("world: %q is a name of %q: the first name in order must hold the content", p, n.Hard)
		case n.Hard != "" && w[n.Hard].Hard != "":
			return fmt.Errorf("world: %q is a name of %q, which is itself a name of another", p, n.Hard)
		}
		for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
			if !plain(name) {
				return fmt.Errorf("world: %q has attribute %q: want a name without odd characters", p, name)
			}
		}
	}
	return nil
}
