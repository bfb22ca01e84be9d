package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// Spool is a folder of the runner's for content that is too large for a line.
// It makes the folder when it first needs it.
type Spool struct {
	parent string // where the folder is made; empty for the system's own place

	mu    sync.Mutex
	dir   string
	files map[string]bool
}

// NewSpool returns a Spool whose folder will be made in parent. Children must
// be able to read there; they need not, and should not, be able to write.
func NewSpool(parent string) *Spool {
	return &Spool{parent: parent, files: map[string]bool{}}
}

// Carry is the Carrier for what the runner sends.
func (s *Spool) Carry(content []byte) (Content, error) {
	if len(content) <= MaxInline {
		return Inline(content)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.open(); err != nil {
		return Content{}, err
	}
	path := filepath.Join(s.dir, strconv.Itoa(len(s.files)+1))
	if err := os.WriteFile(path, content, 0o444); err != nil {
		return Content{}, fmt.Errorf("content for the child: %w", err)
	}
	s.files[path] = true
	return Content{File: path}, nil
}

func (s *Spool) open() error {
	if s.dir != "" {
		return nil
	}
	dir, err := os.MkdirTemp(s.parent, "fsbench-content-")
	if err != nil {
		return fmt.Errorf("folder for content: %w", err)
	}
	s.dir = dir
	return os.Chmod(dir, 0o755) // the child may run as somebody else
}

// Read returns the content of a file that Carry made, and refuses any other: a
// child that could name a file of its choice would have the runner, which may
// read everything, land a secret in the child's own tree.
func (s *Spool) Read(path string) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.files[path] {
		return nil, errors.New("want a file that the runner handed out")
	}
	return os.ReadFile(path)
}

// Close removes the folder.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dir == "" {
		return nil
	}
	err := os.RemoveAll(s.dir)
	s.dir, s.files = "", map[string]bool{}
	return err
}

// ReadFile is what a child reads a content file with.
func ReadFile(path string) ([]byte, error) {
	if !filepath.IsAbs(path) {
		return nil, errors.New("want an absolute path")
	}
	return os.ReadFile(path)
}
