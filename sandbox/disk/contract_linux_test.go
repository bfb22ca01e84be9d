package disk

import (
	"errors"
	"os"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	skipped, err := sandboxtest.TestSandbox(func() (sandbox.Sandbox, error) { return l.New() })
	if err != nil {
		t.Error(err)
	}
	for _, s := range skipped {
		t.Log("skipped:", s)
	}
	if powersOf(l) == powersOf(&Lab{other: 1}) && len(skipped) > 0 {
		t.Error("root can bring all of it about")
	}
}

// powersOf says what can be built here; flags and mounts depend on more than the
// user, and are tried by building.
func powersOf(l *Lab) sandboxtest.Powers {
	root := os.Geteuid() == 0
	return sandboxtest.Powers{Owners: l.other >= 0, Flags: root, Mounts: l.mount == nil || l.cannotMount() == nil}
}

func TestRoundTrip(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	powers := powersOf(l)
	before := descriptors(t)
	rapid.Check(t, func(t *rapid.T) {
		w := sandboxtest.World(powers).Draw(t, "world")
		box, err := l.New()
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(w.Check(), sandboxtest.RoundTrip(box, w))
		if err = errors.Join(err, box.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were left open", after-before)
	}
	entries, err := os.ReadDir(l.Dir)
	left := slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == contentName || e.Name() == markerName })
	if err != nil || len(left) > 0 {
		t.Errorf("closed sandboxes left %v (%v)", left, err)
	}
}

// TestMemoryAndDiskAgree takes the same steps in memory, where the tree is data,
// and on disk, where the kernel has its say.
func TestMemoryAndDiskAgree(t *testing.T) {
	alsoAsUser(t)
	l := newLab(t)
	powers := powersOf(l)
	before := descriptors(t)
	rapid.Check(t, func(t *rapid.T) {
		w := sandboxtest.World(powers).Draw(t, "world")
		steps := sandboxtest.Steps(w).Draw(t, "steps")
		box, err := l.New()
		if err != nil {
			t.Fatal(err)
		}
		err = sandboxtest.Agree(mem.New(), box, w, steps)
		if err = errors.Join(err, box.Close()); err != nil {
			t.Fatal(err)
		}
	})
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors were left open", after-before)
	}
}
