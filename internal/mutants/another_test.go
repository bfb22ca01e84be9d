package mutants_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"

	"github.com/fsbench/fsbench"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/vfs"
)

// TestAnotherHonestSubjectPasses holds the oracle to the contract: tools that work
// in other ways than the reference and say so break nothing.
func TestAnotherHonestSubjectPasses(t *testing.T) {
	for _, roles := range [][]sut.Role{{sut.RoleTools}, {sut.RoleTools, sut.RoleRegistry}} {
		d := &plainTools{roles: roles}
		broken, err := fsbench.Survey(t.Context(), fsbench.Memory(d), corpusAndSmoke(t, 1000), nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(broken) > 0 {
			t.Errorf("with the roles %v: %v", roles, broken)
		}
	}
}

// plainTools write in place and create parents. They share no code with the
// reference but the walk below the root.
type plainTools struct{ roles []sut.Role }

func (p *plainTools) Info(context.Context) (sut.Info, error) {
	return sut.Info{
		Name: "plain", Version: "1", Roles: p.roles, Features: []string{"read", "write", "delete"},
		Policies: spec.Policies{
			spec.PolicyLinks: spec.LinksRefuse, spec.PolicyDurability: spec.DurabilityNone,
			spec.PolicyHardlink: spec.HardlinkInPlace, spec.PolicyMode: spec.ModeUmask, spec.PolicyXattr: spec.XattrPreserve,
			spec.PolicyMissingParent: spec.ParentCreate, spec.PolicyParents: spec.ParentsKeep, spec.PolicyTempAfterKill: spec.TempNone,
		},
	}, nil
}

func (p *plainTools) Open(_ context.Context, env sut.Env) (sut.Session, error) {
	info, _ := p.Info(context.Background())
	for name, v := range env.Policies {
		if info.Policies[name] != v {
			return nil, sut.ErrPolicy
		}
	}
	root, err := env.FS.OpenRoot(env.Root)
	if err != nil {
		return nil, err
	}
	return &plainSession{env: env, root: root, asks: slices.Contains(p.roles, sut.RoleRegistry)}, nil
}

func (p *plainTools) Close() error { return nil }

type plainSession struct {
	env  sut.Env
	root vfs.Dir
	asks bool
}

func (s *plainSession) Close() error { return s.root.Close() }

func (s *plainSession) Log(context.Context, spec.SessionID) ([]spec.LogEntry, bool, error) {
	return nil, false, nil
}

func (s *plainSession) Confession(context.Context, spec.SessionID) (spec.Confession, bool, error) {
	return spec.Confession{}, false, nil
}

var (
	errUnsure   = errors.New("something may have happened")
	errNoFile   = errors.New("not a regular file")
	errNoMaking = errors.New("a parent cannot be made")
)

func (s *plainSession) Do(ctx context.Context, c spec.Call) (spec.Outcome, error) {
	out := spec.Outcome{Call: c.ID}
	var err error
	switch c.Kind {
	case spec.CallRead:
		out.Content, err = s.read(c.Path)
	case spec.CallWrite:
		err = s.write(ctx, c)
	case spec.CallDelete:
		err = s.remove(ctx, c)
	case spec.CallMove, spec.CallEdit, spec.CallView, spec.CallTool:
		err = fs.ErrInvalid
	}
	switch {
	case err == nil:
		out.Status = spec.StatusOK
	case errors.Is(err, errUnsure):
		return spec.Outcome{Call: c.ID}, nil
	default:
		out = spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: plainKind(err)}
	}
	return out, nil
}

// plainKind names an error as the table of the words does.
func plainKind(err error) spec.ErrKind {
	var walk *vfs.WalkError
	var errno syscall.Errno
	switch {
	case errors.Is(err, vfs.ErrEscapes):
		return spec.ErrEscapes
	case errors.Is(err, errNoFile):
		return spec.ErrUnsupported
	case errors.Is(err, fs.ErrInvalid):
		return spec.ErrInvalid
	case errors.As(err, &walk) && errors.Is(err, syscall.EACCES) && !errors.Is(err, errNoMaking):
		return spec.ErrInspect
	case errors.As(err, &errno):
		if k, known := plainKinds[errno]; known {
			return k
		}
	}
	return spec.ErrOther
}

var plainKinds = map[syscall.Errno]spec.ErrKind{
	syscall.EPERM: spec.ErrNotPermitted, syscall.EACCES: spec.ErrAccess, syscall.EROFS: spec.ErrReadOnly,
	syscall.ENOENT: spec.ErrNotFound, syscall.EEXIST: spec.ErrExists, syscall.ENOTDIR: spec.ErrNotDir,
	syscall.EISDIR: spec.ErrIsDir, syscall.ELOOP: spec.ErrLoop, syscall.ENOSPC: spec.ErrNoSpace, syscall.EDQUOT: spec.ErrQuota,
	syscall.EIO: spec.ErrIO, syscall.EXDEV: spec.ErrCrossDevice, syscall.EBUSY: spec.ErrBusy,
	syscall.ENAMETOOLONG: spec.ErrNameTooLong, syscall.EMFILE: spec.ErrTooManyFiles, syscall.EINTR: spec.ErrInterrupted,
	syscall.ENXIO: spec.ErrUnsupported,
}

