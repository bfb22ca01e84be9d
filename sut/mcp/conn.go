package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxLine     = 64 << 20 // bytes; a file of 1 MiB may come twice in an answer, each byte of it escaped
	maxFaults   = 256      // departures after which a server is no longer listened to
	maxRequests = 1000     // requests of a server's; they wait in memory for an answer
	maxShown    = 200      // bytes of a line that are shown
	maxTail     = 2000     // bytes of standard error that are kept
)

// conn carries messages over the pipes of a child. It stands in the place of the
// SDK's own transports, which take the first line that is no message for the end
// of the conversation, keep a caller waiting in a write that nobody reads, and
// queue every notification.
type conn struct {
	in  io.WriteCloser
	out *bufio.Reader

	fault func(kind, line, note string)
	diag  func(level, msg string, attrs map[string]string)

	faults, requests int // only Read counts

	over    chan struct{} // closed when Read has nothing more to give
	closing chan struct{} // closed by Close
	killed  atomic.Bool   // what is unfinished was not left so by the child
	close   sync.Once

	mu     sync.Mutex
	asked  map[jsonrpc.ID]bool // requests without an answer; true for those given up
	outbox [][]byte
	wake   chan struct{}
}

var (
	_ sdk.Connection = (*conn)(nil)
	_ sdk.Transport  = (*conn)(nil)
)

func newConn(in io.WriteCloser, out io.Reader) *conn {
	c := &conn{
		in: in, out: bufio.NewReaderSize(out, 64<<10), asked: map[jsonrpc.ID]bool{},
		over: make(chan struct{}), closing: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	go c.send()
	return c
}

// Connect implements the SDK's Transport.
func (c *conn) Connect(context.Context) (sdk.Connection, error) { return c, nil }

// SessionID implements the SDK's Connection.
func (*conn) SessionID() string { return "" }

// Close ends the child's standard input. Read goes on to the end of its output.
func (c *conn) Close() error {
	c.close.Do(func() {
		close(c.closing)
		_ = c.in.Close() // also ends a write that nobody reads
	})
	return nil
}

// Write implements the SDK's Connection. It does not wait for the child to read.
func (c *conn) Write(_ context.Context, m jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	select {
	case <-c.closing:
		return io.ErrClosedPipe
	default:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ok := m.(*jsonrpc.Request); ok {
		c.note(r)
	}
	c.outbox = append(c.outbox, append(line, '\n'))
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return nil
}

// note keeps what the bench asked, and what it has given up.
func (c *conn) note(r *jsonrpc.Request) {
	if r.IsCall() {
		c.asked[r.ID] = false
		return
	}
	var given struct {
		ID any `json:"requestId"`
	}
	if r.Method != "notifications/cancelled" || json.Unmarshal(r.Params, &given) != nil {
		return
	}
	if id, err := jsonrpc.MakeID(given.ID); err == nil {
		if _, pending := c.asked[id]; pending {
			c.asked[id] = true
		}
	}
}

// send writes what is in the outbox until the child reads no more.
func (c *conn) send() {
	for {
		select {
		case <-c.wake:
		case <-c.closing:
			return
		}
		c.mu.Lock()
		lines := c.outbox
		c.outbox = nil
		c.mu.Unlock()
		for _, line := range lines {
			if _, err := c.in.Write(line); err != nil {
				return // the end of its output says the rest
			}
		}
	}
}

// errDeaf says that a child is no longer listened to.
var errDeaf = errors.New("it is no longer listened to")

// Read implements the SDK's Connection: it returns the next answer or request.
// Notifications end here, and what is no message is a fault.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	m, err := c.next()
	if err != nil {
		close(c.over) // the SDK reads no more after an error
	}
	return m, err
}

func (c *conn) next() (jsonrpc.Message, error) {
	for {
		line, err := c.line()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		m, kind, note := parseMessage(line)
		switch m := m.(type) {
		case *jsonrpc.Response:
			if c.wanted(m.ID, line) {
				return m, nil
			}
		case *jsonrpc.Request:
			if !m.IsCall() {
				c.notified(m)
				continue
			}
			if c.requests++; c.requests > maxRequests {
				c.diag("ERROR", "the server asks too much", map[string]string{"method": m.Method})
				return nil, errDeaf
			}
			return m, nil
		default:
			c.depart(kind, line, note)
		}
		if c.faults > maxFaults {
			return nil, errDeaf
		}
	}
}

func (c *conn) depart(kind string, line []byte, note string) {
	c.faults++
	c.fault(kind, shown(line), note)
}

// line reads up to the end of a line.
func (c *conn) line() ([]byte, error) {
	var whole []byte
	for {
		part, err := c.out.ReadSlice('\n')
		whole = append(whole, part...)
		switch {
		case err == nil:
			return whole, nil
		case len(whole) > maxLine:
			c.depart("line-too-long", whole, fmt.Sprintf("more than %d bytes", maxLine))
			return nil, errDeaf
		case !errors.Is(err, bufio.ErrBufferFull):
			if len(bytes.TrimSpace(whole)) > 0 && !c.killed.Load() {
				c.depart("unfinished-line", whole, "")
			}
			return nil, io.EOF
		}
	}
}

// parseMessage returns a message, or the kind of departure that line is and why.
func parseMessage(line []byte) (m jsonrpc.Message, kind, note string) {
	switch {
	case !utf8.Valid(line):
		return nil, "bad-utf8", ""
	case !json.Valid(line):
		return nil, "not-json", ""
	case bytes.TrimSpace(line)[0] != '{':
		return nil, "not-object", ""
	}
	m, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		return nil, "not-jsonrpc", err.Error()
	}
	return m, "", ""
}

// wanted reports whether somebody waits for this answer.
func (c *conn) wanted(id jsonrpc.ID, line []byte) bool {
	c.mu.Lock()
	givenUp, asked := c.asked[id]
	delete(c.asked, id)
	c.mu.Unlock()
	switch {
	case !asked:
		c.depart("unknown-id", line, "an answer to nothing that was asked")
	case givenUp:
		c.diag("WARN", "an answer came after its deadline", map[string]string{"line": shown(line)})
	}
	return asked && !givenUp
}

// notified passes on what a server logs at level warning and above.
func (c *conn) notified(r *jsonrpc.Request) {
	var entry struct {
		Level  string          `json:"level"`
		Logger string          `json:"logger"`
		Data   json.RawMessage `json:"data"`
	}
	if r.Method != "notifications/message" || json.Unmarshal(r.Params, &entry) != nil {
		return
	}
	level := ""
	switch entry.Level {
	case "warning":
		level = "WARN"
	case "error", "critical", "alert", "emergency":
		level = "ERROR"
	default:
		return
	}
	c.diag(level, "the server logged", map[string]string{"logger": entry.Logger, "data": string(entry.Data)})
}

// shown is the beginning of a line, escaped: it may hold anything.
func shown(line []byte) string {
	text := strconv.Quote(string(line[:min(len(line), maxShown)]))
	return text[1 : len(text)-1]
}
