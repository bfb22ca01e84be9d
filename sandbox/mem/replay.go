package mem

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// Replay is a tree in memory that goes, mutation by mutation, through what a record
// says of a real one.
//
// It takes the record at its word: it asks for no permission, and what the kernel
// has let happen happens. A mutation that does not fit the tree is an error, and the
// record, or the World that it was begun with, is then not of this tree.
type Replay struct {
	sandbox *Sandbox
	uid     uint32 // of the subject on the real tree
	todo    []faults.Mutation
	done    int
	objects map[vfs.ID]memfs.Object
	times   map[memfs.Object]int64 // nanoseconds; of what has a time that was given to it
}

// NewReplay returns the tree as it was when the record began: initial is the World
// that was there, with the texts of its links as they are on the real tree.
func NewReplay(initial spec.World, rec faults.Record) (*Replay, error) {
	r := &Replay{
		sandbox: New(), uid: rec.UID, todo: rec.Mutations,
		objects: map[vfs.ID]memfs.Object{}, times: map[memfs.Object]int64{},
	}
	if err := r.sandbox.build(initial, func(link string) string { return link }); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	missing := initial.Clone()
	for _, h := range rec.Start {
		o := r.admin().Root()
		if h.Path != "." {
			var err error
			if o, err = r.admin().Find(string(h.Path)); err != nil {
				return nil, fmt.Errorf("replay: the record begins with another tree: %w", err)
			}
		}
		r.objects[h.ID] = o
		delete(missing, string(h.Path))
	}
	for p := range missing {
		if !slices.ContainsFunc(rec.Gaps, func(g faults.Gap) bool { return strings.HasPrefix(p, string(g.Path)+"/") }) {
			return nil, fmt.Errorf("replay: the record begins without %s", p)
		}
	}
	for p, n := range initial {
		if n.Nlink > 1 { // some of the names may lie outside of the tree
			o, err := r.admin().Find(p)
			if err != nil {
				return nil, err
			}
			r.admin().Count(o, n.Nlink-int(r.admin().Describe(o).Nlink))
		}
	}
	return r, nil
}

func (r *Replay) admin() memfs.Admin { return r.sandbox.admin }

// World returns the tree as it is now.
func (r *Replay) World() (spec.World, error) { return r.sandbox.Observe() }

// Times returns when the entries were changed last that were given such a time, and
// were not changed since. Of the others nothing is known: nobody asks for the clock.
func (r *Replay) Times() map[string]int64 {
	out := map[string]int64{}
	r.admin().WalkObjects(func(p string, o memfs.Object) {
		if t, ok := r.times[o]; ok {
			out[p] = t
		}
	})
	return out
}

// Done is the number of mutations that the tree has gone through.
func (r *Replay) Done() int { return r.done }

// Next applies the next mutation. It returns nil when there is none.
func (r *Replay) Next() (*faults.Mutation, error) {
	if r.done == len(r.todo) {
		return nil, nil
	}
	m := &r.todo[r.done]
	r.done++
	if err := r.apply(m); err != nil {
		return m, fmt.Errorf("replay: mutation %d, %s of %q by %s: %w", r.done, m.Do, m.Path, m.Call, err)
	}
	return m, nil
}

// Rest applies all that is left.
func (r *Replay) Rest() error {
	for {
		if m, err := r.Next(); m == nil || err != nil {
			return err
		}
	}
}

var errUnknown = errors.New("the record has not spoken of the object before")

func (r *Replay) object(id vfs.ID) (memfs.Object, error) {
	o, ok := r.objects[id]
	if !ok {
		return o, fmt.Errorf("%w: %d:%d", errUnknown, id.Dev, id.Ino)
	}
	return o, nil
}

// appliers says how each change is made. A nil is for what only a crash would show.
var appliers map[faults.Change]func(*Replay, *faults.Mutation, memfs.Object) error

func init() {
	named := func(name func(*Replay, faults.Entry, memfs.Object) error) func(*Replay, *faults.Mutation, memfs.Object) error {
		return func(r *Replay, m *faults.Mutation, o memfs.Object) error { return name(r, m.At, o) }
	}
	altered := func(alter func(*Replay, *memfs.Node, *faults.Mutation)) func(*Replay, *faults.Mutation, memfs.Object) error {
		return func(r *Replay, m *faults.Mutation, o memfs.Object) error {
			r.admin().Alter(o, func(n *memfs.Node) { alter(r, n, m) })
			return nil
		}
	}
	appliers = map[faults.Change]func(*Replay, *faults.Mutation, memfs.Object) error{
		faults.ChangeMake:     func(r *Replay, m *faults.Mutation, _ memfs.Object) error { return r.make(m) },
		faults.ChangeWrite:    (*Replay).write,
		faults.ChangeResize:   (*Replay).resize,
		faults.ChangeClear:    (*Replay).clear,
		faults.ChangeLink:     named((*Replay).name),
		faults.ChangeUnlink:   named((*Replay).unname),
		faults.ChangeRename:   (*Replay).rename,
		faults.ChangeExchange: func(r *Replay, m *faults.Mutation, _ memfs.Object) error { return r.exchange(m) },
		faults.ChangeMode:     altered(func(_ *Replay, n *memfs.Node, m *faults.Mutation) { n.Bits = uint32(m.Mode) }),
		faults.ChangeOwner:    altered(func(r *Replay, n *memfs.Node, m *faults.Mutation) { n.UID, n.GID = r.owners(m.UID, m.GID) }),
		faults.ChangeXattr: altered(func(_ *Replay, n *memfs.Node, m *faults.Mutation) {
			if n.Xattrs == nil {
				n.Xattrs = map[string][]byte{}
			}
			n.Xattrs[string(m.Text)] = append([]byte{}, m.Data...) // an empty one is one
		}),
		faults.ChangeNoXattr: altered(func(_ *Replay, n *memfs.Node, m *faults.Mutation) { delete(n.Xattrs, string(m.Text)) }),
		faults.ChangeTimes: func(r *Replay, m *faults.Mutation, o memfs.Object) error {
			if r.admin().Describe(o).Type != fs.ModeNamedPipe { // what goes through one is no mutation, and sets its time
				r.times[o] = m.Mtime
			}
			return nil
		},
		faults.ChangeEdit: func(r *Replay, m *faults.Mutation, _ memfs.Object) error {
			clear(r.times)
			return r.sandbox.Edit(*m.Edit)
		},
		faults.ChangeKnown: func(r *Replay, m *faults.Mutation, _ memfs.Object) (err error) {
			r.objects[m.Object], err = r.admin().Find(string(m.Path))
			return err
		},
		faults.ChangeReserve: func(r *Replay, _ *faults.Mutation, o memfs.Object) error {
			delete(r.times, o)
			return nil
		},
		faults.ChangeSync:     nil,
		faults.ChangeSyncAll:  nil,
		faults.ChangeSyncPart: nil,
	}
}

