//go:build amd64 || arm64

package supervisor

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/vfs"
)

var arches = []string{"amd64", "arm64"}

// kernelCalls returns the kernel's list of calls for an architecture, from the
// source that this test was compiled from.
func kernelCalls(t *testing.T, arch string) map[string]int {
	t.Helper()
	pc := reflect.ValueOf(unix.Open).Pointer()
	file, _ := runtime.FuncForPC(pc).FileLine(pc)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(file), "zsysnum_linux_"+arch+".go"))
	if err != nil {
		t.Skipf("the source of golang.org/x/sys, which has the list of calls, is not here: %v", err)
	}
	list := numberedNames(t, string(text), `(?m)^\s+SYS_(\w+)\s+= (\d+)$`)
	if len(list) < 300 {
		t.Fatalf("%d calls in the kernel's list, want 300 and more: the source is read wrongly", len(list))
	}
	return list
}

func numberedNames(t *testing.T, text, pattern string) map[string]int {
	t.Helper()
	list := map[string]int{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		nr, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		list[strings.ToLower(m[1])] = nr
	}
	return list
}

// callNames returns the names in calls.txt, in its order.
func callNames() []string {
	var names []string
	for _, line := range strings.Split(callsText, "\n") {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			names = append(names, words[0])
		}
	}
	return names
}

// reasonNames returns the names in reasons.txt, in its order.
func reasonNames(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("reasons.txt")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i, line := range strings.Split(string(text), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		reason, list, ok := strings.Cut(line, ": ")
		if !ok || reason == "" {
			t.Fatalf("reasons.txt:%d: no reason before a colon", i+1)
		}
		names = append(names, strings.Fields(list)...)
	}
	return names
}

func TestEveryCallIsJudged(t *testing.T) {
	judged := slices.Sorted(slices.Values(slices.Concat(callNames(), reasonNames(t))))
	for i, name := range judged[1:] {
		if name == judged[i] {
			t.Errorf("%s is judged twice", name)
		}
	}
	known := map[string]bool{}
	for _, arch := range arches {
		for name, nr := range kernelCalls(t, arch) {
			known[name] = true
			if _, ok := slices.BinarySearch(judged, name); !ok {
				t.Errorf("%s (%d on %s) is neither in calls.txt nor in reasons.txt", name, nr, arch)
			}
		}
	}
	for _, name := range judged {
		if !known[name] {
			t.Errorf("%s names no call of the kernel", name)
		}
	}
}

func TestNumbersAreGenerated(t *testing.T) {
	for _, arch := range arches {
		t.Run(arch, func(t *testing.T) {
			list := kernelCalls(t, arch)
			text, err := os.ReadFile("sysnum_linux_" + arch + ".go")
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprintf("const newest = %d", slices.Max(slices.Collect(maps.Values(list))))}
			for _, name := range callNames() {
				if _, ok := list[name]; ok {
					want = append(want, fmt.Sprintf("%q: unix.SYS_%s,", name, strings.ToUpper(name)))
				}
			}
			var got []string
			for _, line := range strings.Split(string(text), "\n") {
				line = strings.Join(strings.Fields(line), " ")
				if strings.HasPrefix(line, `"`) || strings.HasPrefix(line, "const newest") {
					got = append(got, line)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("go generate ./faults/supervisor would change it (-want +got):\n%s", diff)
			}
		})
	}
}

// everyRow returns all rows of calls.txt, those of other machines as well.
func everyRow(t *testing.T) []*call {
	t.Helper()
	numbers := map[string]int{}
	for i, name := range callNames() {
		numbers[name] = i
	}
	rows := parseCalls(callsText, numbers)
	if len(rows) != len(numbers) {
		t.Fatalf("%d rows, want %d", len(rows), len(numbers))
	}
	return slices.SortedFunc(maps.Values(rows), func(a, b *call) int { return a.nr - b.nr })
}

