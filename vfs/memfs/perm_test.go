package memfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

var (
	root  = memfs.Cred{Umask: 0o022}
	alice = memfs.Cred{UID: 1000, GID: 1000, Groups: []uint32{3000}, Umask: 0o022}
	bob   = memfs.Cred{UID: 2000, GID: 2000, Umask: 0o077}
)

// bench is a tree with the directory "d" and whatever else a test makes.
type bench struct {
	t     *testing.T
	store *memfs.Store
	admin memfs.Admin
}

func newBench(t *testing.T, d memfs.Node) *bench {
	t.Helper()
	b := &bench{t: t, store: memfs.New(memfs.Cred{})}
	b.admin = b.store.Admin()
	d.Type = fs.ModeDir
	b.make("d", d)
	return b
}

func (b *bench) make(p string, n memfs.Node) {
	b.t.Helper()
	b.must(b.admin.Make(p, n))
}

func (b *bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) open(p string, c memfs.Cred) vfs.Dir {
	b.t.Helper()
	d, err := b.store.As(c).OpenRoot(p)
	b.must(err)
	return d
}

// look describes an entry: type, mode, owner, names.
func (b *bench) look(p string) string {
	b.t.Helper()
	n, err := b.admin.Look(p)
	b.must(err)
	return fmt.Sprintf("%v %04o %d:%d %d", n.Type, n.Bits, n.UID, n.GID, n.Nlink)
}

func write(d vfs.Dir, name, text string, flag vfs.Flag) error {
	f, err := d.OpenFile(name, flag, 0o666)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(text))
	return errors.Join(err, f.Close())
}

