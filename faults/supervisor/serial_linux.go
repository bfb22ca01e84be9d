//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

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
}

// hold keeps a thread where it is.
func (w *owner) hold(t *thread, u *use) {
	steady := make([]string, 0, len(u.names))
	for _, p := range u.names {
		steady = append(steady, w.keys.veiled(p))
	}
	// Names that the subject has thought of itself come last: they may be random.
	name := strings.Join([]string{t.proc.role, u.call.name, strings.Join(steady, " "), strings.Join(u.names, " ")}, "\x00")
	w.held = append(w.held, waiting{t, u, name})
}

// pause is how long a subject must be seen at rest. A thread that was looked at
// early may have been woken by one that was looked at late.
const pause = 50 * time.Microsecond

// longPause is for subjects with a thread that sleeps for moments to see to the others:
// Go's runtime finds in this way, every ten milliseconds at least, that a thread is held
// up, and lets another do its work.
const longPause = 25 * time.Millisecond

// next lets one held thread go if the others are at rest.
func (w *owner) next() error {
	w.engine.census()
	if w.busy() {
		w.moved = time.Now()
		time.Sleep(pause / 2)
		return nil
	}
	if len(w.held) > 1 && !w.crowd {
		w.crowd = true
		if err := w.bench.tell(report{Crowd: true}); err != nil {
			return err
		}
	}
	switch {
	case w.crowd && time.Since(w.moved) < longPause && w.watched():
		time.Sleep(pause)
		return nil
	case len(w.threads) > len(w.held):
		time.Sleep(pause)
		if w.busy() {
			return nil
		}
	}
	if w.engine.knocks() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	i := 0
	for j := range w.held {
		if cmp.Less(w.held[j].name, w.held[i].name) {
			i = j
		}
	}
	h := w.held[i]
	w.moved = time.Now()
	w.held = slices.Delete(w.held, i, i+1)
	return w.release(h.t, h.u)
}

// busy reports whether a thread that is not held runs, or is about to. One that waits
// for a child to give its memory back looks as if it waited for a disk.
func (w *owner) busy() bool {
	for tid, t := range w.threads {
		if !t.rest && !t.lent && !slices.ContainsFunc(w.held, func(h waiting) bool { return h.t.tid == tid }) && runs(tid) {
			return true
		}
	}
	return false
}

// watched reports whether one of the threads sleeps for a moment.
func (w *owner) watched() bool {
	for tid := range w.threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
		if nr, _, _ := strings.Cut(string(text), " "); err == nil && (nr == nanosleep || nr == clockNanosleep) {
			return true
		}
	}
	return false
}

var nanosleep, clockNanosleep = strconv.Itoa(unix.SYS_NANOSLEEP), strconv.Itoa(unix.SYS_CLOCK_NANOSLEEP)

// runs reports whether a thread is on a processor, waits for one, or for a disk. One
// that has stopped for its owner is about to run.
func runs(tid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", tid))
	if err != nil {
		return false // it has ended, and its end comes next
	}
	_, rest, ok := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
	return ok && len(rest) > 0 && bytes.IndexByte([]byte("RDt"), rest[0]) >= 0
}

// forget drops what is known of a thread that has ended.
func (w *owner) forget(tid int) {
	w.lost(tid)
	delete(w.threads, tid)
	w.held = slices.DeleteFunc(w.held, func(h waiting) bool { return h.t.tid == tid })
}

// wait waits for the next stop. While threads are held it does not block: 0 is for
// no thread.
func (w *owner) wait(ws *unix.WaitStatus) (int, error) {
	flags := unix.WALL
	if len(w.held) > 0 {
		flags |= unix.WNOHANG
	}
	return unix.Wait4(-1, ws, flags, nil)
}
