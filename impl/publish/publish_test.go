package publish_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/publish"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

const (
	oldText = "the old text, which is longer"
	newText = "the new text"
)

var user = memfs.Cred{UID: 1000, GID: 1000, Groups: []uint32{3000}, Umask: 0o022}

// oldFile is what stands at "f" where something is replaced.
var oldFile = memfs.Node{
	Bits: 0o640, UID: 1000, GID: 3000, Data: []byte(oldText), Xattrs: map[string][]byte{"user.origin": []byte("here")},
}

// bench is one directory "d" with whatever stands in it.
type bench struct {
	t     *testing.T
	admin memfs.Admin
	dir   vfs.Dir
	like  vfs.File // open on "f"; nil without one
	temps int
}

func newBench(t *testing.T, p *tap, entries map[string]memfs.Node) *bench {
	t.Helper()
	store := memfs.New(memfs.Cred{})
	b := &bench{t: t, admin: store.Admin()}
	b.must(b.admin.Make("d", memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: user.UID, GID: user.GID}))
	for name, n := range entries {
		b.must(b.admin.Make("d/"+name, n))
	}
	root, err := store.As(user).OpenRoot("/d")
	b.must(err)
	b.dir = p.dir(root)
	if _, exists := entries["f"]; exists {
		b.like, err = b.dir.OpenFile("f", vfs.Probe, 0)
		b.must(err)
	}
	return b
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) tempName() string {
	b.temps++
	return fmt.Sprintf(".tmp-%d", b.temps)
}

func (b *bench) put(caps vfs.Caps, check func() error) (vfs.ID, error) {
	p := &publish.Publisher{Caps: caps, TempName: b.tempName}
	return p.Put(publish.Request{
		Dir: b.dir, Name: "f", Content: []byte(newText), Perm: 0o600, Like: b.like, Replace: b.like != nil, Check: check,
	})
}

// tree describes what is in "d", one line an entry.
func (b *bench) tree() string {
	var lines []string
	b.admin.Walk(func(p string, n memfs.Node) {
		if name, ok := strings.CutPrefix(p, "d/"); ok {
			lines = append(lines, fmt.Sprintf("%s %04o %d:%d %d %q %s", name, n.Bits, n.UID, n.GID, n.Nlink, n.Data, n.Xattrs))
		}
	})
	return strings.Join(lines, "\n")
}

const (
	oldLine   = `f 0640 1000:3000 1 "` + oldText + `" map[user.origin:here]`
	newLine   = `f 0640 1000:3000 1 "` + newText + `" map[user.origin:here]`
	freshLine = `f 0600 1000:1000 1 "` + newText + `" map[]`
)

// ways are the ways to put a file in place that the capabilities allow.
var ways = []struct {
	name string
	caps vfs.Caps
}{
	{"nameless", vfs.CapPublish | vfs.CapPerm | vfs.CapXattr},
	{"named", vfs.CapNoReplace | vfs.CapPerm | vfs.CapXattr},
	{"linked", vfs.CapLink | vfs.CapPerm | vfs.CapXattr},
}