// TestRefusals is about what one identity may do in "d", which holds "f".
func TestRefusals(t *testing.T) {
	create := func(d vfs.Dir) error { return write(d, "new", "x", vfs.WriteOnly|vfs.Create) }
	remove := func(d vfs.Dir) error { return d.Remove("f") }
	rename := func(d vfs.Dir) error { return d.Rename("f", d, "g", vfs.Replace) }
	overwrite := func(d vfs.Dir) error { return write(d, "f", "x", vfs.WriteOnly) }
	truncate := func(d vfs.Dir) error { return write(d, "f", "x", vfs.WriteOnly|vfs.Truncate) }
	emptied := func(d vfs.Dir) error { _, err := d.OpenFile("f", vfs.ReadOnly|vfs.Truncate, 0); return err }
	probe := func(d vfs.Dir) error { _, err := d.OpenFile("f", vfs.Probe, 0); return err }
	link := func(d vfs.Dir) error { return d.Link("f", d, "h") }
	doomed := func(d vfs.Dir) error { _, err := d.OpenFile("", vfs.Doomed, 0o600); return err }
	into := func(d vfs.Dir) error {
		if err := d.Mkdir("e", 0o755); err != nil {
			return err
		}
		e, err := d.OpenDir("e")
		if err != nil {
			return err
		}
		return d.Rename("f", e, "g", vfs.Replace)
	}
	for _, tt := range []struct {
		name string
		as   memfs.Cred
		dir  memfs.Node
		file memfs.Node
		do   func(d vfs.Dir) error
		want error
	}{
		{"create in one's own", alice, memfs.Node{Bits: 0o755, UID: 1000}, memfs.Node{}, create, nil},
		{"create in one's own that is closed", alice, memfs.Node{Bits: 0o577, UID: 1000}, memfs.Node{}, create, syscall.EACCES},
		{"create by the bits of the group", alice, memfs.Node{Bits: 0o070, GID: 3000}, memfs.Node{}, create, nil},
		{"create by the bits of the others", bob, memfs.Node{Bits: 0o773, GID: 3000}, memfs.Node{}, create, nil},
		{"the bits of the group bind its members", alice, memfs.Node{Bits: 0o707, GID: 3000}, memfs.Node{}, create, syscall.EACCES},
		{"root is not bound", root, memfs.Node{Bits: 0, UID: 1000}, memfs.Node{}, create, nil},
		{"root is bound by an immutable directory", root, memfs.Node{Bits: 0o777, Immutable: true}, memfs.Node{}, create, syscall.EPERM},
		{"root is bound by a read-only mount", root, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{}, create, syscall.EROFS},
		{"a mount point can be written", alice, memfs.Node{Bits: 0o777, Mount: memfs.Bound}, memfs.Node{}, create, nil},
		{"a read-only mount before the bits", alice, memfs.Node{Bits: 0o555, Mount: memfs.BoundReadOnly}, memfs.Node{}, create, syscall.EROFS},
		{"an immutable directory before the bits", alice, memfs.Node{Bits: 0o555, Immutable: true}, memfs.Node{}, create, syscall.EPERM},
		{"no search before all else", alice, memfs.Node{Bits: 0o666, Mount: memfs.BoundReadOnly}, memfs.Node{}, create, syscall.EACCES},
		{"a nameless file too", alice, memfs.Node{Bits: 0o666, Mount: memfs.BoundReadOnly}, memfs.Node{}, doomed, syscall.EACCES},
		{"a nameless file on a read-only mount", alice, memfs.Node{Bits: 0o555, Mount: memfs.BoundReadOnly}, memfs.Node{}, doomed, syscall.EROFS},
		{"a nameless file in a closed directory", alice, memfs.Node{Bits: 0o555}, memfs.Node{}, doomed, syscall.EACCES},

		{"remove another's", alice, memfs.Node{Bits: 0o777}, memfs.Node{UID: 2000}, remove, nil},
		{"remove another's from a sticky directory", alice, memfs.Node{Bits: 0o1777}, memfs.Node{UID: 2000}, remove, syscall.EPERM},
		{"remove one's own from a sticky directory", alice, memfs.Node{Bits: 0o1777}, memfs.Node{UID: 1000}, remove, nil},
		{"remove another's from one's own sticky directory", alice, memfs.Node{Bits: 0o1777, UID: 1000}, memfs.Node{UID: 2000}, remove, nil},
		{"the closed directory before the sticky bit", alice, memfs.Node{Bits: 0o1755}, memfs.Node{UID: 2000}, remove, syscall.EACCES},
		{"rename another's in a sticky directory", alice, memfs.Node{Bits: 0o1777}, memfs.Node{UID: 2000}, rename, syscall.EPERM},
		{"rename an immutable file", alice, memfs.Node{Bits: 0o777}, memfs.Node{UID: 1000, Immutable: true}, rename, syscall.EPERM},
		{"remove an immutable file", root, memfs.Node{Bits: 0o777}, memfs.Node{Immutable: true}, remove, syscall.EPERM},
		{"remove a mount point", root, memfs.Node{Bits: 0o777}, memfs.Node{Mount: memfs.Bound}, remove, syscall.EBUSY},
		{"remove from a read-only mount", root, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{}, remove, syscall.EROFS},

		{"write to a closed file", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o444, UID: 1000}, overwrite, syscall.EACCES},
		{"write to an immutable file", root, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o666, Immutable: true}, overwrite, syscall.EPERM},
		{"write to a closed file on a read-only mount", alice, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{Bits: 0o444}, overwrite, syscall.EACCES},
		{"truncate a closed file on a read-only mount", alice, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{Bits: 0o444}, truncate, syscall.EROFS},
		{"truncate while reading takes the right to write", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o444}, emptied, syscall.EACCES},
		{"probe a closed file", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o444}, probe, syscall.EACCES},
		{"probe on a read-only mount", root, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{Bits: 0o666}, probe, syscall.EROFS},
		{"probe a pipe that nobody reads", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o666}, probe, syscall.ENXIO},
		{"write to a pipe and wait", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o666}, overwrite, syscall.EAGAIN},

		{"a pipe is not on its mount", alice, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o666}, probe, syscall.ENXIO},
		{"truncate a pipe on a read-only mount", alice, memfs.Node{Bits: 0o777, Mount: memfs.BoundReadOnly}, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o666}, emptied, syscall.EAGAIN},
		{"move a directory that one may not write to", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeDir, Bits: 0o555, UID: 1000}, into, syscall.EACCES},
		{"move one that one may", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: 1000}, into, nil},
		{"rename one that one may not write to", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeDir, Bits: 0o555, UID: 1000}, rename, nil},

		{"link to one's own", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0, UID: 1000}, link, nil},
		{"link to what one could write", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o666}, link, nil},
		{"link to what one could only read", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o644}, link, syscall.EPERM},
		{"link to a setuid file", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o4666}, link, syscall.EPERM},
		{"link to an executable setgid file", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o2676}, link, syscall.EPERM},
		{"link to a setgid file", alice, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o2666}, link, nil},
		{"link to another's pipe", alice, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o666}, link, syscall.EPERM},
		{"link to an immutable file", root, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o666, Immutable: true}, link, syscall.EPERM},
		{"link to a mount point", root, memfs.Node{Bits: 0o777}, memfs.Node{Bits: 0o666, Mount: memfs.Bound}, link, syscall.EXDEV},
		{"link to a directory", root, memfs.Node{Bits: 0o777}, memfs.Node{Type: fs.ModeDir, Bits: 0o777}, link, syscall.EPERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.dir)
			b.make("d/f", tt.file)
			err := tt.do(b.open("/d", tt.as))
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			var pe *fs.PathError
			if err != nil && errors.As(err, &pe) && strings.Contains(pe.Path, "/") {
				t.Errorf("the error names more than a name: %v", err)
			}
		})
	}
}

