package disk

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fsbench/fsbench/sandbox/sandboxtest"
	"github.com/fsbench/fsbench/spec"
)

// small is a tree with something to refuse in it.
var small = spec.World{
	"ws":     {Type: spec.TypeDir, Mode: 0o755},
	"ws/f":   {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("f")},
	"ws/d":   {Type: spec.TypeDir, Mode: 0o755},
	"ws/d/f": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("df")},
	"ws/d/e": {Type: spec.TypeDir, Mode: 0o700},
}

func and(w, more spec.World) spec.World {
	w = w.Clone()
	for p, n := range more {
		w[p] = n
	}
	return w
}

// sees fails unless exactly w is seen in box.
func sees(t *testing.T, box *Sandbox, w spec.World) {
	t.Helper()
	if err := sandboxtest.Diff(sandboxtest.Observed(w, box.Root()), observe(t, box)); err != nil {
		t.Error(err)
	}
}

// watched says which of the injections are left to the kernel.
func watched(a any) []string { return a.(*armed).watch }

func TestTheKernelRefuses(t *testing.T) {
	alsoAsUser(t)
	immutable := and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Immutable: true}})
	readOnly := and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Mount: spec.MountReadOnly}})
	bound := and(small, spec.World{"ws/d/f": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("df"), Mount: spec.MountBind}})
	refused := spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o555}}
	create, modify, remove := call("create", "d/new"), call("write", "d/f"), call("unlink", "d/f")
	for _, tc := range []struct {
		name   string
		world  spec.World
		plan   []string
		kernel []string // the injections that are left to it
		calls  []string
		want   []string
		after  []string // once the plan was stopped
	}{
		{
			"nothing", small, nil, nil,
			[]string{create, modify, remove},
			[]string{"ok", "ok", "ok"},
			nil,
		},
		{
			"EACCES", small,
			[]string{"f1 class=create under=ws/d errno=EACCES"},
			[]string{"f1"},
			[]string{create, remove, modify, call("mkdir", "d/x", "0755"), call("create", "new")},
			[]string{"EACCES", "EACCES", "ok", "EACCES", "ok"},
			[]string{"ok", "ok", "ENOENT", "ok", "EEXIST"},
		},
		{
			"EROFS", small,
			[]string{"f1 class=modify under=ws/d errno=EROFS"},
			[]string{"f1"},
			[]string{create, remove, modify, call("create", "d/e/x"), call("chmod", "d", "0700"), call("read", "d/f"), call("create", "new")},
			[]string{"EROFS", "EROFS", "EROFS", "EROFS", "EROFS", "ok", "ok"},
			[]string{"ok", "ok", "ENOENT", "ok", "ok", "ENOENT", "EEXIST"},
		},
		{
			"EPERM", small,
			[]string{"f1 class=remove under=ws/d errno=EPERM"},
			[]string{"f1"},
			[]string{create, remove, modify, call("create", "d/e/x")},
			[]string{"EPERM", "EPERM", "ok", "ok"},
			[]string{"ok", "ok", "ENOENT", "EEXIST"},
		},
		{
			"EROFS for the workspace", and(small, spec.World{
				"ws/" + spec.StateDir: {Type: spec.TypeDir, Mode: 0o700},
			}),
			[]string{"f1 class=create under=ws errno=EROFS"},
			[]string{"f1"},
			[]string{create, call("create", "new"), call("create", spec.StateDir+"/new")},
			[]string{"EROFS", "EROFS", "ok"},
			[]string{"ok", "ok", "EEXIST"},
		},
		{
			"two for one directory", small,
			[]string{"f1 class=create under=ws/d errno=EACCES", "f2 class=remove under=ws/d errno=EPERM"},
			[]string{"f1"}, // the kernel would answer both in one way
			[]string{create, remove},
			[]string{"EACCES", "EACCES"},
			[]string{"ok", "ok"},
		},
		{
			"two the other way round", small,
			[]string{"f1 class=create under=ws/d errno=EPERM", "f2 class=remove under=ws/d errno=EACCES"},
			[]string{"f1"},
			[]string{create, remove},
			[]string{"EPERM", "EPERM"},
			[]string{"ok", "ok"},
		},
		{
			"one below the other", small,
			[]string{"f1 class=create under=ws errno=EROFS", "f2 class=create under=ws/d errno=EACCES"},
			[]string{"f1"},
			[]string{create, call("create", "new")},
			[]string{"EROFS", "EROFS"},
			[]string{"ok", "ok"},
		},
		{
			"one above the other", small,
			[]string{"f1 class=create under=ws/d errno=EACCES", "f2 class=create under=ws errno=EROFS"},
			[]string{"f1"},
			[]string{create, call("create", "new")},
			[]string{"EACCES", "ok"},
			[]string{"ok", "EEXIST"},
		},
		{
			"on what refuses already", immutable,
			[]string{"f1 class=create under=ws/d errno=EACCES", "f2 class=remove under=ws/d errno=EPERM"},
			nil,
			[]string{create, remove},
			[]string{"EPERM", "EPERM"},
			[]string{"EPERM", "EPERM"},
		},
		{
			"on what is read-only already", readOnly,
			[]string{"f1 class=create under=ws/d errno=EACCES", "f2 class=remove under=ws/d errno=EPERM", "f3 class=modify under=ws/d errno=EROFS"},
			nil,
			[]string{create, remove, modify},
			[]string{"EROFS", "EROFS", "EROFS"},
			[]string{"EROFS", "EROFS", "EROFS"},
		},
		{
			"on what may not be written already", and(small, refused),
			[]string{"f1 class=create under=ws/d errno=EACCES"},
			[]string{"f1"},
			[]string{create, remove, modify},
			[]string{"EACCES", "EACCES", "ok"},
			[]string{"EACCES", "EACCES", "ok"},
		},
		{
			"a mount point", bound, nil, nil,
			[]string{modify, remove, call("rename", "d/f", "d/g"), create},
			[]string{"ok", "EBUSY", "EBUSY", "ok"},
			nil,
		},
		{
			"what no kernel can be asked for", small,
			[]string{
				"f1 class=create under=ws/d nth=1 errno=EACCES", "f2 class=create under=ws/d name=x errno=EACCES",
				"f3 op=mkdir under=ws/d errno=EACCES", "f4 class=create errno=EACCES", "f5 class=flush under=ws/d errno=EIO",
				"f6 class=create under=ws/gone errno=EACCES", "f7 class=create under=ws/f errno=EACCES",
				"f8 after class=create under=ws/d errno=EACCES", "f9 class=read under=ws/d errno=EACCES",
			},
			nil,
			[]string{create, remove},
			[]string{"ok", "ok"},
			[]string{"EEXIST", "ENOENT"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if os.Geteuid() != 0 && slices.Contains(tc.want, "EPERM") {
				t.Skip("EPERM comes of the immutable flag, which takes root")
			}
			box := newBox(t, newLab(t), tc.world)
			a := arm(t, box, tc.plan...)
			if !slices.Equal(watched(a), tc.kernel) {
				t.Errorf("left to the kernel: %v, want %v", watched(a), tc.kernel)
			}
			sees(t, box, tc.world)
			if got := child(t, a, inRoot(box, tc.calls)...); !slices.Equal(got, tc.want) {
				t.Errorf("the kernel said %v, want %v", got, tc.want)
			}
			stop(t, a)
			if tc.after == nil {
				return
			}
			if got := child(t, a, inRoot(box, tc.calls)...); !slices.Equal(got, tc.after) {
				t.Errorf("after Stop the kernel said %v, want %v", got, tc.after)
			}
		})
	}
}

