//go:build !linux

package jail

import (
	"errors"
	"os/exec"
)

var errOS = errors.New("there are no namespaces on this system")

type namespaces struct{}

func (Spec) trust() (namespaces, error) { return namespaces{}, errOS }

func (namespaces) stage(*exec.Cmd, order) error { return errOS }

// CanLock reports that there is no Landlock here.
func CanLock() error { return errOS }

// Shares reports that there are no jails here.
func (Spec) Shares() string { return errOS.Error() }

// Cures says what to do instead.
func (Spec) Cures() []string {
	return []string{errOS.Error() + ": run in a virtual machine or a container with Linux"}
}

func stage(string) error { return errOS }
