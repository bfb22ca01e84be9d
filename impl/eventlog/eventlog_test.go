package eventlog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/impl/eventlog"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/memfs"
)

func TestCheckID(t *testing.T) {
	for _, tt := range []struct {
		name string
		id   string
		ok   bool
	}{
		{"word", "s1", true},
		{"one byte", "s", true},
		{"underscore first", "_a-b.c", true},
		{"letters of other scripts", "séance-日本", true},
		{"a mark after its letter", "e\u0301", true},
		{"as long as it may be", strings.Repeat("a", 235), true},
		{"too long", strings.Repeat("a", 236), false},
		{"too long in bytes", strings.Repeat("é", 118), false},
		{"empty", "", false},
		{"dot", ".", false},
		{"dots", "..", false},
		{"hidden", ".a", false},
		{"an option", "-a", false},
		{"a mark first", "\u0301e", false},
		{"upwards", "../../etc/x", false},
		{"a path", "a/b", false},
		{"backslash", `a\b`, false},
		{"NUL", "a\x00", false},
		{"line feed", "a\n", false},
		{"blank", "a b", false},
		{"a stream of Windows", "a:b", false},
		{"right-to-left override", "a\u202eb", false},
		{"not UTF-8", "a\xff", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := eventlog.CheckID(tt.id)
			if (err == nil) != tt.ok {
				t.Errorf("CheckID(%q) = %v, want ok=%v", tt.id, err, tt.ok)
			}
			if err != nil && len(tt.id) > 1 && strings.Contains(err.Error(), tt.id) {
				t.Errorf("the error repeats the id: %v", err)
			}
		})
	}
}

// port is a directory in which the writing to files can be made to go wrong.
type port struct {
	vfs.Dir
	write func(f vfs.File, p []byte) (int, error) // nil is File.Write
	close error                                   // of a file that was written to
	open  atomic.Int32                            // handles
}

func (p *port) OpenDir(name string) (vfs.Dir, error) {
	d, err := p.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	p.open.Add(1)
	return &sub{d, p}, nil
}

type sub struct {
	vfs.Dir
	p *port
}

func (s *sub) OpenDir(name string) (vfs.Dir, error) {
	d, err := s.Dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	s.p.open.Add(1)
	return &sub{d, s.p}, nil
}

func (s *sub) OpenFile(name string, flag vfs.Flag, perm fs.FileMode) (vfs.File, error) {
	f, err := s.Dir.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	s.p.open.Add(1)
	return &file{f, s.p, flag.Writes()}, nil
}

func (s *sub) Close() error {
	s.p.open.Add(-1)
	return s.Dir.Close()
}

type file struct {
	vfs.File
	p      *port
	writes bool
}

func (f *file) Write(p []byte) (int, error) {
	if f.p.write == nil {
		return f.File.Write(p)
	}
	return f.p.write(f.File, p)
}

func (f *file) Close() error {
	f.p.open.Add(-1)
	err := f.File.Close()
	if f.writes {
		err = errors.Join(err, f.p.close)
	}
	return err
}

// bench is a workspace with room for Logs.
type bench struct {
	t     *testing.T
	admin memfs.Admin
	port  *port
	ids   int
}

func newBench(t *testing.T) *bench {
	t.Helper()
	me := memfs.Cred{UID: 1000, GID: 1000}
	store := memfs.New(me)
	root, err := store.As(me).OpenRoot("/")
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, admin: store.Admin(), port: &port{Dir: root}}
}

func (b *bench) open(session spec.SessionID) *eventlog.Log {
	b.t.Helper()
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6000, time.FixedZone("", 3600)) }
	l, err := eventlog.Open(b.port, session, now, func() string { b.ids++; return fmt.Sprintf("id%d", b.ids) })
	if err != nil {
		b.t.Fatal(err)
	}
	return l
}

const logFile = spec.StateDir + "/sessions/s1.ndjson"

func (b *bench) text(p string) string {
	b.t.Helper()
	n, err := b.admin.Look(p)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(n.Data)
}

func (b *bench) append(l *eventlog.Log, data any) {
	b.t.Helper()
	if err := l.Append("note", data); err != nil {
		b.t.Fatal(err)
	}
}

// seqs returns the numbers of the records of s1 and, in the place of lines that
// are none, a question mark.
func (b *bench) seqs() string {
	var seqs []string
	for line := range strings.Lines(b.text(logFile)) {
		var e spec.LogEntry
		if json.Unmarshal([]byte(line), &e) != nil || !strings.HasSuffix(line, "\n") {
			seqs = append(seqs, "?")
			continue
		}
		seqs = append(seqs, string(e.Seq))
	}
	return strings.Join(seqs, " ")
}

