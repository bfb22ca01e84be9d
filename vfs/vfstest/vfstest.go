// Package vfstest checks that a backend keeps the promises of package vfs.
//
// A backend that breaks a promise makes the bench blame an innocent subject, or
// hides a guilty one; so each backend is held to this first. It asks through
// the port alone and knows no backend, which has a price: what the port cannot
// make (a FIFO, a full disk, a second user) is for the backend's own tests.
package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/vfs"
)

// TestFS checks fsys in its absolute directory dir, which must be empty and is
// left empty. It returns every broken promise, joined, or nil. Promises outside
// fsys.Caps are not checked, except that the operations behind them must fail
// with vfs.ErrUnsupported. It takes no testing.T, so that a program can run it
// on a machine without Go.
//
// It cannot see what a privileged caller hides: where nothing is refused, it
// takes permissions to be enforced for others.
func TestFS(fsys vfs.FS, dir string) error {
	root, err := fsys.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("OpenRoot: %w", err)
	}
	if names, _, err := root.ReadDir(0); err != nil || len(names) > 0 {
		return errors.Join(fmt.Errorf("ReadDir of the root = %q, %w: want an empty directory", names, err), root.Close())
	}
	var errs []error
	for _, p := range promises {
		if fsys.Caps().Has(p.caps) {
			c := &check{fsys: fsys, caps: fsys.Caps(), promise: p, path: path.Join(dir, p.name)}
			errs = append(errs, c.run(root))
		}
	}
	names, _, err := root.ReadDir(0)
	if len(names) > 0 {
		err = errors.Join(err, fmt.Errorf("left behind: %q", names))
	}
	return errors.Join(append(errs, err, root.Close())...)
}

// promise is one promise of the port and the capabilities that it needs.
type promise struct {
	name string
	caps vfs.Caps
	test func(c *check) error // an error ends it: the ground for the rest is missing
}

var promises = slices.Concat(namePromises, filePromises, dirPromises, linkPromises, metaPromises, handlePromises)

// check is one promise under test, in a directory of its own.
type check struct {
	promise

	fsys vfs.FS
	caps vfs.Caps
	path string // of dir
	dir  vfs.Dir
	errs []error
}

func (c *check) run(root vfs.Dir) error {
	if err := root.Mkdir(c.name, 0o700); err != nil {
		return fmt.Errorf("%s: Mkdir: %w", c.name, err)
	}
	var err error
	if c.dir, err = root.OpenDir(c.name); err != nil {
		return fmt.Errorf("%s: OpenDir: %w", c.name, errors.Join(err, root.Rmdir(c.name)))
	}
	c.ok("the check", c.test(c))
	sweep(c.dir)
	c.ok("Close", c.dir.Close())
	c.ok("Rmdir after the check", root.Rmdir(c.name))
	return errors.Join(c.errs...)
}

// sweep empties d as far as it can. What is left makes the Rmdir after it fail.
func sweep(d vfs.Dir) {
	names, _, err := d.ReadDir(0)
	if err != nil {
		return
	}
	for _, name := range names {
		info, err := d.Lstat(name)
		if err != nil {
			continue
		}
		if !info.Mode.IsDir() {
			_ = d.Remove(name)
			continue
		}
		if sub, err := d.OpenDir(name); err == nil {
			sweep(sub)
			_ = sub.Close()
		}
		_ = d.Rmdir(name)
	}
}

func (c *check) errorf(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(c.name+": "+format, args...))
}

// ok reports whether err is nil, and records it otherwise.
func (c *check) ok(what string, err error) bool {
	if err != nil {
		c.errorf("%s: %w", what, err)
	}
	return err == nil
}

// equal records got where it is not want.
func equal[T comparable](c *check, what string, got, want T) {
	if got == want {
		return
	}
	verb := "%v"
	if _, text := any(got).(string); text {
		verb = "%q"
	}
	c.errorf("%s = "+verb+", want "+verb, what, got, want)
}

// same records a description that differs from another of the same object.
func (c *check) same(what string, got, want vfs.Info) {
	if got.Mtime.Equal(want.Mtime) && got.Btime.Equal(want.Btime) {
		got.Mtime, got.Btime = want.Mtime, want.Btime // equal instants may be different values
	}
	equal(c, what, got, want)
}

