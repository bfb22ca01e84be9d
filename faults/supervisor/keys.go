package supervisor

import (
	"fmt"
	"maps"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// keys names the steps of a run so that the same step has the same name in the next
// run: process numbers do not occur in it, and names that the subject has thought
// of itself, which may be random, are numbered as they come.
type keys struct {
	call  spec.CallID // under way; 0 before the first
	known map[string]bool
	alias map[string]string
	seen  map[string]int
}

func newKeys(known []string) keys {
	k := keys{known: map[string]bool{".": true}, alias: map[string]string{}, seen: map[string]int{}}
	for _, name := range known {
		k.known[name] = true
	}
	return k
}

// begin numbers anew. What the subject did before the call, as when it started, is
// not the same in every run.
func (k *keys) begin(call spec.CallID) {
	k.call = call
	clear(k.alias)
	clear(k.seen)
}

// next returns the key of the next use of a call on paths by a process.
func (k *keys) next(role, call string, paths []string) string {
	what := k.what(role, call, paths)
	k.seen[what]++
	return fmt.Sprintf("%s %d", what, k.seen[what])
}

// ahead returns what next would return.
func (k *keys) ahead(role, call string, paths []string) string {
	alias := k.alias
	k.alias = maps.Clone(alias)
	defer func() { k.alias = alias }()
	what := k.what(role, call, paths)
	return fmt.Sprintf("%s %d", what, k.seen[what]+1)
}

func (k *keys) what(role, call string, paths []string) string {
	words := []string{fmt.Sprintf("%d/%s", k.call, role), call}
	for _, p := range paths {
		words = append(words, k.steady(p))
	}
	return strings.Join(words, " ")
}

// steady puts a number in the place of each name in p that nobody has spoken of.
func (k *keys) steady(p string) string {
	parts := strings.Split(p, "/")
	for i, name := range parts {
		if k.known[name] {
			continue
		}
		if k.alias[name] == "" {
			k.alias[name] = fmt.Sprintf("new%d", len(k.alias)+1)
		}
		parts[i] = k.alias[name]
	}
	return strings.Join(parts, "/")
}

// veiled puts the same sign in the place of each name in p that nobody has spoken
// of. It sorts after all other names.
func (k *keys) veiled(p string) string {
	parts := strings.Split(p, "/")
	for i, name := range parts {
		if !k.known[name] {
			parts[i] = "\x7f"
		}
	}
	return strings.Join(parts, "/")
}
