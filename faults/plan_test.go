package faults_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

func drawInjection(rt *rapid.T, id string) faults.Injection {
	in := faults.Injection{ID: id, When: faults.When{
		Class: rapid.SampledFrom(append([]faults.Class{""}, faults.Classes...)).Draw(rt, "class"),
		Under: rapid.SampledFrom([]string{"", "ws", "ws/d", "ws/a b", "ws/\x80"}).Draw(rt, "under"),
		After: rapid.Bool().Draw(rt, "after"),
		Op:    rapid.SampledFrom(append([]vfs.OpKind{""}, vfs.Ops...)).Draw(rt, "op"),
		Name:  rapid.SampledFrom([]string{"", "a", "*.tmp", "[ab]?", "x=y"}).Draw(rt, "name"),
		Nth:   rapid.IntRange(0, 3).Draw(rt, "nth"),
		Step:  rapid.SampledFrom([]string{"", "lstat read ws/a b 1"}).Draw(rt, "step"),
	}}
	switch rapid.IntRange(0, 5).Draw(rt, "effect") {
	case 0:
		if possible := in.When.Possible(); len(possible) > 0 {
			in.Do.Errno = rapid.SampledFrom(possible).Draw(rt, "errno")
		}
	case 1:
		n := rapid.IntRange(0, 9).Draw(rt, "bytes")
		in.Do.Short, in.When.Op, in.When.Class, in.When.After = &n, vfs.OpWrite, "", false
	case 2:
		in.Do.Swap = rapid.SampledFrom([][]spec.Edit{
			{{Op: spec.EditRemove, Path: "ws/a"}},
			{{Op: spec.EditRename, Path: "ws/d", To: "d away"}, {Op: spec.EditWrite, Path: "ws/d", Content: spec.Content("a\nb\xff"), Mode: 0o600}},
		}).Draw(rt, "edits")
	case 3:
		in.Do.Crash = true
	case 4:
		in.Do.Delay, in.When.After = rapid.IntRange(1, 9).Draw(rt, "delay"), false
	case 5:
		in.Do.First, in.When.Step, in.When.After = rapid.SampledFrom([]string{"1/0 statx ws/a b 1", "first=x"}).Draw(rt, "first"), "1/0 read ws/a 1", false
	}
	return in
}

func TestPlanRoundTrip(t *testing.T) {
	ids := []string{"f", "two words", "#", "", "x=y", "after", "swap"}
	rapid.Check(t, func(rt *rapid.T) {
		var plan faults.Plan
		for _, id := range ids[:rapid.IntRange(0, len(ids)).Draw(rt, "injections")] {
			in := drawInjection(rt, id)
			if (faults.Plan{Injections: []faults.Injection{in}}).Check() == nil {
				plan.Injections = append(plan.Injections, in)
			}
		}
		text := plan.String()
		back, err := faults.ParsePlan("plan", 1, text)
		if err != nil {
			rt.Fatalf("%v\n%s", err, text)
		}
		if diff := cmp.Diff(plan, back); diff != "" {
			rt.Errorf("%s(-want +got):\n%s", text, diff)
		}
		if again := back.String(); again != text {
			rt.Errorf("printed again it is\n%s, not\n%s", again, text)
		}
	})
}

