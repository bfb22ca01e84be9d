//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// recipes says how each call that can change the tree is recorded. Calls that have
// none cannot.
var recipes = everyRecipe()

func everyRecipe() map[string]recipe {
	all := map[string]recipe{}
	for _, row := range []struct {
		names []string
		recipe
	}{
		{[]string{"open", "creat", "openat", "openat2"}, recipe{before: opening, after: opened, failed: openFailed}},
		{[]string{"mkdir", "mkdirat", "mknod", "mknodat", "symlink", "symlinkat"}, recipe{before: named, after: made}},
		{[]string{"bind"}, recipe{before: bound, after: made}},
		{[]string{"link", "linkat"}, recipe{before: named, after: linked}},
		{[]string{"rename", "renameat", "renameat2"}, recipe{before: named, after: renamed}},
		{[]string{"unlink", "unlinkat", "rmdir"}, recipe{before: named, after: removed}},
		{[]string{"write", "pwrite64", "writev", "pwritev", "pwritev2"}, recipe{before: written, after: wrote, failed: spoiled}},
		{[]string{"sendfile", "copy_file_range", "splice"}, recipe{before: written, after: wrote, failed: spoiled}},
		{[]string{"truncate"}, recipe{before: named, after: resized, failed: spoiled}},
		{[]string{"ftruncate"}, recipe{before: handled, after: resized, failed: spoiled}},
		{[]string{"fallocate"}, recipe{before: handled, after: allocated, failed: spoiled}},
		{[]string{"ioctl"}, recipe{before: handled, after: controlled, failed: spoiled}},
		{[]string{"chmod", "fchmodat", "fchmodat2", "chown", "lchown", "fchownat"}, recipe{before: named, after: changed}},
		{[]string{"fchmod", "fchown"}, recipe{before: handled, after: changed}},
		{[]string{"utime", "utimes", "futimesat", "utimensat"}, recipe{before: named, after: touched}},
		{[]string{"setxattr", "lsetxattr", "setxattrat"}, recipe{before: named, after: attributed}},
		{[]string{"removexattr", "lremovexattr", "removexattrat"}, recipe{before: named, after: attributed}},
		{[]string{"fsetxattr", "fremovexattr"}, recipe{before: handled, after: attributed}},
		{[]string{"file_setattr"}, recipe{before: named, after: unknown("flags of a file were changed")}},
		{[]string{"fsync", "fdatasync", "sync_file_range"}, recipe{before: handled, after: flushed}},
		{[]string{"sync", "syncfs"}, recipe{before: always, after: flushedAll}},
		{[]string{"mmap"}, recipe{before: mapping4, after: mappedStore}},
		{[]string{"mprotect", "pkey_mprotect"}, recipe{before: remapped, after: mappedRange}},
		{[]string{"msync", "madvise", "process_madvise", "process_vm_writev"}, recipe{before: stored}},
		{[]string{"chroot", "pivot_root", "mount", "umount2", "move_mount", "setns"}, recipe{before: always, after: unknown("what names mean has changed")}},
		{[]string{"unshare"}, recipe{before: unshares, after: unknown("what names mean has changed")}},
		{[]string{"acct", "swapon"}, recipe{before: named, after: unknown("the kernel writes to a file by itself")}},
	} {
		for _, name := range row.names {
			all[name] = row.recipe
		}
	}
	return all
}

func always(*recorder, *draft) bool { return true }

// unknown is for what cannot be recorded.
func unknown(reason string) func(*recorder, *draft, int64) {
	return func(r *recorder, d *draft, _ int64) { r.gap(d, reason) }
}

// unshares is for a namespace of mounts.
func unshares(_ *recorder, d *draft) bool { return d.flags&(unix.CLONE_NEWNS|unix.CLONE_FS) != 0 }

