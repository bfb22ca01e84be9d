//go:build !linux

package disk

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/spec"
)

// hands are not to be had here: without descriptors for directories and
// namespaces a hostile tree cannot be handled safely.
type hands struct{}

var errOS = fmt.Errorf("%w: there is no disk sandbox on %s", sandbox.ErrCannot, runtime.GOOS)

func executable() (string, error) { return "", errOS }

func apart(*exec.Cmd) {}

func clear(dir string) error { return os.RemoveAll(dir) }

func openHands(string, *Lab) (*hands, error) { return nil, errOS }

func (*hands) make(string, spec.Node) error    { return errOS }
func (*hands) dress(string, spec.Node) error   { return errOS }
func (*hands) look() (spec.World, error)       { return nil, errOS }
func (*hands) edit(spec.Edit) error            { return errOS }
func (*hands) land(string, []byte, bool) error { return errOS }
func (*hands) unlink(string) error             { return errOS }
func (*hands) remove() error                   { return errOS }
func (*hands) isDir(string) bool               { return false }
func (*hands) immutable(string, bool) error    { return errOS }
func (*hands) chmod(string, func(spec.Mode) spec.Mode) (spec.Mode, error) {
	return 0, errOS
}
