//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/vfs"
)

const selfExe = "/proc/self/exe"

// A process that was started as an owner or as its shim gets no further than here. Very
// many are started: they do not wait for what other packages prepare.
func init() {
	if len(os.Args) != 2 || !slices.Contains([]string{ownerName, keeperName, shimName, probeName}, os.Args[0]) {
		return
	}
	if os.Args[0] == probeName {
		_ = unix.Access(os.Args[1]+"/.", unix.F_OK) // what comes of it is nobody's concern
		os.Exit(0)
	}
	o, err := parseOrder(os.Args[1])
	switch {
	case err != nil:
	case os.Args[0] == shimName:
		err = shim(o)
	case os.Args[0] == keeperName:
		err = keep(o)
	default:
		err = own(o)
	}
	fmt.Fprintln(os.Stderr, "fsbench: supervisor:", err)
	os.Exit(exitOwner)
}

// shim waits until it is owned, takes on the filter and becomes the subject.
func shim(o order) error {
	runtime.LockOSThread()
	action, flags := uint32(unix.SECCOMP_RET_USER_NOTIF), uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	if o.Engine != Notify {
		action, flags = unix.SECCOMP_RET_TRACE, 0
		if _, err := unix.Read(3, make([]byte, 1)); err != nil {
			return fmt.Errorf("wait for the owner: %w", err)
		}
		if err := unix.Close(3); err != nil {
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("forbid new privileges: %w", err)
	}
	prog, err := program(action)
	if err != nil {
		return err
	}
	// A file that gets too big is an error that the subject can be asked about, and not
	// its end.
	signal.Ignore(unix.SIGXFSZ)
	listener, err := install(prog, flags)
	if err == nil && o.Engine == Notify {
		err = sendListener(3, listener)
	}
	if err != nil {
		return fmt.Errorf("install the filter: %w", err)
	}
	return fmt.Errorf("start %s: %w", o.Argv[0], unix.Exec(o.Path, o.Argv, os.Environ()))
}

// owner is what the subject is held by. All of it runs on one thread: the kernel takes
// a trace request from no other.
type owner struct {
	order
	bench  *bench
	engine engine
	main   int // process id of the subject
	self   int // the thread that owns it, which need not be the first one of this process

	mu      sync.Mutex // held from a stop to its end, and while another plan comes
	threads map[int]*thread
	procs   map[int]*proc
	plan    plan
	keys    keys
	held    []waiting     // in a serial run
	crowd   bool          // more than one thread was held at a time
	rest    time.Duration // for which all threads were seen to do nothing
	polled  time.Time     // when that was last seen; zero if they did something since
	unrest  time.Time     // since when a step has waited for that; zero if none has
	touched map[faults.Touch]bool
	rec     *recorder           // if the subject is recorded
	began   map[vfs.ID][]string // what it had open when the call began
	orphans map[string]bool     // descriptors that it does not know of: it was told that they were refused
	dev     uint64              // of the tree; 0 where it cannot be told
	abroad  map[string]string   // what absolute paths outside the tree were resolved to

	restless bool // it was given up to wait for rest
}

// proc is one process of the subject.
type proc struct {
	pid      int
	role     string // place in the tree of forks: 0, 0.1, 0.1.2
	children int
}

// thread is one thread of the subject.
type thread struct {
	tid  int
	proc *proc
	use  *use // the call that it is in, if that is to be seen to its end
	rest bool // it was stopped as a job is, and may stay so
	lent bool // its memory is a child's, and it waits until that starts a program or ends

	stat  *os.File // where the kernel tells whether it runs; nil before it was asked
	naps  bool     // it was seen to sleep for a moment
	since int      // how often it had had a processor when all came to rest
}

// own starts the subject, stays with it, and ends as it ends.
func own(o order) error {
	runtime.LockOSThread()
	w := &owner{order: o, self: unix.Gettid(), threads: map[int]*thread{}, procs: map[int]*proc{}, orphans: map[string]bool{}, abroad: map[string]string{}, touched: map[faults.Touch]bool{}, plan: newPlan(o.Plan, o.Watch), keys: newKeys(o.Plan.Names)}
	w.engine = tracing{w}
	if o.Engine == Notify {
		w.engine = newAsking(w)
	}
	var tree unix.Stat_t
	if unix.Stat(o.Base, &tree) == nil {
		w.dev = tree.Dev
	}
	w.keys.begin(o.Call)
	w.crowd = o.Crowd
	unix.CloseOnExec(3)
	sock := os.NewFile(3, "bench")
	w.bench = &bench{answers: make(chan answer), out: json.NewEncoder(sock)}
	go w.listen(json.NewDecoder(bufio.NewReader(sock)))
	// The subject may be the same user. It is kept from this process's memory.
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the subject out: %w", err)
	}
	if err := w.bench.ask(report{Hello: true}); err != nil {
		return err
	}
	err := w.record()
	status := exitOwner
	if err == nil {
		status, err = w.engine.run()
		err = errors.Join(err, w.recorded())
	}
	if err != nil {
		status = exitOwner
		fmt.Fprintln(os.Stderr, "fsbench: supervisor:", err)
		_ = w.bench.ask(report{Blind: err.Error()})
	}
	w.bench.catchUp()
	os.Exit(status)
	return nil
}

