package publish_test

import (
	"io/fs"

	"github.com/fsbench/fsbench/vfs"
)

// tap stands in front of a port. It counts the handles that are open, and asks
// strike about every operation.
type tap struct {
	// strike is asked before an operation, and again after it if it had effect: an
	// error takes the place of the answer. It may be nil.
	strike func(op vfs.OpKind, name string, done bool) error

	// write stands for File.Write; it may be nil.
	write func(f vfs.File, p []byte) (int, error)

	handles int
}

func (t *tap) do(op vfs.OpKind, name string, act func() error) error {
	if t.strike == nil {
		return act()
	}
	if err := t.strike(op, name, false); err != nil {
		return err
	}
	if err := act(); err != nil {
		return err
	}
	return t.strike(op, name, true)
}

func (t *tap) dir(d vfs.Dir) vfs.Dir {
	t.handles++
	return &tapDir{d, t}
}

// tapDir has the operations of a publication. The others of the port are refused.
type tapDir struct {
	vfs.Dir
	t *tap
}

func (d *tapDir) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	op := vfs.OpOpenFile
	switch {
	case flag&vfs.Doomed != 0:
		op = vfs.OpOpenDoom
	case flag&vfs.Probe != 0:
		op = vfs.OpProbe
	}
	var f vfs.File
	err := d.t.do(op, name, func() (err error) {
		f, err = d.Dir.OpenFile(name, flag, perm)
		return err
	})
	if err != nil {
		if f != nil {
			_ = f.Close() // a handle that the caller never got
		}
		return nil, err
	}
	d.t.handles++
	return &tapFile{f, name, d.t}, nil
}

func (d *tapDir) Lstat(name string) (info vfs.Info, err error) {
	err = d.t.do(vfs.OpLstat, name, func() (err error) {
		info, err = d.Dir.Lstat(name)
		return err
	})
	return info, err
}

func inner(d vfs.Dir) vfs.Dir { return d.(*tapDir).Dir }

func (d *tapDir) Link(name string, to vfs.Dir, toName string) error {
	return d.t.do(vfs.OpLink, name, func() error { return d.Dir.Link(name, inner(to), toName) })
}

func (d *tapDir) Rename(name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
	return d.t.do(vfs.OpRename, name, func() error { return d.Dir.Rename(name, inner(to), toName, flag) })
}

func (d *tapDir) Publish(f vfs.File, name string) error {
	return d.t.do(vfs.OpPublish, name, func() error { return d.Dir.Publish(f.(*tapFile).File, name) })
}

func (d *tapDir) Remove(name string) error {
	return d.t.do(vfs.OpRemove, name, func() error { return d.Dir.Remove(name) })
}

func (d *tapDir) Sync() error { return d.t.do(vfs.OpSyncDir, "", d.Dir.Sync) }

func (d *tapDir) Close() error {
	d.t.handles--
	return d.t.do(vfs.OpClose, "", d.Dir.Close)
}

type tapFile struct {
	vfs.File
	name string
	t    *tap
}

func (f *tapFile) Read(p []byte) (n int, err error) {
	err = f.t.do(vfs.OpRead, f.name, func() (err error) {
		n, err = f.File.Read(p)
		return err
	})
	return n, err
}

func (f *tapFile) Write(p []byte) (n int, err error) {
	err = f.t.do(vfs.OpWrite, f.name, func() (err error) {
		if f.t.write != nil {
			n, err = f.t.write(f.File, p)
			return err
		}
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *tapFile) Stat() (info vfs.Info, err error) {
	err = f.t.do(vfs.OpStat, f.name, func() (err error) {
		info, err = f.File.Stat()
		return err
	})
	return info, err
}

func (f *tapFile) Chmod(perm fs.FileMode) error {
	return f.t.do(vfs.OpChmod, f.name, func() error { return f.File.Chmod(perm) })
}

func (f *tapFile) Chown(uid, gid int) error {
	return f.t.do(vfs.OpChown, f.name, func() error { return f.File.Chown(uid, gid) })
}

func (f *tapFile) Sync() error { return f.t.do(vfs.OpSync, f.name, f.File.Sync) }

func (f *tapFile) Xattrs() (names []string, err error) {
	err = f.t.do(vfs.OpXattrs, f.name, func() (err error) {
		names, err = f.File.Xattrs()
		return err
	})
	return names, err
}

func (f *tapFile) Xattr(name string) (value []byte, err error) {
	err = f.t.do(vfs.OpXattr, f.name, func() (err error) {
		value, err = f.File.Xattr(name)
		return err
	})
	return value, err
}

func (f *tapFile) SetXattr(name string, value []byte) error {
	return f.t.do(vfs.OpSetXattr, f.name, func() error { return f.File.SetXattr(name, value) })
}

func (f *tapFile) Close() error {
	f.t.handles--
	return f.t.do(vfs.OpClose, f.name, f.File.Close)
}
