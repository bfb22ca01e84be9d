package tools_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// rootPath is spelled so that it is noticed where it does not belong.
const rootPath = "/secret-root"

var (
	subject = memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}
	other   = memfs.Cred{UID: 2000, GID: 2000}
)

// world is a tree in memory, and tools that work in it.
type world struct {
	t     *testing.T
	store *memfs.Store
	admin memfs.Admin
	tap   *tap
	seam  *seam
	tools *tools.Tools
}

// grow makes a world from lines such as
//
//	"dir/"           a directory
//	"f"              a file that holds its own name
//	"f = text"       a file that holds text
//	"link => ../x"   a link; $ROOT in its text is the absolute name of the root
//	"h == f"         a further name of the file f
//	"pipe|"          a FIFO
//
// A name may be followed by a mode in octal, by "other" (it is somebody else's), by
// "immutable", and by "ro" or "bind" (it is a mount point). Parents come first. The
// directory "out" lies beside the root and holds the file "canary".
func grow(t *testing.T, lines ...string) *world {
	t.Helper()
	store := memfs.New(memfs.Cred{})
	w := &world{t: t, store: store, admin: store.Admin(), tap: &tap{}}
	w.seam = &seam{w: w}
	dir := memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: subject.UID, GID: subject.GID}
	w.must(w.admin.Make(rootPath[1:], dir))
	w.must(w.admin.Make("out", dir))
	w.must(w.admin.Make("out/canary", memfs.Node{Bits: 0o666, Data: []byte("alive")}))
	for _, line := range lines {
		w.add(line)
	}
	root, err := store.As(subject).OpenRoot(rootPath)
	w.must(err)
	w.tools = &tools.Tools{
		Root: &tapDir{root, w.tap}, RootPath: rootPath, Caps: store.As(subject).Caps(), Seam: w.seam, Steps: tools.Default(),
	}
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func at(name string) string { return path.Join(rootPath, name)[1:] }

func (w *world) add(line string) {
	w.t.Helper()
	head, old, isHard := strings.Cut(line, " == ")
	head, text, isLink := strings.Cut(head, " => ")
	head, content, isFile := strings.Cut(head, " = ")
	words := strings.Fields(head)
	name := strings.TrimRight(words[0], "/|")
	if isHard {
		w.must(w.admin.Hardlink(at(name), at(old)))
		return
	}
	n := memfs.Node{Bits: 0o600, UID: subject.UID, GID: subject.GID, Data: []byte(content)}
	switch {
	case isLink:
		n.Type, n.Bits, n.Link = fs.ModeSymlink, 0o777, strings.ReplaceAll(text, "$ROOT", rootPath)
	case strings.HasSuffix(words[0], "/"):
		n.Type, n.Bits = fs.ModeDir, 0o755
	case strings.HasSuffix(words[0], "|"):
		n.Type = fs.ModeNamedPipe
	case !isFile:
		n.Data = []byte(path.Base(name))
	}
	for _, word := range words[1:] {
		switch word {
		case "other":
			n.UID, n.GID = other.UID, other.GID
		case "immutable":
			n.Immutable = true
		case "ro":
			n.Mount = memfs.BoundReadOnly
		case "bind":
			n.Mount = memfs.Bound
		default:
			bits, err := strconv.ParseUint(word, 8, 32)
			w.must(err)
			n.Bits = uint32(bits)
		}
	}
	w.must(w.admin.Make(at(name), n))
}

// tree describes what is below the root in the lines that grow takes, sorted, the
// names of one file as they stand. What lies outside must be as it was.
func (w *world) tree() []string {
	lines := []string{}
	w.admin.Walk(func(p string, n memfs.Node) {
		if p == "out/canary" && string(n.Data) != "alive" {
			w.t.Errorf("the canary is %q", n.Data)
		}
		name, below := strings.CutPrefix(p, rootPath[1:]+"/")
		if !below {
			return
		}
		line, usual := name, uint32(0o600)
		switch n.Type {
		case fs.ModeDir:
			line, usual = name+"/", 0o755
		case fs.ModeNamedPipe:
			line = name + "|"
		case fs.ModeSymlink:
			usual = 0o777
		}
		if n.Bits != usual {
			line += fmt.Sprintf(" %04o", n.Bits)
		}
		if n.UID != subject.UID {
			line += " other"
		}
		if n.Immutable {
			line += " immutable"
		}
		line += map[memfs.Mount]string{memfs.NotMounted: "", memfs.Bound: " bind", memfs.BoundReadOnly: " ro"}[n.Mount]
		switch n.Type {
		case fs.ModeSymlink:
			line += " => " + strings.ReplaceAll(n.Link, rootPath, "$ROOT")
		case 0:
			line += " = " + string(n.Data)
		}
		lines = append(lines, line)
	})
	slices.Sort(lines)
	return lines
}

