package tools

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

func TestKindOf(t *testing.T) {
	path := func(err error) error { return &fs.PathError{Op: "openat", Path: "f", Err: err} }
	for _, tt := range []struct {
		name  string
		err   error
		kind  spec.ErrKind
		errno string
	}{
		{"nothing", nil, spec.ErrNone, ""},
		{"EPERM", path(syscall.EPERM), spec.ErrNotPermitted, "EPERM"},
		{"EACCES", path(syscall.EACCES), spec.ErrAccess, "EACCES"},
		{"EROFS", path(syscall.EROFS), spec.ErrReadOnly, "EROFS"},
		{"ENOENT", path(syscall.ENOENT), spec.ErrNotFound, "ENOENT"},
		{"EEXIST", path(syscall.EEXIST), spec.ErrExists, "EEXIST"},
		{"ENOTDIR", path(syscall.ENOTDIR), spec.ErrNotDir, "ENOTDIR"},
		{"EISDIR", path(syscall.EISDIR), spec.ErrIsDir, "EISDIR"},
		{"ELOOP", path(syscall.ELOOP), spec.ErrLoop, "ELOOP"},
		{"ENOSPC", path(syscall.ENOSPC), spec.ErrNoSpace, "ENOSPC"},
		{"EDQUOT", path(syscall.EDQUOT), spec.ErrQuota, "EDQUOT"},
		{"EIO", path(syscall.EIO), spec.ErrIO, "EIO"},
		{"EXDEV", path(syscall.EXDEV), spec.ErrCrossDevice, "EXDEV"},
		{"EBUSY", path(syscall.EBUSY), spec.ErrBusy, "EBUSY"},
		{"ENAMETOOLONG", path(syscall.ENAMETOOLONG), spec.ErrNameTooLong, "ENAMETOOLONG"},
		{"EMFILE", path(syscall.EMFILE), spec.ErrTooManyFiles, "EMFILE"},
		{"EINTR", path(syscall.EINTR), spec.ErrInterrupted, "EINTR"},
		{"EFBIG", path(syscall.EFBIG), spec.ErrFileTooBig, "EFBIG"},
		{"a FIFO that nobody reads", path(syscall.ENXIO), spec.ErrUnsupported, ""},
		{"two names", &os.LinkError{Op: "renameat", Old: "a", New: "b", Err: syscall.EXDEV}, spec.ErrCrossDevice, "EXDEV"},
		{"no word for it", path(syscall.ENOMEM), spec.ErrOther, ""},
		{"no errno", io.ErrUnexpectedEOF, spec.ErrOther, ""},
		{"a bad name", path(fs.ErrInvalid), spec.ErrInvalid, ""},
		{"a closed handle", path(fs.ErrClosed), spec.ErrOther, ""},
		{"out of the root", &vfs.WalkError{Path: "..", Err: vfs.ErrEscapes}, spec.ErrEscapes, ""},
		{"not offered by the file system", path(fmt.Errorf("%w (%w)", vfs.ErrUnsupported, syscall.ENOTSUP)), spec.ErrUnsupported, ""},
		{"an owner that cannot be kept", fmt.Errorf("%w: %w", publish.ErrCannotKeep, path(syscall.EPERM)), spec.ErrUnsupported, "EPERM"},
		{"our own word", conflict("changed"), spec.ErrConflict, ""},
		{"our own word, about the kernel's", &refused{kind: spec.ErrReadOnlyTarget, err: path(syscall.EACCES)}, spec.ErrReadOnlyTarget, "EACCES"},
		{"our own word, out of a publication", &publish.Error{Step: publish.StepCheck, Err: conflict("changed")}, spec.ErrConflict, ""},
		{"the first of two", errors.Join(path(syscall.ENOSPC), path(syscall.EIO)), spec.ErrNoSpace, "ENOSPC"},
		{"a missing parent and its denial", fmt.Errorf("%w: making it: %w", missing("d"), path(syscall.EACCES)), spec.ErrNotFound, "ENOENT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := kindOf(tt.err); got != tt.kind {
				t.Errorf("kindOf(%v) = %q, want %q", tt.err, got, tt.kind)
			}
			if got := errnoOf(tt.err); got != tt.errno {
				t.Errorf("errnoOf(%v) = %q, want %q", tt.err, got, tt.errno)
			}
		})
	}
}

func TestDeniedStep(t *testing.T) {
	eacces := &fs.PathError{Op: "openat", Path: "f", Err: syscall.EACCES}
	k := &call{t: &Tools{Steps: Default()}}
	for _, tt := range []struct {
		name string
		err  error
		want bool
	}{
		{"the probe", eacces, true},
		{"the creation", &publish.Error{Step: publish.StepStage, Err: eacces}, true},
		{"the publication", &publish.Error{Step: publish.StepPublish, Err: eacces}, true},
		{"a publication that may have happened", &publish.Error{Step: publish.StepPublish, Err: eacces, Unknown: true}, false},
		{"the bytes", &publish.Error{Step: publish.StepWrite, Err: eacces}, false},
		{"the mode", &publish.Error{Step: publish.StepMetadata, Err: eacces}, false},
		{"a barrier", &publish.Error{Step: publish.StepSync, Err: eacces}, false},
		{"the last look", &publish.Error{Step: publish.StepCheck, Err: eacces}, false},
		{"a barrier afterwards", &publish.Error{Step: publish.StepSyncDir, Err: eacces, Unknown: true}, false},
		{"no permission errno", &publish.Error{Step: publish.StepPublish, Err: syscall.EBUSY}, false},
		{"our own refusal", &refused{kind: spec.ErrReadOnlyTarget, err: eacces}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := k.deniedStep(tt.err); got != tt.want {
				t.Errorf("deniedStep(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

// TestDeniedKinds: three kinds of failure are denials, of all that there are.
func TestDeniedKinds(t *testing.T) {
	var got []spec.ErrKind
	for _, w := range spec.ErrWords {
		if Default().Denied(w.Kind) {
			got = append(got, w.Kind)
		}
	}
	if want := fmt.Sprint([]spec.ErrKind{spec.ErrAccess, spec.ErrNotPermitted, spec.ErrReadOnly}); fmt.Sprint(got) != want {
		t.Errorf("denials are %v, want %v", got, want)
	}
}

// TestBelow: only what lies below the root, by whole components, is cut.
func TestBelow(t *testing.T) {
	for _, tt := range []struct {
		root, spelled, want string
	}{
		{"/ws", "f", "f"},
		{"/ws", "/ws/f", "f"},
		{"/ws", "/ws//f", "f"},
		{"/ws", "/ws", ""},
		{"/ws", "/ws/", ""},
		{"/ws", "/ws/../f", "../f"},
		{"/ws", "/wsx/f", "/wsx/f"},
		{"/ws", "/w", "/w"},
		{"/ws/", "/ws/f", "f"},
		{"/", "/f", "f"},
		{"", "/f", "/f"},
	} {
		if got := (&Tools{RootPath: tt.root}).below(tt.spelled); got != tt.want {
			t.Errorf("below %s, %q is %q, want %q", tt.root, tt.spelled, got, tt.want)
		}
	}
}
