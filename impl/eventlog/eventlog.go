// Package eventlog is the append-only Log of a session: one JSON object a line,
// under the host's state folder in the workspace.
//
// A record is one write of one whole line, so that two records never share a
// line and half a record never looks like one. The Log does not know what its
// events mean, and makes none up.
package eventlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Log is the Log of one session. It is safe for concurrent use.
type Log struct {
	// Now and NewID stamp the records.
	Now   func() time.Time
	NewID func() string

	mu      sync.Mutex
	dir     vfs.Dir
	name    string
	session string
	next    int64 // sequence number
	torn    bool  // the file ends in the middle of a line
	unsure  bool  // a write failed: what the file now ends with is not known
}

// Open opens or makes the Log of a session below root and finds where it ends.
func Open(root vfs.Dir, session spec.SessionID, now func() time.Time, newID func() string) (*Log, error) {
	if err := CheckID(string(session)); err != nil {
		return nil, err
	}
	state, err := openOrMake(root, spec.StateDir)
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	defer state.Close()
	dir, err := openOrMake(state, "sessions")
	if err != nil {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{Now: now, NewID: newID, dir: dir, name: string(session) + ".ndjson", session: string(session)}
	if err := l.resume(); err != nil {
		return nil, errors.Join(fmt.Errorf("open log: %w", err), dir.Close())
	}
	return l, nil
}

func openOrMake(d vfs.Dir, name string) (vfs.Dir, error) {
	sub, err := d.OpenDir(name)
	if !errors.Is(err, syscall.ENOENT) {
		return sub, err
	}
	if err := d.Mkdir(name, 0o700); err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, err
	}
	return d.OpenDir(name)
}

// resume finds out where the Log ends, and continues its numbering. Stubs of
// records, cut short by a crash or a full disk, count as records: the number that
// one was to have is not given again.
func (l *Log) resume() error {
	old, err := l.Read(0)
	if err != nil {
		return err
	}
	var next int64
	for line := range bytes.Lines(old) {
		var e spec.LogEntry
		n, err := int64(0), json.Unmarshal(line, &e)
		if err == nil {
			n, err = strconv.ParseInt(string(e.Seq), 10, 64)
		}
		switch {
		case err != nil:
			next++
		case n >= next:
			next = n + 1
		}
	}
	l.next = max(l.next, next)
	l.torn = len(old) > 0 && old[len(old)-1] != '\n'
	l.unsure = false
	return nil
}

// Append writes one event. If it fails, the record may be there all the same,
// whole or in part; the one after it has a number and a line of its own in any
// case.
func (l *Log) Append(typ string, data any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.append(typ, data); err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	return nil
}

func (l *Log) append(typ string, data any) error {
	raw, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if l.unsure {
		if err := l.resume(); err != nil {
			return err
		}
	}
	line, err := json.Marshal(spec.LogEntry{
		ID: l.NewID(), Session: l.session, Seq: json.RawMessage(strconv.FormatInt(l.next, 10)),
		Time: l.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), Type: typ, Data: raw,
	})
	if err != nil {
		return err
	}
	if err := l.write(append(line, '\n')); err != nil {
		l.unsure = true
		return err
	}
	l.next++
	l.torn = false
	return nil
}

// write ends a torn line first, in the same write: a record must not be glued to
// the stub of another.
func (l *Log) write(line []byte) (err error) {
	f, err := l.dir.OpenFile(l.name, vfs.WriteOnly|vfs.Create|vfs.Append|vfs.NonBlock, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if l.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	return err
}

// Read returns the bytes of the Log from off on, as they stand on disk.
func (l *Log) Read(off int64) (b []byte, err error) {
	f, err := l.dir.OpenFile(l.name, vfs.ReadOnly|vfs.NonBlock, 0)
	if errors.Is(err, syscall.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(off, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(f)
}

// Close releases the folder.
func (l *Log) Close() error { return l.dir.Close() }
