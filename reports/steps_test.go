package reports_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/reports"
	"github.com/fsbench/fsbench/spec"
)

func TestWriteSteps(t *testing.T) {
	steps := []faults.Step{{Key: "1/0 openat ws/new1 1"}, {Key: "1/0 read ws/f 1"}, {Key: "1/0 rename ws/f ws/new1 1"}}
	records := []faults.Record{{
		Mutations: []faults.Mutation{
			{Key: "0/0 mkdir ws/d 1", Do: faults.ChangeMake, Path: "ws/d", Type: spec.TypeDir, Mode: 0o755},
			{Key: "1/0 openat ws/new1 1", Do: faults.ChangeMake, Path: "ws/\x1b[2J\n", Type: spec.TypeFile, Mode: 0o600, Result: 4},
			{Key: "1/0 openat ws/new1 1", Do: faults.ChangeResize, Path: "ws/t", Size: 0},
			{Key: "1/0 rename ws/f ws/new1 1", Do: faults.ChangeRename, Path: "ws/f", At: faults.Entry{Name: "t"}, To: faults.Entry{Name: "f"}},
		},
		Gaps: []faults.Gap{{Path: "ws/m", Reason: "it is mapped for writing"}, {Reason: "a\nb"}},
	}, {
		Mutations: []faults.Mutation{{Key: "aside write 1", Do: faults.ChangeWrite, Path: "ws/f", Off: 3, Data: spec.Content("two\nlines"), Result: 9}},
	}}
	want := `step  1/0 openat ws/new1 1                      make "ws/\x1b[2J\n" type=file mode=0600 result=4
step  1/0 openat ws/new1 1                      resize ws/t size=0
step  1/0 read ws/f 1
step  1/0 rename ws/f ws/new1 1                 rename ws/f from=t to=f
step  0/0 mkdir ws/d 1                          make ws/d type=dir mode=0755
step  aside write 1                             write ws/f off=3 content="two\nlines" result=9
record incomplete for ws/m: it is mapped for writing
record incomplete for the tree: a\nb
`
	var b strings.Builder
	if err := reports.WriteSteps(&b, steps, records); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, do := range faults.Changes { // whatever is recorded can be told
		b.Reset()
		err := reports.WriteSteps(&b, nil, []faults.Record{{Mutations: []faults.Mutation{{Key: "k", Do: do}}}})
		if err != nil || !strings.Contains(b.String(), string(do)) {
			t.Errorf("%s is told as %q, %v", do, b.String(), err)
		}
	}
}
