package tools_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

// trial is one call in one world.
type trial struct {
	name   string
	world  []string
	call   string // "read PATH", "delete PATH", "move PATH to PATH", "write PATH = TEXT"; see parse
	follow bool
	do     func(w *world, dst string, content []byte, del bool) bool // what handlers do

	want     string   // the outcome; of a read, and the content
	after    []string // nil: as before
	asked    []string // what handlers were asked
	refusals []string // nil: those that handlers were asked about; see refusals
}

// parse reads a call. An expected version stands in front, as in "if-absent write
// f = x", "if-seen write f = x" (the one that is there) or "if-stale write f = x".
func (w *world) parse(line string) spec.Call {
	w.t.Helper()
	var c spec.Call
	words, text, isWrite := strings.Cut(line, " = ")
	if isWrite {
		c.Content = spec.Content(text)
	}
	fields := strings.Fields(words)
	expect, hasExpect := strings.CutPrefix(fields[0], "if-")
	if hasExpect {
		fields = fields[1:]
	}
	c.Kind, c.Path = spec.CallKind(fields[0]), ""
	if len(fields) > 1 {
		c.Path = strings.ReplaceAll(fields[1], "$ROOT", rootPath)
	}
	if len(fields) == 4 {
		c.To = strings.ReplaceAll(fields[3], "$ROOT", rootPath)
	}
	switch expect {
	case "absent":
		c.ExpectVersion = spec.VersionAbsent
	case "seen":
		c.ExpectVersion = w.version(c.Path)
	case "stale":
		c.ExpectVersion = strings.Repeat("0", 64)
	}
	return c
}

// refusals describes the denials of a result.
func refusals(res tools.Result) []string {
	var lines []string
	for _, r := range res.Refusals {
		line := fmt.Sprintf("%s of %s at %q", r.Cause, r.Target, r.Dst)
		if r.Landed {
			line += " landed"
		}
		lines = append(lines, line)
	}
	return lines
}

func (tt trial) run(t *testing.T) {
	t.Helper()
	for _, caps := range []vfs.Caps{0, vfs.CapPublish} { // those that are left out
		w := grow(t, tt.world...)
		w.tools.Caps &^= caps
		w.tools.Follow, w.seam.do = tt.follow, tt.do
		before := w.tree()
		call := w.parse(tt.call)
		res := w.do(t.Context(), call)
		got := outcome(res.Outcome)
		if call.Kind == spec.CallRead && res.Status == spec.StatusOK {
			got += " " + res.Content.String()
		}
		if got != tt.want {
			t.Errorf("got %s, want %s: %s", got, tt.want, res.Detail)
		}
		after := tt.after
		if after == nil {
			after = before
		}
		slices.Sort(after)
		if diff := cmp.Diff(after, w.tree()); diff != "" {
			t.Errorf("the tree (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(tt.asked, w.seam.asked); diff != "" {
			t.Errorf("handlers were asked (-want +got):\n%s", diff)
		}
		if tt.refusals != nil || len(tt.asked) == 0 {
			if diff := cmp.Diff(tt.refusals, refusals(res)); diff != "" {
				t.Errorf("denials (-want +got):\n%s", diff)
			}
		}
		w.checkReceipt(call, res)
	}
}

// checkReceipt: an answer that is ok says what is in place, and the version that
// it gives is the one that a read would give.
func (w *world) checkReceipt(c spec.Call, res tools.Result) {
	w.t.Helper()
	if res.Status != spec.StatusOK || c.Kind != spec.CallWrite && c.Kind != spec.CallMove {
		if res.Receipt != nil {
			w.t.Errorf("a receipt for %s: %+v", outcome(res.Outcome), res.Receipt)
		}
		return
	}
	n, err := w.admin.Look(res.Receipt.Dst[1:])
	w.must(err)
	sum := sha256.Sum256(n.Data)
	want := &spec.Receipt{Dst: res.Receipt.Dst, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(n.Data))}
	if diff := cmp.Diff(want, res.Receipt); diff != "" {
		w.t.Errorf("the receipt (-want +got):\n%s", diff)
	}
	if n.Bits&0o400 == 0 {
		return
	}
	if got := w.version(strings.TrimPrefix(res.Receipt.Dst, rootPath+"/")); got != res.Version {
		w.t.Errorf("the version is %s, and read again %s", res.Version, got)
	}
}

