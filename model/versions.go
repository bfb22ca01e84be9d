package model

import "github.com/fsbench/fsbench/spec"

// versions are what the subject has called versions, and what each was the
// version of.
type versions map[string]*known

type known struct {
	path    string // in the World
	content spec.Content
	steady  bool // nothing happened to the file since: it is still the same object
	vague   bool // the content is what was found afterwards, and somebody had been at it
}

// learn takes in the version that an answer carries.
func (v versions) learn(x *Exchange) {
	if x.Before == nil {
		for _, k := range v {
			k.steady = false // nobody saw what the call met
		}
	}
	if x.Call.Kind != spec.CallRead && (x.Out.Status != spec.StatusFailed || acted(x)) {
		for _, path := range []string{x.Call.Path, x.Call.To} {
			if s := resolve(x.Before, x.Header, path, true); s.no == nil {
				v.touched(s.path, spec.EditWrite)
			}
		}
	}
	if x.Out.Status != spec.StatusOK || x.Out.Version == "" || x.After == nil {
		return
	}
	path := x.Call.Path
	if x.Call.Kind == spec.CallMove {
		path = x.Call.To
	}
	s := resolve(x.After, x.Header, path, true)
	here := s.no == nil && x.After[s.path].Type == spec.TypeFile
	raced := len(x.Edits) > 0
	switch {
	case raced:
		v[x.Out.Version] = &known{path: s.path, content: told(x, s.path), vague: x.Call.Kind == spec.CallMove}
	case here:
		v[x.Out.Version] = &known{path: s.path, content: told(x, s.path), steady: true}
	}
}

// told returns the bytes of which the subject gave the version. In a race another
// file may have come to the path since: of a read, what was answered counts, and of
// a write, what was asked for.
func told(x *Exchange, path string) spec.Content {
	switch x.Call.Kind {
	case spec.CallRead:
		return x.Out.Content
	case spec.CallWrite:
		return x.Call.Content
	case spec.CallDelete, spec.CallMove, spec.CallEdit, spec.CallView, spec.CallTool:
	}
	return x.After[path].Content
}

// touched notes that something was done to a path: what is there afterwards may
// hold the same bytes and be another file. Setting its time changes neither.
func (v versions) touched(p string, op spec.EditOp) {
	if op == spec.EditTouch {
		return
	}
	for _, k := range v {
		if k.path == p || len(p) < len(k.path) && k.path[:len(p)] == p && k.path[len(p)] == '/' {
			k.steady = false
		}
	}
}

// seen takes in an observation: a file whose bytes changed is not steady even if
// they change back.
func (v versions) seen(w spec.World) {
	for _, k := range v {
		if n, there := w[k.path]; !there || n.Type != spec.TypeFile || string(n.Content) != string(k.content) {
			k.steady = false
		}
	}
}

// meaning says what the expectation of a call amounts to as it begins.
func (v versions) meaning(x *Exchange) Expectation {
	switch {
	case x.Call.ExpectVersion == "" || x.Call.ExpectVersion == spec.VersionAbsent:
		return NoExpectation
	case x.Before == nil:
		return ExpectUnclear
	}
	return v.meaningIn(x.Before, x)
}

// meaningIn says what it amounts to in w.
func (v versions) meaningIn(w spec.World, x *Exchange) Expectation {
	k := v[x.Call.ExpectVersion]
	s := resolve(w, x.Header, x.Call.Path, x.Call.Kind != spec.CallDelete && x.Call.Kind != spec.CallMove)
	if k == nil || s.no != nil {
		return ExpectStale
	}
	n, there := w[s.path]
	switch {
	case !there || n.Type != spec.TypeFile || !k.vague && string(n.Content) != string(k.content):
		return ExpectStale
	case k.path == s.path && k.steady:
		return ExpectCurrent
	}
	return ExpectUnclear
}
