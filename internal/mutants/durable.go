package mutants

import (
	"errors"
	"syscall"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/vfs"
)

// durability holds the mutants of AT- rules about crashes, races and errors that
// come late.
var durability = []Mutant{
	{
		Name: "unlinks-first", Rule: "AT-007", Breaks: "removes the old file before it puts the new one in its place",
		Variant: inproc.Variant{FS: port(hooks{rename: func(d vfs.Dir, name string, to vfs.Dir, toName string, flag vfs.RenameFlag) error {
			if flag == vfs.Replace {
				if err := to.Remove(toName); err != nil && !errors.Is(err, syscall.ENOENT) {
					return err
				}
			}
			return d.Rename(name, to, toName, flag)
		}})},
	},
	{
		Name: "clobbers-newcomer", Rule: "AT-008", Breaks: "renames over a file that appears while one is being created",
		Variant: inproc.Variant{FS: port(hooks{publish: func(d vfs.Dir, f vfs.File, name string) error {
			err := d.Publish(f, name)
			if !errors.Is(err, syscall.EEXIST) || isTemp(name) {
				return err
			}
			const aside = ".fsbench-aside.tmp"
			if err := d.Publish(f, aside); err != nil {
				return err
			}
			return d.Rename(aside, d, name, vfs.Replace)
		}})},
	},
	{
		Name: "always-certain", Rule: "AT-015", Breaks: "reports a failure where it cannot know what happened",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if out.Status != spec.StatusUnknown {
				return out
			}
			return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrIO, Detail: out.Detail}
		})},
	},
	{
		Name: "ignores-fsync", Rule: "AT-023", Breaks: "goes on when the file cannot be made durable",
		Variant: inproc.Variant{FS: port(hooks{sync: func(f vfs.File) error {
			_ = f.Sync()
			return nil
		}})},
	},
	{
		Name: "shrugs-off-signals", Rule: "AT-023", Breaks: "goes on when a signal ends the wait for the disk",
		Variant: inproc.Variant{FS: port(hooks{sync: func(f vfs.File) error {
			if err := f.Sync(); !errors.Is(err, syscall.EINTR) {
				return err
			}
			return nil
		}})},
	},
	{
		Name: "ignores-dir-fsync", Rule: "AT-023", Breaks: "reports success when the name cannot be made durable",
		Variant: inproc.Variant{FS: port(hooks{syncDir: func(d vfs.Dir) error {
			_ = d.Sync()
			return nil
		}})},
	},
}
