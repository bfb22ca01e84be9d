//go:build linux && (amd64 || arm64)

package supervisor

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// engine holds the subject's threads at their calls and lets them go. What a call is
// about, what it is named and what strikes is the owner's affair, and the same in all.
type engine interface {
	// run starts the subject, stays with it until it ends and returns its status. Each
	// call that the filter stops at arrives at the owner.
	run() (status int, err error)

	// pass lets a thread go that waits at a call which is of no interest.
	pass(t *thread) error

	// perform lets it make its call, or has it find the result in u in its place.
	perform(t *thread, u *use) error

	// kill ends all of the subject, now.
	kill()

	// census brings the owner's list of threads up to date.
	census()

	// knocks reports whether a thread waits at a call that has not arrived.
	knocks() bool
}

// tracing is the engine that traces the subject. The kernel tells it of each thread,
// and of the end of each call.
type tracing struct{ *owner }

var _ engine = tracing{}

func (w tracing) run() (int, error) {
	if err := quietStops(); err != nil {
		return 0, fmt.Errorf("have no signals of stops: %w", err)
	}
	if err := w.start(); err != nil {
		return 0, err
	}
	return w.loop()
}

func (tracing) pass(t *thread) error { return resume(t.tid, 0) }

func (w tracing) perform(t *thread, u *use) error {
	switch {
	case u.result != nil:
		if err := skipCall(t.tid); err != nil {
			return err
		}
	case !w.awaited(u):
		return resume(t.tid, 0)
	}
	t.use = u
	return resumeCall(t.tid)
}

// kill ends only what is still owned, and keeps its number: that of a process which
// has ended may be somebody else's by now.
func (w tracing) kill() {
	for tid, t := range w.threads {
		if tracer(tid) == w.self {
			_ = unix.Kill(t.proc.pid, unix.SIGKILL)
		}
	}
}

func (tracing) census() {}

func (tracing) knocks() bool { return false } // a thread that was stopped is seen to be
