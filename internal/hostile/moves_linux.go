package hostile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// moves say how each of their attempts has ended.
var moves = map[string]func(Prey, map[string]string){
	"reads":   reads,
	"writes":  writes,
	"links":   links,
	"attacks": attacks,
	"kills":   kills,
	"dials":   dials,
	"unmasks": unmasks,
	"unmask":  unmask,
	"fills":   fills,
	"odd":     odd,
	"deep":    func(p Prey, ends map[string]string) { ends["deep"] = Said(deep(p.Tree, 4000)) },
	"many":    many,
	"hole":    hole,
	"floods":  floods,
	"eats":    eats,
	"forks":   forks,
	"flees":   flees,
	"shouts":  shouts,
	"leave":   func(p Prey, _ map[string]string) { stubborn("leave", p) },
	"stay":    func(p Prey, _ map[string]string) { stubborn("stay", p) },
	"stop":    func(p Prey, _ map[string]string) { stubborn("stop", p) },
	"spin":    func(p Prey, _ map[string]string) { stubborn("spin", p) },
	"wait":    func(p Prey, _ map[string]string) { stubborn("wait", p) },
}

// Args are the arguments of a program that makes a move.
func Args(move string, p Prey) []string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("hostile: a prey does not encode: " + err.Error())
	}
	return []string{Name, move, string(text)}
}

// Main makes the move and does not return, if this process was started for one. How
// the attempts have ended is printed as an object of JSON. A program that is given a
// tree and a file in it as well takes the tree for its own, and writes the file.
func Main() {
	if len(os.Args) < 4 || os.Args[1] != Name {
		return
	}
	var p Prey
	move := moves[os.Args[2]]
	if err := json.Unmarshal([]byte(os.Args[3]), &p); err != nil || move == nil {
		unix.Exit(1)
	}
	out := os.Stdout
	if len(os.Args) == 6 {
		p.Tree = os.Args[4]
	}
	ends := map[string]string{}
	move(p, ends)
	if len(os.Args) == 6 {
		var err error
		if out, err = os.Create(os.Args[5]); err != nil {
			unix.Exit(1)
		}
	}
	_ = json.NewEncoder(out).Encode(ends)
	unix.Exit(0)
}

// Said is an error by its number's name, where it has one.
func Said(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return fmt.Sprint(err)
}

// reads looks for what is somebody else's.
func reads(p Prey, ends map[string]string) {
	_, err := os.ReadFile(p.Home + "/secret")
	ends["secret"] = Said(err)
	_, err = os.ReadFile("secret") // where the runner started it
	ends["secret here"] = Said(err)
	_, err = os.ReadFile("../home/secret")
	ends["secret beside"] = Said(err)
	for _, dir := range []string{"/root", "/run", "/tmp", "/var/tmp", "/dev/shm"} {
		entries, err := os.ReadDir(dir)
		names := []string{}
		for _, e := range entries {
			at := filepath.Join(dir, e.Name()) + "/"
			if exe, _ := os.Executable(); !strings.HasPrefix(p.Tree+"/", at) && !strings.HasPrefix(exe, at) {
				names = append(names, e.Name())
			}
		}
		ends[dir] = fmt.Sprint(names, " ", Said(err))
	}
	ends["environment"] = strconv.FormatBool(strings.Contains(strings.Join(os.Environ(), "\n"), p.Token))
	others := 0
	seen, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range seen {
		if dir == "/proc/"+strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, name := range []string{"environ", "mem", "root/etc", "cwd/.", "maps", "fd/3"} {
			if f, err := os.Open(dir + "/" + name); err == nil {
				if n, _ := f.Read(make([]byte, 1)); n > 0 || strings.Contains(name, "/") {
					others++
				}
				_ = f.Close()
			}
		}
	}
	ends["of other processes"] = strconv.Itoa(others)
}

// writes makes a file wherever it can.
func writes(p Prey, ends map[string]string) {
	for _, dir := range []string{"/", "/etc", "/usr", "/var", "/home", "/root", "/run", "/dev", p.Home, p.Beside, "/tmp", "/var/tmp", "/dev/shm", p.Tree} {
		name := strings.NewReplacer(p.Home, "HOME", p.Beside, "BESIDE", p.Tree, "TREE").Replace(dir)
		ends[name] = Said(os.WriteFile(filepath.Join(dir, p.Token), nil, 0o644))
	}
	f, err := os.OpenFile("/etc/passwd", os.O_WRONLY, 0)
	ends["change"] = Said(err)
	if err == nil {
		_ = f.Close()
	}
	ends["chmod"] = Said(os.Chmod("/etc/passwd", 0o644))
	ends["sysctl"] = Said(os.WriteFile("/proc/sys/kernel/core_pattern", []byte("core"), 0o644))
	ends["disk"] = Said(unix.Mknod(p.Tree+"/disk", unix.S_IFBLK|0o666, int(unix.Mkdev(254, 0))))
	ends["cgroup"] = Said(os.Mkdir("/sys/fs/cgroup/"+p.Token, 0o755))
}