// TestRowsMakeSense looks for rows that a plan, or whoever reads the arguments,
// could make nothing of.
func TestRowsMakeSense(t *testing.T) {
	for _, c := range everyRow(t) {
		a := c.args
		complain := func(format string, v ...any) { t.Errorf("%s: %s", c.name, fmt.Sprintf(format, v...)) }
		if (c.op != "" && c.class == "" && !c.opens) || (c.deny && (c.op != "" || c.class != "")) {
			complain("operation %q with class %q", c.op, c.class)
		}
		op, class := c.kind(0)
		if op != "" && len((faults.When{Op: op, Class: class}).Possible()) == 0 {
			complain("no plan can make a %s %s fail", class, op)
		}
		if (a.dir >= 0 && a.path < 0 && !c.deny) || (a.dir2 >= 0) != (a.dir >= 0 && a.path2 >= 0) {
			complain("a directory without a name below it, or the reverse: %+v", a)
		}
		if a.iov >= 0 && (a.buf >= 0 || a.count < 0) || a.off >= 0 && a.offp >= 0 || a.path >= 0 && a.fd >= 0 {
			complain("arguments that exclude each other, or an iov without a count: %+v", a)
		}
		if (c.nofollow || c.atfollow) && a.path < 0 || c.nofollow && c.atfollow {
			complain("says how to follow a link, where there is none or twice")
		}
		seen := map[int]bool{}
		for i := range reflect.ValueOf(a).NumField() {
			n := int(reflect.ValueOf(a).Field(i).Int())
			if n >= 0 && seen[n] {
				complain("argument %d holds two things: %+v", n, a)
			}
			seen[n] = true
		}
	}
}

// TestOddRowsHaveReasons wants a reason on each row that denies, or that is not
// always stopped at.
func TestOddRowsHaveReasons(t *testing.T) {
	for _, line := range strings.Split(callsText, "\n") {
		row, reason, _ := strings.Cut(line, "#")
		words := strings.Fields(row)
		if len(words) < 2 || words[1] != "deny" && !strings.Contains(row, " if:") {
			continue
		}
		if strings.TrimSpace(reason) == "" {
			t.Errorf("%s has no reason", words[0])
		}
	}
}

func TestLookup(t *testing.T) {
	want := &call{name: "renameat2", nr: unix.SYS_RENAMEAT2, args: none, op: vfs.OpRename, class: faults.Create, nofollow: true}
	want.args.dir, want.args.path, want.args.dir2, want.args.path2, want.args.flags = 0, 1, 2, 3, 4
	if got := lookup(unix.SYS_RENAMEAT2); !reflect.DeepEqual(got, want) {
		t.Errorf("lookup(renameat2) = %+v, want %+v", got, want)
	}
	for _, nr := range []int{-1, unix.SYS_GETPID, unix.SYS_CLOSE, newest + 1} {
		if c := lookup(nr); c != nil {
			t.Errorf("lookup(%d) = %+v, want nothing", nr, c)
		}
	}
}