// inRoot makes paths of calls those of the sandbox.
func inRoot(box *Sandbox, calls []string) []string {
	var out []string
	for _, c := range calls {
		parts := splitCall(c)
		for i := 1; i < len(parts); i++ {
			if parts[i][0] != '0' {
				parts[i] = filepath.Join(box.Root(), parts[i])
			}
		}
		out = append(out, call(parts...))
	}
	return out
}

// TestNoWayOut has a subject try to undo a mount in namespaces of its own.
func TestNoWayOut(t *testing.T) {
	alsoAsUser(t)
	box := newBox(t, newLab(t), small)
	a := arm(t, box, "f1 class=create under=ws/d errno=EROFS")
	if len(watched(a)) == 0 {
		t.Skip("there are no mounts here")
	}
	got := child(t, a, call("escape", box.Root()+"/d"))[0]
	if got != "no namespace" && got != `["EPERM","EINVAL","EROFS"]` {
		t.Errorf("remount, unmount and create: %s", got)
	}
	if os.Geteuid() != 0 && got != "no namespace" {
		t.Log("this system lets an ordinary user's subject make namespaces of users")
	}
	sees(t, box, small)
	stop(t, a)
}

func TestAnUndoneDenialShows(t *testing.T) {
	alsoAsUser(t)
	for _, mode := range []string{"0755", "0777", "0", "0555"} {
		box := newBox(t, newLab(t), small)
		a := arm(t, box, "f1 class=create under=ws/d errno=EACCES")
		calls := inRoot(box, []string{call("chmod", "d", mode), call("create", "d/new")})
		child(t, a, calls...)
		got := observe(t, box)["ws/d"].Mode
		if changed := got != 0o755; changed != (mode != "0555") {
			t.Errorf("after chmod %s the directory shows mode %s", mode, got)
		}
		stop(t, a)
		got = observe(t, box)["ws/d"].Mode
		if undone := got == 0o755; undone != (mode == "0555" || mode == "0755") {
			t.Errorf("after chmod %s and Stop the directory has mode %s", mode, got)
		}
	}
}

