package faults

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// errCrashed is what operations return after a crash in process. The subject's
// code may run on, as code does, but it no longer reaches the tree.
var errCrashed = errors.New("the process was killed")

// Options says how a plan meets its sandbox.
type Options struct {
	// Base is the absolute path of the sandbox: the paths of a plan are below it.
	Base string

	Sink trace.Sink

	// Hands carries out the edits of a swap, past every permission. It is not done
	// where an edit finds nothing to act on, or its place taken.
	Hands func(spec.Edit) (done bool, err error)

	// Look reads the tree for a glimpse, past every permission. Where it is nil whoever
	// receives the event has to look, before it returns.
	Look func() (spec.World, error)

	// Watch names injections that the tree was prepared for, so that the kernel
	// itself refuses. They are not injected; an operation that fails as planned
	// is recorded as theirs.
	Watch []string

	// Noted is told each step before it is made, if the plan asks for steps; it may
	// be nil.
	Noted func(Step)

	// Die ends the process at a crash, after the event was emitted. Where it is
	// nil, the armed view goes dead instead.
	Die func()
}

// Armed is a file system with a plan in force between Start and Stop. Before
// and after it only passes operations on.
type Armed struct {
	base vfs.FS
	opt  Options

	mu      sync.Mutex
	active  bool
	crashed bool
	inj     []armedInjection
	steps   *steps // nil where nobody asks for them
	passed  int    // operations that have begun

	open  map[any]string // handles that the subject has, and what of
	began map[any]string // those that it had when the call began
	err   error          // of the bench's own hands
}

type armedInjection struct {
	Injection
	ops   map[opClass]bool // what it can strike
	watch bool
	hits  int
	fired int

	cut place // the operation that was interrupted, until it is done after all
}

type opClass struct {
	op    vfs.OpKind
	class Class
}

// Arm applies plan to base. The errors that it injects are the errors that a
// kernel would give: nothing marks them as injected but the event sent to the
// sink, which is emitted before the effect can be seen.
func Arm(base vfs.FS, plan Plan, opt Options) (*Armed, error) {
	if err := plan.Check(); err != nil {
		return nil, fmt.Errorf("arm: %w", err)
	}
	a := &Armed{base: base, opt: opt}
	if plan.Stepped() {
		a.steps = &steps{}
	}
	for _, in := range plan.Injections {
		ai := armedInjection{Injection: in, ops: map[opClass]bool{}, watch: slices.Contains(opt.Watch, in.ID)}
		for _, r := range in.When.rows() {
			if in.Do.Errno == "" || slices.Contains(r.errnos, in.Do.Errno) {
				ai.ops[opClass{r.op, r.class}] = true
			}
		}
		a.inj = append(a.inj, ai)
	}
	return a, nil
}

// Start puts the plan in force.
func (a *Armed) Start() { a.setActive(true) }

// Stop ends it. Counts of matches and firings are kept.
func (a *Armed) Stop() { a.setActive(false) }

func (a *Armed) setActive(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.active = on
}

// Crashed reports whether a crash fired and Revive was not called since.
func (a *Armed) Crashed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.crashed
}

// Revive lets a new process reach the tree after a crash.
func (a *Armed) Revive() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.crashed, a.open = false, nil
}

// Unfired lists injections that never fired. A scenario with one proves nothing
// about its fault.
func (a *Armed) Unfired() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var ids []string
	for _, in := range a.inj {
		if in.fired == 0 {
			ids = append(ids, in.ID)
		}
	}
	return ids
}

// Begin notes that a call begins. Its steps are numbered from one.
func (a *Armed) Begin(call spec.CallID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.steps != nil {
		a.steps.begin(call)
	}
	a.began = maps.Clone(a.open)
}

// opened notes a handle that the subject has got. Those of the workspace itself and of the
// host's own folder are kept as long as the host likes.
func (a *Armed) opened(h any, at place) {
	p := path.Join(at.dir, at.name)
	if p == spec.Workspace || hosts(at) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open == nil {
		a.open = map[any]string{}
	}
	a.open[h] = p
}

// closed notes that the subject has given a handle back.
func (a *Armed) closed(h any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, h)
}