func TestKind(t *testing.T) {
	tests := []struct {
		call  string
		flags uint64
		op    vfs.OpKind
		class faults.Class
	}{
		{"openat", unix.O_RDONLY, vfs.OpOpenFile, faults.Read},
		{"openat", unix.O_RDONLY | unix.O_TRUNC, vfs.OpOpenFile, faults.Modify},
		{"openat", unix.O_RDONLY | unix.O_NONBLOCK, vfs.OpOpenFile, faults.Read},
		{"openat", unix.O_WRONLY, vfs.OpOpenFile, faults.Modify},
		{"openat", unix.O_RDWR | unix.O_CLOEXEC, vfs.OpOpenFile, faults.Modify},
		{"openat", unix.O_RDWR | unix.O_CREAT | unix.O_EXCL, vfs.OpOpenFile, faults.Create},
		{"openat", unix.O_RDONLY | unix.O_CREAT, vfs.OpOpenFile, faults.Create},
		{"openat", unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW, vfs.OpProbe, faults.Modify},
		{"openat", unix.O_WRONLY | unix.O_NONBLOCK | unix.O_TRUNC, vfs.OpOpenFile, faults.Modify},
		{"openat", unix.O_WRONLY | unix.O_NONBLOCK | unix.O_CREAT, vfs.OpOpenFile, faults.Create},
		{"openat", unix.O_RDONLY | unix.O_DIRECTORY, vfs.OpOpenDir, faults.Read},
		{"openat", unix.O_PATH | unix.O_DIRECTORY, vfs.OpOpenDir, faults.Read},
		{"openat", unix.O_PATH | unix.O_CREAT | unix.O_WRONLY, vfs.OpOpenFile, faults.Read},
		{"openat", unix.O_TMPFILE | unix.O_RDWR, vfs.OpOpenDoom, faults.Create},
		{"openat2", unix.O_TMPFILE | unix.O_WRONLY, vfs.OpOpenDoom, faults.Create},
		{"open", unix.O_WRONLY | unix.O_CREAT, vfs.OpOpenFile, faults.Create},
		{"creat", 0, vfs.OpOpenFile, faults.Create},
		{"unlink", unix.AT_REMOVEDIR, vfs.OpRemove, faults.Remove},
		{"unlinkat", 0, vfs.OpRemove, faults.Remove},
		{"unlinkat", unix.AT_REMOVEDIR, vfs.OpRmdir, faults.Remove},
		{"linkat", unix.AT_SYMLINK_FOLLOW, vfs.OpLink, faults.Create},
		{"linkat", unix.AT_EMPTY_PATH, vfs.OpPublish, faults.Create},
		{"renameat2", unix.RENAME_EXCHANGE, vfs.OpRename, faults.Create},
		{"copy_file_range", 0, vfs.OpWrite, faults.Modify},
		{"fsync", 0, vfs.OpSync, faults.Flush},
		{"utimensat", 0, "", faults.Modify},
		{"mount", 0, "", ""},
	}
	rows := rowsByName(t)
	for _, tt := range tests {
		op, class := rows[tt.call].kind(tt.flags)
		if op != tt.op || class != tt.class {
			t.Errorf("%s with %#x is %s %s, want %s %s", tt.call, tt.flags, class, op, tt.class, tt.op)
		}
	}
}

func rowsByName(t *testing.T) map[string]*call {
	t.Helper()
	rows := map[string]*call{}
	for _, c := range everyRow(t) {
		rows[c.name] = c
	}
	return rows
}

func TestFollows(t *testing.T) {
	tests := []struct {
		call  string
		flags uint64
		want  bool
	}{
		{"stat", 0, true},
		{"lstat", 0, false},
		{"newfstatat", 0, true},
		{"newfstatat", unix.AT_SYMLINK_NOFOLLOW, false},
		{"statx", unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT, false},
		{"openat", unix.O_WRONLY | unix.O_CREAT, true},
		{"openat", unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL, false},
		{"openat", unix.O_NOFOLLOW, false},
		{"openat2", unix.O_NOFOLLOW, false},
		{"creat", 0, true},
		{"linkat", 0, false},
		{"linkat", unix.AT_SYMLINK_FOLLOW, true},
		{"renameat2", unix.RENAME_NOREPLACE, false},
		{"unlinkat", 0, false},
		{"chmod", 0, true},
		{"fchmodat", 0, true},
		{"fchmodat2", unix.AT_SYMLINK_NOFOLLOW, false},
		{"lsetxattr", 0, false},
	}
	rows := rowsByName(t)
	for _, tt := range tests {
		if got := rows[tt.call].follows(tt.flags); got != tt.want {
			t.Errorf("%s with %#x follows a link: %v, want %v", tt.call, tt.flags, got, tt.want)
		}
	}
}

func TestParseCallRefuses(t *testing.T) {
	for row, want := range map[string]string{
		"write trace write":                         "3 columns, want at least 4",
		"write stop write modify":                   `verdict "stop", want trace or deny`,
		"write trace wirte modify":                  `operation "wirte" is not in the port`,
		"write trace write change":                  `class "change" is not one of [create modify remove read flush]`,
		"write trace write modify fd":               `argument "fd"`,
		"write trace write modify fd:6":             `argument "fd:6"`,
		"write trace write modify fd:-1":            `argument "fd:-1"`,
		"write trace write modify file:0":           `argument "file:0"`,
		"write trace write modify len:1 n:2":        `argument "n:2": it has one already`,
		"write trace write modify fd:0 if:possible": `no condition "possible"`,
	} {
		if _, err := parseCall(strings.Fields(row)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", row, err, want)
		}
	}
}
