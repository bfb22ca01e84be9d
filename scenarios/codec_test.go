package scenarios_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/scenarios"
	"github.com/fsbench/fsbench/spec"
)

// TestRoundTrip: what is generated prints, parses back and prints the same.
func TestRoundTrip(t *testing.T) {
	for _, p := range scenarios.Profiles {
		t.Run(p.Name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				s := p.Gen().Draw(rt, "scenario")
				decorate(rt, &s)
				s.Origin = scenarios.Origin{Profile: p.Name, Seed: rapid.Uint64().Draw(rt, "seed"), Version: "0.1.0"}
				text := s.String()
				back, err := scenarios.Parse("file", s.Name, []byte(text))
				if err != nil {
					rt.Fatalf("%v\n%s", err, text)
				}
				// The short forms of a file, written out.
				for path, n := range s.World {
					if n.Hard != "" {
						s.World[path] = spec.Node{Type: spec.TypeFile, Mode: 0o644, Hard: n.Hard}
					}
				}
				if diff := cmp.Diff(s, back); diff != "" {
					rt.Errorf("%s(-want +got):\n%s", text, diff)
				}
				if again := back.String(); again != text {
					rt.Errorf("printed again it is\n%s, not\n%s", again, text)
				}
			})
		})
	}
}

// decorate sets what the generators leave alone.
func decorate(rt *rapid.T, s *scenarios.Scenario) {
	s.Title = rapid.SampledFrom([]string{"", "what happens: and why"}).Draw(rt, "title")
	s.Source = rapid.SampledFrom([]string{"", "https://example.com/1?a=b#c"}).Draw(rt, "source")
	s.Rules = rapid.SampledFrom([][]spec.RuleID{nil, {"AT-001"}, {"AT-001", "FB-002"}}).Draw(rt, "rules")
	s.Needs = rapid.SampledFrom([][]string{nil, {"wire"}, {"perm", "link"}}).Draw(rt, "needs")
	for _, st := range s.Steps {
		if st.Call == nil || rapid.Bool().Draw(rt, "plain") {
			continue
		}
		st.Call.Client = rapid.IntRange(0, 3).Draw(rt, "client")
		if rapid.Bool().Draw(rt, "tool") {
			st.Call.Kind, st.Call.Tool = spec.CallTool, rapid.StringN(1, 5, -1).Draw(rt, "name")
			st.Call.Args = spec.Content(rapid.SampledFrom([]string{`{"a": 1}`, "\xff"}).Draw(rt, "args"))
		}
	}
	s.World["ws/odd"] = spec.Node{
		Type: spec.TypeFile, Mode: spec.Mode(rapid.IntRange(0, 0o7777).Draw(rt, "mode")), Owner: spec.OwnerOther,
		Content: append(spec.Content{}, rapid.SliceOf(rapid.Byte()).Draw(rt, "content")...),
		Mtime:   rapid.Int64().Draw(rt, "mtime"), Immutable: rapid.Bool().Draw(rt, "immutable"), Mount: spec.MountReadOnly,
		Xattrs: map[string]spec.Content{"user.a": spec.Content(rapid.String().Draw(rt, "attribute"))},
	}
}

// TestCorpusIsCanonical: a file of the corpus is what its scenario prints, so that a
// diff shows what changed and nothing else.
func TestCorpusIsCanonical(t *testing.T) {
	files, err := filepath.Glob("corpus/*")
	if err != nil {
		t.Fatal(err)
	}
	corpus, err := scenarios.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	if len(corpus) != len(files) || len(corpus) < 40 {
		t.Errorf("%d scenarios of %d files", len(corpus), len(files))
	}
	for _, s := range corpus {
		text, err := os.ReadFile(filepath.Join("corpus", s.Name+".txtar"))
		if err != nil {
			t.Error(err)
			continue
		}
		if diff := cmp.Diff(s.String(), string(text)); diff != "" {
			t.Errorf("%s (-canonical +file):\n%s", s.Name, diff)
		}
	}
}

