// Package osfs is the port over the real file system.
//
// On Linux and macOS every operation is relative to a held directory descriptor
// and takes one name, so nothing that happens to the path of a directory after
// it was opened can move an operation elsewhere. On Windows it stands on the
// handles of the standard library, declares much less, and is meant for reading
// reports about a tree there rather than for judging subjects.
//
// It adds no checks of its own: what may be done is the kernel's answer, passed
// on with the kernel's errno. Errors name the single name that an operation was
// given, never the place of a directory on the host.
package osfs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// FS is the file system of this machine. The zero FS is not usable: New and
// Probe make one.
type FS struct {
	caps   vfs.Caps
	notes  []string
	kernel kernel
}

var _ vfs.FS = (*FS)(nil)

// New returns an FS that promises all that this kernel can do. A file system
// without one of the promises fails the operation with the kernel's errno; ask
// Probe where skipping is better than failing.
func New() *FS {
	k, found := detect()
	return &FS{caps: fullCaps &^ found.lost, notes: slices.Clone(found.notes), kernel: k}
}

// Caps implements vfs.FS.
func (f *FS) Caps() vfs.Caps { return f.caps }

// Notes returns one line for each primitive that was found refused or replaced
// by a lesser one. New looks at the kernel only, Probe at the place as well.
func (f *FS) Notes() []string { return slices.Clone(f.notes) }

// need is the backstop for callers that did not ask Caps.
func (f *FS) need(c vfs.Caps) error {
	if f.caps.Has(c) {
		return nil
	}
	return errUnsupported
}

// errUnsupported also matches an errno, as every failure of the port does.
var errUnsupported = fmt.Errorf("%w (%w)", vfs.ErrUnsupported, syscall.ENOTSUP)

func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

func linkError(op, name, toName string, err error) error {
	if err == nil {
		return nil
	}
	return &os.LinkError{Op: op, Old: name, New: toName, Err: err}
}

// rootName is what errors call the directory at path: its last component, so
// that a message which reaches an agent does not tell where the root lies.
func rootName(path string) string {
	name := filepath.Base(path)
	if vfs.CheckName(name) != nil {
		return "."
	}
	return name
}
