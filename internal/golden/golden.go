// Package golden compares what a test made with the file under golden/ that
// says what it should be, and rewrites the file when asked to.
//
// It is for tests only and knows nothing of the module: what is compared is
// text that its caller has already made independent of the machine.
package golden

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Check compares got with the file of that name under golden/ in the module
// that the test's working directory belongs to, and fails the test with a diff
// if they differ or the file does not exist. The name is a slash path.
//
// With UPDATE_GOLDEN=1 in the environment it writes the file instead. It
// refuses to when CI is set: there a golden file is what was reviewed.
func Check(tb testing.TB, name, got string) {
	tb.Helper()
	root, err := moduleRoot()
	if err != nil {
		tb.Fatalf("golden: %v", err)
	}
	if !fs.ValidPath(name) || name == "." {
		tb.Fatalf("golden: %q is not a slash path below golden/", name)
	}
	file := filepath.Join(root, "golden", filepath.FromSlash(name))
	if os.Getenv("UPDATE_GOLDEN") == "1" {
		if os.Getenv("CI") != "" {
			tb.Fatalf("golden: UPDATE_GOLDEN=1 is refused because CI is set; update where the change can be reviewed")
		}
		if err := update(file, got); err != nil {
			tb.Fatalf("golden: update golden/%s: %v", name, err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Fatalf("golden: golden/%s does not exist; to write it:\n\t%s", name, command(root))
	}
	if err != nil {
		tb.Fatalf("golden: %v", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		tb.Errorf("golden/%s (-want +got):\n%s\nif the change is meant:\n\t%s", name, diff, command(root))
	}
}

// update leaves a file that is already right untouched, so that only what
// changed has a new time.
func update(file, got string) error {
	old, err := os.ReadFile(file)
	if err == nil && string(old) == got {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(got), 0o644)
}

// command is what updates the golden files of the running test's package.
func command(root string) string {
	pkg := "./..."
	if dir, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(root, dir); err == nil {
			pkg = "./" + filepath.ToSlash(rel)
		}
	}
	return "UPDATE_GOLDEN=1 go test " + pkg
}

// moduleRoot is the nearest folder with a go.mod, from the working directory
// up. A test runs in its package's folder.
func moduleRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above it", start)
		}
	}
}
