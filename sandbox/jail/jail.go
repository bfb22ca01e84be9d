// Package jail starts a child under another identity and in namespaces of its
// own, so that the kernel refuses it what a scenario wants refused, it can do no
// harm to the machine, and neither it nor what it started or mounted outlives the
// bench.
//
// The identity and the mounts are set by a short stage of this very program, run
// again in front of the child. It does not know what the child is. The child sees
// the host's programs and settings, and nothing of people, sessions and services;
// it can write in what it was given, in folders of its own for temporary files, and
// nowhere else.
package jail

import (
	"bytes"
	"encoding/base64"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/fsbench/fsbench/sandbox"
)

// Mount is a mount point made for the child alone. It is there although what lies
// around it is hidden.
type Mount struct {
	Path     string // absolute and free of links; bound to itself
	ReadOnly bool
	File     int // descriptor of the command's that is mounted there instead; see Volume
}

// Spec says how a child is confined.
type Spec struct {
	// UID and GID are what it runs as. Another identity than the caller's takes
	// root; without it the child keeps the caller's, in a user namespace that maps
	// that one id and gives it no capability.
	UID int
	GID int

	// Mounts are made in the order given, so that a writable one may stand inside a
	// read-only one. Nothing else of the host's can be written.
	Mounts []Mount

	// Read are files and folders that the child needs of what is hidden: homes, and
	// folders for temporary files and of services. It finds them at their own place,
	// read-only. Hide are files and folders that it is not to see either.
	Read []string
	Hide []string

	// Open leaves the child the host's files, as its identity may read and write
	// them. It is for programs that are trusted, on machines where nothing can be
	// mounted.
	Open bool

	// Network leaves the child the network. It is for what fetches a subject.
	Network bool

	Umask int
	Env   []string // the whole environment

	// Files is how many of the command's ExtraFiles the child gets, from descriptor
	// 3 on.
	Files int

	CPU time.Duration // that one process may use up; 0 for an hour

	// FileSize is how many bytes a file may have that the child writes, 0 for a
	// gibibyte. A write beyond is cut short, and the next one fails with EFBIG where the
	// signal that comes with it is ignored.
	FileSize uint64

	// Group is the descriptor of a control group that the child is started in; 0 for none.
	// See Groups.
	Group int

	// Locked are kept from the child by Landlock; see CanLock.
	Locked []Lock
}

// Lock has the kernel refuse changes of one kind in a folder and in all below it,
// with EACCES and whatever the modes say.
type Lock struct {
	Path   string // absolute
	But    string // what is left open below it; empty for nothing
	Create bool   // no new entries
	Modify bool   // no file is opened for writing, or cut off
	Remove bool   // no entry is taken away
}

// stageName is what the stage is called as. No user types it.
const stageName = "fsbench-stage"

// exitStage is how a stage ends that could not start its child.
const exitStage = 126

// order is what the stage is told.
type order struct {
	Spec
	Parent int  // process that must still be alive when the stage is ready
	Mount  bool // it has a mount namespace of its own
	Init   bool // it is the first process of a namespace, and stays to end the others
	Path   string
	Argv   []string // empty: do all but start a child
	Dir    string   // where the child is to be, if it is there
	Places []place
}

// argv is how a stage is called. Arguments and paths are any bytes but NUL, so that
// a text encoding would change some of them.
func (o order) argv() ([]string, error) {
	var raw bytes.Buffer
	if err := gob.NewEncoder(&raw).Encode(o); err != nil {
		return nil, fmt.Errorf("describe the jail: %w", err)
	}
	return []string{stageName, base64.StdEncoding.EncodeToString(raw.Bytes())}, nil
}

func parseOrder(text string) (o order, err error) {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err == nil {
		err = gob.NewDecoder(bytes.NewReader(raw)).Decode(&o)
	}
	if err != nil {
		return o, fmt.Errorf("read order: %w", err)
	}
	return o, nil
}

// Possible reports why this machine, or this user, cannot start a child under s.
func (s Spec) Possible() error {
	_, err := s.trust()
	return err
}

// Check reports what s asks for that is not there, or that is never shown to a
// child or hidden from it.
func (s Spec) Check() error {
	_, err := s.places()
	return err
}

// Wrap changes cmd so that it is started under s. It fails with an error matching
// sandbox.ErrCannot where this machine or this user cannot do that.
//
// The child gets descriptors 0 to 2, as many more as Files says, and a session of
// its own: no terminal to type into. Files that cmd has beyond these do not reach
// it.
func (s Spec) Wrap(cmd *exec.Cmd) error {
	if cmd.Err != nil {
		return cmd.Err // the program was not found: the stage would not find it either
	}
	ns, err := s.trust()
	if err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, err)
	}
	o := order{Spec: s, Parent: os.Getpid(), Argv: cmd.Args, Path: cmd.Path, Dir: cmd.Dir}
	if len(o.Argv) == 0 {
		o.Argv = []string{cmd.Path}
	}
	if o.Dir == "" || !filepath.IsAbs(o.Dir) {
		if o.Dir, err = filepath.Abs(o.Dir); err != nil {
			return fmt.Errorf("find the current folder: %w", err)
		}
	}
	if o.Places, err = s.places(); err != nil {
		return err
	}
	return ns.stage(cmd, o)
}

// A process that was started as a stage, or as the keeper of a volume, gets no further
// than here. Very many are started: they do not wait for what other packages prepare.
func init() {
	var err error
	switch {
	case len(os.Args) == 2 && os.Args[0] == stageName:
		err = stage(os.Args[1])
	case len(os.Args) == 1 && os.Args[0] == volumeName:
		if err = keep(); err == nil {
			os.Exit(0)
		}
	default:
		return
	}
	fmt.Fprintln(os.Stderr, "fsbench: jail:", err)
	os.Exit(exitStage)
}
