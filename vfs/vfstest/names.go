package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var namePromises = []promise{
	{"names", 0, testNames},
	{"roots", 0, testRoots},
	{"missing", 0, testMissing},
	{"existing", 0, testExisting},
	{"wrong-kind", 0, testWrongKind},
	{"unsupported", 0, testUnsupported},
}

// onNames lists every operation that takes a name, applied to a name.
func (c *check) onNames() []struct {
	what string
	caps vfs.Caps
	do   func(name string) error
} {
	d := c.dir
	return []struct {
		what string
		caps vfs.Caps
		do   func(name string) error
	}{
		{"OpenDir", 0, func(n string) error { return inDir(d, n, func(vfs.Dir) error { return nil }) }},
		{"OpenFile", 0, func(n string) error { return attempt(d, n, vfs.ReadOnly) }},
		{"OpenFile with Create", 0, func(n string) error { return attempt(d, n, vfs.WriteOnly|vfs.Create) }},
		{"OpenFile with Probe", 0, func(n string) error { return attempt(d, n, vfs.Probe) }},
		{"Mkdir", 0, func(n string) error { return d.Mkdir(n, 0o700) }},
		{"Lstat", 0, func(n string) error { _, err := d.Lstat(n); return err }},
		{"Readlink", vfs.CapSymlink, func(n string) error { _, err := d.Readlink(n); return err }},
		{"Symlink", vfs.CapSymlink, func(n string) error { return d.Symlink("x", n) }},
		{"Link from", vfs.CapLink, func(n string) error { return d.Link(n, d, "new") }},
		{"Link to", vfs.CapLink, func(n string) error { return d.Link("old", d, n) }},
		{"Rename from", 0, func(n string) error { return d.Rename(n, d, "new", vfs.Replace) }},
		{"Rename to", 0, func(n string) error { return d.Rename("old", d, n, vfs.Replace) }},
		{"Publish", vfs.CapPublish, func(n string) error {
			return with(d, "", vfs.Doomed, func(f vfs.File) error { return d.Publish(f, n) })
		}},
		{"Remove", 0, d.Remove},
		{"Rmdir", 0, d.Rmdir},
	}
}

// testNames: one name with a separator in it would undo the walk that got here.
func testNames(c *check) error {
	if err := c.writeAll("old"); err != nil {
		return err
	}
	for _, name := range []string{"", ".", "..", "a/b", "/", "/a", "a/", "../a", "old/.", "a\x00b"} {
		for _, op := range c.onNames() {
			if c.caps.Has(op.caps) {
				c.fails(fmt.Sprintf("%s with name %q", op.what, name), op.do(name), fs.ErrInvalid)
			}
		}
	}
	c.lists("after names that are refused", c.dir, "old")
	return nil
}

