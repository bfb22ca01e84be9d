package faults_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

// rig is a tree with a plan in force:
//
//	ws/a    "old"
//	ws/l    -> a
//	ws/d/   empty
//	out/c   "keep"
type rig struct {
	t     *testing.T
	admin memfs.Admin
	armed *faults.Armed
	rec   *trace.Recorder
	ws, d vfs.Dir
}

func newRig(t *testing.T, plan string, change func(*faults.Options)) *rig {
	t.Helper()
	p, err := faults.ParsePlan("plan", 1, plan)
	if err != nil {
		t.Fatal(err)
	}
	user := memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}
	store := memfs.New(memfs.Cred{})
	r := &rig{t: t, admin: store.Admin(), rec: &trace.Recorder{}}
	node := memfs.Node{UID: user.UID, GID: user.GID, Bits: 0o644}
	dir, link := node, node
	dir.Type, dir.Bits = fs.ModeDir, 0o755
	link.Type, link.Link = fs.ModeSymlink, "a"
	node.Data = []byte("old")
	for _, e := range []struct {
		path string
		node memfs.Node
	}{{"ws", dir}, {"ws/a", node}, {"ws/l", link}, {"ws/d", dir}, {"out", dir}, {"out/c", node}} {
		if err := r.admin.Make(e.path, e.node); err != nil {
			t.Fatal(err)
		}
	}
	opt := faults.Options{Base: "/", Sink: r.rec, Hands: r.hands}
	if change != nil {
		change(&opt)
	}
	if r.armed, err = faults.Arm(store.As(user), p, opt); err != nil {
		t.Fatal(err)
	}
	if r.ws, err = r.armed.OpenRoot("/ws"); err != nil {
		t.Fatal(err)
	}
	if r.d, err = r.ws.OpenDir("d"); err != nil {
		t.Fatal(err)
	}
	r.armed.Start()
	return r
}

