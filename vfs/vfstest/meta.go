package vfstest

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var metaPromises = []promise{
	{"info", 0, testInfo},
	{"identity", vfs.CapIdentity, testIdentity},
	{"birth", vfs.CapBirth, testBirth},
	{"mount-id", vfs.CapMountID, testMountID},
	{"modes", vfs.CapPerm, testModes},
	{"owner", vfs.CapPerm, testOwner},
	{"enforced", vfs.CapPerm, testEnforced},
	{"xattr", vfs.CapXattr, testXattr},
}

func testInfo(c *check) error {
	return with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		before, err := c.dir.Lstat("f")
		if err != nil {
			return err
		}
		equal(c, "Size of an empty file", before.Size, 0)
		equal(c, "Mtime is set", before.Mtime.IsZero(), false)
		if _, err := f.Write([]byte("12345")); err != nil {
			return err
		}
		after, err := c.dir.Lstat("f")
		c.ok("Lstat", err)
		equal(c, "Lstat Size after Write", after.Size, 5)
		equal(c, "Mtime goes back", after.Mtime.Before(before.Mtime), false)
		open, err := f.Stat()
		c.ok("Stat", err)
		c.same("Stat of the open file, against Lstat of its name", open, after)
		return nil
	})
}

func testIdentity(c *check) error {
	if err := errors.Join(c.writeAll("a", "b"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	id := func(name string) vfs.ID {
		info, err := c.dir.Lstat(name)
		c.ok("Lstat", err)
		return info.ID
	}
	a, b, d := id("a"), id("b"), id("d")
	if a == b || a == d || b == d {
		c.errorf("ID of three objects = %v, %v, %v: want them to differ", a, b, d)
	}
	err := inDir(c.dir, "d", func(sub vfs.Dir) error {
		info, err := sub.Stat()
		equal(c, "ID of an open directory, against Lstat of its name", info.ID, d)
		return err
	})
	c.ok("Rename", c.dir.Rename("d", c.dir, "e", vfs.Replace))
	equal(c, "ID of a directory after Rename", id("e"), d)
	// The old file is held open over its replacement, so that its ID cannot be
	// given to the new one.
	return errors.Join(err, with(c.dir, "b", vfs.ReadOnly, func(f vfs.File) error {
		c.ok("Rename", c.dir.Rename("a", c.dir, "b", vfs.Replace))
		equal(c, "ID after Rename over another file", id("b"), a)
		info, err := f.Stat()
		equal(c, "ID of an open file that was replaced", info.ID, b)
		if c.caps.Has(vfs.CapLink) {
			c.ok("Link", c.dir.Link("b", c.dir, "second"))
			equal(c, "ID of a second name", id("second"), a)
		}
		return err
	}))
}

func testBirth(c *check) error {
	return with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		before, err := f.Stat()
		c.ok("Stat", err)
		equal(c, "Btime is zero", before.Btime.IsZero(), false)
		if _, err := f.Write([]byte("x")); err != nil {
			return err
		}
		c.ok("Rename", c.dir.Rename("f", c.dir, "g", vfs.Replace))
		after, err := c.dir.Lstat("g")
		c.ok("Lstat", err)
		equal(c, "Btime after Write and Rename is the same", after.Btime.Equal(before.Btime), true)
		return nil
	})
}

func testMountID(c *check) error {
	if err := c.writeAll("f"); err != nil {
		return err
	}
	dir, err := c.dir.Stat()
	c.ok("Stat", err)
	equal(c, "MountID is zero", dir.MountID == 0, false)
	file, err := c.dir.Lstat("f")
	c.ok("Lstat", err)
	equal(c, "MountID of a file, against that of its directory", file.MountID, dir.MountID)
	return nil
}

func testModes(c *check) error {
	err := with(c.dir, "f", vfs.ReadWrite|vfs.Create, func(f vfs.File) error {
		for _, mode := range []fs.FileMode{
			0, 0o400, 0o600, 0o644, 0o751, 0o777,
			0o755 | fs.ModeSetuid, 0o755 | fs.ModeSetgid, 0o755 | fs.ModeSticky,
			0o777 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky,
		} {
			c.ok(fmt.Sprintf("Chmod(%v)", mode), f.Chmod(mode))
			info, err := f.Stat()
			c.ok("Stat", err)
			equal(c, fmt.Sprintf("Mode after Chmod(%v)", mode), info.Mode, mode)
		}
		return f.Chmod(0o600)
	})
	// How much the umask takes away is not ours to say; that nothing is added is.
	for _, perm := range []fs.FileMode{0o600, 0o640, 0o666} {
		name := fmt.Sprintf("f%o", perm)
		f, oerr := c.dir.OpenFile(name, vfs.WriteOnly|vfs.Create, perm)
		if !c.ok("OpenFile", oerr) {
			continue
		}
		c.ok("Close", f.Close())
		info, serr := c.dir.Lstat(name)
		c.ok("Lstat", serr)
		equal(c, fmt.Sprintf("bits of a file created with %v that were not asked for", perm), info.Mode&^perm, 0)
	}
	c.ok("Mkdir", c.dir.Mkdir("d", 0o750))
	info, serr := c.dir.Lstat("d")
	c.ok("Lstat", serr)
	const given = fs.ModeDir | fs.ModeSetgid // a directory may inherit the latter
	equal(c, "bits of a directory made with 0750 that were not asked for", info.Mode&^(0o750|given), 0)
	return err
}

