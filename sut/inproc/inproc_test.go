package inproc_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/host"
	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
	"github.com/fsbench/fsbench/sut/suttest"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

var subject = memfs.Cred{UID: 1000, GID: 1000, Umask: 0o022}

// place is a tree in memory with as many roots as are asked for.
type place struct {
	t     *testing.T
	store *memfs.Store
	roots int
}

func newPlace(t *testing.T) *place {
	t.Helper()
	return &place{t: t, store: memfs.New(memfs.Cred{})}
}

func (p *place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// root makes a root with the file "f", and suttest.DeniedFile in a closed folder.
func (p *place) root() (string, error) {
	p.roots++
	name := fmt.Sprintf("root%d", p.roots)
	admin := p.store.Admin()
	dir := memfs.Node{Type: fs.ModeDir, Bits: 0o755, UID: subject.UID, GID: subject.GID}
	closed := dir
	closed.Bits = 0o555
	file := memfs.Node{Bits: 0o600, UID: subject.UID, GID: subject.GID, Data: []byte("old")}
	denied := file
	denied.Bits = 0o400
	return "/" + name, errors.Join(admin.Make(name, dir), admin.Make(name+"/f", file),
		admin.Make(name+"/denied", closed), admin.Make(name+"/"+suttest.DeniedFile, denied))
}

func (p *place) open(d *inproc.Driver, env sut.Env) sut.Session {
	p.t.Helper()
	var err error
	env.Root, err = p.root()
	p.must(err)
	env.FS = p.store.As(subject)
	s, err := d.Open(p.t.Context(), env)
	p.must(err)
	p.t.Cleanup(func() { _ = s.Close() })
	return s
}

func (p *place) do(s sut.Session, c spec.Call) spec.Outcome {
	p.t.Helper()
	if c.Session == "" {
		c.Session = "s1"
	}
	out, err := s.Do(p.t.Context(), c)
	p.must(err)
	return out
}

// onPort gives a Driver the port that the contract does not know of.
type onPort struct {
	*inproc.Driver
	port vfs.FS
}

func (d onPort) Open(ctx context.Context, env sut.Env) (sut.Session, error) {
	env.FS = d.port
	return d.Driver.Open(ctx, env)
}

func TestContract(t *testing.T) {
	p := newPlace(t)
	if err := suttest.TestDriver(t.Context(), onPort{&inproc.Driver{}, p.store.As(subject)}, p.root); err != nil {
		t.Error(err)
	}
}

func TestInfo(t *testing.T) {
	for name, want := range map[string]string{"": "reference", "some-variant": "some-variant"} {
		d := &inproc.Driver{Variant: inproc.Variant{Name: name}}
		info, err := d.Info(t.Context())
		if err != nil || info.Name != want {
			t.Errorf("variant %q is called %q (%v), want %q", name, info.Name, err, want)
		}
		ref := inproc.Reference()
		ref.Name = want
		if diff := cmp.Diff(ref, info); diff != "" {
			t.Errorf("variant %q claims other than the reference (-want +got):\n%s", name, diff)
		}
	}
	ref := inproc.Reference()
	for name, values := range spec.PolicyValues {
		if ref.Policies[name] != values[0] {
			t.Errorf("policy %s is %q, want the first value, %q", name, ref.Policies[name], values[0])
		}
	}
	for _, f := range ref.Features {
		if !slices.Contains(spec.CallKinds, spec.CallKind(f)) {
			continue
		}
		p := newPlace(t)
		out := p.do(p.open(&inproc.Driver{}, sut.Env{}), spec.Call{ID: 1, Kind: spec.CallKind(f), Path: "f", To: "g"})
		if out.Status != spec.StatusOK {
			t.Errorf("%s is claimed, and the answer is %+v", f, out)
		}
	}
	ref.Policies[spec.PolicyLinks] = "changed"
	if inproc.Reference().Policies[spec.PolicyLinks] != spec.LinksRefuse {
		t.Error("a caller has changed what the reference claims")
	}
}

func TestPolicies(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ask    spec.Policies
		err    error
		follow bool
	}{
		{"none asked for", nil, nil, false},
		{"what it does", spec.Policies{spec.PolicyLinks: spec.LinksRefuse, spec.PolicyMode: "0600"}, nil, false},
		{"what can be set", spec.Policies{spec.PolicyLinks: spec.LinksFollow}, nil, true},
		{"a value that there is not", spec.Policies{spec.PolicyLinks: "sometimes"}, sut.ErrPolicy, false},
		{"what it does not do", spec.Policies{spec.PolicyMode: "umask"}, sut.ErrPolicy, false},
		{"a policy that there is not", spec.Policies{"mood": "good"}, sut.ErrPolicy, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t)
			root, err := p.root()
			p.must(err)
			p.must(p.store.Admin().Make(root[1:]+"/l", memfs.Node{Type: fs.ModeSymlink, Link: "f", Bits: 0o777}))
			d := &inproc.Driver{}
			s, err := d.Open(t.Context(), sut.Env{Root: root, FS: p.store.As(subject), Policies: tt.ask})
			if !errors.Is(err, tt.err) {
				t.Fatalf("Open = %v, want %v", err, tt.err)
			}
			if err != nil {
				return
			}
			out := p.do(s, spec.Call{ID: 1, Kind: spec.CallRead, Path: "l"})
			if follow := out.Status == spec.StatusOK; follow != tt.follow {
				t.Errorf("a link was followed: %v, want %v", follow, tt.follow)
			}
		})
	}
}

