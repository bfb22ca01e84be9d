//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// tape is a tree on which a recorded program runs, and is looked at after each of its
// steps.
type tape struct {
	t     *testing.T
	base  string
	start spec.World
	steps []frame
	sup   *supervisor.Supervisor
	rec   trace.Recorder
	env   []string
	prep  func(*exec.Cmd)
	dies  bool // the program may end as it likes
	uid   int

	converse func(*exec.Cmd) func() // takes the program's pipes, and returns what talks to it
}

// frame is the tree after one step.
type frame struct {
	key   string
	world spec.World
}

func newTape(t *testing.T, build func(base string)) *tape {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"tree/ws", "elsewhere"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	tp := &tape{t: t, base: filepath.Join(base, "tree"), uid: os.Getuid()}
	if build != nil {
		build(tp.base)
	}
	tp.arm(supervisor.Options{})
	return tp
}

// arm begins anew with other options.
func (tp *tape) arm(opt supervisor.Options) {
	tp.t.Helper()
	tp.start = tp.look()
	opt.Base, opt.Sink, opt.Record = tp.base, &tp.rec, true
	if !opt.Free { // else the tree changes while it is looked at
		opt.After = func(key string) { tp.steps = append(tp.steps, frame{key, tp.look()}) }
	}
	var err error
	if tp.sup, err = supervisor.New(opt); errors.Is(err, supervisor.ErrCannot) {
		tp.t.Skip(err)
	}
	if err != nil {
		tp.t.Fatal(err)
	}
}

// look reads the tree by other means than the record's.
func (tp *tape) look() spec.World {
	w, first := spec.World{}, map[vfs.ID]string{}
	err := filepath.WalkDir(tp.base, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == tp.base {
			return err
		}
		rel := strings.TrimPrefix(p, tp.base+"/")
		var st unix.Stat_t
		if err := unix.Lstat(p, &st); err != nil {
			return err
		}
		n := spec.Node{Type: spec.TypeOther, Mode: spec.Mode(st.Mode & 0o7777)}
		if int(st.Uid) != tp.uid {
			n.Owner = spec.OwnerOther
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			n.Type = spec.TypeFile
			if n.Content, err = os.ReadFile(p); err != nil {
				return err
			}
			id := vfs.ID{Dev: st.Dev, Ino: st.Ino}
			if st.Nlink > 1 && first[id] != "" {
				n.Hard = first[id]
			} else if st.Nlink > 1 {
				first[id], n.Nlink = rel, int(st.Nlink)
			}
		case unix.S_IFDIR:
			n.Type = spec.TypeDir
		case unix.S_IFLNK:
			n.Type = spec.TypeLink
			if n.Link, err = os.Readlink(p); err != nil {
				return err
			}
		case unix.S_IFIFO:
			n.Type = spec.TypeFIFO
		}
		n.Xattrs = xattrs(p)
		w[rel] = n
		return nil
	})
	if err != nil {
		tp.t.Errorf("look: %v", err)
	}
	return w
}

func xattrs(p string) map[string]spec.Content {
	buf, value := make([]byte, 4096), make([]byte, 4096)
	n, _ := unix.Llistxattr(p, buf)
	var out map[string]spec.Content
	for _, name := range strings.Split(string(buf[:max(n, 0)]), "\x00") {
		if !strings.HasPrefix(name, "user.") {
			continue
		}
		if v, err := unix.Lgetxattr(p, name, value); err == nil {
			if out == nil {
				out = map[string]spec.Content{}
			}
			out[name] = slices.Clone(value[:v])
		}
	}
	return out
}

