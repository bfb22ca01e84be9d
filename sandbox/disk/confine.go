package disk

import (
	"fmt"
	"slices"

	"github.com/fsbench/fsbench/sandbox"
	"github.com/fsbench/fsbench/sandbox/jail"
)

// contentName is the folder of a lab for what is too long for the protocol. No
// sandbox is called so: theirs are numbers.
const contentName = "content"

// Foreign says what a subject needs that this program did not bring along.
type Foreign struct {
	Read []string // of what is hidden from subjects; see jail.Needs
	Hide []string // files and folders that are hidden beside the usual ones
	Env  []string // the whole environment; see jail.Environment
}

// Admit lets subjects in that nobody vouches for. It fails with an error matching
// sandbox.ErrCannot where they could do harm: where the host's files cannot be
// hidden, or its processes and network not be kept from them. Subjects that are
// admitted to one lab see what any of them may read.
func (l *Lab) Admit(f Foreign) error {
	if l.cannot != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, l.cannot)
	}
	s := l.subject()
	if shared := s.Shares(); shared != "" {
		return fmt.Errorf("%w: a foreign subject would share with the bench %s", sandbox.ErrCannot, shared)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	both := Foreign{
		Read: union(l.foreign.Read, f.Read), Hide: union(l.foreign.Hide, f.Hide), Env: l.foreign.Env,
	}
	if f.Env != nil {
		both.Env = f.Env
	}
	s.Read, s.Hide = both.Read, both.Hide
	if err := s.Check(); err != nil {
		return err
	}
	l.foreign = both
	if l.groups == nil {
		l.groups, _ = jail.NewGroups(groupTag(l.Dir)) // an error is noted for whoever asks
	}
	return nil
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// Trust lets subjects in that somebody vouches for, where they cannot be confined: they
// see what the bench sees.
func (l *Lab) Trust(f Foreign) error {
	if l.cannot != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrCannot, l.cannot)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.foreign = Foreign{Env: f.Env}
	return nil
}

// subject is how every child is confined at least.
func (l *Lab) subject() jail.Spec {
	return jail.Spec{UID: l.UID, GID: l.GID, Umask: umask, Open: l.open, Env: environment}
}

// Cures says what keeps subjects from being confined here, or looked at, and what to
// do: a line each.
func (l *Lab) Cures() []string {
	s := l.subject()
	s.Open = false
	return s.Cures()
}

// choose finds out how well subjects can be confined. This program's own worker is
// run even where it could see the host's files; it does not look.
func (l *Lab) choose() {
	if l.cannot = l.subject().Possible(); l.cannot == nil {
		return
	}
	l.open = true
	l.cannot = l.subject().Possible()
}

// confine says how a child is confined whose tree is at base.
func (l *Lab) confine(base string) jail.Spec {
	s := l.subject()
	l.mu.Lock()
	f, cache := l.foreign, l.cache
	l.mu.Unlock()
	s.Read = f.Read
	if f.Env != nil {
		s.Env = f.Env
	}
	if !l.open {
		// The folder of sandboxes may lie where nothing else is hidden, and holds the
		// trees of others.
		s.Hide = append([]string{l.Dir}, f.Hide...)
		s.Mounts = []jail.Mount{{Path: l.Content, ReadOnly: true}, {Path: base}}
		if cache != "" {
			s.Mounts = append(s.Mounts, jail.Mount{Path: cache, ReadOnly: true})
		}
	}
	return s
}
