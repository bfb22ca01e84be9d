// Package inproc drives the reference implementation in this process: the real
// tools, registry, host and Log, over whatever port the sandbox gives.
//
// A Variant puts other parts in the place of the reference's own. The package
// does not know which variants exist or why.
package inproc

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsbench/fsbench/impl/fallback"
	"github.com/fsbench/fsbench/impl/host"
	"github.com/fsbench/fsbench/impl/tools"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/vfs"
)

// Version of the reference implementation.
const Version = "0.1.0"

// Do serves one call.
type Do func(ctx context.Context, c spec.Call) spec.Outcome

// Variant replaces parts of the reference. Nil fields leave a part as it is.
type Variant struct {
	Name     string // of the subject; empty is the reference
	FS       func(base vfs.FS, root string) vfs.FS
	Handlers func([]sut.Handler) []sut.Handler
	Seam     func(ref tools.Seam, env sut.Env) tools.Seam
	Steps    func(*tools.Steps)
	Logger   *slog.Logger // of the registry
	Log      func(host.Logger) host.Logger
	Do       func(next Do, env sut.Env) Do

	// Each returns the parts of one session, where they have a state of their own;
	// the others are ignored then.
	Each func() Variant
}

// Driver is the reference, or a variant of it. The zero Driver is ready to use.
type Driver struct {
	Variant Variant

	// Live gives sessions the real clock and unpredictable names, as they have
	// outside the bench; without it, two runs of one scenario are the same.
	Live bool

	closed atomic.Bool
}

var _ sut.Driver = (*Driver)(nil)

// Info implements sut.Driver.
func (d *Driver) Info(context.Context) (sut.Info, error) {
	info := Reference()
	if d.Variant.Name != "" {
		info.Name = d.Variant.Name
	}
	return info, nil
}

// Reference identifies the reference implementation and what it claims.
func Reference() sut.Info {
	policies := spec.Policies{}
	for name, values := range spec.PolicyValues {
		policies[name] = values[0]
	}
	return sut.Info{
		Name: "reference", Version: Version,
		Roles:    []sut.Role{sut.RoleTools, sut.RoleRegistry, sut.RoleHost},
		Features: []string{"read", "write", "delete", "move", "expect_version", "exclusive", "log"},
		Policies: policies,
		Settable: []string{spec.PolicyLinks},
	}
}

// Close implements sut.Driver.
func (d *Driver) Close() error {
	d.closed.Store(true)
	return nil
}

// errClosed is of a Driver or a Session that is used after its end.
var errClosed = errors.New("inproc: closed")

// errNoPort is of a sandbox that a subject in this process cannot be put into.
var errNoPort = errors.New("inproc: want a file system")

// Open implements sut.Driver.
func (d *Driver) Open(_ context.Context, env sut.Env) (sut.Session, error) {
	switch {
	case d.closed.Load():
		return nil, errClosed
	case env.FS == nil:
		return nil, errNoPort
	}
	policies, err := choose(Reference(), env.Policies)
	if err != nil {
		return nil, err
	}
	v := d.Variant
	if v.Each != nil {
		v = v.Each()
	}
	fsys := env.FS
	if v.FS != nil {
		fsys = v.FS(fsys, env.Root)
	}
	root, err := fsys.OpenRoot(env.Root)
	if err != nil {
		return nil, fmt.Errorf("open root: %w", err)
	}
	s := &session{root: root, diag: env.Diag, offsets: map[spec.SessionID]int64{}}
	t := &tools.Tools{
		Root: root, RootPath: env.Root, Caps: fsys.Caps(), Follow: policies[spec.PolicyLinks] == spec.LinksFollow,
		Seam: v.seam(env), Steps: tools.Default(),
	}
	cfg := host.Config{Root: root, Tools: t, Now: time.Now, NewID: randomID, WrapLog: v.Log}
	if !d.Live {
		steady(t, &cfg)
	}
	if v.Steps != nil {
		v.Steps(&t.Steps)
	}
	s.host = host.New(cfg)
	s.do = s.host.Do
	if v.Do != nil {
		s.do = v.Do(s.do, env)
	}
	return s, nil
}

