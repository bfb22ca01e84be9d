package scenarios

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Profile is a named configuration of the generator.
type Profile struct {
	Name  string
	Title string
	Calls int // most in one scenario
	Count int // scenarios of a run in memory, unless it is told another number
	Disk  int // likewise on disk
}

// Profiles are the generators that exist.
var Profiles = []Profile{
	{Name: "smoke", Title: "a few thousand scenarios, for every change", Calls: 6, Count: 4000, Disk: 60},
	{Name: "soak", Title: "many and longer scenarios, for a night", Calls: 8, Count: 200000, Disk: 2000},
}

// ProfileByName returns a profile, or an error that lists those that exist.
func ProfileByName(name string) (Profile, error) {
	var known []string
	for _, p := range Profiles {
		if p.Name == name {
			return p, nil
		}
		known = append(known, p.Name)
	}
	return Profile{}, fmt.Errorf("profile %q: want one of %s", name, strings.Join(known, ", "))
}

// Gen draws scenarios. All randomness comes from the engine's bit stream, so that
// what it draws can be shrunk and drawn again.
func (p Profile) Gen() *rapid.Generator[Scenario] {
	return rapid.Custom(func(t *rapid.T) Scenario {
		g := &gen{T: t}
		s := Scenario{Name: "generated", World: g.world()}
		if g.oneIn(4, "follow") {
			s.Policies = spec.Policies{spec.PolicyLinks: spec.LinksFollow}
		}
		s.Steps = g.steps(rapid.IntRange(1, p.Calls).Draw(t, "calls"))
		for range rapid.IntRange(0, 3).Draw(t, "brokers") {
			s.Brokers = append(s.Brokers, spec.Broker{
				Seam: rapid.SampledFrom([]spec.Seam{spec.SeamWrite, spec.SeamWrite, spec.SeamDelete}).Draw(t, "seam"),
				Kind: rapid.SampledFrom(spec.BrokerKinds).Draw(t, "broker"),
			})
		}
		if !g.oneIn(5, "no fault") {
			for i := range rapid.IntRange(1, 2).Draw(t, "faults") {
				s.Faults.Injections = append(s.Faults.Injections, g.injection(fmt.Sprintf("f%d", i+1), s.Calls()))
			}
		}
		return s
	})
}

// Draw returns the n-th scenario of a seed. It is the same on every machine and in
// every process, for one version of fsbench.
func (p Profile) Draw(seed uint64, n int, version string) Scenario {
	// The two are spread over the bit stream's seed, so that neighbours differ.
	mixed := (seed+1)*0x9e3779b97f4a7c15 ^ (uint64(n)+1)*0xbf58476d1ce4e5b9
	s := p.Gen().Example(int(mixed >> 1)) //nolint:gosec // half of the seeds are enough
	s.Name = p.NameOf(seed, n)
	s.Origin = Origin{Profile: p.Name, Seed: seed, Version: version}
	return s
}

// NameOf returns the name of the n-th scenario of a seed, without drawing it.
func (p Profile) NameOf(seed uint64, n int) string { return fmt.Sprintf("%s-%d-%d", p.Name, seed, n) }

// gen draws the parts of one scenario.
type gen struct{ *rapid.T }

func (g *gen) oneIn(n int, label string) bool { return rapid.IntRange(1, n).Draw(g.T, label) == n }

func pick[V any](g *gen, label string, from ...V) V { return rapid.SampledFrom(from).Draw(g.T, label) }

// world draws a small tree. Its closed set of names makes calls collide, which is
// the point; most of it is plain, so that most calls have work to do.
func (g *gen) world() spec.World {
	w := spec.World{
		"out":    {Type: spec.TypeDir, Mode: 0o755},
		"out/c":  {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("keep")},
		"ws":     {Type: spec.TypeDir, Mode: 0o755},
		"ws/d":   g.dir(),
		"ws/d/e": {Type: spec.TypeDir, Mode: 0o755},
	}
	for _, p := range []string{"ws/a", "ws/b", "ws/d/a", "ws/d/e/c"} {
		if !g.oneIn(3, "absent") {
			w[p] = g.file(p)
		}
	}
	if n, ok := w["ws/a"]; ok && g.oneIn(10, "hard") {
		n.Nlink = 0
		w["ws/a"] = n
		w["ws/h"] = spec.Node{Type: spec.TypeFile, Mode: 0o644, Hard: "ws/a"}
	}
	if !g.oneIn(3, "no link") {
		to := pick(g, "link", "d", "../out", "nowhere", "l", "{root}/d", "a", "d/../a", "../out/made")
		w["ws/l"] = spec.Node{Type: spec.TypeLink, Mode: 0o777, Link: to}
	}
	if g.oneIn(6, "fifo") {
		w["ws/p"] = spec.Node{Type: spec.TypeFIFO, Mode: 0o644}
	}
	if g.oneIn(8, "planted") {
		w["ws/.fsbench-1.tmp"] = spec.Node{Type: spec.TypeLink, Mode: 0o777, Link: "../out/c"}
	}
	return w
}

