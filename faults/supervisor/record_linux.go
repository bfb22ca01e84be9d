//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// What a subject does to the tree is recorded by the identity of what it is done to.
// All of the tree is known by identity from the start; what is made in a known
// directory, or moved there, becomes known. A path is used only to find out what a
// call means, as the kernel does, and at once.

// recorder knows what is in the tree.
type recorder struct {
	base    string
	objects map[vfs.ID]*object
	flight  map[int]*draft // calls that are being made, by thread
	aside   int            // calls outside of the sandbox that concern what is in it
	mapped  map[vfs.ID]*mapping
	bytes   int // recorded so far
	out     note
}

// object is what is known of one inode.
type object struct {
	id       vfs.ID
	birth    unix.StatxTimestamp // an inode's number is given to another when it is gone
	mode     uint16
	uid, gid uint32
	nameless bool // it never had a name
}

// newRecorder looks at all of the tree, so that what is opened before anything is
// recorded, or has several names, is known as what it is.
func newRecorder(base string) (*recorder, error) {
	r := &recorder{base: base, objects: map[vfs.ID]*object{}, flight: map[int]*draft{}, mapped: map[vfs.ID]*mapping{}}
	r.out.UID = uint32(os.Getuid())
	fd, err := unix.Open(base, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the tree: %w", err)
	}
	defer unix.Close(fd)
	if err := r.survey(fd, "."); err != nil {
		return nil, fmt.Errorf("look at the tree: %w", err)
	}
	return r, nil
}

// resume takes over what is still the case of an earlier record.
func (r *recorder) resume(old *recorder) {
	r.flight = old.flight
	for id, m := range old.mapped {
		if o := r.knownFD(m.fd); o != nil {
			r.watch(&draft{call: &call{name: "mmap"}, obj: m.fd}, o, m.fd)
		}
		_ = unix.Close(m.fd)
		delete(old.mapped, id)
	}
}

func (r *recorder) survey(fd int, at string) error {
	st, err := statOf(fd)
	if err != nil {
		return err
	}
	o := r.learn(st)
	r.out.Start = append(r.out.Start, faults.Held{Path: faults.Raw(at), ID: o.id})
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	err = eachEntry(fd, func(below int, name string) error { return r.survey(below, path.Join(at, name)) })
	if err != nil {
		r.out.Gaps = append(r.out.Gaps, faults.Gap{Path: faults.Raw(at), Reason: "it could not be looked at: " + err.Error()})
	}
	return nil
}

// eachEntry calls fn with a handle of each entry of a directory, in the order of the
// names.
func eachEntry(dir int, fn func(fd int, name string) error) error {
	f, err := os.Open(selfFD(dir))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "openat", Path: name, Err: err}
		}
		err = fn(fd, name)
		_ = unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// selfFD is the name of a descriptor of this process's own.
func selfFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

func statOf(fd int) (unix.Statx_t, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	return st, err
}

func idOf(st unix.Statx_t) vfs.ID {
	return vfs.ID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
}

// learn makes an object known.
func (r *recorder) learn(st unix.Statx_t) *object {
	o := &object{id: idOf(st), birth: st.Btime, mode: st.Mode, uid: st.Uid, gid: st.Gid}
	r.objects[o.id] = o
	return o
}

// known returns the object, or nil for one that is not of the tree.
func (r *recorder) known(st unix.Statx_t) *object {
	o := r.objects[idOf(st)]
	// The time of birth is too coarse for what was closed at once, without a name.
	if o == nil || o.birth != st.Btime || o.nameless && st.Nlink > 0 {
		return nil
	}
	return o
}

// knownFD is known for what fd stands for; -1 is nothing.
func (r *recorder) knownFD(fd int) *object {
	if fd < 0 {
		return nil
	}
	st, err := statOf(fd)
	if err != nil {
		return nil
	}
	return r.known(st)
}

// strange reports whether fd is of something in the tree that is not known: it lies
// where the tree could not be looked at.
func (r *recorder) strange(fd int) bool {
	if fd < 0 || r.path(fd) == "" {
		return false
	}
	st, err := statOf(fd)
	return err == nil && st.Nlink > 0 && r.known(st) == nil
}

