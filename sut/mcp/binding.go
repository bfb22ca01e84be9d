package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fsbench/fsbench/spec"
)

// Binding says how calls are put to one server, and how its answers are read.
type Binding struct {
	Name    string `yaml:"name"`
	Version string `yaml:"version"`

	// Command is the command line. {root} stands for the root, and must be there:
	// a server that is not told its root would be judged for touching another.
	Command []string `yaml:"command"`

	// Protocol is the version of MCP to begin with. Empty means the newest; then a
	// server that has never heard of it is asked again as it was in 2025.
	Protocol string `yaml:"protocol"`

	Paths PathStyle              `yaml:"paths"`
	Tools map[spec.CallKind]Tool `yaml:"tools"` // the kinds of call that the server is said to serve

	// Errors are tried in order on the text of a failure. What none of them
	// matches is spec.ErrOther.
	Errors []ErrorText `yaml:"errors"`

	Policies spec.Policies `yaml:"policies"` // declared for the server, which MCP does not ask
}

// PathStyle says how a path that an agent spelled relative to the root is put to
// the server. It is never cleaned, and one that is absolute or empty is left as
// it is: what the server makes of such a path is what is judged.
type PathStyle string

// The styles. The zero value is PathsAbsolute.
const (
	PathsAbsolute PathStyle = "absolute" // with the root in front
	PathsRelative PathStyle = "relative" // as spelled
)

// Tool is what one kind of call is turned into. For spec.CallTool it is empty:
// such a call names its tool and its arguments itself.
type Tool struct {
	Name string `yaml:"tool"`

	// Args are templates: {path}, {to}, {content} and {content_base64} stand for
	// what the call holds. What a call expects of a version is not passed on, and
	// not claimed.
	Args map[string]string `yaml:"args"`

	Constants map[string]any `yaml:"constants"` // arguments that are always the same
}

// ErrorText gives the failures whose text matches a pattern their kind.
type ErrorText struct {
	Text string       `yaml:"text"` // regular expression of package regexp
	Kind spec.ErrKind `yaml:"kind"`
}

// placeholder is what looks like one, so that a misspelled one is found.
var placeholder = regexp.MustCompile(`\{[a-z0-9_]+\}`)

const (
	phRoot    = "{root}"
	phPath    = "{path}"
	phTo      = "{to}"
	phContent = "{content}"
	phBase64  = "{content_base64}"
)

// required lists what the arguments of a kind of call must hold, each entry a
// choice. A write bound without its content would empty every file it is given.
func required(kind spec.CallKind) [][]string {
	switch kind {
	case spec.CallRead, spec.CallDelete, spec.CallView:
		return [][]string{{phPath}}
	case spec.CallWrite, spec.CallEdit:
		return [][]string{{phPath}, {phContent, phBase64}}
	case spec.CallMove:
		return [][]string{{phPath}, {phTo}}
	case spec.CallTool:
	}
	return nil
}

// problem is one thing wrong with a binding, and where: the names of members,
// numbers of entries from 0.
type problem struct {
	where []string
	what  string
}

// Check reports the first thing that keeps b from being used.
func (b Binding) Check() error {
	if p := b.problem(); p != nil {
		return fmt.Errorf("binding: %s: %s", strings.Join(p.where, "."), p.what)
	}
	return nil
}

