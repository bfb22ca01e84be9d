package osfs

import (
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"
)

// The races of TestCloseRaces come out well by luck most of the time. This is
// the one interleaving that matters, step by step.
func TestDescriptorOutlivesClose(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	h := &handle{name: "d", fd: fd}
	open := func() bool { _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); return err == nil }

	for range 2 { // two uses
		if _, err := h.enter(); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if !open() {
		t.Fatal("Close gave the number back while it was in use")
	}
	if _, err := h.enter(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("a new use after Close = %v, want fs.ErrClosed", err)
	}
	if err := h.leave(); err != nil || !open() {
		t.Fatalf("the last use but one gave the number back, or failed: %v", err)
	}
	if err := h.leave(); err != nil || open() {
		t.Fatalf("the last use did not give the number back, or failed: %v", err)
	}
	if err := h.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Close = %v, want fs.ErrClosed", err)
	}
}
