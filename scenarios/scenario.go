// Package scenarios holds what to do: the scenario type, its text form, the
// corpus and the generators.
//
// A scenario is everything a run needs besides the subject. It does not know
// which subject it will meet, nor what is right.
package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// Scenario is plain data that prints and parses back. A saved scenario replays
// after the generator that made it has changed, which a seed does not.
type Scenario struct {
	Name     string
	Title    string        // one line
	Source   string        // public address, if it retells one
	Rules    []spec.RuleID // rules that it is meant to exercise
	Needs    []string      // capabilities and needs; an absent one makes a skip
	Policies spec.Policies // choices that the subject must be opened with
	World    spec.World    // spec.Workspace may be left out: a plain directory
	Brokers  []spec.Broker
	Steps    []Step
	Faults   faults.Plan
	Origin   Origin
}

// Step is one thing that happens, in order. Exactly one field is set.
type Step struct {
	Call *spec.Call
	Edit *spec.Edit // somebody else changes the tree between calls
}

// Origin says how a generated scenario was made. A seed means nothing without
// the profile and the version.
type Origin struct {
	Profile string
	Seed    uint64
	Version string
}

// NeedWire marks a scenario about the protocol: its subject must be spoken to
// over a wire.
const NeedWire = "wire"

// Check reports the first thing that keeps s from being run.
func (s Scenario) Check() error {
	w := s.Initial()
	if err := w.Check(); err != nil {
		return err
	}
	if w[spec.Workspace].Type != spec.TypeDir {
		return fmt.Errorf("world: %q is what the subject works in: want a directory", spec.Workspace)
	}
	for _, need := range s.Needs {
		if _, err := vfs.ParseCap(need); err != nil && need != NeedWire {
			return fmt.Errorf("need %q: want %s or a capability: %w", need, NeedWire, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Policies)) {
		values, known := spec.PolicyValues[name]
		if !known {
			return fmt.Errorf("policy %q: want one of %v", name, slices.Sorted(maps.Keys(spec.PolicyValues)))
		}
		if !slices.Contains(values, s.Policies[name]) {
			return fmt.Errorf("policy %s=%s: want one of %v", name, s.Policies[name], values)
		}
	}
	for _, text := range []string{s.Title, s.Source} {
		if strings.TrimSpace(text) != text || strings.ContainsAny(text, "\n\r") {
			return fmt.Errorf("title or source %q: want one line without spaces around it", text)
		}
	}
	for _, b := range s.Brokers {
		if b.Seam != spec.SeamWrite && b.Seam != spec.SeamDelete || !slices.Contains(spec.BrokerKinds, b.Kind) {
			return fmt.Errorf("broker %s %s: want write or delete, and one of %v", b.Seam, b.Kind, spec.BrokerKinds)
		}
	}
	if err := s.checkSteps(); err != nil {
		return err
	}
	return s.Faults.Check()
}

func (s Scenario) checkSteps() error {
	calls := spec.CallID(0)
	for _, st := range s.Steps {
		if st.Edit != nil {
			if err := st.Edit.Check(); err != nil {
				return err
			}
			continue
		}
		calls++
		if st.Call.ID != calls {
			return fmt.Errorf("call %d: want number %d: calls are numbered from 1, in order", st.Call.ID, calls)
		}
		if !slices.Contains(spec.CallKinds, st.Call.Kind) {
			return fmt.Errorf("call %d: kind %q: want one of %v", calls, st.Call.Kind, spec.CallKinds)
		}
		if ref, ok := strings.CutPrefix(st.Call.ExpectVersion, "@"); ok {
			if n, err := strconv.ParseUint(ref, 10, 32); err != nil || n < 1 || spec.CallID(n) >= calls {
				return fmt.Errorf("call %d: expect=@%s: want the number of an earlier call", calls, ref)
			}
		}
	}
	if calls == 0 {
		return fmt.Errorf("steps: want at least one call")
	}
	return nil
}

// Unmet returns why s cannot be run on a file system with these capabilities, by a
// subject that is spoken to over a wire or is not; it is empty if s can be.
func (s Scenario) Unmet(caps vfs.Caps, wire bool) string {
	for _, need := range s.Needs {
		if need == NeedWire {
			if !wire {
				return "the subject runs in this process: there is no wire"
			}
			continue
		}
		if c, err := vfs.ParseCap(need); err != nil || !caps.Has(c) {
			return "the file system has no capability " + need
		}
	}
	return ""
}

// Initial returns the World with the workspace in it.
func (s Scenario) Initial() spec.World {
	w := s.World.Clone()
	if w == nil {
		w = spec.World{}
	}
	if _, ok := w[spec.Workspace]; !ok {
		w[spec.Workspace] = spec.Node{Type: spec.TypeDir, Mode: 0o755}
	}
	return w
}

// Calls returns the calls of s.
func (s Scenario) Calls() []spec.Call {
	var calls []spec.Call
	for _, st := range s.Steps {
		if st.Call != nil {
			calls = append(calls, *st.Call)
		}
	}
	return calls
}

// GoString renders s as a scenario file does: what is drawn by a property engine
// is printed by it, and must be readable and replayable there.
func (s Scenario) GoString() string { return "\n" + s.String() }
