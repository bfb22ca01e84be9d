package vfstest

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var filePromises = []promise{
	{"content", 0, testContent},
	{"create", 0, testCreate},
	{"seek", 0, testSeek},
	{"append", 0, testAppend},
	{"truncate", 0, testTruncate},
	{"direction", 0, testDirection},
	{"probe", 0, testProbe},
	{"sync", vfs.CapDurability, testSync},
	{"sync-fs", vfs.CapSyncFS, func(c *check) error { c.ok("SyncFS", c.fsys.SyncFS(c.dir)); return nil }},
	{"sync-range", vfs.CapSyncRange, testSyncRange},
}

func testContent(c *check) error {
	const text = "0123456789"
	err := with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		for _, part := range []string{text[:4], "", text[4:]} {
			n, err := f.Write([]byte(part))
			c.ok("Write", err)
			equal(c, fmt.Sprintf("Write(%q) count", part), n, len(part))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return with(c.dir, "f", vfs.ReadOnly, func(f vfs.File) error {
		info, err := f.Stat()
		if c.ok("Stat", err) {
			equal(c, "Stat Size", info.Size, int64(len(text)))
			equal(c, "Stat Mode is regular", info.Mode.IsRegular(), true)
		}
		n, err := f.Read(nil)
		c.ok("Read into an empty buffer", err)
		equal(c, "Read into an empty buffer, count", n, 0)
		var got strings.Builder
		buf := make([]byte, 3)
		for range len(text) + 1 { // a Read may be short: only progress is promised
			n, err := f.Read(buf)
			got.Write(buf[:n])
			if errors.Is(err, io.EOF) {
				equal(c, "content read in pieces", got.String(), text)
				return nil
			}
			if err != nil {
				return err
			}
		}
		c.errorf("Read has given %q and not ended, want %q and io.EOF", got.String(), text)
		return nil
	})
}

func testCreate(c *check) error {
	c.ok("Create of a missing file", attempt(c.dir, "new", vfs.WriteOnly|vfs.Create))
	c.holds(c.dir, "new", "")
	if err := c.writeAll("f"); err != nil { // with Exclusive
		return err
	}
	c.ok("Create of an existing file", attempt(c.dir, "f", vfs.WriteOnly|vfs.Create))
	c.holds(c.dir, "f", "f")
	c.ok("Create and Truncate of an existing file", attempt(c.dir, "f", vfs.WriteOnly|vfs.Create|vfs.Truncate))
	c.holds(c.dir, "f", "")
	return nil
}

func testSeek(c *check) error {
	return with(c.dir, "f", vfs.ReadWrite|vfs.Create, func(f vfs.File) error {
		if _, err := f.Write([]byte("0123456789")); err != nil {
			return err
		}
		for _, to := range []struct {
			offset int64
			whence int
			want   int64
		}{
			{4, io.SeekStart, 4},
			{2, io.SeekCurrent, 6},
			{-3, io.SeekCurrent, 3},
			{-1, io.SeekEnd, 9},
			{2, io.SeekEnd, 12},
		} {
			pos, err := f.Seek(to.offset, to.whence)
			c.ok("Seek", err)
			equal(c, fmt.Sprintf("Seek(%d, %d)", to.offset, to.whence), pos, to.want)
		}
		_, err := f.Seek(-1, io.SeekStart)
		c.fails("Seek before the start", err, syscall.EINVAL)
		pos, err := f.Seek(0, io.SeekCurrent)
		c.ok("Seek", err)
		equal(c, "position after a Seek that failed", pos, 12)
		_, err = f.Write([]byte("x"))
		c.ok("Write past the end", err)
		c.holds(c.dir, "f", "0123456789\x00\x00x")
		if _, err := f.Seek(1, io.SeekStart); err != nil {
			return err
		}
		_, err = f.Write([]byte("ab"))
		c.ok("Write in the middle", err)
		c.holds(c.dir, "f", "0ab3456789\x00\x00x")
		return nil
	})
}

// testAppend: with two writers each append must find the end as it is then, or
// the log of one overwrites that of the other.
func testAppend(c *check) error {
	if err := c.writeAll("f"); err != nil {
		return err
	}
	return with(c.dir, "f", vfs.WriteOnly|vfs.Append, func(a vfs.File) error {
		return with(c.dir, "f", vfs.WriteOnly|vfs.Append, func(b vfs.File) error {
			_, err := a.Write([]byte("one"))
			c.ok("Write", err)
			_, err = b.Write([]byte("two"))
			c.ok("Write by another handle", err)
			_, err = a.Seek(0, io.SeekStart)
			c.ok("Seek", err)
			_, err = a.Write([]byte("three"))
			c.ok("Write after Seek", err)
			c.holds(c.dir, "f", "fonetwothree")
			return nil
		})
	})
}

func testTruncate(c *check) error {
	err := with(c.dir, "f", vfs.ReadWrite|vfs.Create, func(f vfs.File) error {
		if _, err := f.Write([]byte("0123456789")); err != nil {
			return err
		}
		c.ok("Truncate to less", f.Truncate(4))
		c.holds(c.dir, "f", "0123")
		c.ok("Truncate to more", f.Truncate(6))
		c.holds(c.dir, "f", "0123\x00\x00")
		pos, err := f.Seek(0, io.SeekCurrent)
		c.ok("Seek", err)
		equal(c, "position after Truncate", pos, 10)
		c.fails("Truncate to less than nothing", f.Truncate(-1), syscall.EINVAL)
		c.holds(c.dir, "f", "0123\x00\x00")
		return nil
	})
	if err != nil {
		return err
	}
	return with(c.dir, "f", vfs.ReadOnly, func(f vfs.File) error {
		c.fails("Truncate of a file opened ReadOnly", f.Truncate(0), syscall.EINVAL, syscall.EBADF)
		c.holds(c.dir, "f", "0123\x00\x00")
		return nil
	})
}

func testDirection(c *check) error {
	if err := c.writeAll("f"); err != nil {
		return err
	}
	err := with(c.dir, "f", vfs.ReadOnly, func(f vfs.File) error {
		_, err := f.Write([]byte("x"))
		c.fails("Write to a file opened ReadOnly", err, syscall.EBADF)
		return nil
	})
	if err != nil {
		return err
	}
	err = with(c.dir, "f", vfs.WriteOnly, func(f vfs.File) error {
		_, err := f.Read(make([]byte, 1))
		c.fails("Read from a file opened WriteOnly", err, syscall.EBADF)
		return nil
	})
	c.holds(c.dir, "f", "f")
	flag := vfs.WriteOnly | vfs.ReadWrite
	c.fails(opening("f", flag), attempt(c.dir, "f", flag), syscall.EINVAL)
	return err
}

// testProbe: a probe is asked before a write that may then be denied, so it must
// not be a write itself, whatever the flags beside it.
func testProbe(c *check) error {
	if err := c.writeAll("f"); err != nil {
		return err
	}
	before, err := c.dir.Lstat("f")
	if err != nil {
		return err
	}
	for _, flag := range []vfs.Flag{
		vfs.Probe, vfs.Probe | vfs.WriteOnly, vfs.Probe | vfs.Create, vfs.Probe | vfs.Truncate,
	} {
		c.ok(opening("f", flag), attempt(c.dir, "f", flag))
		after, err := c.dir.Lstat("f")
		c.ok("Lstat", err)
		c.same("Lstat after "+opening("f", flag), after, before)
		c.holds(c.dir, "f", "f")
		c.fails(opening("missing", flag), attempt(c.dir, "missing", flag), syscall.ENOENT)
	}
	c.lists("after Probe", c.dir, "f")
	return nil
}

func testSync(c *check) error {
	err := with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		_, err := f.Write([]byte("x"))
		c.ok("Sync of a file", f.Sync())
		c.ok("Datasync", f.Datasync())
		return err
	})
	c.ok("Sync of a directory", c.dir.Sync())
	return err
}

func testSyncRange(c *check) error {
	return with(c.dir, "f", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		_, err := f.Write([]byte("0123456789"))
		c.ok("SyncRange", f.SyncRange(0, 10))
		c.ok("SyncRange of a part", f.SyncRange(4, 2))
		return err
	})
}