// named finds what the paths of a call end in, links followed as the call does it.
func named(r *recorder, d *draft) bool {
	c := d.call
	if c.args.path >= 0 {
		r.find(d, c.args.dir, c.args.path, c.follows(d.flags))
	}
	if c.args.path2 >= 0 {
		r.find(d, c.args.dir2, c.args.path2, false)
	}
	if slices.ContainsFunc(d.ends, func(e end) bool { return r.strange(e.dir) || r.strange(e.obj) }) {
		d.odd = errors.Join(d.odd, errStrange)
	}
	return slices.ContainsFunc(d.ends, func(e end) bool { return r.knownFD(e.dir) != nil || r.knownFD(e.obj) != nil })
}

// handled finds what the descriptor of a call stands for.
func handled(r *recorder, d *draft) bool {
	fd, err := unix.Open(descriptor(d.tid, d.info.arg(d.call.args.fd)), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false // there is none
	}
	d.obj = fd
	st, err := statOf(fd)
	d.size, d.time = st.Size, st.Mtime
	if err != nil || r.known(st) != nil {
		return err == nil
	}
	if r.strange(fd) {
		d.odd = errStrange
	}
	return false
}

// subject returns the handle of the one thing that a call is about.
func (d *draft) subject() int {
	if d.obj < 0 && len(d.ends) > 0 {
		return d.ends[0].obj
	}
	return d.obj
}

// about returns what a call is about if it is known.
func (r *recorder) about(d *draft) (*object, int) {
	fd := d.subject()
	return r.knownFD(fd), fd
}

// opening is for an open that may make or cut something. One of a FIFO waits for the
// other end, and changes nothing.
func opening(r *recorder, d *draft) bool {
	if d.call.args.flags < 0 && d.call.args.how < 0 {
		d.flags = unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC
	}
	if d.flags&(unix.O_CREAT|unix.O_TRUNC) == 0 && d.flags&unix.O_TMPFILE != unix.O_TMPFILE {
		return false
	}
	r.find(d, d.call.args.dir, d.call.args.path, d.call.follows(d.flags))
	// What it opens is seen afterwards. openat2 can be asked to find it in other ways.
	sure := d.odd == nil && d.call.args.how < 0
	d.odd = nil
	for _, e := range d.ends {
		if sure && r.knownFD(e.dir) == nil && r.knownFD(e.obj) == nil {
			return false
		}
		if st, err := statOf(e.obj); e.obj >= 0 && err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return false
		}
		if r.strange(e.obj) {
			d.odd = errStrange
		}
	}
	return true
}

// opened sees by the object whether it was made: all that is in a known directory is
// known.
func opened(r *recorder, d *draft, result int64) {
	fd, err := unix.Open(descriptor(d.tid, uint64(result)), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		r.gap(d, "what it opened is gone: "+err.Error())
		return
	}
	d.obj = fd
	st, err := statOf(fd)
	o := r.known(st)
	switch {
	case err != nil:
		r.gap(d, err.Error())
	case d.flags&unix.O_TMPFILE == unix.O_TMPFILE: // nothing is known of it, whose number it may have
		if where := r.path(fd); where != "" {
			r.adopt(d, fd, outside, where)
		}
	case o != nil && d.flags&unix.O_TRUNC != 0 && st.Mode&unix.S_IFMT == unix.S_IFREG:
		r.add(d, faults.Mutation{Do: faults.ChangeResize, Object: o.id, Path: r.path(fd)})
		r.refresh(d, o, fd)
	case o != nil:
	case d.flags&unix.O_CREAT != 0:
		r.opens(d, fd)
	}
}

// opens records a file that an open has made, under the name that it was found by or
// that the kernel tells.
func (r *recorder) opens(d *draft, fd int) {
	holds := func() bool {
		if len(d.ends) == 0 || d.ends[len(d.ends)-1].dir < 0 {
			return false
		}
		e := &d.ends[len(d.ends)-1]
		if err := e.again(); err != nil {
			e.obj = -1
			return false
		}
		a, err := statOf(fd)
		b, err2 := statOf(e.obj)
		return err == nil && err2 == nil && idOf(a) == idOf(b)
	}
	if !holds() {
		where := r.path(fd)
		if where == "" {
			return // it is not in the tree
		}
		if err := r.walk(d, selfFD(fd), path.Join(r.base, string(where)), false, mostLinks); err != nil || !holds() {
			r.gap(d, "something new is not where it was made")
			return
		}
	}
	e := d.ends[len(d.ends)-1]
	if at := r.entry(e); at != outside {
		r.adopt(d, fd, at, e.path)
	}
}

