package mcp

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/suttest"
)

// filesystemEnv names the folder where the official server is installed.
const filesystemEnv = "FSBENCH_MCP_FILESYSTEM"

// officialDriver drives the official server, if it is there.
func officialDriver(t *testing.T) *Driver {
	t.Helper()
	folder := os.Getenv(filesystemEnv)
	if folder == "" {
		t.Skip(filesystemEnv + " does not name a folder with the official server")
	}
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("there is no node: ", err)
	}
	b, err := Filesystem(folder)
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s %s", b.Name, b.Version)
	d, err := New(Options{Binding: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// realDir is a folder for a root: absolute and free of links.
func realDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestOfficialServer(t *testing.T) {
	d := officialDriver(t)
	root := realDir(t)
	for _, err := range []error{
		os.Mkdir(filepath.Join(root, "d"), 0o755),
		os.WriteFile(filepath.Join(root, "f"), []byte("old"), 0o640),
		os.Symlink("..", filepath.Join(root, "out")),
		os.Symlink("loop", filepath.Join(root, "loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s, err := d.Open(t.Context(), sut.Env{Root: root, WireFault: func(kind, line, note string) {
		t.Errorf("%s: %s %s", kind, line, note)
	}})
	if err != nil {
		t.Fatal(err)
	}
	big := strings.Repeat("0123456789abcde\n", 1<<16)
	ok := spec.Outcome{Status: spec.StatusOK}
	failed := func(kind spec.ErrKind) spec.Outcome { return spec.Outcome{Status: spec.StatusFailed, Err: kind} }
	holds := func(text string) spec.Outcome {
		return spec.Outcome{Status: spec.StatusOK, Content: spec.Content(text)}
	}
	for i, tc := range []struct {
		name string
		call spec.Call
		want spec.Outcome
	}{
		{"read", spec.Call{Kind: spec.CallRead, Path: "f"}, holds("old")},
		{"replace", spec.Call{Kind: spec.CallWrite, Path: "f", Content: spec.Content("new {path}\n")}, ok},
		{"read what was written", spec.Call{Kind: spec.CallRead, Path: "f"}, holds("new {path}\n")},
		{"create", spec.Call{Kind: spec.CallWrite, Path: "d/new", Content: spec.Content("x")}, ok},
		{"write nothing", spec.Call{Kind: spec.CallWrite, Path: "d/empty"}, ok},
		{"read nothing", spec.Call{Kind: spec.CallRead, Path: "d/empty"}, holds("")},
		{"write 1 MiB", spec.Call{Kind: spec.CallWrite, Path: "big", Content: spec.Content(big)}, ok},
		{"read 1 MiB", spec.Call{Kind: spec.CallRead, Path: "big"}, holds(big)},
		{"move", spec.Call{Kind: spec.CallMove, Path: "d/new", To: "moved"}, ok},
		{"read what was moved", spec.Call{Kind: spec.CallRead, Path: "moved"}, holds("x")},
		{"absolute", spec.Call{Kind: spec.CallRead, Path: filepath.Join(root, "moved")}, holds("x")},
		{"absent", spec.Call{Kind: spec.CallRead, Path: "no/such"}, failed(spec.ErrNotFound)},
		{"no parent", spec.Call{Kind: spec.CallWrite, Path: "n/m/f"}, failed(spec.ErrNotFound)},
		{"directory", spec.Call{Kind: spec.CallRead, Path: "d"}, failed(spec.ErrIsDir)},
		{"directory to write", spec.Call{Kind: spec.CallWrite, Path: "d"}, failed(spec.ErrIsDir)},
		{"below a file", spec.Call{Kind: spec.CallWrite, Path: "f/x"}, failed(spec.ErrNotDir)},
		{"loop", spec.Call{Kind: spec.CallRead, Path: "loop"}, failed(spec.ErrLoop)},
		{"long name", spec.Call{Kind: spec.CallRead, Path: strings.Repeat("n", 256)}, failed(spec.ErrNameTooLong)},
		{"upwards", spec.Call{Kind: spec.CallRead, Path: "../x"}, failed(spec.ErrEscapes)},
		{"through a link", spec.Call{Kind: spec.CallWrite, Path: "out/x"}, failed(spec.ErrEscapes)},
		{"occupied", spec.Call{Kind: spec.CallMove, Path: "moved", To: "f"}, failed(spec.ErrExists)},
		{"into itself", spec.Call{Kind: spec.CallMove, Path: "d", To: "d/d"}, failed(spec.ErrInvalid)},
		{"not bound", spec.Call{Kind: spec.CallDelete, Path: "f"}, failed(spec.ErrUnsupported)},
		{"no text", spec.Call{Kind: spec.CallWrite, Path: "f", Content: spec.Content{0xff}}, failed(spec.ErrUnsupported)},
	} {
		tc.call.ID = spec.CallID(i + 1)
		tc.want.Call = tc.call.ID
		got, err := s.Do(t.Context(), tc.call)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		if got.Status == spec.StatusFailed {
			t.Logf("%s: %s", tc.name, strings.ReplaceAll(got.Detail, root, "$ROOT"))
		}
		if diff := cmp.Diff(tc.want, got, cmpopts.IgnoreFields(spec.Outcome{}, "Detail", "Errno")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(filepath.Join(root, "big")); err != nil || !bytes.Equal(got, []byte(big)) {
		t.Errorf("%d bytes on disk, %v, want the %d that were written", len(got), err, len(big))
	}
}

func TestOfficialServerKeepsTheContract(t *testing.T) {
	d := officialDriver(t)
	if err := suttest.TestDriver(context.Background(), d, func() (string, error) { return realDir(t), nil }); err != nil {
		t.Error(err)
	}
}