var errStrange = errors.New("it is about something in the tree that was not seen before")

// draft is a call that is being made: what there is to be known before it.
type draft struct {
	key    string
	call   *call
	recipe recipe
	info   callInfo
	tid    int
	flags  uint64

	ends []end  // what its paths name, in the order of the arguments
	obj  int    // handle of what its descriptor stands for, -1 without
	size uint64 // of that
	time unix.StatxTimestamp
	pos  int64
	open uint64 // flags that the descriptor was opened with
	text string
	ids  []vfs.ID // of what is mapped
	odd  error    // what kept the call from being understood
}

func (d *draft) close() {
	for _, e := range d.ends {
		e.close()
	}
	if d.obj >= 0 {
		_ = unix.Close(d.obj)
	}
}

// recipe is how a call is recorded.
type recipe struct {
	// before gathers what the call will have changed, and reports whether it is about
	// anything known.
	before func(*recorder, *draft) bool
	after  func(*recorder, *draft, int64) // for a call that did not fail
	failed func(*recorder, *draft, int64) // where a failure can leave something
}

// begin looks at a call that is about to be made. It returns nil if that cannot
// change anything in the tree.
func (r *recorder) begin(tid int, c *call, info callInfo, flags uint64, key string) *draft {
	rec, ok := recipes[c.name]
	if !ok {
		return nil
	}
	r.poll(key) // what was stored up to now came before the call
	d := &draft{key: key, call: c, recipe: rec, info: info, tid: tid, flags: flags, obj: -1}
	if !rec.before(r, d) && d.odd == nil {
		d.close()
		return nil
	}
	if d.key == "" {
		r.aside++
		d.key = fmt.Sprintf("aside %s %d", c.name, r.aside)
	}
	for _, other := range r.flight {
		if other.recipe.after != nil && rec.after != nil {
			r.gap(d, fmt.Sprintf("it was made together with %s: which came first is not known", other.call.name))
		}
	}
	r.flight[tid] = d
	return d
}

// end takes in how a call went.
func (r *recorder) end(d *draft, result int64) {
	if d == nil {
		return
	}
	delete(r.flight, d.tid)
	defer d.close()
	done := len(r.out.Mutations)
	switch fails := result < 0; {
	case d.odd != nil && !fails:
		r.gap(d, d.odd.Error())
	case d.odd != nil:
	case !fails && d.recipe.after != nil:
		d.recipe.after(r, d, result)
	case fails && d.recipe.failed != nil:
		d.recipe.failed(r, d, result)
	}
	for i := done; i < len(r.out.Mutations); i++ {
		r.out.Mutations[i].Result = result
		r.shadow(&r.out.Mutations[i])
	}
	r.poll(d.key)
}

// lost notes that a thread has ended. Whether the call that it was in was made is
// not known.
func (r *recorder) lost(tid int) {
	d := r.flight[tid]
	if d == nil {
		return
	}
	delete(r.flight, tid)
	r.gap(d, "its thread ended before the call did")
	d.close()
}

// finish is called when nothing of the subject is left.
func (r *recorder) finish() {
	r.poll("end")
	for _, tid := range slices.Sorted(maps.Keys(r.flight)) {
		r.lost(tid)
	}
}

// take returns what is to be told.
func (r *recorder) take() note {
	n := r.out
	r.out = note{}
	return n
}

// mostRecorded is how much content a record holds. The bench keeps it in memory.
const mostRecorded = 256 << 20 // bytes

// add records a mutation.
func (r *recorder) add(d *draft, m faults.Mutation) {
	before := r.bytes
	if r.bytes += len(m.Data); r.bytes > mostRecorded {
		if before <= mostRecorded {
			r.gap(d, fmt.Sprintf("more than %d bytes were written: the rest is on no record", mostRecorded))
		}
		return
	}
	m.Key, m.Call = d.key, d.call.name
	r.out.Mutations = append(r.out.Mutations, m)
}

