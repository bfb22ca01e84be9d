package osfs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// finding is what was learnt about a kernel or a place.
type finding struct {
	lost  vfs.Caps
	notes []string
}

func (f *finding) add(lost vfs.Caps, note string) {
	f.lost |= lost
	f.notes = append(f.notes, note)
}

// trial tries one capability in an empty private directory.
type trial struct {
	cap     vfs.Caps // zero where only a note depends on it
	try     func(f *FS, d vfs.Dir) error
	instead string // what happens without, for the note
}

// errNoEffect is for a call that says it did what it did not do, as the symbolic
// links of some emulations do.
var errNoEffect = errors.New("reported done, but had no effect")

// Probe returns an FS that promises what works in the absolute directory dir
// and hence, as far as one directory can tell, on its file system. It makes a
// directory of its own there, tries one capability after the other, and leaves
// nothing behind; a capability whose trial was refused is not promised, and
// Notes says why. It fails where it cannot work at all, and where a full disk
// or the like would make every answer a wrong one.
func Probe(dir string) (*FS, error) {
	f := New()
	root, err := f.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	name, err := private(root)
	if err != nil {
		return nil, fmt.Errorf("probe: %w", errors.Join(err, root.Close()))
	}
	found, err := f.tryAll(root, name)
	if err = errors.Join(err, root.Rmdir(name), root.Close()); err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	f.caps &^= found.lost
	f.notes = append(f.notes, found.notes...)
	return f, nil
}

// private makes a directory of ours. Two probes at once take different names,
// because making a directory that exists fails.
func private(root vfs.Dir) (name string, err error) {
	for i := range 1000 {
		name = fmt.Sprintf(".fsbench-probe-%d", i)
		if err = root.Mkdir(name, 0o700); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
	return "", err
}

func (f *FS) tryAll(root vfs.Dir, name string) (found finding, err error) {
	d, err := root.OpenDir(name)
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, sweep(d), d.Close()) }()
	for _, t := range append(trials, placeTrials...) {
		if !f.caps.Has(t.cap) {
			continue
		}
		err := t.try(f, d)
		switch {
		case err == nil:
		case exhausted(err):
			return found, err
		default:
			found.add(t.cap, fmt.Sprintf("%s: %v", cmp.Or(t.instead, "no capability "+t.cap.String()), err))
		}
	}
	return found, nil
}

