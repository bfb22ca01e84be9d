package tools

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// refused is a refusal of our own, in the place of what the kernel said or would
// not have said.
type refused struct {
	kind spec.ErrKind
	text string
	err  error // what the kernel said, if it was asked
}

func (r *refused) Error() string {
	if r.err == nil {
		return r.text
	}
	return r.text + ": " + r.err.Error()
}

func (r *refused) Unwrap() error { return r.err }

// unknown marks an error after which the tree may be as asked or as it was.
type unknown struct{ err error }

func (u *unknown) Error() string { return "the outcome is unknown: " + u.err.Error() }
func (u *unknown) Unwrap() error { return u.err }

func missing(name string) error {
	return &fs.PathError{Op: "openat", Path: name, Err: syscall.ENOENT}
}

var errnos = []struct {
	errno syscall.Errno
	kind  spec.ErrKind
}{
	{syscall.EPERM, spec.ErrNotPermitted},
	{syscall.EACCES, spec.ErrAccess},
	{syscall.EROFS, spec.ErrReadOnly},
	{syscall.ENOENT, spec.ErrNotFound},
	{syscall.EEXIST, spec.ErrExists},
	{syscall.ENOTDIR, spec.ErrNotDir},
	{syscall.EISDIR, spec.ErrIsDir},
	{syscall.ELOOP, spec.ErrLoop},
	{syscall.ENOSPC, spec.ErrNoSpace},
	{syscall.EDQUOT, spec.ErrQuota},
	{syscall.EIO, spec.ErrIO},
	{syscall.EXDEV, spec.ErrCrossDevice},
	{syscall.EBUSY, spec.ErrBusy},
	{syscall.ENAMETOOLONG, spec.ErrNameTooLong},
	{syscall.EMFILE, spec.ErrTooManyFiles},
	{syscall.EINTR, spec.ErrInterrupted},
	{syscall.EFBIG, spec.ErrFileTooBig},
	{syscall.ENXIO, spec.ErrUnsupported}, // a FIFO that nobody reads
}

// kindOf classifies an error: our own refusals first, then the first errno in it,
// which is that of the step which failed: what was met while cleaning up after it
// comes later.
func kindOf(err error) spec.ErrKind {
	var own *refused
	switch {
	case err == nil:
		return spec.ErrNone
	case errors.As(err, &own):
		return own.kind
	case errors.Is(err, vfs.ErrEscapes):
		return spec.ErrEscapes
	case errors.Is(err, publish.ErrCannotKeep), errors.Is(err, vfs.ErrUnsupported):
		return spec.ErrUnsupported
	case errors.Is(err, fs.ErrInvalid):
		return spec.ErrInvalid
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		for _, e := range errnos {
			if e.errno == errno {
				return e.kind
			}
		}
	}
	return spec.ErrOther
}

// errnoOf returns the kernel's word under err, for the answer.
func errnoOf(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return ""
	}
	for _, e := range errnos {
		if e.errno == errno && e.kind != spec.ErrUnsupported {
			return string(e.kind)
		}
	}
	return ""
}

// failed is the answer to a call that err ended.
func (k *call) failed(err error) spec.Outcome {
	var u *unknown
	var p *publish.Error
	if errors.As(err, &u) || errors.As(err, &p) && p.Unknown {
		return spec.Outcome{Status: spec.StatusUnknown, Detail: err.Error()}
	}
	return spec.Outcome{Status: spec.StatusFailed, Err: kindOf(err), Errno: errnoOf(err), Detail: err.Error()}
}

// denied reports whether handlers may be asked after k. It is the whole list:
// EBUSY, EXDEV, ENOSPC and the like are not permissions (FB-001).
func denied(k spec.ErrKind) bool {
	return k == spec.ErrNotPermitted || k == spec.ErrAccess || k == spec.ErrReadOnly
}

// deniedStep reports whether err is a denial of a step that handlers can stand in
// for: a probe, the creation of a file, its publication. A permission errno of
// fchmod or fsync is not one.
func (k *call) deniedStep(err error) bool {
	var p *publish.Error
	if errors.As(err, &p) && (p.Unknown || p.Step != publish.StepStage && p.Step != publish.StepPublish) {
		return false
	}
	return k.t.Steps.Denied(kindOf(err))
}
