package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What has to be left on the volume of the report folder: a subject that fills the
// disk must not fill it to the last byte.
const (
	leastBytes = 1 << 30
	leastShare = 20 // one in so many
)

// lookEvery is how often the volume is looked at during a run.
const lookEvery = time.Second

// space is how much of a volume is left, in bytes.
type space struct{ left, all uint64 }

func (s space) short() bool { return s.left < leastBytes || s.left < s.all/leastShare }

// guard ends the run when the volume of dir runs full. It fails where it is too full
// to begin with; stop ends the guard.
func (a *app) guard(dir string) (stop func(), err error) {
	s, err := spaceOf(dir)
	if err != nil {
		return nil, err
	}
	if s.short() {
		return nil, usage(runsFull(dir, s))
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.ctx = ctx
	tick := time.NewTicker(lookEvery)
	go func() {
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			if s, err := spaceOf(dir); err == nil && s.short() {
				cancel(runsFull(dir, s))
			}
		}
	}()
	return func() { cancel(nil) }, nil
}

// errFull is wrapped where the volume of the report folder is too full.
var errFull = errors.New("make room, or name another with --out")

func runsFull(dir string, s space) error {
	return fmt.Errorf("report folder: %s has %d MiB of %d left, want 1 GiB and one part in %d: %w",
		dir, s.left>>20, s.all>>20, leastShare, errFull)
}
