package model

import (
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// seamChecks are about whether, when and in which order handlers are asked.
var seamChecks = []Check{
	{"FB-001", onlyDenialsReachHandlers},
	{"FB-002", everyDenialReachesHandlers},
	{"FB-003", inOrder},
	{"FB-005", firstYesEnds},
	{"FB-006", noDeleteAtWriteHandlers},
	{"FB-007", noWriteAtDeleteHandlers},
	{"FB-008", failureIsSkipped},
	{"FB-009", failureIsLogged},
	{"FB-011", maskedReachesHandlers},
	{"FB-012", missingIsNotDiverted},
	{"FB-018", noDirectories},
	{"FB-021", refusalIsPassedOver},
	{"FB-026", noSpecialFiles},
	{"FB-027", onlyIdentified},
}

// deniedOps are the operations whose denial is a denial of the write or of the
// unlink, rather than of looking or of some step around it.
var deniedOps = map[spec.Seam][]string{
	spec.SeamWrite:  {"open-file", "open-doomed", "probe", "mkdir", "publish", "link", "rename"},
	spec.SeamDelete: {"remove"},
}

// deniedBy returns every denial that may have stood in the way at a seam: those
// that struck, and those that the tree itself makes. Reading is no write.
func deniedBy(x *Exchange, seam spec.Seam) []spec.ErrKind {
	var kinds []spec.ErrKind
	for _, f := range x.Fired {
		if k := spec.ErrKind(f.Effect); denial(k) && slices.Contains(deniedOps[seam], f.Op) && f.Class != "read" {
			kinds = append(kinds, k)
		}
	}
	write, remove := aims(x.Call)
	for _, w := range worlds(x) {
		// A directory that may not be searched refuses everything in it too.
		if hidden(w, x, seam) {
			kinds = append(kinds, spec.ErrAccess)
		}
	}
	if seam == spec.SeamDelete {
		ss, trees := spots(x, remove, false)
		for i, s := range ss {
			kinds = append(kinds, trees[i].refusesRemoval(s.path)...)
		}
		return kinds
	}
	ss, trees := spots(x, write, true)
	for i, s := range ss {
		at := dirOf(s.path)
		if len(s.missing) > 0 {
			at = dirOf(s.missing[0])
		}
		kinds = append(kinds, trees[i].refusesEntries(at)...)
		if trees[i].has(s.path) {
			kinds = append(kinds, trees[i].refusesBytes(s.path)...)
			kinds = append(kinds, trees[i].refusesRemoval(s.path)...)
		}
	}
	return kinds
}

// hidden reports whether what the call aims at, at a seam, cannot be looked at.
func hidden(w spec.World, x *Exchange, seam spec.Seam) bool {
	path, remove := aims(x.Call)
	if seam == spec.SeamDelete {
		path = remove
	}
	if path == "" {
		return false
	}
	s := resolve(w, x.Header, path, seam == spec.SeamWrite)
	return s.no != nil && s.no.rule == "PR-008"
}

func onlyDenialsReachHandlers(x *Exchange) (int, []Finding) {
	for _, c := range x.Consults {
		seam := seamOf(c)
		if len(deniedBy(x, seam)) == 0 && !genuinelyMissing(x, seam) {
			return 1, broke(fmt.Sprintf("handler %d was asked to %s although nothing was denied", c.Handler, seam),
				"no handler asked: neither the tree nor a fault denied the "+string(seam))
		}
	}
	// It could have been broken wherever handlers were there to be asked.
	return len(x.Header.Brokers), nil
}

// everyDenialReachesHandlers: a call that answers with a denial, at a seam that
// has handlers and for a destination that can be named, must have asked them.
func everyDenialReachesHandlers(x *Exchange) (int, []Finding) { return unasked(x, false) }

// maskedReachesHandlers is the same for the denial of a parent that was to be made,
// which shows as a missing one.
func maskedReachesHandlers(x *Exchange) (int, []Finding) { return unasked(x, true) }

func unasked(x *Exchange, masked bool) (int, []Finding) {
	write, remove := aims(x.Call)
	for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
		path := map[spec.Seam]string{spec.SeamWrite: write, spec.SeamDelete: remove}[seam]
		if path == "" || len(handlersOf(x, seam)) == 0 || len(x.Edits) > 0 || x.Crashed {
			continue
		}
		if asked, _ := consulted(x, seam); asked {
			if len(deniedBy(x, seam)) > 0 && masked == parentDenied(x, seam) {
				return 1, nil // asked, as it must be
			}
			continue
		}
		if x.Out.Status != spec.StatusFailed || masked != (x.Out.Err == spec.ErrNotFound) {
			continue
		}
		if answersDenial(x, seam) && offerable(x, seam, path) && halfway(x, seam) {
			return 1, broke(fmt.Sprintf("failed %s and asked nobody", x.Out.Err), fmt.Sprintf("the %s handlers asked first", seam))
		}
	}
	return 0, nil
}

