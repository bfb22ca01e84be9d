package aferofs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/spf13/afero"

	"github.com/fsbench/fsbench/vfs"
)

func TestFacadePositions(t *testing.T) {
	s := newStage(t)
	f, err := s.Create("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	steps := []struct {
		what string
		do   func() (int, string, error)
		n    int
		text string
		err  error
	}{
		{"WriteString", func() (int, string, error) { n, err := f.WriteString("0123456789"); return n, "", err }, 10, "", nil},
		{"Seek", func() (int, string, error) { n, err := f.Seek(2, io.SeekStart); return int(n), "", err }, 2, "", nil},
		{"ReadAt", func() (int, string, error) { return read(func(p []byte) (int, error) { return f.ReadAt(p, 5) }, 3) }, 3, "567", nil},
		{"Read after ReadAt", func() (int, string, error) { return read(f.Read, 2) }, 2, "23", nil},
		{"ReadAt across the end", func() (int, string, error) { return read(func(p []byte) (int, error) { return f.ReadAt(p, 8) }, 5) }, 2, "89", io.EOF},
		{"ReadAt before the start", func() (int, string, error) { return read(func(p []byte) (int, error) { return f.ReadAt(p, -1) }, 1) }, 0, "", syscall.EINVAL},
		{"WriteAt", func() (int, string, error) { n, err := f.WriteAt([]byte("ab"), 0); return n, "", err }, 2, "", nil},
		{"Read after WriteAt", func() (int, string, error) { return read(f.Read, 2) }, 2, "45", nil},
		{"WriteAt past the end", func() (int, string, error) { n, err := f.WriteAt([]byte("z"), 12); return n, "", err }, 1, "", nil},
		{"Read to the end", func() (int, string, error) { return read(f.Read, 20) }, 7, "6789\x00\x00z", nil},
		{"Read at the end", func() (int, string, error) { return read(f.Read, 1) }, 0, "", io.EOF},
	}
	for _, step := range steps {
		n, text, err := step.do()
		if n != step.n || text != step.text || !errors.Is(err, step.err) {
			t.Errorf("%s = %d, %q, %v, want %d, %q, %v", step.what, n, text, err, step.n, step.text, step.err)
		}
	}
	if err := errors.Join(f.Truncate(3), f.Sync()); err != nil {
		t.Error(err)
	}
	info, err := f.Stat()
	if err != nil || info.Size() != 3 || info.Name() != "f" || time.Since(info.ModTime()).Abs() > time.Hour {
		t.Errorf("Stat = %+v, %v, want f of 3 bytes, modified about now", info, err)
	}
	if _, ok := info.Sys().(vfs.Info); !ok {
		t.Errorf("Sys = %T, want vfs.Info", info.Sys())
	}
	if _, err := f.Readdir(0); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Readdir of a file = %v, want ENOTDIR", err)
	}
	if _, err := f.Readdirnames(0); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("Readdirnames of a file = %v, want ENOTDIR", err)
	}
}

func read(from func(p []byte) (int, error), size int) (int, string, error) {
	p := make([]byte, size)
	n, err := from(p)
	return n, string(p[:n]), err
}

// While some read at a place of their own, the reader of the whole must not
// miss a byte.
func TestFacadeReadAtBesideRead(t *testing.T) {
	s := newStage(t)
	want := strings.Repeat("0123456789", 200)
	if err := afero.WriteFile(s, "f", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := s.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for range 100 {
				if _, text, err := read(func(p []byte) (int, error) { return f.ReadAt(p, 15) }, 4); text != "5678" || err != nil {
					t.Errorf("ReadAt = %q, %v", text, err)
				}
			}
		})
	}
	var got strings.Builder
	for {
		_, text, err := read(f.Read, 7)
		got.WriteString(text)
		if err != nil {
			break
		}
	}
	wg.Wait()
	if got.String() != want {
		t.Errorf("Read beside ReadAt gave %d bytes, want %d as they were written", got.Len(), len(want))
	}
}

