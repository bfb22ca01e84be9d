//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/faults"
)

// eightWriters replaces eight files at once, on the threads of Node's pool.
const eightWriters = `
const fs = require('fs').promises;
Promise.all([...Array(8).keys()].map(async (i) => {
  const tmp = 'f' + i + '.' + Math.random().toString(36).slice(2);
  const h = await fs.open(tmp, 'wx');
  await h.writeFile('new ' + i);
  await h.sync();
  await h.close();
  await fs.rename(tmp, 'f' + i);
}));`

// TestOneOrder: threads that race take their steps in the same order in every run.
func TestOneOrder(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not there")
	}
	var first []string
	for run := range 6 {
		l := newLab(t, "")
		if out, state := l.run(node, "-e", eightWriters); state != "exit status 0" {
			t.Fatalf("%s: %s", state, out)
		}
		got := l.steps(faults.Create, faults.Modify, faults.Flush)
		for i := range 8 {
			if c := l.content(fmt.Sprintf("ws/f%d", i)); c != fmt.Sprintf("new %d", i) {
				t.Errorf("f%d is %q", i, c)
			}
		}
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("run %d takes another order (-first +this):\n%s", run+1, diff)
		}
	}
	if len(first) < 8*4 {
		t.Errorf("%d steps, want at least 32: %q", len(first), first)
	}
}
