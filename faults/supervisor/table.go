//go:build linux && (amd64 || arm64)

package supervisor

import (
	_ "embed" // calls.txt
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/vfs"
)

//go:generate go run gen.go

//go:embed calls.txt
var callsText string

// call is one row of the table.
type call struct {
	name  string
	nr    int
	args  args          // which argument holds what; -1 where there is none
	op    vfs.OpKind    // what a plan calls it; empty where the port has no such operation
	class faults.Class  // empty, as op is, where no plan can aim at it
	deny  bool          // answered ENOSYS by the filter
	when  conditionName // stopped at, or denied, only then; empty means always

	opens              bool // op and class are by its flags
	nofollow, atfollow bool // see follows
}

// args says which argument, counted from zero, holds what.
//
// flags is whatever the call depends on; how is the address of a structure
// where flags or values are in memory instead (open_how of openat2, whose first
// eight bytes are the flags). A plain off is a number and offp the address of
// one. count is the length of buf, the number of pieces of iov, or alone.
type args struct {
	dir, path, dir2, path2, fd, buf, count, iov, off, offp, flags, mode, how, text int
}

// calls holds the rows of this machine's calls, by number.
var calls = parseCalls(callsText, numbers)

// lookup returns nil for a call that the filter lets through.
func lookup(nr int) *call { return calls[nr] }

// kind returns the operation and class of one use of c: opens depend on their
// flags, unlinkat on AT_REMOVEDIR, linkat on AT_EMPTY_PATH, which publishes an
// open file.
//
// It sees no object. Whether a descriptor is of a directory, whether an empty
// path makes a stat of an lstat, and whether a link in /proc/self/fd publishes
// is for the caller to find out.
func (c *call) kind(flags uint64) (vfs.OpKind, faults.Class) {
	switch {
	case c.opens && c.args.flags < 0 && c.args.how < 0: // creat
		return openKind(unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC)
	case c.opens:
		return openKind(flags)
	case c.args.flags < 0:
		return c.op, c.class
	case c.op == vfs.OpRemove && flags&unix.AT_REMOVEDIR != 0:
		return vfs.OpRmdir, faults.Remove
	case c.op == vfs.OpLink && flags&unix.AT_EMPTY_PATH != 0:
		return vfs.OpPublish, faults.Create
	}
	return c.op, c.class
}

func openKind(flags uint64) (vfs.OpKind, faults.Class) {
	const probe = unix.O_WRONLY | unix.O_NONBLOCK
	writes := flags&unix.O_ACCMODE != unix.O_RDONLY || flags&unix.O_TRUNC != 0
	switch {
	case flags&unix.O_PATH != 0 && flags&unix.O_DIRECTORY != 0: // the kernel heeds no other flag beside it
		return vfs.OpOpenDir, faults.Read
	case flags&unix.O_PATH != 0:
		return vfs.OpOpenFile, faults.Read
	case flags&unix.O_TMPFILE == unix.O_TMPFILE: // two bits, one of which is O_DIRECTORY
		return vfs.OpOpenDoom, faults.Create
	case flags&unix.O_CREAT != 0:
		return vfs.OpOpenFile, faults.Create
	case flags&(unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_TRUNC|unix.O_APPEND) == probe:
		return vfs.OpProbe, faults.Modify
	case writes:
		return vfs.OpOpenFile, faults.Modify
	case flags&unix.O_DIRECTORY != 0:
		return vfs.OpOpenDir, faults.Read
	}
	return vfs.OpOpenFile, faults.Read
}

// follows reports whether a link at the end of c's path is followed. The
// destination of a rename or a link never is.
func (c *call) follows(flags uint64) bool {
	switch {
	case c.nofollow:
		return false
	case c.opens && c.args.flags < 0 && c.args.how < 0:
		return true
	case c.opens:
		const fresh = unix.O_CREAT | unix.O_EXCL
		return flags&unix.O_NOFOLLOW == 0 && flags&fresh != fresh
	case c.atfollow:
		return flags&unix.AT_SYMLINK_FOLLOW != 0
	case c.args.flags >= 0:
		return flags&unix.AT_SYMLINK_NOFOLLOW == 0
	}
	return true
}

// parseCalls returns the rows whose name is in numbers. A row that it cannot
// read is a mistake in the program.
func parseCalls(text string, numbers map[string]int) map[int]*call {
	rows := map[int]*call{}
	for i, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		c, err := parseCall(words)
		if err != nil {
			panic(fmt.Sprintf("supervisor: calls.txt:%d: %v", i+1, err))
		}
		if nr, ok := numbers[c.name]; ok { // arm64 has no open, no rename, no stat
			c.nr = nr
			rows[nr] = c
		}
	}
	return rows
}

func parseCall(words []string) (*call, error) {
	if len(words) < 4 {
		return nil, fmt.Errorf("%d columns, want at least 4", len(words))
	}
	c := &call{name: words[0], args: none}
	if words[1] != "trace" && words[1] != "deny" {
		return nil, fmt.Errorf("verdict %q, want trace or deny", words[1])
	}
	c.deny = words[1] == "deny"
	switch op := vfs.OpKind(words[2]); {
	case op == "open":
		c.op, c.opens = vfs.OpOpenFile, true
	case op == "-":
	case slices.Contains(vfs.Ops, op):
		c.op = op
	default:
		return nil, fmt.Errorf("operation %q is not in the port", op)
	}
	if class := faults.Class(words[3]); slices.Contains(faults.Classes, class) {
		c.class = class
	} else if class != "-" {
		return nil, fmt.Errorf("class %q is not one of %v", class, faults.Classes)
	}
	for _, word := range words[4:] {
		if err := c.parseWord(word); err != nil {
			return nil, err
		}
	}
	return c, nil
}

var none = args{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

func (c *call) parseWord(word string) error {
	key, value, _ := strings.Cut(word, ":")
	switch key {
	case "nofollow":
		c.nofollow = true
		return nil
	case "atfollow":
		c.atfollow = true
		return nil
	case "if":
		c.when = conditionName(value)
		if conditions[c.when] == nil {
			return fmt.Errorf("no condition %q", value)
		}
		return nil
	}
	place := c.args.named(key)
	n, err := strconv.Atoi(value)
	if place == nil || err != nil || n < 0 || n > 5 {
		return fmt.Errorf("argument %q", word)
	}
	if *place >= 0 {
		return fmt.Errorf("argument %q: it has one already", word)
	}
	*place = n
	return nil
}

// named returns the field of a word of calls.txt, or nil.
func (a *args) named(word string) *int {
	switch word {
	case "dir":
		return &a.dir
	case "path":
		return &a.path
	case "dir2":
		return &a.dir2
	case "path2":
		return &a.path2
	case "fd":
		return &a.fd
	case "buf":
		return &a.buf
	case "len", "n":
		return &a.count
	case "iov":
		return &a.iov
	case "off":
		return &a.off
	case "offp":
		return &a.offp
	case "flags":
		return &a.flags
	case "mode":
		return &a.mode
	case "how":
		return &a.how
	case "text":
		return &a.text
	}
	return nil
}
