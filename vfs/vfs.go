// Package vfs is the port through which every tool reaches a file system.
//
// It is handle-relative: a Dir stands for an open directory and its methods
// take single names. Whole paths are walked by code above the port, one
// component at a time, so that a fault or an adversary can stand between any
// two steps of a walk. A port that took whole paths would hide exactly the
// races we look for. It knows nothing of rules, faults or traces.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrUnsupported is wrapped by operations that a backend does not have. Callers
// ask Caps first; the error is the backstop, and is never read as "absent".
var ErrUnsupported = errors.New("not supported by this file system")

// FS opens roots.
type FS interface {
	// OpenRoot opens the absolute directory dir. Links in dir are followed: the
	// host chose it, the agent did not.
	OpenRoot(dir string) (Dir, error)

	// Caps is constant over the life of the FS. A wrapper returns what the FS
	// that it wraps returns.
	Caps() Caps

	// SyncFS makes everything written so far to the file system that holds d
	// durable. It needs CapSyncFS.
	SyncFS(d Dir) error
}

// Dir is an open directory.
//
// A name is one non-empty component: no separator, no NUL, not "." and not
// "..". Other names fail with an error matching fs.ErrInvalid. No method
// follows a link in the name that it is given. Failures are *fs.PathError or
// *os.LinkError and match a syscall.Errno with errors.Is.
type Dir interface {
	io.Closer

	OpenDir(name string) (Dir, error)

	// OpenFile opens or creates a file. A name that is a directory or a link
	// fails (EISDIR, ELOOP) whatever the flags; perm is filtered by the umask.
	OpenFile(name string, flag Flag, perm fs.FileMode) (File, error)

	Mkdir(name string, perm fs.FileMode) error
	Lstat(name string) (Info, error)
	Stat() (Info, error) // of the directory itself

	// ReadDir returns at most n names in the order that the file system gives,
	// and whether there were more; n <= 0 means all.
	ReadDir(n int) (names []string, more bool, err error)

	Readlink(name string) (string, error)
	Symlink(target, name string) error
	Link(name string, to Dir, toName string) error
	Rename(name string, to Dir, toName string, flag RenameFlag) error

	// Publish gives an open file opened with Doomed the name, atomically; a name
	// that exists fails with EEXIST. It needs CapPublish: O_TMPFILE and linkat
	// on Linux, a hard link by handle on Windows.
	Publish(f File, name string) error

	Remove(name string) error // unlink; never a directory
	Rmdir(name string) error
	Sync() error // the entries of this directory become durable
}

// File is an open file.
//
// Write makes one attempt. A kernel that takes fewer bytes than it was given
// ends it with the count and io.ErrShortWrite, and the caller decides.
type File interface {
	io.ReadWriteSeeker
	io.Closer

	Stat() (Info, error)
	Truncate(size int64) error // bytes
	Chmod(perm fs.FileMode) error
	Chown(uid, gid int) error // -1 leaves one as it is

	Sync() error     // content, size and metadata become durable; the entry does not
	Datasync() error // content and size only

	// SyncRange starts or waits for write-out of a range of bytes without a
	// barrier: it makes nothing durable. It needs CapSyncRange.
	SyncRange(off, n int64) error

	// Xattr fails with ENODATA for a name that is not there. The three need
	// CapXattr.
	Xattr(name string) ([]byte, error)
	SetXattr(name string, value []byte) error
	Xattrs() ([]string, error) // sorted
}

// Info describes an entry.
type Info struct {
	Mode     fs.FileMode
	Size     int64 // bytes
	ID       ID    // equal IDs mean the same object, as long as somebody holds it open
	UID, GID uint32
	Nlink    uint64
	Mtime    time.Time
	Btime    time.Time // birth; zero where the file system does not say
	MountID  uint64    // zero where the kernel does not say
}

// ID identifies an object within a backend, as (dev, ino) does.
type ID struct{ Dev, Ino uint64 }

// Flag says how OpenFile opens.
type Flag uint16

// The ways to open. Exactly one of the first three is given; ReadOnly is zero.
const (
	ReadOnly  Flag = 0
	WriteOnly Flag = 1 << iota
	ReadWrite
	Create
	Exclusive // with Create: fail if the name exists, even as a dangling link
	Truncate
	Append
	NonBlock // do not wait for the other end of a FIFO

	// Probe asks the kernel whether it would let the caller write to an existing
	// file, and changes nothing. It implies WriteOnly and NonBlock.
	Probe

	// Doomed makes a file without a name: it vanishes when closed unless it was
	// published. The name that OpenFile is given is ignored. It needs CapPublish.
	Doomed
)

// Writes reports whether f opens for writing.
func (f Flag) Writes() bool { return f&(WriteOnly|ReadWrite|Probe|Doomed) != 0 }

// RenameFlag modifies Rename.
type RenameFlag uint8

// The ways to rename.
const (
	Replace   RenameFlag = iota
	NoReplace            // EEXIST if the new name exists; needs CapNoReplace
	Exchange             // the two names trade places; needs CapExchange
)

// OpKind names a port operation. Fault plans and traces use these names.
type OpKind string

// The operations.
const (
	OpOpenRoot  OpKind = "open-root"
	OpOpenDir   OpKind = "open-dir"
	OpOpenFile  OpKind = "open-file"
	OpProbe     OpKind = "probe"       // OpenFile with Probe
	OpOpenDoom  OpKind = "open-doomed" // OpenFile with Doomed
	OpMkdir     OpKind = "mkdir"
	OpLstat     OpKind = "lstat"
	OpStatDir   OpKind = "stat-dir"
	OpReadDir   OpKind = "read-dir"
	OpReadlink  OpKind = "readlink"
	OpSymlink   OpKind = "symlink"
	OpLink      OpKind = "link"
	OpRename    OpKind = "rename"
	OpPublish   OpKind = "publish"
	OpRemove    OpKind = "remove"
	OpRmdir     OpKind = "rmdir"
	OpSyncDir   OpKind = "sync-dir"
	OpSyncFS    OpKind = "sync-fs"
	OpRead      OpKind = "read"
	OpWrite     OpKind = "write"
	OpSeek      OpKind = "seek"
	OpStat      OpKind = "stat"
	OpTruncate  OpKind = "truncate"
	OpChmod     OpKind = "chmod"
	OpChown     OpKind = "chown"
	OpSync      OpKind = "sync"
	OpDatasync  OpKind = "datasync"
	OpSyncRange OpKind = "sync-range"
	OpXattr     OpKind = "xattr"
	OpSetXattr  OpKind = "set-xattr"
	OpXattrs    OpKind = "xattrs"
	OpClose     OpKind = "close"
)

// Ops lists every OpKind, for tables that must be total.
var Ops = []OpKind{
	OpOpenRoot, OpOpenDir, OpOpenFile, OpProbe, OpOpenDoom, OpMkdir, OpLstat, OpStatDir, OpReadDir,
	OpReadlink, OpSymlink, OpLink, OpRename, OpPublish, OpRemove, OpRmdir, OpSyncDir, OpSyncFS, OpRead,
	OpWrite, OpSeek, OpStat, OpTruncate, OpChmod, OpChown, OpSync, OpDatasync, OpSyncRange, OpXattr,
	OpSetXattr, OpXattrs, OpClose,
}

// CheckName returns fs.ErrInvalid for a string that is not one component.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." {
		return fs.ErrInvalid
	}
	for i := range len(name) {
		if name[i] == '/' || name[i] == 0 {
			return fs.ErrInvalid
		}
	}
	return nil
}
