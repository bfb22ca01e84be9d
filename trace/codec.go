package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds one encoded event. // bytes
const maxLine = 64 << 20

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
		if e.Seq != uint64(line) {
			return nil, fmt.Errorf("%s:%d: seq is %d, want %d: a line is missing or out of order", name, line, e.Seq, line)
		}
		events = append(events, e)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, len(events)+1, err)
	}
	if len(events) == 0 || events[0].Header == nil {
		return nil, fmt.Errorf("%s:1: want the header event first", name)
	}
	if f := events[0].Header.Format; f != Format {
		return nil, fmt.Errorf("%s:1: trace format %d, want %d: it was written by another fsbench", name, f, Format)
	}
	return events, nil
}
