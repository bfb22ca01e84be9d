//go:build linux && (amd64 || arm64)

package supervisor

import (
	"errors"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// This is where the owner's loop and the record meet, on both sides.

// record begins a record if there is to be one.
func (w *owner) record() (err error) {
	if !w.Record {
		return nil
	}
	if w.rec, err = newRecorder(w.Base); err != nil {
		return err
	}
	return w.tellRecord()
}

// again begins another record, of the same processes.
func (w *owner) again() {
	if w.rec == nil {
		return
	}
	rec, err := newRecorder(w.Base)
	if err != nil {
		w.rec.out.Gaps = append(w.rec.out.Gaps, faults.Gap{Reason: err.Error()})
	} else {
		rec.resume(w.rec)
		w.rec = rec
	}
	_ = w.tellRecord() // a bench that is gone is seen at the next report
}

// tellRecord tells what was recorded since the last time.
func (w *owner) tellRecord() error {
	n := w.rec.take()
	if n.empty() {
		return nil
	}
	return w.bench.tell(report{Note: &n})
}

// drafted looks at a call that is about to be made in the sandbox.
func (w *owner) drafted(t *thread, u *use) (err error) {
	if w.rec == nil || u.result != nil { // it is not made at all
		return nil
	}
	u.draft, err = w.draft(t, u.call, u.info, u.key)
	return err
}

func (w *owner) draft(t *thread, c *call, info callInfo, key string) (*draft, error) {
	flags, err := w.flags(t.tid, c, &info)
	if err != nil {
		return nil, err
	}
	d := w.rec.begin(t.tid, c, info, flags, key)
	return d, w.tellRecord()
}

// aside deals with a call that is about nothing in the sandbox by name. It may be
// about something there all the same: a file has several names.
func (w *owner) aside(t *thread, c *call, info callInfo) error {
	d, err := w.draft(t, c, info, "")
	if err != nil || d == nil {
		return errors.Join(err, resume(t.tid, 0))
	}
	t.use = &use{call: c, info: info, key: d.key, draft: d}
	return resumeCall(t.tid)
}

// made puts on record what a call has done, and lets the bench look.
func (w *owner) made(u *use, result int64) error {
	changed := false
	if w.rec != nil {
		w.rec.end(u.draft, result)
		changed = len(w.rec.out.Mutations) > 0
		if err := w.tellRecord(); err != nil {
			return err
		}
	}
	if aside := len(u.places) == 0; w.After && (changed || u.call.class != faults.Read && !aside) {
		return w.bench.ask(report{After: u.key})
	}
	return nil
}

// lost notes the end of a thread.
func (w *owner) lost(tid int) {
	if w.rec != nil {
		w.rec.lost(tid)
	}
}

// swapped gets to know what the bench has changed. The edits themselves are put on
// record by the bench, which knows them.
func (w *owner) swapped(done bool) error {
	if w.rec == nil || !done {
		return nil
	}
	now, err := newRecorder(w.Base)
	if err != nil {
		w.rec.out.Gaps = append(w.rec.out.Gaps, faults.Gap{Reason: "the tree was changed: " + err.Error()})
		return w.tellRecord()
	}
	for _, h := range now.out.Start {
		o := now.objects[h.ID]
		if old := w.rec.objects[h.ID]; old == nil || old.birth != o.birth {
			w.rec.out.Mutations = append(w.rec.out.Mutations, faults.Mutation{Do: faults.ChangeKnown, Object: h.ID, Path: h.Path})
			w.rec.objects[h.ID] = o
		}
	}
	return w.tellRecord()
}

// edited puts an edit on record. Of several owners only the one that has asked for it
// looks at the tree again.
func (s *Supervisor) edited(e spec.Edit) {
	if !s.opt.Record {
		return
	}
	if e.Op == spec.EditSymlink {
		e.To = strings.ReplaceAll(e.To, "{root}", path.Join(s.opt.Base, spec.Workspace))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		l.record.Mutations = append(l.record.Mutations, faults.Mutation{Do: faults.ChangeEdit, Path: faults.Raw(e.Path), Edit: &e})
	}
}

// recorded ends a record. What is left of the subject is ended first: what it did
// after the last look would be on no record.
func (w *owner) recorded() error {
	if w.rec == nil {
		return nil
	}
	w.engine.kill()
	for {
		var ws unix.WaitStatus
		tid, err := unix.Wait4(-1, &ws, unix.WALL, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			break
		}
		if err == nil && ws.Stopped() { // it was just started, and nobody knew of it
			_ = unix.Kill(tid, unix.SIGKILL)
		}
	}
	w.rec.finish()
	w.rec.out.End = true
	return w.tellRecord()
}

// note takes in what an owner has recorded.
func (s *Supervisor) note(l *line, n note) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(n.Start) > 0 {
		l.record = faults.Record{UID: n.UID}
		for _, other := range s.lines {
			select {
			case <-other.gone:
				continue
			default:
			}
			if other != l && len(other.record.Start) > 0 {
				alone := faults.Gap{Reason: "another process was there at the same time: what it did is on its own record"}
				l.record.Gaps, other.record.Gaps = append(l.record.Gaps, alone), append(other.record.Gaps, alone)
			}
		}
	}
	l.record.Start = append(l.record.Start, n.Start...)
	l.record.Mutations = append(l.record.Mutations, n.Mutations...)
	l.record.Gaps = append(l.record.Gaps, n.Gaps...)
	l.told = l.told || n.End
}

// ended notes that nothing more will be heard of an owner.
func (s *Supervisor) ended(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(l.record.Start) > 0 && !l.told {
		l.record.Gaps = append(l.record.Gaps, faults.Gap{Reason: "it was killed together with who wrote this down: its last steps may be missing"})
	}
}

// dead reports whether nobody is at the other end.
func (l *line) dead() bool {
	raw, err := l.ours.SyscallConn()
	if err != nil {
		return true // it is closed
	}
	gone := true
	_ = raw.Control(func(fd uintptr) { // an error: it is closed
		look := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(look, 0)
		gone = err == nil && n > 0 && look[0].Revents&unix.POLLHUP != 0
	})
	return gone
}

// Records returns, for each process that was wrapped, in that order, what it has done
// to the tree so far. Two that ran at the same time do not know of each other.
func (s *Supervisor) Records() []faults.Record {
	s.settle()
	for _, l := range s.handOver() {
		if l.dead() {
			<-l.gone // with which it is known whether it had told all
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []faults.Record
	for _, l := range s.lines {
		r := l.record
		r.Start, r.Mutations, r.Gaps = slices.Clone(r.Start), slices.Clone(r.Mutations), slices.Clone(r.Gaps)
		out = append(out, r)
	}
	return out
}
