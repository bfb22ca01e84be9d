package faults

import (
	_ "embed" // errnos.txt
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/fsbench/fsbench/vfs"
)

// Class groups operations by what they do to the tree.
type Class string

// The classes.
const (
	Create Class = "create" // add an entry: open with Create, mkdir, symlink, link, publish, rename into
	Modify Class = "modify" // change a file's bytes or metadata, or ask for the right to
	Remove Class = "remove" // drop an entry: unlink, rmdir, rename out of
	Read   Class = "read"   // look without changing
	Flush  Class = "flush"  // make durable
)

// Classes lists every Class.
var Classes = []Class{Create, Modify, Remove, Read, Flush}

// interrupted is the errno of a call that a signal ended before it had done anything.
const interrupted = "EINTR"

// Errnos lists every errno that a plan may ask for.
var Errnos = []string{
	"EPERM", "EACCES", "EROFS", "ENOENT", "ENOSPC", "EDQUOT", "EIO", "EXDEV", "EBUSY",
	"ENAMETOOLONG", "ELOOP", "EMFILE", interrupted, "EFBIG",
}

var errnoByName = map[string]syscall.Errno{
	"EPERM": syscall.EPERM, "EACCES": syscall.EACCES, "EROFS": syscall.EROFS, "ENOENT": syscall.ENOENT,
	"ENOSPC": syscall.ENOSPC, "EDQUOT": syscall.EDQUOT, "EIO": syscall.EIO, "EXDEV": syscall.EXDEV,
	"EBUSY": syscall.EBUSY, "ENAMETOOLONG": syscall.ENAMETOOLONG, "ELOOP": syscall.ELOOP, "EMFILE": syscall.EMFILE,
	interrupted: syscall.EINTR, "EFBIG": syscall.EFBIG,
}

//go:embed errnos.txt
var errnosText string

// pair is one row of errnos.txt.
type pair struct {
	op     vfs.OpKind
	class  Class
	errnos []string
}

var pairs = parsePairs(errnosText)

func parsePairs(text string) []pair {
	var rows []pair
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		rows = append(rows, pair{vfs.OpKind(words[0]), Class(words[1]), words[2:]})
	}
	return rows
}

// rows returns the kinds of operation that w selects.
func (w When) rows() []pair {
	var rows []pair
	for _, r := range pairs {
		if (w.Op == "" || w.Op == r.op) && (w.Class == "" || w.Class == r.class) {
			rows = append(rows, r)
		}
	}
	return rows
}

func (w When) checkErrno(rows []pair, errno string) error {
	if errnoByName[errno] == 0 {
		return fmt.Errorf("errno %q: want one of %s", errno, strings.Join(Errnos, ", "))
	}
	if w.After && errno == interrupted {
		return fmt.Errorf("no kernel gives %s after the operation was performed", errno)
	}
	var possible []string
	for _, r := range rows {
		if slices.Contains(r.errnos, errno) {
			return nil
		}
		possible = append(possible, r.errnos...)
	}
	if len(possible) == 0 {
		return fmt.Errorf("no kernel gives %s there, nor any other errno", errno)
	}
	slices.Sort(possible)
	return fmt.Errorf("no kernel gives %s there: want one of %s", errno, strings.Join(slices.Compact(possible), ", "))
}

// Possible returns the errnos that an operation selected by w can end in.
func (w When) Possible() []string {
	rows := w.rows()
	var out []string
	for _, name := range Errnos {
		if (!w.After || name != interrupted) && slices.ContainsFunc(rows, func(r pair) bool { return slices.Contains(r.errnos, name) }) {
			out = append(out, name)
		}
	}
	return out
}