func TestPlanText(t *testing.T) {
	const text = `deny class=create under=ws/d errno=EACCES
late after op=rename name=".*" nth=2 errno=EIO

# an adversary
swap op=write nth=1 swap
	rename ws/d to=ws/d.away
	symlink ws/d to=../out
short op=write under=ws short=0
kill op=publish crash
slow op=write nth=1 delay=2
turn step="1/0 read ws/a 1" first="1/0 statx ws/a b 1"
`
	zero := 0
	want := faults.Plan{Injections: []faults.Injection{
		{ID: "deny", When: faults.When{Class: faults.Create, Under: "ws/d"}, Do: faults.Effect{Errno: "EACCES"}},
		{ID: "late", When: faults.When{Op: vfs.OpRename, Name: ".*", Nth: 2, After: true}, Do: faults.Effect{Errno: "EIO"}},
		{ID: "swap", When: faults.When{Op: vfs.OpWrite, Nth: 1}, Do: faults.Effect{Swap: []spec.Edit{
			{Op: spec.EditRename, Path: "ws/d", To: "ws/d.away"}, {Op: spec.EditSymlink, Path: "ws/d", To: "../out"},
		}}},
		{ID: "short", When: faults.When{Op: vfs.OpWrite, Under: "ws"}, Do: faults.Effect{Short: &zero}},
		{ID: "kill", When: faults.When{Op: vfs.OpPublish}, Do: faults.Effect{Crash: true}},
		{ID: "slow", When: faults.When{Op: vfs.OpWrite, Nth: 1}, Do: faults.Effect{Delay: 2}},
		{ID: "turn", When: faults.When{Step: "1/0 read ws/a 1"}, Do: faults.Effect{First: "1/0 statx ws/a b 1"}},
	}}
	got, err := faults.ParsePlan("plan", 1, text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMalformedPlans(t *testing.T) {
	const ops = "[open-root open-dir open-file probe open-doomed mkdir lstat stat-dir read-dir readlink symlink link rename publish " +
		"remove rmdir sync-dir sync-fs read write seek stat truncate chmod chown sync datasync sync-range xattr set-xattr xattrs close]"
	for _, tt := range []struct{ text, want string }{
		{"f errno=EIO\nop=write errno=EIO", "p:8: injection: want its id first, as in: deny class=create under=ws errno=EACCES"},
		{"f where=ws errno=EIO", `p:7: "where=ws" is unknown: want class=, op=, under=, name=, nth=, step=, errno=, short=, delay= or first=`},
		{"f before errno=EIO", `p:7: word "before" is unknown: want after, swap, crash or glimpse`},
		{"f op=write nth=x errno=EIO", "p:7: nth=x: want a number from 0"},
		{"f op=write nth=-1 errno=EIO", "p:7: nth=-1: want a number from 0"},
		{"f op=write short=all", "p:7: short=all: want a number from 0"},
		{"f op=write op=read errno=EIO", "p:7: op=: want it once"},
		{"f op=write errno='EIO'", `p:7: value "'EIO'": want it in quotes`},
		{"\tremove ws/a", "p:7: an indented edit: want an injection with the word swap above it"},
		{"f op=write errno=EIO\n\tremove ws/a", "p:8: an indented edit: want an injection with the word swap above it"},
		{"f op=write swap\n\tremove ws/../a", `p:8: path "ws/../a": want slash-separated names without empty parts, "." or ".."`},
		{"f op=write swap\n\tdestroy ws/a", `p:8: edit "destroy": want one of [write mkdir symlink hardlink fifo rename exchange remove chmod touch]`},
		{"\n\nf op=write swap", "p:9: injection f: swap: want at least one indented edit below it"},
		{"f op=write errno=EIO\nf op=read errno=EIO", `p:8: injection "f": want an id that is not empty and not taken`},
		{`"" op=write errno=EIO`, `p:7: injection "": want an id that is not empty and not taken`},
		{"f op=write", "p:7: injection f: 0 effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first="},
		{"g op=write errno=EIO\nf op=write errno=EIO crash", "p:8: injection f: 2 effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first="},
		{`f op=write name="[" errno=EIO`, `p:7: injection f: name "[": want a pattern as in path.Match`},
		{"f op=write under=/ws errno=EIO", `p:7: injection f: under "/ws": want a clean path below the sandbox, as in: ws/d`},
		{"f op=write under=ws/ errno=EIO", `p:7: injection f: under "ws/": want a clean path below the sandbox, as in: ws/d`},
		{"f op=write under=../x errno=EIO", `p:7: injection f: under "../x": want a clean path below the sandbox, as in: ws/d`},
		{"f op=fsync errno=EIO", `p:7: injection f: op "fsync", class "": no operation is both; want an operation of ` + ops + `, a class of [create modify remove read flush]`},
		{"f op=write class=read errno=EIO", `p:7: injection f: op "write", class "read": no operation is both; want an operation of ` + ops + `, a class of [create modify remove read flush]`},
		{"f op=read short=1", "p:7: injection f: short: want op=write, and no after"},
		{"f after op=write short=1", "p:7: injection f: short: want op=write, and no after"},
		{"f op=write errno=E2BIG", `p:7: injection f: errno "E2BIG": want one of EPERM, EACCES, EROFS, ENOENT, ENOSPC, EDQUOT, EIO, EXDEV, EBUSY, ENAMETOOLONG, ELOOP, EMFILE, EINTR, EFBIG`},
		{"f op=sync errno=EACCES", "p:7: injection f: no kernel gives EACCES there: want one of EDQUOT, EINTR, EIO, ENOSPC"},
		{"f after op=write delay=1", "p:7: injection f: delay, first: want no after, and with first=, the step= that comes later"},
		{"f op=write first=x", "p:7: injection f: delay, first: want no after, and with first=, the step= that comes later"},
		{"f op=write delay=0", "p:7: injection f: 0 effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first="},
		{"f after op=write errno=EINTR", "p:7: injection f: no kernel gives EINTR after the operation was performed"},
		{"f op=seek errno=EIO", "p:7: injection f: no kernel gives EIO there, nor any other errno"},
	} {
		plan, err := faults.ParsePlan("p", 7, tt.text)
		if err == nil {
			t.Errorf("%s\nwas read as %v, want %s", tt.text, plan, tt.want)
		} else if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestUnparsedPlans: what reaches a worker as JSON is not read by ParsePlan.
func TestUnparsedPlans(t *testing.T) {
	short := -1
	for _, tt := range []struct {
		in   faults.Injection
		want string
	}{
		{
			faults.Injection{ID: "f", When: faults.When{Op: vfs.OpWrite, Nth: -1}, Do: faults.Effect{Errno: "EIO"}},
			"injection f: nth -1: want a number from 1, or none for every match",
		},
		{
			faults.Injection{ID: "f", When: faults.When{Op: vfs.OpWrite}, Do: faults.Effect{Short: &short}},
			"injection f: short -1: want a number of bytes from 0",
		},
		{
			faults.Injection{ID: "f", When: faults.When{Op: vfs.OpWrite}, Do: faults.Effect{Swap: []spec.Edit{{Op: "destroy", Path: "ws"}}}},
			`injection f: edit "destroy": want one of [write mkdir symlink hardlink fifo rename exchange remove chmod touch]`,
		},
	} {
		plan := faults.Plan{Injections: []faults.Injection{tt.in}}
		if err := plan.Check(); err == nil || err.Error() != tt.want {
			t.Errorf("got %v, want %s", err, tt.want)
		}
	}
}

// errnoRows reads the table on its own, so that a row that the package overlooks
// is not overlooked here.
func errnoRows(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("errnos.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 0 && words[0] != "#" {
			rows = append(rows, words)
		}
	}
	return rows
}

func TestErrnoTable(t *testing.T) {
	listed := map[string]bool{}
	used := map[string]bool{}
	ops := map[vfs.OpKind]bool{}
	for _, row := range errnoRows(t) {
		if len(row) < 2 {
			t.Errorf("row %q: want an operation and a class", row)
			continue
		}
		op, class := vfs.OpKind(row[0]), faults.Class(row[1])
		ops[op] = true
		if !slices.Contains(vfs.Ops, op) || !slices.Contains(faults.Classes, class) {
			t.Errorf("row %q: no such operation or class", row)
		}
		if key := row[0] + " " + row[1]; listed[key] {
			t.Errorf("%s is listed twice", key)
		} else {
			listed[key] = true
		}
		for _, errno := range faults.Errnos {
			plan := faults.Plan{Injections: []faults.Injection{{ID: "f", When: faults.When{Op: op, Class: class}, Do: faults.Effect{Errno: errno}}}}
			err := plan.Check()
			if possible := slices.Contains(row[2:], errno); possible != (err == nil) {
				t.Errorf("%s %s %s: possible is %v, Check says %v", op, class, errno, possible, err)
			}
		}
		for _, errno := range row[2:] {
			used[errno] = true
			if !slices.Contains(faults.Errnos, errno) {
				t.Errorf("row %q: errno %s is unknown", row, errno)
			}
		}
		if got := (faults.When{Op: op, Class: class}).Possible(); len(got) != len(row)-2 {
			t.Errorf("row %q: possible are %v", row, got)
		}
	}
	for _, op := range vfs.Ops {
		if !ops[op] {
			t.Errorf("%s has no row: nobody has decided what may go wrong in it", op)
		}
	}
	for _, errno := range faults.Errnos {
		if !used[errno] {
			t.Errorf("%s is given by no operation", errno)
		}
	}
}

func TestPortable(t *testing.T) {
	for _, tt := range []struct {
		when faults.When
		want bool
	}{
		{faults.When{}, true},
		{faults.When{Class: faults.Create, Under: "ws"}, true},
		{faults.When{Op: vfs.OpWrite}, false},
		{faults.When{Name: "a"}, false},
		{faults.When{Nth: 1}, false},
		{faults.When{After: true}, false},
	} {
		if got := tt.when.Portable(); got != tt.want {
			t.Errorf("%+v: portable is %v", tt.when, got)
		}
	}
}
