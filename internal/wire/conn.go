package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"
)

// maxFaults is how often one side may depart from the protocol before it is no
// longer listened to: a child that prints without end must not fill the trace.
const maxFaults = 256

// ConnOptions say what a Conn does with what it reads. Its functions are called
// in the order of the lines, before the next line is read, and must not block.
type ConnOptions struct {
	// Fault is told of every departure from the protocol.
	Fault func(Fault)

	// Late is told of an answer that came after its request was given up. It is
	// no fault, and nobody will see what it says.
	Late func(method string, line []byte)

	// Notify takes notifications; if it is nil they go to the JSON-RPC library.
	// That starts a goroutine for each, in whatever order they run, so a fault
	// event could be seen after the answer that it explains.
	Notify func(method string, params json.RawMessage)

	// Request and Result refuse a request that cannot be served and an answer
	// that is not what its method promises. Both may be nil.
	Request func(Message) *Fault
	Result  func(method string, result json.RawMessage) *Fault

	// AnswerUnread answers a line whose id cannot be told with an error whose id
	// is null, as JSON-RPC asks of a server.
	AnswerUnread bool

	// HoldEOF keeps the end of file back until every answer has been Settled.
	// The library's client may otherwise drop an answer that the end follows.
	HoldEOF bool
}

// Conn carries lines between one side of the protocol and its JSON-RPC library,
// which sees no line that is not a sound message. It is the library's channel.
type Conn struct {
	opt ConnOptions
	out *outbox
	in  chan []byte

	close  func()
	done   chan struct{}
	pumped chan struct{} // no more lines are read
	spent  chan struct{} // no more lines are written

	faults int // touched by the pump only

	mu      sync.Mutex
	asked   map[string]*question // what this side asked, by id
	open    int                  // answers handed to the library and not Settled
	settled chan struct{}
}

var _ channel.Channel = (*Conn)(nil)

// question is a request of this side's.
type question struct {
	method string
	state  questionState
}

type questionState int

const (
	waiting questionState = iota
	answered
	abandoned
)

// NewConn reads lines from r and writes lines to w until Close.
func NewConn(r io.Reader, w io.WriteCloser, opt ConnOptions) *Conn {
	c := &Conn{
		opt: opt, out: newOutbox(w), in: make(chan []byte),
		done: make(chan struct{}), pumped: make(chan struct{}), spent: make(chan struct{}),
		asked: map[string]*question{}, settled: make(chan struct{}, 1),
	}
	c.close = sync.OnceFunc(func() {
		close(c.done)
		_ = w.Close() // unblocks a write to a child that does not read
		if closer, ok := r.(io.Closer); ok {
			_ = closer.Close()
		}
	})
	go c.pump(r)
	go func() {
		defer close(c.spent)
		c.out.run(c.done)
	}()
	return c
}

// Recv implements channel.Channel.
func (c *Conn) Recv() ([]byte, error) {
	select {
	case line, ok := <-c.in:
		if !ok {
			return nil, io.EOF
		}
		return line, nil
	case <-c.done:
		return nil, channel.ErrClosed
	}
}

