package spec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

func drawEdit(rt *rapid.T) spec.Edit {
	path := rapid.StringMatching(`[a-z #="\x{e9}-]{1,4}(/[a-z.]{0,3}[a-z]){0,2}`)
	e := spec.Edit{Op: rapid.SampledFrom(spec.EditOps).Draw(rt, "op"), Path: path.Draw(rt, "path")}
	switch e.Op {
	case spec.EditRename, spec.EditExchange, spec.EditHardlink:
		e.To = path.Draw(rt, "to")
	case spec.EditSymlink:
		e.To = rapid.StringN(1, 8, -1).Draw(rt, "text")
	case spec.EditWrite, spec.EditMkdir, spec.EditFIFO, spec.EditRemove, spec.EditChmod, spec.EditTouch:
	}
	if rapid.Bool().Draw(rt, "has mode") {
		e.Mode = spec.Mode(rapid.IntRange(0, 0o7777).Draw(rt, "mode"))
	}
	if rapid.Bool().Draw(rt, "has mtime") {
		e.Mtime = rapid.Int64().Draw(rt, "mtime")
	}
	if rapid.Bool().Draw(rt, "has content") {
		e.Content = append(spec.Content{}, rapid.SliceOf(rapid.Byte()).Draw(rt, "content")...)
	}
	return e
}

func TestEditRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		e := drawEdit(rt)
		if err := e.Check(); err != nil {
			rt.Fatalf("%+v: %v", e, err)
		}
		line := spec.FormatFields(e.Fields())
		fields, err := spec.ParseFields(line)
		if err != nil {
			rt.Fatalf("%s: %v", line, err)
		}
		back, err := spec.ParseEdit(fields)
		if err != nil {
			rt.Fatalf("%s: %v", line, err)
		}
		if diff := cmp.Diff(e, back); diff != "" {
			rt.Errorf("%s (-want +got):\n%s", line, diff)
		}
	})
}

func TestMalformedEdits(t *testing.T) {
	const form = `edit: want an operation and a path, as in: rename ws/a to=ws/b`
	const ops = `[write mkdir symlink hardlink fifo rename exchange remove chmod touch]`
	for _, tt := range []struct{ line, want string }{
		{`remove`, form},
		{`op=remove ws/a`, form},
		{`remove path=ws/a`, form},
		{`destroy ws/a`, `edit "destroy": want one of ` + ops},
		{`remove ws/a force=yes`, `edit: "force=yes" is unknown, want to=, mode=, mtime= or content=`},
		{`remove ws/a now`, `edit: "now" is unknown, want to=, mode=, mtime= or content=`},
		{`chmod ws/a mode=rw`, `mode "rw": want octal, at most 7777`},
		{`touch ws/a mtime=today`, `mtime "today": want seconds`},
		{`write ws/a content=base64:%`, `value "base64:%": want it in quotes`},
		{`write ws/a content="base64:%"`, `content "base64:%": want text, or base64: and standard base64`},
		{`remove /ws/a`, `path "/ws/a": want slash-separated names without empty parts, "." or ".."`},
		{`remove ws/../a`, `path "ws/../a": want slash-separated names without empty parts, "." or ".."`},
		{`remove ""`, `path "": want slash-separated names without empty parts, "." or ".."`},
		{`remove "a\x00b"`, `path "a\x00b": a name cannot hold a NUL byte`},
		{`rename ws/a`, `edit rename: path "": want slash-separated names without empty parts, "." or ".."`},
		{`exchange ws/a to=ws/`, `edit exchange: path "ws/": want slash-separated names without empty parts, "." or ".."`},
		{`hardlink ws/a to=.`, `edit hardlink: path ".": want slash-separated names without empty parts, "." or ".."`},
		{`symlink ws/a`, `edit symlink: want to= with the link's text`},
	} {
		fields, err := spec.ParseFields(tt.line)
		if err == nil {
			_, err = spec.ParseEdit(fields)
		}
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.line, err, tt.want)
		}
	}
}