// do makes a call and checks what holds for every one: handles are closed, the
// answer is well-formed, and no message tells where the root is.
func (w *world) do(ctx context.Context, c spec.Call) tools.Result {
	w.t.Helper()
	c.ID, c.Session = 7, "s1"
	before := w.tap.open.Load()
	res := w.tools.Do(ctx, c)
	if n := w.tap.open.Load(); n != before {
		w.t.Errorf("%d handles are open, want %d", n, before)
	}
	// A path that leads out of the root is repeated as it was spelled.
	if strings.Contains(res.Detail, rootPath) && res.Err != spec.ErrEscapes {
		w.t.Errorf("the message tells where the root is: %s", res.Detail)
	}
	if res.Call != c.ID || (res.Status == spec.StatusFailed) != (res.Err != spec.ErrNone) || res.Err == spec.ErrNone && res.Errno != "" {
		w.t.Errorf("an answer out of form: %+v", res.Outcome)
	}
	return res
}

// outcome is the short form of an answer.
func outcome(o spec.Outcome) string {
	text := o.Status.String()
	if o.Err != spec.ErrNone {
		text += " " + string(o.Err)
	}
	if o.Errno != "" && o.Errno != string(o.Err) {
		text += " by " + o.Errno
	}
	return text
}

// version returns the version of a file as the tools tell it.
func (w *world) version(name string) string {
	w.t.Helper()
	res := w.do(w.t.Context(), spec.Call{Kind: spec.CallRead, Path: name})
	if res.Status != spec.StatusOK {
		w.t.Fatalf("read %s: %s", name, res.Detail)
	}
	return res.Version
}

// seam is a handler of both seams that does as it is told, and notes what it is
// asked.
type seam struct {
	w     *world
	do    func(w *world, dst string, content []byte, del bool) bool // nil says no
	asked []string
}

var _ tools.Seam = (*seam)(nil)

func (s *seam) OfferWrite(_ context.Context, r spec.WriteRequest) bool {
	line := fmt.Sprintf("write %s = %s: %s", r.Dst, r.Content, r.Cause)
	if r.Exclusive {
		line += " exclusive"
	}
	s.asked = append(s.asked, line)
	return s.answer(r.Denial, r.Content, false)
}

func (s *seam) OfferDelete(_ context.Context, r spec.DeleteRequest) bool {
	line := fmt.Sprintf("delete %s: %s", r.Dst, r.Cause)
	if r.ConfirmedFile {
		line += " confirmed"
	}
	s.asked = append(s.asked, line)
	return s.answer(r.Denial, nil, true)
}

func (s *seam) answer(d spec.Denial, content []byte, del bool) bool {
	want := spec.Denial{Call: 7, Session: "s1", Tool: d.Tool, Gate: spec.GateOS, Target: d.Target, Dst: d.Dst, Cause: d.Cause}
	if d != want || d.Target == "" || d.Tool == "" {
		s.w.t.Errorf("the denial is %+v, want call, session, tool, gate, target, dst and cause alone", d)
	}
	return s.do != nil && s.do(s.w, d.Dst, content, del)
}

// The scripts of handlers.
func lands(w *world, dst string, content []byte, del bool) bool {
	w.t.Helper()
	if del {
		w.must(w.admin.Unlink(dst[1:]))
		return true
	}
	for i, c := range dst[1:] {
		if c == '/' {
			err := w.admin.Make(dst[1:i+1], memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: subject.UID, GID: subject.GID})
			if !errors.Is(err, syscall.EEXIST) {
				w.must(err)
			}
		}
	}
	w.must(w.admin.Write(dst[1:], content, memfs.Node{Bits: 0o600, UID: subject.UID, GID: subject.GID}))
	return true
}