func TestPut(t *testing.T) {
	for _, way := range ways {
		for _, tt := range []struct {
			name    string
			entries map[string]memfs.Node
			want    string
			sent    string // the operations, in order
		}{
			{"new", nil, freshLine, map[string]string{
				"nameless": "open-doomed stat write sync publish sync-dir close",
				"named":    "open-file stat write sync rename sync-dir close",
				"linked":   "open-file stat write sync link lstat remove sync-dir close",
			}[way.name]},
			{"replace", map[string]memfs.Node{"f": oldFile}, newLine, map[string]string{
				"nameless": "open-doomed stat write stat chown xattrs xattr set-xattr chmod sync publish close rename sync-dir",
				"named":    "open-file stat write stat chown xattrs xattr set-xattr chmod sync close rename sync-dir",
				"linked":   "open-file stat write stat chown xattrs xattr set-xattr chmod sync close rename sync-dir",
			}[way.name]},
		} {
			t.Run(way.name+" "+tt.name, func(t *testing.T) {
				var ops []string
				p := &tap{}
				b := newBench(t, p, tt.entries)
				before := p.handles
				p.strike = func(op vfs.OpKind, _ string, done bool) error {
					if !done {
						ops = append(ops, string(op))
					}
					return nil
				}
				id, err := b.put(way.caps, nil)
				b.must(err)
				if diff := cmp.Diff(tt.want, b.tree()); diff != "" {
					t.Errorf("the directory (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tt.sent, strings.Join(ops, " ")); diff != "" {
					t.Errorf("operations (-want +got):\n%s", diff)
				}
				if n, err := b.admin.Look("d/f"); err != nil || n.ID != id {
					t.Errorf("Put returned the identity %v, in place is %v (%v)", id, n.ID, err)
				}
				if p.handles != before {
					t.Errorf("%d handles are open, want %d", p.handles, before)
				}
			})
		}
	}
}

// strike is one operation that fails: the nth of a publication, counted from 0.
type strike struct {
	nth   int
	after bool // it takes effect all the same
	errno syscall.Errno
}

// struck carries out a publication in which operations fail, and returns what was
// done, one operation a line.
func struck(t *testing.T, caps vfs.Caps, entries map[string]memfs.Node, strikes []strike) (b *bench, ops []vfs.OpKind, handles int, err error) {
	t.Helper()
	p := &tap{}
	b = newBench(t, p, entries)
	before := p.handles
	p.strike = func(op vfs.OpKind, _ string, done bool) error {
		if !done {
			ops = append(ops, op)
		}
		for _, s := range strikes {
			if s.nth == len(ops)-1 && s.after == done {
				return &fs.PathError{Op: string(op), Path: "struck", Err: s.errno}
			}
		}
		return nil
	}
	_, err = b.put(caps, nil)
	return b, ops, p.handles - before, err
}

// TestEveryOperationFails lets each operation of a publication fail, before and
// after it took effect, and then each pair of them: also the operations that
// clean up after the first failure.
func TestEveryOperationFails(t *testing.T) {
	for _, way := range ways {
		for _, entries := range []map[string]memfs.Node{nil, {"f": oldFile}} {
			name := way.name + " new"
			if entries != nil {
				name = way.name + " replace"
			}
			t.Run(name, func(t *testing.T) {
				runs := 0
				try := func(strikes ...strike) []vfs.OpKind {
					runs++
					b, ops, handles, err := struck(t, way.caps, entries, strikes)
					b.judge(strikes, ops, handles, err)
					return ops
				}
				whole := len(try())
				for _, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES} {
					for i := range whole {
						for _, after := range []bool{false, true} {
							first := strike{i, after, errno}
							for j := i + 1; j < len(try(first)); j++ {
								try(first, strike{j, false, errno})
								try(first, strike{j, true, errno})
							}
						}
					}
				}
				if runs < 100 {
					t.Errorf("%d runs, want more: the sweep does not reach", runs)
				}
			})
		}
	}
}

// judge checks what holds whatever failed.
func (b *bench) judge(strikes []strike, ops []vfs.OpKind, handles int, err error) {
	b.t.Helper()
	var hit []vfs.OpKind
	what := "nothing failed"
	for _, s := range strikes {
		if s.nth < len(ops) {
			hit = append(hit, ops[s.nth])
			what = fmt.Sprintf("%v of %v: %v after=%v", hit, ops, s.errno, s.after)
		}
	}
	if handles != 0 {
		b.t.Errorf("%s: %d handles are left open", what, handles)
	}
	var kept, temps []string
	for line := range strings.Lines(b.tree()) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, ".tmp-") {
			temps = append(temps, line)
		} else {
			kept = append(kept, line)
		}
	}
	before, after := "", freshLine
	if b.like != nil {
		before, after = oldLine, newLine
	}
	got := strings.Join(kept, "\n")
	got = strings.Replace(got, "1000:3000 2", "1000:3000 1", 1) // while a second name is left
	got = strings.Replace(got, "1000:1000 2", "1000:1000 1", 1)
	if got != before && got != after {
		b.t.Errorf("%s: neither the old file nor the new one, whole, is in place: %s", what, got)
	}
	if len(temps) > 0 && !mayLeave(strikes, ops) {
		b.t.Errorf("%s: left behind: %q", what, temps)
	}
	var p *publish.Error
	switch {
	case err == nil && got != after:
		b.t.Errorf("%s: no error, and the new file is not in place", what)
	case err == nil:
	case !errors.As(err, &p):
		b.t.Errorf("%s: the error is a %T", what, err)
	case !p.Unknown && got != before:
		b.t.Errorf("%s: said to be as it was, and the new file is in place: %v", what, err)
	case p.Unknown && got != after && !unseen(strikes, ops):
		b.t.Errorf("%s: said to be unknown, and the file is seen to be as it was: %v", what, err)
	}
}

