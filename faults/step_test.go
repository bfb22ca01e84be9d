package faults_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// keys returns the keys of the steps so far.
func (r *rig) keys() []string {
	var out []string
	for _, s := range r.armed.Steps() {
		out = append(out, s.Key)
	}
	return out
}

func TestStepsAreNamed(t *testing.T) {
	r := newRig(t, `f step="0 lstat read ws/a 2" errno=EIO`, nil)
	for _, name := range []string{"a", "l", "a", "a", spec.StateDir} {
		_, _ = r.ws.Lstat(name)
	}
	want := []string{"0 lstat read ws/a 1", "0 lstat read ws/l 1", "0 lstat read ws/a 2", "0 lstat read ws/a 3"}
	if diff := cmp.Diff(want, r.keys()); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"f: lstat read ws/a EIO by synthetic"}, r.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// TestStepsOfAShortWrite: the write is one step, however it is looked at.
func TestStepsOfAShortWrite(t *testing.T) {
	r := newRig(t, `f op=write step="0 write modify ws/a 1" short=1`, nil)
	f, err := r.ws.OpenFile("a", vfs.WriteOnly, 0)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write([]byte("new")); n != 1 || err == nil {
		t.Errorf("Write = %d, %v, want 1 and an error", n, err)
	}
	if got := r.content("ws/a"); got != "nld" {
		t.Errorf("content is %q, want nld", got)
	}
}

func TestStepsAreOnlyCountedIfAskedFor(t *testing.T) {
	r := newRig(t, "f op=lstat nth=2 errno=EIO", nil)
	_, _ = r.ws.Lstat("a")
	if got := r.keys(); got != nil {
		t.Errorf("Steps = %q, want none", got)
	}
}

func TestSwapAtTheStep(t *testing.T) {
	r := newRig(t, "f step=\"0 lstat read ws/d/x 1\" swap\n\tremove \"{step}\"\n\trename \"{parent}\" to=\"{parent}.away\"", nil)
	_, _ = r.d.Lstat("x")
	want := []string{"f: lstat read ws/d/x swap by synthetic", "edit rename ws/d to=ws/d.away"}
	if diff := cmp.Diff(want, r.told()); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
	got := faults.AtStep(spec.Edit{Op: spec.EditHardlink, Path: "{step}", To: "{parent}/y"}, "ws/d/x")
	if want := (spec.Edit{Op: spec.EditHardlink, Path: "ws/d/x", To: "ws/d/y"}); !cmp.Equal(got, want) {
		t.Errorf("AtStep = %+v, want %+v", got, want)
	}
}