// start brings the shim up to where it waits, owns it, and lets it go on.
func (w *owner) start() error {
	argv, err := w.argv(shimName)
	if err != nil {
		return err
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	pid, err := syscall.ForkExec(selfExe, argv, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2, uintptr(pipe[0])},
	})
	if err != nil {
		return fmt.Errorf("start the shim: %w", err)
	}
	w.main = pid
	w.procs[pid] = &proc{pid: pid, role: "0"}
	if err := w.seize(pid); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return fmt.Errorf("own the subject: %w", err)
	}
	if _, err := unix.Write(pipe[1], []byte{1}); err != nil {
		return err
	}
	_, _ = unix.Close(pipe[0]), unix.Close(pipe[1])
	return letGo()
}

// letGo gives up standard input and output: their end is to be seen when the
// subject's own are closed.
func letGo() error {
	null, err := unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
	for fd := range 2 {
		if err == nil {
			err = unix.Dup3(null, fd, 0)
		}
	}
	return err
}

const traceOptions = unix.PTRACE_O_TRACESECCOMP | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK | unix.PTRACE_O_TRACECLONE |
	unix.PTRACE_O_TRACEVFORKDONE | unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_EXITKILL

// seize attaches to every thread of a process. Threads that come after are attached
// by the kernel, and one that came in between is found by looking again.
func (w *owner) seize(pid int) error {
	for found := true; found; {
		found = false
		for _, tid := range threadsOf([]int{pid}) {
			if w.threads[tid] != nil {
				continue
			}
			switch err := ptrace(unix.PTRACE_SEIZE, tid, 0, traceOptions); {
			case errors.Is(err, unix.ESRCH): // it ended
			case err != nil && tracer(tid) != w.self:
				return err
			default: // or the kernel was first
				found = true
				w.threads[tid] = &thread{tid: tid, proc: w.procs[pid]}
			}
		}
	}
	if w.threads[pid] == nil {
		return errors.New("it has ended")
	}
	return nil
}

// loop goes from stop to stop until the subject ends, and returns its status.
func (w *owner) loop() (int, error) {
	for {
		if err := w.impatient(); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, err
		}
		var ws unix.WaitStatus
		tid, err := w.wait(&ws)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && tid == 0:
			if err := w.next(); err != nil && !errors.Is(err, unix.ESRCH) {
				return 0, err
			}
			continue
		case err != nil:
			return 0, fmt.Errorf("stay with the subject: %w", err)
		case ws.Exited() && tid == w.main:
			return ws.ExitStatus(), nil
		case ws.Signaled() && tid == w.main:
			return 128 + int(ws.Signal()), nil
		case ws.Exited() || ws.Signaled():
			w.mu.Lock()
			w.forget(tid)
			w.mu.Unlock()
			continue
		case !ws.Stopped():
			continue
		}
		if err := w.stopped(tid, ws); err != nil && !errors.Is(err, unix.ESRCH) {
			return 0, err // ESRCH: it was killed meanwhile, and its end comes next
		}
	}
}

// stopped deals with one stop of a thread and lets it go on.
func (w *owner) stopped(tid int, ws unix.WaitStatus) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.moved()
	t := w.thread(tid)
	const sysgood = unix.SIGTRAP | 0x80
	sig, event := ws.StopSignal(), int(ws)>>16
	t.rest = event == unix.PTRACE_EVENT_STOP && sig != unix.SIGTRAP
	switch {
	case sig == sysgood:
		return w.leave(t)
	case event == unix.PTRACE_EVENT_SECCOMP:
		return w.enter(t)
	case t.rest: // its end, or its going on, is seen
		return ptrace(unix.PTRACE_LISTEN, t.tid, 0, 0)
	case event == unix.PTRACE_EVENT_EXEC:
		w.lost(t.tid)
		t.use = nil
		return resume(t.tid, 0)
	case event == unix.PTRACE_EVENT_VFORK_DONE:
		t.lent = false
		return resume(t.tid, 0)
	case event == unix.PTRACE_EVENT_CLONE || event == unix.PTRACE_EVENT_FORK || event == unix.PTRACE_EVENT_VFORK:
		t.lent = event == unix.PTRACE_EVENT_VFORK
		// The new one counts from here on: it may not have come to its first stop.
		if tid, err := unix.PtraceGetEventMsg(t.tid); err == nil {
			w.thread(int(tid))
		}
		return resume(t.tid, 0)
	case event != 0:
		return resume(t.tid, 0)
	}
	return resume(t.tid, int(sig))
}

