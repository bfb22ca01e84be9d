package disk

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// strangerBox is newBox for a subject that is looked at from outside.
func strangerBox(t *testing.T, l *Lab, w spec.World) *Sandbox {
	t.Helper()
	box, err := l.Foreign()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := box.Build(w); errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return box
}

// armStranger puts a plan in force around a subject that is looked at from outside.
func armStranger(t *testing.T, box *Sandbox, plan ...string) (*supervised, *trace.Recorder) {
	t.Helper()
	p, err := faults.ParsePlan("plan", 1, strings.Join(plan, "\n"))
	if err != nil {
		t.Fatal(err)
	}
	rec := &trace.Recorder{}
	a, err := box.Arm(p, rec)
	if errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	return a.(*supervised), rec //nolint:forcetypeassert // of a foreign sandbox
}

// struck lists what is on record as having struck: by whom, and with what effect.
func struck(rec *trace.Recorder) []string {
	var out []string
	for _, e := range rec.Events() {
		if e.Fault != nil {
			out = append(out, string(e.Fault.By)+" "+e.Fault.Effect+" "+e.Fault.Path)
		}
	}
	return out
}

// TestTheKernelRefusesStrangers: each of these is really refused by the kernel, and is
// on record as that, at the entry that it was about.
func TestTheKernelRefusesStrangers(t *testing.T) {
	alsoAsUser(t)
	create, modify, remove, cut := call("create", "d/new"), call("write", "d/f"), call("unlink", "d/f"), call("cut", "d/f")
	for _, tc := range []struct {
		name  string
		plan  string
		calls []string
		want  []string
		told  []string
	}{
		{
			"a mount point", "f1 class=remove under=ws/d name=f errno=EBUSY",
			[]string{modify, remove, call("rename", "d/f", "d/g"), call("rename", "f", "d/f"), create},
			[]string{"ok", "EBUSY", "EBUSY", "EBUSY", "ok"},
			[]string{"EBUSY ws/d/f", "EBUSY ws/d/g", "EBUSY ws/d/f"},
		},
		{
			"another device", "f1 class=create under=ws/d errno=EXDEV",
			[]string{call("rename", "f", "d/g"), create, modify},
			[]string{"EXDEV", "ok", "ok"},
			[]string{"EXDEV ws/d/g"},
		},
		{
			"files that must not grow", "f1 class=modify under=ws/d errno=EFBIG",
			[]string{call("fill", "d/new"), modify, remove},
			[]string{"1 EFBIG", "ok", "ok"},
			[]string{"short ws/d/new", "EFBIG ws/d/new"},
		},
		{
			"Landlock, modify", "f1 class=modify under=ws errno=EACCES",
			[]string{modify, cut, call("create", "new"), remove, call("mkdir", "d/x", "0755"), call("read", "d/f"), call("rename", "f", "d/e/f")},
			[]string{"EACCES", "EACCES", "EACCES", "ok", "ok", "ENOENT", "ok"},
			[]string{"EACCES ws/d/f", "EACCES ws/d/f", "EACCES ws/new"},
		},
		{
			"Landlock, create", "f1 class=create under=ws errno=EACCES",
			[]string{create, call("mkdir", "x", "0755"), modify, remove, call("rename", "f", "g")},
			[]string{"EACCES", "EACCES", "ok", "ok", "EACCES"},
			[]string{"EACCES ws/d/new", "EACCES ws/x", "EACCES ws/g"},
		},
		{
			"Landlock, remove", "f1 class=remove under=ws errno=EACCES",
			[]string{create, modify, remove, call("rename", "f", "g")},
			[]string{"ok", "ok", "EACCES", "EACCES"},
			[]string{"EACCES ws/d/f", "EACCES ws/g"},
		},
		{
			"no bytes", "f1 class=modify under=ws/d errno=ENOSPC",
			[]string{call("fill", "d/new"), call("fill", "d/f"), remove, call("rename", "f", "d/g"), call("mkdir", "x", "0755")},
			[]string{"ENOSPC", "16", "ok", "ok", "ok"}, // a file has its last page whole
			[]string{"ENOSPC ws/d/new"},
		},
		{
			"no entries", "f1 class=create under=ws/d errno=ENOSPC",
			[]string{create, call("mkdir", "d/x", "0755"), call("fill", "d/f"), call("rename", "f", "d/g"), remove, create},
			[]string{"ENOSPC", "ENOSPC", "16", "ok", "ok", "ok"}, // what was taken away makes room
			[]string{"ENOSPC ws/d/new", "ENOSPC ws/d/x"},
		},
		{
			"a mode", "f1 class=create under=ws/d errno=EACCES",
			[]string{create, remove},
			[]string{"EACCES", "EACCES"},
			[]string{"EACCES ws/d/new", "EACCES ws/d/f"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := jail.CanLock(); err != nil && strings.HasPrefix(tc.name, "Landlock") {
				t.Skip(err)
			}
			l := newLab(t)
			if err := l.Admit(Foreign{}); err != nil {
				t.Skip(err)
			}
			box := strangerBox(t, l, small)
			a, rec := armStranger(t, box, tc.plan)
			if !slices.Equal(a.watch, []string{"f1"}) {
				t.Fatal("it is not left to the kernel")
			}
			sees(t, box, small)
			if got := child(t, a, inRoot(box, tc.calls)...); !slices.Equal(got, tc.want) {
				t.Errorf("the kernel said %v, want %v", got, tc.want)
			}
			var want []string
			for _, line := range tc.told {
				want = append(want, "kernel "+line)
			}
			if got := struck(rec); !slices.Equal(got, want) {
				t.Errorf("on record is %q, want %q", got, want)
			}
			stop(t, a)
			if got := child(t, a, inRoot(box, []string{call("create", "d/later"), call("fill", "d/later")})...); !slices.Equal(got, []string{"ok", "16"}) {
				t.Errorf("after Stop the kernel said %v", got)
			}
		})
	}
}

