package jail

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// bounds are what one subject may use with all that it has started.
var bounds = map[string]string{
	"memory.max": "2147483648", "memory.swap.max": "0", // bytes
	"pids.max": "2048",
}

// controllers are what it takes to bound them.
var controllers = []string{"memory", "pids"}

// Groups is a control group of the bench's own, in which each subject gets another. It
// is there only where whoever runs the machine lets this user make some.
type Groups struct{ dir string }

// Group is what the processes of one subject are in, and do not get out of: they see
// the folder of groups read-only.
type Group struct {
	dir string
	f   *os.File
}

const groupPrefix = "fsbench-"

// NewGroups makes it; tag tells this lab's from others of this process. It fails where
// memory and processes are not this user's to bound.
func NewGroups(tag string) (*Groups, error) {
	places, err := groupPlaces()
	if err != nil {
		return nil, err
	}
	for _, place := range places {
		var g *Groups
		if g, err = groupsIn(place, tag, controllers); err == nil {
			return g, nil
		}
	}
	return nil, err
}

func groupsIn(place, tag string, needed []string) (*Groups, error) {
	given, err := os.ReadFile(filepath.Join(place, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	for _, c := range needed {
		if !slices.Contains(strings.Fields(string(given)), c) {
			return nil, fmt.Errorf("the control group %s does not hand on %s", place, c)
		}
	}
	start, boot, err := Started(os.Getpid())
	if err != nil {
		return nil, err
	}
	g := &Groups{filepath.Join(place, fmt.Sprintf("%s%d-%s-%.8s-%s", groupPrefix, os.Getpid(), start, boot, tag))}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return nil, err
	}
	for _, c := range needed {
		if err := os.WriteFile(filepath.Join(g.dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return nil, errors.Join(err, g.Close())
		}
	}
	if err := g.try(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// try starts something in a group: that one can be made does not say that this
// process's children may be in it.
func (g *Groups) try() error {
	one, err := g.New("try")
	if err != nil {
		return err
	}
	cmd := &exec.Cmd{Path: selfExe, Args: []string{stageName, ""}, Env: []string{}, SysProcAttr: &syscall.SysProcAttr{}}
	one.take(cmd.SysProcAttr)
	if err = cmd.Start(); err == nil {
		_ = cmd.Wait() // there is nothing for it to do
	}
	return errors.Join(err, one.End())
}

// New makes the group of one subject.
func (g *Groups) New(name string) (*Group, error) {
	one := &Group{dir: filepath.Join(g.dir, name)}
	if err := os.Mkdir(one.dir, 0o755); err != nil {
		return nil, fmt.Errorf("bound a subject: %w", err)
	}
	var err error
	for file, most := range bounds {
		e := os.WriteFile(filepath.Join(one.dir, file), []byte(most), 0)
		if e != nil && !errors.Is(e, fs.ErrNotExist) && !errors.Is(e, fs.ErrPermission) {
			err = e // a file that is not there cannot be made: permission is what the kernel says of that
		}
	}
	if err == nil {
		one.f, err = os.Open(one.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("bound a subject: %w", err), one.End())
	}
	return one, nil
}

// Descriptor is what Spec.Group wants.
func (g *Group) Descriptor() int { return int(g.f.Fd()) }

func (g *Group) take(attr *syscall.SysProcAttr) {
	attr.UseCgroupFD, attr.CgroupFD = true, g.Descriptor()
}

// End ends all that is in the group, and removes it.
func (g *Group) End() error {
	var err error
	if g.f != nil {
		err = g.f.Close()
	}
	return errors.Join(err, endGroup(g.dir))
}

// Close ends all that is in any of them.
func (g *Groups) Close() error { return endGroup(g.dir) }

// dying is how long processes that were killed may take to be gone.
const dying = 5 * time.Second

func endGroup(dir string) error {
	_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // older kernels do not have it; then they are killed otherwise
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		if e.IsDir() {
			err = errors.Join(err, endGroup(filepath.Join(dir, e.Name())))
		}
	}
	until := time.Now().Add(dying)
	for {
		gone := unix.Rmdir(dir)
		if errors.Is(gone, unix.EBUSY) && time.Now().Before(until) {
			time.Sleep(5 * time.Millisecond)
			continue
		}
		if gone != nil && !errors.Is(gone, unix.ENOENT) {
			err = errors.Join(err, fmt.Errorf("remove the control group %s: %w", dir, gone))
		}
		return err
	}
}

// SweepGroups ends the groups of processes that are no more, and returns their folders.
func SweepGroups() (removed []string, err error) { return endGroups(orphan) }

// EndGroups ends those that were made with tag, for one who knows that their process is
// no more.
func EndGroups(tag string) error {
	_, err := endGroups(func(name string) bool { return strings.HasSuffix(name, "-"+tag) })
	return err
}

// endGroups touches no group of another user.
func endGroups(match func(name string) bool) (removed []string, err error) {
	places, placesErr := groupPlaces()
	if placesErr != nil {
		return nil, nil //nolint:nilerr // without groups there are none to sweep
	}
	var errs []error
	for _, place := range places {
		dirs, _ := filepath.Glob(filepath.Join(place, groupPrefix+"*"))
		for _, dir := range dirs {
			var st unix.Stat_t
			if unix.Lstat(dir, &st) != nil || int(st.Uid) != os.Geteuid() || !match(filepath.Base(dir)) {
				continue
			}
			if err := endGroup(dir); err != nil {
				errs = append(errs, err)
				continue
			}
			removed = append(removed, dir)
		}
	}
	return removed, errors.Join(errs...)
}

// orphan reports whether a group of that name was made by a process that is no more.
func orphan(name string) bool {
	parts := strings.Split(strings.TrimPrefix(name, groupPrefix), "-")
	if len(parts) != 4 {
		return false
	}
	pid, err := strconv.Atoi(parts[0])
	if err != nil || pid <= 0 {
		return false
	}
	start, boot, err := Started(pid)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH)
	}
	return start != parts[1] || !strings.HasPrefix(boot, parts[2])
}

// groupPlaces returns where a group could be made: in the one that this process is in,
// or beside it.
func groupPlaces() ([]string, error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(own)) {
		in, unified := strings.CutPrefix(strings.TrimSpace(line), "0::")
		if !unified {
			continue
		}
		for mount := range strings.Lines(string(mounts)) {
			words := strings.Fields(mount)
			i := slices.Index(words, "-")
			if i < 5 || len(words) < i+2 || words[i+1] != "cgroup2" {
				continue
			}
			below, ok := strings.CutPrefix(in+"/", strings.TrimSuffix(words[3], "/")+"/")
			if !ok {
				continue // it is mounted from another place on
			}
			at := filepath.Join(words[4], below)
			if at == words[4] {
				return []string{at}, nil
			}
			return []string{at, filepath.Dir(at)}, nil
		}
	}
	return nil, errors.New("there are no control groups of version 2 here")
}

// Started tells a process from those that had its number before, or will have it: when
// it was started, in ticks, and since which start of the machine that counts.
func Started(pid int) (start, boot string, err error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return "", "", err
	}
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", "", err
	}
	// The name in parentheses may hold anything; the state follows, and the start is
	// the twentieth after that.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 20 {
		return "", "", errors.New("the process has no start")
	}
	return fields[19], strings.TrimSpace(string(id)), nil
}
