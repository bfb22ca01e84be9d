//go:build linux && (amd64 || arm64)

package supervisor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// use is one call of the subject on something in the sandbox.
type use struct {
	call   *call
	info   callInfo
	key    string
	names  []string // paths in the sandbox that it is about
	places []place  // what it does, as a plan sees it; the first one names the step
	result *int64   // what it is made to return
	draft  *draft   // what a record has to know of it
	rivals []string // keys of what could have come in its place
}

// place is one thing that a call does to the tree: the directory below the sandbox
// and the entry in it.
type place struct {
	op    vfs.OpKind
	class faults.Class
	dir   string
	name  string
}

func (p place) path() string { return path.Join(p.dir, p.name) }

// hosts reports whether a place is in the host's own state folder.
func (p place) hosts() bool {
	const state = spec.Workspace + "/" + spec.StateDir
	return p.path() == state || strings.HasPrefix(p.path(), state+"/")
}

// errBlind is wrapped when a call could not be understood.
var errBlind = errors.New("a call could not be seen")

// look finds out what a call is about. It returns nil for one outside the sandbox.
func (w *owner) look(t *thread, c *call, info callInfo) (*use, error) {
	u := &use{call: c, info: info}
	flags, err := w.flags(t.tid, c, &info)
	if err != nil {
		return nil, err
	}
	op, class := c.kind(flags)
	for _, a := range [][2]int{{c.args.dir2, c.args.path2}, {c.args.dir, c.args.path}} {
		if a[1] < 0 {
			continue
		}
		name, object, below, err := w.named(t.tid, &info, a[0], a[1])
		switch {
		case err != nil:
			return nil, err
		case below && object:
			u.names = append(u.names, name)
			u.places = append(u.places, w.handled(descriptor(t.tid, info.arg(a[0])), op, class, name))
		case below:
			u.names = append(u.names, name)
			u.places = append(u.places, placed(op, class, name))
		default:
			if err := w.touch(name, class); err != nil {
				return nil, err
			}
		}
		if op == vfs.OpRename {
			class = faults.Remove // of the source, which comes second
		}
	}
	if c.args.fd >= 0 {
		fd := descriptor(t.tid, info.arg(c.args.fd))
		name, below, err := w.opened(fd)
		if err != nil {
			return nil, err
		}
		if below {
			u.names = append(u.names, name)
			u.places = append(u.places, w.handled(fd, op, class, name))
		}
	}
	if len(u.places) == 0 || u.places[0].hosts() {
		return nil, nil
	}
	return u, nil
}

// touch reports something outside the sandbox, once.
func (w *owner) touch(name string, class faults.Class) error {
	t := faults.Touch{Path: name, Writes: class == faults.Create || class == faults.Modify || class == faults.Remove}
	if !path.IsAbs(name) || w.touched[t] || len(w.touched) > mostTouched {
		return nil
	}
	w.touched[t] = true
	return w.bench.tell(report{Touch: &t})
}

// mostTouched bounds what a subject that walks the whole host has to be remembered.
const mostTouched = 10000

// placed says what an operation on an entry is, in the words of the port: what is
// done to a whole directory has no entry.
func placed(op vfs.OpKind, class faults.Class, name string) place {
	if op == vfs.OpOpenDoom {
		return place{op, class, name, ""}
	}
	dir, entry := path.Split(name)
	return place{op, class, path.Clean(dir), entry}
}

// ofDirs says what an operation is called on a directory.
var ofDirs = map[vfs.OpKind]vfs.OpKind{
	vfs.OpSync: vfs.OpSyncDir, vfs.OpDatasync: vfs.OpSyncDir, vfs.OpStat: vfs.OpStatDir,
}

// handled is placed for what is done through a descriptor: it may be a directory's.
func (w *owner) handled(fd string, op vfs.OpKind, class faults.Class, name string) place {
	if op == vfs.OpLstat {
		op = vfs.OpStat
	}
	var st unix.Stat_t
	if err := unix.Stat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return placed(op, class, name)
	}
	if whole, ok := ofDirs[op]; ok {
		op = whole
	}
	return place{op, class, name, ""}
}

// flags returns what a call depends on.
func (w *owner) flags(tid int, c *call, info *callInfo) (uint64, error) {
	switch {
	case c.args.how >= 0:
		raw, err := readBytes(tid, info.arg(c.args.how), 8)
		if err != nil {
			return 0, unseen(err)
		}
		return binary.NativeEndian.Uint64(append(raw, make([]byte, 8-len(raw))...)), nil
	case c.args.flags >= 0:
		return info.arg(c.args.flags), nil
	}
	return 0, nil
}