func testOwner(c *check) error {
	return with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		before, err := f.Stat()
		if err != nil {
			return err
		}
		c.ok("Chown(-1, -1)", f.Chown(-1, -1))
		c.ok("Chown to the same owner", f.Chown(int(before.UID), int(before.GID)))
		after, err := f.Stat()
		equal(c, "UID after Chown to the same", after.UID, before.UID)
		equal(c, "GID after Chown to the same", after.GID, before.GID)
		return err
	})
}

// testEnforced: a caller is either held to the permission bits or privileged,
// separately for reading and for writing, and no operation may make exceptions.
func testEnforced(c *check) error {
	err := errors.Join(c.writeAll("unreadable", "read-only"),
		c.dir.Mkdir("closed", 0), c.dir.Mkdir("listable", 0o500), c.dir.Mkdir("walkable", 0o300))
	for name, mode := range map[string]fs.FileMode{"unreadable": 0o200, "read-only": 0o400} {
		err = errors.Join(err, with(c.dir, name, vfs.WriteOnly, func(f vfs.File) error { return f.Chmod(mode) }))
	}
	if err != nil {
		return err
	}
	in := func(name string, do func(d vfs.Dir) error) func() error {
		return func() error { return inDir(c.dir, name, do) }
	}
	c.agree("reading", []try{
		{"OpenFile with ReadOnly of a file of mode 0200", func() error { return attempt(c.dir, "unreadable", vfs.ReadOnly) }},
		{"OpenFile with ReadWrite of a file of mode 0200", func() error { return attempt(c.dir, "unreadable", vfs.ReadWrite) }},
		{"ReadDir of a directory of mode 0300", in("walkable", func(d vfs.Dir) error {
			_, _, err := d.ReadDir(0)
			return err
		})},
		{"Lstat in a directory of mode 0", in("closed", func(d vfs.Dir) error {
			_, err := d.Lstat("missing")
			if errors.Is(err, syscall.ENOENT) { // the search was allowed
				return nil
			}
			return err
		})},
	})
	c.agree("writing", []try{
		{"OpenFile with WriteOnly of a file of mode 0400", func() error { return attempt(c.dir, "read-only", vfs.WriteOnly) }},
		{"OpenFile with Append of a file of mode 0400", func() error { return attempt(c.dir, "read-only", vfs.WriteOnly|vfs.Append) }},
		{"OpenFile with Probe of a file of mode 0400", func() error { return attempt(c.dir, "read-only", vfs.Probe) }},
		{"Mkdir in a directory of mode 0500", in("listable", func(d vfs.Dir) error { return d.Mkdir("d", 0o700) })},
		{"OpenFile with Create in a directory of mode 0500", in("listable", func(d vfs.Dir) error {
			return attempt(d, "f", vfs.WriteOnly|vfs.Create)
		})},
		{"Rename into a directory of mode 0500", in("listable", func(d vfs.Dir) error {
			return c.dir.Rename("unreadable", d, "moved", vfs.Replace)
		})},
	})
	// Where such a directory can be opened at all, it can be written into.
	err = inDir(c.dir, "walkable", func(d vfs.Dir) error {
		c.ok("writing into a directory of mode 0300", write(d, "f", ""))
		c.ok("Remove from a directory of mode 0300", d.Remove("f"))
		return nil
	})
	if !errors.Is(err, syscall.EACCES) {
		c.ok("OpenDir of a directory of mode 0300", err)
	}
	return nil
}

// try is one thing that a permission bit forbids.
type try struct {
	what string
	do   func() error
}

// agree records that some tries were refused and others were not.
func (c *check) agree(doing string, tries []try) {
	var refused, allowed []string
	for _, t := range tries {
		switch err := t.do(); {
		case err == nil:
			allowed = append(allowed, t.what)
		case errors.Is(err, syscall.EACCES):
			refused = append(refused, t.what)
		default:
			c.errorf("%s = %w, want EACCES or success", t.what, err)
		}
	}
	if len(refused) > 0 && len(allowed) > 0 {
		c.errorf("%s is held to permissions by halves: refused: %s; allowed: %s",
			doing, strings.Join(refused, ", "), strings.Join(allowed, ", "))
	}
}

func testXattr(c *check) error {
	return with(c.dir, "f", vfs.ReadWrite|vfs.Create, func(f vfs.File) error {
		_, err := f.Xattr("user.absent")
		c.fails("Xattr of a missing name", err, syscall.ENODATA)
		values := map[string]string{"user.b": "two\x00\xff", "user.a": "one", "user.empty": ""}
		for name, value := range values {
			c.ok("SetXattr "+name, f.SetXattr(name, []byte(value)))
		}
		values["user.a"] = strings.Repeat("long", 200)
		c.ok("SetXattr over an old value", f.SetXattr("user.a", []byte(values["user.a"])))
		names, err := f.Xattrs()
		c.ok("Xattrs", err)
		equal(c, "Xattrs is sorted", slices.IsSorted(names), true)
		names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, "user.") })
		equal(c, "Xattrs", strings.Join(names, " "), "user.a user.b user.empty")
		// Attributes belong to the file and not to the handle that set them.
		return with(c.dir, "f", vfs.ReadOnly, func(f vfs.File) error {
			for name, want := range values {
				got, err := f.Xattr(name)
				c.ok("Xattr "+name, err)
				equal(c, "Xattr "+name, string(got), want)
			}
			return nil
		})
	})
}