// choose returns the policies of a session that was asked for some.
func choose(info sut.Info, asked spec.Policies) (spec.Policies, error) {
	policies := maps.Clone(info.Policies)
	for name, value := range asked {
		settable := slices.Contains(info.Settable, name) && slices.Contains(spec.PolicyValues[name], value)
		if policies[name] != value && !settable {
			return nil, fmt.Errorf("%w: %s=%s", sut.ErrPolicy, name, value)
		}
		policies[name] = value
	}
	return policies, nil
}

// steady replaces clock and randomness by counters.
func steady(t *tools.Tools, cfg *host.Config) {
	var names, ids, ticks atomic.Int64
	t.Steps.TempName = func(string) string {
		return fmt.Sprintf("%s%d%s", tools.TempPrefix, names.Add(1), tools.TempSuffix)
	}
	cfg.NewID = func() string { return fmt.Sprintf("%016x", ids.Add(1)) }
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	cfg.Now = func() time.Time { return start.Add(time.Duration(ticks.Add(1)) * time.Microsecond) }
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return fmt.Sprintf("%x", b)
}

func (v Variant) seam(env sut.Env) tools.Seam {
	logger := v.Logger
	if logger == nil {
		logger = slog.New(&diagHandler{diag: env.Diag})
	}
	reg := &fallback.Registry{Logger: logger}
	handlers := env.Handlers
	if v.Handlers != nil {
		handlers = v.Handlers(handlers)
	}
	for _, h := range handlers {
		if h.Write != nil {
			reg.HandleWrite(h.Write)
		}
		if h.Delete != nil {
			reg.HandleDelete(h.Delete)
		}
	}
	if v.Seam != nil {
		return v.Seam(reg, env)
	}
	return reg
}

// session is one workspace.
type session struct {
	root   vfs.Dir
	host   *host.Host
	do     Do
	diag   func(level, msg string, attrs map[string]string)
	closed atomic.Bool

	mu      sync.Mutex
	offsets map[spec.SessionID]int64 // of the Log, bytes already handed out
}

var _ sut.Session = (*session)(nil)

// Do implements sut.Session.
func (s *session) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	switch {
	case s.closed.Load():
		return spec.Outcome{}, errClosed
	case ctx.Err() != nil:
		return spec.Outcome{Call: c.ID, Detail: "not started: " + ctx.Err().Error()}, nil //nolint:nilerr // not knowing is an observation
	}
	return s.do(ctx, c), nil
}

// Log implements sut.Session. A line that is not finished is left for the next
// time, and the stub of a record that a crash cut short is left out. A Log that the
// subject can no longer read, since it went by a name that is another's now, is the
// subject's loss and no failure of the bench.
func (s *session) Log(_ context.Context, id spec.SessionID) ([]spec.LogEntry, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	raw, err := s.host.ReadLog(id, s.offsets[id])
	if err != nil {
		s.report("the Log cannot be read", err)
		return nil, false, nil
	}
	raw = raw[:bytes.LastIndexByte(raw, '\n')+1]
	s.offsets[id] += int64(len(raw))
	var entries []spec.LogEntry
	for line := range bytes.Lines(raw) {
		var e spec.LogEntry
		if json.Unmarshal(line, &e) == nil {
			entries = append(entries, e)
		}
	}
	return entries, true, nil
}

// Confession implements sut.Session.
func (*session) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	return spec.Confession{}, false, nil
}

// Close implements sut.Session.
func (s *session) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	if err := s.host.Close(); err != nil {
		s.report("the Log cannot be ended", err)
	}
	return s.root.Close()
}

func (s *session) report(msg string, err error) {
	if s.diag != nil {
		s.diag("ERROR", msg, map[string]string{"error": err.Error()})
	}
}

// diagHandler passes warnings on as the trace knows them.
type diagHandler struct {
	diag  func(level, msg string, attrs map[string]string)
	attrs []slog.Attr
}

func (h *diagHandler) Enabled(_ context.Context, l slog.Level) bool {
	return h.diag != nil && l >= slog.LevelWarn
}

func (h *diagHandler) Handle(_ context.Context, r slog.Record) error {
	attrs := map[string]string{}
	add := func(a slog.Attr) bool {
		attrs[a.Key] = a.Value.String()
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.diag(r.Level.String(), r.Message, attrs)
	return nil
}

func (h *diagHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &diagHandler{diag: h.diag, attrs: append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup drops the group: the trace knows one level of names.
func (h *diagHandler) WithGroup(string) slog.Handler { return h }
