package explore

import (
	"context"
	"runtime"
	"sync"
)

// Ordered calls do for 0 to n-1 on all processors and hands the results to done one
// at a time, in the order of their numbers, however they finish. It stops early when
// ctx ends.
func Ordered[T any](ctx context.Context, n int, do func(i int) T, done func(i int, t T)) error {
	// Result i waits for its turn in slot i modulo the window: it is only begun when
	// the one that had its slot before is done with.
	slots := make([]chan T, 64*runtime.GOMAXPROCS(0))
	for i := range slots {
		slots[i] = make(chan T, 1)
	}
	window := make(chan struct{}, len(slots))
	next := make(chan int)
	go func() {
		defer close(next)
		for i := range n {
			select {
			case window <- struct{}{}:
				next <- i
			case <-ctx.Done():
				return
			}
		}
	}()
	var workers sync.WaitGroup
	// One more than there are processors: a run waits, at times, for its subject.
	for range runtime.GOMAXPROCS(0) + 1 {
		workers.Go(func() {
			for i := range next {
				slots[i%len(slots)] <- do(i)
			}
		})
	}
	defer workers.Wait()
	for i := range n {
		select {
		case t := <-slots[i%len(slots)]:
			<-window
			done(i, t)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