// TestBirth is about the mode and the owner that new entries get.
func TestBirth(t *testing.T) {
	for _, tt := range []struct {
		name  string
		as    memfs.Cred
		dir   memfs.Node
		perm  fs.FileMode
		file  string
		child string // a directory
	}{
		{"umask", alice, memfs.Node{Bits: 0o777}, 0o777, "---------- 0755 1000:1000 1", "d--------- 0755 1000:1000 2"},
		{"another umask", bob, memfs.Node{Bits: 0o777}, 0o777, "---------- 0700 2000:2000 1", "d--------- 0700 2000:2000 2"},
		{"special bits", alice, memfs.Node{Bits: 0o777}, 0o777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, "---------- 7755 1000:1000 1", "d--------- 1755 1000:1000 2"},
		{"setgid directory", alice, memfs.Node{Bits: 0o2777, GID: 3000}, 0o640, "---------- 0640 1000:3000 1", "d--------- 2640 1000:3000 2"},
		{"setgid directory of a group of others", alice, memfs.Node{Bits: 0o2777, GID: 5000}, 0o755 | fs.ModeSetgid, "---------- 0755 1000:5000 1", "d--------- 2755 1000:5000 2"},
		{"setgid without execute", alice, memfs.Node{Bits: 0o2777, GID: 5000}, 0o745 | fs.ModeSetgid, "---------- 2745 1000:5000 1", "d--------- 2745 1000:5000 2"},
		{"setgid of one's own group", alice, memfs.Node{Bits: 0o2777, GID: 3000}, 0o755 | fs.ModeSetgid, "---------- 2755 1000:3000 1", "d--------- 2755 1000:3000 2"},
		{"setgid that the umask would have saved", memfs.Cred{UID: 1, GID: 1, Umask: 0o777}, memfs.Node{Bits: 0o2777, GID: 5000}, 0o755 | fs.ModeSetgid, "---------- 0000 1:5000 1", "d--------- 2000 1:5000 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.dir)
			d := b.open("/d", tt.as)
			f, err := d.OpenFile("f", vfs.ReadWrite|vfs.Create, tt.perm)
			b.must(err)
			if _, err := f.Write(nil); err != nil {
				t.Errorf("who makes a file may write to it, whatever its mode: %v", err)
			}
			doomed, err := d.OpenFile("", vfs.Doomed, tt.perm)
			b.must(err)
			b.must(d.Publish(doomed, "doomed"))
			b.must(d.Mkdir("e", tt.perm))
			b.must(d.Symlink("f", "l"))
			for p, want := range map[string]string{
				"d/f": tt.file, "d/doomed": tt.file, "d/e": tt.child,
				"d/l": "L--------- 0777 " + strings.Fields(tt.file)[2] + " 1",
			} {
				if got := b.look(p); got != want {
					t.Errorf("%s is %s, want %s", p, got, want)
				}
			}
		})
	}
}