// openFailed sees a file that an open has made before it failed.
func openFailed(r *recorder, d *draft, _ int64) {
	if len(d.ends) == 0 || d.ends[0].dir < 0 || d.ends[0].obj >= 0 || r.knownFD(d.ends[0].dir) == nil {
		return
	}
	if d.ends[0].again() == nil && r.knownFD(d.ends[0].obj) == nil {
		r.adopt(d, d.ends[0].obj, r.entry(d.ends[0]), d.ends[0].path)
	}
}

// bound is for a socket that gets a name.
func bound(r *recorder, d *draft) bool {
	raw, err := readBytes(d.tid, d.info.arg(1), int(min(d.info.arg(2), unix.SizeofSockaddrUnix)))
	if err != nil || len(raw) < 3 || binary.NativeEndian.Uint16(raw) != unix.AF_UNIX || raw[2] == 0 {
		return false
	}
	name, _, _ := bytes.Cut(raw[2:], []byte{0})
	if err := r.walk(d, fmt.Sprintf("/proc/%d/cwd", d.tid), string(name), false, mostLinks); err != nil {
		d.odd = err
	}
	return len(d.ends) == 1 && r.knownFD(d.ends[0].dir) != nil
}

func made(r *recorder, d *draft, _ int64) {
	e := &d.ends[0]
	if e.dir < 0 {
		r.gap(d, "something new has no name")
		return
	}
	if err := e.again(); err != nil {
		e.obj = -1
		r.gap(d, "something new is gone: "+err.Error())
		return
	}
	if at := r.entry(*e); at != outside {
		r.adopt(d, e.obj, at, e.path)
	}
}

// linked is the only way for what has no name to get one.
func linked(r *recorder, d *draft, _ int64) {
	from, to := d.ends[0], d.ends[1]
	at := r.entry(to)
	o := from.was
	if o == nil {
		if o = r.adopt(d, from.obj, outside, to.path); o == nil {
			return
		}
		r.elsewhere(d, o, from.obj, 1)
	}
	o.nameless = false
	r.add(d, faults.Mutation{Do: faults.ChangeLink, Object: o.id, At: at, Path: to.path})
}

func renamed(r *recorder, d *draft, _ int64) {
	from, to := d.ends[0], d.ends[1]
	if from.dir < 0 || to.dir < 0 || from.obj < 0 {
		r.gap(d, "what was moved was not there before")
		return
	}
	a, b := r.entry(from), r.entry(to)
	if d.flags&unix.RENAME_EXCHANGE != 0 {
		r.exchanged(d, a, b)
		return
	}
	one, err := statOf(from.obj)
	two, err2 := statOf(max(to.obj, 0))
	if to.obj >= 0 && err == nil && err2 == nil && idOf(one) == idOf(two) {
		return // two names of one file: the kernel does nothing
	}
	if victim := r.knownFD(to.obj); victim != nil && b == outside && two.Mode&unix.S_IFMT != unix.S_IFDIR {
		r.add(d, faults.Mutation{Do: faults.ChangeUnlink, Object: victim.id, Path: to.path})
	}
	if a != b { // not both outside
		r.moves(d, from.obj, a, b, to.path)
	}
	r.gone(to.obj)
	if d.flags&unix.RENAME_WHITEOUT != 0 && a != outside && d.ends[0].again() == nil {
		r.adopt(d, d.ends[0].obj, a, from.path)
	}
}

// outside is the name of all that is not in the tree.
var outside faults.Entry

// moves records that an object has another name in the place of one, and is adopted
// if it came from outside.
func (r *recorder) moves(d *draft, fd int, a, b faults.Entry, where faults.Raw) {
	o := r.knownFD(fd)
	if o == nil {
		if o = r.adopt(d, fd, outside, where); o == nil {
			return
		}
		r.elsewhere(d, o, fd, 0) // the name that it came by is one
	}
	r.add(d, faults.Mutation{Do: faults.ChangeRename, Object: o.id, At: a, To: b, Path: where})
}