func (tp *tape) run(argv ...string) {
	tp.t.Helper()
	cmd := exec.CommandContext(tp.t.Context(), argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = filepath.Join(tp.base, "ws"), append(os.Environ(), tp.env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	talk := func() {}
	if tp.converse != nil {
		talk = tp.converse(cmd)
	} else {
		cmd.Stdout = &said
	}
	if tp.prep != nil {
		tp.prep(cmd)
	}
	if err := tp.sup.Wrap(cmd); err != nil {
		tp.t.Fatal(err)
	}
	err := cmd.Start()
	if err == nil {
		talk()
		err = cmd.Wait()
	}
	if err != nil && !tp.dies {
		tp.t.Fatalf("%v: %s", err, &said)
	}
	if got := tp.sup.Unfired(); got != nil {
		tp.t.Errorf("Unfired = %q, want none", got)
	}
}

// diff compares a replayed World with the real one.
func diff(real, replayed spec.World) string {
	var b strings.Builder
	for _, p := range slices.Sorted(func(yield func(string) bool) {
		for p := range real {
			if !yield(p) {
				return
			}
		}
		for p := range replayed {
			if _, both := real[p]; !both && !yield(p) {
				return
			}
		}
	}) {
		a, inA := real[p]
		c, inC := replayed[p]
		if inA != inC || !bytes.Equal(a.Content, c.Content) {
			b.WriteString(p + ": " + clip(a) + " is " + clip(c) + "\n")
			continue
		}
		a.Content, c.Content = nil, nil
		if d := cmp.Diff(a, c); d != "" {
			b.WriteString(p + ":\n" + d)
		}
	}
	return b.String()
}

func clip(n spec.Node) string {
	return string(n.Type) + " " + strings.ToValidUTF8(string(n.Content[:min(60, len(n.Content))]), "?") + " " + n.Link
}

// replay holds the record against what was seen. It returns the record.
func (tp *tape) replay() faults.Record {
	t := tp.t
	t.Helper()
	recs := tp.sup.Records()
	if len(recs) != 1 {
		t.Fatalf("%d records, want 1", len(recs))
	}
	rec := throughText(t, recs[0])
	r, wrong := tp.against(rec)
	for _, what := range wrong[:min(3, len(wrong))] {
		t.Error(what)
	}
	if len(wrong) > 0 {
		var b strings.Builder
		_ = rec.Write(&b)
		t.Fatal(b.String())
	}
	t.Logf("%d mutations, %d steps, %d gaps, %d set times", len(rec.Mutations), len(tp.steps), len(rec.Gaps), len(r.Times()))
	return rec
}

// against replays a record, and says where the tree is not the real one: after every
// step and at the end.
func (tp *tape) against(rec faults.Record) (r *mem.Replay, wrong []string) {
	r, err := mem.NewReplay(tp.start, rec)
	if err != nil {
		return r, []string{err.Error()}
	}
	last := map[string]int{}
	for i, m := range rec.Mutations {
		last[m.Key] = i + 1
	}
	for i, f := range append(slices.Clone(tp.steps), frame{"end", tp.look()}) {
		for f.key == "end" && r.Done() < len(rec.Mutations) || r.Done() < last[f.key] {
			if _, err := r.Next(); err != nil {
				return r, append(wrong, fmt.Sprintf("step %d, %s: %v", i+1, f.key, err))
			}
		}
		w, err := r.World()
		if err != nil {
			return r, append(wrong, err.Error())
		}
		if d := diff(f.world, w); d != "" {
			wrong = append(wrong, fmt.Sprintf("step %d, %s: the tree is (-real +replayed):\n%s", i+1, f.key, d))
		}
	}
	for p, at := range r.Times() {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(tp.base, p), &st); err != nil {
			wrong = append(wrong, err.Error())
		} else if got := st.Mtim.Nano(); got != at {
			wrong = append(wrong, fmt.Sprintf("%s was changed at %d, replayed %d", p, got, at))
		}
	}
	return r, wrong
}

// throughText is rec as it comes back from its text.
func throughText(t *testing.T, rec faults.Record) faults.Record {
	t.Helper()
	var b bytes.Buffer
	if err := rec.Write(&b); err != nil {
		t.Fatal(err)
	}
	back, err := faults.ReadRecord(&b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rec, back); d != "" {
		t.Fatalf("the record changes in its text (-before +after):\n%s", d)
	}
	return back
}

// complete fails where the record has gaps but for coarse ones.
func complete(t *testing.T, rec faults.Record) {
	t.Helper()
	if !rec.Complete() {
		t.Errorf("the record has gaps: %+v", rec.Gaps)
	}
}

func need(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not there")
		}
	}
}

func put(t *testing.T, p, content string) {
	t.Helper()
	if err := os.WriteFile(p, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