// TestPrivileges is about what a write, a truncation and a change of owner leave of
// setuid and setgid.
func TestPrivileges(t *testing.T) {
	for _, tt := range []struct {
		name string
		as   memfs.Cred
		bits uint32
		do   func(f vfs.File) error
		want uint32
		err  error
	}{
		{"write", alice, 0o6777, func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, 0o777, nil},
		{"empty write", alice, 0o6777, func(f vfs.File) error { _, err := f.Write(nil); return err }, 0o6777, nil},
		{"write by root", root, 0o6777, func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, 0o6777, nil},
		{"write by a member, setgid without execute", alice, 0o2766, func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, 0o2766, nil},
		{"write by another, setgid without execute", bob, 0o2766, func(f vfs.File) error { _, err := f.Write([]byte("x")); return err }, 0o766, nil},
		{"truncate", alice, 0o6777, func(f vfs.File) error { return f.Truncate(0) }, 0o777, nil},
		{"chmod", alice, 0o666, func(f vfs.File) error { return f.Chmod(0o755 | fs.ModeSetuid | fs.ModeSetgid) }, 0o6755, nil},
		{"chmod by another", bob, 0o666, func(f vfs.File) error { return f.Chmod(0o755) }, 0o666, syscall.EPERM},
		{"chown to oneself", alice, 0o6777, func(f vfs.File) error { return f.Chown(1000, 3000) }, 0o777, nil},
		{"chown to another", alice, 0o6777, func(f vfs.File) error { return f.Chown(2000, -1) }, 0o6777, syscall.EPERM},
		{"chown to a group of others", alice, 0o6777, func(f vfs.File) error { return f.Chown(-1, 2000) }, 0o6777, syscall.EPERM},
		{"chown by root", root, 0o6777, func(f vfs.File) error { return f.Chown(2000, 2000) }, 0o777, nil},
		{"chown of nothing", bob, 0o666, func(f vfs.File) error { return f.Chown(-1, -1) }, 0o666, nil},
		{"chown of nothing that drops bits", bob, 0o4666, func(f vfs.File) error { return f.Chown(-1, -1) }, 0o4666, syscall.EPERM},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, memfs.Node{Bits: 0o777})
			b.make("d/f", memfs.Node{Bits: 0o666, UID: 1000, GID: 3000})
			f, err := b.open("/d", tt.as).OpenFile("f", vfs.WriteOnly, 0)
			b.must(err)
			b.must(b.admin.Change("d/f", func(n *memfs.Node) { n.Bits = tt.bits }))
			if err := tt.do(f); !errors.Is(err, tt.err) {
				t.Errorf("got %v, want %v", err, tt.err)
			}
			if n, _ := b.admin.Look("d/f"); n.Bits != tt.want {
				t.Errorf("the mode is %04o, want %04o", n.Bits, tt.want)
			}
		})
	}
}

// TestSetgidOfOthers: who is not of a group cannot make files act for it.
func TestSetgidOfOthers(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777})
	b.make("d/f", memfs.Node{Bits: 0o666, UID: 1000, GID: 5000})
	f, err := b.open("/d", alice).OpenFile("f", vfs.ReadOnly, 0)
	b.must(err)
	b.must(f.Chmod(0o755 | fs.ModeSetgid))
	if got, want := b.look("d/f"), "---------- 0755 1000:5000 1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestDeadDirectories: a directory that was removed stays open, and nothing can be
// found or made in it, nor can one that was replaced.
func TestDeadDirectories(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777, UID: 1000})
	top := b.open("/d", alice)
	for _, name := range []string{"removed", "replaced", "other"} {
		b.must(top.Mkdir(name, 0o755))
	}
	f, err := top.OpenFile("", vfs.Doomed, 0o600)
	b.must(err)
	for _, name := range []string{"removed", "replaced"} {
		d, err := top.OpenDir(name)
		b.must(err)
		if name == "removed" {
			b.must(top.Rmdir(name))
		} else {
			b.must(top.Rename("other", top, name, vfs.Replace))
		}
		if info, err := d.Stat(); err != nil || info.Nlink != 0 {
			t.Errorf("%s: Stat = %+v, %v, want no links", name, info, err)
		}
		_, openErr := d.OpenFile("f", vfs.WriteOnly|vfs.Create, 0o600)
		_, _, readErr := d.ReadDir(0)
		_, lstatErr := d.Lstat("f")
		for what, err := range map[string]error{
			"create": openErr, "Mkdir": d.Mkdir("f", 0o700), "Symlink": d.Symlink("x", "f"), "Publish": d.Publish(f, "f"),
			"ReadDir": readErr, "Lstat": lstatErr, "Rename": top.Rename("replaced", d, "f", vfs.Replace),
		} {
			if !errors.Is(err, syscall.ENOENT) {
				t.Errorf("%s: %s = %v, want ENOENT", name, what, err)
			}
		}
		if _, err := d.OpenFile("", vfs.Doomed, 0o600); !errors.Is(err, syscall.EPERM) {
			t.Errorf("%s: a nameless file: %v, want EPERM", name, err)
		}
		b.must(d.Close())
	}
}