// Send implements channel.Channel. It queues the line and does not wait for a
// reader; it fails with ErrSlow when too much is waiting already.
func (c *Conn) Send(line []byte) error {
	switch {
	case len(line) > MaxLine:
		return fmt.Errorf("a line of %d bytes, at most %d fit: %w", len(line), MaxLine, ErrUnspeakable)
	case bytes.IndexByte(line, '\n') >= 0:
		return errors.New("a message with a line feed would be two lines")
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if m.ID != nil && m.Method != "" {
		c.mu.Lock()
		c.asked[string(m.ID)] = &question{method: m.Method}
		c.mu.Unlock()
	}
	return c.out.put(parcel{line: append(bytes.Clone(line), '\n')})
}

// Flush waits until everything sent so far has been written.
func (c *Conn) Flush(ctx context.Context) error { return c.out.flush(ctx, c.done) }

// Close implements channel.Channel. What is still queued is dropped.
func (c *Conn) Close() error {
	c.close()
	return nil
}

// Wait returns when a closed Conn calls nothing any more. It is for a reader
// and a writer that Close wakes.
func (c *Conn) Wait() {
	<-c.spent
	<-c.pumped
}

// Settle says that nobody waits for the answer to the request id any more, and
// reports whether the answer had come. If it had not, it will be Late.
func (c *Conn) Settle(id string) (had bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.asked[id]
	if q.state == waiting {
		q.state = abandoned
		return false
	}
	if c.open--; c.open == 0 {
		select {
		case c.settled <- struct{}{}:
		default:
		}
	}
	return true
}

// pump reads lines until there are no more, or there have been too many faults.
func (c *Conn) pump(r io.Reader) {
	defer close(c.pumped)
	defer close(c.in)
	src := lines{r: bufio.NewReaderSize(r, 64<<10)}
	for c.faults < maxFaults {
		line, err := src.next()
		select {
		case <-c.done:
			return
		default:
		}
		var up []byte
		switch {
		case errors.Is(err, errTooLong):
			c.refuse(Message{}, line, Faultf(LineTooLong, "want at most %d bytes a line", MaxLine))
		case errors.Is(err, errUnfinished):
			c.refuse(Message{}, line, Faultf(UnfinishedLine, "want a line feed before the end of file"))
		case err == nil:
			up = c.admit(line)
		}
		if up != nil {
			select {
			case c.in <- up:
			case <-c.done:
				return
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
	}
	c.hold()
}

// hold waits until every answer handed up has been taken.
func (c *Conn) hold() {
	for c.opt.HoldEOF {
		c.mu.Lock()
		open := c.open
		c.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-c.settled:
		case <-c.done:
			return
		}
	}
}

// admit returns what the library is to see of a line, nil for nothing.
func (c *Conn) admit(line []byte) []byte {
	m, f := Parse(line)
	switch {
	case f != nil:
	case !m.Request():
		return c.admitAnswer(m, line)
	case c.opt.Request != nil:
		f = c.opt.Request(m)
	}
	switch {
	case f != nil:
		return c.refuse(m, line, f)
	case m.ID == nil && c.opt.Notify != nil:
		c.opt.Notify(m.Method, m.Params)
		return nil
	}
	return line
}

// admitAnswer is admit for a sound answer.
func (c *Conn) admitAnswer(m Message, line []byte) []byte {
	method, before := c.claim(m.ID)
	var f *Fault
	switch {
	case method == "":
		f = Faultf(UnknownID, "no request had the id %s", m.ID)
	case before == answered:
		f = Faultf(SecondAnswer, "the request %s was answered before", m.ID)
	case before == abandoned:
		if c.opt.Late != nil {
			c.opt.Late(method, line)
		}
		return nil
	case c.opt.Result != nil && m.Result != nil:
		f = c.opt.Result(method, m.Result)
	}
	switch {
	case f == nil:
		return line
	case method != "" && before == waiting:
		c.report(line, f)
		return errorLine(m.ID, CodeFault, f.Error())
	default:
		c.report(line, f)
		return nil
	}
}

// claim marks the question id as answered, and returns what it asked and how it
// stood before. It does both at once: a caller that gives up meanwhile has
// either had its answer or is told of a late one.
func (c *Conn) claim(id json.RawMessage) (method string, before questionState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.asked[string(id)]
	if q == nil {
		return "", answered
	}
	before = q.state
	if q.state = answered; before == waiting {
		c.open++
	}
	return q.method, before
}

// refuse reports a faulty line and deals with who waits for it: a request is
// answered with the fault, and an answer is replaced by it. Without that a
// caller would wait for its deadline, and a child for ever.
func (c *Conn) refuse(m Message, line []byte, f *Fault) []byte {
	c.report(line, f)
	switch {
	case m.ID == nil && m.Method == "" && c.opt.AnswerUnread:
		_ = c.Send(errorLine(nil, codeOf(f.Kind), f.Error())) // one who does not read cannot be told
		return nil
	case m.ID == nil || string(m.ID) == "null" || !validID(m.ID):
		return nil
	case m.Request():
		_ = c.Send(errorLine(m.ID, codeOf(f.Kind), f.Error()))
		return nil
	}
	if _, before := c.claim(m.ID); before != waiting {
		return nil
	}
	return errorLine(m.ID, CodeFault, f.Error())
}

// codeOf returns the JSON-RPC code for a faulty request.
func codeOf(k Kind) int {
	switch k { //nolint:exhaustive // all others are the same to JSON-RPC
	case UnknownMethod:
		return int(jrpc2.MethodNotFound)
	case BadParams:
		return int(jrpc2.InvalidParams)
	default:
		return int(jrpc2.InvalidRequest)
	}
}

// errorLine returns an error as a message. A nil id stands for null.
func errorLine(id json.RawMessage, code int, message string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(struct {
		V  string          `json:"jsonrpc"`
		ID json.RawMessage `json:"id"`
		E  jrpc2.Error     `json:"error"`
	}{"2.0", id, jrpc2.Error{Code: jrpc2.Code(code), Message: message}})
	if err != nil {
		panic("wire: an id that is not JSON: " + err.Error())
	}
	return line
}

func (c *Conn) report(line []byte, f *Fault) {
	c.faults++
	if c.opt.Fault != nil {
		c.opt.Fault(Fault{Kind: f.Kind, Line: Escape(line), Note: f.Note})
	}
}
