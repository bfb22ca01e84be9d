package model

import (
	"fmt"
	"slices"
	"strings"

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
	for _, e := range x.Edits {
		// So does one that is gone and still held, to files without a name; what is
		// renamed over it takes it away too.
		if e.Edit.Op == spec.EditRemove || e.Edit.Op == spec.EditRename {
			kinds = append(kinds, spec.ErrNotPermitted)
		}
	}
	if seam == spec.SeamDelete {
		ss, at := spots(x, remove, false)
		for i, s := range ss {
			kinds = append(kinds, at[i].refusesRemoval(s.path)...)
		}
		return kinds
	}
	ss, at := spots(x, write, true)
	for i, s := range ss {
		dir := dirOf(s.path)
		if len(s.missing) > 0 {
			dir = dirOf(s.missing[0])
		}
		kinds = append(kinds, at[i].refusesEntries(dir)...)
		if at[i].has(s.path) {
			kinds = append(kinds, at[i].refusesBytes(s.path)...)
			kinds = append(kinds, at[i].refusesRemoval(s.path)...)
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

func onlyDenialsReachHandlers(x *Exchange) (bool, []Finding) {
	for _, c := range x.Consults {
		seam := seamOf(c)
		if len(deniedBy(x, seam)) == 0 && !genuinelyMissing(x, seam) {
			return true, broke(fmt.Sprintf("handler %d was asked to %s although nothing was denied", c.Handler, seam),
				"no handler asked: neither the tree nor a fault denied the "+string(seam))
		}
	}
	for _, aim := range seamAims(x.Call) {
		if len(handlersOf(x, aim.seam)) > 0 {
			return true, nil // they were there to be asked
		}
	}
	return false, nil
}

// everyDenialReachesHandlers: a call that answers with a denial, at a seam that
// has handlers and for a destination that can be named, must have asked them.
func everyDenialReachesHandlers(x *Exchange) (bool, []Finding) { return unasked(x, false) }

// maskedReachesHandlers is the same for the denial of a parent that was to be made,
// which shows as a missing one.
func maskedReachesHandlers(x *Exchange) (bool, []Finding) { return unasked(x, true) }

func unasked(x *Exchange, masked bool) (applied bool, broken []Finding) {
	if len(x.Edits) > 0 || x.Crashed {
		return false, nil
	}
	for _, aim := range seamAims(x.Call) {
		if len(handlersOf(x, aim.seam)) == 0 {
			continue
		}
		if asked, _ := consulted(x, aim.seam); asked {
			// Asked, as they must be; had they not been, the answer would have told.
			applied = applied || len(deniedBy(x, aim.seam)) > 0 && masked == lacksParent(x, aim.seam)
			continue
		}
		if x.Out.Status != spec.StatusFailed || masked != (x.Out.Err == spec.ErrNotFound) {
			continue
		}
		if answersDenial(x, aim.seam) && offerable(x, aim.seam, aim.path) && halfway(x, aim.seam) {
			return true, broke(fmt.Sprintf("failed %s and asked nobody", x.Out.Err), fmt.Sprintf("the %s handlers asked first", aim.seam))
		}
	}
	return applied, nil
}

// seamAim is what a call may ask the handlers of a seam about.
type seamAim struct {
	seam spec.Seam
	path string
}

func seamAims(c spec.Call) []seamAim {
	var out []seamAim
	write, remove := aims(c)
	if write != "" {
		out = append(out, seamAim{spec.SeamWrite, write})
	}
	if remove != "" {
		out = append(out, seamAim{spec.SeamDelete, remove})
	}
	return out
}

// lacksParent reports whether what a call writes to has a parent that is yet to be
// made.
func lacksParent(x *Exchange, seam spec.Seam) bool {
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
	if asked, accepted := consulted(x, spec.SeamWrite); seam == spec.SeamWrite || asked && !accepted {
		return seam == spec.SeamWrite
	}
	return dst.no == nil && !old && now
}

// answersDenial reports whether the call's answer is a denial at seam: one that
// the tree makes for certain, or one that struck at an operation of the seam and
// came back as the answer.
func answersDenial(x *Exchange, seam spec.Seam) bool {
	err := x.Out.Err
	for _, f := range x.Fired {
		masked := f.Op == "mkdir" && err == spec.ErrNotFound
		if denial(spec.ErrKind(f.Effect)) && !f.After && slices.Contains(deniedOps[seam], f.Op) && (string(err) == f.Effect || masked) {
			return seam == spec.SeamDelete || f.Class == "create" || f.Class == "modify" // and not the clean-up
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

// offerable reports whether handlers may be told of the destination: it can be
// named, and nothing else refuses the call first.
func offerable(x *Exchange, seam spec.Seam, path string) bool {
	s := resolve(x.Before, x.Header, path, seam == spec.SeamWrite)
	if s.no != nil || len(s.detour) > 0 {
		return false
	}
	// Nobody knows where a name leads behind one that is said not to be there.
	if blinded(x) && slices.Contains(strings.Split(path, "/"), "..") {
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
	return (!there || n.Type == spec.TypeFile && !x.mustCreate()) && (!s.linked || there)
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

// eachSeam runs f over the seams at which handlers were asked, stopping at the
// first finding.
func eachSeam(x *Exchange, f func(asked []int, answers []trace.Answer, handlers []int) (bool, []Finding)) (applied bool, broken []Finding) {
	for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
		asked, answers := series(x, seam)
		if len(asked) == 0 {
			continue
		}
		applies, broken := f(asked, answers, handlersOf(x, seam))
		applied = applied || applies
		if broken != nil {
			return applied, broken
		}
	}
	return applied, nil
}

// inOrder: the first handler is asked first, and none again.
func inOrder(x *Exchange) (bool, []Finding) {
	return eachSeam(x, func(asked []int, _ []trace.Answer, handlers []int) (bool, []Finding) {
		again := false
		for i := 1; i < len(asked); i++ {
			again = again || asked[i] <= asked[i-1]
		}
		if again || len(handlers) > 0 && asked[0] != handlers[0] {
			return true, broke(fmt.Sprintf("handlers asked: %v", asked), fmt.Sprintf("in the order %v, each once", handlers))
		}
		return len(handlers) > 1, nil
	})
}

func firstYesEnds(x *Exchange) (bool, []Finding) {
	return eachSeam(x, func(asked []int, answers []trace.Answer, handlers []int) (bool, []Finding) {
		i := slices.Index(answers, trace.Landed)
		if i >= 0 && i+1 < len(asked) {
			return true, broke(fmt.Sprintf("handler %d said yes, and handler %d was asked after it", asked[i], asked[i+1]),
				"nobody asked after the first yes")
		}
		return i >= 0 && slices.Index(handlers, asked[i])+1 < len(handlers), nil
	})
}

// nextAfter checks that after every answer of the kind the next handler, if there
// is one, is asked.
func nextAfter(x *Exchange, kind trace.Answer) (bool, []Finding) {
	return eachSeam(x, func(asked []int, answers []trace.Answer, handlers []int) (applied bool, broken []Finding) {
		for i, a := range answers {
			at := slices.Index(handlers, asked[i])
			if a != kind || at < 0 || at+1 >= len(handlers) {
				continue
			}
			applied = true
			if next := handlers[at+1]; i+1 >= len(asked) || asked[i+1] != next {
				return true, broke(fmt.Sprintf("handler %d %s, and handler %d was not asked", asked[i], a, next),
					fmt.Sprintf("handler %d asked next", next))
			}
		}
		return applied, nil
	})
}

func failureIsSkipped(x *Exchange) (bool, []Finding) {
	if x.Crashed {
		return false, nil
	}
	return nextAfter(x, trace.Threw)
}

func refusalIsPassedOver(x *Exchange) (bool, []Finding) {
	if x.Crashed {
		return false, nil
	}
	return nextAfter(x, trace.Declined)
}

func failureIsLogged(x *Exchange) (bool, []Finding) {
	threw := 0
	for _, c := range x.Consults {
		if c.Answer == trace.Threw {
			threw++
		}
	}
	if threw == 0 || x.Crashed {
		return false, nil
	}
	warned := 0
	for _, d := range x.Diags {
		if d.Level == "WARN" || d.Level == "ERROR" {
			warned++
		}
	}
	if warned < threw {
		return true, broke(fmt.Sprintf("%d handlers failed, %d warnings", threw, warned), "one warning for each")
	}
	return true, nil
}

func noDeleteAtWriteHandlers(x *Exchange) (bool, []Finding) {
	write, remove := aims(x.Call)
	if remove == "" || len(handlersOf(x, spec.SeamWrite)) == 0 {
		return false, nil
	}
	for _, c := range x.Consults {
		if c.Write != nil && (write == "" || strays(x, c.Write.Dst, spec.SeamWrite, spec.SeamDelete)) {
			return true, broke(fmt.Sprintf("write handler %d was asked about what is to be deleted", c.Handler), "no write handler asked about it")
		}
	}
	return true, nil
}

func noWriteAtDeleteHandlers(x *Exchange) (bool, []Finding) {
	write, remove := aims(x.Call)
	if write == "" || len(handlersOf(x, spec.SeamDelete)) == 0 {
		return false, nil
	}
	for _, c := range x.Consults {
		if c.Delete != nil && (remove == "" || strays(x, c.Delete.Dst, spec.SeamDelete, spec.SeamWrite)) {
			return true, broke(fmt.Sprintf("delete handler %d was asked about what is to be written", c.Handler), "no delete handler asked about it")
		}
	}
	return true, nil
}

// strays reports whether handlers of one seam were told the destination that is
// the business of the other: a move has both.
func strays(x *Exchange, dst string, at, of spec.Seam) bool {
	return !slices.Contains(destinations(x, at), dst) && slices.Contains(destinations(x, of), dst)
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

func missingIsNotDiverted(x *Exchange) (bool, []Finding) {
	if slices.ContainsFunc(x.Fired, func(f trace.Fired) bool { return f.Class == "read" }) {
		return false, nil // who was kept from looking cannot know that it is missing
	}
	applied := false
	for _, aim := range seamAims(x.Call) {
		if len(handlersOf(x, aim.seam)) == 0 || !genuinelyMissing(x, aim.seam) {
			continue
		}
		if asked, _ := consulted(x, aim.seam); asked {
			return true, broke(fmt.Sprintf("the %s handlers were asked about a name that is missing", aim.seam), "the missing name reported")
		}
		applied = true
	}
	return applied, nil
}

// everywhere reports whether f holds of what a path leads to, whatever the moment.
func everywhere(x *Exchange, path string, last bool, f func(t tree, s spot) bool) bool {
	ss, at := spots(x, path, last)
	for i, s := range ss {
		if !f(at[i], s) {
			return false
		}
	}
	return len(ss) > 0
}

func noDirectories(x *Exchange) (bool, []Finding) {
	_, remove := aims(x.Call)
	isDir := func(t tree, s spot) bool { return t.w[s.path].Type == spec.TypeDir }
	if remove == "" || blinded(x) || shutOut(x) || len(handlersOf(x, spec.SeamDelete)) == 0 || !everywhere(x, remove, false, isDir) {
		return false, nil
	}
	if asked, _ := consulted(x, spec.SeamDelete); asked {
		return true, broke("a delete handler was asked about a directory", "the directory refused")
	}
	return true, nil
}

func noSpecialFiles(x *Exchange) (bool, []Finding) {
	write, _ := aims(x.Call)
	special := func(t tree, s spot) bool {
		n, there := t.w[s.path]
		return there && n.Type != spec.TypeFile
	}
	if write == "" || blinded(x) || len(handlersOf(x, spec.SeamWrite)) == 0 || !everywhere(x, write, true, special) {
		return false, nil
	}
	if asked, _ := consulted(x, spec.SeamWrite); asked {
		return true, broke("a write handler was asked about what is not a regular file", "it refused")
	}
	return true, nil
}

func onlyIdentified(x *Exchange) (bool, []Finding) {
	write, _ := aims(x.Call)
	if write == "" || blinded(x) || len(handlersOf(x, spec.SeamWrite)) == 0 {
		return false, nil
	}
	dangling := func(t tree, s spot) bool { return s.linked && !t.has(s.path) }
	blind := len(x.Fired) == 0 && hidden(x.Before, x, spec.SeamWrite)
	if !blind && !everywhere(x, write, true, dangling) {
		return false, nil
	}
	if asked, _ := consulted(x, spec.SeamWrite); asked {
		return true, broke("a write handler was asked about a target that cannot be seen", "nobody asked: where it leads is not proven")
	}
	return true, nil
}