// mayLeave reports whether a private name may be left: the step that cleans up was
// struck, or one that tells what is to be cleaned up.
func mayLeave(strikes []strike, ops []vfs.OpKind) bool {
	may := false
	for _, s := range strikes {
		if s.nth >= len(ops) {
			continue
		}
		op := ops[s.nth]
		may = may || op == vfs.OpRemove ||
			op == vfs.OpOpenFile && s.after || // made, and reported as failed: nobody can tell whose the name is
			op == vfs.OpPublish && s.after && unseen(strikes, ops) // the same, without the look that would have told
	}
	return may
}

// unseen reports whether a look at the private file, or its name, was struck after it
// was to be given its own.
func unseen(strikes []strike, ops []vfs.OpKind) bool {
	for _, s := range strikes {
		if s.nth < len(ops) && (ops[s.nth] == vfs.OpLstat || ops[s.nth] == vfs.OpStat && s.nth > slices.Index(ops, vfs.OpPublish)) {
			return true
		}
	}
	return false
}

// TestNobodyHidesWhatLanded: that somebody has taken a file away again does not make
// the failure that was reported of its publication true; nor does one who took the
// private file make it unknown before it was to be published.
func TestNobodyHidesWhatLanded(t *testing.T) {
	for _, way := range ways {
		for _, entries := range []map[string]memfs.Node{nil, {"f": oldFile}} {
			t.Run(fmt.Sprintf("%s over %d", way.name, len(entries)), func(t *testing.T) {
				naming := vfs.OpRename
				if entries == nil && way.caps.Has(vfs.CapPublish) {
					naming = vfs.OpPublish
				} else if entries == nil && !way.caps.Has(vfs.CapNoReplace) {
					naming = vfs.OpLink
				}
				p := &tap{}
				b := newBench(t, p, entries)
				p.strike = func(op vfs.OpKind, _ string, done bool) error {
					if op != naming || !done {
						return nil
					}
					b.must(b.admin.Rename("d/f", "d/taken"))
					b.must(b.admin.Write("d/f", []byte("another"), memfs.Node{Bits: 0o600}))
					return &fs.PathError{Op: "rename", Path: "f", Err: syscall.EIO}
				}
				_, err := b.put(way.caps, nil)
				var e *publish.Error
				if !errors.As(err, &e) || !e.Unknown || !errors.Is(err, syscall.EIO) {
					t.Errorf("%v: want EIO and not to know\n%s", err, b.tree())
				}
			})
		}
	}
}

