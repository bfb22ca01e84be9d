package spec_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

func TestWorldCheck(t *testing.T) {
	file := spec.Node{Type: spec.TypeFile}
	dir := spec.Node{Type: spec.TypeDir}
	for _, tt := range []struct {
		name string
		w    spec.World
		want string
	}{
		{"empty", spec.World{}, ""},
		{"a tree", spec.World{"ws": dir, "ws/a": file, "ws/l": {Type: spec.TypeLink, Link: "../x"}, "ws/p": {Type: spec.TypeFIFO}}, ""},
		{"two names", spec.World{"ws": dir, "ws/a": file, "ws/b": {Type: spec.TypeFile, Hard: "ws/a"}}, ""},
		{"attributes", spec.World{"a": {Type: spec.TypeFile, Xattrs: map[string]spec.Content{"user.x": {1}}}}, ""},
		{"absolute", spec.World{"/a": file}, `path "/a": want slash-separated names without empty parts, "." or ".."`},
		{"dot-dot", spec.World{"ws": dir, "ws/..": dir}, `path "ws/..": want slash-separated names without empty parts, "." or ".."`},
		{"NUL", spec.World{"a\x00": file}, `path "a\x00": a name cannot hold a NUL byte`},
		{"no parent", spec.World{"ws/a": file}, `world: "ws/a" has no directory "ws"`},
		{"below a file", spec.World{"ws": file, "ws/a": file}, `world: "ws/a" has no directory "ws"`},
		{"no type", spec.World{"a": {}}, `world: "a" has type "", want one of [file dir link fifo other hidden]`},
		{"link to nothing", spec.World{"a": {Type: spec.TypeLink}}, `world: link "a" leads nowhere: give it a target`},
		{"name of nothing", spec.World{"b": {Type: spec.TypeFile, Hard: "a"}}, `world: "b" is a name of "a", which is not a file`},
		{"name of a later one", spec.World{"a": {Type: spec.TypeFile, Hard: "b"}, "b": file}, `world: "a" is a name of "b": the first name in order must hold the content`},
		{
			"name of a name",
			spec.World{"a": file, "b": {Type: spec.TypeFile, Hard: "a"}, "c": {Type: spec.TypeFile, Hard: "b"}},
			`world: "c" is a name of "b", which is itself a name of another`,
		},
		{
			"odd attribute",
			spec.World{"a": {Type: spec.TypeFile, Xattrs: map[string]spec.Content{"user.a b": nil}}},
			`world: "a" has attribute "user.a b": want a name without odd characters`,
		},
		{"the first of two", spec.World{"a": {}, "b": {}}, `world: "a" has type "", want one of [file dir link fifo other hidden]`},
	} {
		got := ""
		if err := tt.w.Check(); err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestPathsParentsFirst(t *testing.T) {
	name := rapid.StringMatching(`[!-.0-~]{1,3}`) // before and after the slash in order
	rapid.Check(t, func(rt *rapid.T) {
		w := spec.World{}
		for range rapid.IntRange(0, 6).Draw(rt, "entries") {
			parts := rapid.SliceOfN(name, 1, 3).Draw(rt, "path")
			for i := range parts {
				w[strings.Join(parts[:i+1], "/")] = spec.Node{Type: spec.TypeDir}
			}
		}
		paths := w.Paths()
		if len(paths) != len(w) {
			rt.Fatalf("%d paths of %d", len(paths), len(w))
		}
		for i, p := range paths {
			if at := strings.LastIndexByte(p, '/'); at >= 0 && !slices.Contains(paths[:i], p[:at]) {
				rt.Errorf("%q comes before its parent in %q", p, paths)
			}
		}
	})
}

func TestCloneIsACopy(t *testing.T) {
	w := spec.World{"a": {Type: spec.TypeFile}}
	c := w.Clone()
	c["b"] = spec.Node{Type: spec.TypeDir}
	delete(c, "a")
	if diff := cmp.Diff(spec.World{"a": {Type: spec.TypeFile}}, w); diff != "" {
		t.Errorf("the original changed (-want +got):\n%s", diff)
	}
	if spec.World(nil).Clone() != nil {
		t.Error("a clone of nothing is something")
	}
}