func (g *gen) dir() spec.Node {
	n := spec.Node{Type: spec.TypeDir, Mode: 0o755}
	if !g.oneIn(3, "odd directory") {
		return n
	}
	switch pick(g, "directory", "0555", "0000", "0300", "0100", "sticky", "ro", "immutable", "other") {
	case "0555":
		n.Mode = 0o555
	case "0000":
		n.Mode = 0
	case "0300":
		n.Mode = 0o300
	case "0100":
		n.Mode = 0o100
	case "sticky":
		n.Mode, n.Owner = 0o1777, spec.OwnerOther
	case "ro":
		n.Mount = spec.MountReadOnly
	case "immutable":
		n.Immutable = true
	case "other":
		n.Owner = spec.OwnerOther
	}
	return n
}

func (g *gen) file(p string) spec.Node {
	n := spec.Node{Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("old " + path.Base(p))}
	if !g.oneIn(3, "odd file") {
		return n
	}
	switch pick(g, "file", "0755", "0600", "0444", "0400", "0200", "0000", "xattr", "immutable", "other", "bind", "empty") {
	case "0755":
		n.Mode = 0o755
	case "0600":
		n.Mode = 0o600
	case "0444":
		n.Mode = 0o444
	case "0400":
		n.Mode = 0o400
	case "0200":
		n.Mode = 0o200
	case "0000":
		n.Mode = 0
	case "xattr":
		n.Xattrs = map[string]spec.Content{"user.note": spec.Content("n")}
	case "immutable":
		n.Immutable = true
	case "other":
		n.Owner, n.Mode = spec.OwnerOther, pick(g, "mode", spec.Mode(0o644), 0o666)
	case "bind":
		n.Mount = spec.MountBind
	case "empty":
		n.Content = spec.Content{}
	}
	return n
}

// paths are what an agent may ask for. The first few are the likely ones.
var (
	plainPaths = []string{"a", "b", "d/a", "d/b", "d/e/c", "n/x", "n/m/y"}
	oddPaths   = []string{
		"l", "l/a", "l/x", "p", "d", "h", "a/x", "d/../a", "./a", "d//a", "n/../a", "../out/c", "../out/new", "..",
		"{root}/a", "{root}-evil/x", "{root}/../out/c", "", "d/", "d/.", "l/../a", ".fsbench-1.tmp",
		strings.Repeat("n", 250), strings.Repeat("n", 256),
	}
)

func (g *gen) path(label string) string {
	if g.oneIn(4, "odd "+label) {
		return pick(g, label, oddPaths...)
	}
	return pick(g, label, plainPaths...)
}

func (g *gen) steps(calls int) []Step {
	var steps []Step
	for i := range calls {
		if g.oneIn(12, "edit") {
			e := g.edit()
			steps = append(steps, Step{Edit: &e})
		}
		c := g.call(spec.CallID(i + 1))
		steps = append(steps, Step{Call: &c})
	}
	return steps
}

// edit draws a change between calls that can always be made.
func (g *gen) edit() spec.Edit {
	return pick(
		g, "edit",
		spec.Edit{Op: spec.EditWrite, Path: "ws/new", Content: spec.Content("new")},
		spec.Edit{Op: spec.EditWrite, Path: "out/c", Content: spec.Content("kept")},
		spec.Edit{Op: spec.EditTouch, Path: "ws/d", Mtime: 1700000000},
		spec.Edit{Op: spec.EditChmod, Path: "ws/d", Mode: 0o555},
		spec.Edit{Op: spec.EditChmod, Path: "ws/d", Mode: 0o755},
	)
}

func (g *gen) call(id spec.CallID) spec.Call {
	c := spec.Call{
		ID: id, Session: defaultSession, Path: g.path("path"),
		Kind: pick(g, "kind", spec.CallWrite, spec.CallWrite, spec.CallWrite, spec.CallRead, spec.CallDelete, spec.CallMove),
	}
	if g.oneIn(10, "other session") {
		c.Session = pick(g, "session", spec.SessionID("s2"), "")
	}
	switch c.Kind {
	case spec.CallWrite:
		c.Content = g.content(id)
	case spec.CallMove:
		c.To = g.path("to")
	case spec.CallRead, spec.CallDelete, spec.CallEdit, spec.CallView, spec.CallTool:
		c.To = ""
	}
	if c.Kind != spec.CallRead && g.oneIn(5, "expect") {
		c.ExpectVersion = pick(g, "version", spec.VersionAbsent, "bogus", "@", "@")
		if c.ExpectVersion == "@" {
			c.ExpectVersion = ""
			if id > 1 {
				c.ExpectVersion = fmt.Sprintf("@%d", rapid.IntRange(1, int(id)-1).Draw(g.T, "of"))
			}
		}
		if c.Kind == spec.CallMove && c.ExpectVersion == spec.VersionAbsent {
			c.ExpectVersion = ""
		}
	}
	return c
}

