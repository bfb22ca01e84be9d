//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/vfs"
)

// Stores into a shared mapping are no calls. A file that is mapped for writing is
// compared with what is known of it at every step: its content is right there, but
// the single stores and their order are not known.

// mapping is a file that was mapped for writing. It is taken to be mapped for good.
type mapping struct {
	fd   int // handle of the file
	data []byte
}

// mapping4 is for a mapping of the file that the fifth argument is open on.
func mapping4(r *recorder, d *draft) bool { return handled(r, d) }

func mappedStore(r *recorder, d *draft, _ int64) {
	if o, fd := r.about(d); o != nil {
		r.watch(d, o, fd)
	}
}

// watch begins to compare a file.
func (r *recorder) watch(d *draft, o *object, fd int) {
	if r.mapped[o.id] != nil {
		return
	}
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		r.gap(d, "a mapped file could not be kept in sight: "+err.Error())
		return
	}
	m := &mapping{fd: dup}
	if m.data, err = contentOf(dup); err != nil {
		_ = unix.Close(dup)
		r.gap(d, "a mapped file could not be read: "+err.Error())
		return
	}
	r.mapped[o.id] = m
	r.coarse(d, o, fd, "it is mapped for writing: stores are seen at the next step only")
}

const mostMapped = 16 << 20 // bytes that are compared at every step

func contentOf(fd int) ([]byte, error) {
	st, err := statOf(fd)
	if err != nil {
		return nil, err
	}
	if st.Size > mostMapped {
		return nil, fmt.Errorf("%d bytes", st.Size)
	}
	return readAt(fd, 0, int64(st.Size))
}

// remapped is for a range of memory that is made writable. It counts if a shared
// mapping is in it.
func remapped(_ *recorder, d *draft) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", d.tid))
	if err != nil {
		d.odd = err
		return true
	}
	first := d.info.arg(0)
	last := first + d.info.arg(1)
	for line := range strings.SplitSeq(string(text), "\n") {
		var from, to, off, ino uint64
		var perms string
		var major, minor uint32
		if _, err := fmt.Sscanf(line, "%x-%x %s %x %x:%x %d", &from, &to, &perms, &off, &major, &minor, &ino); err != nil {
			continue
		}
		if from < last && first < to && strings.HasSuffix(perms, "s") && ino != 0 {
			d.text = fmt.Sprintf("/proc/%d/map_files/%x-%x", d.tid, from, to)
			d.ids = append(d.ids, vfs.ID{Dev: unix.Mkdev(major, minor), Ino: ino})
		}
	}
	return len(d.ids) > 0
}

func mappedRange(r *recorder, d *draft, _ int64) {
	for _, id := range d.ids {
		o := r.objects[id]
		if o == nil || r.mapped[id] != nil {
			continue
		}
		fd, err := unix.Open(d.text, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			// Only the mighty may look through a mapping. The subject may have the file
			// open still.
			fd, err = openAs(d.tid, id, err)
		}
		if err != nil {
			r.gap(d, "a mapped file could not be kept in sight: "+err.Error())
			continue
		}
		r.watch(d, o, fd)
		_ = unix.Close(fd)
	}
}

// openAs opens a file that a thread has open, by what it is; none is why there is no
// better way.
func openAs(tid int, id vfs.ID, none error) (int, error) {
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", tid))
	if err != nil {
		return -1, err
	}
	for _, p := range links {
		var st unix.Stat_t
		if unix.Stat(p, &st) == nil && st.Dev == id.Dev && st.Ino == id.Ino {
			return unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
		}
	}
	return -1, none
}

// stored is for calls after which only mapped files can be different, which are
// compared anyway.
func stored(r *recorder, _ *draft) bool { return len(r.mapped) > 0 }

// poll records what was stored since the last look.
func (r *recorder) poll(key string) {
	for _, id := range slices.SortedFunc(maps.Keys(r.mapped), func(a, b vfs.ID) int { return int(a.Ino) - int(b.Ino) }) {
		m := r.mapped[id]
		now, err := contentOf(m.fd)
		d := &draft{key: key, call: &call{name: "store"}, obj: m.fd}
		if err != nil {
			r.gap(d, "a mapped file could not be read: "+err.Error())
			delete(r.mapped, id)
			continue
		}
		if bytes.Equal(now, m.data) {
			continue
		}
		where := r.path(m.fd)
		if len(now) != len(m.data) {
			r.add(d, faults.Mutation{Do: faults.ChangeResize, Object: id, Size: int64(len(now)), Path: where})
		}
		for _, s := range differences(m.data, now) {
			r.add(d, faults.Mutation{Do: faults.ChangeWrite, Object: id, Off: int64(s[0]), Data: bytes.Clone(now[s[0]:s[1]]), Path: where})
		}
		m.data = now
	}
}

// differences returns the pages of now that are not the same in old, each run of them
// as one, cut down to what differs.
func differences(old, now []byte) (out [][2]int) {
	for at := 0; at < len(now); at += page {
		end := min(at+page, len(now))
		before := make([]byte, end-at)
		if at < len(old) {
			copy(before, old[at:min(end, len(old))])
		}
		after := now[at:end]
		if bytes.Equal(before, after) {
			continue
		}
		first, last := 0, len(after)
		for before[first] == after[first] {
			first++
		}
		for before[last-1] == after[last-1] {
			last--
		}
		out = append(out, [2]int{at + first, at + last})
	}
	return out
}

// shadow keeps what is known of a mapped file in step with the calls on it.
func (r *recorder) shadow(m *faults.Mutation) {
	w := r.mapped[m.Object]
	if w == nil {
		return
	}
	resize := func(n int64) {
		if n > int64(len(w.data)) {
			w.data = append(w.data, make([]byte, n-int64(len(w.data)))...)
		}
	}
	switch size := int64(len(w.data)); {
	case m.Do == faults.ChangeWrite:
		resize(m.Off + int64(len(m.Data)))
		copy(w.data[m.Off:], m.Data)
	case m.Do == faults.ChangeResize:
		resize(m.Size)
		w.data = w.data[:m.Size:m.Size]
	case m.Do == faults.ChangeClear && m.Off < size:
		clear(w.data[m.Off:min(size, m.Off+m.Size)])
	}
}
