package stdio

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/fsbench/fsbench/internal/process"
)

const (
	maxTail  = 64 << 10 // bytes of standard error that are kept
	maxEntry = 64 << 10 // bytes of a line that may be a diagnostic
	maxDiags = 1000     // diagnostics that a session may leave in its trace
)

// diagnostics takes what a session's children write to standard error, keeps
// its end, and passes on the log lines of level warn and above: JSON as slog
// writes it. Nothing there is judged, so nothing there is a fault; but without
// it nobody would see that a handler threw.
type diagnostics struct {
	to   func(level, msg string, attrs map[string]string) // may be nil
	tail process.Tail

	mu      sync.Mutex
	line    []byte
	skip    bool // the rest of a line that is too long
	reports int
}

// Write implements io.Writer.
func (d *diagnostics) Write(b []byte) (int, error) {
	_, _ = d.tail.Write(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	for rest := b; len(rest) > 0; {
		chunk, after, whole := bytes.Cut(rest, []byte{'\n'})
		rest = after
		if len(d.line)+len(chunk) > maxEntry {
			d.skip, d.line = true, nil
		}
		if !d.skip {
			d.line = append(d.line, chunk...)
		}
		if whole {
			if !d.skip {
				d.entry(d.line)
			}
			d.line, d.skip = d.line[:0], false
		}
	}
	return len(b), nil
}

// entry passes on a line if it is a diagnostic.
func (d *diagnostics) entry(line []byte) {
	var members map[string]json.RawMessage
	var level slog.Level
	var text, msg string
	if json.Unmarshal(line, &members) != nil ||
		json.Unmarshal(members["level"], &text) != nil || level.UnmarshalText([]byte(text)) != nil ||
		json.Unmarshal(members["msg"], &msg) != nil || level < slog.LevelWarn {
		return
	}
	for _, own := range []string{slog.TimeKey, slog.LevelKey, slog.MessageKey} {
		delete(members, own)
	}
	attrs := map[string]string{}
	flatten(attrs, "", members)
	d.pass(level.String(), msg, attrs)
}

// flatten turns attributes into text, those of a group with its name in front.
func flatten(attrs map[string]string, prefix string, members map[string]json.RawMessage) {
	for name, raw := range members {
		var text string
		var group map[string]json.RawMessage
		switch {
		case json.Unmarshal(raw, &text) == nil:
			attrs[prefix+name] = text
		case json.Unmarshal(raw, &group) == nil:
			flatten(attrs, prefix+name+".", group)
		default:
			attrs[prefix+name] = string(raw)
		}
	}
}

// report passes on a diagnostic of the driver's own.
func (d *diagnostics) report(level, msg string, attrs map[string]string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pass(level, msg, attrs)
}

func (d *diagnostics) pass(level, msg string, attrs map[string]string) {
	if d.to == nil || d.reports > maxDiags {
		return
	}
	if d.reports++; d.reports > maxDiags {
		level, msg, attrs = "ERROR", "more diagnostics were left out", nil
	}
	d.to(level, msg, attrs)
}
