package vfstest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var handlePromises = []promise{
	{"dir-handle", vfs.CapHandle, testDirHandle},
	{"file-handle", vfs.CapHandle, testFileHandle},
	{"publish", vfs.CapPublish, testPublish},
	{"closed", 0, testClosed},
}

// testDirHandle: the adversary moves a directory away between the check and the
// use, and puts another in its place.
func testDirHandle(c *check) error {
	if err := c.dir.Mkdir("d", 0o700); err != nil {
		return err
	}
	return inDir(c.dir, "d", func(d vfs.Dir) error {
		if err := errors.Join(c.dir.Rename("d", c.dir, "moved", vfs.Replace), c.dir.Mkdir("d", 0o700)); err != nil {
			return err
		}
		c.ok("writing through a directory that was renamed", write(d, "f", "text"))
		err := inDir(c.dir, "d", func(newcomer vfs.Dir) error {
			c.lists("of the directory that came to the old name", newcomer)
			return nil
		})
		err = errors.Join(err, inDir(c.dir, "moved", func(moved vfs.Dir) error {
			c.lists("of the directory that was renamed", moved, "f")
			return nil
		}))
		c.ok("Remove", d.Remove("f"))
		c.ok("Rmdir", c.dir.Rmdir("moved"))
		c.fails("writing through a directory that was removed", write(d, "f", "text"), syscall.ENOENT)
		c.fails("Mkdir in a directory that was removed", d.Mkdir("e", 0o700), syscall.ENOENT)
		_, serr := d.Stat()
		c.ok("Stat of a directory that was removed", serr)
		return err
	})
}

func testFileHandle(c *check) error {
	if err := c.writeAll("f", "other"); err != nil {
		return err
	}
	return with(c.dir, "f", vfs.ReadWrite, func(f vfs.File) error {
		_, err := f.Seek(0, io.SeekEnd)
		c.ok("Seek", err)
		c.ok("Rename", c.dir.Rename("f", c.dir, "moved", vfs.Replace))
		_, err = f.Write([]byte("1"))
		c.ok("Write to a file that was renamed", err)
		c.holds(c.dir, "moved", "f1")
		c.ok("Rename over an open file", c.dir.Rename("other", c.dir, "moved", vfs.Replace))
		_, err = f.Write([]byte("2"))
		c.ok("Write to a file that was replaced", err)
		c.holds(c.dir, "moved", "other")
		_, err = f.Seek(0, io.SeekStart)
		c.ok("Seek", err)
		got, err := readAll(f)
		c.ok("Read of a file that was replaced", err)
		equal(c, "content of a file that was replaced", got, "f12")
		if c.caps.Has(vfs.CapLink) {
			info, err := f.Stat()
			c.ok("Stat", err)
			equal(c, "Nlink of a file that was replaced", info.Nlink, 0)
		}
		return nil
	})
}