// parentDenied reports whether what was denied is a parent that was to be made.
func parentDenied(x *Exchange, seam spec.Seam) bool {
	write, _ := aims(x.Call)
	s := resolve(x.Before, x.Header, write, true)
	return seam == spec.SeamWrite && s.no == nil && len(s.missing) > 0
}

// halfway reports whether a call got as far as the primitive of a seam: a move
// writes only what it could read, and unlinks only after it wrote.
func halfway(x *Exchange, seam spec.Seam) bool {
	if x.Call.Kind != spec.CallMove {
		return true
	}
	if src := reach(x.Before, x.Header, x.Call.Path, false); src.no != nil || fromSource(x.Before, x, src) != nil {
		return false
	}
	dst := resolve(x.Before, x.Header, x.Call.To, true)
	_, old := x.Before[dst.path]
	_, now := x.After[dst.path]
	return seam == spec.SeamWrite || dst.no == nil && !old && now
}

// answersDenial reports whether the call's answer is a denial at seam: one that
// the tree makes for certain, or one that struck at an operation of the seam and
// came back as the answer.
func answersDenial(x *Exchange, seam spec.Seam) bool {
	err := x.Out.Err
	for _, f := range x.Fired {
		masked := f.Op == "mkdir" && err == spec.ErrNotFound
		if denial(spec.ErrKind(f.Effect)) && !f.After && slices.Contains(deniedOps[seam], f.Op) && (string(err) == f.Effect || masked) {
			return struckTarget(x, seam, f)
		}
	}
	if len(x.Fired) > 0 {
		return false
	}
	write, remove := aims(x.Call)
	if seam == spec.SeamDelete {
		s := resolve(x.Before, x.Header, remove, false)
		return s.no == nil && slices.Contains(tree{x.Before}.refusesRemoval(s.path), err)
	}
	s := resolve(x.Before, x.Header, write, true)
	return s.no == nil && slices.Contains(toWrite(x.Before, x.Header, s).denied, err)
}

// struckTarget reports whether a denial struck the write or the unlink itself and
// not, say, the clean-up after another failure.
func struckTarget(x *Exchange, seam spec.Seam, f trace.Fired) bool {
	return seam == spec.SeamDelete || f.Class == "create" || f.Class == "modify"
}

// offerable reports whether handlers may be told of the destination: it can be
// named, and nothing else refuses the call first.
func offerable(x *Exchange, seam spec.Seam, path string) bool {
	s := resolve(x.Before, x.Header, path, seam == spec.SeamWrite)
	if s.no != nil || len(s.detour) > 0 {
		return false
	}
	n, there := x.Before[s.path]
	if x.Expect != NoExpectation && x.Expect != ExpectCurrent {
		return false
	}
	if seam == spec.SeamDelete {
		return there && n.Type != spec.TypeDir && n.Mount == spec.MountNone &&
			(n.Type != spec.TypeLink || x.Header.Policies[spec.PolicyLinks] == spec.LinksFollow)
	}
	absent := x.Call.Kind == spec.CallMove || x.Call.ExpectVersion == spec.VersionAbsent
	return (!there || n.Type == spec.TypeFile && !absent) && (!s.linked || there)
}

