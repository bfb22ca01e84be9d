package hostile

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Machine says what no subject may change: all that is in dir but for the trees
// except, the machine's name and settings, mounts, routes, loop devices that show a
// file in dir, whatever carries token in folders that many write to, and processes
// with the token among their arguments.
func Machine(dir, token string, except ...string) (string, error) {
	var b strings.Builder
	text, err := snapshot(dir, true, except)
	if err != nil {
		return "", err
	}
	b.WriteString(text)
	if text, err = snapshot("/etc", false, nil); err != nil {
		return "", err
	}
	b.WriteString(text)
	for _, name := range []string{"/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern", "/proc/self/mountinfo", "/proc/net/route"} {
		text, err := os.ReadFile(name)
		fmt.Fprintf(&b, "%s %v\n", name, err)
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, " - tracefs ") { // the kernel mounts it when anybody looks that way
				b.WriteString(line)
			}
		}
	}
	loops, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, name := range loops {
		if text, _ := os.ReadFile(name); strings.HasPrefix(string(text), dir) {
			fmt.Fprintf(&b, "%s %s\n", name, text)
		}
	}
	for _, many := range []string{"/", "/etc", "/usr", "/var", "/home", "/root", "/run", "/dev", "/tmp", "/var/tmp", "/dev/shm", "/sys/fs/cgroup"} {
		found, _ := filepath.Glob(many + "/*" + token + "*")
		fmt.Fprintln(&b, many, found)
	}
	fmt.Fprintln(&b, "processes", Carrying(token))
	return b.String(), nil
}

// Carrying returns the processes with a word in their command lines.
func Carrying(word string) []string {
	var found []string
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lines {
		if line, _ := os.ReadFile(name); strings.Contains(string(line), word) {
			found = append(found, filepath.Dir(name))
		}
	}
	return found
}

// snapshot says what is in dir, except for some trees, and what the files hold.
func snapshot(dir string, content bool, except []string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case slices.Contains(except, p):
			return fs.SkipDir
		case err != nil && content:
			return err
		case err != nil:
			fmt.Fprintf(&b, "%q %v\n", p, err) // an ordinary user may not list all of the system's
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var sum [sha256.Size]byte
		if content && info.Mode().IsRegular() {
			var text []byte
			text, err = os.ReadFile(p)
			sum = sha256.Sum256(text)
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%q %v %v %d %d %d %d %x\n", p, info.Mode(), info.ModTime(), st.Nlink, st.Uid, st.Gid, info.Size(), sum[:8])
		return err
	})
	return b.String(), err
}