func TestRecords(t *testing.T) {
	b := newBench(t)
	l := b.open("s1")
	b.append(l, map[string]string{"text": "line\nfeed"})
	b.append(l, nil)
	const want = `{"id":"id1","session_id":"s1","seq":0,"ts":"2026-01-02T02:04:05.000006Z","type":"note","data":{"text":"line\nfeed"}}
{"id":"id2","session_id":"s1","seq":1,"ts":"2026-01-02T02:04:05.000006Z","type":"note","data":null}
`
	if diff := cmp.Diff(want, b.text(logFile)); diff != "" {
		t.Errorf("the Log (-want +got):\n%s", diff)
	}
	for _, off := range []int{0, 5, len(want), len(want) + 3} {
		got, err := l.Read(int64(off))
		if err != nil || string(got) != want[min(off, len(want)):] {
			t.Errorf("Read(%d) = %q, %v", off, got, err)
		}
	}
	var modes []string
	b.admin.Walk(func(p string, n memfs.Node) { modes = append(modes, fmt.Sprintf("%s %04o", p, n.Bits)) })
	if diff := cmp.Diff([]string{".pixir 0700", ".pixir/sessions 0700", logFile + " 0600"}, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	if err := l.Close(); err != nil || b.port.open.Load() != 0 {
		t.Errorf("Close: %v, %d handles are open, want 0", err, b.port.open.Load())
	}
}

// TestUnwritableData: what cannot be encoded takes no number.
func TestUnwritableData(t *testing.T) {
	b := newBench(t)
	l := b.open("s1")
	if err := l.Append("note", func() {}); err == nil {
		t.Error("a function was appended")
	}
	b.append(l, 1)
	if got := b.seqs(); got != "0" {
		t.Errorf("numbers %q, want 0", got)
	}
}

func TestResume(t *testing.T) {
	rec := func(seq string) string { return `{"id":"x","session_id":"s1","seq":` + seq + `,"type":"note"}` + "\n" }
	for _, tt := range []struct {
		name string
		old  string
		want string // numbers afterwards, of two more records
	}{
		{"empty", "", "0 1"},
		{"in order", rec("0") + rec("1"), "0 1 2 3"},
		{"with a gap", rec("0") + rec("7"), "0 7 8 9"},
		{"out of order", rec("7") + rec("0"), "7 0 8 9"},
		{"not a number", rec("0") + rec(`"one"`), `0 "one" 2 3`},
		{"torn at the end", rec("0") + `{"id":"x","se`, "0 ? 2 3"},
		{"torn before its line feed", rec("0") + strings.TrimSuffix(rec("1"), "\n"), "0 1 2 3"},
		{"torn and ended long ago", rec("0") + `{"id` + "\n" + rec("2"), "0 ? 2 3 4"},
		{"torn twice", rec("0") + `{"id` + "\n" + `{"id"`, "0 ? ? 3 4"},
		{"an empty line", rec("0") + "\n", "0 ? 2 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			b.append(b.open("s1"), 0)
			if err := b.admin.Write(logFile, []byte(tt.old), memfs.Node{}); err != nil {
				t.Fatal(err)
			}
			l := b.open("s1")
			b.append(l, 1)
			b.append(l, 2)
			if got := b.seqs(); got != tt.want {
				t.Errorf("numbers %s, want %s, in\n%s", got, tt.want, b.text(logFile))
			}
			if got := b.text(logFile); !strings.HasPrefix(got, tt.old) {
				t.Errorf("what was there has changed:\n%s", got)
			}
		})
	}
}

// TestFailedAppend: whatever became of a record, the next has its own number and
// its own line.
func TestFailedAppend(t *testing.T) {
	eio := &fs.PathError{Op: "write", Path: "s1.ndjson", Err: syscall.EIO}
	upTo := func(n int, err error) func(vfs.File, []byte) (int, error) {
		return func(f vfs.File, p []byte) (int, error) {
			n, werr := f.Write(p[:min(n, len(p))])
			return n, errors.Join(werr, err)
		}
	}
	for _, tt := range []struct {
		name  string
		write func(f vfs.File, p []byte) (int, error)
		close error
		err   error
		want  string // numbers, of one record before and two after
	}{
		{"nothing written", upTo(0, eio), nil, syscall.EIO, "0 1 2"},
		{"cut short", upTo(10, io.ErrShortWrite), nil, io.ErrShortWrite, "0 ? 2 3"},
		{"cut short in silence", upTo(10, nil), nil, io.ErrShortWrite, "0 ? 2 3"},
		{"cut short and nothing is said of the count", func(f vfs.File, p []byte) (int, error) {
			_, err := f.Write(p[:10])
			return 0, errors.Join(err, eio)
		}, nil, syscall.EIO, "0 ? 2 3"},
		{"all but the line feed", func(f vfs.File, p []byte) (int, error) {
			n, err := f.Write(p[:len(p)-1])
			return n, errors.Join(err, eio)
		}, nil, syscall.EIO, "0 1 2 3"},
		{"written and said to have failed", upTo(1000, eio), nil, syscall.EIO, "0 1 2 3"},
		{"failed at close", nil, eio, syscall.EIO, "0 1 2 3"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			l := b.open("s1")
			b.append(l, 0)
			b.port.write, b.port.close = tt.write, tt.close
			if err := l.Append("note", 1); !errors.Is(err, tt.err) {
				t.Errorf("Append = %v, want %v", err, tt.err)
			}
			b.port.write, b.port.close = nil, nil
			b.append(l, 2)
			b.append(l, 3)
			if got := b.seqs(); got != tt.want {
				t.Errorf("numbers %s, want %s, in\n%s", got, tt.want, b.text(logFile))
			}
			if n := b.port.open.Load(); n != 1 {
				t.Errorf("%d handles are open, want 1", n)
			}
		})
	}
}