// links gives files names where they do not belong.
func links(p Prey, ends map[string]string) {
	ends["out"] = Said(os.Link(p.Tree+"/f", p.Beside+"/"+p.Token))
	ends["to temp"] = Said(os.Link(p.Tree+"/f", "/tmp/"+p.Token))
	ends["in"] = Said(os.Link("/etc/passwd", p.Tree+"/passwd"))
	ends["move out"] = Said(os.Rename(p.Tree+"/f", p.Beside+"/"+p.Token))
	ends["up"] = Said(os.WriteFile(p.Tree+"/../"+p.Token, nil, 0o644))
}

// attacks goes for the runner, the machine's name and its clock.
func attacks(p Prey, ends map[string]string) {
	ends["signal"] = Said(unix.Kill(p.Runner, 0))
	ends["trace"] = Said(unix.PtraceAttach(p.Runner))
	ends["trace the first"] = Said(unix.PtraceAttach(1))
	ends["limits"] = Said(unix.Prlimit(p.Runner, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: 1}, nil))
	ends["hostname"] = Said(unix.Sethostname([]byte("hostile")))
	now := unix.NsecToTimeval(time.Now().UnixNano())
	ends["clock"] = Said(unix.Settimeofday(&now))
	ends["mount"] = Said(unix.Mount("none", p.Tree, "tmpfs", 0, ""))
	ends["unmount"] = Said(unix.Unmount("/tmp", unix.MNT_DETACH))
	ends["remount"] = Said(unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	ends["root"] = Said(unix.Setuid(0))
	ends["reboot"] = Said(unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF))
	_ = unix.Kill(1, unix.SIGKILL) // it is told of that only by who is outside
}

// kills ends everybody that it can see, but itself.
func kills(_ Prey, ends map[string]string) {
	_ = unix.Kill(1, unix.SIGKILL)
	err := unix.Kill(-1, unix.SIGKILL)
	if errors.Is(err, unix.ESRCH) {
		err = nil // it is alone
	}
	ends["all"] = Said(err)
}

func dials(p Prey, ends map[string]string) {
	for name, where := range map[string][2]string{
		"out": {"tcp", "192.0.2.1:80"}, "runner": {"tcp", p.TCP}, "socket": {"unix", p.Socket}, "path": {"unix", p.Path}, "names": {"udp", "192.0.2.1:53"},
	} {
		c, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(context.Background(), where[0], where[1])
		if ends[name] = Said(err); err == nil {
			_ = c.Close()
		}
	}
}

// unmasks makes a namespace of users, in which it is root, to get at what is hidden.
func unmasks(p Prey, ends map[string]string) {
	cmd := exec.CommandContext(context.Background(), "/proc/self/exe", Args("unmask", p)...)
	ids := func(id int) []syscall.SysProcIDMap { return []syscall.SysProcIDMap{{HostID: id, Size: 1}} }
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: ids(os.Getuid()), GidMappings: ids(os.Getgid()),
	}
	out, err := cmd.Output()
	if ends["secret"] = strings.TrimSpace(string(out)); err != nil {
		ends["secret"] = "no namespace"
	}
}

func unmask(p Prey, ends map[string]string) {
	for _, dir := range []string{"/tmp", "/var/tmp", "/root", "/home", p.Home, filepath.Dir(p.Home), "/dev"} {
		if unix.Unmount(dir, unix.MNT_DETACH) == nil {
			ends["unmounted "+dir] = "<nil>"
		}
		if unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil && dir != "/tmp" && dir != "/var/tmp" {
			ends["mounted "+dir] = "<nil>"
		}
	}
	if unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "") == nil {
		ends["mounted /"] = "<nil>"
	}
	if _, err := os.Stat(p.Home + "/secret"); err == nil {
		ends["secret"] = "<nil>"
	}
}

// fills makes more of everything than there is room for.
func fills(p Prey, ends map[string]string) {
	signal.Ignore(syscall.SIGXFSZ)
	made := 0
	for ; made < 100_000; made++ {
		if err := os.WriteFile(fmt.Sprint("/tmp/", made), nil, 0o644); err != nil {
			ends["files"] = Said(err)
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
	ends["memory"] = Said(err)
	f, err = os.Create(p.Tree + "/sparse")
	if err == nil {
		err = f.Truncate(1 << 60)
	}
	ends["sparse"] = Said(err)
}

// odd makes what whoever lists the tree may wait for, follow, or put on a terminal.
func odd(p Prey, ends map[string]string) {
	ends["fifo"] = Said(unix.Mkfifo(p.Tree+"/fifo", 0o644))
	ends["names"] = Said(errors.Join(
		os.WriteFile(p.Tree+"/\x1b[2J\n0 findings", nil, 0o644), os.WriteFile(p.Tree+"/<script>x<&script>", nil, 0o644),
		os.Symlink("/", p.Tree+"/root"),
	))
	ends["outside"] = Said(os.WriteFile("/etc/\x1b[2J\n0 findings", nil, 0o644))
}

// shouts names something odd outside of its tree, and then nobody knows.
func shouts(_ Prey, _ map[string]string) {
	_ = os.WriteFile("/etc/\x1b[2J\n0 findings", nil, 0o644)
	_ = unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

// stubborn ignores what it can, has a grandchild hold its pipes, says that it is
// ready, and then does as it is told.
func stubborn(how string, p Prey) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT)
	if how != "wait" {
		child, err := os.StartProcess("/proc/self/exe", append([]string{"x"}, Args("wait", p)...), &os.ProcAttr{
			Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			unix.Exit(1)
		}
		_ = child.Release()
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
