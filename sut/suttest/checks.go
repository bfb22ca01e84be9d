package suttest

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// contents are what transports lose: bytes that are not text, nothing at all,
// and more than one read returns.
var contents = []struct {
	name    string
	content []byte
}{
	{"every byte value", everyByte(256)},
	{"no bytes", []byte{}},
	{"1 MiB", everyByte(1 << 20)},
}

func everyByte(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// agent is the session in whose name the calls are made.
const agent spec.SessionID = "suttest-1"

// errHandler is what a handler that throws throws.
var errHandler = errors.New("a handler that throws")

func (t *contract) checkInfo() {
	if t.info.Name == "" {
		t.errorf("want a name")
	}
	for _, role := range t.info.Roles {
		if !slices.Contains(sut.Roles, role) {
			t.errorf("role %q is unknown", role)
		}
	}
	for name, value := range t.info.Policies {
		if !slices.Contains(spec.PolicyValues[name], value) {
			t.errorf("policy %s=%s is unknown", name, value)
		}
	}
	for _, name := range t.info.Settable {
		if spec.PolicyValues[name] == nil {
			t.errorf("policy %s is said to be settable and is unknown", name)
		}
	}
	t.sameInfo()
}

func (t *contract) sameInfo() {
	again, err := t.d.Info(t.ctx)
	switch {
	case err != nil:
		t.errorf("again: %w", err)
	case !reflect.DeepEqual(t.info, again):
		t.errorf("it was %+v and is now %+v", t.info, again)
	}
}

// kind returns a kind of call that the subject claims, read if it can.
func (t *contract) kind() spec.CallKind {
	for _, kind := range spec.CallKinds {
		if slices.Contains(t.info.Features, string(kind)) {
			return kind
		}
	}
	return spec.CallRead
}

func (t *contract) checkOutcome() {
	s, ok := t.open(sut.Env{})
	if !ok {
		return
	}
	defer s.end()
	o := s.do(t.ctx, spec.Call{Kind: t.kind(), Session: agent, Path: "no/such/file"})
	if o.Status == spec.StatusOK && t.kind() == spec.CallRead {
		t.errorf("read of a file that is not there: ok")
	}
	t.sameInfo()
}

// checkCancelled: not knowing is an observation, and costs the session nothing.
func (t *contract) checkCancelled() {
	s, ok := t.open(sut.Env{})
	if !ok {
		return
	}
	defer s.end()
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if o := s.do(ctx, spec.Call{Kind: t.kind(), Session: agent, Path: "f"}); o.Status != spec.StatusUnknown {
		t.errorf("a call whose context had ended: %v, want unknown", o.Status)
	}
	if o := s.do(t.ctx, spec.Call{Kind: t.kind(), Session: agent, Path: "no/such/file"}); o.Status == spec.StatusUnknown {
		t.errorf("the call after it: unknown, want an answer")
	}
}

// checkPolicy: a policy that cannot be had is a skip, which the runner knows by
// the error.
func (t *contract) checkPolicy() {
	for _, name := range slices.Sorted(maps.Keys(spec.PolicyValues)) {
		if slices.Contains(t.info.Settable, name) {
			continue
		}
		root, err := t.newRoot()
		if err != nil {
			t.errorf("make a root: %w", err)
			return
		}
		other := spec.PolicyValues[name][0]
		if other == t.info.Policies[name] {
			other = spec.PolicyValues[name][1]
		}
		s, err := t.d.Open(t.ctx, sut.Env{Root: root, Policies: spec.Policies{name: other}})
		if err == nil {
			t.errorf("opened with %s=%s, which it does not declare: %v", name, other, s.Close())
		} else if !errors.Is(err, sut.ErrPolicy) {
			t.errorf("open with %s=%s: want an error that wraps sut.ErrPolicy, got: %w", name, other, err)
		}
		return
	}
}

func (t *contract) checkLog() {
	s, ok := t.open(sut.Env{})
	if !ok {
		return
	}
	defer s.end()
	s.do(t.ctx, spec.Call{Kind: t.kind(), Session: agent, Path: "no/such/file"})
	first, exposed, err := s.Log(t.ctx, agent)
	if err != nil {
		t.errorf("%w", err)
	}
	if !exposed && len(first) > 0 {
		t.errorf("%d entries of a Log that is not exposed", len(first))
	}
	again, still, err := s.Log(t.ctx, agent)
	if err != nil || exposed != still || len(again) > 0 {
		t.errorf("again: %d entries, exposed %v, error %v; want none, %v, none", len(again), still, err, exposed)
	}
	c, ok, err := s.Confession(t.ctx, agent)
	switch {
	case err != nil:
		t.errorf("confession: %w", err)
	case ok && c.Denials == nil:
		t.errorf("confession: denials are null, want a list")
	case !ok && !reflect.DeepEqual(c, spec.Confession{}):
		t.errorf("confession: %+v, and there is none", c)
	}
}

// checkSessions: sessions do not disturb each other. An adaptor that can have
// one at a time says so with errors.ErrUnsupported.
func (t *contract) checkSessions() {
	one, ok := t.open(sut.Env{})
	if !ok {
		return
	}
	defer one.end()
	before := len(t.errs)
	two, ok := t.open(sut.Env{})
	if !ok {
		if errors.Is(t.errs[len(t.errs)-1], errors.ErrUnsupported) {
			t.errs = t.errs[:before]
		}
		return
	}
	calls := []spec.Call{
		{ID: t.call + 1, Kind: t.kind(), Session: agent, Path: "no/such/file"},
		{ID: t.call + 2, Kind: t.kind(), Session: agent, Path: "no/such/file"},
	}
	t.call += 2
	outcomes, errs := make([]spec.Outcome, 2), make([]error, 2)
	var both sync.WaitGroup
	for i, s := range []*session{one, two} {
		both.Go(func() { outcomes[i], errs[i] = s.Do(t.ctx, calls[i]) })
	}
	both.Wait()
	for i, c := range calls {
		if errs[i] != nil {
			t.errorf("at the same time as another session: %w", errs[i])
			continue
		}
		t.wellFormed(c, outcomes[i])
	}
	two.end()
	if o := one.do(t.ctx, spec.Call{Kind: t.kind(), Session: agent, Path: "no/such/file"}); o.Status == spec.StatusUnknown {
		t.errorf("after another session was closed: unknown, want an answer")
	}
}

// asked is what a handler was asked with.
type asked struct {
	handler int
	dst     string
	session spec.SessionID
	content []byte
}

// witnesses are handlers that note what they are asked and decline, or fail
// with err.
func witnesses(note func(asked), err error) []sut.Handler {
	write := func(i int) sut.Handler {
		return sut.Handler{Seam: spec.SeamWrite, Write: func(_ context.Context, r spec.WriteRequest) (bool, error) {
			note(asked{i, r.Dst, r.Session, append([]byte{}, r.Content...)})
			return false, err
		}}
	}
	del := sut.Handler{Seam: spec.SeamDelete, Delete: func(_ context.Context, r spec.DeleteRequest) (bool, error) {
		note(asked{2, r.Dst, r.Session, nil})
		return false, err
	}}
	return []sut.Handler{write(1), del, write(3)}
}

// consult makes a call that is denied, with witnesses as handlers.
func (t *contract) consult(c spec.Call, throw error) (got []asked, o spec.Outcome) {
	var mu sync.Mutex
	s, ok := t.open(sut.Env{Handlers: witnesses(func(a asked) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, a)
	}, throw)})
	if !ok {
		return nil, o
	}
	defer s.end()
	c.Session, c.Path = agent, DeniedFile
	o = s.do(t.ctx, c)
	mu.Lock()
	defer mu.Unlock()
	if len(got) == 0 {
		t.errorf("no handler was asked: may the subject change %s after all?", DeniedFile)
	}
	for _, a := range got {
		if !under(s.root, a.dst) {
			t.errorf("handler %d was asked for %q, want an absolute path under the root", a.handler, a.dst)
		}
		if a.session != agent {
			t.errorf("handler %d was asked for session %q, want %q", a.handler, a.session, agent)
		}
	}
	return got, o
}