func TestOpenNeedsAPlace(t *testing.T) {
	p := newPlace(t)
	d := &inproc.Driver{}
	for name, env := range map[string]sut.Env{
		"no port": {Root: "/"}, "no such root": {Root: "/nowhere", FS: p.store.As(subject)},
	} {
		if s, err := d.Open(t.Context(), env); err == nil {
			t.Errorf("%s: opened: %v", name, s.Close())
		}
	}
}

func TestOutsideTheLifeOfASession(t *testing.T) {
	p := newPlace(t)
	s := p.open(&inproc.Driver{}, sut.Env{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	write := spec.Call{ID: 3, Kind: spec.CallWrite, Path: "f", Content: spec.Content("new")}
	out, err := s.Do(ctx, write)
	if err != nil || out.Status != spec.StatusUnknown || out.Call != 3 {
		t.Errorf("a call whose context had ended: %+v, %v, want unknown", out, err)
	}
	p.must(s.Close())
	if out, err := s.Do(t.Context(), write); err == nil || !cmp.Equal(out, spec.Outcome{}) {
		t.Errorf("a call after Close: %+v, %v, want an error", out, err)
	}
	if n, err := p.store.Admin().Look("root1/f"); err != nil || string(n.Data) != "old" {
		t.Errorf("a call that was not made wrote %q (%v)", n.Data, err)
	}
}

// TestDiagnostics: a handler that fails is told of while the session lasts.
func TestDiagnostics(t *testing.T) {
	var got []string
	env := sut.Env{
		Diag: func(level, msg string, attrs map[string]string) {
			got = append(got, fmt.Sprint(level, " ", msg, " ", attrs))
		},
		Handlers: []sut.Handler{
			{Seam: spec.SeamWrite, Write: func(context.Context, spec.WriteRequest) (bool, error) { return false, errors.New("no channel") }},
			{Seam: spec.SeamWrite, Write: func(context.Context, spec.WriteRequest) (bool, error) { return false, nil }},
		},
	}
	p := newPlace(t)
	s := p.open(&inproc.Driver{}, env)
	p.do(s, spec.Call{ID: 1, Kind: spec.CallWrite, Path: suttest.DeniedFile, Content: spec.Content("x")})
	want := []string{"WARN fallback handler failed; asking the next map[dst:/root1/denied/file error:no channel handler:1]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}

	env.Diag = nil // nobody listens
	p.do(p.open(&inproc.Driver{}, env), spec.Call{ID: 1, Kind: spec.CallWrite, Path: suttest.DeniedFile, Content: spec.Content("x")})
}

// TestGivenUp: a handler that is at work when its call is given up is told of, and
// may fail when nobody may be told any more.
func TestGivenUp(t *testing.T) {
	var told []string
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, done := make(chan struct{}), make(chan struct{})
	s := p.open(&inproc.Driver{}, sut.Env{
		Diag: func(_, msg string, _ map[string]string) { told = append(told, msg) },
		Handlers: []sut.Handler{{Seam: spec.SeamWrite, Write: func(context.Context, spec.WriteRequest) (bool, error) {
			defer close(done)
			cancel()
			<-release
			return false, errors.New("too late")
		}}},
	})
	out, err := s.Do(ctx, spec.Call{ID: 1, Session: "s1", Kind: spec.CallWrite, Path: suttest.DeniedFile, Content: spec.Content("x")})
	if err != nil || out.Status != spec.StatusUnknown {
		t.Errorf("got %+v, %v, want unknown", out, err)
	}
	p.must(s.Close())
	close(release)
	<-done
	if diff := cmp.Diff([]string{"fallback handler left at work"}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// scenario is a small run: what is asked of a session, and all that can be seen of
// it, the names of private files included.
func scenario(t *testing.T, d *inproc.Driver) string {
	t.Helper()
	var seen []string
	d.Variant.Steps = func(s *tools.Steps) {
		temp := s.TempName
		s.TempName = func(name string) string {
			made := temp(name)
			seen = append(seen, made)
			return made
		}
	}
	p := newPlace(t)
	s := p.open(d, sut.Env{})
	for i, c := range []spec.Call{
		{Kind: spec.CallWrite, Path: "f", Content: spec.Content("new")},
		{Kind: spec.CallWrite, Path: "f", Content: spec.Content("newer")},
		{Kind: spec.CallRead, Path: "no", Session: "s2"},
		{Kind: spec.CallDelete, Path: suttest.DeniedFile},
	} {
		c.ID = spec.CallID(i + 1)
		out, err := json.Marshal(p.do(s, c))
		p.must(err)
		seen = append(seen, string(out))
	}
	p.must(s.Close())
	p.store.Admin().Walk(func(path string, n memfs.Node) {
		seen = append(seen, fmt.Sprintf("%s %s", path, n.Data))
	})
	return strings.Join(seen, "\n")
}

// TestSteady: two runs of one scenario are the same, unless they are to be live.
func TestSteady(t *testing.T) {
	one := scenario(t, &inproc.Driver{})
	for range 5 {
		if diff := cmp.Diff(one, scenario(t, &inproc.Driver{})); diff != "" {
			t.Fatalf("two runs differ (-one +other):\n%s", diff)
		}
	}
	if !strings.Contains(one, ".fsbench-1.tmp") || !strings.Contains(one, `"id":"0000000000000001"`) {
		t.Errorf("names and ids are not counted:\n%s", one)
	}
	a, b := scenario(t, &inproc.Driver{Live: true}), scenario(t, &inproc.Driver{Live: true})
	if a == b || strings.Contains(a, ".fsbench-1.tmp") {
		t.Errorf("two live runs are the same:\n%s", a)
	}
}

func types(entries []spec.LogEntry) string {
	var words []string
	for _, e := range entries {
		words = append(words, e.Type)
	}
	return strings.Join(words, " ")
}

// TestLog: each entry is given once, of each session its own, and what is not
// there yet is given when it is.
func TestLog(t *testing.T) {
	p := newPlace(t)
	s := p.open(&inproc.Driver{}, sut.Env{})
	log := func(id spec.SessionID) string {
		t.Helper()
		entries, ok, err := s.Log(t.Context(), id)
		p.must(err)
		if !ok {
			t.Error("the Log is not exposed")
		}
		return types(entries)
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	check("before the first call", log("s1"), "")
	p.do(s, spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
	check("after it", log("s1"), "user_message tool_call tool_result")
	check("again", log("s1"), "")
	check("of another session", log("s2"), "")
	p.do(s, spec.Call{ID: 2, Kind: spec.CallRead, Path: "f", Session: "s2"})
	p.do(s, spec.Call{ID: 3, Kind: spec.CallRead, Path: "f"})
	check("of another session, later", log("s2"), "user_message tool_call tool_result")
	check("after the next", log("s1"), "tool_call tool_result")
	check("outside any session", log(""), "")
	check("of what is no session", log("../x"), "")

	file := "root1/" + spec.StateDir + "/sessions/s1.ndjson"
	n, err := p.store.Admin().Look(file)
	p.must(err)
	add := func(text string) {
		n.Data = append(slices.Clone(n.Data), text...)
		p.must(p.store.Admin().Write(file, n.Data, memfs.Node{}))
	}
	add(`{"id":"x","type":"half`)
	check("with half a line", log("s1"), "")
	add(` a line"}` + "\n" + `{"id":"x","ty` + "\n" + `{"id":"x","type":"whole"}` + "\n")
	check("when it is whole, and a stub after it", log("s1"), "half a line whole")

	c, ok, err := s.Confession(t.Context(), "s1")
	if ok || err != nil || !cmp.Equal(c, spec.Confession{}) {
		t.Errorf("Confession = %+v, %v, %v, want none", c, ok, err)
	}
}

// TestVariant: every part that a variant has takes the place of the reference's.
func TestVariant(t *testing.T) {
	var used []string
	note := func(part string) { used = append(used, part) }
	each := inproc.Variant{
		FS: func(base vfs.FS, root string) vfs.FS { note("port of " + root); return base },
		Handlers: func(h []sut.Handler) []sut.Handler {
			note(fmt.Sprintf("%d handlers", len(h)))
			return h
		},
		Seam:  func(ref tools.Seam, _ sut.Env) tools.Seam { note("seam"); return ref },
		Steps: func(*tools.Steps) { note("steps") },
		Log:   func(l host.Logger) host.Logger { note("log"); return l },
		Do: func(next inproc.Do, _ sut.Env) inproc.Do {
			return func(ctx context.Context, c spec.Call) spec.Outcome {
				note("call")
				return next(ctx, c)
			}
		},
	}
	for _, v := range []inproc.Variant{each, {Each: func() inproc.Variant { note("each"); return each }}} {
		used = nil
		p := newPlace(t)
		s := p.open(&inproc.Driver{Variant: v}, sut.Env{Handlers: make([]sut.Handler, 2)})
		p.do(s, spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
		want := []string{"port of /root1", "2 handlers", "seam", "steps", "call", "log"}
		if v.Each != nil {
			want = append([]string{"each"}, want...)
		}
		if diff := cmp.Diff(want, used); diff != "" {
			t.Errorf("parts (-want +got):\n%s", diff)
		}
	}
}