// handlersOf returns the positions of the handlers of a seam, in order.
func handlersOf(x *Exchange, seam spec.Seam) []int {
	var out []int
	for i, b := range x.Header.Brokers {
		if b.Seam == seam {
			out = append(out, i+1)
		}
	}
	return out
}

// series returns the handlers that were asked at a seam, in the order in which
// they were, and what they answered.
func series(x *Exchange, seam spec.Seam) (asked []int, answers []trace.Answer) {
	for _, c := range x.Consults {
		if seamOf(c) == seam {
			asked = append(asked, c.Handler)
			answers = append(answers, c.Answer)
		}
	}
	return asked, answers
}

func eachSeam(x *Exchange, f func(asked []int, answers []trace.Answer, handlers []int) (int, []Finding)) (int, []Finding) {
	applied := 0
	for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
		asked, answers := series(x, seam)
		if len(asked) == 0 {
			continue
		}
		n, broken := f(asked, answers, handlersOf(x, seam))
		applied += n
		if broken != nil {
			return applied, broken
		}
	}
	return applied, nil
}

func inOrder(x *Exchange) (int, []Finding) {
	return eachSeam(x, func(asked []int, _ []trace.Answer, handlers []int) (int, []Finding) {
		if len(handlers) < 2 {
			return 0, nil
		}
		if !slices.IsSorted(asked) || asked[0] != handlers[0] {
			return 1, broke(fmt.Sprintf("handlers asked: %v", asked), fmt.Sprintf("in the order %v", handlers))
		}
		return 1, nil
	})
}

func firstYesEnds(x *Exchange) (int, []Finding) {
	return eachSeam(x, func(asked []int, answers []trace.Answer, _ []int) (int, []Finding) {
		i := slices.Index(answers, trace.Landed)
		switch {
		case i < 0:
			return 0, nil
		case i+1 < len(asked):
			return 1, broke(fmt.Sprintf("handler %d said yes, and handler %d was asked after it", asked[i], asked[i+1]),
				"nobody asked after the first yes")
		}
		return 1, nil
	})
}

// nextAfter checks that after every answer of the kind the next handler, if there
// is one, is asked.
func nextAfter(x *Exchange, kind trace.Answer) (int, []Finding) {
	return eachSeam(x, func(asked []int, answers []trace.Answer, handlers []int) (int, []Finding) {
		applied := 0
		for i, a := range answers {
			at := slices.Index(handlers, asked[i])
			if a != kind || at < 0 || at+1 >= len(handlers) {
				continue
			}
			applied++
			if i+1 >= len(asked) {
				return applied, broke(fmt.Sprintf("handler %d %s, and handler %d was not asked", asked[i], a, handlers[at+1]),
					fmt.Sprintf("handler %d asked next", handlers[at+1]))
			}
		}
		return applied, nil
	})
}

func failureIsSkipped(x *Exchange) (int, []Finding) {
	if x.Crashed {
		return 0, nil
	}
	return nextAfter(x, trace.Threw)
}

func refusalIsPassedOver(x *Exchange) (int, []Finding) {
	if x.Crashed {
		return 0, nil
	}
	return nextAfter(x, trace.Declined)
}

func failureIsLogged(x *Exchange) (int, []Finding) {
	threw := 0
	for _, c := range x.Consults {
		if c.Answer == trace.Threw {
			threw++
		}
	}
	if threw == 0 || x.Crashed {
		return 0, nil
	}
	warned := 0
	for _, d := range x.Diags {
		if d.Level == "WARN" || d.Level == "ERROR" {
			warned++
		}
	}
	if warned < threw {
		return threw, broke(fmt.Sprintf("%d handlers failed, %d warnings", threw, warned), "one warning for each")
	}
	return threw, nil
}

func noDeleteAtWriteHandlers(x *Exchange) (int, []Finding) {
	write, remove := aims(x.Call)
	if remove == "" || len(handlersOf(x, spec.SeamWrite)) == 0 {
		return 0, nil
	}
	for _, c := range x.Consults {
		if c.Write != nil && write == "" {
			return 1, broke(fmt.Sprintf("write handler %d was asked during a delete", c.Handler), "no write handler asked")
		}
	}
	return 1, nil
}