// TestPublishOnce: a nameless file gets its first name by Publish. Once it had one
// and lost it, it can have no other.
func TestPublishOnce(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777, UID: 1000})
	d := b.open("/d", alice)
	f, err := d.OpenFile("", vfs.Doomed, 0o600)
	b.must(err)
	b.must(d.Publish(f, "a"))
	b.must(d.Publish(f, "b"))
	if err := d.Publish(f, "a"); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("Publish over a name = %v, want EEXIST", err)
	}
	b.must(d.Remove("a"))
	b.must(d.Remove("b"))
	if err := d.Publish(f, "c"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("Publish of a removed file = %v, want ENOENT", err)
	}
}

// TestForeignHandles: what belongs to another tree is on another file system.
func TestForeignHandles(t *testing.T) {
	b, c := newBench(t, memfs.Node{Bits: 0o777}), newBench(t, memfs.Node{Bits: 0o777})
	here, there := b.open("/d", root), c.open("/d", root)
	b.must(write(here, "f", "x", vfs.WriteOnly|vfs.Create))
	f, err := there.OpenFile("", vfs.Doomed, 0o600)
	b.must(err)
	for what, err := range map[string]error{
		"Link": here.Link("f", there, "f"), "Rename": here.Rename("f", there, "f", vfs.Replace), "Publish": here.Publish(f, "g"),
		"Rename to nil": here.Rename("f", nil, "f", vfs.Replace), "SyncFS": b.store.As(root).SyncFS(nil),
	} {
		if !errors.Is(err, syscall.EXDEV) {
			t.Errorf("%s = %v, want EXDEV", what, err)
		}
	}
	if err := here.Rename("f", here, "g", 9); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Rename with an unknown flag = %v, want EINVAL", err)
	}
}

// TestOpenRoot is about the links and the dots in the path of a root, absolute
// links among them, which only this tree can have.
func TestOpenRoot(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o755})
	b.make("d/e", memfs.Node{Type: fs.ModeDir, Bits: 0o700, UID: 1000})
	b.make("d/e/bottom", memfs.Node{Type: fs.ModeDir, Bits: 0o755})
	b.make("f", memfs.Node{Bits: 0o644})
	for name, text := range map[string]string{
		"abs": "/d/e", "rel": "d/../d/e", "up": "d/e/..", "loop": "loop", "chain": "abs/bottom", "gone": "nowhere", "to-f": "f",
	} {
		b.make(name, memfs.Node{Type: fs.ModeSymlink, Bits: 0o777, Link: text})
	}
	for _, tt := range []struct {
		path string
		as   memfs.Cred
		want string // the directory, or the error
	}{
		{"/", alice, ""},
		{"//", alice, ""},
		{"/..", alice, ""},
		{"/d/e", alice, "d/e"},
		{"/d/e/", alice, "d/e"},
		{"/d/./e/../e", alice, "d/e"},
		{"/abs", alice, "d/e"},
		{"/rel", alice, "d/e"},
		{"/up", alice, "d"},
		{"/abs/..", alice, "d"},
		{"/chain", alice, "d/e/bottom"},
		{"/chain/../..", alice, "d"},
		{"/d/e", bob, "d/e"},
		{"/d/e/bottom", bob, "permission denied"},
		{"/chain", bob, "permission denied"},
		{"/f", alice, "not a directory"},
		{"/to-f", alice, "not a directory"},
		{"/f/..", alice, "not a directory"},
		{"/gone", alice, "no such file or directory"},
		{"/gone/..", alice, "no such file or directory"},
		{"/loop", alice, "too many levels of symbolic links"},
		{"d", alice, "invalid argument"},
		{"", alice, "invalid argument"},
		{"/" + strings.Repeat("n", 256), alice, "file name too long"},
		{strings.Repeat("/", 4096), alice, "file name too long"},
	} {
		t.Run(fmt.Sprintf("%.20s as %d", tt.path, tt.as.UID), func(t *testing.T) {
			d, err := b.store.As(tt.as).OpenRoot(tt.path)
			var pe *fs.PathError
			if errors.As(err, &pe) {
				if pe.Err.Error() != tt.want || strings.Contains(pe.Path, "/d") {
					t.Errorf("OpenRoot = %v, want %s", err, tt.want)
				}
				return
			}
			b.must(err)
			info, err := d.Stat()
			b.must(err)
			id := vfs.ID{}
			if tt.want != "" {
				n, err := b.admin.Look(tt.want)
				b.must(err)
				id = n.ID
			}
			if got := info.ID; got != id && tt.want != "" {
				t.Errorf("OpenRoot is at %v, want %s, %v", got, tt.want, id)
			}
		})
	}
}

