//go:build !linux && !darwin && !windows

package osfs

import "github.com/fsbench/fsbench/vfs"

// fullCaps is nothing: this system has no backend.
const fullCaps vfs.Caps = 0

type kernel struct{}

func detect() (kernel, finding) {
	return kernel{}, finding{notes: []string{"this operating system has no backend"}}
}

var placeTrials []trial

// OpenRoot implements vfs.FS. It always fails.
func (*FS) OpenRoot(path string) (vfs.Dir, error) {
	return nil, pathError("openat", rootName(path), errUnsupported)
}

// SyncFS implements vfs.FS. It always fails.
func (*FS) SyncFS(vfs.Dir) error { return pathError("syncfs", "", errUnsupported) }