// exhausted reports whether err tells of the state of the machine rather than
// of what it can do.
func exhausted(err error) bool {
	for _, e := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EIO,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// sweep removes what the trials left in d. They nest nothing.
func sweep(d vfs.Dir) error {
	names, _, err := d.ReadDir(0)
	for _, name := range names {
		info, serr := d.Lstat(name)
		if serr == nil && info.Mode.IsDir() {
			serr = d.Rmdir(name)
		} else if serr == nil {
			serr = d.Remove(name)
		}
		err = errors.Join(err, serr)
	}
	return err
}

var trials = []trial{
	{cap: vfs.CapSymlink, try: func(_ *FS, d vfs.Dir) error {
		if err := d.Symlink("nowhere", "link"); err != nil {
			return err
		}
		text, err := d.Readlink("link")
		return holds(err, text == "nowhere")
	}},
	{cap: vfs.CapNoFollow, try: func(_ *FS, d vfs.Dir) error {
		f, err := d.OpenFile("link", vfs.ReadOnly|vfs.NonBlock, 0)
		switch {
		case err == nil:
			return errors.Join(errNoEffect, f.Close())
		case errors.Is(err, syscall.ELOOP), errors.Is(err, fs.ErrNotExist): // the latter where links cannot be made
			return nil
		}
		return err
	}},
	{cap: vfs.CapLink, try: func(_ *FS, d vfs.Dir) error {
		if err := cmp.Or(touch(d, "old"), d.Link("old", d, "new")); err != nil {
			return err
		}
		_, err := d.Lstat("new")
		return err
	}},
	{cap: vfs.CapIdentity, try: func(_ *FS, d vfs.Dir) error {
		if err := touch(d, "other"); err != nil {
			return err
		}
		a, err := d.Lstat("other")
		if err != nil {
			return err
		}
		b, err := d.Stat()
		return holds(err, a.ID != b.ID)
	}},
	{cap: vfs.CapPerm, try: tryPerm},
	{cap: vfs.CapHandle, try: func(_ *FS, d vfs.Dir) error {
		if err := d.Mkdir("sub", 0o700); err != nil {
			return err
		}
		sub, err := d.OpenDir("sub")
		if err != nil {
			return err
		}
		return cmp.Or(d.Rename("sub", d, "moved", vfs.Replace), touch(sub, "f"), sub.Remove("f"), sub.Close())
	}},
	{cap: vfs.CapNoReplace, try: func(_ *FS, d vfs.Dir) error {
		if err := cmp.Or(touch(d, "a"), touch(d, "b")); err != nil {
			return err
		}
		err := d.Rename("a", d, "b", vfs.NoReplace)
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return cmp.Or(err, errNoEffect)
	}},
	{cap: vfs.CapExchange, try: func(_ *FS, d vfs.Dir) error {
		if err := cmp.Or(touch(d, "x"), d.Mkdir("y", 0o700), d.Rename("x", d, "y", vfs.Exchange)); err != nil {
			return err
		}
		info, err := d.Lstat("x")
		return holds(err, info.Mode.IsDir())
	}},
	{cap: vfs.CapPublish, try: func(_ *FS, d vfs.Dir) error {
		return onFile(d, "", vfs.Doomed, func(f vfs.File) error {
			if err := d.Publish(f, "published"); err != nil {
				return err
			}
			_, err := d.Lstat("published")
			return err
		})
	}},
	{cap: vfs.CapDurability, try: func(_ *FS, d vfs.Dir) error {
		return onFile(d, "synced", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
			return cmp.Or(f.Sync(), f.Datasync(), d.Sync())
		})
	}},
	{cap: vfs.CapSyncRange, try: func(_ *FS, d vfs.Dir) error {
		return onFile(d, "ranged", vfs.WriteOnly|vfs.Create, func(f vfs.File) error { return f.SyncRange(0, 1) })
	}},
	{cap: vfs.CapXattr, try: func(_ *FS, d vfs.Dir) error {
		return onFile(d, "noted", vfs.ReadWrite|vfs.Create, func(f vfs.File) error {
			if err := f.SetXattr("user.fsbench", []byte("note")); err != nil {
				return err
			}
			value, err := f.Xattr("user.fsbench")
			return holds(err, string(value) == "note")
		})
	}},
	{cap: vfs.CapBirth, try: func(_ *FS, d vfs.Dir) error {
		info, err := d.Stat()
		return holds(err, !info.Btime.IsZero())
	}},
	{cap: vfs.CapMountID, try: func(_ *FS, d vfs.Dir) error {
		info, err := d.Stat()
		return holds(err, info.MountID != 0)
	}},
}

// tryPerm looks whether a mode sticks. Whether it is enforced cannot be tried by
// a caller who may be privileged.
func tryPerm(_ *FS, d vfs.Dir) error {
	return onFile(d, "moded", vfs.WriteOnly|vfs.Create, func(f vfs.File) error {
		const odd = fs.ModeSetuid | 0o641
		if err := f.Chmod(odd); err != nil {
			return err
		}
		info, err := f.Stat()
		return holds(err, info.Mode == odd)
	})
}

// holds is err, or errNoEffect where the outcome is not what it should be.
func holds(err error, ok bool) error {
	if err == nil && !ok {
		return errNoEffect
	}
	return err
}

func touch(d vfs.Dir, name string) error {
	return onFile(d, name, vfs.WriteOnly|vfs.Create, func(vfs.File) error { return nil })
}

func onFile(d vfs.Dir, name string, flag vfs.Flag, use func(vfs.File) error) error {
	f, err := d.OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(use(f), f.Close())
}
