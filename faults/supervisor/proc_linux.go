//go:build linux && (amd64 || arm64)

package supervisor

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// stateFile is where the kernel tells of one thread alone: the shorter path sums up all
// threads of its process.
func stateFile(tid int) string { return fmt.Sprintf("/proc/%[1]d/task/%[1]d/stat", tid) }

// stateIn returns the letter of a thread's state in what it tells there; 0 for none. The
// name before it is the subject's, and may hold anything.
func stateIn(stat []byte) byte {
	if rest, ok := bytes.CutPrefix(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")); ok && len(rest) > 0 {
		return rest[0]
	}
	return 0
}

// waitsIn returns the number of the call that a thread sleeps in, as a word; another word
// if it runs, and none if it is gone.
func waitsIn(tid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", tid))
	if err != nil {
		return ""
	}
	nr, _, _ := strings.Cut(string(text), " ")
	return nr
}

// kin returns the process that a thread belongs to, and the parent of that.
func kin(tid int) (tgid, ppid int) {
	f := status(tid)
	if f["Tgid"] == 0 {
		return tid, 0
	}
	return f["Tgid"], f["PPid"]
}

// tracer returns the thread that traces a thread.
func tracer(tid int) int { return status(tid)["TracerPid"] }

// status returns the numbers that the kernel tells of a thread; none of one that is
// gone.
func status(tid int) map[string]int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return nil
	}
	out := map[string]int{}
	for _, line := range strings.Split(string(text), "\n") {
		name, value, _ := strings.Cut(line, ":\t")
		if n, err := strconv.Atoi(value); err == nil {
			out[name] = n
		}
	}
	return out
}

// children returns the processes that a process has started and not waited for; those of
// one thread in the order in which they were started.
func children(pid int) (out []int) {
	for _, tid := range threadsOf([]int{pid}) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, tid))
		if err != nil {
			continue // the thread has ended
		}
		for word := range strings.FieldsSeq(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				out = append(out, child)
			}
		}
	}
	return out
}

// descendants returns the processes that come from one and have not ended.
func descendants(pid int) (out []int) {
	for _, child := range children(pid) {
		if !dead(child) {
			out = append(out, child)
		}
		out = append(out, descendants(child)...)
	}
	return out
}

// dead reports whether all threads of a process have ended: its first one may have, and
// others go on.
func dead(pid int) bool {
	for _, tid := range threadsOf([]int{pid}) {
		text, err := os.ReadFile(stateFile(tid))
		if state := stateIn(text); err == nil && state != 'Z' && state != 'X' {
			return false
		}
	}
	return true
}

// threadsOf returns the threads of processes; none of one that has ended.
func threadsOf(pids []int) (out []int) {
	for _, pid := range pids {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue // it has ended
		}
		for _, task := range tasks {
			if tid, err := strconv.Atoi(task.Name()); err == nil {
				out = append(out, tid)
			}
		}
	}
	return out
}