func TestFacadeAppend(t *testing.T) {
	s := newStage(t, "f")
	f, err := s.OpenFile("f", os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, serr := f.Seek(0, io.SeekStart)
	_, werr := f.WriteString("+")
	_, aerr := f.WriteAt([]byte("x"), 0)
	if err := errors.Join(serr, werr, f.Close()); err != nil {
		t.Error(err)
	}
	if !errors.Is(aerr, fs.ErrInvalid) {
		t.Errorf("WriteAt in a file opened to append = %v, want fs.ErrInvalid", aerr)
	}
	if got, err := afero.ReadFile(s, "f"); string(got) != "f+" || err != nil {
		t.Errorf("content = %q, %v, want f+", got, err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Close = %v, want fs.ErrClosed", err)
	}
}

// An os.File goes on after a short write, and so tools expect it.
func TestFacadeShortWrite(t *testing.T) {
	s := newStage(t)
	s.cut = 3
	if err := afero.WriteFile(s, "f", []byte("0123456789"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := afero.ReadFile(s, "f"); string(got) != "0123456789" || err != nil {
		t.Errorf("content = %q, %v", got, err)
	}
}

func TestFacadeDirectory(t *testing.T) {
	s := newStage(t, "d/", "d/a", "d/b", "d/c/", "d/l => a")
	want := []string{"a", "b", "c", "l"}
	for _, name := range []string{"d", "d/"} {
		f, err := s.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // before and after Seek to the start
			var got []string
			for {
				names, err := f.Readdirnames(3)
				got = append(got, names...)
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil || len(names) == 0 {
					t.Fatalf("Readdirnames = %q, %v", names, err)
				}
			}
			slices.Sort(got)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("Readdirnames in portions (-want +got):\n%s", diff)
			}
			if rest, err := f.Readdirnames(0); len(rest) != 0 || err != nil {
				t.Errorf("Readdirnames(0) at the end = %q, %v", rest, err)
			}
			if _, err := f.Seek(0, io.SeekStart); err != nil {
				t.Error(err)
			}
		}
		infos, err := f.Readdir(-1)
		if err != nil {
			t.Error(err)
		}
		got := map[string]fs.FileMode{}
		for _, i := range infos {
			got[i.Name()] = i.Mode().Type()
		}
		wantTypes := map[string]fs.FileMode{"a": 0, "b": 0, "c": fs.ModeDir, "l": fs.ModeSymlink}
		if diff := gocmp.Diff(wantTypes, got); diff != "" {
			t.Errorf("Readdir (-want +got):\n%s", diff)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A directory is listed once and then handed out: what went in between is left
// out, and must not look like the end.
func TestFacadeReaddirSkipsRemoved(t *testing.T) {
	s := newStage(t, "d/", "d/a", "d/b", "d/c")
	f, err := s.Open("d")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(1)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, name := range []string{"a", "b", "c"} {
		if name != names[0] && last == "" {
			last = name
			if err := s.Remove("d/" + name); err != nil {
				t.Fatal(err)
			}
		}
	}
	infos, err := f.Readdir(1)
	if err != nil || len(infos) != 1 || infos[0].Name() == last {
		t.Errorf("Readdir(1) = %v, %v, want the entry that is left", infos, err)
	}
	if infos, err := f.Readdir(1); !errors.Is(err, io.EOF) {
		t.Errorf("Readdir(1) at the end = %v, %v, want io.EOF", infos, err)
	}
}

func TestFacadeDirectoryIsNoFile(t *testing.T) {
	s := newStage(t, "d/")
	for _, name := range []string{"d", "/"} {
		f, err := s.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if f.Name() != name {
			t.Errorf("Name = %q, want %q", f.Name(), name)
		}
		for _, tt := range []struct {
			what string
			do   func() error
			want error
		}{
			{"Read", func() error { return second(f.Read(make([]byte, 1))) }, syscall.EISDIR},
			{"ReadAt", func() error { return second(f.ReadAt(make([]byte, 1), 0)) }, syscall.EISDIR},
			{"Write", func() error { return second(f.Write([]byte("x"))) }, syscall.EBADF},
			{"WriteAt", func() error { return second(f.WriteAt([]byte("x"), 0)) }, syscall.EBADF},
			{"WriteString", func() error { return second(f.WriteString("x")) }, syscall.EBADF},
			{"Truncate", func() error { return f.Truncate(0) }, syscall.EINVAL},
			{"Seek", func() error { return second(f.Seek(1, io.SeekStart)) }, syscall.EINVAL},
			{"Sync", f.Sync, nil},
			{"Close", f.Close, nil},
			{"second Close", f.Close, fs.ErrClosed},
			{"Stat after Close", func() error { return second(f.Stat()) }, fs.ErrClosed},
			{"Readdirnames after Close", func() error { return second(f.Readdirnames(0)) }, fs.ErrClosed},
		} {
			if err := tt.do(); !errors.Is(err, tt.want) {
				t.Errorf("%s of %q = %v, want %v", tt.what, name, err, tt.want)
			}
		}
	}
	if _, err := s.Stat("/"); err != nil {
		t.Errorf("closing the root's file closed the root: %v", err)
	}
}
