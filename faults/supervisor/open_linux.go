//go:build linux && (amd64 || arm64)

package supervisor

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Left lists what of the sandbox the subjects have open and had not when the call began.
// They are given a moment: some answer before they tidy up.
func (s *Supervisor) Left() []string {
	const looks, between = 100, 2 * time.Millisecond
	left := s.tell(arming{Left: true})
	for range looks {
		if len(left) == 0 {
			break
		}
		time.Sleep(between)
		left = s.tell(arming{Left: true})
	}
	slices.Sort(left)
	return left
}

// open lists what of the sandbox the subject's processes have open, by object: an
// adversary may have moved it since.
func (w *owner) open() map[vfs.ID][]string {
	out := map[vfs.ID][]string{}
	for pid := range w.procs {
		fds, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
		if err != nil {
			continue // it has ended
		}
		for _, fd := range fds {
			p := "/proc/" + strconv.Itoa(pid) + "/fd/" + fd.Name()
			if w.orphans[p] {
				continue
			}
			var st unix.Stat_t
			rel, below, err := w.link(p)
			if err != nil || !below || unix.Stat(p, &st) != nil {
				continue
			}
			id := vfs.ID{Dev: st.Dev, Ino: st.Ino}
			out[id] = append(out[id], rel)
		}
	}
	return out
}

// left lists what is open now and was not when the call began. A server may keep the
// workspace itself from its first call on, and the host its own folder, wherever an
// adversary has carried it.
func (w *owner) left() []string {
	var out []string
	for id, names := range w.open() {
		if p := names[0]; p != spec.Workspace && !slices.Contains(strings.Split(p, "/"), spec.StateDir) {
			out = append(out, names[min(len(w.began[id]), len(names)):]...)
		}
	}
	return out
}
