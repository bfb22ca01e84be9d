package sandboxtest

import (
	"errors"
	"fmt"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// TestSandbox returns what is wrong with the sandboxes that open makes, joined,
// and nil if nothing is; and which checks could not be made, with the reason.
func TestSandbox(open func() (sandbox.Sandbox, error)) (skipped []string, err error) {
	var errs []error
	for _, c := range cases {
		err := c.run(open)
		if errors.Is(err, sandbox.ErrCannot) {
			skipped = append(skipped, c.name+": "+err.Error())
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.name, err))
		}
	}
	return skipped, errors.Join(errs...)
}

// testCase is one step in a small tree. What is not in changes must stay as it
// was: also what a step that is not done has touched.
type testCase struct {
	name    string
	world   spec.World // in addition to tree
	step    Step
	outcome string
	changes spec.World // a node without type is gone
}

func (c testCase) run(open func() (sandbox.Sandbox, error)) (err error) {
	box, err := open()
	if err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	w := tree.Clone()
	for p, n := range c.world {
		w[p] = n
	}
	if err := RoundTrip(box, w); err != nil {
		return err
	}
	stepErr := do(box, c.step)
	if got := outcome(stepErr); got != c.outcome {
		return errors.Join(fmt.Errorf("%s: %s, want %s", c.step, got, c.outcome), stepErr)
	}
	want := Observed(w, box.Root())
	for p, n := range c.changes {
		if want[p] = n; n.Type == "" {
			delete(want, p)
		}
	}
	got, err := box.Observe()
	if err != nil {
		return err
	}
	if err := Diff(want, got); err != nil {
		return fmt.Errorf("after %s: %w", c.step, err)
	}
	return nil
}

var (
	gone   = spec.Node{}
	secret = spec.Content("secret")
)

func file(mode spec.Mode, text string) spec.Node {
	return spec.Node{Type: spec.TypeFile, Mode: mode, Content: spec.Content(text)}
}

func dir(mode spec.Mode) spec.Node { return spec.Node{Type: spec.TypeDir, Mode: mode} }

func link(to string) spec.Node { return spec.Node{Type: spec.TypeLink, Mode: 0o777, Link: to} }

func fifo(mode spec.Mode) spec.Node { return spec.Node{Type: spec.TypeFIFO, Mode: mode} }

func with(n spec.Node, f func(*spec.Node)) spec.Node {
	f(&n)
	return n
}

func immutable(n *spec.Node) { n.Immutable = true }
func foreign(n *spec.Node)   { n.Owner = spec.OwnerOther }
func readOnly(n *spec.Node)  { n.Mount = spec.MountReadOnly }

// tree is where every step is taken.
var tree = spec.World{
	"out":        dir(0o755),
	"out/keep":   {Type: spec.TypeFile, Mode: 0o600, Content: secret},
	"ws":         dir(0o755),
	"ws/f":       file(0o640, "old"),
	"ws/g":       file(0o644, "other"),
	"ws/d":       dir(0o755),
	"ws/d/f":     file(0o644, "inner"),
	"ws/d/e":     dir(0o700),
	"ws/e":       dir(0o755),
	"ws/l":       link("../out/keep"),
	"ws/ld":      link("../out"),
	"ws/p":       fifo(0o644),
	"ws/closed":  dir(0),
	"ws/noentry": dir(0o555),
	"ws/mute":    file(0, "mute"),
	"ws/setuid":  file(0o6755, "suid"),
}

const (
	done   = "done"
	missed = "missed"
	failed = "failed"
)

func edit(op spec.EditOp, p string, f ...func(*spec.Edit)) Step {
	e := spec.Edit{Op: op, Path: p}
	for _, set := range f {
		set(&e)
	}
	return Step{Edit: &e}
}