// TestABenchThatChangesWhatIsPrepared does to a prepared directory what brokers
// and adversaries do.
func TestABenchThatChangesWhatIsPrepared(t *testing.T) {
	alsoAsUser(t)
	landed := spec.World{
		"ws/d/n":   {Type: spec.TypeDir, Mode: 0o755},
		"ws/d/n/x": {Type: spec.TypeFile, Mode: 0o644, Content: spec.Content("new")},
	}
	moved := spec.World{
		"ws":     small["ws"],
		"ws/f":   small["ws/f"],
		"ws/m":   small["ws/d"],
		"ws/m/f": small["ws/d/f"],
		"ws/m/e": small["ws/d/e"],
	}
	for _, plan := range []string{
		"f1 class=create under=ws/d errno=EACCES", "f1 class=create under=ws/d errno=EPERM", "f1 class=create under=ws/d errno=EROFS",
	} {
		for _, tc := range []struct {
			name string
			do   func(box *Sandbox) error
			want spec.World
			path string // of what is refused
		}{
			{"land", func(box *Sandbox) error {
				r := spec.WriteRequest{Content: spec.Content("new")}
				r.Dst = box.Root() + "/d/n/x"
				return box.Land(r)
			}, and(small, landed), "d/new"},
			{"chmod", func(box *Sandbox) error {
				return box.Edit(spec.Edit{Op: spec.EditChmod, Path: "ws/d", Mode: 0o777})
			}, and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o777}}), "d/new"},
			{"chmod to what it is", func(box *Sandbox) error {
				return box.Edit(spec.Edit{Op: spec.EditChmod, Path: "ws/d", Mode: 0o555})
			}, and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o555}}), "d/new"},
			{"rename", func(box *Sandbox) error {
				return box.Edit(spec.Edit{Op: spec.EditRename, Path: "ws/d", To: "ws/m"})
			}, moved, "m/new"},
			{"replace", func(box *Sandbox) error {
				if err := box.Edit(spec.Edit{Op: spec.EditRename, Path: "ws/d", To: "ws/m"}); err != nil {
					return err
				}
				return box.Edit(spec.Edit{Op: spec.EditMkdir, Path: "ws/d", Mode: 0o555})
			}, and(moved, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o555}}), "m/new"},
			{"remove", func(box *Sandbox) error {
				return box.Edit(spec.Edit{Op: spec.EditRemove, Path: "ws/d"})
			}, spec.World{"ws": small["ws"], "ws/f": small["ws/f"]}, ""},
		} {
			t.Run(tc.name, func(t *testing.T) {
				t.Run(plan, func(t *testing.T) {
					box := newBox(t, newLab(t), small)
					a := arm(t, box, plan)
					if len(watched(a)) == 0 {
						t.Skip("this kernel, or this user, cannot be made to refuse so")
					}
					before := a.Child() // a subject that is started again is started so
					if err := tc.do(box); err != nil {
						t.Fatal(err)
					}
					sees(t, box, tc.want)
					if tc.path != "" {
						got := start(t, before, inRoot(box, []string{call("create", tc.path)})...)
						if got[0] == "ok" {
							t.Errorf("it is refused no more")
						}
					}
					stop(t, a)
					sees(t, box, tc.want)
				})
			})
		}
	}
}

func TestStopLeavesNothingOpen(t *testing.T) {
	l := newLab(t)
	box := newBox(t, l, and(small, spec.World{"ws/d": {Type: spec.TypeDir, Mode: 0o755, Mount: spec.MountBind}}))
	before := descriptors(t)
	for range 10 {
		a := arm(t, box, "f1 class=create under=ws errno=EACCES", "f2 class=create under=ws/d errno=EROFS", "f3 class=create under=ws/d/e errno=EPERM")
		stop(t, a)
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were left open", after-before)
	}
}
