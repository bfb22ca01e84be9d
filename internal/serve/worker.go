package serve

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
	"github.com/fsbench/fsbench/vfs"
)

// Worker returns an Options.Arm that puts a faults.Order in force over base. What
// the plan leaves to the kernel is only watched; a crash kills this process.
func Worker(base vfs.FS) func(json.RawMessage, string, func(faults.Message) error, func(spec.Edit) (bool, error)) (vfs.FS, func() []string, error) {
	return func(raw json.RawMessage, _ string, emit func(faults.Message) error, edit func(spec.Edit) (bool, error)) (vfs.FS, func() []string, error) {
		var o faults.Order
		if err := json.Unmarshal(raw, &o); err != nil {
			return nil, nil, fmt.Errorf("want a plan with its base: %w", err)
		}
		a, err := faults.Arm(base, o.Plan, faults.Options{
			Base: o.Base, Sink: sink(emit), Hands: edit, Watch: o.Watch, Noted: sink(emit).noted, Die: die,
		})
		if err != nil {
			return nil, nil, err
		}
		a.Start()
		return a, func() []string {
			a.Stop()
			return a.Unfired()
		}, nil
	}
}

// sink sends events and steps. One that cannot be sent would be a fault that nobody knows
// of: rather no process than that.
type sink func(faults.Message) error

func (s sink) Emit(e trace.Event) { s.send(faults.Message{Event: e}) }

func (s sink) noted(step faults.Step) { s.send(faults.Message{Step: &step}) }

func (s sink) send(m faults.Message) {
	if s(m) != nil {
		die()
	}
}

// die is a kill, and not an exit: nothing of this process runs after it.
func die() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Signal(syscall.SIGKILL)
	}
	if err != nil {
		os.Exit(137)
	}
	select {}
}