// hands carries out the few edits that these tests plan.
func (r *rig) hands(e spec.Edit) (bool, error) {
	var err error
	switch e.Op {
	case spec.EditWrite:
		err = r.admin.Write(e.Path, e.Content, memfs.Node{Bits: 0o644})
	case spec.EditRename:
		err = r.admin.Rename(e.Path, e.To)
	case spec.EditSymlink:
		err = r.admin.Make(e.Path, memfs.Node{Type: fs.ModeSymlink, Bits: 0o777, Link: e.To})
	case spec.EditRemove:
		err = r.admin.Remove(e.Path)
	case spec.EditMkdir, spec.EditHardlink, spec.EditFIFO, spec.EditExchange, spec.EditChmod, spec.EditTouch:
		err = errors.New("no hands for that")
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	return err == nil, err
}

func (r *rig) content(p string) string {
	r.t.Helper()
	n, err := r.admin.Look(p)
	if err != nil {
		return "nothing"
	}
	return string(n.Data)
}

// told renders what the sink received.
func (r *rig) told() []string {
	var out []string
	for _, e := range r.rec.Events() {
		switch {
		case e.Fault != nil:
			f := e.Fault
			s := fmt.Sprintf("%s: %s %s %s %s by %s", f.Injection, f.Op, f.Class, f.Path, f.Effect, f.By)
			if f.After {
				s += " after"
			}
			out = append(out, s)
		case e.Edit != nil:
			out = append(out, "edit "+spec.FormatFields(e.Edit.Fields()))
		case e.Crash != nil:
			out = append(out, "crash "+e.Crash.Model)
		default:
			out = append(out, fmt.Sprintf("%+v", e))
		}
		if e.Actor != trace.ActorFault {
			r.t.Errorf("event %d is by %s", e.Seq, e.Actor)
		}
	}
	return out
}

func (r *rig) wantTold(want ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.told()); diff != "" {
		r.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// write puts "new" over the first bytes of ws/a.
func (r *rig) write() (int, error) {
	f, err := r.ws.OpenFile("a", vfs.WriteOnly, 0)
	if err != nil {
		return 0, err
	}
	n, err := f.Write([]byte("new"))
	return n, errors.Join(err, f.Close())
}

// ops performs each operation of the port once, in order of preparation: what it
// needs is opened before the plan is in force.
func ops(r *rig) map[vfs.OpKind]func() error {
	r.armed.Stop()
	file := func(flag vfs.Flag) vfs.File {
		f, err := r.ws.OpenFile("a", flag, 0)
		if err != nil {
			r.t.Fatal(err)
		}
		return f
	}
	rd, wr := file(vfs.ReadOnly), file(vfs.ReadWrite)
	doomed, err := r.ws.OpenFile("", vfs.Doomed, 0o600)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, name := range []string{"gone", "moved"} {
		if err := r.admin.Write("ws/"+name, nil, memfs.Node{Bits: 0o644, UID: 1000}); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.ws.Mkdir("empty", 0o755); err != nil {
		r.t.Fatal(err)
	}
	r.armed.Start()
	open := func(d vfs.Dir, name string, flag vfs.Flag) error {
		f, err := d.OpenFile(name, flag, 0o600)
		if err == nil {
			err = f.Close()
		}
		return err
	}
	return map[vfs.OpKind]func() error{
		vfs.OpOpenRoot: func() error { _, err := r.armed.OpenRoot("/ws"); return err },
		vfs.OpOpenDir:  func() error { _, err := r.ws.OpenDir("d"); return err },
		vfs.OpOpenFile: func() error { return open(r.ws, "new", vfs.WriteOnly|vfs.Create) },
		vfs.OpProbe:    func() error { return open(r.ws, "a", vfs.Probe) },
		vfs.OpOpenDoom: func() error { return open(r.ws, "", vfs.Doomed) },
		vfs.OpMkdir:    func() error { return r.ws.Mkdir("made", 0o755) },
		vfs.OpLstat:    func() error { _, err := r.ws.Lstat("a"); return err },
		vfs.OpStatDir:  func() error { _, err := r.ws.Stat(); return err },
		vfs.OpReadDir:  func() error { _, _, err := r.ws.ReadDir(0); return err },
		vfs.OpReadlink: func() error { _, err := r.ws.Readlink("l"); return err },
		vfs.OpSymlink:  func() error { return r.ws.Symlink("a", "s") },
		vfs.OpLink:     func() error { return r.ws.Link("a", r.ws, "h") },
		vfs.OpRename:   func() error { return r.ws.Rename("moved", r.ws, "away", vfs.Replace) },
		vfs.OpPublish:  func() error { return r.ws.Publish(doomed, "p") },
		vfs.OpRemove:   func() error { return r.ws.Remove("gone") },
		vfs.OpRmdir:    func() error { return r.ws.Rmdir("empty") },
		vfs.OpSyncDir:  func() error { return r.ws.Sync() },
		vfs.OpSyncFS:   func() error { return r.armed.SyncFS(r.ws) },
		vfs.OpRead:     func() error { _, err := rd.Read(make([]byte, 1)); return err },
		vfs.OpWrite:    func() error { _, err := wr.Write([]byte("x")); return err },
		vfs.OpSeek:     func() error { _, err := rd.Seek(0, io.SeekStart); return err },
		vfs.OpStat:     func() error { _, err := rd.Stat(); return err },
		vfs.OpTruncate: func() error { return wr.Truncate(1) },
		vfs.OpChmod:    func() error { return wr.Chmod(0o600) },
		vfs.OpChown:    func() error { return wr.Chown(-1, -1) },
		vfs.OpSync:     wr.Sync,
		vfs.OpDatasync: wr.Datasync,
		vfs.OpSyncRange: func() error {
			return wr.SyncRange(0, 1)
		},
		vfs.OpXattr:    func() error { _, err := wr.Xattr("user.x"); return err },
		vfs.OpSetXattr: func() error { return wr.SetXattr("user.x", nil) },
		vfs.OpXattrs:   func() error { _, err := wr.Xattrs(); return err },
		vfs.OpClose:    rd.Close,
	}
}

// TestEveryOperationCanBeStruck: the wrapper stands around every method of the
// port, and an injected error is the one that a kernel would give.
func TestEveryOperationCanBeStruck(t *testing.T) {
	for _, op := range vfs.Ops {
		for _, after := range []bool{false, true} {
			possible := (faults.When{Op: op}).Possible()
			if op == vfs.OpOpenFile {
				possible = (faults.When{Op: op, Class: faults.Create}).Possible()
			}
			if len(possible) == 0 {
				continue
			}
			errno := possible[len(possible)-1]
			if after && errno == "EINTR" {
				errno = possible[len(possible)-2] // who was interrupted has done nothing
			}
			word := ""
			if after {
				word = "after "
			}
			t.Run(string(op)+" "+word+errno, func(t *testing.T) {
				r := newRig(t, fmt.Sprintf("f %sop=%s errno=%s\n", word, op, errno), nil)
				do := ops(r)
				if do[op] == nil {
					t.Fatalf("no test performs %s", op)
				}
				if op == vfs.OpXattr && after { // an error of its own is not replaced
					if err := do[vfs.OpSetXattr](); err != nil {
						t.Fatal(err)
					}
				}
				err := do[op]()
				var pathErr *fs.PathError
				var linkErr *os.LinkError
				if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
					t.Errorf("got %T %v, want a *fs.PathError or an *os.LinkError", err, err)
				}
				if got := errnoName(err); got != errno {
					t.Errorf("got %v, want %s", err, errno)
				}
				if strings.Contains(fmt.Sprint(err), "inject") || strings.Contains(fmt.Sprintf("%T", errors.Unwrap(err)), "fault") {
					t.Errorf("%v (%T) tells that it is injected", err, errors.Unwrap(err))
				}
				told := r.told()
				if len(told) == 0 || !strings.HasPrefix(told[0], "f: "+string(op)+" ") || strings.HasSuffix(told[0], " after") != after {
					t.Errorf("the record says %q", told)
				}
				if unfired := r.armed.Unfired(); len(unfired) > 0 {
					t.Errorf("unfired: %v", unfired)
				}
			})
		}
	}
}

func errnoName(err error) string {
	for name, errno := range map[string]syscall.Errno{
		"EPERM": syscall.EPERM, "EACCES": syscall.EACCES, "EROFS": syscall.EROFS, "ENOENT": syscall.ENOENT,
		"ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EIO": syscall.EIO, "EXDEV": syscall.EXDEV,
		"EBUSY": syscall.EBUSY, "ENAMETOOLONG": syscall.ENAMETOOLONG, "ELOOP": syscall.ELOOP, "EMFILE": syscall.EMFILE,
		"EINTR": syscall.EINTR, "EFBIG": syscall.EFBIG,
	} {
		if errors.Is(err, errno) {
			return name
		}
	}
	return ""
}

func TestErrnoBeforeAndAfter(t *testing.T) {
	for _, tt := range []struct{ name, word, want string }{
		{"before", "", "nothing"},
		{"after", "after ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "f "+tt.word+"op=open-file class=create under=ws errno=ENOSPC\n", nil)
			f, err := r.ws.OpenFile("new", vfs.WriteOnly|vfs.Create, 0o600)
			if f != nil || !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("got %v, %v", f, err)
			}
			if got := r.content("ws/new"); got != tt.want {
				t.Errorf("ws/new holds %q, want %q", got, tt.want)
			}
		})
	}
}