func TestCorpusHeaders(t *testing.T) {
	corpus, err := scenarios.Corpus()
	if err != nil {
		t.Fatal(err)
	}
	titles := map[string]string{}
	for _, s := range corpus {
		if other, twice := titles[s.Title]; twice {
			t.Errorf("%s and %s have one title", s.Name, other)
		}
		titles[s.Title] = s.Name
		if s.Title == "" || strings.HasSuffix(s.Title, ".") || strings.ToUpper(s.Title[:1]) == s.Title[:1] && !strings.HasPrefix(s.Title, "FIFO") {
			t.Errorf("%s: title %q: want a sentence without capital and dot", s.Name, s.Title)
		}
		if len(s.Rules) == 0 {
			t.Errorf("%s exercises no rule", s.Name)
		}
		for i, id := range s.Rules {
			if _, known := spec.RuleByID(id); !known {
				t.Errorf("%s: there is no rule %s", s.Name, id)
			}
			if slices.Contains(s.Rules[:i], id) {
				t.Errorf("%s names %s twice", s.Name, id)
			}
		}
		if s.Source != "" && !strings.HasPrefix(s.Source, "https://") {
			t.Errorf("%s: source %q is no public address", s.Name, s.Source)
		}
		if s.Origin != (scenarios.Origin{}) {
			t.Errorf("%s says that it was generated", s.Name)
		}
	}
}

