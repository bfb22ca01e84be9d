package disk

import (
	"errors"
	"fmt"
	"os/exec"

	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// Engine is what stops foreign subjects at their steps in a lab.
type Engine struct {
	Name supervisor.Engine
	Why  string // what is wrong with a better one; empty if this is the best
}

// String names e with what it cannot do.
func (e Engine) String() string {
	if limits := e.Name.Limits(); limits != "" {
		return string(e.Name) + " (" + limits + ")"
	}
	return string(e.Name)
}

// Limits names what stops the sandbox's subjects, with what it cannot do; empty where
// there is nothing to be said.
func (s *Sandbox) Limits() string {
	if !s.foreign {
		return ""
	}
	if e, err := s.lab.Engine(); err == nil && e.Name.Limits() != "" {
		return "engine " + e.String()
	}
	return ""
}

// Use lets only one engine stop foreign subjects, and not the best that works.
func (l *Lab) Use(e supervisor.Engine) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.engines = []supervisor.Engine{e}
}

// Engine finds out, once, what stops subjects here, confined as they are. It fails with an
// error matching sandbox.ErrCannot where nothing does.
func (l *Lab) Engine() (Engine, error) {
	l.engineMu.Lock()
	defer l.engineMu.Unlock()
	if l.engine.Name != "" {
		return l.engine, nil
	}
	l.mu.Lock()
	engines := l.engines
	l.mu.Unlock()
	if engines == nil {
		engines = supervisor.Engines
	}
	box, err := l.Foreign()
	if err != nil {
		return Engine{}, err
	}
	err = box.Build(spec.World{spec.Workspace: {Type: spec.TypeDir, Mode: 0o755}})
	if err == nil {
		l.engine, err = choose(engines, func(e supervisor.Engine) error {
			return supervisor.Probe(e, box.base, func(cmd *exec.Cmd) error {
				s := l.confine(box.base)
				s.Files = supervisor.Files
				return s.Wrap(cmd)
			})
		})
	}
	return l.engine, errors.Join(err, box.Close())
}

// choose returns the first engine that works.
func choose(engines []supervisor.Engine, try func(supervisor.Engine) error) (Engine, error) {
	why := ""
	for _, e := range engines {
		err := try(e)
		if err == nil {
			return Engine{e, why}, nil
		}
		if why != "" {
			why += "; "
		}
		why += fmt.Sprintf("%s: %v", e, err)
	}
	return Engine{}, fmt.Errorf("%w: the steps of a subject cannot be seen here: %s", sandbox.ErrCannot, why)
}