// descriptor is where the kernel shows what a thread has open. Of the argument only
// 32 bits count.
func descriptor(tid int, arg uint64) string { return fmt.Sprintf("/proc/%d/fd/%d", tid, int32(arg)) }

// unseen passes over what the kernel will refuse as well: an address that is none.
func unseen(err error) error {
	if errors.Is(err, unix.EFAULT) {
		return nil
	}
	return blind(err)
}

// blind says why a call could not be understood.
func blind(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		return fmt.Errorf("%w: %w: the subject is not dumpable, as it has asked for or since its program may not be read", errBlind, err)
	}
	return fmt.Errorf("%w: %w", errBlind, err)
}

// named returns the path in the sandbox of the entry that a call names, as the
// kernel will find its directory now: by the object, whatever way led there. The
// call may mean the object that a descriptor stands for, by naming nothing in it.
func (w *owner) named(tid int, info *callInfo, dirArg, pathArg int) (rel string, object, below bool, err error) {
	text, err := readString(tid, info.arg(pathArg))
	if err != nil {
		return "", false, false, unseen(err)
	}
	start := fmt.Sprintf("/proc/%d/cwd", tid)
	if dirArg >= 0 && int32(info.arg(dirArg)) != unix.AT_FDCWD {
		start = descriptor(tid, info.arg(dirArg))
	}
	if text == "" {
		rel, below, err = w.opened(start)
		return rel, dirArg >= 0, below, err
	}
	dir, name := path.Split(text)
	switch {
	case name == "" || name == "." || name == "..":
		dir, name = text, "" // the directory itself
	case dir == "":
		dir = "."
	}
	full := dir
	if !path.IsAbs(dir) {
		full = start + "/" + dir
	} else if known := w.abroad[text]; known != "" && w.elsewhere(dir) {
		return known, false, false, nil
	}
	rel, below, err = w.where(full)
	if err != nil {
		rel, below, err = w.lexical(start, text)
		return rel, false, below, err
	}
	rel = path.Join(rel, name)
	if !below && path.IsAbs(dir) && len(w.abroad) < mostTouched {
		w.abroad[text] = rel
	}
	return rel, false, below, nil
}

// elsewhere reports whether the directory at p is of another file system than the tree.
// Most of what a program looks at is, and to know that much takes one call.
func (w *owner) elsewhere(p string) bool {
	var st unix.Stat_t
	return w.dev != 0 && unix.Stat(p, &st) == nil && st.Dev != w.dev
}

// where returns the path in the sandbox of the directory or file at p, links
// followed.
func (w *owner) where(p string) (rel string, below bool, err error) {
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", false, err
	}
	defer unix.Close(fd)
	return w.link("/proc/self/fd/" + strconv.Itoa(fd))
}

// link returns the path in the sandbox that one of the kernel's own links stands
// for.
func (w *owner) link(p string) (rel string, below bool, err error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlink(p, buf)
	if err != nil {
		return "", false, err
	}
	rel, below = w.below(string(buf[:n]))
	return rel, below, nil
}

// below makes of an absolute path one in the sandbox. What has no name any more
// keeps its last one.
func (w *owner) below(abs string) (string, bool) {
	abs = strings.TrimSuffix(abs, " (deleted)")
	if abs == w.Base {
		return ".", true
	}
	return strings.CutPrefix(abs, w.Base+"/")
}

// lexical is where a path would lead if there were no links: its directory is not
// there, or may not be searched, and the kernel will say so.
func (w *owner) lexical(start, text string) (rel string, below bool, err error) {
	abs := path.Clean(text)
	if !path.IsAbs(text) {
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlink(start, buf)
		switch {
		case errors.Is(err, unix.ENOENT):
			return "", false, nil // no such descriptor
		case err != nil:
			return "", false, blind(err)
		}
		abs = path.Join(string(buf[:n]), text)
	}
	rel, below = w.below(abs)
	return rel, below, nil
}

// opened returns the path in the sandbox of what a process has open as p.
func (w *owner) opened(p string) (rel string, below bool, err error) {
	rel, below, err = w.link(p)
	switch {
	case errors.Is(err, unix.ENOENT):
		return "", false, nil // no such descriptor
	case err != nil:
		return "", false, blind(err)
	}
	return rel, below, nil
}