func TestShort(t *testing.T) {
	for _, tt := range []struct {
		bytes int
		told  int
		want  string
	}{{0, 1, "old"}, {2, 1, "ned"}, {3, 0, "new"}, {4, 0, "new"}} { // nothing was truncated
		r := newRig(t, fmt.Sprintf("f op=write under=ws short=%d\n", tt.bytes), nil)
		n, err := r.write()
		if short := errors.Is(err, io.ErrShortWrite); short != (tt.told == 1) || n != min(tt.bytes, 3) {
			t.Errorf("short=%d: wrote %d, %v", tt.bytes, n, err)
		}
		if got := r.content("ws/a"); got != tt.want {
			t.Errorf("short=%d: ws/a holds %q, want %q", tt.bytes, got, tt.want)
		}
		if len(r.told()) != tt.told {
			t.Errorf("short=%d: the record says %q", tt.bytes, r.told())
		}
	}
}

func TestSwap(t *testing.T) {
	const plan = "f op=mkdir under=ws name=made swap\n\trename ws/d to=ws/d.away\n\tsymlink ws/d to=../out\n"
	r := newRig(t, plan, nil)
	if err := r.ws.Mkdir("made", 0o755); err != nil {
		t.Fatal(err)
	}
	if n, err := r.admin.Look("ws/d"); err != nil || n.Link != "../out" {
		t.Errorf("ws/d is %+v, %v", n, err)
	}
	r.wantTold("f: mkdir create ws/made swap by synthetic", "edit rename ws/d to=ws/d.away", "edit symlink ws/d to=../out")
}