// Left lists what the subject has open and had not when the call began.
func (a *Armed) Left() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for h, p := range a.open {
		if _, old := a.began[h]; !old {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// Steps returns the operations so far, if the plan asks for them.
func (a *Armed) Steps() []Step {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.steps == nil {
		return nil
	}
	return slices.Clone(a.steps.list)
}

// Err returns the first failure of the bench's own hands, if any.
func (a *Armed) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Caps implements vfs.FS.
func (a *Armed) Caps() vfs.Caps { return a.base.Caps() }

// SyncFS implements vfs.FS.
func (a *Armed) SyncFS(d vfs.Dir) error {
	in := d
	at := place{op: vfs.OpSyncFS, class: Flush, fail: pathFail(vfs.OpSyncFS, "")}
	if ad, ok := d.(*armedDir); ok {
		in, at.dir = ad.in, ad.rel
	}
	return a.do(at, func() error { return a.base.SyncFS(in) })
}

// OpenRoot implements vfs.FS.
func (a *Armed) OpenRoot(p string) (vfs.Dir, error) {
	rel, ok := strings.CutPrefix(path.Clean(p), strings.TrimSuffix(path.Clean(a.opt.Base), "/")+"/")
	if !ok {
		rel = ""
	}
	dir, name := path.Split(rel)
	var d vfs.Dir
	at := place{op: vfs.OpOpenRoot, class: Read, dir: path.Clean(dir), name: name, fail: pathFail(vfs.OpOpenRoot, p)}
	err := a.do(at, func() (err error) {
		d, err = a.base.OpenRoot(p)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &armedDir{a: a, in: d, rel: rel}
	a.opened(out, at)
	return out, nil
}

// place is where an operation stands: the directory below the sandbox and the
// entry in it.
type place struct {
	op    vfs.OpKind
	class Class
	dir   string
	name  string
	key   string // of the step, where steps are counted

	fail func(error) error // wraps an injected errno as the backend would
}

// do stands around one operation: what is planned before it, the operation
// itself, what is planned after it.
func (a *Armed) do(at place, op func() error) error { return a.doAt(&at, op) }

// doAt is do for an operation that has to know at which step it is.
func (a *Armed) doAt(at *place, op func() error) error {
	if err := a.before(at); err != nil {
		return err
	}
	err := op()
	return a.after(*at, err)
}

func (a *Armed) before(here *place) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed {
		return errCrashed
	}
	if !a.active {
		return nil
	}
	a.passed++
	if a.steps != nil && !hosts(*here) {
		s := a.steps.note(*here)
		if here.key = s.Key; a.opt.Noted != nil {
			a.opt.Noted(s)
		}
	}
	at := *here
	for i := range a.inj {
		in := &a.inj[i]
		if in.watch || in.When.After || in.Do.Short != nil || !in.strikes(at) {
			continue
		}
		if err := a.fire(in, at); err != nil {
			return err
		}
	}
	return nil
}

// after sees the operation's own result. A plan that the kernel carried out is
// recognised here; a fault planned after a success replaces it.
func (a *Armed) after(at place, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.crashed || !a.active {
		return err
	}
	for i := range a.inj {
		in := &a.inj[i]
		if c := in.cut; err == nil && c.op == at.op && c.dir == at.dir && c.name == at.name {
			a.emit(in, at, trace.Synthetic, trace.EffectAgain)
			in.cut = place{}
		}
		switch {
		case in.watch && err != nil && in.foresaw(at, err):
			in.fired++
			a.emit(in, at, trace.Kernel, in.Do.Errno)
			return err
		case !in.watch && in.When.After && err == nil && in.strikes(at):
			if err := a.fire(in, at); err != nil {
				return err
			}
		}
	}
	return err
}

// short returns the number of bytes that a planned short write at at may take.
func (a *Armed) short(at place, n int) (int, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.active || a.crashed {
		return 0, false
	}
	for i := range a.inj {
		in := &a.inj[i]
		if in.Do.Short == nil || *in.Do.Short >= n || !in.strikes(at) {
			continue
		}
		in.fired++
		a.emit(in, at, trace.Synthetic, trace.EffectShort)
		return *in.Do.Short, true
	}
	return 0, false
}

// strikes reports whether in is due at at, and counts the match.
func (in *armedInjection) strikes(at place) bool {
	w := in.When
	if !in.ops[opClass{at.op, at.class}] || w.Under != "" && w.Under != at.dir || hosts(at) && !strings.Contains(w.Under, spec.StateDir) {
		return false
	}
	if w.Step != "" && w.Step != at.key {
		return false
	}
	if w.Name != "" {
		if ok, err := path.Match(w.Name, at.name); err != nil || !ok {
			return false
		}
	}
	in.hits++
	return w.Nth == 0 || w.Nth == in.hits
}

// hosts reports whether an operation is on the host's own state folder.
func hosts(at place) bool {
	const state = spec.Workspace + "/" + spec.StateDir
	return at.dir == spec.Workspace && at.name == spec.StateDir || at.dir == state || strings.HasPrefix(at.dir, state+"/")
}

// foresaw reports whether err is what the tree was prepared for. Preparation is
// coarser than a plan: a directory without write permission refuses to drop
// entries as well as to add them, and a read-only mount covers what is below.
func (in *armedInjection) foresaw(at place, err error) bool {
	if at.class != Create && at.class != Remove && at.class != Modify {
		return false
	}
	below := at.dir == in.When.Under || strings.HasPrefix(at.dir+"/", in.When.Under+"/")
	return below && errors.Is(err, errnoByName[in.Do.Errno])
}

// fire makes in take effect at at. The event comes first.
func (a *Armed) fire(in *armedInjection, at place) error {
	switch {
	case in.Do.Errno != "":
		in.fired++
		a.emit(in, at, trace.Synthetic, in.Do.Errno)
		if in.Do.Errno == interrupted {
			in.cut = at
		}
		return at.fail(errnoByName[in.Do.Errno])
	case in.Do.Swap != nil:
		a.swap(in, at)
		return nil
	case in.Do.Glimpse:
		a.glimpse(in, at)
		return nil
	case in.Do.Delay > 0:
		return a.delay(in, at)
	case in.Do.First != "":
		return nil // nobody here knows what other threads are about to do
	default:
		in.fired++
		a.emit(in, at, trace.Synthetic, trace.EffectCrash)
		a.opt.Sink.Emit(trace.Event{Actor: trace.ActorFault, Crash: &trace.Crash{Model: trace.ProcessKill}})
		a.crashed = true
		if a.opt.Die != nil {
			a.opt.Die()
		}
		return errCrashed
	}
}

// swap carries out the edits. An edit that finds nothing to act on, or its place
// taken, is an adversary who came too early or too late: it is no event, and a
// swap without any did not fire.
func (a *Armed) swap(in *armedInjection, at place) {
	fired := false
	for _, e := range in.Do.Swap {
		e = AtStep(e, path.Join(at.dir, at.name))
		done, err := a.opt.Hands(e)
		switch {
		case err != nil:
			a.err = cmp.Or(a.err, fmt.Errorf("swap %s: %w", in.ID, err))
			return
		case !done:
			continue
		case !fired:
			fired = true
			in.fired++
			a.emit(in, at, trace.Synthetic, trace.EffectSwap)
		}
		a.opt.Sink.Emit(trace.Event{Actor: trace.ActorFault, Edit: &e})
	}
}

// The longest that an operation is delayed. Threads that want to do nothing until this
// one has gone on would wait for it, and it for them.
const (
	naps = 200
	nap  = 50 * time.Microsecond
)

// delay lets others of the subject go on, if there are any.
func (a *Armed) delay(in *armedInjection, at place) error {
	start := a.passed
	for range naps {
		a.mu.Unlock()
		time.Sleep(nap)
		a.mu.Lock()
		if a.passed-start >= in.Do.Delay {
			break
		}
	}
	if a.passed > start {
		in.fired++
		a.emit(in, at, trace.Synthetic, trace.EffectDelay)
	}
	if a.crashed {
		return errCrashed
	}
	return nil
}

// glimpse puts what a reader finds now on record.
func (a *Armed) glimpse(in *armedInjection, at place) {
	in.fired++
	g := &trace.Glimpse{Injection: in.ID, After: fmt.Sprintf("%s of %s", at.op, path.Join(at.dir, at.name))}
	if a.opt.Look != nil {
		w, err := a.opt.Look()
		if err != nil {
			a.err = cmp.Or(a.err, fmt.Errorf("glimpse %s: %w", in.ID, err))
			return
		}
		g.World = w
	}
	a.opt.Sink.Emit(trace.Event{Actor: trace.ActorWorld, Glimpse: g})
}

func (a *Armed) emit(in *armedInjection, at place, by trace.Maker, effect string) {
	a.opt.Sink.Emit(trace.Event{Actor: trace.ActorFault, Fault: &trace.Fired{
		Injection: in.ID, By: by, Op: string(at.op), Class: string(at.class),
		Path: path.Join(at.dir, at.name), Effect: effect, After: in.When.After,
	}})
}
