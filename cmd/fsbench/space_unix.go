//go:build linux || darwin

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

func spaceOf(dir string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return space{}, fmt.Errorf("report folder: %w", err)
	}
	block := uint64(st.Bsize) //nolint:unconvert // its type is not the same everywhere
	return space{left: uint64(st.Bavail) * block, all: st.Blocks * block}, nil
}