// TestSwapTooEarly: an adversary who finds nothing to act on has not struck, and
// what he could not do is no event.
func TestSwapTooEarly(t *testing.T) {
	r := newRig(t, "f op=lstat swap\n\tremove ws/absent\ng op=lstat swap\n\tremove ws/absent\n\twrite ws/a content=theirs\n", nil)
	if _, err := r.ws.Lstat("a"); err != nil {
		t.Fatal(err)
	}
	r.wantTold("g: lstat read ws/a swap by synthetic", "edit write ws/a content=theirs")
	if diff := cmp.Diff([]string{"f"}, r.armed.Unfired()); diff != "" {
		t.Errorf("unfired (-want +got):\n%s", diff)
	}
	if r.armed.Err() != nil {
		t.Error(r.armed.Err())
	}
}

func TestHandsThatFail(t *testing.T) {
	r := newRig(t, "f op=lstat swap\n\tfifo ws/p\n", nil)
	if _, err := r.ws.Lstat("a"); err != nil {
		t.Fatal(err)
	}
	if err := r.armed.Err(); err == nil || err.Error() != "swap f: no hands for that" {
		t.Errorf("got %v", err)
	}
}

func TestCrash(t *testing.T) {
	for _, tt := range []struct{ name, word, want string }{
		{"before", "", "old"},
		{"after", "after ", "new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, "f "+tt.word+"op=write under=ws crash\n", nil)
			if _, err := r.write(); err == nil || errnoName(err) != "" {
				t.Errorf("the dead process got %v", err)
			}
			if got := r.content("ws/a"); got != tt.want {
				t.Errorf("ws/a holds %q, want %q", got, tt.want)
			}
			if !r.armed.Crashed() {
				t.Error("not crashed")
			}
			if err := r.ws.Mkdir("ghost", 0o755); err == nil || r.content("ws/ghost") != "nothing" {
				t.Errorf("a dead process made a directory: %v", err)
			}
			r.armed.Revive()
			if err := r.ws.Mkdir("ghost", 0o755); err != nil || r.armed.Crashed() {
				t.Errorf("the next process cannot act: %v", err)
			}
			suffix := map[string]string{"after ": " after"}[tt.word]
			r.wantTold("f: write modify ws/a crash by synthetic"+suffix, "crash process-kill")
		})
	}
}

// TestDie: the event stands in the record before the process ends.
func TestDie(t *testing.T) {
	var told int
	var r *rig
	r = newRig(t, "f op=write crash\n", func(o *faults.Options) {
		o.Die = func() { told = len(r.rec.Events()) }
	})
	if _, err := r.write(); err == nil {
		t.Error("the write was answered")
	}
	if told != 2 {
		t.Errorf("%d events before the end, want 2", told)
	}
}

// TestWatch: where the tree itself was made to refuse, the kernel's refusal is
// recorded as the plan's doing, and nothing is injected.
func TestWatch(t *testing.T) {
	r := newRig(t, "f class=create under=ws/d errno=EACCES\n", func(o *faults.Options) { o.Watch = []string{"f"} })
	if err := r.d.Mkdir("x", 0o755); err != nil {
		t.Fatalf("injected all the same: %v", err)
	}
	if err := r.admin.Change("ws/d", func(n *memfs.Node) { n.Bits = 0o555 }); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ws.OpenFile("absent", vfs.ReadOnly, 0); err == nil {
		t.Fatal("opened what is absent")
	}
	r.wantTold()
	for _, step := range []struct {
		err  error
		told string
	}{
		{r.d.Mkdir("y", 0o755), "f: mkdir create ws/d/y EACCES by kernel"},
		{r.d.Rmdir("x"), "f: rmdir remove ws/d/x EACCES by kernel"}, // preparation is coarser than a plan
	} {
		if !errors.Is(step.err, syscall.EACCES) {
			t.Errorf("%s: got %v", step.told, step.err)
		}
	}
	r.wantTold("f: mkdir create ws/d/y EACCES by kernel", "f: rmdir remove ws/d/x EACCES by kernel")
	if unfired := r.armed.Unfired(); unfired != nil {
		t.Errorf("unfired: %v", unfired)
	}
}