func (r *Replay) apply(m *faults.Mutation) error {
	f, ok := appliers[m.Do]
	if !ok {
		return fmt.Errorf("nothing is known of the change %q", m.Do)
	}
	if f == nil {
		return nil
	}
	o, known := r.objects[m.Object]
	if !known && m.Object != (vfs.ID{}) && m.Do != faults.ChangeMake && m.Do != faults.ChangeKnown {
		return fmt.Errorf("%w: %d:%d", errUnknown, m.Object.Dev, m.Object.Ino)
	}
	return f(r, m, o)
}

// owners says whose an object is, in the tree's own numbers.
func (r *Replay) owners(uid, gid uint32) (uint32, uint32) {
	if uid == r.uid {
		return subject.UID, gid
	}
	return other.UID, gid
}

func (r *Replay) make(m *faults.Mutation) error {
	typ, ok := nodeTypes[m.Type]
	if !ok {
		return fmt.Errorf("nothing is known of the type %q", m.Type)
	}
	want := memfs.Node{Type: typ, Bits: uint32(m.Mode), Link: string(m.Text)}
	want.UID, want.GID = r.owners(m.UID, m.GID)
	o, err := r.admin().Loose(want)
	if err != nil {
		return err
	}
	r.objects[m.Object] = o // another one may have had this identity, and is gone
	if m.At == (faults.Entry{}) {
		return nil
	}
	return r.name(m.At, o)
}

// name gives o a name, which may be one outside of the tree.
func (r *Replay) name(at faults.Entry, o memfs.Object) error {
	if at == (faults.Entry{}) {
		r.admin().Count(o, 1)
		return nil
	}
	d, err := r.object(at.Dir)
	if err != nil {
		return err
	}
	delete(r.times, d)
	return r.admin().Name(o, d, string(at.Name))
}

func (r *Replay) unname(at faults.Entry, o memfs.Object) error {
	if at == (faults.Entry{}) {
		r.admin().Count(o, -1)
		return nil
	}
	d, err := r.object(at.Dir)
	if err != nil {
		return err
	}
	if r.admin().Entry(d, string(at.Name)) != o {
		return fmt.Errorf("%q is another object: %w", at.Name, fs.ErrInvalid)
	}
	delete(r.times, d)
	return r.admin().Unname(d, string(at.Name))
}

func (r *Replay) rename(m *faults.Mutation, o memfs.Object) error {
	if m.To != (faults.Entry{}) {
		d, err := r.object(m.To.Dir)
		if err != nil {
			return err
		}
		if victim := r.admin().Entry(d, string(m.To.Name)); !victim.Zero() {
			if err := r.unname(m.To, victim); err != nil {
				return err
			}
		}
	}
	dir := r.admin().Describe(o).Type == fs.ModeDir
	if m.At != (faults.Entry{}) || !dir {
		if err := r.unname(m.At, o); err != nil {
			return err
		}
	}
	if m.To == (faults.Entry{}) && dir {
		return nil // it keeps what is below it, wherever it is
	}
	return r.name(m.To, o)
}

// exchange takes both names away before it gives them again. One that is outside has
// something unknown.
func (r *Replay) exchange(m *faults.Mutation) error {
	var objects [2]memfs.Object
	places := []faults.Entry{m.At, m.To}
	for i, at := range places {
		d, err := r.object(at.Dir)
		if err != nil {
			return err
		}
		objects[i] = r.admin().Entry(d, string(at.Name))
		if objects[i].Zero() {
			return fmt.Errorf("exchange %q: %w", at.Name, fs.ErrNotExist)
		}
	}
	for i, at := range places {
		if err := r.unname(at, objects[i]); err != nil {
			return err
		}
	}
	slices.Reverse(places)
	for i, at := range places {
		if err := r.name(at, objects[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Replay) write(m *faults.Mutation, o memfs.Object) error {
	delete(r.times, o)
	return r.admin().Put(o, m.Off, m.Data)
}

func (r *Replay) resize(m *faults.Mutation, o memfs.Object) error {
	delete(r.times, o)
	return r.admin().Resize(o, m.Size)
}

func (r *Replay) clear(m *faults.Mutation, o memfs.Object) error {
	delete(r.times, o)
	return r.admin().Clear(o, m.Off, m.Size)
}