// gap records that the record has one.
func (r *recorder) gap(d *draft, reason string) {
	g := faults.Gap{Key: d.key, Call: d.call.name, Reason: reason}
	if o := r.knownFD(d.obj); o != nil {
		g.Object, g.Path = o.id, r.path(d.obj)
	}
	for _, e := range d.ends {
		if g.Path == "" {
			g.Path = e.path
		}
	}
	r.out.Gaps = append(r.out.Gaps, g)
}

// path is where the object of a handle is now. Without a name it keeps its last one.
func (r *recorder) path(fd int) faults.Raw {
	o := owner{order: order{Base: r.base}}
	rel, below, err := o.link(selfFD(fd))
	if err != nil || !below {
		return ""
	}
	return faults.Raw(rel)
}

// entry returns the name that an end stands for; the zero Entry if it is not in the
// tree.
func (r *recorder) entry(e end) faults.Entry {
	if o := r.knownFD(e.dir); o != nil {
		return faults.Entry{Dir: o.id, Name: faults.Raw(e.name)}
	}
	return faults.Entry{}
}

var nodeTypes = map[uint16]spec.NodeType{
	unix.S_IFREG: spec.TypeFile, unix.S_IFDIR: spec.TypeDir, unix.S_IFLNK: spec.TypeLink, unix.S_IFIFO: spec.TypeFIFO,
}

// most is how much of a file is read at once. More than that is a gap.
const most = 64 << 20 // bytes

// adopt records that an object has come to be in the tree, with all that is in it
// already. at is the zero Entry if it has no name yet.
func (r *recorder) adopt(d *draft, fd int, at faults.Entry, where faults.Raw) *object {
	st, err := statOf(fd)
	if err != nil {
		r.gap(d, "something new could not be looked at: "+err.Error())
		return nil
	}
	typ, ok := nodeTypes[st.Mode&unix.S_IFMT]
	if !ok {
		typ = spec.TypeOther
	}
	m := faults.Mutation{
		Do: faults.ChangeMake, Object: idOf(st), At: at, Path: where,
		Type: typ, Mode: spec.Mode(st.Mode & 0o7777), UID: st.Uid, GID: st.Gid,
	}
	if typ == spec.TypeLink {
		text, err := textOf(fd)
		if err != nil {
			r.gap(d, "a new link could not be read: "+err.Error())
		}
		m.Text = faults.Raw(text)
	}
	r.add(d, m)
	o := r.learn(st)
	o.nameless = st.Nlink == 0
	r.content(d, o, fd, st, where)
	return o
}

// content records what is in a new object. Mostly that is nothing.
func (r *recorder) content(d *draft, o *object, fd int, st unix.Statx_t, where faults.Raw) {
	var err error
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		if st.Size > 0 {
			r.whole(d, o, fd)
		}
		err = r.attributes(d, o, fd)
	case unix.S_IFDIR:
		err = errors.Join(r.attributes(d, o, fd), eachEntry(fd, func(below int, name string) error {
			r.inherit(d, o, below, name, where)
			return nil
		}))
	}
	if err != nil {
		r.gap(d, "something new could not be read: "+err.Error())
	}
}

// inherit records an entry of a directory that came with what is in it.
func (r *recorder) inherit(d *draft, dir *object, fd int, name string, where faults.Raw) {
	at := faults.Entry{Dir: dir.id, Name: faults.Raw(name)}
	p := faults.Raw(path.Join(string(where), name))
	if o := r.knownFD(fd); o != nil { // it has a further name, which was one outside up to now
		r.add(d, faults.Mutation{Do: faults.ChangeLink, Object: o.id, At: at, Path: p})
		r.add(d, faults.Mutation{Do: faults.ChangeUnlink, Object: o.id, Path: p})
		return
	}
	o := r.adopt(d, fd, at, p)
	r.elsewhere(d, o, fd, 1)
}

// elsewhere records the names of a new object that lie outside of the tree.
func (r *recorder) elsewhere(d *draft, o *object, fd int, inside uint32) {
	st, err := statOf(fd)
	if err != nil || o == nil || st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return
	}
	for n := inside; n < st.Nlink; n++ {
		r.add(d, faults.Mutation{Do: faults.ChangeLink, Object: o.id})
	}
}