func (g *gen) content(id spec.CallID) spec.Content {
	return pick(
		g, "content",
		spec.Content(fmt.Sprintf("v%d", id)), spec.Content(fmt.Sprintf("version %d of it\n", id)),
		spec.Content{}, spec.Content("old a"), spec.Content{0, 0xff, 0x80, '\n', '\r'},
	)
}

// likelyOps are the operations that calls are made of. Faults are aimed at them
// most of the time: a fault that never fires proves nothing.
var likelyOps = []vfs.OpKind{
	vfs.OpProbe, vfs.OpOpenDoom, vfs.OpWrite, vfs.OpSync, vfs.OpPublish, vfs.OpRename, vfs.OpSyncDir,
	vfs.OpLstat, vfs.OpRemove, vfs.OpOpenFile, vfs.OpRead, vfs.OpChmod, vfs.OpMkdir, vfs.OpOpenDir, vfs.OpStat,
}

func (g *gen) injection(id string, calls []spec.Call) faults.Injection {
	in := faults.Injection{ID: id, When: faults.When{Under: g.under(calls)}}
	if g.oneIn(3, "nth") {
		in.When.Nth = rapid.IntRange(1, 3).Draw(g.T, "n")
	}
	switch pick(g, "effect", "denial", "denial", "class", "op", "op", "op", "after", "short", "swap", "crash") {
	case "denial": // one that a directory can be prepared for, so that the kernel itself refuses
		in.When.Nth = 0
		in.When.Class = pick(g, "class", faults.Create, faults.Remove, faults.Modify)
		in.Do.Errno = pick(g, "errno", "EACCES", "EPERM", "EROFS")
	case "class":
		in.When.Class = pick(g, "class", faults.Create, faults.Modify, faults.Remove, faults.Read, faults.Flush)
		in.Do.Errno = pick(g, "errno", in.When.Possible()...)
	case "op":
		in.When.Op = pick(g, "op", likelyOps...)
		in.Do.Errno = pick(g, "errno", in.When.Possible()...)
	case "after":
		in.When.Op, in.When.After = pick(g, "op", vfs.OpPublish, vfs.OpRename, vfs.OpRemove, vfs.OpSyncDir, vfs.OpSync, vfs.OpMkdir), true
		in.Do.Errno = pick(g, "errno", in.When.Possible()...)
	case "short":
		n := rapid.IntRange(0, 4).Draw(g.T, "bytes")
		in.When.Op, in.Do.Short = vfs.OpWrite, &n
	case "swap":
		in.When.Op = pick(g, "op", likelyOps...)
		in.When.Nth = max(in.When.Nth, 1) // an adversary that never rests is a storm, not a race
		in.Do.Swap = g.swap()
	case "crash":
		in.When.Op = pick(g, "op", likelyOps...)
		in.When.After = g.oneIn(2, "after")
		in.When.Nth = max(in.When.Nth, 1)
		in.Do.Crash = true
	}
	return in
}

// under picks the directory of something that a call names, where it can be told
// from the spelling.
func (g *gen) under(calls []spec.Call) string {
	dirs := []string{spec.Workspace}
	for _, c := range calls {
		for _, p := range []string{c.Path, c.To} {
			if p == "" || strings.Contains(p, "..") || strings.HasPrefix(p, "{root}") {
				continue
			}
			if d := path.Join(spec.Workspace, path.Dir(p)); !slices.Contains(dirs, d) {
				dirs = append(dirs, d)
			}
		}
	}
	return pick(g, "under", dirs...)
}

func (g *gen) swap() []spec.Edit {
	return pick(
		g, "swap",
		[]spec.Edit{{Op: spec.EditRename, Path: "ws/d", To: "ws/d.away"}, {Op: spec.EditSymlink, Path: "ws/d", To: "../out"}},
		[]spec.Edit{{Op: spec.EditRename, Path: "ws/d", To: "d.away"}},
		[]spec.Edit{{Op: spec.EditWrite, Path: "ws/a", Content: spec.Content("foreign")}},
		[]spec.Edit{{Op: spec.EditWrite, Path: "ws/d/a", Content: spec.Content("foreign")}},
		[]spec.Edit{{Op: spec.EditRemove, Path: "ws/a"}, {Op: spec.EditSymlink, Path: "ws/a", To: "../out/c"}},
		[]spec.Edit{{Op: spec.EditRemove, Path: "ws/a"}, {Op: spec.EditMkdir, Path: "ws/a"}},
		[]spec.Edit{{Op: spec.EditRemove, Path: "ws/n"}, {Op: spec.EditSymlink, Path: "ws/n", To: "../out"}},
		[]spec.Edit{{Op: spec.EditExchange, Path: "ws/a", To: "ws/b"}},
	)
}
