package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one encoded event.
const maxLine = 64 << 20 // bytes

// Write encodes events as JSON, one a line.
func Write(w io.Writer, events []Event) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for i := range events {
		if err := enc.Encode(&events[i]); err != nil {
			return fmt.Errorf("encode event %d: %w", events[i].Seq, err)
		}
	}
	return nil
}

// set counts the fields after Call that are set.
func (e *Event) set() int {
	n := 0
	for _, is := range []bool{
		e.Header != nil, e.Invoke != nil, e.Fault != nil, e.Edit != nil, e.Consult != nil, e.Diag != nil,
		e.Wire != nil, e.Crash != nil, e.Glimpse != nil, e.Left != nil, e.Log != nil, e.World != nil, e.Return != nil,
	} {
		if is {
			n++
		}
	}
	return n
}

// Read decodes what Write wrote. name is for errors, which say the line and
// what was expected there.
func Read(r io.Reader, name string) ([]Event, error) {
	var events []Event
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 1<<16), maxLine)
	for line := 1; sc.Scan(); line++ {
		var e Event
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("%s:%d: want one event as a JSON object: %w", name, line, err)
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s:%d: want nothing after the event", name, line)
		}
		if n := e.set(); n != 1 {
			return nil, fmt.Errorf("%s:%d: %d things happened: want exactly one of header, invoke, fault, edit, consult, diag, wire, crash, log, world and return", name, line, n)
		}
		if e.Seq != uint64(line) {
			return nil, fmt.Errorf("%s:%d: seq is %d, want %d: a line is missing or out of order", name, line, e.Seq, line)
		}
		if e.Header != nil && line > 1 {
			return nil, fmt.Errorf("%s:%d: want no second header", name, line)
		}
		events = append(events, e)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: want a line of at most %d bytes: %w", name, len(events)+1, maxLine, err)
	}
	if len(events) == 0 || events[0].Header == nil {
		return nil, fmt.Errorf("%s:1: want the header event first", name)
	}
	if f := events[0].Header.Format; f != Format {
		return nil, fmt.Errorf("%s:1: trace format %d, want %d: it was written by another fsbench", name, f, Format)
	}
	return events, nil
}
