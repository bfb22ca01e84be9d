package stdio

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

// The child that docs/PROTOCOL.md shows is a child.
func TestDocumentedChild(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	page, err := os.ReadFile("../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(page, []byte("```python\n"))
	code, _, found := bytes.Cut(rest, []byte("```"))
	if n := bytes.Count(code, []byte("\n")); !found || n > 40 {
		t.Fatalf("the page has a child of %d lines, want one of at most 40", n)
	}
	script := filepath.Join(t.TempDir(), "child.py")
	if err := os.WriteFile(script, code, 0o600); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	var w witness
	d := New(Options{Command: Argv(python, script), ContentDir: t.TempDir()})
	s := open(t, d, w.env(root))
	big := bytes.Repeat([]byte{0, 1, 254, 255}, 1<<16)
	for _, tc := range []struct {
		call spec.Call
		want spec.Outcome
	}{
		{
			spec.Call{ID: 1, Kind: spec.CallRead, Path: "a"},
			spec.Outcome{Call: 1, Status: spec.StatusFailed, Err: spec.ErrNotFound, Errno: "ENOENT"},
		},
		{
			spec.Call{ID: 2, Kind: spec.CallWrite, Path: "a", Content: big},
			spec.Outcome{Call: 2, Status: spec.StatusOK, Receipt: &spec.Receipt{Dst: filepath.Join(root, "a"), Size: int64(len(big))}},
		},
		{
			spec.Call{ID: 3, Kind: spec.CallRead, Path: "a"},
			spec.Outcome{Call: 3, Status: spec.StatusOK, Content: big},
		},
		{
			spec.Call{ID: 4, Kind: spec.CallWrite, Path: "../a"},
			spec.Outcome{Call: 4, Status: spec.StatusFailed, Err: spec.ErrEscapes},
		},
		{
			spec.Call{ID: 5, Kind: spec.CallMove, Path: "a", To: "b"},
			spec.Outcome{Call: 5, Status: spec.StatusFailed, Err: spec.ErrUnsupported},
		},
	} {
		got, err := s.Do(t.Context(), tc.call)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("call %d (-want +got):\n%.2000s", tc.call.ID, diff)
		}
	}
	closed(t, s, d)
	if len(w.faults)+len(w.diags) > 0 {
		t.Errorf("faults %q, diagnostics %q: %s", w.faults, w.diags, strings.TrimSpace(s.Stderr()))
	}
}
