package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fsbench/fsbench/sandbox/jail"
	"github.com/fsbench/fsbench/spec"
)

// cacheName is the folder of a lab for what subjects were prepared with.
const cacheName = "cache"

// mostReady bounds how long it takes to prepare a subject.
const mostReady = 15 * time.Minute

// Prepare runs a line of shell before there are any subjects, and returns the folder
// that it has filled: it is started there, and may write nowhere else. It has the
// network. Subjects find the folder at the same place, and cannot write it.
//
// The line is as strange as what it fetches, and confined as a subject is otherwise. f
// says what it may see.
func (l *Lab) Prepare(ctx context.Context, line string, f Foreign) (cache string, err error) {
	cache = filepath.Join(l.Dir, cacheName)
	if err := os.Mkdir(cache, 0o755); err != nil {
		return "", fmt.Errorf("prepare: %w", err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(cache, l.UID, l.GID); err != nil {
			return "", fmt.Errorf("prepare: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, mostReady)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", strings.ReplaceAll(line, "{cache}", cache))
	cmd.Dir = cache
	cmd.WaitDelay = time.Second
	var said tail
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := l.preparing(cache, f).Wrap(cmd); err != nil {
		return "", fmt.Errorf("prepare: %w", err)
	}
	runtime.LockOSThread() // it dies with the thread that has started it
	defer runtime.UnlockOSThread()
	switch err := cmd.Run(); {
	case ctx.Err() != nil && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return "", fmt.Errorf("prepare %q: not done after %v", line, mostReady)
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil:
		return "", fmt.Errorf("prepare %q: %w: %s", line, err, said.line())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cache = cache
	return cache, nil
}

func (l *Lab) preparing(cache string, f Foreign) jail.Spec {
	s := l.subject()
	s.Network = true
	s.Env = slices.DeleteFunc(slices.Clone(f.Env), func(e string) bool { return strings.HasPrefix(e, "HOME=") })
	s.Env = append(s.Env, "HOME="+cache) // where package managers keep what they fetch
	s.Read = f.Read
	if !l.open {
		s.Hide = append([]string{l.Dir}, f.Hide...)
		s.Mounts = []jail.Mount{{Path: cache}}
	}
	return s
}

// tail keeps the end of what was written to it.
type tail struct{ b []byte }

// mostTail is how much of it, in bytes.
const mostTail = 4096

// Write implements io.Writer.
func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	t.b = bytes.Clone(t.b[max(0, len(t.b)-mostTail):])
	return len(p), nil
}

// line is the last line that is not empty.
func (t *tail) line() string {
	lines := strings.Split(strings.TrimSpace(string(t.b)), "\n")
	last := strings.TrimSpace(lines[len(lines)-1])
	if last == "" {
		return "it said nothing"
	}
	return spec.Printable(last)
}
