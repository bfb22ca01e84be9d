//go:build linux && (amd64 || arm64)

package supervisor

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A subject with several threads takes its steps in another order in every run. In
// a serial run each call in the sandbox is held, and when no thread of the subject
// runs any more, the one with the smallest name is let go: one order in all runs.

// waiting is a thread that is held at a call.
type waiting struct {
	t    *thread
	u    *use
	name string // by which it is chosen

	turn   bool   // it was its turn already
	late   *armed // what has it wait for others
	passed int    // others that it has let pass since
}

// hold keeps a thread where it is.
func (w *owner) hold(t *thread, u *use) {
	steady := make([]string, 0, len(u.names))
	for _, p := range u.names {
		steady = append(steady, w.keys.veiled(p))
	}
	// Names that the subject has thought of itself come last: they may be random.
	name := strings.Join([]string{t.proc.role, u.call.name, strings.Join(steady, " "), strings.Join(u.names, " ")}, "\x00")
	w.held = append(w.held, waiting{t: t, u: u, name: name})
}

// pause is how long the owner waits before it looks again.
const pause = 25 * time.Microsecond

// doze waits for a pause. The runtime's own way to sleep would hand this thread's work to
// another thread and back, which takes longer than the pause.
func doze() {
	ts := unix.NsecToTimespec(int64(pause))
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// longPause is for subjects with a thread that naps to see to the others: Go's runtime
// finds in this way, every ten milliseconds at least, that a thread is held up, and lets
// another do its work. It takes up to three naps.
const (
	longPause = 25 * time.Millisecond
	naps      = 3
)

// next lets one held thread go if the others are at rest.
func (w *owner) next() error {
	rest, err := w.letOne()
	if err == nil && !rest {
		doze()
	}
	return err
}

func (w *owner) letOne() (rest bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	working, napping := w.busy()
	if working {
		w.moved()
	}
	if working || napping || len(w.held) == 0 {
		return false, nil
	}
	if len(w.held) > 1 && !w.crowd {
		w.crowd = true
		if err := w.bench.tell(report{Crowd: true}); err != nil {
			return false, err
		}
	}
	switch {
	case w.crowd && !w.settled():
		return false, nil
	case len(w.threads) > len(w.held):
		// One that was looked at early may have been woken by one that was looked at late.
		if working, napping := w.busy(); working || napping {
			return false, nil
		}
	}
	if w.engine.knocks() {
		return true, nil
	}
	i, err := w.pick()
	if err != nil {
		return true, err
	}
	return true, w.admit(i)
}

// holds returns how many threads are held.
func (w *owner) holds() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held)
}

func (w *owner) admit(i int) error {
	h := w.held[i]
	w.moved()
	w.unrest = time.Time{}
	w.held = slices.Delete(w.held, i, i+1)
	return w.release(h.t, h.u)
}

// mostUnrest is how long a step waits for a subject to come to rest. One may have a
// thread that never does, or a child that starts another and ends, for ever.
const mostUnrest = 5 * time.Second

// impatient lets a step go that has waited for too long, and says that the order of the
// steps is none. From then on there is nothing to wait for.
func (w *owner) impatient() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.held) == 0 {
		return nil
	}
	if w.unrest.IsZero() {
		w.unrest = time.Now()
	}
	if !w.restless && time.Since(w.unrest) < mostUnrest {
		return nil
	}
	if !w.restless {
		w.restless = true
		if err := w.bench.ask(report{Blind: fmt.Sprintf("its threads did not come to rest in %v: the order of its steps is not known", mostUnrest)}); err != nil {
			return err
		}
	}
	return w.admit(0)
}

// moved notes that the subject did something.
func (w *owner) moved() { w.rest, w.polled = 0, time.Time{} }

// busy reports whether a thread that is not held runs, or is about to: one that works, or
// only one that naps and sees to the others. One that waits for a child to give its memory
// back looks as if it waited for a disk.
func (w *owner) busy() (working, napping bool) {
	for tid, t := range w.threads {
		if t.rest || t.lent || slices.ContainsFunc(w.held, func(h waiting) bool { return h.t.tid == tid }) || !t.runs() {
			continue
		}
		if !t.naps {
			return true, false
		}
		napping = true
	}
	return false, napping
}

// settled reports whether the subject has been at rest for so long that whoever naps has
// seen to the others. Time in which this process did not run does not count: the subject
// may not have run either.
func (w *owner) settled() bool {
	first := w.polled.IsZero()
	now := time.Now()
	if !first {
		w.rest += min(now.Sub(w.polled), 8*pause)
	}
	w.polled = now
	nap, slept := false, true
	for tid, t := range w.threads {
		if !napping(tid) {
			continue // it may have gone to sleep until it is called
		}
		nap, t.naps = true, true
		n := t.turns()
		if first {
			t.since = n
		}
		// One that sleeps for long is not there to see to others.
		slept = slept && (n == t.since || n >= t.since+naps)
	}
	return !first && slept && (!nap || w.rest >= longPause)
}

// napping reports whether a thread sleeps for a moment.
func napping(tid int) bool {
	nr := waitsIn(tid)
	return nr == nanosleep || nr == clockNanosleep
}

var nanosleep, clockNanosleep = strconv.Itoa(unix.SYS_NANOSLEEP), strconv.Itoa(unix.SYS_CLOCK_NANOSLEEP)

// turns returns how often a thread was given a processor; 0 where the kernel does not tell.
func (t *thread) turns() int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", t.tid))
	f := strings.Fields(string(text))
	if err != nil || len(f) < 3 {
		return 0
	}
	n, _ := strconv.Atoi(f[2]) // not a number: it does not tell
	return n
}

// runs reports whether a thread is on a processor, waits for one, or for a disk. One
// that has stopped for its owner is about to run.
func (t *thread) runs() bool {
	if t.stat == nil {
		f, err := os.Open(stateFile(t.tid))
		if err != nil {
			return false // it has ended, and its end comes next
		}
		t.stat = f
	}
	var buf [128]byte
	n, err := unix.Pread(int(t.stat.Fd()), buf[:], 0)
	if err != nil {
		return false
	}
	switch stateIn(buf[:n]) {
	case 'R', 'D', 't':
		return true
	}
	return false
}

// forget drops what is known of a thread that has ended.
func (w *owner) forget(tid int) {
	w.lost(tid)
	if t := w.threads[tid]; t != nil && t.stat != nil {
		_ = t.stat.Close()
	}
	delete(w.threads, tid)
	w.held = slices.DeleteFunc(w.held, func(h waiting) bool { return h.t.tid == tid })
}

// wait waits for the next stop. While threads are held it does not block: 0 is for
// no thread.
func (w *owner) wait(ws *unix.WaitStatus) (int, error) {
	flags := unix.WALL
	if w.holds() > 0 {
		flags |= unix.WNOHANG
	}
	return unix.Wait4(-1, ws, flags, nil)
}
