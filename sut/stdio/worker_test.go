package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/internal/wire"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
)

// A worker is armed before it is opened, its events come in order and before
// what follows from them, and its next life has no plan.
func TestWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []string
		var w witness
		env := w.env("/r")
		env.Worker = &sut.Worker{
			Plan: json.RawMessage(`{"injections":[]}`),
			Event: func(e json.RawMessage) error {
				var of struct{ Of json.RawMessage }
				told = append(told, string(e))
				return json.Unmarshal(e, &of)
			},
			Edit: func(e spec.Edit) (bool, error) {
				told = append(told, fmt.Sprint(e.Op, e.Path, e.To))
				return true, nil
			},
		}
		d, actors := runScript(worker, Options{})
		s := open(t, d, env)
		for id := range spec.CallID(2) {
			if o := do(t, s, id+1); id == 0 && o.Status != unknown {
				t.Errorf("call %d: %v, want unknown", id+1, o.Status)
			}
		}
		var want []string
		event := func(of string) string { return `{"seq":1,"actor":"fault","of":` + of + `}` }
		want = append(want, event(`"armed"`), event(`{"plan":{"injections":[]}}`))
		for n := range 50 {
			want = append(want, event(fmt.Sprint(n)))
		}
		want = append(want, "renameab", event(`"after the edit"`))
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		// The second child has no plan, so the runner knows no such methods.
		if len(*actors) != 2 || len(w.faults) != 51 {
			t.Errorf("%d children and the faults %q, want 2, and every event and edit of the second", len(*actors), w.faults)
		}
		closed(t, s, d)
	})
}

func TestWorkerOfTheBenchFails(t *testing.T) {
	broken := errors.New("the sink is full")
	for _, tc := range []struct {
		name string
		w    sut.Worker
	}{
		{"event", sut.Worker{Event: func(json.RawMessage) error { return broken }, Edit: func(spec.Edit) (bool, error) { return true, nil }}},
		{"edit", sut.Worker{Event: func(json.RawMessage) error { return nil }, Edit: func(spec.Edit) (bool, error) { return false, broken }}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tc.w.Plan = json.RawMessage(`{}`)
				d, _ := runScript(worker, Options{})
				s := open(t, d, sut.Env{Root: "/r", Worker: &tc.w})
				o, err := s.Do(t.Context(), spec.Call{ID: 1, Kind: spec.CallRead, Path: "f"})
				if diff := cmp.Diff(spec.Outcome{}, o); !errors.Is(err, broken) || diff != "" {
					t.Errorf("%v, want the bench's own error and no outcome (-want +got):\n%s", err, diff)
				}
				if err := s.Close(); !errors.Is(err, broken) {
					t.Errorf("close: %v, want the error again", err)
				}
				_ = d.Close()
			})
		})
	}
}

// One who takes no plan is opened without it, and has none of a worker's methods.
func TestPlanForOneWhoTakesNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w witness
		env := w.env("/r")
		env.Worker = &sut.Worker{Plan: json.RawMessage(`{}`)}
		d := asFunction("event of no worker", Options{})
		s := open(t, d, env)
		if o := do(t, s, 1); o.Status != ok {
			t.Errorf("%v, want ok", o.Status)
		}
		closed(t, s, d)
		if diff := cmp.Diff(faults(wire.UnknownMethod), w.faults); diff != "" {
			t.Errorf("faults (-want +got):\n%s", diff)
		}
	})
}