func lies(*world, string, []byte, bool) bool { return true }

func cutsShort(w *world, dst string, content []byte, del bool) bool {
	if del {
		return true
	}
	return lands(w, dst, content[:len(content)/2], del)
}

func landsAndSaysNo(w *world, dst string, content []byte, del bool) bool {
	return !lands(w, dst, content, del)
}

// tap stands in front of the port. It counts the handles that are open, and asks
// strike about every operation that the tools use.
type tap struct {
	// strike is asked before an operation, and again after it if it had effect: an
	// error takes the place of the answer. It may be nil.
	strike func(op vfs.OpKind, name string, done bool) error

	open atomic.Int64
}

func (t *tap) do(op vfs.OpKind, name string, act func() error) error {
	if t.strike == nil {
		return act()
	}
	if err := t.strike(op, name, false); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	return t.strike(op, name, true)
}

type tapDir struct {
	vfs.Dir
	t *tap
}

func (d *tapDir) OpenDir(name string) (vfs.Dir, error) {
	var sub vfs.Dir
	err := d.t.do(vfs.OpOpenDir, name, func() (err error) {
		sub, err = d.Dir.OpenDir(name)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.t.open.Add(1)
	return &tapDir{sub, d.t}, nil
}

func (d *tapDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	op := vfs.OpOpenFile
	switch {
	case flag&vfs.Doomed != 0:
		op = vfs.OpOpenDoom
	case flag&vfs.Probe != 0:
		op = vfs.OpProbe
	}
	var f vfs.File
	err := d.t.do(op, name, func() (err error) {
		f, err = d.Dir.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		return nil, err
	}
	d.t.open.Add(1)
	return &tapFile{f, name, d.t}, nil
}

func (d *tapDir) Lstat(name string) (info vfs.Info, err error) {
	err = d.t.do(vfs.OpLstat, name, func() (err error) {
		info, err = d.Dir.Lstat(name)
		return err
	})
	return info, err
}

func (d *tapDir) Mkdir(name string, perm fs.FileMode) error {
	return d.t.do(vfs.OpMkdir, name, func() error { return d.Dir.Mkdir(name, perm) })
}

func (d *tapDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	return d.t.do(vfs.OpRename, name, func() error { return d.Dir.Rename(name, to.(*tapDir).Dir, toName, flag) })
}

func (d *tapDir) Publish(f vfs.File, name string) error {
	return d.t.do(vfs.OpPublish, name, func() error { return d.Dir.Publish(f.(*tapFile).File, name) })
}

func (d *tapDir) Remove(name string) error {
	return d.t.do(vfs.OpRemove, name, func() error { return d.Dir.Remove(name) })
}

func (d *tapDir) Rmdir(name string) error {
	return d.t.do(vfs.OpRmdir, name, func() error { return d.Dir.Rmdir(name) })
}

func (d *tapDir) Sync() error { return d.t.do(vfs.OpSyncDir, "", d.Dir.Sync) }

func (d *tapDir) Close() error {
	d.t.open.Add(-1)
	return d.t.do(vfs.OpClose, "", d.Dir.Close)
}

type tapFile struct {
	vfs.File
	name string
	t    *tap
}

func (f *tapFile) Read(p []byte) (n int, err error) {
	err = f.t.do(vfs.OpRead, f.name, func() (err error) {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *tapFile) Write(p []byte) (n int, err error) {
	err = f.t.do(vfs.OpWrite, f.name, func() (err error) {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *tapFile) Stat() (info vfs.Info, err error) {
	err = f.t.do(vfs.OpStat, f.name, func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *tapFile) Chmod(perm fs.FileMode) error {
	return f.t.do(vfs.OpChmod, f.name, func() error { return f.File.Chmod(perm) })
}

func (f *tapFile) Sync() error { return f.t.do(vfs.OpSync, f.name, f.File.Sync) }

func (f *tapFile) Xattrs() (names []string, err error) {
	err = f.t.do(vfs.OpXattrs, f.name, func() (err error) {
		names, err = f.File.Xattrs()
		return err
	})
	return names, err
}

func (f *tapFile) Close() error {
	f.t.open.Add(-1)
	return f.t.do(vfs.OpClose, f.name, f.File.Close)
}
