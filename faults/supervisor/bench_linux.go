//go:build linux && (amd64 || arm64)

package supervisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// Supervisor is a plan in force around the processes that Wrap has prepared, one
// after the other.
type Supervisor struct {
	opt Options

	mu      sync.Mutex
	call    spec.CallID // under way
	fired   map[string]bool
	steps   []faults.Step
	touched []faults.Touch
	blind   []string
	crashed bool
	err     error // of the bench's own hands
	lines   []*line
}

// line is the connection to one owner.
type line struct {
	ours, theirs *os.File
	out          *json.Encoder // guarded by say
	say          sync.Mutex
	armed        chan []string // the owner has taken in another plan, or says what it was asked
	gone         chan struct{} // nothing more is to be heard of it

	record faults.Record // guarded by the lock of the Supervisor
	told   bool          // the record has an end; guarded likewise
}

// New checks the plan. It fails with an error matching ErrCannot where the engine
// cannot carry it out.
func New(opt Options) (*Supervisor, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	return &Supervisor{opt: opt, fired: map[string]bool{}}, nil
}

// Files is the number of descriptors beyond the standard ones that a wrapped
// command needs. A jail around it has to let them pass.
const Files = 1

// Wrap puts an owner in front of cmd. What else is to confine the subject confines
// the owner, and is wrapped around it afterwards.
func (s *Supervisor) Wrap(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err
	}
	o := order{
		Engine: s.opt.Engine, Path: cmd.Path, Argv: cmd.Args, Base: s.opt.Base, Plan: s.left(), Call: s.calling(), Crowd: s.crowd(), Free: s.opt.Free, Watch: s.opt.Watch,
		Record: s.opt.Record, After: s.opt.After != nil,
	}
	if len(o.Argv) == 0 {
		o.Argv = []string{cmd.Path}
	}
	argv, err := o.argv(ownerName)
	if err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("connect to the owner: %w", err)
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		return fmt.Errorf("connect to the owner: %w", err)
	}
	l := &line{
		ours: os.NewFile(uintptr(pair[0]), "owner"), theirs: os.NewFile(uintptr(pair[1]), "bench"),
		armed: make(chan []string, 1), gone: make(chan struct{}),
	}
	l.out = json.NewEncoder(l.ours)
	cmd.Path, cmd.Args, cmd.ExtraFiles = "/proc/self/exe", argv, []*os.File{l.theirs}
	s.mu.Lock()
	s.lines = append(s.lines, l)
	s.mu.Unlock()
	go s.listen(l)
	return nil
}

// left is the plan for the next process: what has struck once and for all does not
// strike again, since a new process counts from one.
func (s *Supervisor) left() faults.Plan {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := faults.Plan{Trace: s.opt.Plan.Trace, Names: s.opt.Plan.Names}
	for _, in := range s.opt.Plan.Injections {
		once := in.When.Nth > 0 || in.When.Step != "" || in.Do.Crash
		if !once || !s.fired[in.ID] {
			p.Injections = append(p.Injections, in)
		}
	}
	return p
}

// listen takes in what an owner reports until it ends.
func (s *Supervisor) listen(l *line) {
	defer close(l.gone)
	defer func() { _ = l.ours.Close() }()
	in := json.NewDecoder(l.ours)
	for {
		var r report
		if err := in.Decode(&r); err != nil {
			s.ended(l)
			killed := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.ECONNRESET)
			if !killed && !errors.Is(err, os.ErrClosed) {
				s.fail(fmt.Errorf("listen to the owner: %w", err))
			}
			return
		}
		if r.Armed {
			l.armed <- r.Left
			continue
		}
		if r.Note != nil {
			s.note(l, *r.Note)
		}
		done := s.take(r)
		if !r.silent() && l.answer(answer{Done: done}) != nil {
			return // it is dead; its end is told elsewhere
		}
	}
}

func (l *line) answer(a answer) error {
	l.say.Lock()
	defer l.say.Unlock()
	return l.out.Encode(a)
}

// Rearm puts another plan in force around the processes that there are, and begins
// to count anew. They must be at rest.
func (s *Supervisor) Rearm(plan faults.Plan, watch []string, sink trace.Sink) error {
	opt := s.opt
	opt.Plan, opt.Watch, opt.Sink = plan, watch, sink
	if err := opt.check(); err != nil {
		return err
	}
	s.handOver()
	s.mu.Lock()
	s.opt = opt
	s.fired, s.steps, s.touched, s.blind, s.crashed, s.err, s.call = map[string]bool{}, nil, nil, nil, false, nil, 0
	s.lines = slices.DeleteFunc(s.lines, func(l *line) bool {
		select {
		case <-l.gone:
			return true
		default:
			return false
		}
	})
	s.mu.Unlock()
	s.tell(arming{Plan: plan, Watch: watch, Crowd: s.crowd()})
	return nil
}

// Begin notes that a call begins. The processes must be at rest.
func (s *Supervisor) Begin(call spec.CallID) {
	s.mu.Lock()
	s.call = call
	s.mu.Unlock()
	s.tell(arming{Call: call})
}