func TestNthCountsMatches(t *testing.T) {
	r := newRig(t, "f op=lstat under=ws name=a nth=2 errno=EIO\n", nil)
	var failed []int
	for i, name := range []string{"l", "a", "l", "a", "a"} {
		if _, err := r.ws.Lstat(name); err != nil {
			failed = append(failed, i)
		}
	}
	if diff := cmp.Diff([]int{3}, failed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		plan string
		want bool
	}{
		{"f class=create errno=EIO", true},
		{"f class=create under=ws errno=EIO", true},
		{"f class=create under=ws/d errno=EIO", false}, // the directory of the entry, and not below it
		{"f class=create name=ma* errno=EIO", true},
		{"f class=create name=x* errno=EIO", false},
		{"f class=read errno=EIO", false},
		{"f class=remove errno=EIO", false},
		{"f errno=EIO", true},
		{"f op=rmdir errno=EIO", false},
		{"f errno=EMFILE", false}, // of the operations that can end so
	} {
		r := newRig(t, tt.plan+"\n", nil)
		if err := r.ws.Mkdir("made", 0o755); (err != nil) != tt.want {
			t.Errorf("%s: got %v", tt.plan, err)
		}
	}
}

// TestRenameIsTwoEffects: an entry leaves one directory and appears in another.
func TestRenameIsTwoEffects(t *testing.T) {
	for plan, want := range map[string]string{
		"f class=remove under=ws errno=EACCES":   "f: rename remove ws/a EACCES by synthetic",
		"f class=create under=ws/d errno=EACCES": "f: rename create ws/d/b EACCES by synthetic",
	} {
		r := newRig(t, plan+"\n", nil)
		err := r.ws.Rename("a", r.d, "b", vfs.Replace)
		var le *os.LinkError
		if !errors.As(err, &le) || le.Op != "renameat" || le.Old != "a" || le.New != "b" || !errors.Is(err, syscall.EACCES) {
			t.Errorf("%s: got %v", plan, err)
		}
		r.wantTold(want)
		if r.content("ws/a") != "old" || r.content("ws/d/b") != "nothing" {
			t.Errorf("%s: the entry moved", plan)
		}
	}
}

func TestForeignPeer(t *testing.T) {
	r := newRig(t, "", nil)
	other, err := memfs.New(memfs.Cred{UID: 1000}).As(memfs.Cred{UID: 1000}).OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"rename": r.ws.Rename("a", other, "a", vfs.Replace),
		"link":   r.ws.Link("a", other, "a"),
	} {
		var le *os.LinkError
		if !errors.As(err, &le) || !errors.Is(err, syscall.EXDEV) {
			t.Errorf("%s to another file system: %v", name, err)
		}
	}
}

// TestHostStateIsSpared: the host's own folder is not the subject's business, unless
// a plan names it.
func TestHostStateIsSpared(t *testing.T) {
	for plan, want := range map[string]bool{
		"f class=create errno=EIO":                     false,
		"f class=create under=ws errno=EIO":            false,
		"f class=create under=ws/.pixir errno=EIO":     true,
		"f class=create under=ws/.pixir/sub errno=EIO": false,
	} {
		r := newRig(t, plan+"\n", nil)
		r.armed.Stop()
		if err := r.ws.Mkdir(spec.StateDir, 0o700); err != nil {
			t.Fatal(err)
		}
		state, err := r.ws.OpenDir(spec.StateDir)
		if err != nil {
			t.Fatal(err)
		}
		r.armed.Start()
		if err := state.Mkdir("sessions", 0o700); (err != nil) != want {
			t.Errorf("%s: got %v", plan, err)
		}
	}
}