func TestMetadata(t *testing.T) {
	with := func(change func(*memfs.Node)) memfs.Node {
		n := oldFile
		change(&n)
		return n
	}
	for _, tt := range []struct {
		name string
		old  memfs.Node
		want string        // the line afterwards
		err  error         // what the error wraps
		step publish.Step  // where it fails
		as   syscall.Errno // what else it wraps
	}{
		{"as it is", oldFile, newLine, nil, "", 0},
		{
			"setuid and setgid are not carried over", with(func(n *memfs.Node) { n.Bits = 0o6750 }),
			strings.Replace(newLine, "0640", "0750", 1), nil, "", 0,
		},
		{
			"a mode that forbids to write, with attributes", with(func(n *memfs.Node) { n.Bits = 0o444 }),
			strings.Replace(newLine, "0640", "0444", 1), nil, "", 0,
		},
		{
			"another owner", with(func(n *memfs.Node) { n.UID, n.Bits = 2000, 0o666 }),
			strings.NewReplacer("0640", "0666", "1000:3000", "2000:3000").Replace(oldLine), publish.ErrCannotKeep, publish.StepMetadata, syscall.EPERM,
		},
		{
			"a group of others", with(func(n *memfs.Node) { n.GID, n.Bits = 4000, 0o666 }),
			strings.NewReplacer("0640", "0666", "1000:3000", "1000:4000").Replace(oldLine), publish.ErrCannotKeep, publish.StepMetadata, syscall.EPERM,
		},
		{
			"attributes that cannot be read", with(func(n *memfs.Node) { n.Bits = 0o200 }),
			strings.Replace(oldLine, "0640", "0200", 1), publish.ErrCannotKeep, publish.StepMetadata, syscall.EACCES,
		},
		{
			"labels are the directory's", with(func(n *memfs.Node) {
				n.Xattrs = map[string][]byte{"security.label": []byte("x"), "user.origin": []byte("here")}
			}), newLine, nil, "", 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, &tap{}, nil)
			b.must(b.admin.Make("d/f", with(func(n *memfs.Node) { *n = tt.old; n.Bits |= 0o222 })))
			var err error
			b.like, err = b.dir.OpenFile("f", vfs.Probe, 0)
			b.must(err)
			b.must(b.admin.Change("d/f", func(n *memfs.Node) { n.Bits = tt.old.Bits }))
			_, err = b.put(ways[0].caps, nil)
			var p *publish.Error
			switch {
			case tt.err == nil && err != nil:
				t.Errorf("Put: %v", err)
			case tt.err != nil && (!errors.Is(err, tt.err) || !errors.Is(err, tt.as) || !errors.As(err, &p) || p.Step != tt.step || p.Unknown):
				t.Errorf("Put = %v, want %v at step %s, with %v", err, tt.err, tt.step, tt.as)
			}
			if diff := cmp.Diff(tt.want, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrivateUntilDressed: the bytes that replace those of a closed file are not
// open to others on the way.
func TestPrivateUntilDressed(t *testing.T) {
	p := &tap{}
	b := newBench(t, p, map[string]memfs.Node{"f": oldFile})
	var modes []string
	p.strike = func(op vfs.OpKind, name string, done bool) error {
		if name == ".tmp-1" && (op == vfs.OpWrite || op == vfs.OpChmod) {
			n, err := b.admin.Look("d/" + name)
			b.must(err)
			modes = append(modes, fmt.Sprintf("%s done=%v %04o", op, done, n.Bits))
		}
		return nil
	}
	_, err := b.put(ways[1].caps, nil)
	b.must(err)
	want := []string{"write done=false 0600", "write done=true 0600", "chmod done=false 0600", "chmod done=true 0640"}
	if diff := cmp.Diff(want, modes); diff != "" {
		t.Errorf("modes of the private file (-want +got):\n%s", diff)
	}
}

// TestNothingIsLost: a file system without attributes cannot lose them.
func TestNothingIsLost(t *testing.T) {
	p := &tap{strike: func(op vfs.OpKind, name string, _ bool) error {
		if op == vfs.OpXattrs {
			return &fs.PathError{Op: "flistxattr", Path: name, Err: syscall.EOPNOTSUPP}
		}
		return nil
	}}
	b := newBench(t, p, map[string]memfs.Node{"f": oldFile})
	_, err := b.put(ways[0].caps, nil)
	b.must(err)
	if diff := cmp.Diff(strings.Replace(newLine, "user.origin:here", "", 1), b.tree()); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

func TestPlantedNames(t *testing.T) {
	planted := memfs.Node{Bits: 0o666, UID: 2000, GID: 2000, Data: []byte("mine")}
	const line = ` 0666 2000:2000 1 "mine" map[]`
	for _, way := range ways {
		for _, old := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s replace=%v", way.name, old), func(t *testing.T) {
				entries := map[string]memfs.Node{".tmp-1": planted, ".tmp-2": {Type: fs.ModeSymlink, Link: "f", Bits: 0o777}}
				want := ".tmp-1" + line + "\n" + `.tmp-2 0777 0:0 1 "" map[]` + "\n" + freshLine
				if old {
					entries["f"] = oldFile
					want = strings.Replace(want, freshLine, newLine, 1)
				}
				b := newBench(t, &tap{}, entries)
				_, err := b.put(way.caps, nil)
				b.must(err)
				if diff := cmp.Diff(want, b.tree()); diff != "" {
					t.Errorf("the directory (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestPlanterWins: whoever takes every name gets an error, which is not one of the
// destination.
func TestPlanterWins(t *testing.T) {
	for _, way := range ways[:2] {
		t.Run(way.name, func(t *testing.T) {
			b := newBench(t, &tap{}, map[string]memfs.Node{"f": oldFile, ".tmp-1": {}})
			p := &publish.Publisher{Caps: way.caps, TempName: func() string { b.temps++; return ".tmp-1" }}
			_, err := p.Put(publish.Request{Dir: b.dir, Name: "f", Content: []byte(newText), Like: b.like, Replace: true})
			var pe *publish.Error
			if !errors.As(err, &pe) || pe.Unknown || errors.Is(err, syscall.EEXIST) {
				t.Errorf("Put = %v, want an error without EEXIST, outcome known", err)
			}
			if b.temps != 100 {
				t.Errorf("%d names were tried, want 100", b.temps)
			}
			if diff := cmp.Diff(`.tmp-1 0000 0:0 1 "" map[]`+"\n"+oldLine, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNameChangesHands: a temporary name that somebody else has by the time of the
// clean-up is not taken away.
func TestNameChangesHands(t *testing.T) {
	p := &tap{}
	b := newBench(t, p, nil)
	p.strike = func(op vfs.OpKind, name string, done bool) error {
		if op != vfs.OpRename || done {
			return nil
		}
		b.must(b.admin.Remove("d/" + name))
		b.must(b.admin.Make("d/"+name, memfs.Node{Data: []byte("mine")}))
		return &fs.PathError{Op: "renameat", Path: name, Err: syscall.EIO}
	}
	if _, err := b.put(vfs.CapNoReplace, nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("Put = %v, want EIO", err)
	}
	if diff := cmp.Diff(`.tmp-1 0000 0:0 1 "mine" map[]`, b.tree()); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// TestNewcomerWins: a file that appears just before a new one gets its name stays.
func TestNewcomerWins(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			b := newBench(t, &tap{}, nil)
			_, err := b.put(way.caps, func() error {
				return b.admin.Make("d/f", memfs.Node{Bits: 0o666, Data: []byte("first")})
			})
			var pe *publish.Error
			if !errors.As(err, &pe) || pe.Step != publish.StepPublish || pe.Unknown || !errors.Is(err, syscall.EEXIST) {
				t.Errorf("Put = %v, want EEXIST at step publish, outcome known", err)
			}
			if diff := cmp.Diff(`f 0666 0:0 1 "first" map[]`, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	errStale := errors.New("stale")
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			var ops []vfs.OpKind
			p := &tap{}
			b := newBench(t, p, map[string]memfs.Node{"f": oldFile})
			p.strike = func(op vfs.OpKind, _ string, done bool) error {
				if !done {
					ops = append(ops, op)
				}
				return nil
			}
			_, err := b.put(way.caps, func() error {
				if last := ops[len(ops)-1]; last != vfs.OpSync {
					t.Errorf("the last look came after %s, want it after sync", last)
				}
				return errStale
			})
			var pe *publish.Error
			if !errors.As(err, &pe) || pe.Step != publish.StepCheck || pe.Unknown || !errors.Is(err, errStale) {
				t.Errorf("Put = %v, want %v at step check, outcome known", err, errStale)
			}
			if diff := cmp.Diff(oldLine, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoWayToName: where a name can be taken only by replacing, nothing is put in
// place, and nothing is written in place either.
func TestNoWayToName(t *testing.T) {
	b := newBench(t, &tap{}, nil)
	if _, err := b.put(vfs.CapPerm, nil); !errors.Is(err, vfs.ErrUnsupported) {
		t.Errorf("Put = %v, want %v", err, vfs.ErrUnsupported)
	}
	if diff := cmp.Diff("", b.tree()); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

// TestPlaceWithoutNamelessFiles: the backend promises them, and this place has
// none.
func TestPlaceWithoutNamelessFiles(t *testing.T) {
	for _, refusal := range []error{vfs.ErrUnsupported, syscall.EOPNOTSUPP, syscall.EISDIR} {
		t.Run(refusal.Error(), func(t *testing.T) {
			p := &tap{strike: func(op vfs.OpKind, name string, _ bool) error {
				if op == vfs.OpOpenDoom {
					return &fs.PathError{Op: "openat", Path: name, Err: refusal}
				}
				return nil
			}}
			b := newBench(t, p, nil)
			_, err := b.put(vfs.CapPublish|vfs.CapNoReplace, nil)
			b.must(err)
			if diff := cmp.Diff(freshLine, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShortWrites(t *testing.T) {
	upTo := func(most int, report error) func(vfs.File, []byte) (int, error) {
		return func(f vfs.File, p []byte) (int, error) {
			n, err := f.Write(p[:min(most, len(p))])
			if err == nil && n < len(p) {
				err = report
			}
			return n, err
		}
	}
	for _, tt := range []struct {
		name  string
		write func(vfs.File, []byte) (int, error)
		err   error
	}{
		{"byte by byte", upTo(1, io.ErrShortWrite), nil},
		{"byte by byte and silent", upTo(1, nil), nil},
		{"nothing at all", upTo(0, io.ErrShortWrite), io.ErrShortWrite},
		{"nothing at all and silent", upTo(0, nil), io.ErrShortWrite},
		{"a full disk", upTo(5, &fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}), syscall.ENOSPC},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, &tap{write: tt.write}, map[string]memfs.Node{"f": oldFile})
			_, err := b.put(ways[1].caps, nil)
			want := newLine
			if tt.err != nil {
				want = oldLine
			}
			var pe *publish.Error
			if !errors.Is(err, tt.err) || tt.err != nil && (!errors.As(err, &pe) || pe.Step != publish.StepWrite || pe.Unknown) {
				t.Errorf("Put = %v, want %v at step write, outcome known", err, tt.err)
			}
			if diff := cmp.Diff(want, b.tree()); diff != "" {
				t.Errorf("the directory (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSyncDir(t *testing.T) {
	for _, tt := range []struct {
		err, want error
	}{
		{nil, nil},
		{syscall.EINVAL, nil},
		{syscall.EACCES, nil},
		{vfs.ErrUnsupported, nil},
		{syscall.EIO, syscall.EIO},
		{syscall.ENOSPC, syscall.ENOSPC},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			p := &tap{strike: func(vfs.OpKind, string, bool) error { return tt.err }}
			b := newBench(t, &tap{}, nil)
			if err := publish.SyncDir(p.dir(b.dir)); !errors.Is(err, tt.want) {
				t.Errorf("SyncDir = %v, want %v", err, tt.want)
			}
		})
	}
}

func TestErrorText(t *testing.T) {
	reason := &fs.PathError{Op: "renameat", Path: "f", Err: syscall.EIO}
	for _, tt := range []struct {
		err  publish.Error
		want string
	}{
		{publish.Error{Step: publish.StepPublish, Err: reason}, "publish: renameat f: input/output error"},
		{
			publish.Error{Step: publish.StepSyncDir, Err: reason, Unknown: true},
			"sync directory: the outcome is unknown: renameat f: input/output error",
		},
	} {
		if diff := cmp.Diff(tt.want, tt.err.Error()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
