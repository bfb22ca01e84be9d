// Package sandbox gives a run a disposable tree, and the bench its own hands and
// eyes in it.
//
// Building, observing and landing go past everything that a subject or a fault
// can do: what the bench sees is what is there. A sandbox does not know what is
// right, and does not start subjects; it says how a child is to be started in it.
package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// ErrCannot is wrapped when this sandbox, on this machine and as this user,
// cannot bring about what a scenario needs. It makes a skip that is counted with
// its reason, never a pass and never a failure.
var ErrCannot = errors.New("the sandbox cannot bring this about")

// Sandbox is one disposable tree.
type Sandbox interface {
	// Name is the kind of sandbox: mem or disk.
	Name() string

	// Root is the absolute path that a subject is given: the folder
	// spec.Workspace of the World.
	Root() string

	// Caps is what the tree can do.
	Caps() vfs.Caps

	// Counts reports whether somebody counts what a subject has open in the tree.
	Counts() bool

	// Build makes the initial World in the empty tree.
	Build(spec.World) error

	// Arm puts plan in force.
	Arm(plan faults.Plan, sink trace.Sink) (Armed, error)

	// Observe reads the whole tree.
	Observe() (spec.World, error)

	// Edit changes the tree as somebody else would, past every permission.
	Edit(spec.Edit) error

	// Land and Unlink do what an honest privileged broker would: the exact bytes,
	// durable, missing parents made; a plain unlink of that name.
	Land(spec.WriteRequest) error
	Unlink(spec.DeleteRequest) error

	// Close removes the tree and everything made for it.
	Close() error
}

// Armed is a sandbox with a plan in force.
type Armed interface {
	// Port is the faulty view for a subject that takes one; nil where the subject
	// is a child.
	Port() vfs.FS

	// Child is how a subject in a process of its own is started; nil where it runs
	// in this one.
	Child() *Child

	// Crashed reports whether a planned crash has struck and Revive was not called
	// since. Revive lets the next process reach the tree.
	Crashed() bool
	Revive()

	// Unfired lists injections that had no effect so far.
	Unfired() []string

	// Begin notes that a call begins: the keys of its steps do not depend on what the
	// subject did before.
	Begin(call spec.CallID)

	// Steps lists what the subject has done in the tree, if the plan asks for it and
	// somebody looks on.
	Steps() []faults.Step

	// Touched lists what the subject went for outside the tree, if somebody looks on.
	Touched() []faults.Touch

	// Left lists what of the tree the subject has open and had not when the call began,
	// the workspace itself excepted, where somebody counts.
	Left() []string

	// Records tells what each process of the subject has done to the tree, if the plan
	// asks for it and somebody looks on.
	Records() []faults.Record

	// Stop ends the plan, and returns what went wrong with the bench's own hands
	// while it was in force.
	Stop() error
}

// Child says how a subject is started in a process of its own.
type Child struct {
	// Wrap puts the command into the sandbox before it starts.
	Wrap func(*exec.Cmd) error

	// Lasting says that the sandbox will be filled again for other runs, which the
	// process may serve too.
	Lasting bool

	// Plan, Event and Edit arm the reference's own worker: the plan for it, its
	// events as they come, and an adversary's edits on its behalf.
	Plan  json.RawMessage
	Event func(json.RawMessage) error
	Edit  func(spec.Edit) (done bool, err error)
}

// Missed reports whether an edit failed because the adversary came too early or too
// late: there was nothing to act on, or its place was taken. That is nobody's fault,
// and no event.
func Missed(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTDIR)
}

// Attempt makes of Edit what an adversary does: it reports whether anything was
// changed.
func Attempt(edit func(spec.Edit) error) func(spec.Edit) (done bool, err error) {
	return func(e spec.Edit) (bool, error) {
		err := edit(e)
		if Missed(err) {
			return false, nil
		}
		return err == nil, err
	}
}

// Place returns the path in the World of a destination that a request names. root
// is the sandbox's Root.
func Place(root, dst string) (string, error) {
	rel, ok := strings.CutPrefix(dst, root+"/")
	if !ok || rel == "" || path.Clean("/"+rel) != "/"+rel || strings.ContainsRune(rel, 0) {
		return "", fmt.Errorf("destination %q is not a clean path below the root", dst)
	}
	return spec.Workspace + "/" + rel, nil
}

// CheckEdit refuses an edit that no file system can carry out: an entry cannot be
// moved into itself, nor over a directory that holds it.
func CheckEdit(e spec.Edit) error {
	if e.Op != spec.EditRename && e.Op != spec.EditExchange {
		return nil
	}
	if strings.HasPrefix(e.Path+"/", e.To+"/") || strings.HasPrefix(e.To+"/", e.Path+"/") {
		return fmt.Errorf("edit %s %s: want another name than %s, and none above or below it", e.Op, e.Path, e.To)
	}
	return nil
}

// NameHardLinks fills in Hard and Nlink of the files of w that share an object:
// names lists, for every object that was met more than once or says that it has
// more names than one, the paths at which it was met, and links how many it says
// that it has. The first path in order carries the number.
func NameHardLinks[ID comparable](w spec.World, names map[ID][]string, links map[ID]int) {
	for id, paths := range names {
		first := slices.Min(paths)
		for _, p := range paths {
			n := w[p]
			if n.Hard, n.Nlink = first, 0; p == first {
				n.Hard, n.Nlink = "", links[id]
			}
			w[p] = n
		}
	}
}
