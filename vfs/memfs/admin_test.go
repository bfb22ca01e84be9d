package memfs_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// tree describes what is in the store, one line an entry.
func (b *bench) tree() []string {
	var lines []string
	b.admin.Walk(func(p string, n memfs.Node) {
		line := fmt.Sprintf("%s %v %d %s%s", p, n.Type, n.Nlink, n.Data, n.Link)
		lines = append(lines, strings.TrimSpace(line))
	})
	return lines
}

// aTree has a file of two names, a link, and a directory in a directory.
func aTree(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, memfs.Node{Bits: 0o755})
	b.make("d/e", memfs.Node{Type: fs.ModeDir, Bits: 0o755})
	b.make("d/e/f", memfs.Node{Bits: 0o644, Data: []byte("text")})
	b.must(b.admin.Hardlink("g", "d/e/f"))
	b.make("l", memfs.Node{Type: fs.ModeSymlink, Link: "d"})
	return b
}

func TestAdmin(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(a memfs.Admin) error
		err  error
		want []string // nil: as before
	}{
		{"nothing", func(memfs.Admin) error { return nil }, nil, nil},
		{
			"make", func(a memfs.Admin) error { return a.Make("d/p", memfs.Node{Type: fs.ModeNamedPipe}) }, nil,
			[]string{"d d--------- 3", "d/e d--------- 2", "d/e/f ---------- 2 text", "d/p p--------- 1", "g ---------- 2 text", "l L--------- 1 d"},
		},
		{"make what is there", func(a memfs.Admin) error { return a.Make("g", memfs.Node{}) }, syscall.EEXIST, nil},
		{"make without a parent", func(a memfs.Admin) error { return a.Make("x/y", memfs.Node{}) }, syscall.ENOENT, nil},
		{"make in a file", func(a memfs.Admin) error { return a.Make("g/y", memfs.Node{}) }, syscall.ENOTDIR, nil},
		{"make below a file", func(a memfs.Admin) error { return a.Make("g/y/z", memfs.Node{}) }, syscall.ENOTDIR, nil},
		{"make through a link", func(a memfs.Admin) error { return a.Make("l/y", memfs.Node{}) }, syscall.ENOTDIR, nil},
		{"make a device", func(a memfs.Admin) error { return a.Make("x", memfs.Node{Type: fs.ModeDevice}) }, syscall.EINVAL, nil},
		{"make no name", func(a memfs.Admin) error { return a.Make("d/", memfs.Node{}) }, fs.ErrInvalid, nil},
		{"make too long a name", func(a memfs.Admin) error { return a.Make("d/"+strings.Repeat("n", 256), memfs.Node{}) }, syscall.ENAMETOOLONG, nil},
		{"rename to too long a name", func(a memfs.Admin) error { return a.Rename("g", strings.Repeat("n", 256)) }, syscall.ENAMETOOLONG, nil},
		{"make dots", func(a memfs.Admin) error { return a.Make("d/..", memfs.Node{}) }, fs.ErrInvalid, nil},
		{
			"write over: all names see it", func(a memfs.Admin) error { return a.Write("g", []byte("new"), memfs.Node{}) }, nil,
			[]string{"d d--------- 3", "d/e d--------- 2", "d/e/f ---------- 2 new", "g ---------- 2 new", "l L--------- 1 d"},
		},
		{
			"write anew", func(a memfs.Admin) error { return a.Write("h", []byte("new"), memfs.Node{}) }, nil,
			[]string{"d d--------- 3", "d/e d--------- 2", "d/e/f ---------- 2 text", "g ---------- 2 text", "h ---------- 1 new", "l L--------- 1 d"},
		},
		{"write over a directory", func(a memfs.Admin) error { return a.Write("d", nil, memfs.Node{}) }, syscall.EEXIST, nil},
		{"write over a link", func(a memfs.Admin) error { return a.Write("l", nil, memfs.Node{}) }, syscall.EEXIST, nil},
		{"write below a file", func(a memfs.Admin) error { return a.Write("g/x", nil, memfs.Node{}) }, syscall.ENOTDIR, nil},
		{"change nothing that is there", func(a memfs.Admin) error { return a.Change("x", func(*memfs.Node) {}) }, syscall.ENOENT, nil},
		{"change what is only seen", func(a memfs.Admin) error {
			return a.Change("l", func(n *memfs.Node) { n.Link, n.Type, n.Nlink, n.Data = "x", 0, 7, []byte("x") })
		}, nil, nil},
		{"hardlink a directory", func(a memfs.Admin) error { return a.Hardlink("x", "d") }, syscall.EPERM, nil},
		{"hardlink nothing", func(a memfs.Admin) error { return a.Hardlink("x", "y") }, syscall.ENOENT, nil},
		{"hardlink over something", func(a memfs.Admin) error { return a.Hardlink("l", "g") }, syscall.EEXIST, nil},
		{
			"unlink one of two names", func(a memfs.Admin) error { return a.Unlink("g") }, nil,
			[]string{"d d--------- 3", "d/e d--------- 2", "d/e/f ---------- 1 text", "l L--------- 1 d"},
		},
		{"unlink a directory", func(a memfs.Admin) error { return a.Unlink("d") }, syscall.EISDIR, nil},
		{"unlink nothing", func(a memfs.Admin) error { return a.Unlink("x") }, syscall.ENOENT, nil},
		{
			"remove with all below", func(a memfs.Admin) error { return a.Remove("d") }, nil,
			[]string{"g ---------- 1 text", "l L--------- 1 d"},
		},
		{"remove nothing", func(a memfs.Admin) error { return a.Remove("d/x") }, syscall.ENOENT, nil},
		{
			"rename", func(a memfs.Admin) error { return a.Rename("d/e", "x") }, nil,
			[]string{"d d--------- 2", "g ---------- 2 text", "l L--------- 1 d", "x d--------- 2", "x/f ---------- 2 text"},
		},
		{
			"rename over a full directory", func(a memfs.Admin) error { return a.Rename("l", "d/e") }, nil,
			[]string{"d d--------- 2", "d/e L--------- 1 d", "g ---------- 1 text"},
		},
		{
			"rename over another name of the same", func(a memfs.Admin) error { return a.Rename("g", "d/e/f") }, nil,
			[]string{"d d--------- 3", "d/e d--------- 2", "d/e/f ---------- 1 text", "l L--------- 1 d"},
		},
		{"rename to itself", func(a memfs.Admin) error { return a.Rename("d", "d") }, nil, nil},
		{"rename into itself", func(a memfs.Admin) error { return a.Rename("d", "d/e/x") }, syscall.EINVAL, nil},
		{"rename over what holds it", func(a memfs.Admin) error { return a.Rename("d/e/f", "d") }, syscall.EINVAL, nil},
		{"rename nothing", func(a memfs.Admin) error { return a.Rename("x", "g") }, syscall.ENOENT, nil},
		{"rename to nowhere", func(a memfs.Admin) error { return a.Rename("g", "x/y") }, syscall.ENOENT, nil},
		{
			"exchange", func(a memfs.Admin) error { return a.Exchange("d/e", "l") }, nil,
			[]string{"d d--------- 2", "d/e L--------- 1 d", "g ---------- 2 text", "l d--------- 2", "l/f ---------- 2 text"},
		},
		{"exchange with itself", func(a memfs.Admin) error { return a.Exchange("d", "d") }, nil, nil},
		{"exchange with what it holds", func(a memfs.Admin) error { return a.Exchange("d", "d/e/f") }, syscall.EINVAL, nil},
		{"exchange with what holds it", func(a memfs.Admin) error { return a.Exchange("d/e", "d") }, syscall.EINVAL, nil},
		{"exchange with nothing", func(a memfs.Admin) error { return a.Exchange("d", "x") }, syscall.ENOENT, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := aTree(t)
			want := tt.want
			if want == nil {
				want = b.tree()
			}
			if err := tt.do(b.admin); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			if diff := cmp.Diff(want, b.tree()); diff != "" {
				t.Errorf("the tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAdminIsNotBound: nothing that binds others binds the hands of the owner.
func TestAdminIsNotBound(t *testing.T) {
	b := newBench(t, memfs.Node{Immutable: true, Mount: memfs.BoundReadOnly})
	b.make("d/f", memfs.Node{Immutable: true, Mount: memfs.Bound, Data: []byte("old")})
	b.must(b.admin.Write("d/f", []byte("new"), memfs.Node{}))
	b.must(b.admin.Rename("d/f", "d/g"))
	n, err := b.admin.Look("d/g")
	b.must(err)
	if string(n.Data) != "new" || !n.Immutable || n.Mount != memfs.Bound || !b.admin.Exists("d/g") || b.admin.Exists("d/f") {
		t.Errorf("d/g is %+v", n)
	}
	b.must(b.admin.Remove("d"))
}

// TestTimes: the clock is the tree's own, and Admin can set it.
func TestTimes(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777})
	d := b.open("/d", alice)
	mtime := func() int64 {
		t.Helper()
		info, err := d.Lstat("f")
		b.must(err)
		return info.Mtime.UnixNano()
	}
	b.must(write(d, "f", "x", vfs.WriteOnly|vfs.Create))
	first := mtime()
	b.must(write(d, "f", "y", vfs.WriteOnly))
	if mtime() <= first {
		t.Error("a write does not move the clock")
	}
	last := mtime()
	b.must(write(d, "f", "", vfs.WriteOnly|vfs.Truncate))
	if mtime() <= last {
		t.Error("a truncation does not move the clock")
	}
	b.must(b.admin.Change("d/f", func(n *memfs.Node) { n.Mtime = 1_000_000_000 }))
	if got := mtime(); got != 1_000_000_000e9 {
		t.Errorf("the time is %d, want the one that was set", got)
	}
	b.must(b.admin.Write("d/f", []byte("z"), memfs.Node{Mtime: 5}))
	if got := mtime(); got != 5e9 {
		t.Errorf("the time is %d, want the one that was set", got)
	}
	other := memfs.New(memfs.Cred{}).Admin()
	b.must(other.Make("d", memfs.Node{Type: fs.ModeDir}))
	if n, _ := other.Look("d"); n.ID.Ino != 2 {
		t.Errorf("the second object of a tree is %v, want it to be the same in every run", n.ID)
	}
}

// TestHandedOut: bytes that were given to the tree, or by it, belong to both sides,
// and no side changes them under the other.
func TestHandedOut(t *testing.T) {
	changes := map[string]func(b *bench) error{
		"write": func(b *bench) error { return write(b.open("/d", root), "f", "XX", vfs.WriteOnly) },
		"append": func(b *bench) error {
			return write(b.open("/d", root), "f", "XX", vfs.WriteOnly|vfs.Append)
		},
		"truncate and write": func(b *bench) error {
			return write(b.open("/d", root), "f", "XX", vfs.WriteOnly|vfs.Truncate)
		},
		"shrink and write": func(b *bench) error {
			f, err := b.open("/d", root).OpenFile("f", vfs.ReadWrite, 0)
			if err != nil {
				return err
			}
			err = f.Truncate(2)
			_, werr := f.Write([]byte("XXXX"))
			return errors.Join(err, werr)
		},
	}
	for name, change := range changes {
		for way, handOut := range map[string]func(b *bench) []byte{
			"made": func(b *bench) []byte {
				data := make([]byte, 4, 16)
				copy(data, "text")
				b.make("d/f", memfs.Node{Data: data})
				return data
			},
			"written": func(b *bench) []byte {
				data := []byte("text")
				b.must(b.admin.Write("d/f", data, memfs.Node{}))
				return data
			},
			"changed": func(b *bench) []byte {
				data := []byte("text")
				b.make("d/f", memfs.Node{})
				b.must(write(b.open("/d", root), "f", "mine", vfs.WriteOnly))
				b.must(b.admin.Change("d/f", func(n *memfs.Node) { n.Data = data }))
				return data
			},
			"looked at": func(b *bench) []byte {
				b.must(write(b.open("/d", root), "f", "text", vfs.WriteOnly|vfs.Create))
				n, err := b.admin.Look("d/f")
				b.must(err)
				return n.Data
			},
			"walked over": func(b *bench) (data []byte) {
				b.must(write(b.open("/d", root), "f", "text", vfs.WriteOnly|vfs.Create))
				b.admin.Walk(func(_ string, n memfs.Node) { data = n.Data })
				return data
			},
		} {
			t.Run(way+", then "+name, func(t *testing.T) {
				b := newBench(t, memfs.Node{Bits: 0o777})
				data := handOut(b)
				b.must(change(b))
				if string(data) != "text" || string(data[:cap(data)][:4]) != "text" {
					t.Errorf("what was handed out is now %q", data)
				}
				n, err := b.admin.Look("d/f")
				b.must(err)
				if !strings.Contains(string(n.Data), "XX") {
					t.Errorf("the file is %q, want it changed", n.Data)
				}
			})
		}
	}
	b := newBench(t, memfs.Node{Bits: 0o777})
	xattrs := map[string][]byte{"user.a": []byte("1")}
	b.make("d/f", memfs.Node{Xattrs: xattrs})
	delete(xattrs, "user.a")
	n, err := b.admin.Look("d/f")
	b.must(err)
	n.Xattrs["user.b"] = nil
	if n, err = b.admin.Look("d/f"); err != nil || len(n.Xattrs) != 1 {
		t.Errorf("attributes are %v (%v), want the one that was made", n.Xattrs, err)
	}
}
