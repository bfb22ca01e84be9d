package tools

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"syscall"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// version digests a file's identity and its bytes. Times are left out: a clock's
// grain hides a change, and a touch is none (AT-010).
func version(id vfs.ID, content []byte) string {
	h := sha256.New()
	var ident [16]byte
	binary.BigEndian.PutUint64(ident[:8], id.Dev)
	binary.BigEndian.PutUint64(ident[8:], id.Ino)
	h.Write(ident[:])
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// same is the cheap comparison of two looks at one entry.
func same(seen, now vfs.Info) bool {
	return seen.ID == now.ID && seen.Size == now.Size && seen.Mode == now.Mode && seen.Mtime.Equal(now.Mtime)
}

func conflict(text string) error { return &refused{kind: spec.ErrConflict, text: text} }

// snapshot is a regular file as it was read.
type snapshot struct {
	file    vfs.File // open for reading; the caller closes it
	info    vfs.Info
	content []byte
}

func (s *snapshot) close() { _ = s.file.Close() } // read only: nothing to lose

// load reads the regular file at place as one consistent state.
func (k *call) load(place vfs.Place) (*snapshot, error) {
	f, err := place.Dir.OpenFile(place.Name, vfs.ReadOnly|vfs.NonBlock, 0)
	if err != nil {
		return nil, k.unseen(place, err)
	}
	s := &snapshot{file: f}
	if err := s.fill(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *snapshot) fill() (err error) {
	if s.info, err = s.file.Stat(); err != nil {
		return err
	}
	if !s.info.Mode.IsRegular() {
		return notRegular()
	}
	if s.info.Size > MaxContent {
		return &refused{kind: spec.ErrFileTooBig, text: "the file is larger than a call may read"}
	}
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(s.file, MaxContent+1)); err != nil {
		return err
	}
	s.content = b.Bytes()
	now, err := s.file.Stat()
	if err != nil {
		return err
	}
	if !same(s.info, now) || int64(len(s.content)) != s.info.Size {
		return conflict("the file changed while it was read")
	}
	return nil
}

func notRegular() error {
	return &refused{kind: spec.ErrUnsupported, text: "not a regular file"}
}

// unseen tells a file that may not be opened from one that may not even be
// looked at: the latter must never pass for absent (PR-008).
func (k *call) unseen(place vfs.Place, err error) error {
	if kindOf(err) != spec.ErrAccess {
		return err
	}
	if _, lookErr := place.Dir.Lstat(place.Name); lookErr != nil {
		return &refused{kind: spec.ErrInspect, text: "cannot look at the target", err: err}
	}
	return err
}

// blocked turns a directory that may not be searched, on the way to the target,
// into what it means for the target.
func blocked(err error) error {
	var we *vfs.WalkError
	if errors.As(err, &we) && errors.Is(we.Err, syscall.EACCES) {
		return &refused{kind: spec.ErrInspect, text: "cannot look at the target", err: err}
	}
	return err
}
