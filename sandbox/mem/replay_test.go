package mem_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

func id(n uint64) vfs.ID { return vfs.ID{Dev: 7, Ino: n} }

func at(dir uint64, name string) faults.Entry {
	return faults.Entry{Dir: id(dir), Name: faults.Raw(name)}
}

// recorded is a record of a tree ws/ (2) with a file ws/a (3) and what is done to it.
func recorded(muts ...faults.Mutation) (spec.World, faults.Record) {
	w := spec.World{"ws": {Type: spec.TypeDir, Mode: 0o755}, "ws/a": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("old")}}
	return w, faults.Record{
		UID: 5, Start: []faults.Held{{Path: ".", ID: id(1)}, {Path: "ws", ID: id(2)}, {Path: "ws/a", ID: id(3)}}, Mutations: muts,
	}
}

// TestReplayEveryChange: no change is forgotten.
func TestReplayEveryChange(t *testing.T) {
	file := faults.Mutation{Do: faults.ChangeMake, Object: id(9), Type: spec.TypeFile, Mode: 0o600, UID: 5}
	known := map[faults.Change]faults.Mutation{
		faults.ChangeMake:     file,
		faults.ChangeLink:     {Object: id(3), At: at(2, "b")},
		faults.ChangeUnlink:   {Object: id(3), At: at(2, "a")},
		faults.ChangeRename:   {Object: id(3), At: at(2, "a"), To: at(1, "b")},
		faults.ChangeExchange: {At: at(2, "a"), To: at(2, "a")},
		faults.ChangeEdit:     {Edit: &spec.Edit{Op: spec.EditRemove, Path: "ws/a"}},
		faults.ChangeKnown:    {Object: id(4), Path: "ws/a"},
	}
	for _, c := range faults.Changes {
		m, ok := known[c]
		if !ok {
			m.Object = id(3)
		}
		m.Do = c
		w, rec := recorded(m)
		r, err := mem.NewReplay(w, rec)
		if err == nil {
			err = r.Rest()
		}
		if err != nil && c != faults.ChangeExchange {
			t.Errorf("%s: %v", c, err)
		}
		if r.Done() != 1 {
			t.Errorf("%s: %d mutations were gone through, want 1", c, r.Done())
		}
	}
}

// TestReplayByIdentity: a file is written to that never had a name, then has two, and
// then one that is not in the tree; a number is given again.
func TestReplayByIdentity(t *testing.T) {
	file := faults.Mutation{Do: faults.ChangeMake, Object: id(9), Type: spec.TypeFile, Mode: 0o600, UID: 6}
	write := func(n uint64, off int64, data string) faults.Mutation {
		return faults.Mutation{Do: faults.ChangeWrite, Object: id(n), Off: off, Data: spec.Content(data)}
	}
	link := func(n uint64, e faults.Entry) faults.Mutation {
		return faults.Mutation{Do: faults.ChangeLink, Object: id(n), At: e}
	}
	w, rec := recorded(
		file, write(9, 1, "first"), link(9, at(2, "b")), link(9, at(2, "c")), link(9, faults.Entry{}),
		faults.Mutation{Do: faults.ChangeUnlink, Object: id(3), At: at(2, "a")},
		faults.Mutation{Do: faults.ChangeMake, Object: id(3), At: at(2, "a"), Type: spec.TypeDir, Mode: 0o700, UID: 5},
		faults.Mutation{Do: faults.ChangeRename, Object: id(2), At: at(1, "ws")}, // out of the tree
		write(9, 0, "!"), faults.Mutation{Do: faults.ChangeClear, Object: id(9), Off: 4, Size: 99},
		faults.Mutation{Do: faults.ChangeRename, Object: id(2), To: at(1, "back")},
	)
	r, err := mem.NewReplay(w, rec)
	if err == nil {
		err = r.Rest()
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.World()
	if err != nil {
		t.Fatal(err)
	}
	want := spec.World{
		"back":   {Type: spec.TypeDir, Mode: 0o755},
		"back/a": {Type: spec.TypeDir, Mode: 0o700},
		"back/b": {Type: spec.TypeFile, Mode: 0o600, Owner: spec.OwnerOther, Content: spec.Content("!fir\x00\x00"), Nlink: 3},
		"back/c": {Type: spec.TypeFile, Mode: 0o600, Owner: spec.OwnerOther, Content: spec.Content("!fir\x00\x00"), Hard: "back/b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestReplayRefuses: a record that is not of this tree is not taken for one.
func TestReplayRefuses(t *testing.T) {
	for _, tt := range []struct {
		name string
		m    faults.Mutation
		want string
	}{
		{"a stranger", faults.Mutation{Do: faults.ChangeWrite, Object: id(8)}, "has not spoken of the object before: 7:8"},
		{"in a strange directory", faults.Mutation{Do: faults.ChangeLink, Object: id(3), At: at(8, "x")}, "has not spoken of the object before: 7:8"},
		{"a name that is taken", faults.Mutation{Do: faults.ChangeLink, Object: id(3), At: at(2, "a")}, "file exists"},
		{"the name of another", faults.Mutation{Do: faults.ChangeUnlink, Object: id(2), At: at(2, "a")}, "is another object"},
		{"a change", faults.Mutation{Do: "melt", Object: id(3)}, `nothing is known of the change "melt"`},
		{"a type", faults.Mutation{Do: faults.ChangeMake, Type: "door"}, `nothing is known of the type "door"`},
		{"a directory in itself", faults.Mutation{Do: faults.ChangeRename, Object: id(2), At: at(1, "ws"), To: at(2, "x")}, "invalid argument"},
	} {
		w, rec := recorded(tt.m)
		r, err := mem.NewReplay(w, rec)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Rest(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
	w, rec := recorded()
	rec.Start = append(rec.Start, faults.Held{Path: "ws/b", ID: id(4)})
	if _, err := mem.NewReplay(w, rec); err == nil {
		t.Error("a tree without what the record begins with is taken")
	}
	w["ws/z"] = spec.Node{Type: spec.TypeFIFO}
	rec.Start = rec.Start[:3]
	if _, err := mem.NewReplay(w, rec); err == nil {
		t.Error("a tree with more than the record begins with is taken")
	}
}

func TestReplayTimes(t *testing.T) {
	touch := faults.Mutation{Do: faults.ChangeTimes, Object: id(3), Mtime: 42}
	w, rec := recorded(touch, faults.Mutation{Do: faults.ChangeMode, Object: id(3), Mode: 0o600}, faults.Mutation{Do: faults.ChangeWrite, Object: id(3)})
	r, err := mem.NewReplay(w, rec)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []map[string]int64{{"ws/a": 42}, {"ws/a": 42}, {}} {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, r.Times()); diff != "" {
			t.Errorf("after %d (-want +got):\n%s", i+1, diff)
		}
	}
}
