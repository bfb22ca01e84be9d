package jail_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// prey is what hostile subjects are told of.
type prey struct {
	Tree   string // is the subject's
	Home   string // holds a file named secret
	Beside string // a folder beside the tree that everybody may write
	Runner int    // the process that starts subjects
	Token  string // part of the name of whatever is made
	TCP    string // address that the runner listens at
	Socket string // the same for a socket with a name in no folder
	Path   string // the same for one in a folder
}

// hostile makes moves against p and prints how each of them ended.
func hostile(move, text string) {
	var p prey
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		unix.Exit(1)
	}
	ends := map[string]string{}
	switch move {
	case "reads":
		reads(p, ends)
	case "writes":
		writes(p, ends)
	case "links":
		ends["out"] = said(os.Link(p.Tree+"/f", p.Beside+"/"+p.Token))
		ends["to temp"] = said(os.Link(p.Tree+"/f", "/tmp/"+p.Token))
		ends["in"] = said(os.Link("/etc/passwd", p.Tree+"/passwd"))
		ends["move out"] = said(os.Rename(p.Tree+"/f", p.Beside+"/"+p.Token))
		ends["up"] = said(os.WriteFile(p.Tree+"/../"+p.Token, nil, 0o644))
	case "attacks":
		attacks(p, ends)
	case "dials":
		dials(p, ends)
	case "unmasks":
		unmasks(p, ends)
	case "fills":
		fills(p, ends)
	case "odd":
		ends["fifo"] = said(unix.Mkfifo(p.Tree+"/fifo", 0o644))
		ends["names"] = said(errors.Join(os.WriteFile(p.Tree+"/\x1b[2J\n", nil, 0o644), os.Symlink("/", p.Tree+"/root")))
		ends["deep"] = said(deep(p.Tree, 4000))
	}
	_ = json.NewEncoder(os.Stdout).Encode(ends)
	unix.Exit(0)
}

// reads looks for what is somebody else's.
func reads(p prey, ends map[string]string) {
	_, err := os.ReadFile(p.Home + "/secret")
	ends["secret"] = said(err)
	_, err = os.ReadFile("secret") // where the runner started it
	ends["secret here"] = said(err)
	_, err = os.ReadFile("../home/secret")
	ends["secret beside"] = said(err)
	for _, dir := range []string{"/root", "/run", "/tmp", "/var/tmp", "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		names := []string{}
		for _, e := range entries {
			if !strings.HasPrefix(p.Tree, filepath.Join(dir, e.Name())+"/") {
				names = append(names, e.Name())
			}
		}
		ends[dir] = fmt.Sprint(names, " ", said(err))
	}
	others := 0
	seen, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range seen {
		if dir == "/proc/"+strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, name := range []string{"environ", "mem", "root/etc", "cwd/.", "maps"} {
			if f, err := os.Open(dir + "/" + name); err == nil {
				if n, _ := f.Read(make([]byte, 1)); n > 0 || strings.Contains(name, "/") {
					others++
				}
				f.Close()
			}
		}
	}
	ends["of other processes"] = strconv.Itoa(others)
}

