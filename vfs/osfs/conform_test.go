package osfs_test

import (
	"testing"

	"github.com/fsbench/fsbench/vfs/osfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

func TestConforms(t *testing.T) {
	dir := t.TempDir()
	probed, err := osfs.Probe(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, note := range probed.Notes() {
		t.Log(note)
	}
	if err := vfstest.TestFS(probed, dir); err != nil {
		t.Error(err)
	}
}
