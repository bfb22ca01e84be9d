//go:build !linux

package jail

import (
	"errors"
	"os/exec"
)

const selfExe = ""

var errOS = errors.New("there are no namespaces on this system")

// Possible reports that there are no jails here.
func (Spec) Possible() error { return errOS }

func (Spec) namespaces(*exec.Cmd) {}

func stage(string) error { return errOS }