// writes makes a file wherever it can.
func writes(p prey, ends map[string]string) {
	for _, dir := range []string{"/", "/etc", "/usr", "/var", "/home", "/root", "/run", "/dev", p.Home, p.Beside, "/tmp", "/var/tmp", "/dev/shm", p.Tree} {
		name := strings.NewReplacer(p.Home, "HOME", p.Beside, "BESIDE", p.Tree, "TREE").Replace(dir)
		ends[name] = said(os.WriteFile(filepath.Join(dir, p.Token), nil, 0o644))
	}
	f, err := os.OpenFile("/etc/passwd", os.O_WRONLY, 0)
	ends["change"] = said(err)
	if err == nil {
		f.Close()
	}
	ends["chmod"] = said(os.Chmod("/etc/passwd", 0o644))
	ends["sysctl"] = said(os.WriteFile("/proc/sys/kernel/core_pattern", []byte("core"), 0o644))
	ends["disk"] = said(unix.Mknod(p.Tree+"/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))))
	ends["cgroup"] = said(os.Mkdir("/sys/fs/cgroup/"+p.Token, 0o755))
}

// attacks goes for the runner, the machine's name and its clock.
func attacks(p prey, ends map[string]string) {
	ends["signal"] = said(unix.Kill(p.Runner, 0))
	ends["trace"] = said(unix.PtraceAttach(p.Runner))
	ends["trace the first"] = said(unix.PtraceAttach(1))
	ends["limits"] = said(unix.Prlimit(p.Runner, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil))
	ends["hostname"] = said(unix.Sethostname([]byte("hostile")))
	now := unix.NsecToTimeval(time.Now().UnixNano())
	ends["clock"] = said(unix.Settimeofday(&now))
	ends["mount"] = said(unix.Mount("none", p.Tree, "tmpfs", 0, ""))
	ends["unmount"] = said(unix.Unmount("/tmp", unix.MNT_DETACH))
	ends["remount"] = said(unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	ends["root"] = said(unix.Setuid(0))
	ends["reboot"] = said(unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	_ = unix.Kill(1, unix.SIGKILL)  // it is told of that only by who is outside
	_ = unix.Kill(-1, unix.SIGKILL) // everybody that it can see, but itself
}

func dials(p prey, ends map[string]string) {
	for name, where := range map[string][2]string{
		"out": {"tcp", "192.0.2.1:80"}, "runner": {"tcp", p.TCP}, "socket": {"unix", p.Socket}, "path": {"unix", p.Path}, "names": {"udp", "192.0.2.1:53"},
	} {
		c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(context.Background(), where[0], where[1])
		if ends[name] = said(err); err == nil {
			c.Close()
		}
	}
}

// unmasks makes a namespace of users, in which it is root, to get at what is hidden.
func unmasks(p prey, ends map[string]string) {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", "unmask", p.Home)
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids(os.Getuid()), GidMappings: ids(os.Getgid()),
	}
	out, err := cmd.Output()
	if ends["secret"] = string(out); err != nil {
		ends["secret"] = "no namespace"
	}
}

func unmask(home string) {
	opened := 0
	for _, dir := range []string{"/tmp", "/var/tmp", "/root", "/home", home, filepath.Dir(home), "/dev"} {
		if unix.Unmount(dir, unix.MNT_DETACH) == nil {
			opened++
		}
		if unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil && dir != "/tmp" && dir != "/var/tmp" {
			opened++
		}
	}
	if unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil {
		opened++
	}
	if _, err := os.Stat(home + "/secret"); err == nil {
		opened++
	}
	fmt.Fprint(os.Stdout, opened)
	unix.Exit(0)
}

// fills makes more of everything than there is room for.
func fills(p prey, ends map[string]string) {
	signal.Ignore(syscall.SIGXFSZ)
	made := 0
	for ; made < 100_000; made++ {
		if err := os.WriteFile(fmt.Sprint("/tmp/", made), nil, 0o644); err != nil {
			ends["files"] = said(err)
			break
		}
	}
	ends["fewer than"] = strconv.FormatBool(made <= 20_000)
	for i := range made {
		_ = os.Remove(fmt.Sprint("/tmp/", i))
	}
	block := make([]byte, 1<<20)
	f, err := os.Create("/dev/shm/big")
	for i := 0; err == nil && i < 100; i++ {
		_, err = f.Write(block)
	}
	ends["memory"] = said(err)
	f, err = os.Create(p.Tree + "/sparse")
	if err == nil {
		err = f.Truncate(1 << 60)
	}
	ends["sparse"] = said(err)
}

func deep(dir string, n int) error {
	if err := os.Chdir(dir); err != nil {
		return err
	}
	for range n {
		if err := errors.Join(unix.Mkdir("d", 0o755), unix.Chdir("d")); err != nil {
			return err
		}
	}
	return nil
}

// stubborn ignores what it can, has a grandchild hold its pipes, says that it is
// ready, and then does as it is told.
func stubborn(how, token string) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if how != "wait" {
		p, err := os.StartProcess("/proc/self/exe", []string{"x", "stubborn", "wait", token}, &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			unix.Exit(1)
		}
		_ = p.Release()
		fmt.Fprintln(os.Stdout, "ready")
	}
	switch how {
	case "leave":
		unix.Exit(0)
	case "stop":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "spin":
		for n := 0; n >= 0; n &= 1 {
			n++
		}
	}
	for {
		time.Sleep(time.Hour)
	}
}

// snapshot says what is in dir, except for the trees that are left out.
func snapshot(dir, except string) (string, error) {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if p == except {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		var content []byte
		if info.Mode().IsRegular() {
			content, err = os.ReadFile(p)
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		fmt.Fprintf(&b, "%s %v %v %d %q\n", p, info.Mode(), info.ModTime(), st.Nlink, content)
		return err
	})
	return b.String(), err
}
