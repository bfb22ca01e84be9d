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
	"time"

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

	// Finish keeps the end of file back from a server, for so long at most, until
	// it has answered what it was asked: one who pipes in requests and closes the
	// pipe wants the answers. A request that itself waits for the other side is
	// not waited for.
	Finish time.Duration
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
	serving int                  // requests handed to the library and not answered
	asking  int                  // requests of this side's that are waiting
	settled chan struct{}        // one of the counts went down
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
	answer := m.Method == ""
	if m.ID != nil && !answer {
		c.mu.Lock()
		c.asked[string(m.ID)] = &question{method: m.Method}
		c.asking++
		c.mu.Unlock()
	}
	err := c.put(line)
	c.mu.Lock()
	if answer {
		c.serving--
	}
	c.wake()
	c.mu.Unlock()
	return err
}

func (c *Conn) put(line []byte) error {
	return c.out.put(parcel{line: append(bytes.Clone(line), '\n')})
}

// wake has await look again.
func (c *Conn) wake() {
	select {
	case c.settled <- struct{}{}:
	default:
	}
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
		c.asking--
		c.wake()
		return false
	}
	c.open--
	c.wake()
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
	c.finish()
}

// hold waits until every answer handed up has been taken.
func (c *Conn) hold() {
	if c.opt.HoldEOF {
		c.await(context.Background(), func() bool { return c.open == 0 })
	}
}

// finish waits until every request that can be answered has been, and the
// answers are written: the library closes the Conn at the end of file.
func (c *Conn) finish() {
	if c.opt.Finish == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.opt.Finish)
	defer cancel()
	c.await(ctx, func() bool { return c.serving <= c.asking })
	_ = c.Flush(ctx) // one who does not read cannot be told
}

// await returns when the counts are as wanted, which is looked at under the lock.
func (c *Conn) await(ctx context.Context, wanted func() bool) {
	for {
		c.mu.Lock()
		ok := wanted()
		c.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-c.settled:
		case <-c.done:
			return
		case <-ctx.Done():
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
	if m.ID != nil {
		c.mu.Lock()
		c.serving++
		c.mu.Unlock()
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
		c.asking--
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
		_ = c.put(errorLine(nil, codeOf(f.Kind), f.Error())) // one who does not read cannot be told
		return nil
	case m.ID == nil || string(m.ID) == "null" || !validID(m.ID):
		return nil
	case m.Request():
		_ = c.put(errorLine(m.ID, codeOf(f.Kind), f.Error()))
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