func (s *plainSession) walk(p string, mkdir bool) (vfs.Place, error) {
	w := &vfs.Walker{Root: s.root, RootPath: s.env.Root}
	if mkdir {
		w.Make = func(d vfs.Dir, name, _ string) error {
			if err := d.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
				return errors.Join(errNoMaking, err)
			}
			return nil
		}
	}
	return w.Walk(p, false)
}

func (s *plainSession) read(p string) ([]byte, error) {
	place, err := s.walk(p, false)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	f, err := place.Dir.OpenFile(place.Name, vfs.ReadOnly|vfs.NonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode.IsRegular():
		return nil, errNoFile
	}
	return io.ReadAll(f)
}

func (s *plainSession) write(ctx context.Context, c spec.Call) error {
	place, err := s.walk(c.Path, true)
	if err != nil {
		var walk *vfs.WalkError
		if errors.Is(err, errNoMaking) && errors.As(err, &walk) && fs.ValidPath(walk.Rest) {
			return s.askWrite(ctx, c, s.env.Root+"/"+walk.At+"/"+walk.Rest, err)
		}
		return err
	}
	defer place.Close()
	flag := vfs.WriteOnly | vfs.NonBlock
	switch info, err := place.Dir.Lstat(place.Name); {
	case errors.Is(err, fs.ErrNotExist):
		flag |= vfs.Create | vfs.Exclusive
	case errors.Is(err, syscall.EACCES):
		return &vfs.WalkError{Err: err}
	case err != nil:
		return err
	case info.Mode&fs.ModeSymlink != 0:
		return syscall.ELOOP
	case info.Mode.IsDir():
		return syscall.EISDIR
	case !info.Mode.IsRegular():
		return errNoFile
	}
	f, err := place.Dir.OpenFile(place.Name, flag, 0o666)
	if err != nil {
		return s.askWrite(ctx, c, s.env.Root+"/"+place.Rel, err)
	}
	if err := errors.Join(fill(f, c.Content), f.Close()); err != nil {
		return errors.Join(errUnsure, err)
	}
	return nil
}

func fill(f vfs.File, content []byte) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	for len(content) > 0 {
		n, err := f.Write(content)
		content = content[n:]
		if err != nil && (n == 0 || !errors.Is(err, io.ErrShortWrite)) {
			return err
		}
	}
	return nil
}

func (s *plainSession) remove(ctx context.Context, c spec.Call) error {
	place, err := s.walk(c.Path, false)
	if err != nil {
		return err
	}
	defer place.Close()
	info, look := place.Dir.Lstat(place.Name)
	switch {
	case look != nil && !errors.Is(look, syscall.EACCES):
		return look
	case look == nil && info.Mode.IsDir():
		return syscall.EISDIR
	}
	err = place.Dir.Remove(place.Name)
	if err == nil {
		return nil
	}
	if _, now := place.Dir.Lstat(place.Name); look == nil && now != nil {
		return errors.Join(errUnsure, err)
	}
	gone := func() bool {
		_, err := place.Dir.Lstat(place.Name)
		return errors.Is(err, fs.ErrNotExist)
	}
	r := spec.DeleteRequest{Denial: denial(c, s.env.Root+"/"+place.Rel, err), ConfirmedFile: look == nil && info.Mode.IsRegular()}
	return s.ask(err, gone, func(h sut.Handler) (bool, error) { return h.Delete(ctx, r) },
		func(h sut.Handler) bool { return h.Delete != nil })
}

func (s *plainSession) askWrite(ctx context.Context, c spec.Call, dst string, err error) error {
	landed := func() bool {
		content, err := s.read(dst[len(s.env.Root)+1:])
		return err == nil && bytes.Equal(content, c.Content)
	}
	return s.ask(err, landed, func(h sut.Handler) (bool, error) {
		return h.Write(ctx, spec.WriteRequest{Denial: denial(c, dst, err), Content: slices.Clone(c.Content)})
	}, func(h sut.Handler) bool { return h.Write != nil })
}

func denial(c spec.Call, dst string, err error) spec.Denial {
	return spec.Denial{
		Call: c.ID, Session: c.Session, Tool: string(c.Kind), Gate: spec.GateOS, Target: c.Path, Dst: dst, Cause: plainKind(err),
	}
}

// ask returns nil once a handler has done what was refused, and otherwise what
// refused it.
func (s *plainSession) ask(refusal error, landed func() bool, one func(sut.Handler) (bool, error), concerns func(sut.Handler) bool) error {
	denials := []spec.ErrKind{spec.ErrAccess, spec.ErrNotPermitted, spec.ErrReadOnly}
	if !s.asks || !slices.Contains(denials, plainKind(refusal)) {
		return refusal
	}
	for _, h := range s.env.Handlers {
		if !concerns(h) {
			continue
		}
		yes, err := unpanicked(func() (bool, error) { return one(h) })
		switch {
		case err != nil:
			s.env.Diag("WARN", "a handler failed", nil)
		case yes && !landed():
			return errUnsure
		case yes:
			return nil
		}
	}
	return refusal
}

func unpanicked(f func() (bool, error)) (yes bool, err error) {
	defer func() {
		if recover() != nil {
			yes, err = false, errors.New("panic")
		}
	}()
	return f()
}