func (r *recorder) exchanged(d *draft, a, b faults.Entry) {
	from, to := d.ends[0], d.ends[1]
	switch {
	case a == b:
	case a == outside:
		r.moves(d, to.obj, b, outside, from.path)
		r.moves(d, from.obj, outside, b, to.path)
	case b == outside:
		r.moves(d, from.obj, a, outside, to.path)
		r.moves(d, to.obj, outside, a, from.path)
	default:
		m := faults.Mutation{Do: faults.ChangeExchange, At: a, To: b, Path: to.path}
		if o := r.knownFD(from.obj); o != nil {
			m.Object = o.id
		}
		r.add(d, m)
	}
}

func removed(r *recorder, d *draft, _ int64) {
	e := d.ends[0]
	o := r.knownFD(e.obj)
	if o == nil {
		if at := r.entry(e); at != outside {
			r.gap(d, "what was removed was not there before")
		}
		return
	}
	r.add(d, faults.Mutation{Do: faults.ChangeUnlink, Object: o.id, At: r.entry(e), Path: e.path})
	r.gone(e.obj)
}

// gone forgets an object that has lost its last name: it cannot get another, and its
// number may be given to something else.
func (r *recorder) gone(fd int) {
	o := r.knownFD(fd)
	if o == nil {
		return
	}
	st, err := statOf(fd)
	if err == nil && (st.Nlink == 0 || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		delete(r.objects, o.id)
		delete(r.mapped, o.id)
	}
}

// refresh records what a call has changed of mode and owner, whatever it was for: a
// write and a change of owner take rights away.
func (r *recorder) refresh(d *draft, o *object, fd int) {
	st, err := statOf(fd)
	if err != nil {
		r.gap(d, err.Error())
		return
	}
	where := r.path(fd)
	if st.Uid != o.uid || st.Gid != o.gid {
		r.add(d, faults.Mutation{Do: faults.ChangeOwner, Object: o.id, UID: st.Uid, GID: st.Gid, Path: where})
	}
	if st.Mode != o.mode {
		r.add(d, faults.Mutation{Do: faults.ChangeMode, Object: o.id, Mode: spec.Mode(st.Mode & 0o7777), Path: where})
	}
	o.mode, o.uid, o.gid = st.Mode, st.Uid, st.Gid
}

// spoiled sees what a call has changed before it failed: rights may be taken away,
// and the time is another, before the kernel looks at what is to be done.
func spoiled(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	r.refresh(d, o, fd)
	if st, err := statOf(fd); err == nil && d.obj >= 0 && st.Mtime != d.time {
		r.add(d, faults.Mutation{Do: faults.ChangeReserve, Object: o.id, Path: r.path(fd)})
	}
}

func changed(r *recorder, d *draft, _ int64) {
	if o, fd := r.about(d); o != nil {
		r.refresh(d, o, fd)
	}
}

func touched(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	st, err := statOf(fd)
	if err != nil {
		r.gap(d, err.Error())
		return
	}
	r.add(d, faults.Mutation{
		Do: faults.ChangeTimes, Object: o.id, Mtime: st.Mtime.Sec*1e9 + int64(st.Mtime.Nsec), Path: r.path(fd),
	})
}

func flushed(r *recorder, d *draft, _ int64) {
	o, fd := r.about(d)
	if o == nil {
		return
	}
	m := faults.Mutation{Do: faults.ChangeSync, Object: o.id, Path: r.path(fd)}
	switch d.call.name {
	case "fdatasync":
		m.Scope = faults.ScopeData
	case "sync_file_range":
		m.Do, m.Off, m.Size = faults.ChangeSyncPart, int64(d.info.arg(1)), int64(d.info.arg(2))
	}
	r.add(d, m)
}

func flushedAll(r *recorder, d *draft, _ int64) { r.add(d, faults.Mutation{Do: faults.ChangeSyncAll}) }
