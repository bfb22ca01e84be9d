package tools

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// move places the source's bytes at the destination and then unlinks the source:
// two primitives with separate outcomes, since each may be denied, and handled,
// on its own (FB-023). The destination must not exist.
func (k *call) move() spec.Outcome {
	place, err := k.walk(k.Path, false, false)
	if err != nil {
		return k.failed(blocked(err))
	}
	defer place.Close()
	src, err := k.source(place)
	if err != nil {
		return k.failed(err)
	}
	defer src.close()
	v, err := k.place(k.To, bytesTo{content: src.content, like: src.file, expect: spec.VersionAbsent, from: place.Rel})
	if err != nil {
		k.undo()
		return k.failed(taken(err))
	}
	err = k.remove(place, k.Path, func(now vfs.Info) error {
		if !k.t.Steps.Same(src.info, now) {
			return conflict("the source changed after it was copied")
		}
		return nil
	})
	if err != nil {
		out := k.failed(err)
		out.Detail = "the destination was written; removing the source: " + out.Detail
		return out
	}
	return spec.Outcome{Status: spec.StatusOK, Version: v, Receipt: k.receipt(src.content)}
}

// source opens what is to be moved: a regular file, in the version that the
// caller expects.
func (k *call) source(place vfs.Place) (*snapshot, error) {
	info, err := place.Dir.Lstat(place.Name)
	switch {
	case err != nil:
		return nil, k.unseen(place, err)
	case info.Mode.IsDir():
		err = &fs.PathError{Op: "openat", Path: place.Name, Err: syscall.EISDIR}
	case info.Mode&fs.ModeSymlink != 0:
		err = &fs.PathError{Op: "openat", Path: place.Name, Err: syscall.ELOOP}
	case !info.Mode.IsRegular():
		err = notRegular()
	}
	if err != nil {
		return nil, err
	}
	s, err := k.load(place)
	if err != nil {
		return nil, err
	}
	if k.ExpectVersion != "" && k.t.Steps.Version(s.info.ID, s.content) != k.ExpectVersion {
		s.close()
		return nil, conflict("the source has changed")
	}
	return s, nil
}

// taken names a destination that appeared during the call by what it now is.
func taken(err error) error {
	var own *refused
	if errors.As(err, &own) && own.kind == spec.ErrConflict {
		return &refused{kind: spec.ErrExists, text: "the destination exists", err: own}
	}
	return err
}