// fails records a failure that is missing, has another reason than one of want,
// or does not come in the form that the port promises.
func (c *check) fails(what string, err error, want ...error) {
	if err == nil {
		c.errorf("%s succeeded, want %s", what, orList(want))
		return
	}
	if !slices.ContainsFunc(want, func(w error) bool { return errors.Is(err, w) }) {
		c.errorf("%s = %w, want %s", what, err, orList(want))
		return
	}
	var pathErr *fs.PathError
	var linkErr *os.LinkError
	if !errors.As(err, &pathErr) && !errors.As(err, &linkErr) {
		c.errorf("%s = %w (%T), want a *fs.PathError or an *os.LinkError", what, err, err)
	}
}

func orList(errs []error) string {
	words := make([]string, len(errs))
	for i, e := range errs {
		words[i] = e.Error()
	}
	return strings.Join(words, " or ")
}

// write makes the file name in d with the given text.
func write(d vfs.Dir, name, text string) error {
	return with(d, name, vfs.WriteOnly|vfs.Create|vfs.Exclusive, func(f vfs.File) error {
		_, err := f.Write([]byte(text))
		return err
	})
}

// writeAll makes several files in c.dir, each with its own name as its text.
func (c *check) writeAll(names ...string) error {
	for _, name := range names {
		if err := write(c.dir, name, name); err != nil {
			return err
		}
	}
	return nil
}

// with opens a file, uses it and closes it.
func with(d vfs.Dir, name string, flag vfs.Flag, use func(f vfs.File) error) error {
	f, err := d.OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close())
}

// attempt opens name and closes it at once; for opens that should fail.
func attempt(d vfs.Dir, name string, flag vfs.Flag) error {
	return with(d, name, flag, func(vfs.File) error { return nil })
}

// readAll is io.ReadAll with patience for a broken Read that never ends.
func readAll(f vfs.File) (string, error) {
	var text strings.Builder
	buf := make([]byte, 512)
	for range 1000 {
		n, err := f.Read(buf)
		text.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			return text.String(), nil
		}
		if err != nil {
			return text.String(), err
		}
	}
	return text.String(), errors.New("read does not end")
}

// holds records that the file name in d has not the given text.
func (c *check) holds(d vfs.Dir, name, want string) {
	err := with(d, name, vfs.ReadOnly, func(f vfs.File) error {
		got, err := readAll(f)
		equal(c, fmt.Sprintf("content of %q", name), got, want)
		return err
	})
	c.ok(fmt.Sprintf("reading %q", name), err)
}

// lists records that d has not exactly the given names.
func (c *check) lists(what string, d vfs.Dir, want ...string) {
	got, _, err := d.ReadDir(0)
	if !c.ok("ReadDir(0) "+what, err) {
		return
	}
	slices.Sort(got)
	want = slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		c.errorf("ReadDir(0) %s = %q, want %q", what, got, want)
	}
}

// inDir opens the directory name, uses it and closes it.
func inDir(d vfs.Dir, name string, use func(sub vfs.Dir) error) error {
	sub, err := d.OpenDir(name)
	if err != nil {
		return err
	}
	return errors.Join(use(sub), sub.Close())
}

// openFlags are all the ways to open an existing file, for promises that hold
// whatever the flags.
var openFlags = []vfs.Flag{
	vfs.ReadOnly, vfs.WriteOnly, vfs.ReadWrite, vfs.ReadOnly | vfs.NonBlock, vfs.Probe,
	vfs.WriteOnly | vfs.Create, vfs.WriteOnly | vfs.Append, vfs.WriteOnly | vfs.Truncate,
	vfs.ReadWrite | vfs.Create | vfs.Truncate,
}

var flagWords = []struct {
	flag vfs.Flag
	word string
}{
	{vfs.WriteOnly, "WriteOnly"},
	{vfs.ReadWrite, "ReadWrite"},
	{vfs.Create, "Create"},
	{vfs.Exclusive, "Exclusive"},
	{vfs.Truncate, "Truncate"},
	{vfs.Append, "Append"},
	{vfs.NonBlock, "NonBlock"},
	{vfs.Probe, "Probe"},
	{vfs.Doomed, "Doomed"},
}

// opening names a call of OpenFile.
func opening(name string, flag vfs.Flag) string {
	words := []string{}
	for _, w := range flagWords {
		if flag&w.flag != 0 {
			words = append(words, w.word)
		}
	}
	if len(words) == 0 || words[0] == "NonBlock" {
		words = slices.Insert(words, 0, "ReadOnly")
	}
	return fmt.Sprintf("OpenFile(%q, %s)", name, strings.Join(words, "|"))
}
