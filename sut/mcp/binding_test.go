package mcp

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

// goodFile is a binding from which the tables below take one line away, or to
// which they do something else.
const goodFile = `name: server
version: "1"
command: [node, "{dir}/server.js", "{root}"]
protocol: 2025-11-25
paths: relative
tools:
  write:
    tool: put
    args: {at: "{path}", what: "{content}"}
    constants: {force: true, depth: 3}
  tool: {}
errors:
  - text: "^gone"
    kind: ENOENT
policies:
  links: follow
`

func TestLoad(t *testing.T) {
	dir := realDir(t)
	file := filepath.Join(dir, "server.yaml")
	if err := os.WriteFile(file, []byte(goodFile), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Load(file)
	want := Binding{
		Name: "server", Version: "1", Command: []string{"node", dir + "/server.js", "{root}"},
		Protocol: "2025-11-25", Paths: PathsRelative,
		Tools: map[spec.CallKind]Tool{
			spec.CallWrite: {
				Name: "put", Args: map[string]string{"at": "{path}", "what": "{content}"},
				Constants: map[string]any{"force": true, "depth": 3},
			},
			spec.CallTool: {},
		},
		Errors:   []ErrorText{{"^gone", spec.ErrNotFound}},
		Policies: spec.Policies{"links": "follow"},
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := Load(filepath.Join(dir, "none.yaml")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// Every error names the file, the line, and what was expected there.
func TestFileErrors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		old, new string
		want     string
	}{
		{"empty", goodFile, "", "line 1: want a binding, the file is empty"},
		{"not a mapping", goodFile, "- a\n", "line 1: want names with values, as in {name: value}"},
		{"not YAML", "protocol:", "protocol: [", "line 3: did not find expected ',' or ']'"},
		{"two documents", "policies:\n  links: follow\n", "---\n", "want one document"},
		{"misspelled member", "paths:", "path:", "line 5: path: want name, version, command, protocol, paths, tools, errors or policies"},
		{"misspelled member of a tool", "    args:", "    arg:", "line 9: arg: want tool, args or constants"},
		{"misspelled member of an error", "    kind:", "    kin:", "line 14: kin: want text or kind"},
		{"member twice", "version:", "name:", "line 2: mapping key \"name\" already defined at line 1"},
		{"command as a text", `[node, "{dir}/server.js", "{root}"]`, "node", "line 3: want a list"},
		{"tool as a text", "  tool: {}", "  tool: x", "line 11: want names with values, as in {name: value}"},
		{"name as a list", "name: server", "name: [a]", "line 1: want a text"},
		{"no name", "name: server\n", "", "line 1: name: want the name of the server"},
		{"no version", `version: "1"`, `version: ""`, "line 2: version: want the version of the server"},
		{"no command", `[node, "{dir}/server.js", "{root}"]`, "[]", "line 3: command: want a command line"},
		{"relative command", "[node,", "[./node,", `line 3: command: "./node": want an absolute path, or a name to look up in PATH`},
		{"no root", `, "{root}"`, "", "line 3: command: want {root} in an argument: the server has to be told what it may touch"},
		{"misspelled root", `"{root}"`, `"{root}", "{rot}"`, `line 3: command: "{rot}": want no placeholder but {root}`},
		{"paths", "paths: relative", "paths: short", `line 5: paths: "short": want absolute or relative`},
		{"unknown kind", "  write:", "  scribble:", `line 7: tools.scribble: "scribble": want one of ["read" "write" "edit" "delete" "move" "dev_view" "tool"]`},
		{"no tools", goodFile[strings.Index(goodFile, "tools:"):strings.Index(goodFile, "errors:")], "", "line 1: tools: want at least one kind of call"},
		{"no tool", "    tool: put\n", "", "line 7: tools.write.tool: want the name of the server's tool"},
		{"no content", `, what: "{content}"`, "", "line 9: tools.write.args: want an argument that holds {content} or {content_base64}"},
		{"no path", `at: "{path}", `, "", "line 9: tools.write.args: want an argument that holds {path}"},
		{"misspelled placeholder", `"{path}"`, `"{pth}"`, `line 9: tools.write.args.at: "{pth}": want {path}, {to}, {content} or {content_base64}`},
		{"twice", "{force: true", "{at: true", "line 9: tools.write.args.at: want it here or among the constants, not both"},
		{"constant beyond JSON", "depth: 3", "depth: .inf", "line 10: tools.write.constants: want what JSON can say: json: unsupported value: +Inf"},
		{"tool with a name", "  tool: {}", "  tool: {tool: x}", "line 11: tools.tool: want nothing: such a call names its tool and its arguments itself"},
		{"pattern", `"^gone"`, `"("`, "line 13: errors.0.text: \"(\": want a regular expression: error parsing regexp: missing closing ): `(`"},
		{"no pattern", `"^gone"`, `""`, `line 13: errors.0.text: want a regular expression, it is empty`},
		{"kind of failure", "kind: ENOENT", "kind: ENOPE", `line 14: errors.0.kind: "ENOPE": want one of ["EACCES" `},
		{"policy", "  links:", "  chains:", `line 16: policies.chains: "chains": want one of ["case" `},
		{"value of a policy", "links: follow", "links: cut", `line 16: policies.links: "cut": want one of ["refuse" "follow"]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text := strings.Replace(goodFile, tc.old, tc.new, 1)
			if text == goodFile {
				t.Fatalf("%q is not in the file", tc.old)
			}
			got, err := parse("b.yaml", "/dir", []byte(text))
			if err == nil {
				t.Fatalf("read: %+v", got)
			}
			if want := "b.yaml: " + tc.want; !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if strings.Contains(err.Error(), "mcp.") || strings.Contains(err.Error(), "spec.") {
				t.Errorf("%s: speaks of Go types", err)
			}
		})
	}
}

func TestRequest(t *testing.T) {
	bind := func(paths PathStyle, tool Tool) Binding {
		return Binding{Paths: paths, Tools: map[spec.CallKind]Tool{spec.CallWrite: tool}}
	}
	plain := Tool{Name: "put", Args: map[string]string{"at": "{path}", "what": "{content}"}}
	for _, tc := range []struct {
		name    string
		binding Binding
		call    spec.Call
		want    string
	}{
		{"relative", bind(PathsRelative, plain), spec.Call{Path: "d/../a", Content: spec.Content("x")}, `{"at":"d/../a","what":"x"}`},
		{"below the root", bind(PathsAbsolute, plain), spec.Call{Path: "d/../a"}, `{"at":"/r/d/../a","what":""}`},
		{"as by default", bind("", plain), spec.Call{Path: "d//"}, `{"at":"/r/d//","what":""}`},
		{"absolute already", bind(PathsAbsolute, plain), spec.Call{Path: "/etc/x"}, `{"at":"/etc/x","what":""}`},
		{"no path", bind(PathsAbsolute, plain), spec.Call{}, `{"at":"","what":""}`},
		{
			"content that looks like a placeholder", bind(PathsRelative, plain),
			spec.Call{Path: "{content}", Content: spec.Content("{path}")},
			`{"at":"{content}","what":"{path}"}`,
		},
		{
			"more than one", bind(PathsRelative, Tool{Name: "put", Args: map[string]string{"uri": "file:{path}#{to}"}}),
			spec.Call{Path: "a", To: "b"},
			`{"uri":"file:a#b"}`,
		},
		{
			"base64 and constants", bind(PathsRelative, Tool{
				Name: "put", Args: map[string]string{"b": "{content_base64}"}, Constants: map[string]any{"f": true, "l": []any{1, "{path}"}},
			}),
			spec.Call{Content: spec.Content{0xff}},
			`{"b":"/w==","f":true,"l":[1,"{path}"]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.call.Kind = spec.CallWrite
			r, refusal := tc.binding.request("/r", tc.call)
			got, err := json.Marshal(r.args)
			if diff := cmp.Diff(tc.want, string(got)); err != nil || refusal != "" || r.tool != "put" || diff != "" {
				t.Errorf("%v, %q, tool %q (-want +got):\n%s", err, refusal, r.tool, diff)
			}
		})
	}
	if _, refusal := bind("", plain).request("/r", spec.Call{Kind: spec.CallMove}); refusal != "no tool is bound to move" {
		t.Errorf("a kind that is not bound: %q", refusal)
	}
}

// The preset is a file like any other, and the package that it is used with says
// its own version.
func TestPreset(t *testing.T) {
	write := func(dir, text string) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	prefix := realDir(t)
	folder := filepath.Join(prefix, "node_modules", "@modelcontextprotocol", "server-filesystem")
	write(folder, `{"name":"@modelcontextprotocol/server-filesystem","version":"9.9.9"}`)
	for _, where := range []string{prefix, folder} {
		b, err := Filesystem(where)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"node", folder + "/dist/index.js", "/r"}, b.argv("/r")); diff != "" || b.Version != "9.9.9" {
			t.Errorf("version %s, command line (-want +got):\n%s", b.Version, diff)
		}
	}
	for _, tc := range []struct{ name, text, want string }{
		{"another package", `{"name":"x","version":"1"}`, `name "x": want @modelcontextprotocol/server-filesystem`},
		{"no version", `{"name":"@modelcontextprotocol/server-filesystem"}`, "want a version"},
		{"not JSON", `{`, "unexpected end of JSON input"},
	} {
		dir := realDir(t)
		write(dir, tc.text)
		if _, err := Filesystem(dir); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	if _, err := Filesystem(realDir(t)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing installed: %v", err)
	}
}

func TestKindOf(t *testing.T) {
	b, err := parse("presets/filesystem.yaml", "/dir", mustPreset(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text  string
		kind  spec.ErrKind
		errno string
	}{
		{"EACCES: permission denied, open '/r/f'", spec.ErrAccess, "EACCES"},
		{"EACCES: permission denied, open '/r/ENOENT: x'", spec.ErrAccess, "EACCES"},
		{"EINVAL: invalid argument, rename '/r/d' -> '/r/d/d'", spec.ErrInvalid, ""},
		{"Access denied - path outside allowed directories: /etc not in /r", spec.ErrEscapes, ""},
		{"Parent directory does not exist: /r/n", spec.ErrNotFound, ""},
		{"Could not do it: EACCES: permission denied", spec.ErrOther, ""},
		{"", spec.ErrOther, ""},
	} {
		if kind, errno := kindOf(b.errorTexts(), tc.text); kind != tc.kind || errno != tc.errno {
			t.Errorf("%q: %s %q, want %s %q", tc.text, kind, errno, tc.kind, tc.errno)
		}
	}
}

func mustPreset(t *testing.T) []byte {
	t.Helper()
	data, err := presets.ReadFile("presets/filesystem.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return data
}
