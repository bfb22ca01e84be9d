package sandboxtest

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

// Powers say what a sandbox can put into a World, beyond what any can.
type Powers struct {
	Owners bool // files of another owner
	Flags  bool // immutable files and directories
	Mounts bool
}

// names are few, so that edits meet each other; each is there for a mistake that
// can be made with it.
var names = []string{
	"a", "b", "c",
	"a.x",                               // sorts between a and what is in a
	"1",                                 // what a sandbox may call things for itself
	"~1",                                // likewise
	"-rf", "new\nline", "\xff\xfe", " ", // what only programs type
	strings.Repeat("n", 255),              // the longest
	strings.Repeat("\xe2\x82\xac", 255/3), // likewise
}

// World draws a tree with every kind of entry that powers allow.
func World(powers Powers) *rapid.Generator[spec.World] {
	return rapid.Custom(func(t *rapid.T) spec.World {
		g := gen{t, powers, spec.World{spec.Workspace: {Type: spec.TypeDir, Mode: 0o755}}}
		for range rapid.IntRange(0, 12).Draw(t, "entries") {
			dirs := g.having(func(n spec.Node) bool { return n.Type == spec.TypeDir })
			p := path.Join(pick(t, "in", dirs...), pick(t, "name", names...))
			if _, taken := g.w[p]; !taken {
				g.w[p] = g.node(p)
			}
		}
		return g.w
	})
}

func pick[V any](t *rapid.T, label string, from ...V) V {
	return rapid.SampledFrom(from).Draw(t, label)
}

type gen struct {
	t      *rapid.T
	powers Powers
	w      spec.World
}

func (g *gen) oneIn(n int, label string) bool { return rapid.IntRange(1, n).Draw(g.t, label) == n }

// having returns the paths of nodes of a kind, and the root among the directories.
func (g *gen) having(kind func(spec.Node) bool) []string {
	var paths []string
	if kind(spec.Node{Type: spec.TypeDir}) {
		paths = append(paths, "")
	}
	for _, p := range g.w.Paths() {
		if kind(g.w[p]) {
			paths = append(paths, p)
		}
	}
	return paths
}

var modes = []spec.Mode{0o755, 0o644, 0o600, 0o700, 0o777, 0o555, 0o444, 0o200, 0o100, 0, 0o1777, 0o2755, 0o4755, 0o6777}

func (g *gen) node(p string) spec.Node {
	n := spec.Node{Type: pick(g.t, "type", spec.TypeFile, spec.TypeFile, spec.TypeDir, spec.TypeDir, spec.TypeLink, spec.TypeFIFO)}
	if n.Type == spec.TypeFile && g.oneIn(4, "hard") {
		// The first name in order holds the content, and it is no mount point: of the
		// names of a file only the one that was mounted on is one.
		firsts := g.having(func(n spec.Node) bool { return n.Type == spec.TypeFile && n.Hard == "" && n.Mount == "" })
		firsts = slices.DeleteFunc(firsts, func(first string) bool { return first >= p })
		if len(firsts) > 0 {
			n.Hard = pick(g.t, "first", firsts...)
			return n
		}
	}
	if g.powers.Owners && g.oneIn(4, "other") {
		n.Owner = spec.OwnerOther
	}
	if n.Type == spec.TypeLink {
		n.Mode, n.Link = 0o777, pick(g.t, "link", "a", "../b", "/", "{root}/a", "nowhere", strings.Repeat("l", 200), "\xff")
		return n
	}
	n.Mode = pick(g.t, "mode", modes...)
	if g.oneIn(4, "mtime") {
		n.Mtime = 1700000000
	}
	if n.Type == spec.TypeFIFO {
		return n
	}
	if g.oneIn(4, "xattr") {
		n.Xattrs = map[string]spec.Content{"user.note": spec.Content(pick(g.t, "value", "", "n", "\x00\xff"))}
	}
	if n.Type == spec.TypeFile {
		n.Content = content(g.t)
	}
	n.Immutable = g.powers.Flags && g.oneIn(5, "immutable")
	if g.powers.Mounts && g.oneIn(5, "mount") {
		n.Mount = pick(g.t, "kind", spec.MountBind, spec.MountReadOnly)
	}
	return n
}

func content(t *rapid.T) spec.Content {
	return pick(t, "content", spec.Content{}, spec.Content("text"), spec.Content{0, 0xff, '\n'}, spec.Content(strings.Repeat("long ", 3000)))
}

// Step is one thing that the bench does to a tree. Exactly one field is set; the
// destinations are below the root of the sandbox.
type Step struct {
	Edit   *spec.Edit
	Land   *spec.WriteRequest
	Unlink *spec.DeleteRequest
}

// String says what the step is, for failures.
func (s Step) String() string {
	switch {
	case s.Edit != nil:
		return "edit " + spec.FormatFields(s.Edit.Fields())
	case s.Land != nil:
		return fmt.Sprintf("land %q exclusive=%v %d bytes", s.Land.Dst, s.Land.Exclusive, len(s.Land.Content))
	}
	return fmt.Sprintf("unlink %q", s.Unlink.Dst)
}

// GoString is what a property engine prints.
func (s Step) GoString() string { return s.String() }

// Steps draws what may be done to w, and whether it can be done or not.
func Steps(w spec.World) *rapid.Generator[[]Step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
		switch pick(t, "step", "edit", "edit", "edit", "land", "unlink") {
		case "land":
			r := &spec.WriteRequest{Content: content(t), Exclusive: rapid.Bool().Draw(t, "exclusive")}
			r.Dst = dst(t, w)
			return Step{Land: r}
		case "unlink":
			r := &spec.DeleteRequest{}
			r.Dst = dst(t, w)
			return Step{Unlink: r}
		}
		e := spec.Edit{Op: pick(t, "op", spec.EditOps...), Path: somewhere(t, w)}
		switch e.Op {
		case spec.EditWrite:
			e.Content, e.Mode = content(t), pick(t, "mode", 0, spec.Mode(0o600))
			e.Mtime = pick(t, "mtime", 0, int64(1700000000))
		case spec.EditMkdir, spec.EditFIFO:
			e.Mode = pick(t, "mode", modes...)
		case spec.EditSymlink:
			e.To = pick(t, "text", "a", "{root}", "../c")
		case spec.EditHardlink, spec.EditRename, spec.EditExchange:
			e.To = somewhere(t, w)
		case spec.EditChmod:
			e.Mode = pick(t, "mode", modes...)
		case spec.EditTouch:
			e.Mtime = 1600000000
		case spec.EditRemove:
		}
		return Step{Edit: &e}
	}), 1, 6)
}

// somewhere draws a path that is in w, or might be.
func somewhere(t *rapid.T, w spec.World) string {
	in := pick(t, "at", append(w.Paths(), "ws/new/deep", "elsewhere")...)
	if rapid.Bool().Draw(t, "below") {
		return path.Join(in, pick(t, "name", names...))
	}
	return in
}

func dst(t *rapid.T, w spec.World) string {
	p := somewhere(t, w)
	if rel, ok := strings.CutPrefix(p, spec.Workspace+"/"); ok {
		return rel
	}
	return pick(t, "odd destination", "new", "new/deep/er", "../"+p, "..", ".", "", "a/../b", "a//b", "./a", "/"+p)
}