func testRoots(c *check) error {
	if err := errors.Join(c.writeAll("f"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	open := func(p string) error {
		d, err := c.fsys.OpenRoot(p)
		if err != nil {
			return err
		}
		return d.Close()
	}
	c.ok("OpenRoot of a directory", open(path.Join(c.path, "d")))
	c.fails("OpenRoot of a missing directory", open(path.Join(c.path, "missing")), syscall.ENOENT)
	c.fails("OpenRoot of a file", open(path.Join(c.path, "f")), syscall.ENOTDIR)
	if !c.caps.Has(vfs.CapSymlink) {
		return nil
	}
	if err := c.dir.Symlink("d", "link"); err != nil {
		return err
	}
	c.ok("OpenRoot of a link to a directory", open(path.Join(c.path, "link")))
	return nil
}

func testMissing(c *check) error {
	for _, op := range c.onNames() {
		switch op.what {
		case "OpenFile with Create", "Mkdir", "Symlink", "Link to", "Rename to", "Publish":
			continue // they make the name, or fail for the other one
		}
		if c.caps.Has(op.caps) {
			c.fails(op.what+" a missing name", op.do("missing"), syscall.ENOENT)
		}
	}
	c.lists("after operations on a missing name", c.dir)
	return nil
}

func testExisting(c *check) error {
	if err := errors.Join(c.writeAll("f", "old"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	for _, name := range []string{"f", "d"} {
		for _, op := range c.onNames() {
			switch op.what {
			case "Mkdir", "Symlink", "Link to", "Publish":
				if c.caps.Has(op.caps) {
					c.fails(fmt.Sprintf("%s over existing %q", op.what, name), op.do(name), syscall.EEXIST)
				}
			}
		}
		flag := vfs.WriteOnly | vfs.Create | vfs.Exclusive
		c.fails(opening(name, flag)+" over an existing name", attempt(c.dir, name, flag), syscall.EEXIST)
	}
	c.lists("after making existing names", c.dir, "f", "old", "d")
	c.holds(c.dir, "f", "f")
	return nil
}

func testWrongKind(c *check) error {
	if err := errors.Join(c.writeAll("f"), c.dir.Mkdir("d", 0o700), c.dir.Mkdir("full", 0o700)); err != nil {
		return err
	}
	err := inDir(c.dir, "full", func(d vfs.Dir) error { return write(d, "kept", "kept") })
	if err != nil {
		return err
	}
	c.fails("OpenDir of a file", inDir(c.dir, "f", func(vfs.Dir) error { return nil }), syscall.ENOTDIR)
	for _, flag := range openFlags {
		c.fails(opening("d", flag)+" of a directory", attempt(c.dir, "d", flag), syscall.EISDIR)
	}
	// POSIX lets a system answer EPERM to the unlink of a directory, and EEXIST
	// where Linux says ENOTEMPTY.
	c.fails("Remove of a directory", c.dir.Remove("d"), syscall.EISDIR, syscall.EPERM)
	c.fails("Rmdir of a file", c.dir.Rmdir("f"), syscall.ENOTDIR)
	c.fails("Rmdir of a directory with an entry", c.dir.Rmdir("full"), syscall.ENOTEMPTY, syscall.EEXIST)
	c.fails("Rename of a file over a directory", c.dir.Rename("f", c.dir, "d", vfs.Replace), syscall.EISDIR)
	c.fails("Rename of a directory over a file", c.dir.Rename("d", c.dir, "f", vfs.Replace), syscall.ENOTDIR)
	c.fails("Rename of a directory over one with an entry", c.dir.Rename("d", c.dir, "full", vfs.Replace),
		syscall.ENOTEMPTY, syscall.EEXIST)
	if c.caps.Has(vfs.CapSymlink) {
		_, err := c.dir.Readlink("f")
		c.fails("Readlink of a file", err, syscall.EINVAL)
	}
	if c.caps.Has(vfs.CapLink) {
		c.fails("Link of a directory", c.dir.Link("d", c.dir, "d2"), syscall.EPERM)
	}
	c.lists("after operations on the wrong kind", c.dir, "f", "d", "full")
	c.holds(c.dir, "f", "f")
	return nil
}

// testUnsupported: what is missing must say so. An operation that does nothing
// and reports success would be judged as if it had worked.
func testUnsupported(c *check) error {
	if err := c.writeAll("a", "b"); err != nil {
		return err
	}
	f, err := c.dir.OpenFile("a", vfs.ReadWrite, 0)
	if err != nil {
		return err
	}
	for _, op := range []struct {
		what string
		caps vfs.Caps
		do   func() error
	}{
		{"Symlink", vfs.CapSymlink, func() error { return c.dir.Symlink("a", "new") }},
		{"Link", vfs.CapLink, func() error { return c.dir.Link("a", c.dir, "new") }},
		{"Rename with NoReplace", vfs.CapNoReplace, func() error { return c.dir.Rename("a", c.dir, "new", vfs.NoReplace) }},
		{"Rename with Exchange", vfs.CapExchange, func() error { return c.dir.Rename("a", c.dir, "b", vfs.Exchange) }},
		{"OpenFile with Doomed", vfs.CapPublish, func() error { return attempt(c.dir, "new", vfs.Doomed) }},
		{"Publish", vfs.CapPublish, func() error { return c.dir.Publish(f, "new") }},
		{"SyncFS", vfs.CapSyncFS, func() error { return c.fsys.SyncFS(c.dir) }},
		{"SyncRange", vfs.CapSyncRange, func() error { return f.SyncRange(0, 1) }},
		{"Xattr", vfs.CapXattr, func() error { _, err := f.Xattr("user.a"); return err }},
		{"SetXattr", vfs.CapXattr, func() error { return f.SetXattr("user.a", nil) }},
		{"Xattrs", vfs.CapXattr, func() error { _, err := f.Xattrs(); return err }},
	} {
		if !c.caps.Has(op.caps) {
			c.fails(op.what+" without capability "+op.caps.String(), op.do(), vfs.ErrUnsupported)
		}
	}
	c.lists("after unsupported operations", c.dir, "a", "b")
	return f.Close()
}
