package explore

import (
	"path"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

// Denials returns what the whole call of base can be refused: not at one step, but
// wherever the subject comes to do such a thing. A sandbox can have the kernel itself
// refuse it.
func Denials(base scenarios.Scenario) []Effect {
	var d denials
	w := base.Initial()
	for _, a := range aims(base) {
		class := entersBy(base, a)
		dir := path.Dir(a.path)
		for dir != spec.Workspace && w[dir].Type != spec.TypeDir {
			dir = path.Dir(dir)
		}
		for _, errno := range []string{"EACCES", "EPERM", "EROFS"} {
			d.add("entries of "+dir+" are fixed", errno, faults.When{Class: class, Under: dir})
		}
		if class == faults.Create {
			d.add("no room for entries", "ENOSPC", faults.When{Class: class, Under: dir})
		}
		d.add("nothing to "+string(class)+" below the root", "EACCES", faults.When{Class: class, Under: spec.Workspace})
		if _, there := w[a.path]; there {
			d.add(a.path+" is a mount point", "EBUSY", faults.When{Class: class, Under: dir, Name: path.Base(a.path)})
		}
		switch kind := callOf(base).Kind; {
		case kind == spec.CallWrite:
			d.add("nothing to modify below the root", "EACCES", faults.When{Class: faults.Modify, Under: spec.Workspace})
			d.add("no room for bytes", "ENOSPC", faults.When{Class: faults.Modify, Under: dir})
			d.add("no file may grow", "EFBIG", faults.When{Class: faults.Modify, Under: dir})
		case kind == spec.CallMove && class == faults.Create:
			d.add(dir+" is another device", "EXDEV", faults.When{Class: class, Under: dir})
		}
	}
	return d
}

type denials []Effect

func (d *denials) add(what, errno string, all faults.When) {
	*d = append(*d, Effect{Name: what + ": " + errno, Group: Denial, Do: faults.Effect{Errno: errno}, All: all})
}

// entersBy says what the call of base does to the folder of a.
func entersBy(base scenarios.Scenario, a aim) faults.Class {
	if callOf(base).Kind == spec.CallDelete || a.role == "source" {
		return faults.Remove
	}
	return faults.Create
}
