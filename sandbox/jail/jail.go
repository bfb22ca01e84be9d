// Package jail starts a child under another identity and in namespaces of its
// own, so that the kernel refuses it what a scenario wants refused and nothing
// that it mounts or is mounted for it outlives it.
//
// The identity and the mounts are set by a short stage of this very program, run
// again in front of the child. It does not know what the child is.
package jail

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"

	"github.com/fsbench/fsbench/sandbox"
)

// Mount is a mount point made for the child alone.
type Mount struct {
	Path     string `json:"path"` // absolute; bound to itself
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Spec says how a child is confined.
type Spec struct {
	// UID and GID are what it runs as. Another identity than the caller's takes
	// root; without it the child keeps the caller's, in a user namespace that maps
	// that one id and gives it no capability.
	UID int `json:"uid"`
	GID int `json:"gid"`

	// Mounts are made in the order given and made read-only after all are there,
	// so that a writable one may stand inside a read-only one.
	Mounts []Mount `json:"mounts,omitempty"`

	Umask int      `json:"umask"`
	Env   []string `json:"env,omitempty"` // the whole environment
}

// stageName is what the stage is called as. No user types it.
const stageName = "fsbench-stage"

// order is what the stage is told.
type order struct {
	Spec
	Parent int      `json:"parent"` // process that must still be alive when the stage is ready
	Argv   []string `json:"argv"`
	Path   string   `json:"path"`
}

// Wrap changes cmd so that it is started under s. It fails with an error matching
// sandbox.ErrCannot where this machine or this user cannot do that.
func (s Spec) Wrap(cmd *exec.Cmd) error {
	if err := s.Possible(); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, err)
	}
	raw, err := json.Marshal(order{Spec: s, Parent: os.Getpid(), Argv: cmd.Args, Path: cmd.Path})
	if err != nil {
		return fmt.Errorf("describe the jail: %w", err)
	}
	// By this name, and not by the program's path: another identity may not be able
	// to search the folder that the program lies in.
	cmd.Path, cmd.Args, cmd.Err = selfExe, []string{stageName, string(raw)}, nil
	s.namespaces(cmd)
	return nil
}

// Main runs the stage and does not return, if this process was started as one.
// Programs and tests that start jailed children call it first thing.
func Main() {
	if len(os.Args) == 2 && os.Args[0] == stageName {
		err := stage(os.Args[1])
		fmt.Fprintln(os.Stderr, "fsbench: jail:", err)
		os.Exit(126)
	}
}