func TestRead(t *testing.T) {
	for _, tt := range []trial{
		{name: "file", world: []string{"f = text"}, call: "read f", want: "ok text"},
		{name: "empty file", world: []string{"f = "}, call: "read f", want: "ok "},
		{name: "below", world: []string{"d/", "d/f"}, call: "read d/f", want: "ok f"},
		{name: "by its absolute name", world: []string{"f"}, call: "read $ROOT/f", want: "ok f"},
		{name: "by a long way round", world: []string{"d/", "f"}, call: "read ./d/..//f", want: "ok f"},
		{name: "absolute, with slashes", world: []string{"f"}, call: "read $ROOT//./f", want: "ok f"},
		{name: "missing", call: "read f", want: "failed ENOENT"},
		{name: "missing, by its absolute name", call: "read $ROOT/f/g", want: "failed ENOENT"},
		{name: "out of the root", call: "read ../out/canary", want: "failed escapes-root"},
		{name: "out of the root and in again", world: []string{"f"}, call: "read ../secret-root/f", want: "failed escapes-root"},
		{name: "beside the root", call: "read /out/canary", want: "failed escapes-root"},
		{name: "the root's name and more", call: "read $ROOT-x/f", want: "failed escapes-root"},
		{name: "the root", call: "read $ROOT", want: "failed invalid-argument"},
		{name: "no path", call: "read", want: "failed invalid-argument"},
		{name: "a directory by its slash", world: []string{"d/"}, call: "read d/", want: "failed invalid-argument"},
		{name: "NUL", call: "read f\x00", want: "failed invalid-argument"},
		{name: "name too long", call: "read " + strings.Repeat("n", 256), want: "failed ENAMETOOLONG"},
		{name: "directory", world: []string{"d/"}, call: "read d", want: "failed EISDIR"},
		{name: "through a file", world: []string{"f"}, call: "read f/g", want: "failed ENOTDIR"},
		{name: "FIFO", world: []string{"p|"}, call: "read p", want: "failed unsupported"},
		{name: "closed file", world: []string{"f 0200"}, call: "read f", want: "failed EACCES"},
		{name: "in a directory that may not be searched", world: []string{"d/ 0600"}, call: "read d/f", want: "failed cannot-inspect by EACCES"},
		{name: "below one", world: []string{"d/ 0600"}, call: "read d/e/f", want: "failed cannot-inspect by EACCES"},
		{name: "link", world: []string{"f", "l => f"}, call: "read l", want: "failed ELOOP"},
		{name: "link on the way", world: []string{"d/", "d/f", "l => d"}, call: "read l/f", want: "failed ELOOP"},
		{name: "link, followed", world: []string{"f", "l => f"}, call: "read l", follow: true, want: "ok f"},
		{name: "absolute link, followed", world: []string{"d/", "d/f", "l => $ROOT/d"}, call: "read l/f", follow: true, want: "ok f"},
		{name: "link out, followed", world: []string{"l => ../out/canary"}, call: "read l", follow: true, want: "failed escapes-root"},
		{name: "absolute link out, followed", world: []string{"l => /out"}, call: "read l/canary", follow: true, want: "failed escapes-root"},
		{name: "dangling link, followed", world: []string{"l => nowhere"}, call: "read l", follow: true, want: "failed ENOENT"},
		{name: "link to itself, followed", world: []string{"l => l"}, call: "read l", follow: true, want: "failed ELOOP"},
		{name: "up after a link, followed", world: []string{"d/", "d/e/", "d/f = of d", "f = of root", "l => d/e"}, call: "read l/../f", follow: true, want: "ok of d"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestWrite(t *testing.T) {
	for _, tt := range []trial{
		{name: "new", call: "write f = x", want: "ok", after: []string{"f = x"}},
		{name: "empty", call: "write f = ", want: "ok", after: []string{"f = "}},
		{name: "new parents", call: "write a/b/f = x", want: "ok", after: []string{"a/", "a/b/", "a/b/f = x"}},
		{name: "in place of another", world: []string{"f 0644 = old"}, call: "write f = x", want: "ok", after: []string{"f 0644 = x"}},
		{name: "the other name keeps its bytes", world: []string{"f = old", "h == f"}, call: "write f = x", want: "ok", after: []string{"f = x", "h = old"}},
		{name: "by its absolute name", call: "write $ROOT/f = x", want: "ok", after: []string{"f = x"}},
		{name: "through a file", world: []string{"f"}, call: "write f/g/h = x", want: "failed ENOTDIR"},
		{name: "over a directory", world: []string{"d/"}, call: "write d = x", want: "failed EISDIR"},
		{name: "into a FIFO", world: []string{"p|"}, call: "write p = x", want: "failed unsupported"},
		{name: "out of the root", call: "write ../out/canary = x", want: "failed escapes-root"},
		{name: "no file name", call: "write a/ = x", want: "failed invalid-argument"},
		{name: "longest name", call: "write " + strings.Repeat("n", 255) + " = x", want: "ok", after: []string{strings.Repeat("n", 255) + " = x"}},
		{name: "name too long", call: "write " + strings.Repeat("n", 256) + " = x", want: "failed ENAMETOOLONG"},
		{name: "new parents are undone", call: "write a/b/" + strings.Repeat("n", 256) + " = x", want: "failed ENAMETOOLONG"},
		{name: "mount point", world: []string{"f bind = old"}, call: "write f = x", want: "failed EBUSY"},
		{name: "link", world: []string{"f", "l => f"}, call: "write l = x", want: "failed ELOOP"},
		{name: "dangling link", world: []string{"l => f"}, call: "write l = x", want: "failed ELOOP"},
		{name: "link on the way", world: []string{"d/", "l => d"}, call: "write l/f = x", want: "failed ELOOP"},
		{name: "link, followed", world: []string{"f", "l => f"}, call: "write l = x", follow: true, want: "ok", after: []string{"f = x", "l => f"}},
		{name: "dangling link, followed", world: []string{"l => f"}, call: "write l = x", follow: true, want: "ok", after: []string{"f = x", "l => f"}},
		{name: "parents of a link's making", world: []string{"l => a/f"}, call: "write l = x", follow: true, want: "failed ENOENT"},
		{name: "not there, and is not", call: "if-absent write f = x", want: "ok", after: []string{"f = x"}},
		{name: "not there, and is", world: []string{"f"}, call: "if-absent write f = x", want: "failed EEXIST"},
		{name: "the version seen", world: []string{"f"}, call: "if-seen write f = x", want: "ok", after: []string{"f = x"}},
		{name: "another version", world: []string{"f"}, call: "if-stale write f = x", want: "failed conflict"},
		{name: "another version, and gone", call: "if-stale write f = x", want: "failed conflict"},
		{name: "another version that cannot be read", world: []string{"f 0200"}, call: "if-stale write f = x", want: "failed EACCES"},
		{name: "somebody else's", world: []string{"f 0666 other = old"}, call: "write f = x", want: "failed unsupported by EPERM"},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestDeniedWrite: what the system refuses is offered, and what becomes of it is
// on record.
func TestDeniedWrite(t *testing.T) {
	closed := []string{"d/ 0555"}
	readOnly := []string{"f 0400 = old"}
	const askedF = "write /secret-root/f = x: EACCES"
	const askedD = "write /secret-root/d/f = x: EACCES"
	const askedNew = "write /secret-root/d/new/f = x: EACCES"
	for _, tt := range []trial{
		{name: "read-only file, declined", world: readOnly, call: "write f = x", want: "failed read-only-target by EACCES", asked: []string{askedF}, refusals: []string{`EACCES of f at "/secret-root/f"`}},
		{name: "read-only file, landed", world: readOnly, call: "write f = x", do: lands, want: "ok", after: []string{"f 0400 = x"}, asked: []string{askedF}, refusals: []string{`EACCES of f at "/secret-root/f" landed`}},
		{name: "read-only file, a lie", world: readOnly, call: "write f = x", do: lies, want: "unknown", asked: []string{askedF}, refusals: []string{`EACCES of f at "/secret-root/f"`}},
		{name: "half of the bytes", world: readOnly, call: "write f = xx", do: cutsShort, want: "unknown", after: []string{"f 0400 = x"}, asked: []string{"write /secret-root/f = xx: EACCES"}, refusals: []string{`EACCES of f at "/secret-root/f"`}},
		{name: "landed and not said", world: readOnly, call: "write f = x", do: landsAndSaysNo, want: "failed read-only-target by EACCES", after: []string{"f 0400 = x"}, asked: []string{askedF}, refusals: []string{`EACCES of f at "/secret-root/f"`}},
		{name: "closed directory", world: closed, call: "write d/f = x", do: lands, want: "ok", after: []string{"d/ 0555", "d/f = x"}, asked: []string{askedD}},
		{name: "file in a closed directory", world: []string{"d/ 0555", "d/f = old"}, call: "write d/f = x", want: "failed EACCES", asked: []string{askedD}},
		{name: "immutable file", world: []string{"f immutable = old"}, call: "write f = x", want: "failed EPERM", asked: []string{"write /secret-root/f = x: EPERM"}},
		{name: "immutable directory", world: []string{"d/ immutable"}, call: "write d/f = x", want: "failed EPERM", asked: []string{"write /secret-root/d/f = x: EPERM"}},
		{name: "file of others in a sticky directory", world: []string{"d/ 1777 other", "d/f 0666 other = old"}, call: "write d/f = x", want: "failed unsupported by EPERM"},
		{name: "read-only mount", world: []string{"d/ ro"}, call: "write d/f = x", want: "failed EROFS", asked: []string{"write /secret-root/d/f = x: EROFS"}},
		{name: "file on a read-only mount", world: []string{"d/ ro", "d/f = old"}, call: "write d/f = x", want: "failed EROFS", asked: []string{"write /secret-root/d/f = x: EROFS"}},
		{name: "must not exist", world: closed, call: "if-absent write d/f = x", do: lands, want: "ok", after: []string{"d/ 0555", "d/f = x"}, asked: []string{askedD + " exclusive"}},
		{name: "stale version is refused before", world: readOnly, call: "if-stale write f = x", do: lands, want: "failed conflict", refusals: []string{`EACCES of f at "/secret-root/f"`}},
		{name: "parent", world: closed, call: "write d/new/f = x", want: "failed ENOENT", asked: []string{askedNew}, refusals: []string{`EACCES of d/new/f at "/secret-root/d/new/f"`}},
		{name: "parent, landed", world: closed, call: "write d/new/f = x", do: lands, want: "ok", after: []string{"d/ 0555", "d/new/", "d/new/f = x"}, asked: []string{askedNew}},
		{name: "parent, a lie", world: closed, call: "write d/new/f = x", do: lies, want: "unknown", asked: []string{askedNew}},
		{name: "parents, dots left out", world: closed, call: "write d/new/./e//f = x", want: "failed ENOENT", asked: []string{"write /secret-root/d/new/e/f = x: EACCES"}},
		{name: "parent that is left again", world: closed, call: "write d/new/../f = x", do: lands, want: "failed ENOENT", refusals: []string{`EACCES of d/new/../f at ""`}},
		{name: "parent, must not exist", world: closed, call: "if-absent write d/new/f = x", want: "failed ENOENT", asked: []string{askedNew + " exclusive"}},
		{name: "parent, a version expected", world: closed, call: "if-stale write d/new/f = x", do: lands, want: "failed conflict", refusals: []string{`EACCES of d/new/f at "/secret-root/d/new/f"`}},
		{name: "parents made before it are undone", world: []string{"a/", "a/d/ 0555"}, call: "write b/../a/d/new/f = x", want: "failed ENOENT", asked: []string{"write /secret-root/a/d/new/f = x: EACCES"}},
		{name: "hidden", world: []string{"d/ 0600", "d/f"}, call: "write d/f = x", do: lands, want: "failed cannot-inspect by EACCES"},
		{name: "closed FIFO", world: []string{"p| 0400"}, call: "write p = x", do: lands, want: "failed unsupported"},
		{name: "link, followed", world: []string{"d/ 0555", "d/f 0400 = old", "l => d/f"}, call: "write l = x", follow: true, want: "failed read-only-target by EACCES", asked: []string{askedD}},
		{name: "dangling link, followed", world: []string{"d/ 0555", "l => d/f"}, call: "write l = x", follow: true, do: lands, want: "failed EACCES", refusals: []string{`EACCES of l at ""`}},
		{name: "what has no destination is not offered", world: []string{"d/ 0555", "d/l => f"}, call: "write d/l = x", do: lands, want: "failed ELOOP"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestDelete(t *testing.T) {
	for _, tt := range []trial{
		{name: "file", world: []string{"f", "g"}, call: "delete f", want: "ok", after: []string{"g = g"}},
		{name: "one of two names", world: []string{"f", "g == f"}, call: "delete f", want: "ok", after: []string{"g = f"}},
		{name: "FIFO", world: []string{"p|"}, call: "delete p", want: "ok", after: []string{}},
		{name: "missing", call: "delete f", want: "failed ENOENT"},
		{name: "empty directory", world: []string{"d/"}, call: "delete d", want: "failed EISDIR"},
		{name: "through a file", world: []string{"f"}, call: "delete f/g", want: "failed ENOTDIR"},
		{name: "out of the root", call: "delete ../out/canary", want: "failed escapes-root"},
		{name: "mount point", world: []string{"f bind"}, call: "delete f", want: "failed EBUSY"},
		{name: "link", world: []string{"f", "l => f"}, call: "delete l", want: "failed ELOOP"},
		{name: "link, followed on the way only", world: []string{"f", "l => f"}, call: "delete l", follow: true, want: "ok", after: []string{"f = f"}},
		{name: "dangling link, followed", world: []string{"l => f"}, call: "delete l", follow: true, want: "ok", after: []string{}},
		{name: "the version seen", world: []string{"f"}, call: "if-seen delete f", want: "ok", after: []string{}},
		{name: "another version", world: []string{"f"}, call: "if-stale delete f", want: "failed conflict"},
		{name: "what should not be there", world: []string{"f"}, call: "if-absent delete f", want: "failed EEXIST"},
		{name: "another version of a FIFO", world: []string{"p|"}, call: "if-stale delete p", want: "failed unsupported"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestDeniedDelete(t *testing.T) {
	closed := []string{"d/ 0555", "d/f"}
	const asked = "delete /secret-root/d/f: EACCES"
	const record = `EACCES of d/f at "/secret-root/d/f"`
	for _, tt := range []trial{
		{name: "declined", world: closed, call: "delete d/f", want: "failed EACCES", asked: []string{asked + " confirmed"}, refusals: []string{record}},
		{name: "landed", world: closed, call: "delete d/f", do: lands, want: "ok", after: []string{"d/ 0555"}, asked: []string{asked + " confirmed"}, refusals: []string{record + " landed"}},
		{name: "a lie", world: closed, call: "delete d/f", do: lies, want: "unknown", asked: []string{asked + " confirmed"}, refusals: []string{record}},
		{name: "landed and not said", world: closed, call: "delete d/f", do: landsAndSaysNo, want: "failed EACCES", after: []string{"d/ 0555"}, asked: []string{asked + " confirmed"}, refusals: []string{record}},
		{name: "sticky", world: []string{"d/ 1777 other", "d/f other"}, call: "delete d/f", want: "failed EPERM", asked: []string{"delete /secret-root/d/f: EPERM confirmed"}},
		{name: "immutable", world: []string{"f immutable"}, call: "delete f", want: "failed EPERM", asked: []string{"delete /secret-root/f: EPERM confirmed"}},
		{name: "read-only mount", world: []string{"d/ ro", "d/f"}, call: "delete d/f", want: "failed EROFS", asked: []string{"delete /secret-root/d/f: EROFS confirmed"}},
		{name: "missing on a read-only mount", world: []string{"d/ ro"}, call: "delete d/f", do: lands, want: "failed ENOENT"},
		{name: "directory", world: []string{"d/ 0555", "d/e/"}, call: "delete d/e", do: lands, want: "failed EISDIR"},
		{name: "FIFO", world: []string{"d/ 0555", "d/p|"}, call: "delete d/p", want: "failed EACCES", asked: []string{"delete /secret-root/d/p: EACCES"}},
		{name: "link, followed on the way only", world: []string{"d/ 0555", "d/l => ../d/f", "d/f"}, call: "delete d/l", follow: true, want: "failed EACCES", asked: []string{"delete /secret-root/d/l: EACCES"}},
		{name: "stale version is refused before", world: closed, call: "if-stale delete d/f", do: lands, want: "failed conflict"},
		{name: "hidden", world: []string{"d/ 0600", "d/f"}, call: "delete d/f", want: "failed EACCES", asked: []string{asked}},
		{name: "hidden, landed and not seen to be", world: []string{"d/ 0600", "d/f"}, call: "delete d/f", do: lands, want: "unknown", after: []string{"d/ 0600"}, asked: []string{asked}},
		{name: "hidden, a version expected", world: []string{"d/ 0600", "d/f"}, call: "if-stale delete d/f", do: lands, want: "failed cannot-inspect"},
		{name: "below what is hidden", world: []string{"d/ 0600", "d/e/", "d/e/f"}, call: "delete d/e/f", do: lands, want: "failed cannot-inspect by EACCES"},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestMove(t *testing.T) {
	for _, tt := range []trial{
		{name: "file", world: []string{"f = x"}, call: "move f to g", want: "ok", after: []string{"g = x"}},
		{name: "keeps its mode", world: []string{"f 0640 = x"}, call: "move f to g", want: "ok", after: []string{"g 0640 = x"}},
		{name: "keeps a mode that forbids to write", world: []string{"f 0444 = x"}, call: "move f to g", want: "ok", after: []string{"g 0444 = x"}},
		{name: "loses setuid", world: []string{"f 4755 = x"}, call: "move f to g", want: "ok", after: []string{"g 0755 = x"}},
		{name: "makes parents", world: []string{"f = x"}, call: "move f to a/b/g", want: "ok", after: []string{"a/", "a/b/", "a/b/g = x"}},
		{name: "one of two names", world: []string{"f = x", "h == f"}, call: "move f to g", want: "ok", after: []string{"g = x", "h = x"}},
		{name: "onto a file", world: []string{"f = x", "g"}, call: "move f to g", want: "failed EEXIST"},
		{name: "onto itself", world: []string{"f = x"}, call: "move f to f", want: "failed EEXIST"},
		{name: "onto a directory", world: []string{"f = x", "d/"}, call: "move f to d", want: "failed EISDIR"},
		{name: "onto a link", world: []string{"f = x", "l => g"}, call: "move f to l", want: "failed ELOOP"},
		{name: "missing", call: "move f to g", want: "failed ENOENT"},
		{name: "directory", world: []string{"d/"}, call: "move d to e", want: "failed EISDIR"},
		{name: "FIFO", world: []string{"p|"}, call: "move p to q", want: "failed unsupported"},
		{name: "link", world: []string{"f", "l => f"}, call: "move l to g", follow: true, want: "failed ELOOP"},
		{name: "unreadable", world: []string{"f 0200"}, call: "move f to g", want: "failed EACCES"},
		{name: "hidden", world: []string{"d/ 0600", "d/f"}, call: "move d/f to g", want: "failed cannot-inspect by EACCES"},
		{name: "out of the root", world: []string{"f"}, call: "move f to ../out/f", want: "failed escapes-root"},
		{name: "into the root", call: "move ../out/canary to f", want: "failed escapes-root"},
		{name: "the version seen", world: []string{"f = x"}, call: "if-seen move f to g", want: "ok", after: []string{"g = x"}},
		{name: "another version", world: []string{"f"}, call: "if-stale move f to g", want: "failed conflict"},
		{name: "somebody else's", world: []string{"f 0644 other = x"}, call: "move f to g", want: "failed unsupported by EPERM"},
		{
			name: "mount point: the bytes are there, and here", world: []string{"f bind = x"}, call: "move f to g",
			want: "failed EBUSY", after: []string{"f bind = x", "g = x"},
		},
		{
			name: "destination denied", world: []string{"f = x", "d/ 0555"}, call: "move f to d/g", want: "failed EACCES",
			asked: []string{"write /secret-root/d/g = x: EACCES exclusive"}, refusals: []string{`EACCES of d/g at "/secret-root/d/g"`},
		},
		{
			name: "destination landed", world: []string{"f = x", "d/ 0555"}, call: "move f to d/g", do: lands,
			want: "ok", after: []string{"d/ 0555", "d/g = x"},
			asked: []string{"write /secret-root/d/g = x: EACCES exclusive"}, refusals: []string{`EACCES of d/g at "/secret-root/d/g" landed`},
		},
		{
			name: "destination a lie: the source stays", world: []string{"f = x", "d/ 0555"}, call: "move f to d/g", do: lies,
			want: "unknown", asked: []string{"write /secret-root/d/g = x: EACCES exclusive"},
		},
		{
			name: "source denied", world: []string{"d/ 0555", "d/f = x"}, call: "move d/f to g",
			want: "failed EACCES", after: []string{"d/ 0555", "d/f = x", "g = x"},
			asked: []string{"delete /secret-root/d/f: EACCES confirmed"}, refusals: []string{`EACCES of d/f at "/secret-root/d/f"`},
		},
		{
			name: "source landed", world: []string{"d/ 0555", "d/f = x"}, call: "move d/f to g", do: lands,
			want: "ok", after: []string{"d/ 0555", "g = x"}, asked: []string{"delete /secret-root/d/f: EACCES confirmed"},
		},
		{
			name: "both denied, both landed", world: []string{"d/ 0555", "d/f = x"}, call: "move d/f to d/g", do: lands,
			want: "ok", after: []string{"d/ 0555", "d/g = x"},
			asked:    []string{"write /secret-root/d/g = x: EACCES exclusive", "delete /secret-root/d/f: EACCES confirmed"},
			refusals: []string{`EACCES of d/g at "/secret-root/d/g" landed`, `EACCES of d/f at "/secret-root/d/f" landed`},
		},
	} {
		t.Run(tt.name, tt.run)
	}
}

func TestOtherCalls(t *testing.T) {
	for _, kind := range append([]spec.CallKind{"", "chmod"}, spec.CallKinds...) {
		want := "failed invalid-argument"
		switch kind {
		case spec.CallRead, spec.CallWrite, spec.CallDelete, spec.CallMove:
			continue
		case spec.CallEdit, spec.CallView, spec.CallTool:
			want = "failed unsupported"
		}
		t.Run(string(kind), func(t *testing.T) {
			w := grow(t, "f")
			if got := outcome(w.do(t.Context(), spec.Call{Kind: kind, Path: "f"}).Outcome); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestTooLarge: what a call may not read is refused and not cut.
func TestTooLarge(t *testing.T) {
	w := grow(t)
	big := memfs.Node{Bits: 0o600, UID: subject.UID, GID: subject.GID, Data: make([]byte, tools.MaxContent+1)}
	w.must(w.admin.Make(at("f"), big))
	for _, tt := range []struct {
		call, want string
	}{
		{"read f", "failed EFBIG"},
		{"move f to g", "failed EFBIG"},
		{"if-stale write f = x", "failed EFBIG"},
		{"write f = x", "ok"},
		{"read f", "ok"},
	} {
		if got := outcome(w.do(t.Context(), w.parse(tt.call)).Outcome); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.call, got, tt.want)
		}
	}
}

// TestVersions: a version changes with the bytes and with the object, and with
// nothing else.
func TestVersions(t *testing.T) {
	w := grow(t, "f = x", "g = x")
	v := tools.Default().Version
	first := w.version("f")
	w.must(w.admin.Change(at("f"), func(n *memfs.Node) { n.Mtime, n.Bits = 1, 0o640 }))
	if again := w.version("f"); again != first {
		t.Errorf("a touch and a chmod made %s of %s", again, first)
	}
	if w.version("g") == first {
		t.Error("two files of the same bytes have one version")
	}
	w.must(w.admin.Write(at("f"), []byte("y"), memfs.Node{}))
	if w.version("f") == first {
		t.Error("other bytes have the same version")
	}
	if v(vfs.ID{Dev: 1, Ino: 2}, []byte("x")) == v(vfs.ID{Dev: 2, Ino: 1}, []byte("x")) {
		t.Error("the device is not part of the version")
	}
}

// TestAppears: what comes to be while a call is under way is not written over.
func TestAppears(t *testing.T) {
	for _, tt := range []struct {
		call, want string
	}{
		{"write f = x", "failed conflict by EEXIST"},
		{"if-absent write f = x", "failed conflict by EEXIST"},
		{"move s to f", "failed EEXIST"},
	} {
		t.Run(tt.call, func(t *testing.T) {
			w := grow(t, "s")
			w.tap.strike = func(op vfs.OpKind, _ string, done bool) error {
				if op == vfs.OpWrite && done {
					w.add("f 0644 = first")
				}
				return nil
			}
			if got := outcome(w.do(t.Context(), w.parse(tt.call)).Outcome); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if diff := cmp.Diff([]string{"f 0644 = first", "s = s"}, w.tree()); diff != "" {
				t.Errorf("the tree (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChanges: what changes between the first look and the last is not written
// over, nor removed.
func TestChanges(t *testing.T) {
	changes := map[string]func(w *world){
		"content":  func(w *world) { w.must(w.admin.Write(at("f"), []byte("theirs"), memfs.Node{})) },
		"identity": func(w *world) { w.must(w.admin.Remove(at("f"))); w.add("f = theirs") },
		"gone":     func(w *world) { w.must(w.admin.Remove(at("f"))) },
	}
	for name, change := range changes {
		for _, tt := range []struct {
			call, want string
			on         vfs.OpKind // before which it changes
			moved      bool
		}{
			{"write f = x", "failed conflict", vfs.OpSync, false},
			{"if-seen write f = x", "failed conflict", vfs.OpSync, false},
			{"move f to g", "failed conflict", vfs.OpSync, true},
		} {
			t.Run(tt.call+" "+name, func(t *testing.T) {
				w := grow(t, "f = old")
				call := w.parse(tt.call)
				var once sync.Once
				w.tap.strike = func(op vfs.OpKind, _ string, _ bool) error {
					if op == tt.on {
						once.Do(func() { change(w) })
					}
					return nil
				}
				want := tt.want
				if name == "gone" && tt.moved {
					want = "failed ENOENT"
				}
				if got := outcome(w.do(t.Context(), call).Outcome); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				tree := []string{"f = theirs"}
				if name == "gone" {
					tree = []string{}
				}
				if tt.moved {
					tree = append(tree, "g = old")
				}
				if diff := cmp.Diff(tree, w.tree()); diff != "" {
					t.Errorf("the tree (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// TestChangesWhileRead: a file is read as one state or not at all.
func TestChangesWhileRead(t *testing.T) {
	for _, text := range []string{"older and longer", "new"} {
		t.Run(text, func(t *testing.T) {
			w := grow(t, "f = old")
			var once sync.Once
			w.tap.strike = func(op vfs.OpKind, _ string, done bool) error {
				if op == vfs.OpRead && done {
					once.Do(func() { w.must(w.admin.Write(at("f"), []byte(text), memfs.Node{})) })
				}
				return nil
			}
			if got, want := outcome(w.do(t.Context(), w.parse("read f")).Outcome), "failed conflict"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

// TestNewParentsLast: every directory that got an entry is made durable.
func TestNewParentsLast(t *testing.T) {
	w := grow(t)
	var ops []string
	w.tap.strike = func(op vfs.OpKind, _ string, done bool) error {
		if done && slices.Contains([]vfs.OpKind{vfs.OpMkdir, vfs.OpPublish, vfs.OpSyncDir}, op) {
			ops = append(ops, string(op))
		}
		return nil
	}
	w.do(t.Context(), w.parse("write a/b/f = x"))
	if diff := cmp.Diff("mkdir sync-dir mkdir sync-dir publish sync-dir", strings.Join(ops, " ")); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

// TestPlantedDirectory: a directory that took the place of one that a failed call
// made is not taken away with it.
func TestPlantedDirectory(t *testing.T) {
	w := grow(t)
	w.tap.strike = func(op vfs.OpKind, _ string, done bool) error {
		if op == vfs.OpOpenDoom && !done {
			w.must(w.admin.Remove(at("a")))
			w.add("a/ 0700")
		}
		return nil
	}
	if got, want := outcome(w.do(t.Context(), w.parse("write a/f = x")).Outcome), "failed EPERM"; got != want {
		t.Errorf("got %s, want %s: a removed directory takes no file", got, want)
	}
	if diff := cmp.Diff([]string{"a/ 0700"}, w.tree()); diff != "" {
		t.Errorf("the tree (-want +got):\n%s", diff)
	}
}

// TestGivenUp: nobody waits for the answer any more, and a handler may still be at
// work.
func TestGivenUp(t *testing.T) {
	for _, call := range []string{"write d/f = x", "write d/new/f = x", "delete d/f", "move d/f to g"} {
		t.Run(call, func(t *testing.T) {
			w := grow(t, "d/ 0555", "d/f")
			ctx, cancel := context.WithCancel(t.Context())
			w.seam.do = func(*world, string, []byte, bool) bool { cancel(); return false }
			if got := outcome(w.do(ctx, w.parse(call)).Outcome); got != "unknown" {
				t.Errorf("got %s, want unknown", got)
			}
			if len(w.seam.asked) != 1 {
				t.Errorf("asked %q, want one handler", w.seam.asked)
			}
		})
	}
}

func TestTempNames(t *testing.T) {
	name := tools.Default().TempName
	a, b := name("f"), name(strings.Repeat("n", 255))
	if a == b || len(a) != len(b) || len(a) > 64 {
		t.Errorf("names %q and %q, want two that differ and are short", a, b)
	}
	if !strings.HasPrefix(a, tools.TempPrefix) || !strings.HasSuffix(a, tools.TempSuffix) {
		t.Errorf("name %q, want %s...%s", a, tools.TempPrefix, tools.TempSuffix)
	}
}

// TestConcurrentCalls is for the race detector. Every file is whole in the end, and
// nothing else is left.
func TestConcurrentCalls(t *testing.T) {
	w := grow(t, "d/")
	texts := []string{strings.Repeat("a", 1000), strings.Repeat("b", 2000), strings.Repeat("c", 3000)}
	var wg sync.WaitGroup
	for i, text := range texts {
		wg.Go(func() {
			for range 50 {
				for _, c := range []spec.Call{
					{Kind: spec.CallWrite, Path: "d/f", Content: spec.Content(text)},
					{Kind: spec.CallRead, Path: "d/f"},
					{Kind: spec.CallWrite, Path: fmt.Sprintf("d/e%d/g", i), Content: spec.Content(text)},
					{Kind: spec.CallDelete, Path: fmt.Sprintf("d/e%d/g", i)},
				} {
					res := w.tools.Do(t.Context(), c)
					if c.Kind == spec.CallRead && res.Status == spec.StatusOK && !slices.Contains(texts, string(res.Content)) {
						t.Errorf("a mixture was read: %.10q...", res.Content)
					}
				}
			}
		})
	}
	wg.Wait()
	tree := w.tree()
	if n := w.tap.open.Load(); n != 0 {
		t.Errorf("%d handles are open", n)
	}
	_, text, _ := strings.Cut(tree[len(tree)-1], " = ")
	if !slices.Contains(texts, text) || len(tree) != 5 {
		t.Errorf("the tree is %.20q", tree)
	}
}
