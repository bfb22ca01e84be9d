// Package explore looks for smaller and for other scenarios around a given one.
// It runs and judges, and knows neither the subject nor the sandbox that it is
// given.
package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

// Shrink returns a scenario as small as s can be made while broken still holds of
// it, and the number of scenarios tried, at most budget. broken must hold the rule
// fixed: a scenario that breaks another rule is no smaller case of this one.
func Shrink(s scenarios.Scenario, budget int, broken func(scenarios.Scenario) bool) (scenarios.Scenario, int) {
	tried := 0
	for again := true; again; {
		again = false
		for _, candidates := range []func(scenarios.Scenario) []scenarios.Scenario{
			fewerSteps, fewerFaults, fewerBrokers, fewerPolicies, fewerNodes, plainerNodes, plainerCalls, plainerFaults,
		} {
			for retry := true; retry; {
				retry = false
				for _, c := range candidates(s) {
					if tried >= budget {
						return s, tried
					}
					if c.Check() != nil {
						continue
					}
					tried++
					if broken(c) {
						s, retry, again = c, true, true
						break
					}
				}
			}
		}
	}
	return s, tried
}

// clone returns a copy of s whose parts can be changed without changing s.
func clone(s scenarios.Scenario) scenarios.Scenario {
	s.World = s.World.Clone()
	s.Brokers = slices.Clone(s.Brokers)
	s.Policies = maps.Clone(s.Policies)
	s.Steps = slices.Clone(s.Steps)
	for i, st := range s.Steps {
		if st.Call != nil {
			c := *st.Call
			s.Steps[i].Call = &c
		}
	}
	s.Faults = faults.Plan{Injections: slices.Clone(s.Faults.Injections)}
	return s
}

// fewerSteps drops one step at a time, from the back. Calls are numbered anew; an
// expectation of a dropped call's version is dropped with it.
func fewerSteps(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for i := len(s.Steps) - 1; i >= 0; i-- {
		c := clone(s)
		c.Steps = slices.Delete(c.Steps, i, i+1)
		renumber(c.Steps)
		out = append(out, c)
	}
	return out
}

func renumber(steps []scenarios.Step) {
	now := map[string]string{}
	id := spec.CallID(0)
	for _, st := range steps {
		if st.Call == nil {
			continue
		}
		id++
		now[fmt.Sprintf("@%d", st.Call.ID)] = fmt.Sprintf("@%d", id)
		st.Call.ID = id
		if strings.HasPrefix(st.Call.ExpectVersion, "@") {
			st.Call.ExpectVersion = now[st.Call.ExpectVersion]
		}
	}
}

func fewerFaults(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for i, in := range s.Faults.Injections {
		c := clone(s)
		c.Faults.Injections = slices.Delete(c.Faults.Injections, i, i+1)
		out = append(out, c)
		for j := range in.Do.Swap {
			if len(in.Do.Swap) < 2 {
				break
			}
			c := clone(s)
			c.Faults.Injections[i].Do.Swap = slices.Delete(slices.Clone(in.Do.Swap), j, j+1)
			out = append(out, c)
		}
	}
	return out
}

func fewerBrokers(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for i := range s.Brokers {
		c := clone(s)
		c.Brokers = slices.Delete(c.Brokers, i, i+1)
		out = append(out, c)
	}
	return out
}

func fewerPolicies(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for _, name := range slices.Sorted(maps.Keys(s.Policies)) {
		c := clone(s)
		delete(c.Policies, name)
		out = append(out, c)
	}
	return out
}

// fewerNodes drops one entry of the world at a time, with what is below it.
func fewerNodes(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for _, p := range s.World.Paths() {
		c := clone(s)
		for q := range s.World {
			if q == p || strings.HasPrefix(q, p+"/") {
				delete(c.World, q)
			}
		}
		out = append(out, c)
	}
	return out
}

func plainerNodes(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for _, p := range s.World.Paths() {
		n := s.World[p]
		plain := spec.Node{Type: n.Type, Content: n.Content, Link: n.Link, Hard: n.Hard, Mode: 0o644}
		switch n.Type {
		case spec.TypeDir:
			plain.Mode = 0o755
		case spec.TypeLink:
			plain.Mode = 0o777
		case spec.TypeFile, spec.TypeFIFO, spec.TypeOther, spec.TypeHidden:
		}
		if nodeSize(n) > nodeSize(plain) {
			c := clone(s)
			c.World[p] = plain
			out = append(out, c)
		}
		if len(n.Content) > 1 {
			c := clone(s)
			n.Content = n.Content[:1]
			c.World[p] = n
			out = append(out, c)
		}
	}
	return out
}

// nodeSize counts what is odd about n.
func nodeSize(n spec.Node) int {
	odd := len(n.Xattrs)
	for _, is := range []bool{
		n.Owner != spec.OwnerSubject, n.Immutable, n.Mount != spec.MountNone, n.Mtime != 0,
		n.Mode != 0o644 && n.Mode != 0o755 && n.Mode != 0o777,
	} {
		if is {
			odd++
		}
	}
	return odd
}

func plainerCalls(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	change := func(i int, f func(*spec.Call)) {
		c := clone(s)
		f(c.Steps[i].Call)
		out = append(out, c)
	}
	for i, st := range s.Steps {
		if st.Call == nil {
			continue
		}
		if st.Call.ExpectVersion != "" {
			change(i, func(c *spec.Call) { c.ExpectVersion = "" })
		}
		if st.Call.Session != "s1" {
			change(i, func(c *spec.Call) { c.Session = "s1" })
		}
		if len(st.Call.Content) > 1 {
			change(i, func(c *spec.Call) { c.Content = c.Content[:1] })
		}
	}
	return out
}

func plainerFaults(s scenarios.Scenario) []scenarios.Scenario {
	var out []scenarios.Scenario
	for i, in := range s.Faults.Injections {
		if in.When.Nth > 1 {
			c := clone(s)
			c.Faults.Injections[i].When.Nth--
			out = append(out, c)
		}
	}
	return out
}