func noWriteAtDeleteHandlers(x *Exchange) (int, []Finding) {
	write, remove := aims(x.Call)
	if write == "" || len(handlersOf(x, spec.SeamDelete)) == 0 {
		return 0, nil
	}
	for _, c := range x.Consults {
		if c.Delete != nil && remove == "" {
			return 1, broke(fmt.Sprintf("delete handler %d was asked during a write", c.Handler), "no delete handler asked")
		}
	}
	return 1, nil
}

// genuinelyMissing reports whether what the call aims at, at a seam, is missing
// whatever the moment, so that its absence is no denial.
func genuinelyMissing(x *Exchange, seam spec.Seam) bool {
	write, remove := aims(x.Call)
	if seam == spec.SeamDelete {
		for _, w := range worlds(x) {
			s := resolve(w, x.Header, remove, false)
			if _, there := w[s.path]; s.no != nil || there {
				return false
			}
		}
		return remove != ""
	}
	for _, w := range worlds(x) {
		if s := resolve(w, x.Header, write, true); s.no == nil || !s.no.genuine {
			return false
		}
	}
	return write != ""
}

func missingIsNotDiverted(x *Exchange) (int, []Finding) {
	if slices.ContainsFunc(x.Fired, func(f trace.Fired) bool { return f.Class == "read" }) {
		return 0, nil // who was kept from looking cannot know that it is missing
	}
	for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
		if !genuinelyMissing(x, seam) || len(handlersOf(x, seam)) == 0 {
			continue
		}
		if asked, _ := consulted(x, seam); asked {
			return 1, broke(fmt.Sprintf("the %s handlers were asked about a name that is missing", seam), "the missing name reported")
		}
		return 1, nil
	}
	return 0, nil
}

// everywhere reports whether f holds of what a path leads to, whatever the moment.
func everywhere(x *Exchange, path string, last bool, f func(t tree, s spot) bool) bool {
	ss, trees := spots(x, path, last)
	for i, s := range ss {
		if !f(trees[i], s) {
			return false
		}
	}
	return len(ss) > 0
}

func noDirectories(x *Exchange) (int, []Finding) {
	_, remove := aims(x.Call)
	isDir := func(t tree, s spot) bool { return t.w[s.path].Type == spec.TypeDir }
	if remove == "" || blinded(x) || len(handlersOf(x, spec.SeamDelete)) == 0 || !everywhere(x, remove, false, isDir) {
		return 0, nil
	}
	if asked, _ := consulted(x, spec.SeamDelete); asked {
		return 1, broke("a delete handler was asked about a directory", "the directory refused")
	}
	return 1, nil
}

func noSpecialFiles(x *Exchange) (int, []Finding) {
	write, _ := aims(x.Call)
	special := func(t tree, s spot) bool {
		n, there := t.w[s.path]
		return there && n.Type != spec.TypeFile
	}
	if write == "" || blinded(x) || len(handlersOf(x, spec.SeamWrite)) == 0 || !everywhere(x, write, true, special) {
		return 0, nil
	}
	if asked, _ := consulted(x, spec.SeamWrite); asked {
		return 1, broke("a write handler was asked about what is not a regular file", "it refused")
	}
	return 1, nil
}

func onlyIdentified(x *Exchange) (int, []Finding) {
	write, _ := aims(x.Call)
	dangling := func(t tree, s spot) bool { return s.linked && !t.has(s.path) }
	blind := len(x.Fired) == 0 && hidden(x.Before, x, spec.SeamWrite)
	if write == "" || len(handlersOf(x, spec.SeamWrite)) == 0 || !blind && !everywhere(x, write, true, dangling) {
		return 0, nil
	}
	if asked, _ := consulted(x, spec.SeamWrite); asked {
		return 1, broke("a write handler was asked about a target that cannot be seen", "nobody asked: where it leads is not proven")
	}
	return 1, nil
}