// TestComments: lines that begin with # are for people and are not kept.
func TestComments(t *testing.T) {
	const text = "# why\ntitle: t\n-- world --\n# a\nws/a file\n-- steps --\n\n\t# b\n1 read a\n-- faults --\n# c\nf op=read errno=EIO\n"
	s, err := scenarios.Parse("file", "n", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	const want = "title: t\n-- world --\nws/a file\n-- steps --\n1 read a\n-- faults --\nf op=read errno=EIO\n"
	if diff := cmp.Diff(want, s.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMalformedScenarios(t *testing.T) {
	const (
		steps   = "-- steps --\n1 read a\n"
		callish = `step: want a call, as in: 1 write d/a content="new", or an edit, as in: edit remove ws/a`
		kinds   = "[read write edit delete move dev_view tool]"
		brokers = "[honest liar short declines throws panics late-throw mutates]"
	)
	for _, tt := range []struct{ text, want string }{
		// the header
		{"title\n" + steps, `f:1: "title": want a line as in: title: what happens`},
		{"title: t\nwhy: because\n" + steps, `f:2: header "why": want title, source, rules, needs, policies or origin`},
		{"\npolicies: links follow=\n" + steps, `f:2: value "": want it in quotes`},
		{"policies: links\n" + steps, `f:1: policy "": want one of [case durability hardlink links missing_parent mode newline parents_on_failure symlink_leaf temp_after_kill xattr]`},
		{"policies: colour=red\n" + steps, `f:1: policy "colour": want one of [case durability hardlink links missing_parent mode newline parents_on_failure symlink_leaf temp_after_kill xattr]`},
		{"policies: links=maybe\n" + steps, `f:1: policy links=maybe: want one of [refuse follow]`},
		{"policies: links=follow links=refuse\n" + steps, `f:1: links=: want it once`},
		{"needs: wings\n" + steps, `f:1: need "wings": want wire or a capability: capability "wings": want one of symlink, link, perm, no-follow, handle, identity, no-replace, exchange, publish, durability, sync-fs, sync-range, xattr, birth, mount-id, special`},
		{"origin: profile=smoke seed=x\n" + steps, `f:1: seed "x": want a number`},
		{"origin: luck=7\n" + steps, `f:1: origin "luck=7": want profile=, seed= or version=`},
		// the parts
		{"-- tree --\nws dir\n" + steps, `f:1: part "tree": want world, brokers, steps or faults`},
		{steps + steps, `f:3: part "steps": want it once`},
		{"title: t\n", `f:1: steps: want at least one call`},
		// the world
		{"-- world --\nws/a\n" + steps, `f:2: world: want a path and a type, as in: ws/a file content="old"`},
		{"-- world --\nws/a type=file\n" + steps, `f:2: world: want a path and a type, as in: ws/a file content="old"`},
		{"-- world --\nws/a file\nws/a dir\n" + steps, `f:3: world: "ws/a" is there already`},
		{"-- world --\nws/a file size=3\n" + steps, `f:2: world: "size=3" is unknown: want to=, mode=, owner=, mtime=, immutable=, mount=, content= or x:NAME=`},
		{"-- world --\nws/a file mode=rw\n" + steps, `f:2: mode "rw": want octal, at most 7777`},
		{"-- world --\nws/a file owner=root\n" + steps, `f:2: owner "root": want other, or no owner for the subject's own`},
		{"-- world --\nws/a file mtime=now\n" + steps, `f:2: mtime "now": want seconds`},
		{"-- world --\nws/a file immutable=no\n" + steps, `f:2: immutable "no": want yes, or no such field`},
		{"-- world --\nws/a file mount=rw\n" + steps, `f:2: mount "rw": want ro or bind`},
		{"-- world --\nws/a file content=\"base64:*\"\n" + steps, `f:2: content "base64:*": want text, or base64: and standard base64`},
		{"-- world --\nws/a pipe\n" + steps, `f:1: world: "ws/a" has type "pipe", want one of [file dir link fifo other hidden]`},
		{"-- world --\nws file\n" + steps, `f:1: world: "ws" is what the subject works in: want a directory`},
		{"-- world --\nws/d/a file\n" + steps, `f:1: world: "ws/d/a" has no directory "ws/d"`},
		{"-- world --\nws/b hard to=ws/a\n" + steps, `f:1: world: "ws/b" is a name of "ws/a", which is not a file`},
		// the brokers
		{"-- brokers --\nhonest\n" + steps, `f:2: broker: want a seam and a script, as in: write honest`},
		{"-- brokers --\nseam=write honest\n" + steps, `f:2: broker: want a seam and a script, as in: write honest`},
		{"-- brokers --\nread honest\n" + steps, `f:1: broker read honest: want write or delete, and one of ` + brokers},
		{"-- brokers --\nwrite saintly\n" + steps, `f:1: broker write saintly: want write or delete, and one of ` + brokers},
		// the steps
		{"-- steps --\nread a\n", "f:2: " + callish},
		{"-- steps --\n1 read\n", "f:2: " + callish},
		{"-- steps --\none read a\n", "f:2: " + callish},
		{"-- steps --\n1 read path=a\n", "f:2: " + callish},
		{"-- steps --\n1 read a\n\n2 read a as=me\n", `f:4: call: "as=me" is unknown: want to=, content=, expect=, session=, client=, tool= or args=`},
		{"-- steps --\n1 write a content=b c\n", `f:2: call: "c" is unknown: want to=, content=, expect=, session=, client=, tool= or args=`},
		{"-- steps --\n1 write a content=x content=y\n", `f:2: content=: want it once`},
		{"-- steps --\n1 write a client=me\n", `f:2: client "me": want a number`},
		{"-- steps --\n1 read \"a\n", `f:2: "\"a": want a closing quote`},
		{"-- steps --\n2 read a\n", `f:1: call 2: want number 1: calls are numbered from 1, in order`},
		{"-- steps --\n1 touch a\n", `f:1: call 1: kind "touch": want one of ` + kinds},
		{"-- steps --\n1 write a expect=@1\n", `f:1: call 1: expect=@1: want the number of an earlier call`},
		{"-- steps --\n1 read a\n2 write a expect=@1st\n", `f:1: call 2: expect=@1st: want the number of an earlier call`},
		{"-- steps --\n1 read a\n2 write a expect=@0\n", `f:1: call 2: expect=@0: want the number of an earlier call`},
		{"-- steps --\n1 read a\nedit remove\n", `f:3: edit: want an operation and a path, as in: rename ws/a to=ws/b`},
		{"-- steps --\nedit remove ws/a\n", `f:1: steps: want at least one call`},
		// the faults
		{steps + "-- faults --\nf op=write\n", `f:4: injection f: 0 effects: want exactly one of errno=, short=, swap, crash, glimpse, delay= and first=`},
		{steps + "-- faults --\n# here\nf op=write errno=EIO\ng op=read errno=EPERM\n", `f:6: injection g: no kernel gives EPERM there: want one of EINTR, EIO`},
	} {
		s, err := scenarios.Parse("f", "n", []byte(tt.text))
		got := fmt.Sprintf("read as\n%s", s)
		if err != nil {
			got = err.Error()
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s\n(-want +got):\n%s", tt.text, diff)
		}
	}
}

// TestCheckTitle: a title that is no line would print as something else.
func TestCheckTitle(t *testing.T) {
	call := spec.Call{ID: 1, Kind: spec.CallRead, Path: "a"}
	for _, title := range []string{" spaced", "two\nlines", "returned\r"} {
		s := scenarios.Scenario{Title: title, Steps: []scenarios.Step{{Call: &call}}}
		want := fmt.Sprintf("title or source %q: want one line without spaces around it", title)
		if err := s.Check(); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
