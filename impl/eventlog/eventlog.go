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
	dir, err := openOrMake(state, "sessions")
	if err = errors.Join(err, state.Close()); err != nil {
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

// resume continues the numbering of what is there, past a torn last line.
func (l *Log) resume() error {
	old, err := l.Read(0)
	if err != nil {
		return err
	}
	l.torn = len(old) > 0 && old[len(old)-1] != '\n'
	for line := range bytes.Lines(old) {
		var e spec.LogEntry
		if json.Unmarshal(line, &e) != nil {
			continue // a reader's finding; the writer only must not reuse a number
		}
		if n, err := strconv.ParseInt(string(e.Seq), 10, 64); err == nil && n >= l.next {
			l.next = n + 1
		}
	}
	if l.torn {
		l.next++ // the torn record may have had the next number
	}
	return nil
}

// Append writes one event. The counter moves only when the record is whole.
func (l *Log) Append(typ string, data any) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	raw, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	line, err := json.Marshal(spec.LogEntry{
		ID: l.NewID(), Session: l.session, Seq: json.RawMessage(strconv.FormatInt(l.next, 10)),
		Time: l.Now().UTC().Format("2006-01-02T15:04:05.000000Z"), Type: typ, Data: raw,
	})
	if err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	if err := l.write(append(line, '\n')); err != nil {
		return fmt.Errorf("append to log: %w", err)
	}
	l.next++
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
	if n > 0 {
		l.torn = n < len(line)
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
