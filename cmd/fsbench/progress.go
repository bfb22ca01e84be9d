package main

import (
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"
)

// bar shows how far a verb is, where a person is looking. In a pipe it is silent.
type bar struct {
	w progress.Writer
	t *progress.Tracker
}

func (a *app) progress(what string, total int) *bar {
	if !a.errTTY {
		return &bar{}
	}
	b := &bar{w: progress.NewWriter(), t: &progress.Tracker{Message: what, Total: int64(total)}}
	b.w.SetOutputWriter(a.err)
	b.w.SetUpdateFrequency(100 * time.Millisecond)
	b.w.Style().Visibility.TrackerOverall = false
	b.w.AppendTracker(b.t)
	go b.w.Render()
	return b
}

func (b *bar) step() {
	if b.t != nil {
		b.t.Increment(1)
	}
}

// at is for work of which more becomes known on the way.
func (b *bar) at(done, of int) {
	if b.t != nil {
		b.t.UpdateTotal(int64(of) + 1) // it is not over before stop says so
		b.t.SetValue(int64(done))
	}
}

func (b *bar) stop() {
	if b.t == nil {
		return
	}
	b.t.MarkAsDone()
	b.w.Stop()
	for b.w.IsRenderInProgress() {
		time.Sleep(10 * time.Millisecond)
	}
}
