package jail

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
)

// kind says what a child finds in a place.
type kind int

const (
	covered kind = iota // an empty folder, or an empty file, that cannot be written
	scratch             // an empty folder of its own
	devices             // the few devices that programs expect
	shown               // what the host has there, read-only
)

// place is one part of a child's view of the file system that differs from a
// read-only view of the host's.
type place struct {
	Path string // absolute and free of links
	Kind kind
	From string // what is shown there
}

// scratchFolders are emptied for every child, and are its own to write. All of them
// together hold what scratchBytes and scratchFiles say.
var scratchFolders = []string{"/tmp", "/var/tmp"}

const (
	scratchBytes = 64 << 20
	scratchFiles = 20_000
)

// homeFolders hold the homes of people; in a virtual machine those of its host, too.
var homeFolders = []string{"/home", "/root", "/Users"}

// serviceFolders hold the sockets of services (of containers, of the session, of a
// display), which do as they are told by whoever reaches them, and removable media.
var serviceFolders = []string{"/run", "/var/run", "/media"}

// programs are folders of the system, and vital those without which nothing starts.
var (
	programs = []string{"/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr"}
	vital    = append([]string{"/var"}, programs...)
)

// builtin returns what is hidden from every child.
func builtin() map[string]kind {
	places := map[string]kind{"/dev": devices}
	add := func(p string, k kind) {
		p, err := filepath.EvalSymlinks(p)
		if err != nil || hides(p, vital) {
			return
		}
		if info, err := os.Stat(p); err == nil && info.IsDir() {
			places[p] = k
		}
	}
	for _, p := range slices.Concat(homes(), homeFolders, serviceFolders, []string{os.TempDir()}) {
		add(p, covered)
	}
	for _, p := range scratchFolders {
		add(p, scratch)
	}
	places["/dev/shm"] = scratch
	return places
}

// homes returns the folders of the user who runs this.
func homes() []string {
	list := []string{os.Getenv("HOME")}
	if u, err := user.Current(); err == nil {
		list = append(list, u.HomeDir)
	}
	// A service's home may be a folder of programs, which hold nobody's files.
	return slices.DeleteFunc(list, func(p string) bool {
		return !filepath.IsAbs(p) || slices.ContainsFunc(programs, func(q string) bool { return within(p, q) })
	})
}

// hides reports whether to hide p is to hide one of list.
func hides(p string, list []string) bool {
	return slices.ContainsFunc(list, func(q string) bool { return within(q, p) })
}

// within reports whether p is dir or lies below it.
func within(p, dir string) bool {
	return p == dir || dir == "/" || strings.HasPrefix(p, dir+"/")
}

// places returns how the child's view differs from the host's, what lies above
// before what lies below.
func (s Spec) places() ([]place, error) {
	if s.Open {
		return nil, nil
	}
	kinds := builtin()
	var hidden []string
	for _, p := range s.Hide {
		real, err := resolve(p)
		if err != nil {
			return nil, fmt.Errorf("hide %s: %w", p, err)
		}
		if hides(real, vital) {
			return nil, fmt.Errorf("hide %s: no program starts without it; name a folder below", p)
		}
		hidden = append(hidden, real)
		if _, already := kinds[real]; !already {
			kinds[real] = covered
		}
	}
	from := map[string]string{}
	for _, p := range s.Read {
		real, err := resolve(p)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p, err)
		}
		if err := mayShow(real, hidden); err != nil {
			return nil, fmt.Errorf("read %s: %w", p, err)
		}
		// Also by the name that it was given: the links that lead there may be hidden.
		for _, at := range []string{real, named(kinds, p)} {
			if k, there := kinds[at]; !there || k == shown {
				kinds[at], from[at] = shown, real
			}
		}
	}
	return prune(kinds, from), nil
}

// prune sorts places and leaves out what is as it should be anyway: nothing has to
// be hidden in an empty folder, and nothing shown where the host's files are.
func prune(kinds map[string]kind, from map[string]string) []place {
	var list []place
	for p, k := range kinds {
		around := surroundings(kinds, p)
		if k == shown && around == shown && from[p] == p || k == covered && around != shown {
			continue
		}
		list = append(list, place{p, k, from[p]})
	}
	slices.SortFunc(list, func(a, b place) int { return strings.Compare(a.Path, b.Path) })
	return list
}

// named returns where p leads in a view in which every folder of kinds is empty:
// links on the way to the first of them are followed, and there are none in it.
func named(kinds map[string]kind, p string) string {
	at := "/"
	parts := strings.Split(strings.Trim(filepath.Clean(p), "/"), "/")
	for i, part := range parts {
		next, err := filepath.EvalSymlinks(filepath.Join(at, part))
		if err != nil {
			break
		}
		at = next
		if k, there := kinds[at]; there && k != shown {
			return filepath.Join(append([]string{at}, parts[i+1:]...)...)
		}
	}
	return at
}

// surroundings returns what p lies in.
func surroundings(kinds map[string]kind, p string) kind {
	for p != "/" {
		p = filepath.Dir(p)
		if k, there := kinds[p]; there {
			return k
		}
	}
	return shown
}

// mayShow refuses what must stay hidden as a whole. Below it something may be
// shown, unless it was hidden by name.
func mayShow(p string, hidden []string) error {
	for _, h := range hidden {
		if within(p, h) {
			return fmt.Errorf("%s is hidden from subjects; keep what they read elsewhere", h)
		}
	}
	if what := whole(p); what != "" {
		return fmt.Errorf("a subject is not shown %s; name a folder below", what)
	}
	return nil
}

const wholeHome = "a whole home"

// whole says what of the hidden folders p would uncover from end to end; empty if
// none.
func whole(p string) string {
	for _, home := range append(homes(), homeFolders...) {
		if real, err := filepath.EvalSymlinks(home); err == nil && within(real, p) {
			return wholeHome
		}
	}
	if parent := filepath.Dir(p); parent == "/home" || parent == "/Users" {
		return wholeHome
	}
	if _, there := builtin()[p]; there {
		return "all that is in " + p
	}
	return ""
}

// resolve returns where p leads. The child's view has no links that could lead
// elsewhere later.
func resolve(p string) (string, error) {
	if !filepath.IsAbs(p) {
		return "", errors.New("want an absolute path")
	}
	real, err := filepath.EvalSymlinks(p)
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		err = pathErr.Err
	}
	return real, err
}
