package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// firstID is where the search for ids that nobody has begins: above what systems
// give to people and below what they keep for services and containers.
const firstID = 61100

// identify chooses who acts in the sandboxes, and reports what of root's power
// this root lacks, as it does in many containers.
func (l *Lab) identify() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if missing := missingPowers(); len(missing) > 0 {
		return fmt.Errorf("this root lacks %s; run as an ordinary user, or with them", strings.Join(missing, ", "))
	}
	l.UID = l.unusedID(firstID)
	l.GID, l.other = l.UID, l.unusedID(l.UID+1)
	return nil
}

// powers are the capabilities that the bench needs as root.
var powers = []struct {
	bit  int
	name string
}{
	{unix.CAP_CHOWN, "CAP_CHOWN"},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE"},
	{unix.CAP_FOWNER, "CAP_FOWNER"},
	{unix.CAP_FSETID, "CAP_FSETID"},
	{unix.CAP_KILL, "CAP_KILL"},
	{unix.CAP_SETGID, "CAP_SETGID"},
	{unix.CAP_SETUID, "CAP_SETUID"},
}

func missingPowers() []string {
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&head, &data[0]); err != nil {
		return []string{"the right to know its capabilities"}
	}
	var missing []string
	for _, p := range powers {
		if data[p.bit/32].Effective&(1<<(p.bit%32)) == 0 {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// unusedID returns an id of no user and no group, and of no other bench that is at
// work: subjects of one id can signal each other.
func (l *Lab) unusedID(from int) int {
	for id := from; ; id++ {
		text := strconv.Itoa(id)
		_, noUser := user.LookupId(text)
		_, noGroup := user.LookupGroupId(text)
		if noUser == nil || noGroup == nil {
			continue
		}
		if giveBack, ok := claim(id); ok {
			l.claims = append(l.claims, giveBack)
			return id
		}
	}
}

// claim takes an id for as long as this process lives. The claim is a socket
// without a file: nothing of it stays behind, however the process ends.
func claim(id int) (giveBack func(), ok bool) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return func() {}, true // without sockets nobody can claim anything
	}
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: fmt.Sprintf("@fsbench-id-%d", id)})
	if err != nil {
		_ = unix.Close(fd)
		return func() {}, !errors.Is(err, unix.EADDRINUSE)
	}
	return func() { _ = unix.Close(fd) }, true
}

// startChild starts the janitor: this very program, by a name that works whoever
// may search the folder that it lies in, and in a session of its own. What ends
// this process's group, an interrupt at the terminal among it, must not end it too.
func startChild(cmd *exec.Cmd) error {
	cmd.Path = "/proc/self/exe"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd.Start()
}

// sweep removes a folder of sandboxes with everything in it. What is in it is
// reached by its descriptor: under its name a subject of the same user could have
// put anything.
func sweep(folder *os.File) error {
	fd := int(folder.Fd())
	names, err := list(fd)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, clearAway(fd, name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := unix.Rmdir(folder.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "remove", Path: folder.Name(), Err: err}
	}
	return nil
}