// thread returns what is known of tid, which may be new.
func (w *owner) thread(tid int) *thread {
	t := w.threads[tid]
	if t == nil {
		t = &thread{tid: tid, proc: w.procOf(tid)}
		w.threads[tid] = t
	}
	return t
}

// procOf returns the process of a thread. A new process has its place in the tree
// of forks by its parent, and by how many that had before.
func (w *owner) procOf(tid int) *proc {
	tgid, ppid := kin(tid)
	if p := w.procs[tgid]; p != nil {
		return p
	}
	parent := w.procs[ppid]
	if parent == nil {
		parent = w.procs[w.main] // an orphan: its parent has ended
	}
	return w.child(parent, tgid)
}

func (w *owner) child(parent *proc, pid int) *proc {
	parent.children++
	p := &proc{pid: pid, role: fmt.Sprintf("%s.%d", parent.role, parent.children)}
	w.procs[pid] = p
	return p
}

// bench is the other end.
type bench struct {
	answers chan answer

	mu    sync.Mutex
	out   *json.Encoder
	steps []faults.Step // that it does not know of
	late  *time.Timer   // runs while there are any
}

// lateness is how long a step may go untold. Only a subject that hangs, or ends by
// itself, is ever waited for so long.
const lateness = 20 * time.Millisecond

// step reports one without haste: the next report takes it along.
func (b *bench) step(s faults.Step) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.steps = append(b.steps, s); len(b.steps) == 1 {
		b.late = time.AfterFunc(lateness, b.catchUp)
	}
}

func (b *bench) catchUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.flush() // an error: the bench is gone, which ends this process
}

// flush tells the steps that are untold. The lock is held.
func (b *bench) flush() error {
	if len(b.steps) == 0 {
		return nil
	}
	b.late.Stop()
	if err := b.out.Encode(report{Steps: b.steps}); err != nil {
		return fmt.Errorf("the bench is gone: %w", err)
	}
	b.steps = nil
	return nil
}

// listen takes in what the bench says. A plan comes between calls, while the subject
// has nothing to do. When the bench is gone, or wants no more of this, everything
// that is owned ends with its owner.
func (w *owner) listen(in *json.Decoder) {
	for {
		var a answer
		if err := in.Decode(&a); err != nil {
			os.Exit(exitOwner)
		}
		if a.Arm == nil {
			w.bench.answers <- a
			continue
		}
		r := report{Armed: true}
		if !a.Arm.Told {
			r.Left = w.arm(*a.Arm)
		}
		if err := w.bench.tell(r); err != nil {
			os.Exit(exitOwner)
		}
	}
}

// arm puts another plan in force, notes that a call begins, or returns what one has left
// open.
func (w *owner) arm(o arming) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.engine.census()
	switch {
	case o.Left:
		return w.left()
	case o.Call != 0:
		w.keys.begin(o.Call)
		w.recount()
		clear(w.orphans)
		w.began = w.open()
		return nil
	}
	w.plan, w.keys = newPlan(o.Plan, o.Watch), newKeys(o.Plan.Names)
	w.crowd = w.crowd || o.Crowd
	w.unrest, w.restless = time.Time{}, false
	w.recount()
	w.again()
	return nil
}

// recount forgets the processes that have ended, so that the places of the next ones
// do not depend on how many there were.
func (w *owner) recount() {
	alive := map[*proc]bool{}
	for _, t := range w.threads {
		alive[t.proc] = true
	}
	for pid, p := range w.procs {
		if p.children = 0; !alive[p] {
			delete(w.procs, pid)
		}
	}
	for _, p := range w.procs {
		for _, q := range w.procs {
			if path.Dir(strings.ReplaceAll(q.role, ".", "/")) == strings.ReplaceAll(p.role, ".", "/") {
				p.children++
			}
		}
	}
}

// tell reports without waiting.
func (b *bench) tell(r report) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.flush(); err != nil {
		return err
	}
	if err := b.out.Encode(r); err != nil {
		return fmt.Errorf("the bench is gone: %w", err)
	}
	return nil
}

// ask reports and waits until it was taken in.
func (b *bench) ask(r report) error {
	_, err := b.swap(r)
	return err
}

// swap is ask for a report that has an outcome.
func (b *bench) swap(r report) (bool, error) {
	if err := b.tell(r); err != nil {
		return false, err
	}
	return (<-b.answers).Done, nil
}