func (b Binding) problem() *problem {
	wrong := func(what string, where ...string) *problem { return &problem{where, what} }
	switch {
	case b.Name == "":
		return wrong("want the name of the server", "name")
	case b.Version == "":
		return wrong("want the version of the server", "version")
	case b.Paths != "" && b.Paths != PathsAbsolute && b.Paths != PathsRelative:
		return wrong(fmt.Sprintf("%q: want %s or %s", b.Paths, PathsAbsolute, PathsRelative), "paths")
	case len(b.Tools) == 0:
		return wrong("want at least one kind of call", "tools")
	}
	if what := commandProblem(b.Command); what != "" {
		return wrong(what, "command")
	}
	for _, kind := range slices.Sorted(maps.Keys(b.Tools)) {
		if !slices.Contains(spec.CallKinds, kind) {
			return wrong(fmt.Sprintf("%q: want one of %q", kind, spec.CallKinds), "tools", string(kind))
		}
		if p := b.Tools[kind].problem(kind); p != nil {
			return wrong(p.what, append([]string{"tools", string(kind)}, p.where...)...)
		}
	}
	for i, e := range b.Errors {
		if e.Text == "" { // it would match everything
			return wrong("want a regular expression, it is empty", "errors", fmt.Sprint(i), "text")
		}
		if _, err := regexp.Compile(e.Text); err != nil {
			return wrong(fmt.Sprintf("%q: want a regular expression: %v", e.Text, err), "errors", fmt.Sprint(i), "text")
		}
		if !slices.ContainsFunc(spec.ErrWords, func(w spec.ErrWord) bool { return w.Kind == e.Kind }) {
			return wrong(fmt.Sprintf("%q: want one of %q", e.Kind, errKinds()), "errors", fmt.Sprint(i), "kind")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(b.Policies)) {
		values, known := spec.PolicyValues[name]
		if !known {
			return wrong(fmt.Sprintf("%q: want one of %q", name, slices.Sorted(maps.Keys(spec.PolicyValues))), "policies", name)
		}
		if !slices.Contains(values, b.Policies[name]) {
			return wrong(fmt.Sprintf("%q: want one of %q", b.Policies[name], values), "policies", name)
		}
	}
	return nil
}

func errKinds() []spec.ErrKind {
	var kinds []spec.ErrKind
	for _, w := range spec.ErrWords {
		kinds = append(kinds, w.Kind)
	}
	return kinds
}

func commandProblem(argv []string) string {
	if len(argv) == 0 || argv[0] == "" {
		return "want a command line"
	}
	if strings.ContainsAny(argv[0], `/\`) && !filepath.IsAbs(argv[0]) {
		return fmt.Sprintf("%q: want an absolute path, or a name to look up in PATH", argv[0])
	}
	told := false
	for _, arg := range argv[1:] {
		told = told || strings.Contains(arg, phRoot)
		for _, p := range placeholder.FindAllString(arg, -1) {
			if p != phRoot {
				return fmt.Sprintf("%q: want no placeholder but %s", p, phRoot)
			}
		}
	}
	if !told {
		return "want " + phRoot + " in an argument: the server has to be told what it may touch"
	}
	return ""
}

func (t Tool) problem(kind spec.CallKind) *problem {
	if kind == spec.CallTool {
		if t.Name != "" || len(t.Args)+len(t.Constants) > 0 {
			return &problem{nil, "want nothing: such a call names its tool and its arguments itself"}
		}
		return nil
	}
	if t.Name == "" {
		return &problem{[]string{"tool"}, "want the name of the server's tool"}
	}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(t.Args)) {
		if _, twice := t.Constants[name]; twice {
			return &problem{[]string{"args", name}, "want it here or among the constants, not both"}
		}
		for _, p := range placeholder.FindAllString(t.Args[name], -1) {
			if !slices.Contains([]string{phPath, phTo, phContent, phBase64}, p) {
				return &problem{[]string{"args", name}, fmt.Sprintf("%q: want %s, %s, %s or %s", p, phPath, phTo, phContent, phBase64)}
			}
			used[p] = true
		}
	}
	for _, choice := range required(kind) {
		if !slices.ContainsFunc(choice, func(p string) bool { return used[p] }) {
			return &problem{[]string{"args"}, "want an argument that holds " + strings.Join(choice, " or ")}
		}
	}
	if _, err := json.Marshal(t.Constants); err != nil {
		return &problem{[]string{"constants"}, fmt.Sprintf("want what JSON can say: %v", err)}
	}
	return nil
}

// request is a call as the server gets it.
type request struct {
	tool string
	args any
}

// request puts call into the words of the binding. What has no form there is
// said in refusal: an encoder would put something else in its place, and the
// server would be judged for what it was never asked.
func (b Binding) request(root string, call spec.Call) (r request, refusal string) {
	tool, bound := b.Tools[call.Kind]
	if !bound {
		return r, fmt.Sprintf("no tool is bound to %s", call.Kind)
	}
	if call.Kind == spec.CallTool {
		if !utf8.ValidString(call.Tool) || len(call.Args) > 0 && !json.Valid(call.Args) || !utf8.Valid(call.Args) {
			return r, "the tool or its arguments are not JSON"
		}
		return request{call.Tool, argsOf(call.Args)}, ""
	}
	fields := map[string]string{
		phPath: b.path(root, call.Path), phTo: b.path(root, call.To), phContent: string(call.Content),
		phBase64: base64.StdEncoding.EncodeToString(call.Content),
	}
	var pairs []string
	for p, value := range fields {
		pairs = append(pairs, p, value)
	}
	fill := strings.NewReplacer(pairs...) // in one pass: content may look like a placeholder
	args := maps.Clone(tool.Constants)
	if args == nil {
		args = map[string]any{}
	}
	for name, template := range tool.Args {
		value := fill.Replace(template)
		if !utf8.ValidString(value) {
			return r, fmt.Sprintf("the argument %s of %s is text, and what it was to hold is not", name, tool.Name)
		}
		args[name] = value
	}
	return request{tool.Name, args}, ""
}

func argsOf(raw spec.Content) any {
	if len(raw) == 0 {
		return map[string]any{}
	}
	return json.RawMessage(raw)
}

func (b Binding) path(root, spelled string) string {
	if b.Paths == PathsRelative || spelled == "" || filepath.IsAbs(spelled) {
		return spelled
	}
	return root + string(filepath.Separator) + spelled
}

// argv is the command line for a root.
func (b Binding) argv(root string) []string {
	out := make([]string, len(b.Command))
	for i, arg := range b.Command {
		out[i] = strings.ReplaceAll(arg, phRoot, root)
	}
	return out
}

// mapped is an ErrorText ready for use.
type mapped struct {
	text *regexp.Regexp
	kind spec.ErrKind
}

func (b Binding) errorTexts() []mapped {
	var out []mapped
	for _, e := range b.Errors {
		out = append(out, mapped{regexp.MustCompile(e.Text), e.Kind}) // Check has compiled it
	}
	return out
}

// kindOf returns the kind of a failure with this text, and the kernel's word
// for it where the text passes it on.
func kindOf(texts []mapped, text string) (kind spec.ErrKind, errno string) {
	for _, m := range texts {
		if !m.text.MatchString(text) {
			continue
		}
		if word := string(m.kind); strings.HasPrefix(word, "E") && strings.Contains(text, word) {
			errno = word
		}
		return m.kind, errno
	}
	return spec.ErrOther, ""
}
