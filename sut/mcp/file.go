package mcp

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// phDir stands, in the command line of a file, for the folder of the file.
const phDir = "{dir}"

// Load reads a binding from a YAML file. In its command {dir} stands for the
// folder that the file is in. Errors name the file, the line and what was
// expected there.
func Load(file string) (Binding, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Binding{}, fmt.Errorf("read binding: %w", err)
	}
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return Binding{}, fmt.Errorf("read binding: %w", err)
	}
	return parse(file, dir, data)
}

func parse(file, dir string, data []byte) (Binding, error) {
	var b Binding
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	switch err := dec.Decode(&b); {
	case errors.Is(err, io.EOF):
		return Binding{}, fmt.Errorf("%s: line 1: want a binding, the file is empty", file)
	case err != nil:
		return Binding{}, fmt.Errorf("%s: %s", file, explain(err))
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return Binding{}, fmt.Errorf("%s: want one document", file)
	}
	for i, arg := range b.Command {
		b.Command[i] = strings.ReplaceAll(arg, phDir, dir)
	}
	p := b.problem()
	if p == nil {
		return b, nil
	}
	var tree yaml.Node
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return Binding{}, fmt.Errorf("%s: %w", file, err)
	}
	return Binding{}, fmt.Errorf("%s: line %d: %s: %s", file, lineOf(&tree, p.where), strings.Join(p.where, "."), p.what)
}

// lineOf returns the line of what where leads to, or of as much of it as is there.
func lineOf(tree *yaml.Node, where []string) int {
	n, line := tree, 1
	if n.Kind == yaml.DocumentNode {
		n = n.Content[0]
	}
	for _, name := range where {
		var next *yaml.Node
		switch n.Kind {
		case yaml.MappingNode:
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == name {
					line, next = n.Content[i].Line, n.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(name); err == nil && i < len(n.Content) {
				line, next = n.Content[i].Line, n.Content[i]
			}
		case yaml.DocumentNode, yaml.ScalarNode, yaml.AliasNode:
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}

var (
	unknownMember = regexp.MustCompile(`field (\S+) not found in type mcp\.(\S+)`)
	wrongShape    = regexp.MustCompile("cannot unmarshal (!!\\S+)( `.*`)? into (\\S+)")
)

// members lists what a mapping of a file may hold, for those who misspelled one.
var members = map[string]string{
	"Binding":   "name, version, command, protocol, paths, tools, errors or policies",
	"Tool":      "tool, args or constants",
	"ErrorText": "text or kind",
}

// explain rewrites what the decoder says in terms of Go types.
func explain(err error) string {
	var shapes *yaml.TypeError
	if !errors.As(err, &shapes) {
		return strings.TrimPrefix(err.Error(), "yaml: ")
	}
	lines := slices.Clone(shapes.Errors)
	for i, line := range lines {
		line = unknownMember.ReplaceAllStringFunc(line, func(m string) string {
			parts := unknownMember.FindStringSubmatch(m)
			return fmt.Sprintf("%s: want %s", parts[1], members[parts[2]])
		})
		lines[i] = wrongShape.ReplaceAllStringFunc(line, func(m string) string {
			into := wrongShape.FindStringSubmatch(m)[3]
			switch {
			case strings.HasPrefix(into, "[]"):
				return "want a list"
			case strings.HasPrefix(into, "map[") || into == "mcp.Binding" || into == "mcp.Tool" ||
				into == "mcp.ErrorText" || into == "spec.Policies":
				return "want names with values, as in {name: value}"
			default:
				return "want a text"
			}
		})
	}
	return strings.Join(lines, "; ")
}

//go:embed presets/*.yaml
var presets embed.FS

// filesystemPackage is what npm calls the server of Filesystem.
const filesystemPackage = "@modelcontextprotocol/server-filesystem"

// Filesystem returns the binding of the official file server. folder is where it
// is installed: the folder of the package, or the one that was given to npm as
// its prefix. The version is that of the package found, whose texts may differ
// from those of the version that the preset was made for; a text that it does
// not know makes a failure spec.ErrOther.
func Filesystem(folder string) (Binding, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return Binding{}, fmt.Errorf("find %s: %w", filesystemPackage, err)
	}
	if below := filepath.Join(folder, "node_modules", filepath.FromSlash(filesystemPackage)); isDir(below) {
		folder = below
	}
	manifest := filepath.Join(folder, "package.json")
	data, err := os.ReadFile(manifest)
	if err != nil {
		return Binding{}, fmt.Errorf("find %s: %w", filesystemPackage, err)
	}
	var found struct{ Name, Version string }
	if err := json.Unmarshal(data, &found); err != nil {
		return Binding{}, fmt.Errorf("%s: %w", manifest, err)
	}
	if found.Name != filesystemPackage {
		return Binding{}, fmt.Errorf("%s: name %q: want %s", manifest, found.Name, filesystemPackage)
	}
	data, err = presets.ReadFile("presets/filesystem.yaml")
	if err != nil {
		return Binding{}, err
	}
	b, err := parse("presets/filesystem.yaml", folder, data)
	if err != nil {
		return Binding{}, err
	}
	if b.Version = found.Version; b.Version == "" {
		return Binding{}, fmt.Errorf("%s: want a version", manifest)
	}
	return b, nil
}

func isDir(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
