package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var linkPromises = []promise{
	{"symlink", vfs.CapSymlink, testSymlink},
	{"no-follow", vfs.CapSymlink | vfs.CapNoFollow, testNoFollow},
	{"link", vfs.CapLink, testLink},
}

func testSymlink(c *check) error {
	if err := c.writeAll("f"); err != nil {
		return err
	}
	for i, text := range []string{"f", "nowhere", "../a//./b/", "/abs", "..", "\xff"} {
		name := fmt.Sprintf("l%d", i)
		if !c.ok(fmt.Sprintf("Symlink(%q)", text), c.dir.Symlink(text, name)) {
			continue
		}
		got, err := c.dir.Readlink(name)
		c.ok("Readlink", err)
		equal(c, "Readlink", got, text)
		info, err := c.dir.Lstat(name)
		c.ok("Lstat of a link", err)
		equal(c, "Lstat Type of a link", info.Mode.Type(), fs.ModeSymlink)
	}
	c.fails("Rmdir of a link", c.dir.Rmdir("l0"), syscall.ENOTDIR)
	c.ok("Rename of a link", c.dir.Rename("l0", c.dir, "moved", vfs.Replace))
	text, err := c.dir.Readlink("moved")
	c.ok("Readlink of a link that was renamed", err)
	equal(c, "Readlink of a link that was renamed", text, "f")
	c.ok("Remove of a link", c.dir.Remove("moved"))
	c.holds(c.dir, "f", "f")
	return nil
}

// testNoFollow: every operation meets a link that the adversary put there in
// the instant before.
func testNoFollow(c *check) error {
	err := errors.Join(c.writeAll("f"), c.dir.Mkdir("d", 0o700),
		c.dir.Symlink("f", "to-file"), c.dir.Symlink("d", "to-dir"),
		c.dir.Symlink("nowhere", "dangling"), c.dir.Symlink("self", "self"))
	if err != nil {
		return err
	}
	all := []string{"f", "d", "to-file", "to-dir", "dangling", "self"}
	for _, link := range all[2:] {
		for _, flag := range openFlags {
			c.fails(opening(link, flag)+" of a link", attempt(c.dir, link, flag), syscall.ELOOP)
		}
		flag := vfs.WriteOnly | vfs.Create | vfs.Exclusive
		c.fails(opening(link, flag)+" of a link", attempt(c.dir, link, flag), syscall.EEXIST)
		c.fails(fmt.Sprintf("OpenDir(%q) of a link", link), inDir(c.dir, link, func(vfs.Dir) error { return nil }), syscall.ELOOP)
		c.fails(fmt.Sprintf("Mkdir(%q) over a link", link), c.dir.Mkdir(link, 0o700), syscall.EEXIST)
		c.fails(fmt.Sprintf("Symlink over %q, a link", link), c.dir.Symlink("f", link), syscall.EEXIST)
	}
	c.lists("after opens of links", c.dir, all...)
	c.holds(c.dir, "f", "f")
	if c.caps.Has(vfs.CapLink) && c.dir.Link("to-file", c.dir, "second") == nil { // some systems cannot
		info, err := c.dir.Lstat("second")
		c.ok("Lstat", err)
		equal(c, "Type of a second name for a link", info.Mode.Type(), fs.ModeSymlink)
		c.ok("Remove", c.dir.Remove("second"))
	}
	if err := c.writeAll("new"); err != nil {
		return err
	}
	c.ok("Rename over a link", c.dir.Rename("new", c.dir, "to-file", vfs.Replace))
	c.holds(c.dir, "to-file", "new")
	c.holds(c.dir, "f", "f")
	return nil
}

func testLink(c *check) error {
	if err := errors.Join(c.writeAll("a"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	nlink := func(when, name string, want uint64) {
		info, err := c.dir.Lstat(name)
		c.ok("Lstat", err)
		equal(c, "Nlink "+when, info.Nlink, want)
	}
	nlink("of a new file", "a", 1)
	c.ok("Link", c.dir.Link("a", c.dir, "b"))
	nlink("after Link", "a", 2)
	err := inDir(c.dir, "d", func(d vfs.Dir) error {
		c.ok("Link into another directory", c.dir.Link("a", d, "c"))
		nlink("after Link into another directory", "b", 3)
		c.holds(d, "c", "a")
		return nil
	})
	err = errors.Join(err, with(c.dir, "b", vfs.WriteOnly|vfs.Append, func(f vfs.File) error {
		_, err := f.Write([]byte("+"))
		return err
	}))
	c.holds(c.dir, "a", "a+")
	// The kernel takes two names of one file for the same name and does nothing.
	// Code that publishes by rename must know that the source stays.
	c.ok("Rename over another name of the same file", c.dir.Rename("a", c.dir, "b", vfs.Replace))
	c.lists("after Rename over another name of the same file", c.dir, "a", "b", "d")
	c.ok("Remove of one name", c.dir.Remove("a"))
	nlink("after Remove of one name", "b", 2)
	c.holds(c.dir, "b", "a+")
	return err
}