// crowd reports whether there are threads to order, as far as is known. A plan that
// speaks of their order knows.
func (s *Supervisor) crowd() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opt.Crowd != nil && s.opt.Crowd.Load() ||
		slices.ContainsFunc(s.opt.Plan.Injections, func(in faults.Injection) bool { return in.Do.Orders() })
}

func (s *Supervisor) calling() spec.CallID {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.call
}

// patience bounds how long an owner may take to answer. A subject may have stopped it:
// they are the same user.
const patience = 20 * time.Second

// tell brings something to all owners, waits until they have it, and returns what they
// say to it. All that they said before was taken in then.
func (s *Supervisor) tell(what arming) (said []string) {
	for _, l := range s.handOver() {
		if l.answer(answer{Arm: &what}) != nil {
			<-l.gone
			continue
		}
		select {
		case left := <-l.armed:
			said = append(said, left...)
		case <-l.gone:
		case <-time.After(patience):
			s.take(report{Blind: "its owner does not answer"})
		}
	}
	return said
}

func (s *Supervisor) take(r report) (done bool) {
	switch {
	case r.Swap != nil:
		return s.swap(*r.Swap)
	case r.Glimpse != nil:
		s.glimpse(*r.Glimpse)
	case r.Crowd:
		if s.opt.Crowd != nil {
			s.opt.Crowd.Store(true)
		}
	case r.Touch != nil:
		s.mu.Lock()
		s.touched = append(s.touched, *r.Touch)
		s.mu.Unlock()
	case r.After != "":
		s.opt.After(r.After)
	case r.Event != nil:
		s.mu.Lock()
		if f := r.Event.Fault; f != nil {
			s.fired[f.Injection] = true
		}
		s.crashed = s.crashed || r.Event.Crash != nil
		sink := s.opt.Sink
		s.mu.Unlock()
		sink.Emit(*r.Event)
	case r.Steps != nil || r.Blind != "":
		s.mu.Lock()
		if s.steps = append(s.steps, r.Steps...); r.Blind != "" && !slices.Contains(s.blind, r.Blind) {
			s.blind = append(s.blind, r.Blind)
		}
		s.mu.Unlock()
	}
	return true
}

// swap carries out the edits of an injection, and puts those that happened on
// record. One without any did not fire.
func (s *Supervisor) swap(at trace.Fired) bool {
	fired := false
	s.mu.Lock()
	plan, sink := s.opt.Plan, s.opt.Sink
	s.mu.Unlock()
	for _, in := range plan.Injections {
		if in.ID != at.Injection {
			continue
		}
		for _, e := range in.Do.Swap {
			e = faults.AtStep(e, at.Path)
			done, err := s.opt.Hands(e)
			if err != nil {
				s.fail(fmt.Errorf("swap %s: %w", in.ID, err))
				return fired
			}
			if !done {
				continue
			}
			if !fired {
				fired = true
				s.mu.Lock()
				s.fired[in.ID] = true
				s.mu.Unlock()
				sink.Emit(trace.Event{Actor: trace.ActorFault, Fault: &at})
			}
			sink.Emit(trace.Event{Actor: trace.ActorFault, Edit: &e})
			s.edited(e)
		}
	}
	return fired
}

// glimpse puts what a reader finds now on record.
func (s *Supervisor) glimpse(g glimpse) {
	w, err := s.opt.Look()
	if err != nil {
		s.fail(fmt.Errorf("glimpse %s: %w", g.Injection, err))
		return
	}
	s.mu.Lock()
	s.fired[g.Injection] = true
	sink := s.opt.Sink
	s.mu.Unlock()
	sink.Emit(trace.Event{Actor: trace.ActorWorld, Glimpse: &trace.Glimpse{Injection: g.Injection, After: g.After, World: w}})
}

func (s *Supervisor) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = cmp.Or(s.err, err)
}

// Steps lists what the subjects that were started have done in the tree.
func (s *Supervisor) Steps() []faults.Step {
	s.settle()
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

// settle waits until all that the owners know is taken in.
func (s *Supervisor) settle() { s.tell(arming{Told: true}) }

// Touched lists what the subjects went for outside the sandbox, each thing once for
// each process.
func (s *Supervisor) Touched() []faults.Touch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.touched)
}

// handOver gives up the owners' ends of the lines, which they have by now: the end
// of those is to be seen.
func (s *Supervisor) handOver() []*line {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.lines {
		_ = l.theirs.Close()
	}
	return slices.Clone(s.lines)
}

// Unfired lists injections that had no effect so far, and what could not be seen:
// a run with either shows nothing.
func (s *Supervisor) Unfired() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := slices.Clone(s.blind)
	for _, in := range s.opt.Plan.Injections {
		if !s.fired[in.ID] {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

// Crashed reports whether a planned crash has struck and Revive was not called
// since.
func (s *Supervisor) Crashed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.crashed
}

// Revive notes that another process takes over.
func (s *Supervisor) Revive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.crashed = false
}

// End ends all processes that are still there.
func (s *Supervisor) End() {
	for _, l := range s.handOver() {
		if raw, err := l.ours.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) }) // an error: it is closed
		}
		<-l.gone
	}
}

// Stop ends the plan. No owner is started after it.
func (s *Supervisor) Stop() error {
	s.handOver()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
