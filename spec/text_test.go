package spec_test

import (
	"strings"
	"testing"

	"github.com/fsbench/fsbench/spec"
)

func TestPrintable(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"ws/d/f", "ws/d/f"},
		{`mode "0640" of <b>ü</b> \n`, `mode "0640" of <b>ü</b> \n`},
		{"it's\ttabbed\n0 findings", `it's\ttabbed\n0 findings`},
		{"\x1b[2J\x07\x7f", `\x1b[2J\a\x7f`},
		{"\u009b31m", `\u009b31m`},         // what begins a command in eight bits
		{"\u202egpj.exe", `\u202egpj.exe`}, // what follows would be shown backwards
		{"\xff\xfea\x00", `\xff\xfea\x00`},
		{"\ufffd", "\ufffd"},
		{"", ""},
	} {
		if got := spec.Printable(tt.text); got != tt.want {
			t.Errorf("%q is shown as %s, want %s", tt.text, got, tt.want)
		}
		if got := spec.Printable(tt.text); strings.ContainsAny(got, "\n\x1b") {
			t.Errorf("%q is shown as %q", tt.text, got)
		}
	}
}