// TestMounts: what is on a mount says so, also when it is opened from below.
func TestMounts(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777})
	b.make("d/m", memfs.Node{Type: fs.ModeDir, Bits: 0o777, Mount: memfs.BoundReadOnly})
	b.make("d/m/e", memfs.Node{Type: fs.ModeDir, Bits: 0o777})
	top, below := b.open("/d", root), b.open("/d/m/e", root)
	id := func(i vfs.Info, err error) uint64 {
		t.Helper()
		b.must(err)
		return i.MountID
	}
	m, err := top.OpenDir("m")
	b.must(err)
	outer, mount := id(top.Stat()), id(m.Stat())
	if id(top.Lstat("m")) != mount || id(m.Lstat("e")) != mount || id(below.Stat()) != mount || outer == mount || mount == 0 {
		t.Errorf("mounts are %d and %d, %d, %d", outer, mount, id(m.Lstat("e")), id(below.Stat()))
	}
	if err := below.Mkdir("f", 0o700); !errors.Is(err, syscall.EROFS) {
		t.Errorf("Mkdir below a read-only mount = %v, want EROFS", err)
	}
	if err := top.Rename("m", top, "n", vfs.Replace); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("Rename of a mount point = %v, want EBUSY", err)
	}
	if err := top.Mkdir("e", 0o700); err != nil {
		t.Error(err)
	}
	if err := m.Rename("e", top, "f", vfs.Replace); !errors.Is(err, syscall.EXDEV) {
		t.Errorf("Rename across mounts = %v, want EXDEV", err)
	}
}

// TestLargeFiles: a hole costs memory here, so there is a limit, as for a process.
func TestLargeFiles(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777})
	f, err := b.open("/d", root).OpenFile("f", vfs.ReadWrite|vfs.Create, 0o600)
	b.must(err)
	for _, off := range []int64{256 << 20, 1 << 62, 1<<63 - 1} {
		_, err := f.Seek(off, io.SeekStart)
		b.must(err)
		if n, err := f.Write([]byte("x")); n != 0 || !errors.Is(err, syscall.EFBIG) {
			t.Errorf("Write at %d = %d, %v, want EFBIG", off, n, err)
		}
		if err := f.Truncate(max(off, 256<<20+1)); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("Truncate to %d = %v, want EFBIG", off, err)
		}
		if n, err := f.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("Read at %d = %d, %v, want EOF", off, n, err)
		}
	}
}

func TestXattrs(t *testing.T) {
	b := newBench(t, memfs.Node{Bits: 0o777})
	b.make("d/f", memfs.Node{Bits: 0o666, Xattrs: map[string][]byte{"user.old": []byte("1")}})
	f, err := b.open("/d", alice).OpenFile("f", vfs.ReadOnly, 0)
	b.must(err)
	value := []byte("2")
	b.must(f.SetXattr("user.new", value))
	value[0] = 'X' // the caller's own
	got := map[string]string{}
	names, err := f.Xattrs()
	b.must(err)
	for _, name := range names {
		v, err := f.Xattr(name)
		b.must(err)
		got[name] = string(v)
	}
	if diff := cmp.Diff(map[string]string{"user.new": "2", "user.old": "1"}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	for _, tt := range []struct {
		name string
		size int
		want error
	}{
		{"user.big", 64<<10 + 1, syscall.E2BIG},
		{"user.", 1, syscall.EINVAL},
		{"", 1, syscall.ERANGE},
		{"user." + strings.Repeat("n", 251), 1, syscall.ERANGE},
		{"trusted.x", 1, syscall.EOPNOTSUPP},
	} {
		if err := f.SetXattr(tt.name, make([]byte, tt.size)); !errors.Is(err, tt.want) {
			t.Errorf("SetXattr(%.10q, %d bytes) = %v, want %v", tt.name, tt.size, err, tt.want)
		}
	}
	b.must(b.admin.Change("d/f", func(n *memfs.Node) { n.Bits = 0 }))
	_, readErr := f.Xattr("user.old")
	for what, err := range map[string]error{"Xattr": readErr, "SetXattr": f.SetXattr("user.x", nil)} {
		if !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s of a closed file = %v, want EACCES", what, err)
		}
	}
}