func (t *contract) checkHandlers(content []byte) {
	got, o := t.consult(spec.Call{Kind: spec.CallWrite, Content: content}, nil)
	var order []int
	for _, a := range got {
		order = append(order, a.handler)
		if !bytes.Equal(a.content, content) {
			t.errorf("handler %d was given %d bytes, want the %d of the call, the same ones", a.handler, len(a.content), len(content))
		}
	}
	if len(got) > 0 && !slices.Equal(order, []int{1, 3}) {
		t.errorf("handlers were asked in the order %v, want 1 and 3: those of the write seam", order)
	}
	if o.Status == spec.StatusOK {
		t.errorf("every handler declined, and the outcome is ok")
	}
}

func (t *contract) checkDelete() {
	got, _ := t.consult(spec.Call{Kind: spec.CallDelete}, nil)
	for _, a := range got {
		if a.handler != 2 {
			t.errorf("handler %d was asked, want 2: it alone is of the delete seam", a.handler)
		}
	}
}

// checkThrows: a handler's failure is told to the subject, not to the bench.
func (t *contract) checkThrows() {
	_, o := t.consult(spec.Call{Kind: spec.CallWrite, Content: []byte("x")}, errHandler)
	if o.Status == spec.StatusOK {
		t.errorf("every handler failed, and the outcome is ok")
	}
}

// checkGivenUp: a call whose context ends while a handler is busy is unknown at
// once, and the handler is not waited for.
func (t *contract) checkGivenUp() {
	busy, release := make(chan struct{}, 1), make(chan struct{})
	h := sut.Handler{Seam: spec.SeamWrite, Write: func(context.Context, spec.WriteRequest) (bool, error) {
		busy <- struct{}{}
		<-release
		return false, nil
	}}
	s, ok := t.open(sut.Env{Handlers: []sut.Handler{h}})
	if !ok {
		return
	}
	defer s.end()
	defer close(release)
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	returned := make(chan spec.Outcome, 1)
	go func() {
		returned <- s.do(ctx, spec.Call{Kind: spec.CallWrite, Session: agent, Path: DeniedFile, Content: []byte("x")})
	}()
	select {
	case <-busy:
	case o := <-returned:
		t.errorf("no handler was asked, and the outcome is %v", o.Status)
		return
	}
	cancel()
	patience := time.NewTimer(Patience)
	defer patience.Stop()
	select {
	case o := <-returned:
		if o.Status != spec.StatusUnknown {
			t.errorf("%v, want unknown", o.Status)
		}
	case <-patience.C:
		t.errorf("the call went on for %v after its context had ended", Patience)
	}
}

// checkClose must be the last.
func (t *contract) checkClose() {
	for _, which := range []string{"first", "second"} {
		if err := t.d.Close(); err != nil {
			t.errorf("%s: %w", which, err)
		}
	}
	root, err := t.newRoot()
	if err != nil {
		t.errorf("make a root: %w", err)
		return
	}
	if s, err := t.d.Open(t.ctx, sut.Env{Root: root}); err == nil {
		t.errorf("a session was opened after it: %v", s.Close())
	}
}
