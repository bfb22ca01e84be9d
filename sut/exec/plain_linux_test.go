package exec_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/exec"
)

func TestPlain(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		status       spec.Status
		err          spec.ErrKind
		content      string
	}{
		{"it writes", `cat > "$0"`, spec.StatusOK, "", "new"},
		{"it says what the system said", `echo 'cat: x: Permission denied' >&2; exit 1`, spec.StatusFailed, spec.ErrAccess, "old"},
		{"it names the errno", `echo 'Error: ENOSPC: no space left on device, write' >&2; exit 1`, spec.StatusFailed, spec.ErrNoSpace, "old"},
		{"it says nothing", `exit 3`, spec.StatusFailed, spec.ErrOther, "old"},
		{"it is killed", `kill -9 $$`, spec.StatusUnknown, "", "old"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			file := filepath.Join(root, "a")
			if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			d := exec.New(exec.Options{Plain: exec.PlainArgv("/bin/sh", "-c", tt.script, "{path}")})
			defer d.Close()
			s, err := d.Open(t.Context(), sut.Env{Root: root})
			if err != nil {
				t.Fatal(err)
			}
			out, err := s.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallWrite, Path: "a", Content: spec.Content("new")})
			if err != nil {
				t.Fatal(err)
			}
			if out.Status != tt.status || out.Err != tt.err {
				t.Errorf("outcome is %v, want %s %s", out, tt.status, tt.err)
			}
			if got, _ := os.ReadFile(file); string(got) != tt.content {
				t.Errorf("content is %q, want %q", got, tt.content)
			}
		})
	}
}