// TestStubsPileUp: a disk that stays full leaves stub after stub, each on its own
// line.
func TestStubsPileUp(t *testing.T) {
	b := newBench(t)
	l := b.open("s1")
	b.port.write = func(f vfs.File, p []byte) (int, error) {
		n, _ := f.Write(p[:10])
		return n, io.ErrShortWrite
	}
	for range 3 {
		if l.Append("note", 0) == nil {
			t.Error("a record was cut short, and there is no error")
		}
	}
	b.port.write = nil
	b.append(l, 1)
	if got, want := b.seqs(), "? ? ? 3"; got != want {
		t.Errorf("numbers %s, want %s, in\n%s", got, want, b.text(logFile))
	}
}

func TestTwoSessions(t *testing.T) {
	b := newBench(t)
	one, two := b.open("s1"), b.open("s2")
	for i := range 3 {
		b.append(one, i)
		b.append(two, i)
	}
	if got := b.seqs(); got != "0 1 2" {
		t.Errorf("numbers of s1 %s, want 0 1 2", got)
	}
	other := b.text(strings.Replace(logFile, "s1", "s2", 1))
	if n := strings.Count(other, `"session_id":"s2"`); n != 3 || strings.Contains(other, "s1") {
		t.Errorf("the Log of s2 is not its own:\n%s", other)
	}
}

func TestConcurrentAppend(t *testing.T) {
	b := newBench(t)
	l := b.open("s1")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 25 {
				if err := l.Append("note", 0); err != nil {
					t.Error(err)
				}
				if _, err := l.Read(0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	var want []string
	for i := range 200 {
		want = append(want, fmt.Sprint(i))
	}
	if diff := cmp.Diff(strings.Join(want, " "), b.seqs()); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}

// TestOpenRefuses: what stands in the place of the Log or of its folders is not
// followed and not waited for, and no handle is left.
func TestOpenRefuses(t *testing.T) {
	node := func(typ fs.FileMode) memfs.Node {
		return memfs.Node{Type: typ, Bits: 0o700, UID: 1000, GID: 1000, Link: "elsewhere"}
	}
	for _, tt := range []struct {
		name    string
		entries []string // a path and its type
		session spec.SessionID
		err     error
	}{
		{"a bad id", nil, "../x", nil},
		{"a file for the state folder", []string{".pixir f"}, "s1", syscall.ENOTDIR},
		{"a link for the state folder", []string{"elsewhere d", ".pixir l"}, "s1", syscall.ELOOP},
		{"a link for the folder of sessions", []string{".pixir d", ".pixir/elsewhere d", ".pixir/sessions l"}, "s1", syscall.ELOOP},
		{"a link for the Log", []string{".pixir d", ".pixir/sessions d", ".pixir/sessions/elsewhere f", logFile + " l"}, "s1", syscall.ELOOP},
		{"a directory for the Log", []string{".pixir d", ".pixir/sessions d", logFile + " d"}, "s1", syscall.EISDIR},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t)
			for _, e := range tt.entries {
				p, typ, _ := strings.Cut(e, " ")
				types := map[string]fs.FileMode{"f": 0, "d": fs.ModeDir, "l": fs.ModeSymlink}
				if err := b.admin.Make(p, node(types[typ])); err != nil {
					t.Fatal(err)
				}
			}
			l, err := eventlog.Open(b.port, tt.session, time.Now, func() string { return "" })
			if err == nil || tt.err != nil && !errors.Is(err, tt.err) {
				t.Errorf("Open = %v, %v, want %v", l, err, tt.err)
			}
			if n := b.port.open.Load(); n != 0 {
				t.Errorf("%d handles are open, want 0", n)
			}
		})
	}
}

// TestFIFO: a pipe in the place of the Log does not keep the host waiting, as
// memfs would say with EAGAIN.
func TestFIFO(t *testing.T) {
	b := newBench(t)
	l := b.open("s1")
	if err := b.admin.Make(logFile, memfs.Node{Type: fs.ModeNamedPipe, Bits: 0o600, UID: 1000}); err != nil {
		t.Fatal(err)
	}
	if err := l.Append("note", 0); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("Append = %v, want ENXIO", err)
	}
	if _, err := eventlog.Open(b.port, "s1", time.Now, func() string { return "" }); !errors.Is(err, syscall.ESPIPE) {
		t.Errorf("Open = %v, want ESPIPE", err)
	}
}

// TestNothingThereYet: a Log that was not begun reads as empty.
func TestNothingThereYet(t *testing.T) {
	b := newBench(t)
	if got, err := b.open("s1").Read(0); err != nil || !bytes.Equal(got, nil) {
		t.Errorf("Read = %q, %v, want nothing", got, err)
	}
}
