package wire

import (
	"context"
	"errors"
	"io"
	"sync"
)

// maxQueued is how much may wait for a reader that does not read.
const maxQueued = 24 << 20 // bytes

// ErrSlow is returned for a line that finds the queue full. The other side has
// stopped reading and counts as gone.
var ErrSlow = errors.New("the other side does not read")

// outbox writes lines from a goroutine of its own, so that a slow reader blocks
// nobody. The JSON-RPC library sends with its lock held: one child that never
// reads would otherwise stop the runner from hearing it, too.
type outbox struct {
	w io.Writer

	mu    sync.Mutex
	queue []parcel
	size  int // bytes in queue
	err   error
	wake  chan struct{}
}

// parcel is a line or, with passed, a mark in the order of lines.
type parcel struct {
	line   []byte
	passed chan<- error
}

func newOutbox(w io.Writer) *outbox { return &outbox{w: w, wake: make(chan struct{}, 1)} }

func (o *outbox) put(p parcel) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil && o.size+len(p.line) > maxQueued {
		o.err = ErrSlow
	}
	if o.err != nil {
		return o.err
	}
	o.queue = append(o.queue, p)
	o.size += len(p.line)
	select {
	case o.wake <- struct{}{}:
	default:
	}
	return nil
}

func (o *outbox) take() (parcel, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		return parcel{}, false
	}
	p := o.queue[0]
	o.queue[0] = parcel{} // let go of the line
	o.queue = o.queue[1:]
	return p, true
}

// sent takes note that p was written, or why it was not.
func (o *outbox) sent(p parcel, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.size -= len(p.line)
	if o.err == nil {
		o.err = err
	}
	if p.passed != nil {
		p.passed <- o.err
	}
}

// run writes until done.
func (o *outbox) run(done <-chan struct{}) {
	for {
		p, ok := o.take()
		if !ok {
			select {
			case <-o.wake:
				continue
			case <-done:
				return
			}
		}
		var err error
		if p.line != nil {
			_, err = o.w.Write(p.line)
		}
		o.sent(p, err)
	}
}

// flush waits until everything queued so far has been written.
func (o *outbox) flush(ctx context.Context, done <-chan struct{}) error {
	passed := make(chan error, 1)
	if err := o.put(parcel{passed: passed}); err != nil {
		return err
	}
	select {
	case err := <-passed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-done:
		return io.ErrClosedPipe
	}
}
