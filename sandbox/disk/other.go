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

func (l *Lab) identify() error { return errOS }

func startChild(*exec.Cmd) error { return errOS }

func sweep(*os.File) error { return errOS }

func mark(string) error { return errOS }

// Sweep has nothing to remove here.
func Sweep(string) (removed []string, err error) { return nil, nil }

func openHands(string, *Lab) (*hands, error) { return nil, errOS }

func procPath(int) string { return "" }

func (*hands) close() error                    { return errOS }
func (*hands) build(spec.World) error          { return errOS }
func (*hands) look() (sight, error)            { return sight{}, errOS }
func (*hands) edit(spec.Edit) error            { return errOS }
func (*hands) land(string, []byte, bool) error { return errOS }
func (*hands) unlink(string) error             { return errOS }
func (*hands) remove() error                   { return errOS }
func (*hands) removeAll(string) error          { return errOS }
func (*hands) isDir(string) bool               { return false }
func (*hands) hold(string) (*held, error)      { return nil, errOS }
func (*hands) where(*held) (string, bool)      { return "", false }

type held struct{ id id }

func (*held) close()                   {}
func (*held) isDir() bool              { return false }
func (*held) immutable() bool          { return false }
func (*held) setImmutable(bool) error  { return errOS }
func (*held) mode() (spec.Mode, error) { return 0, errOS }
func (*held) chmod(spec.Mode) error    { return errOS }
