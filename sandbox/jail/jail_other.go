//go:build !linux

package jail

import (
	"errors"
	"os"
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

func keep() error { return errOS }

// Volume is not to be had here.
type Volume struct{}

// NewVolume says so.
func NewVolume() (*Volume, error) { return nil, errOS }

// Root returns nothing.
func (*Volume) Root() *os.File { return nil }

// Leave fails.
func (*Volume) Leave(Room) error { return errOS }

// Pass fails.
func (*Volume) Pass(*exec.Cmd) (int, error) { return 0, errOS }

// Close does nothing.
func (*Volume) Close() error { return nil }

// Groups are not to be had here.
type Groups struct{}

// Group is not to be had here.
type Group struct{}

// NewGroups says so.
func NewGroups(string) (*Groups, error) { return nil, errOS }

// New fails.
func (*Groups) New(string) (*Group, error) { return nil, errOS }

// Close does nothing.
func (*Groups) Close() error { return nil }

// Descriptor returns none.
func (*Group) Descriptor() int { return 0 }

// End does nothing.
func (*Group) End() error { return nil }

// SweepGroups has nothing to remove here.
func SweepGroups() ([]string, error) { return nil, nil }

// EndGroups has nothing to remove here.
func EndGroups(string) error { return nil }