func TestOnlyBetweenStartAndStop(t *testing.T) {
	r := newRig(t, "f op=lstat nth=2 errno=EIO\n", nil)
	look := func(want error) {
		t.Helper()
		if _, err := r.ws.Lstat("a"); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	look(nil)
	r.armed.Stop()
	look(nil) // neither struck nor counted
	look(nil)
	if diff := cmp.Diff([]string{"f"}, r.armed.Unfired()); diff != "" {
		t.Errorf("unfired (-want +got):\n%s", diff)
	}
	r.armed.Start()
	look(syscall.EIO)
	if r.armed.Unfired() != nil {
		t.Errorf("unfired: %v", r.armed.Unfired())
	}
}

func TestArmRefusesWhatCheckRefuses(t *testing.T) {
	plan := faults.Plan{Injections: []faults.Injection{{ID: "f"}}}
	_, err := faults.Arm(memfs.New(memfs.Cred{}).As(memfs.Cred{}), plan, faults.Options{Base: "/", Sink: &trace.Recorder{}})
	const want = "arm: injection f: 0 effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first="
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestForwards holds the wrapper to every promise of the port: with nothing to
// strike it must not be felt.
func TestForwards(t *testing.T) {
	for name, plan := range map[string]string{"empty": "", "elsewhere": "f under=nowhere errno=EIO\n"} {
		t.Run(name, func(t *testing.T) {
			p, err := faults.ParsePlan("plan", 1, plan)
			if err != nil {
				t.Fatal(err)
			}
			user := memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}
			rec := &trace.Recorder{}
			a, err := faults.Arm(memfs.New(user).As(user), p, faults.Options{Base: "/", Sink: rec})
			if err != nil {
				t.Fatal(err)
			}
			a.Start()
			if err := vfstest.TestFS(a, "/"); err != nil {
				t.Error(err)
			}
			if n := len(rec.Events()); n > 0 {
				t.Errorf("%d events", n)
			}
		})
	}
}

// gate is a sink that holds every event back until it is let through.
type gate struct {
	arrived chan trace.Event
	open    chan struct{}
}

func (g *gate) Emit(e trace.Event) {
	g.arrived <- e
	<-g.open
}

// TestEventComesFirst: while the event is on its way, the subject has not felt the
// effect.
func TestEventComesFirst(t *testing.T) {
	for _, effect := range []string{"op=write errno=EIO", "after op=write errno=EIO", "op=write short=1", "op=write crash", "op=write swap\n\tremove out/c"} {
		t.Run(strings.Fields(effect)[0], func(t *testing.T) {
			g := &gate{arrived: make(chan trace.Event), open: make(chan struct{})}
			r := newRig(t, "f "+effect+"\n", func(o *faults.Options) { o.Sink = g })
			felt := make(chan error, 1)
			go func() {
				_, err := r.write()
				felt <- err
			}()
			if e := <-g.arrived; e.Fault == nil {
				t.Errorf("first came %+v", e)
			}
			if len(felt) > 0 {
				t.Error("the subject has been answered")
			}
			if got := r.content("ws/a"); got != "old" && !strings.HasPrefix(effect, "after") {
				t.Errorf("ws/a holds %q already", got)
			}
			go func() { // whatever else is told
				for range g.arrived {
				}
			}()
			close(g.open)
			<-felt
			close(g.arrived)
		})
	}
}

// TestConcurrentSubject: faults strike whoever comes; counts stay exact.
func TestConcurrentSubject(t *testing.T) {
	r := newRig(t, "f op=lstat nth=5 errno=EIO\ng op=stat-dir errno=EIO\n", nil)
	const subjects, each = 8, 50
	failed := make([]int, subjects)
	var wg sync.WaitGroup
	for i := range subjects {
		wg.Go(func() {
			for range each {
				if _, err := r.ws.Lstat("a"); err != nil {
					failed[i]++
				}
				_ = r.armed.Unfired()
			}
		})
	}
	wg.Wait()
	total := 0
	for _, n := range failed {
		total += n
	}
	if total != 1 {
		t.Errorf("%d looks failed, want 1", total)
	}
	if got := r.armed.Unfired(); !slices.Equal(got, []string{"g"}) {
		t.Errorf("unfired: %v", got)
	}
}

// TestDelay: an operation that is delayed lets another come first, and is none where
// nobody wanted to.
func TestDelay(t *testing.T) {
	const plan = "f delay=1 step=\"0 mkdir create ws/late 1\"\n"
	begun := make(chan bool)
	r := newRig(t, plan, func(o *faults.Options) {
		o.Noted = func(s faults.Step) {
			if strings.HasPrefix(s.Key, "0 mkdir create ws/late") {
				close(begun)
			}
		}
	})
	var other sync.WaitGroup
	other.Go(func() {
		<-begun
		_ = r.ws.Mkdir("early", 0o755)
	})
	if err := r.ws.Mkdir("late", 0o755); err != nil {
		t.Fatal(err)
	}
	other.Wait()
	r.wantTold("f: mkdir create ws/late delay by synthetic")
	late, _ := r.ws.Lstat("late")
	if early, err := r.ws.Lstat("early"); err != nil || early.ID.Ino > late.ID.Ino {
		t.Errorf("what was delayed came first: %+v, %+v, %v", early, late, err)
	}

	r = newRig(t, plan, nil)
	if err := r.ws.Mkdir("late", 0o755); err != nil {
		t.Fatal(err)
	}
	if got := r.armed.Unfired(); !slices.Equal(got, []string{"f"}) {
		t.Errorf("nobody was let past, and unfired are %v", got)
	}
}

// TestLeft: what is open that was not when the call began is told, whatever strikes.
func TestLeft(t *testing.T) {
	r := newRig(t, "f op=close nth=1 errno=EIO\ng after op=open-file name=l errno=EIO\n", nil)
	left := func(want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, r.armed.Left()); diff != "" {
			t.Errorf("left open (-want +got):\n%s", diff)
		}
	}
	early, err := r.ws.OpenFile("a", vfs.ReadOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	r.armed.Begin(1)
	left()
	again, err := r.ws.OpenFile("a", vfs.ReadOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ws.OpenFile("l", vfs.ReadOnly, 0); err == nil {
		t.Fatal("a file whose opening has failed is open")
	}
	sub, err := r.ws.OpenDir("d")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.armed.OpenRoot("/ws"); err != nil {
		t.Fatal(err)
	}
	left("ws/a", "ws/d")
	if err := early.Close(); err == nil { // it is closed all the same
		t.Fatal("the close has not failed")
	}
	left("ws/a", "ws/d")
	_, _ = again.Close(), sub.Close()
	left()
}

// TestInterrupted: it is told when what was interrupted is done after all, once, and not
// when something else is.
func TestInterrupted(t *testing.T) {
	r := newRig(t, "f op=write nth=1 errno=EINTR\n", nil)
	if _, err := r.write(); !errors.Is(err, syscall.EINTR) {
		t.Fatalf("%v, want EINTR", err)
	}
	f, err := r.ws.OpenFile("b", vfs.WriteOnly|vfs.Create, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}
	interrupted := "f: write modify ws/a EINTR by synthetic"
	r.wantTold(interrupted)
	for range 2 {
		if _, err := r.write(); err != nil {
			t.Fatal(err)
		}
	}
	r.wantTold(interrupted, "f: write modify ws/a again by synthetic")
}

func BenchmarkArmedLstat(b *testing.B) {
	p, err := faults.ParsePlan("plan", 1, "f op=write under=ws/d nth=3 errno=EIO\ng class=create under=ws/d errno=EACCES\n")
	if err != nil {
		b.Fatal(err)
	}
	user := memfs.Cred{UID: 1000}
	a, err := faults.Arm(memfs.New(user).As(user), p, faults.Options{Base: "/", Sink: &trace.Recorder{}})
	if err != nil {
		b.Fatal(err)
	}
	a.Start()
	root, err := a.OpenRoot("/")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = root.Lstat("absent")
	}
}
