package spec

// ErrKind classifies a failure the way rules talk about it. The set is closed;
// kinds that are an errno are spelled as the errno.
type ErrKind string

// The kinds of failure.
const (
	ErrNone           ErrKind = ""
	ErrNotPermitted   ErrKind = "EPERM"
	ErrAccess         ErrKind = "EACCES"
	ErrReadOnly       ErrKind = "EROFS"
	ErrNotFound       ErrKind = "ENOENT"
	ErrExists         ErrKind = "EEXIST"
	ErrNotDir         ErrKind = "ENOTDIR"
	ErrIsDir          ErrKind = "EISDIR"
	ErrLoop           ErrKind = "ELOOP"
	ErrNoSpace        ErrKind = "ENOSPC"
	ErrQuota          ErrKind = "EDQUOT"
	ErrIO             ErrKind = "EIO"
	ErrCrossDevice    ErrKind = "EXDEV"
	ErrBusy           ErrKind = "EBUSY"
	ErrNameTooLong    ErrKind = "ENAMETOOLONG"
	ErrTooManyFiles   ErrKind = "EMFILE"
	ErrInterrupted    ErrKind = "EINTR"
	ErrFileTooBig     ErrKind = "EFBIG"
	ErrEscapes        ErrKind = "escapes-root"
	ErrReadOnlyTarget ErrKind = "read-only-target" // the file itself carries no write bit
	ErrConflict       ErrKind = "conflict"
	ErrInspect        ErrKind = "cannot-inspect" // the target's state could not be seen: not the same as absent
	ErrInvalid        ErrKind = "invalid-argument"
	ErrUnsupported    ErrKind = "unsupported" // this object or this file system cannot be served
	ErrPolicy         ErrKind = "write-policy"
	ErrShellDisabled  ErrKind = "bash-disabled"
	ErrHelperBlocked  ErrKind = "helper-blocked"
	ErrDeclined       ErrKind = "declined" // a handler said no; on the wire an outcome word of its own
	ErrOther          ErrKind = "other"    // reported, never asserted on
)

// Class is a protocol error class (docs/PROTOCOL.md). The set is closed.
type Class string

// ErrWord is one row of the table that joins the three vocabularies.
type ErrWord struct {
	Kind  ErrKind
	Class Class  // on the wire
	Tool  string // error code of the file tools
}

// ErrWords joins ErrKind, protocol class and tool error code. Several kinds may
// share a class; the first of them is what the class alone means.
var ErrWords = []ErrWord{
	{ErrAccess, "permission_denied", "access_denied"},
	{ErrNotPermitted, "permission_denied", "access_denied"},
	{ErrReadOnly, "read_only_fs", "read_only_filesystem"},
	{ErrNotFound, "not_found", "file_not_found"},
	{ErrNotDir, "not_a_directory", "not_a_directory"},
	{ErrIsDir, "is_a_directory", "not_a_file"},
	{ErrExists, "exists", "target_exists"},
	{ErrLoop, "symlink_refused", "link_refused"},
	{ErrEscapes, "outside_root", "outside_roots"},
	{ErrConflict, "conflict", "target_changed"},
	{ErrReadOnlyTarget, "read_only_target", "read_only_target"},
	{ErrNoSpace, "no_space", "no_space"},
	{ErrQuota, "no_space", "no_space"},
	{ErrIO, "io_error", "io_error"},
	{ErrBusy, "busy", "target_busy"},
	{ErrTooManyFiles, "busy", "target_busy"},
	{ErrInterrupted, "busy", "target_busy"},
	{ErrCrossDevice, "cross_device", "cross_device"},
	{ErrNameTooLong, "name_too_long", "name_too_long"},
	{ErrFileTooBig, "too_large", "file_too_large"},
	{ErrPolicy, "policy_denied", "policy_denied"},
	{ErrDeclined, "policy_denied", "policy_denied"},
	{ErrShellDisabled, "bash_disabled", "shell_disabled"},
	{ErrHelperBlocked, "helper_blocked", "tools_blocked"},
	{ErrInspect, "cannot_inspect", "cannot_inspect"},
	{ErrInvalid, "invalid_argument", "invalid_argument"},
	{ErrUnsupported, "unsupported", "unsupported"},
	{ErrOther, "internal", "internal"},
}

// ClassOf returns the protocol class of k, "internal" for a kind outside the set.
func ClassOf(k ErrKind) Class {
	for _, w := range ErrWords {
		if w.Kind == k {
			return w.Class
		}
	}
	return "internal"
}

// ToolCodeOf returns the file tools' error code for k.
func ToolCodeOf(k ErrKind) string {
	for _, w := range ErrWords {
		if w.Kind == k {
			return w.Tool
		}
	}
	return "internal"
}

// KindOf returns the kind meant by a class and, where several kinds share the
// class, by the errno beside it. It reports false for a class outside the set.
func KindOf(c Class, errno string) (ErrKind, bool) {
	first, known := ErrNone, false
	for _, w := range ErrWords {
		if w.Class != c {
			continue
		}
		if !known {
			first, known = w.Kind, true
		}
		if string(w.Kind) == errno {
			return w.Kind, true
		}
	}
	return first, known
}