func to(p string) func(*spec.Edit)         { return func(e *spec.Edit) { e.To = p } }
func renewed(e *spec.Edit)                 { e.Content = spec.Content("new") }
func mode(m spec.Mode) func(*spec.Edit)    { return func(e *spec.Edit) { e.Mode = m } }
func mtime(seconds int64) func(*spec.Edit) { return func(e *spec.Edit) { e.Mtime = seconds } }

func land(dst string, exclusive bool) Step {
	r := &spec.WriteRequest{Content: spec.Content("new"), Exclusive: exclusive}
	r.Dst = dst
	return Step{Land: r}
}

func unlink(dst string) Step {
	r := &spec.DeleteRequest{}
	r.Dst = dst
	return Step{Unlink: r}
}

var two = spec.World{"ws/f2": {Type: spec.TypeFile, Hard: "ws/f"}}

func twice(text string) spec.World {
	first, second := file(0o640, text), file(0o640, text)
	first.Nlink, second.Hard = 2, "ws/f"
	return spec.World{"ws/f": first, "ws/f2": second}
}

var cases = []testCase{
	{"nothing to do", nil, edit(spec.EditTouch, "ws/f", mtime(1)), done, nil},
	{"touch a link", nil, edit(spec.EditTouch, "ws/l", mtime(1)), done, nil},
	{"touch nothing", nil, edit(spec.EditTouch, "ws/x", mtime(1)), missed, nil},

	{"write a new file", nil, edit(spec.EditWrite, "ws/x", renewed), done, spec.World{"ws/x": file(0o644, "new")}},
	{"write with a mode", nil, edit(spec.EditWrite, "ws/x", renewed, mode(0o600)), done, spec.World{"ws/x": file(0o600, "new")}},
	{"write over a file", nil, edit(spec.EditWrite, "ws/f", renewed, mode(0o600)), done, spec.World{"ws/f": file(0o640, "new")}},
	{"write less", nil, edit(spec.EditWrite, "ws/f"), done, spec.World{"ws/f": file(0o640, "")}},
	{"write over what nobody may write", nil, edit(spec.EditWrite, "ws/mute", renewed), done, spec.World{"ws/mute": file(0, "new")}},
	{"write over setuid", nil, edit(spec.EditWrite, "ws/setuid", renewed), done, spec.World{"ws/setuid": file(0o6755, "new")}},
	{"write over one of two names", two, edit(spec.EditWrite, "ws/f2", renewed), done, twice("new")},
	{"write where nobody may enter", nil, edit(spec.EditWrite, "ws/closed/x", renewed), done, spec.World{"ws/closed/x": file(0o644, "new")}},
	{"write over a directory", nil, edit(spec.EditWrite, "ws/d", renewed), missed, nil},
	{"write over a link", nil, edit(spec.EditWrite, "ws/l", renewed), missed, nil},
	{"write over a FIFO", nil, edit(spec.EditWrite, "ws/p", renewed), missed, nil},
	{"write through a link", nil, edit(spec.EditWrite, "ws/ld/keep", renewed), missed, nil},
	{"write below a file", nil, edit(spec.EditWrite, "ws/f/x", renewed), missed, nil},
	{"write below nothing", nil, edit(spec.EditWrite, "ws/x/x", renewed), missed, nil},

	{"make a directory", nil, edit(spec.EditMkdir, "ws/x"), done, spec.World{"ws/x": dir(0o755)}},
	{"make a directory that is there", nil, edit(spec.EditMkdir, "ws/d"), missed, nil},
	{"make a link", nil, edit(spec.EditSymlink, "ws/x", to("nowhere")), done, spec.World{"ws/x": link("nowhere")}},
	{"make a link that is there", nil, edit(spec.EditSymlink, "ws/l", to("nowhere")), missed, nil},
	{"make a FIFO", nil, edit(spec.EditFIFO, "ws/x", mode(0o600)), done, spec.World{"ws/x": fifo(0o600)}},
	{"make a FIFO through a link", nil, edit(spec.EditFIFO, "ws/ld/x"), missed, nil},

	{"a further name", nil, edit(spec.EditHardlink, "ws/f2", to("ws/f")), done, twice("old")},
	{"a further name of nothing", nil, edit(spec.EditHardlink, "ws/x", to("ws/y")), missed, nil},
	{"a further name of a directory", nil, edit(spec.EditHardlink, "ws/x", to("ws/d")), missed, nil},
	{"a further name that is there", nil, edit(spec.EditHardlink, "ws/g", to("ws/f")), missed, nil},

	{"rename", nil, edit(spec.EditRename, "ws/f", to("ws/x")), done, spec.World{"ws/f": gone, "ws/x": file(0o640, "old")}},
	{"rename over a file", nil, edit(spec.EditRename, "ws/f", to("out/keep")), done, spec.World{"ws/f": gone, "out/keep": file(0o640, "old")}},
	{"rename over a full directory", nil, edit(spec.EditRename, "ws/e", to("ws/d")), done, spec.World{"ws/e": gone, "ws/d/f": gone, "ws/d/e": gone}},
	{"rename a link", nil, edit(spec.EditRename, "ws/l", to("ws/x")), done, spec.World{"ws/l": gone, "ws/x": link("../out/keep")}},
	{"rename a closed directory away", nil, edit(spec.EditRename, "ws/closed", to("ws/e/x")), done, spec.World{"ws/closed": gone, "ws/e/x": dir(0)}},
	{"rename nothing", nil, edit(spec.EditRename, "ws/x", to("ws/d")), missed, nil},
	{"rename into nothing", nil, edit(spec.EditRename, "ws/f", to("ws/x/x")), missed, nil},
	{"rename to itself", nil, edit(spec.EditRename, "ws/f", to("ws/f")), failed, nil},
	{"rename into itself", nil, edit(spec.EditRename, "ws/d", to("ws/d/e/x")), failed, nil},
	{"rename over its parent", nil, edit(spec.EditRename, "ws/d/e", to("ws/d")), failed, nil},
	{"exchange", nil, edit(spec.EditExchange, "ws/f", to("ws/e")), done, spec.World{"ws/f": dir(0o755), "ws/e": file(0o640, "old")}},
	{"exchange with nothing", nil, edit(spec.EditExchange, "ws/f", to("ws/x")), missed, nil},

	{"remove a file", nil, edit(spec.EditRemove, "ws/f"), done, spec.World{"ws/f": gone}},
	{"remove a directory", nil, edit(spec.EditRemove, "ws/d"), done, spec.World{"ws/d": gone, "ws/d/f": gone, "ws/d/e": gone}},
	{"remove a closed directory", nil, edit(spec.EditRemove, "ws/closed"), done, spec.World{"ws/closed": gone}},
	{"remove a link", nil, edit(spec.EditRemove, "ws/ld"), done, spec.World{"ws/ld": gone}},
	{"remove through a link", nil, edit(spec.EditRemove, "ws/ld/keep"), missed, nil},
	{"remove nothing", nil, edit(spec.EditRemove, "ws/x"), missed, nil},

	{"chmod", nil, edit(spec.EditChmod, "ws/f", mode(0o4711)), done, spec.World{"ws/f": file(0o4711, "old")}},
	{"chmod to nothing", nil, edit(spec.EditChmod, "ws/e"), done, spec.World{"ws/e": dir(0)}},
	{"chmod a link", nil, edit(spec.EditChmod, "ws/l", mode(0o600)), missed, nil},

	{"land", nil, land("x/y/z", false), done, spec.World{"ws/x": dir(0o755), "ws/x/y": dir(0o755), "ws/x/y/z": file(0o644, "new")}},
	{"land on a file", nil, land("f", false), done, spec.World{"ws/f": file(0o640, "new")}},
	{"land where entries are refused", nil, land("noentry/x", true), done, spec.World{"ws/noentry/x": file(0o644, "new")}},
	{"land exclusively", nil, land("x", true), done, spec.World{"ws/x": file(0o644, "new")}},
	{"land exclusively on a file", nil, land("f", true), missed, nil},
	{"land exclusively on a link", nil, land("l", true), missed, nil},
	{"land on a link", nil, land("l", false), missed, nil},
	{"land on a directory", nil, land("d", false), missed, nil},
	{"land on a FIFO", nil, land("p", false), missed, nil},
	{"land through a link", nil, land("ld/x", false), missed, nil},
	{"land below a file", nil, land("f/x", false), missed, nil},
	{"land outside", nil, land("../out/x", false), failed, nil},
	{"land on what is outside", nil, land("..", false), failed, nil},
	{"land on the root", nil, land("", false), failed, nil},
	{"land on a name out of form", nil, land("d/../x", false), failed, nil},

	{"unlink", nil, unlink("f"), done, spec.World{"ws/f": gone}},
	{"unlink a link", nil, unlink("l"), done, spec.World{"ws/l": gone}},
	{"unlink one of two names", two, unlink("f"), done, spec.World{"ws/f": gone, "ws/f2": file(0o640, "old")}},
	{"unlink a directory", nil, unlink("e"), failed, nil},
	{"unlink nothing", nil, unlink("x"), missed, nil},
	{"unlink through a link", nil, unlink("ld/keep"), missed, nil},
	{"unlink outside", nil, unlink("../out/keep"), failed, nil},

	{
		"write over a foreign file",
		spec.World{"ws/f": with(file(0o600, "old"), foreign)},
		edit(spec.EditWrite, "ws/f", renewed), done,
		spec.World{"ws/f": with(file(0o600, "new"), foreign)},
	},
	{
		"write over an immutable file",
		spec.World{"ws/f": with(file(0o600, "old"), immutable)},
		edit(spec.EditWrite, "ws/f", renewed), done,
		spec.World{"ws/f": with(file(0o600, "new"), immutable)},
	},
	{
		"move and change what is immutable",
		spec.World{"ws/f": with(file(0o600, "old"), immutable)},
		edit(spec.EditRename, "ws/f", to("ws/x")), done,
		spec.World{"ws/f": gone, "ws/x": with(file(0o600, "old"), immutable)},
	},
	{
		"land in an immutable directory",
		spec.World{"ws/e": with(dir(0o755), immutable)},
		land("e/x", true), done,
		spec.World{"ws/e/x": file(0o644, "new")},
	},
	{
		"remove what is immutable",
		spec.World{"ws/d": with(dir(0o755), immutable), "ws/d/f": with(file(0o600, "old"), immutable)},
		edit(spec.EditRemove, "ws/d"), done,
		spec.World{"ws/d": gone, "ws/d/f": gone, "ws/d/e": gone},
	},
	{
		"unlink what is immutable",
		spec.World{"ws/f": with(file(0o600, "old"), immutable)},
		unlink("f"), done,
		spec.World{"ws/f": gone},
	},
	{
		"touch and chmod what is immutable",
		spec.World{"ws/e": with(dir(0o755), immutable)},
		edit(spec.EditChmod, "ws/e", mode(0o700)), done,
		spec.World{"ws/e": with(dir(0o700), immutable)},
	},
	{
		"land on a read-only mount",
		spec.World{"ws/e": with(dir(0o755), readOnly)},
		land("e/x", true), done,
		spec.World{"ws/e/x": file(0o644, "new")},
	},
	{
		"a mount moves with its directory",
		spec.World{"ws/e": with(dir(0o755), readOnly)},
		edit(spec.EditRename, "ws/e", to("ws/x")), done,
		spec.World{"ws/e": gone, "ws/x": with(dir(0o755), readOnly)},
	},
	{
		"another directory is no mount",
		spec.World{"ws/e": with(dir(0o755), readOnly)},
		edit(spec.EditRename, "ws/noentry", to("ws/e")), done,
		spec.World{"ws/noentry": gone, "ws/e": dir(0o555)},
	},
}
