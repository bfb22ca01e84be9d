//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults/supervisor"
)

// TestEffects: what strikes does so in each engine, and what an engine cannot bring about
// is not tried in it.
func TestEffects(t *testing.T) { inEachEngine(t, effects) }

func effects(t *testing.T, e supervisor.Engine) {
	t.Helper()
	for _, tt := range []struct {
		name, plan, script string

		out, state string
		tree       map[string]string // afterwards
		fired      []string
	}{
		{
			name: "an errno before", plan: `f op=rename class=create errno=EXDEV`, script: "perl -e 'rename q(a), q(b) or die qq($!\n)'",
			out: "Invalid cross-device link\n", state: "exit status 18", tree: map[string]string{"ws/a": "old"},
			fired: []string{"f rename create ws/b EXDEV synthetic"},
		},
		{
			name: "performed, and then refused", plan: `f after op=rename class=create errno=EIO`, script: "perl -e 'rename q(a), q(b) or die qq($!\n)'",
			out: "Input/output error\n", state: "exit status 5", tree: map[string]string{"ws/b": "old", "ws/a": "no such file or directory"},
			fired: []string{"f rename create ws/b EIO synthetic after"},
		},
		{
			name: "a short write", plan: `f op=write short=2`, script: "perl -e 'open F, q(>), q(b); print syswrite(F, q(hello))'",
			out: "2", state: "exit status 0", tree: map[string]string{"ws/b": "he"},
			fired: []string{"f write modify ws/b short synthetic"},
		},
		{
			name: "interrupted, and tried again", plan: "f op=write nth=1 errno=EINTR", script: "python3 -c 'import os; os.write(os.open(\"b\", 65), b\"hello\")'",
			state: "exit status 0", tree: map[string]string{"ws/b": "hello"},
			fired: []string{"f write modify ws/b EINTR synthetic", "f write modify ws/b again synthetic"},
		},
		{
			name: "interrupted, and left", plan: "f op=write nth=1 errno=EINTR", script: "perl -e 'open F, q(>), q(b); syswrite(F, q(hello)) or die qq($!\n)'",
			out: "Interrupted system call\n", state: "exit status 4", tree: map[string]string{"ws/b": ""},
			fired: []string{"f write modify ws/b EINTR synthetic"},
		},
		{
			name: "killed before", plan: `f op=remove crash`, script: "exec rm a",
			state: "exit status 137", tree: map[string]string{"ws/a": "old"}, fired: []string{"f remove remove ws/a crash synthetic"},
		},
		{
			name: "killed after", plan: `f after op=remove crash`, script: "exec rm a",
			state: "exit status 137", tree: map[string]string{"ws/a": "no such file or directory"},
			fired: []string{"f remove remove ws/a crash synthetic after"},
		},
		{
			name: "the parent becomes a link", plan: "f step=\"0/0 openat ws/d/b 1\" swap\n\trename ws/d to=ws/d.away\n\tsymlink ws/d to=../out",
			script: "echo new > d/b", state: "exit status 0", tree: map[string]string{"out/b": "new\n"},
			fired: []string{"f open-file create ws/d/b swap synthetic"},
		},
		{
			name: "outside the sandbox nothing strikes", plan: `f op=open-file errno=EIO under=ws`, script: "cat /etc/passwd >/dev/null",
			state: "exit status 0",
		},
		{
			name: "the k-th only", plan: `f op=open-file class=read nth=2 errno=EACCES under=ws`, script: "for i in 1 2 3; do cat a; done 2>&1",
			out: "oldcat: a: Permission denied\nold", state: "exit status 0", fired: []string{"f open-file read ws/a EACCES synthetic"},
		},
		{
			name: "in a grandchild", plan: `f op=mkdir errno=ENOSPC`, script: "(sh -c 'mkdir x; true') 2>/dev/null; ls -d x 2>/dev/null || echo none",
			out: "none\n", state: "exit status 0", fired: []string{"f mkdir create ws/x ENOSPC synthetic"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := newLabOf(t, e, tt.plan)
			if results := strings.Contains(tt.plan, "after") || strings.Contains(tt.plan, "short") || strings.Contains(tt.plan, "EINTR"); e == supervisor.Notify && results {
				if !errors.Is(err, supervisor.ErrCannot) || !strings.Contains(err.Error(), "sees no results: ") {
					t.Errorf("armed with %v, want that it cannot", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			out, state := l.run("/bin/sh", "-c", tt.script)
			if out != tt.out || state != tt.state {
				t.Errorf("printed %q and ended with %q, want %q and %q", out, state, tt.out, tt.state)
			}
			for name, want := range tt.tree {
				if got := l.content(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if diff := cmp.Diff(tt.fired, l.fired()); diff != "" {
				t.Errorf("fired (-want +got):\n%s", diff)
			}
		})
	}
}
