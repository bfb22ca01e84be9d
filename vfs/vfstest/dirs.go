package vfstest

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

var dirPromises = []promise{
	{"mkdir", 0, testMkdir},
	{"readdir", 0, testReadDir},
	{"rename", 0, testRename},
	{"no-replace", vfs.CapNoReplace, testNoReplace},
	{"exchange", vfs.CapExchange, testExchange},
	{"remove", 0, testRemove},
	{"concurrent", 0, testConcurrent},
}

func testMkdir(c *check) error {
	c.ok("Mkdir", c.dir.Mkdir("d", 0o700))
	info, err := c.dir.Lstat("d")
	c.ok("Lstat", err)
	equal(c, "Lstat Mode is a directory", info.Mode.IsDir(), true)
	return inDir(c.dir, "d", func(d vfs.Dir) error {
		info, err := d.Stat()
		c.ok("Stat of a directory", err)
		equal(c, "Stat Mode is a directory", info.Mode.IsDir(), true)
		c.lists("of a new directory", d)
		c.ok("writing into a new directory", write(d, "f", "deep"))
		c.holds(d, "f", "deep")
		c.ok("Mkdir in a new directory", d.Mkdir("e", 0o700))
		c.lists("of the inner directory", d, "e", "f")
		c.lists("of the outer directory", c.dir, "d")
		return nil
	})
}

func testReadDir(c *check) error {
	names, more, err := c.dir.ReadDir(1)
	if c.ok("ReadDir(1)", err) && (len(names) > 0 || more) {
		c.errorf("ReadDir(1) of an empty directory = %q, %t", names, more)
	}
	all := []string{"a", "b", "c", "d", "e"}
	if err := c.writeAll(all...); err != nil {
		return err
	}
	for _, n := range []int{-1, 0, 1, 4, 5, 6} {
		for range 2 { // a sample starts from the beginning, whatever was read before
			names, more, err := c.dir.ReadDir(n)
			if !c.ok(fmt.Sprintf("ReadDir(%d)", n), err) {
				continue
			}
			want := len(all)
			if n > 0 {
				want = min(n, len(all))
			}
			slices.Sort(names)
			known := !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
			if len(slices.Compact(names)) != want || !known {
				c.errorf("ReadDir(%d) = %q, want %d of %q", n, names, want, all)
			}
			equal(c, fmt.Sprintf("ReadDir(%d) says that there are more", n), more, want < len(all))
		}
	}
	return nil
}

func testRename(c *check) error {
	if err := errors.Join(c.writeAll("a", "b"), c.dir.Mkdir("d", 0o700), c.dir.Mkdir("empty", 0o700)); err != nil {
		return err
	}
	c.ok("Rename over a file", c.dir.Rename("a", c.dir, "b", vfs.Replace))
	c.lists("after Rename over a file", c.dir, "b", "d", "empty")
	c.holds(c.dir, "b", "a")
	c.ok("Rename to the same name", c.dir.Rename("b", c.dir, "b", vfs.Replace))
	c.holds(c.dir, "b", "a")
	err := inDir(c.dir, "d", func(d vfs.Dir) error {
		c.ok("Rename into another directory", c.dir.Rename("b", d, "moved", vfs.Replace))
		c.lists("of where the file went", d, "moved")
		c.holds(d, "moved", "a")
		c.fails("Rename of a directory into itself", c.dir.Rename("d", d, "d", vfs.Replace), syscall.EINVAL)
		return nil
	})
	c.ok("Rename of a directory over an empty one", c.dir.Rename("d", c.dir, "empty", vfs.Replace))
	c.lists("after Rename of a directory", c.dir, "empty")
	return errors.Join(err, inDir(c.dir, "empty", func(d vfs.Dir) error {
		c.holds(d, "moved", "a")
		return nil
	}))
}

func testNoReplace(c *check) error {
	if err := errors.Join(c.writeAll("a", "b"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	want := []string{"a", "b", "d"}
	taken := []string{"b", "d", "a"}
	if c.caps.Has(vfs.CapSymlink) {
		if err := c.dir.Symlink("nowhere", "dangling"); err != nil {
			return err
		}
		want, taken = append(want, "dangling"), append(taken, "dangling")
	}
	for _, to := range taken {
		c.fails(fmt.Sprintf("Rename with NoReplace over %q", to), c.dir.Rename("a", c.dir, to, vfs.NoReplace), syscall.EEXIST)
	}
	c.lists("after Rename with NoReplace was refused", c.dir, want...)
	c.holds(c.dir, "a", "a")
	c.holds(c.dir, "b", "b")
	c.ok("Rename with NoReplace to a free name", c.dir.Rename("a", c.dir, "free", vfs.NoReplace))
	want[0] = "free"
	c.lists("after Rename with NoReplace", c.dir, want...)
	c.holds(c.dir, "free", "a")
	return nil
}

func testExchange(c *check) error {
	if err := errors.Join(c.writeAll("a", "b"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	c.ok("Rename with Exchange", c.dir.Rename("a", c.dir, "b", vfs.Exchange))
	c.holds(c.dir, "a", "b")
	c.holds(c.dir, "b", "a")
	c.fails("Rename with Exchange with a missing name", c.dir.Rename("a", c.dir, "missing", vfs.Exchange), syscall.ENOENT)
	c.ok("Rename with Exchange of a file and a directory", c.dir.Rename("a", c.dir, "d", vfs.Exchange))
	c.lists("after Rename with Exchange", c.dir, "a", "b", "d")
	c.holds(c.dir, "d", "b")
	return inDir(c.dir, "a", func(vfs.Dir) error { return nil })
}

func testRemove(c *check) error {
	if err := errors.Join(c.writeAll("f", "other"), c.dir.Mkdir("d", 0o700)); err != nil {
		return err
	}
	c.ok("Remove of a file", c.dir.Remove("f"))
	c.ok("Rmdir of an empty directory", c.dir.Rmdir("d"))
	c.lists("after Remove and Rmdir", c.dir, "other")
	_, err := c.dir.Lstat("f")
	c.fails("Lstat of a removed file", err, syscall.ENOENT)
	return nil
}

// testConcurrent: one open directory serves every goroutine of a tool.
func testConcurrent(c *check) error {
	const workers, rounds = 4, 16
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := fmt.Sprintf("f%d-%d", w, i)
				_, _, err := c.dir.ReadDir(0)
				errs[w] = errors.Join(errs[w], err, write(c.dir, name, name))
				if i > 0 {
					errs[w] = errors.Join(errs[w], c.dir.Remove(fmt.Sprintf("f%d-%d", w, i-1)))
				}
			}
		})
	}
	wg.Wait()
	c.ok("work by many goroutines in one directory", errors.Join(errs...))
	c.lists("after work by many goroutines", c.dir, "f0-15", "f1-15", "f2-15", "f3-15")
	return nil
}