func testPublish(c *check) error {
	if err := errors.Join(c.writeAll("taken"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	doomed := func(text string, use func(f vfs.File) error) error {
		return with(c.dir, "", vfs.Doomed, func(f vfs.File) error {
			if _, err := f.Write([]byte(text)); err != nil {
				return err
			}
			return use(f)
		})
	}
	err := doomed("lost", func(vfs.File) error {
		c.lists("while a file without a name is open", c.dir, "taken", "d")
		return nil
	})
	err = errors.Join(err, doomed("new", func(f vfs.File) error {
		c.fails("Publish over an existing file", c.dir.Publish(f, "taken"), syscall.EEXIST)
		c.fails("Publish over a directory", c.dir.Publish(f, "d"), syscall.EEXIST)
		c.holds(c.dir, "taken", "taken")
		c.ok("Publish", c.dir.Publish(f, "new"))
		_, err := f.Write([]byte("er"))
		c.ok("Write after Publish", err)
		return nil
	}))
	c.holds(c.dir, "new", "newer")
	err = errors.Join(err, inDir(c.dir, "d", func(d vfs.Dir) error {
		return doomed("far", func(f vfs.File) error {
			c.ok("Publish in another directory", d.Publish(f, "far"))
			c.holds(d, "far", "far")
			return nil
		})
	}))
	c.lists("after Publish", c.dir, "taken", "d", "new")
	if !c.caps.Has(vfs.CapSymlink) {
		return err
	}
	return errors.Join(err, c.dir.Symlink("nowhere", "dangling"), doomed("new", func(f vfs.File) error {
		c.fails("Publish over a dangling link", c.dir.Publish(f, "dangling"), syscall.EEXIST)
		return nil
	}))
}

// testClosed: an operation on a closed handle must not reach what the kernel
// has meanwhile opened under the same number.
func testClosed(c *check) error {
	if err := errors.Join(c.writeAll("f"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	d, err := c.dir.OpenDir("d")
	if err != nil {
		return err
	}
	f, err := c.dir.OpenFile("f", vfs.ReadWrite, 0)
	if err != nil {
		return errors.Join(err, d.Close())
	}
	c.ok("Close of a directory", d.Close())
	c.ok("Close of a file", f.Close())
	closed := &check{promise: c.promise, caps: c.caps, dir: d}
	for _, op := range closed.onNames() {
		if op.what != "Publish" && c.caps.Has(op.caps) { // the file to publish cannot be opened there
			c.fails(op.what+" on a closed directory", op.do("x"), fs.ErrClosed)
		}
	}
	for _, op := range []struct {
		what string
		caps vfs.Caps
		do   func() error
	}{
		{"Stat of a closed directory", 0, func() error { _, err := d.Stat(); return err }},
		{"ReadDir of a closed directory", 0, func() error { _, _, err := d.ReadDir(0); return err }},
		{"Sync of a closed directory", 0, d.Sync},
		{"SyncFS of a closed directory", vfs.CapSyncFS, func() error { return c.fsys.SyncFS(d) }},
		{"Rename into a closed directory", 0, func() error { return c.dir.Rename("f", d, "x", vfs.Replace) }},
		{"Link into a closed directory", vfs.CapLink, func() error { return c.dir.Link("f", d, "x") }},
		{"OpenFile with Doomed in a closed directory", vfs.CapPublish, func() error { return attempt(d, "", vfs.Doomed) }},
		{"second Close of a directory", 0, d.Close},
		{"Read from a closed file", 0, func() error { _, err := f.Read(make([]byte, 1)); return err }},
		{"Write to a closed file", 0, func() error { _, err := f.Write([]byte("x")); return err }},
		{"Seek in a closed file", 0, func() error { _, err := f.Seek(0, io.SeekStart); return err }},
		{"Stat of a closed file", 0, func() error { _, err := f.Stat(); return err }},
		{"Truncate of a closed file", 0, func() error { return f.Truncate(0) }},
		{"Chmod of a closed file", vfs.CapPerm, func() error { return f.Chmod(0o600) }},
		{"Chown of a closed file", vfs.CapPerm, func() error { return f.Chown(-1, -1) }},
		{"Sync of a closed file", 0, f.Sync},
		{"Datasync of a closed file", 0, f.Datasync},
		{"SyncRange of a closed file", vfs.CapSyncRange, func() error { return f.SyncRange(0, 1) }},
		{"Xattr of a closed file", vfs.CapXattr, func() error { _, err := f.Xattr("user.a"); return err }},
		{"SetXattr of a closed file", vfs.CapXattr, func() error { return f.SetXattr("user.a", nil) }},
		{"Xattrs of a closed file", vfs.CapXattr, func() error { _, err := f.Xattrs(); return err }},
		{"second Close of a file", 0, f.Close},
	} {
		if c.caps.Has(op.caps) {
			c.fails(op.what, op.do(), fs.ErrClosed)
		}
	}
	c.lists("after operations on closed handles", c.dir, "f", "d")
	c.holds(c.dir, "f", "f")
	return c.closedPublish()
}

func (c *check) closedPublish() error {
	if !c.caps.Has(vfs.CapPublish) {
		return nil
	}
	f, err := c.dir.OpenFile("", vfs.Doomed, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	c.fails("Publish of a closed file", c.dir.Publish(f, "x"), fs.ErrClosed)
	_, err = c.dir.Lstat("x")
	c.fails(fmt.Sprintf("Lstat(%q) after Publish of a closed file", "x"), err, syscall.ENOENT)
	return nil
}
