//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults/supervisor"
	"github.com/fsbench/fsbench/spec"
)

// TestLeft: what a call leaves open is told, of all processes, and what was open before
// it is not, whatever that is called by then.
func TestLeft(t *testing.T) { inEachEngine(t, left) }

func left(t *testing.T, e supervisor.Engine) {
	t.Helper()
	plan := ""
	if e == supervisor.Ptrace {
		plan = "f1 after class=create name=refused errno=EIO"
	}
	l, err := newLabOf(t, e, plan)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", `while read -r line; do eval "$line"; echo done; done`)
	cmd.Dir = filepath.Join(l.base, "ws")
	if err := l.sup.Wrap(cmd); err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewScanner(out)
	call := spec.CallID(0)
	for _, tt := range []struct {
		does  string
		moved bool // the file is called otherwise by the time of the answer
		want  []string
	}{
		{does: "exec 3<a; exec 3<&-"},
		{does: "exec 3<a 4<a 5<d 6<. 7</dev/null", want: []string{"ws/a", "ws/a", "ws/d"}},
		{does: "exec 4<&- 5<&-"},
		{does: "true", moved: true},
		{does: "exec 4<d/moved", want: []string{"ws/d/moved"}},
		{does: "exec 3<&- 4<&- 8<d; sleep 86400 >/dev/null & exec 8<&-", want: []string{"ws/d"}},
		{does: "kill $!; wait"},
		{does: "true >refused"},                                // it was told so, and has nothing to close
		{does: "exec 3<d; echo done; read -r line; exec 3<&-"}, // it tidies up after its answer
	} {
		call++
		l.sup.Begin(call)
		if tt.moved {
			if err := os.Rename(filepath.Join(l.base, "ws/a"), filepath.Join(l.base, "ws/d/moved")); err != nil {
				t.Fatal(err)
			}
		}
		fmt.Fprintln(in, tt.does)
		if !answers.Scan() {
			t.Fatalf("%s: no answer", tt.does)
		}
		if tt.does == "exec 3<d; echo done; read -r line; exec 3<&-" {
			fmt.Fprintln(in)
		}
		if diff := cmp.Diff(tt.want, l.sup.Left()); diff != "" {
			t.Errorf("%s: left open (-want +got):\n%s", tt.does, diff)
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if got := l.sup.Left(); got != nil {
		t.Errorf("it has ended and left %q open", got)
	}
}