// TestAFullTree: the bench's own hands have room where a stranger has none, the tree is
// the subject's again after Stop, and the sandbox serves another run when it was closed.
func TestAFullTree(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	if err := l.Admit(Foreign{}); err != nil {
		t.Skip(err)
	}
	for _, class := range []string{"create", "modify"} {
		before := descriptors(t)
		box, err := l.Foreign()
		if err != nil {
			t.Fatal(err)
		}
		first := box.base
		if err := box.Build(small); err != nil {
			t.Fatal(err)
		}
		a, _ := armStranger(t, box, "f1 class="+class+" under=ws errno=ENOSPC")
		if box.ground == nil || box.ground.room == jail.Roomy {
			t.Fatal("the tree is not full")
		}
		planted := spec.Node{Type: spec.TypeFile, Mode: 0o644, Content: spec.Content(strings.Repeat("planted ", 4096))}
		if err := box.Edit(spec.Edit{Op: spec.EditWrite, Path: "ws/e", Content: planted.Content}); err != nil {
			t.Errorf("an adversary has no room: %v", err)
		}
		r := spec.WriteRequest{Content: planted.Content}
		r.Dst = box.Root() + "/n/l"
		if err := box.Land(r); err != nil {
			t.Errorf("a handler has no room: %v", err)
		}
		want := and(small, spec.World{"ws/e": planted, "ws/n": {Type: spec.TypeDir, Mode: 0o755}, "ws/n/l": planted})
		sees(t, box, want)
		if got := child(t, a, inRoot(box, []string{call("fill", "new")})...); !strings.Contains(got[0], "ENOSPC") && got[0] != "no space left on device" {
			t.Errorf("%s: the kernel said %v", class, got)
		}
		stop(t, a)
		if got := child(t, a, inRoot(box, []string{call("fill", "later")})...); got[0] != "16" {
			t.Errorf("%s: after Stop the kernel said %v", class, got)
		}
		if _, there := observe(t, box)["ws/later"]; !there {
			t.Error("what was made after Stop is not seen")
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		again, err := l.Foreign()
		if err == nil {
			err = again.Build(small)
		}
		if err != nil {
			t.Fatal(err)
		}
		sees(t, again, small)
		if again.base != first {
			t.Error("the sandbox does not serve again")
		}
		if err := again.Close(); err != nil {
			t.Error(err)
		}
		if after := descriptors(t); class == "modify" && after != before {
			t.Errorf("%d descriptors were left open", after-before)
		}
	}
}
