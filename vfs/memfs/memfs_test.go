package memfs_test

import (
	"testing"

	"github.com/fsbench/fsbench/vfs/memfs"
	"github.com/fsbench/fsbench/vfs/vfstest"
)

func TestConformance(t *testing.T) {
	for name, cred := range map[string]memfs.Cred{
		"root": {Umask: 0o022}, "user": {UID: 1000, GID: 1000, Umask: 0o022},
	} {
		t.Run(name, func(t *testing.T) {
			if err := vfstest.TestFS(memfs.New(cred).As(cred), "/"); err != nil {
				t.Error(err)
			}
		})
	}
}
