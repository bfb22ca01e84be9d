package spec_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

// declaredKinds reads the constants of type ErrKind from the source, so that one
// that is left out of the table cannot be left out of the test too.
func declaredKinds(t *testing.T) []spec.ErrKind {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "errkind.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []spec.ErrKind
	ast.Inspect(file, func(n ast.Node) bool {
		vs, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := vs.Type.(*ast.Ident); !ok || id.Name != "ErrKind" {
			return true
		}
		for _, v := range vs.Values {
			text, err := strconv.Unquote(v.(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			if text != "" { // ErrNone is no failure
				kinds = append(kinds, spec.ErrKind(text))
			}
		}
		return true
	})
	return kinds
}

func TestEveryErrKindHasOneRow(t *testing.T) {
	rows := map[spec.ErrKind]int{}
	for _, w := range spec.ErrWords {
		rows[w.Kind]++
		if w.Class == "" || w.Tool == "" {
			t.Errorf("%s has class %q and tool code %q: want both", w.Kind, w.Class, w.Tool)
		}
	}
	want := map[spec.ErrKind]int{}
	for _, k := range declaredKinds(t) {
		want[k] = 1
	}
	if len(want) < 20 {
		t.Fatalf("only %d kinds were found in the source", len(want))
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows of each kind (-want +got):\n%s", diff)
	}
}

func TestKindRoundTrip(t *testing.T) {
	first := map[spec.Class]spec.ErrKind{}
	for _, w := range spec.ErrWords {
		if got, ok := spec.KindOf(spec.ClassOf(w.Kind), string(w.Kind)); !ok || got != w.Kind {
			t.Errorf("%s became %s, %v", w.Kind, got, ok)
		}
		if got := spec.ToolCodeOf(w.Kind); got != w.Tool {
			t.Errorf("tool code of %s is %s, want %s", w.Kind, got, w.Tool)
		}
		if _, seen := first[w.Class]; !seen {
			first[w.Class] = w.Kind
		}
		for _, errno := range []string{"", "E2BIG"} {
			if got, ok := spec.KindOf(w.Class, errno); !ok || got != first[w.Class] {
				t.Errorf("class %s with errno %q is %s, %v; want the first of the class, %s", w.Class, errno, got, ok, first[w.Class])
			}
		}
	}
}

func TestWordsOutsideTheTable(t *testing.T) {
	if got := spec.ClassOf("E2BIG"); got != "internal" {
		t.Errorf("class of an unknown kind is %q", got)
	}
	if got := spec.ToolCodeOf("E2BIG"); got != "internal" {
		t.Errorf("tool code of an unknown kind is %q", got)
	}
	if kind, ok := spec.KindOf("no_such_class", "EACCES"); ok {
		t.Errorf("an unknown class is %q", kind)
	}
}
