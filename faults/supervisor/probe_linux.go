//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/trace"
)

// probeTime is far more than a probe takes. A system that holds it up for longer is
// not one to try thousands of runs on.
const probeTime = 20 * time.Second

// Probe reports why an engine cannot see the steps of a subject, by having one of this
// program's own make one at base. confine is what is to be done to its command besides.
func Probe(e Engine, base string, confine func(*exec.Cmd) error) error {
	s, err := New(Options{Engine: e, Base: base, Plan: faults.Plan{Trace: true}, Sink: &trace.Recorder{}})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), probeTime)
	defer stop()
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, selfExe)
	cmd.Args, cmd.Stderr = []string{probeName, base}, &said
	if err = s.Wrap(cmd); err == nil {
		err = confine(cmd)
	}
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	err = cmd.Run()
	steps := s.Steps()
	s.End()
	why, _, _ := strings.Cut(said.String(), "\n") // the others follow from it
	if unseen := s.Unfired(); len(unseen) > 0 && why == "" {
		why = unseen[0]
	}
	switch {
	case why != "":
		return errors.New(strings.TrimPrefix(why, "fsbench: supervisor: "))
	case err != nil:
		return fmt.Errorf("probe: %w", err)
	case len(steps) == 0:
		return errors.New("a step that was made was not seen")
	}
	return s.Stop()
}
