package disk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
)

// elsewhere is a folder that is not among those for temporary files.
func elsewhere(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(".", "fsbench-test-") //nolint:usetesting // that would be one for temporary files
	if err != nil {
		t.Skip("this user may make no folder here: ", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	dir, err = filepath.Abs(dir)
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	if err == nil {
		err = reachable(dir)
	}
	if err != nil {
		t.Skip(err)
	}
	return dir
}

// TestTheOwnTreeOnly expects that a subject finds its own tree where the bench says
// that it is, and no other tree, wherever sandboxes are made.
func TestTheOwnTreeOnly(t *testing.T) {
	alsoAsUser(t)
	for name, parent := range map[string]func(*testing.T) string{
		"in a folder for temporary files": publicDir,
		"elsewhere":                       elsewhere,
	} {
		t.Run(name, func(t *testing.T) {
			l, err := NewLab(parent(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			})
			if shared := l.subject().Shares(); shared != "" || l.cannot != nil {
				t.Skip(shared, l.cannot)
			}
			box, beside := newBox(t, l, small), newBox(t, l, small)
			long := filepath.Join(l.Content, "1")
			if err := os.WriteFile(long, []byte("content"), 0o444); err != nil {
				t.Fatal(err)
			}
			a := arm(t, box)
			got := child(
				t, a, call("read", box.Root()+"/f"), call("create", box.Root()+"/new"), call("read", beside.Root()+"/f"),
				call("create", beside.Root()+"/new"), call("read", long), call("write", long), call("create", l.Content+"/new"),
				call("read", filepath.Dir(box.base)+"/"+ownName), call("rename", box.base, filepath.Dir(box.base)+"/moved"),
				call("read", l.Dir+"/"+markerName),
			)
			want := []string{"ok", "ok", "ENOENT", "ENOENT", "ok", "EACCES", "EROFS", "ENOENT", "EBUSY", "ENOENT"}
			if refused := got[8]; os.Geteuid() == 0 && (refused == "EACCES" || refused == "EROFS") {
				want[8] = refused // by the folder's mode, or before that by the host that it lies in
			}
			if !slices.Equal(got, want) {
				t.Errorf("the subject's calls ended %v, want %v", got, want)
			}
			stop(t, a)
		})
	}
}

// TestAdmit has a stranger in: it gets what it needs, and not more.
func TestAdmit(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	home := filepath.Join(publicDir(t), "home")
	if err := errors.Join(os.Mkdir(home, 0o755), os.Mkdir(home+"/server", 0o755), os.Mkdir(home+"/server/report", 0o755)); err != nil {
		t.Fatal(err)
	}
	write(t, home+"/secret", "secret")
	write(t, home+"/server/run", "echo $0 $WHO; cat \"$1\"/f; ls "+home+" "+home+"/server/report")
	write(t, home+"/server/report/r", "r")
	t.Setenv("HOME", home)
	argv := []string{"/bin/sh", home + "/server/run", "{root}"}
	read, err := jail.Needs(argv, "/")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Foreign{{Read: []string{home}}, {Read: read, Hide: []string{home + "/server"}}, {Hide: []string{home + "/gone"}}} {
		if err := l.Admit(bad); err == nil {
			t.Errorf("%+v was admitted", bad)
		}
	}
	err = l.Admit(Foreign{Read: read, Hide: []string{home + "/server/report"}, Env: append(jail.Environment(), "WHO=stranger")})
	if errors.Is(err, sandbox.ErrCannot) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := l.Admit(Foreign{}); err != nil { // another, who takes nothing away from the first
		t.Fatal(err)
	}
	box := newBox(t, l, small)
	a := arm(t, box)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1], box.Root())
	if err := a.Child().Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	want := home + "/server/run stranger\nf" + home + ":\nserver\n\n" + home + "/server/report:\n"
	if err != nil || string(out) != want {
		t.Errorf("it said (%v)\n%s\nwant\n%s", err, out, want)
	}
	stop(t, a)
}

// TestWhereNothingCanBeHidden expects that nobody is let in whom nobody vouches for.
func TestWhereNothingCanBeHidden(t *testing.T) {
	l := newLab(t)
	l.open = true
	err := l.Admit(Foreign{})
	if !errors.Is(err, sandbox.ErrCannot) || l.cannot == nil && !strings.Contains(err.Error(), "the host's files") {
		t.Errorf("admitted with %v", err)
	}
}
