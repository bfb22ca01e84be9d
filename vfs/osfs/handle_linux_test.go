package osfs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/fsbench/fsbench/vfs"
	"github.com/fsbench/fsbench/vfs/osfs"
)

func openRoot(t *testing.T, dir string) vfs.Dir {
	t.Helper()
	root, err := osfs.New().OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	return root
}

func openFile(t *testing.T, d vfs.Dir, name string, flag vfs.Flag) vfs.File {
	t.Helper()
	f, err := d.OpenFile(name, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// race runs use in several goroutines, again and again until the handle is
// closed, and ends them by end.
func race(use, end func() error) error {
	const users = 4
	errs := make([]error, users+1)
	var started, done sync.WaitGroup
	started.Add(users)
	for i := range users {
		done.Go(func() {
			errs[i] = use()
			started.Done()
			for errs[i] == nil {
				errs[i] = use()
			}
			if errors.Is(errs[i], fs.ErrClosed) {
				errs[i] = nil
			}
		})
	}
	started.Wait()
	errs[users] = end()
	done.Wait()
	return errors.Join(errs...)
}

// The number of a closed descriptor goes to the next open. If a use could meet
// the newcomer, what is meant for "mine" would appear in "theirs".
func TestCloseRacesWithWrite(t *testing.T) {
	const mark = "mine\n"
	dir := t.TempDir()
	root := openRoot(t, dir)
	for range 40 {
		mine := openFile(t, root, "mine", vfs.WriteOnly|vfs.Create|vfs.Truncate)
		var theirs vfs.File
		write := func() error { _, err := mine.Write([]byte(mark)); return err }
		err := race(write, func() (err error) {
			if err = mine.Close(); err == nil {
				theirs, err = root.OpenFile("theirs", vfs.WriteOnly|vfs.Create, 0o600)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := write(); !errors.Is(err, fs.ErrClosed) {
			t.Fatalf("Write after Close = %v, want fs.ErrClosed", err)
		}
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]string{"mine": mark, "theirs": ""} {
			got, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			if strings.ReplaceAll(string(got), mark, "") != "" || want == "" && len(got) > 0 {
				t.Fatalf("content of %s = %q, want it made of %q", name, got, want)
			}
		}
	}
}

func TestCloseRacesWithDir(t *testing.T) {
	root := openRoot(t, t.TempDir())
	if err := errors.Join(root.Mkdir("mine", 0o700), root.Mkdir("theirs", 0o700)); err != nil {
		t.Fatal(err)
	}
	want, err := root.Lstat("mine")
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		mine, err := root.OpenDir("mine")
		if err != nil {
			t.Fatal(err)
		}
		var theirs vfs.Dir
		err = race(func() error {
			info, err := mine.Stat()
			if err == nil && info.ID != want.ID {
				return errors.New("an operation met the directory that was opened after Close")
			}
			return err
		}, func() (err error) {
			if err = mine.Close(); err == nil {
				theirs, err = root.OpenDir("theirs")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := theirs.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// An open of a FIFO waits for the other end. Neither the directory nor its
// Close may wait with it.
func TestFIFOWaits(t *testing.T) {
	dir := t.TempDir()
	d, err := osfs.New().OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	mkfifo(t, dir, "fifo")
	opened := make(chan error, 1)
	go func() {
		f, err := d.OpenFile("fifo", vfs.ReadOnly, 0)
		if err == nil {
			err = f.Close()
		}
		opened <- err
	}()
	other := openRoot(t, dir)
	writer := waitForReader(t, other, "fifo") // the open above is under way
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if err := <-opened; err != nil {
		t.Errorf("open of a FIFO with a writer: %v", err)
	}
	if err := writer.Close(); err != nil {
		t.Error(err)
	}
}

func TestFIFODoesNotBlock(t *testing.T) {
	dir := t.TempDir()
	root := openRoot(t, dir)
	mkfifo(t, dir, "fifo")
	for _, flag := range []vfs.Flag{vfs.Probe, vfs.WriteOnly | vfs.NonBlock} {
		if f, err := root.OpenFile("fifo", flag, 0); !errors.Is(err, syscall.ENXIO) {
			t.Errorf("OpenFile with %#x = %v, %v, want ENXIO without a reader", flag, f, err)
		}
	}
	if d, err := root.OpenDir("fifo"); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("OpenDir = %v, %v, want ENOTDIR", d, err)
	}
	info, err := root.Lstat("fifo")
	if err != nil || info.Mode != fs.ModeNamedPipe|0o600 {
		t.Errorf("Lstat = %v, %v, want a FIFO", info.Mode, err)
	}

	reader := openFile(t, root, "fifo", vfs.ReadOnly|vfs.NonBlock)
	defer reader.Close()
	if n, err := reader.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, syscall.EAGAIN) {
		t.Errorf("Read without a writer = %d, %v, want io.EOF", n, err)
	}
	writer := openFile(t, root, "fifo", vfs.Probe) // with a reader there, it would be let in
	defer writer.Close()
	if n, err := reader.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("Read with nothing written = %d, %v, want EAGAIN", n, err)
	}
	if _, err := writer.Seek(0, 0); !errors.Is(err, syscall.ESPIPE) {
		t.Errorf("Seek = %v, want ESPIPE", err)
	}
}
