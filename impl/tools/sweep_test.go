package tools_test

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// TestEveryOperationFails lets each operation of the port fail that a call makes,
// before and after it took effect, and checks that the answer is true.
func TestEveryOperationFails(t *testing.T) {
	for _, tt := range []struct {
		call  string
		world []string
	}{
		{"read f", []string{"f = old"}},
		{"write f = new", nil},
		{"write f = new", []string{"f 0640 = old"}},
		{"if-seen write f = new", []string{"f = old"}},
		{"if-absent write f = new", nil},
		{"write a/b/f = new", nil},
		{"delete f", []string{"f = old"}},
		{"if-seen delete f", []string{"f = old"}},
		{"move s to f", []string{"s = new"}},
		{"move s to a/b/f", []string{"s 0640 = new"}},
		{"if-seen move s to f", []string{"s = new"}},
	} {
		for _, caps := range []vfs.Caps{0, vfs.CapPublish} { // those that are left out
			t.Run(fmt.Sprintf("%s over %v without %v", tt.call, tt.world, caps), func(t *testing.T) {
				for _, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES, syscall.EROFS} {
					for _, after := range []bool{false, true} {
						for n := 0; ; n++ {
							w := grow(t, tt.world...)
							w.tools.Caps &^= caps
							if !w.struck(tt.call, n, after, errno) {
								break
							}
						}
					}
				}
			})
		}
	}
}

// mayBeDenied are the operations whose refusal is a denial.
var mayBeDenied = []vfs.OpKind{
	vfs.OpProbe, vfs.OpOpenDoom, vfs.OpOpenFile, vfs.OpPublish, vfs.OpRename, vfs.OpMkdir, vfs.OpRemove,
}

// struck makes a call whose nth operation fails, and judges the answer. It reports
// whether there was such an operation.
func (w *world) struck(line string, n int, after bool, errno syscall.Errno) bool {
	w.t.Helper()
	c := w.parse(line)
	before := w.tree()
	var ops []vfs.OpKind
	w.tap.strike = func(op vfs.OpKind, name string, done bool) error {
		if !done {
			ops = append(ops, op)
		}
		if len(ops)-1 == n && done == after && op != vfs.OpClose { // nothing was written through what tools close
			return &fs.PathError{Op: string(op), Path: name, Err: errno}
		}
		return nil
	}
	res := w.do(w.t.Context(), c)
	w.tap.strike = nil
	if n >= len(ops) {
		if res.Status != spec.StatusOK {
			w.t.Errorf("nothing failed, and the outcome is %s: %s", outcome(res.Outcome), res.Detail)
		}
		return false
	}
	what := fmt.Sprintf("%s: %v after=%v of %s, the last of %v: %s", line, errno, after, ops[n], ops[:n+1], outcome(res.Outcome))
	w.judge(what, c, res.Outcome, before, ops[n], after)
	if barrier := ops[n] == vfs.OpSync || ops[n] == vfs.OpSyncDir; barrier && errno == syscall.EIO && res.Status == spec.StatusOK {
		w.t.Errorf("%s: a success that may not last", what)
	}
	if asked := len(w.seam.asked) > 0; asked && (errno == syscall.EIO || !slices.Contains(mayBeDenied, ops[n])) {
		w.t.Errorf("%s: handlers were asked: %q", what, w.seam.asked)
	}
	if len(w.seam.asked) != len(res.Refusals) {
		w.t.Errorf("%s: asked %q, and on record are %v", what, w.seam.asked, res.Refusals)
	}
	return true
}

// judge compares an answer with the tree. struck is what failed.
func (w *world) judge(what string, c spec.Call, out spec.Outcome, before []string, struck vfs.OpKind, after bool) {
	w.t.Helper()
	var files, rest []string
	for _, line := range w.tree() {
		if strings.Contains(line, " = ") && !strings.HasPrefix(line, ".fsbench-") && !strings.Contains(line, "/.fsbench-") {
			files = append(files, line)
		} else {
			rest = append(rest, line)
		}
	}
	asWas := slices.Equal(files, slices.DeleteFunc(slices.Clone(before), func(l string) bool { return !strings.Contains(l, " = ") }))
	isNew := func(p string) bool {
		return slices.ContainsFunc(files, func(l string) bool { return strings.HasPrefix(l, p) && strings.HasSuffix(l, " = new") })
	}
	done := map[spec.CallKind]bool{
		spec.CallRead:   asWas,
		spec.CallWrite:  len(files) == 1 && isNew(c.Path),
		spec.CallDelete: len(files) == 0,
		spec.CallMove:   len(files) == 1 && isNew(c.To),
	}[c.Kind]
	if c.Kind == spec.CallMove {
		if !isNew(c.Path) && !isNew(c.To) {
			w.t.Errorf("%s: the bytes are lost: %q", what, files)
		}
		// The first half of a move is done and said to be: the source is what counts.
		asWas = asWas || len(files) == 2 && isNew(c.Path) && isNew(c.To)
	}
	switch {
	case out.Status == spec.StatusOK && !done:
		w.t.Errorf("%s: not done: %q", what, files)
	case out.Status == spec.StatusFailed && !asWas:
		w.t.Errorf("%s: not as it was: %q", what, files)
	case !done && !asWas:
		w.t.Errorf("%s: neither done nor as it was: %q", what, files)
	}
	// Directories that were made for nothing go again, and private names. What was
	// made and reported as failed cannot be known for ours, nor what a look failed at.
	mayStay := struck == vfs.OpMkdir && after || struck == vfs.OpLstat || struck == vfs.OpRmdir ||
		struck == vfs.OpOpenFile && after || struck == vfs.OpRemove
	if out.Status == spec.StatusFailed && asWas && len(files) < 2 && len(rest) > 0 && !mayStay {
		w.t.Errorf("%s: left behind: %q", what, rest)
	}
}
