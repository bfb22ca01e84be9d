package mem_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/mem"
	"github.com/fsbench/fsbench/sandbox/sandboxtest"
)

func TestContract(t *testing.T) {
	skipped, err := sandboxtest.TestSandbox(func() (sandbox.Sandbox, error) { return mem.New(), nil })
	if err != nil {
		t.Error(err)
	}
	for _, s := range skipped {
		t.Errorf("nothing is beyond memory: %s", s)
	}
}

func TestRoundTrip(t *testing.T) {
	worlds := sandboxtest.World(sandboxtest.Powers{Owners: true, Flags: true, Mounts: true})
	rapid.Check(t, func(t *rapid.T) {
		w := worlds.Draw(t, "world")
		if err := errors.Join(w.Check(), sandboxtest.RoundTrip(mem.New(), w)); err != nil {
			t.Fatal(err)
		}
	})
}
