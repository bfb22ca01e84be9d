package scenarios

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// The parts of a scenario file.
const (
	partWorld   = "world"
	partBrokers = "brokers"
	partSteps   = "steps"
	partFaults  = "faults"
)

// defaultSession is what a call line means that names no session.
const defaultSession spec.SessionID = "s1"

// String renders s as a txtar file: a header of "key: value" lines, then one part
// each for the world, the brokers, the steps and the faults.
func (s Scenario) String() string {
	var head strings.Builder
	add := func(key, value string) {
		if value != "" {
			fmt.Fprintf(&head, "%s: %s\n", key, value)
		}
	}
	add("title", s.Title)
	add("source", s.Source)
	rules := make([]string, len(s.Rules))
	for i, r := range s.Rules {
		rules[i] = string(r)
	}
	add("rules", strings.Join(rules, " "))
	add("needs", strings.Join(s.Needs, " "))
	var policies []spec.Field
	for _, name := range slices.Sorted(maps.Keys(s.Policies)) {
		policies = append(policies, spec.Field{Key: name, Value: s.Policies[name]})
	}
	add("policies", spec.FormatFields(policies))
	if s.Origin != (Origin{}) {
		add("origin", spec.FormatFields([]spec.Field{
			{Key: "profile", Value: s.Origin.Profile},
			{Key: "seed", Value: strconv.FormatUint(s.Origin.Seed, 10)},
			{Key: "version", Value: s.Origin.Version},
		}))
	}
	ar := &txtar.Archive{Comment: []byte(head.String())}
	part := func(name string, lines []string) {
		if len(lines) > 0 {
			ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(strings.Join(lines, "\n") + "\n")})
		}
	}
	var lines []string
	for _, p := range s.World.Paths() {
		lines = append(lines, spec.FormatFields(nodeFields(p, s.World[p])))
	}
	part(partWorld, lines)
	lines = nil
	for _, b := range s.Brokers {
		lines = append(lines, string(b.Seam)+" "+string(b.Kind))
	}
	part(partBrokers, lines)
	lines = nil
	for _, st := range s.Steps {
		lines = append(lines, spec.FormatFields(st.fields()))
	}
	part(partSteps, lines)
	if text := s.Faults.String(); text != "" {
		part(partFaults, []string{strings.TrimSuffix(text, "\n")})
	}
	return string(txtar.Format(ar))
}

func (st Step) fields() []spec.Field {
	if st.Edit != nil {
		return append([]spec.Field{{Value: "edit"}}, st.Edit.Fields()...)
	}
	c := st.Call
	fields := []spec.Field{{Value: strconv.Itoa(int(c.ID))}, {Value: string(c.Kind)}, {Value: c.Path}}
	add := func(key, value string, set bool) {
		if set {
			fields = append(fields, spec.Field{Key: key, Value: value})
		}
	}
	add("to", c.To, c.To != "")
	add("content", c.Content.String(), c.Content != nil)
	add("expect", c.ExpectVersion, c.ExpectVersion != "")
	add("session", string(c.Session), c.Session != defaultSession)
	add("client", strconv.Itoa(c.Client), c.Client != 0)
	add("tool", c.Tool, c.Tool != "")
	add("args", c.Args.String(), c.Args != nil)
	return fields
}

func nodeFields(p string, n spec.Node) []spec.Field {
	if n.Hard != "" {
		return []spec.Field{{Value: p}, {Value: "hard"}, {Key: "to", Value: n.Hard}}
	}
	fields := []spec.Field{{Value: p}, {Value: string(n.Type)}}
	add := func(key, value string, set bool) {
		if set {
			fields = append(fields, spec.Field{Key: key, Value: value})
		}
	}
	add("to", n.Link, n.Link != "")
	add("mode", n.Mode.String(), n.Mode != defaultMode(n.Type))
	add("owner", string(n.Owner), n.Owner != spec.OwnerSubject)
	add("mtime", strconv.FormatInt(n.Mtime, 10), n.Mtime != 0)
	add("immutable", "yes", n.Immutable)
	add("mount", string(n.Mount), n.Mount != spec.MountNone)
	for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
		add("x:"+name, n.Xattrs[name].String(), true)
	}
	add("content", n.Content.String(), len(n.Content) > 0) // a file without content is empty
	return fields
}

func defaultMode(t spec.NodeType) spec.Mode {
	switch t {
	case spec.TypeDir:
		return 0o755
	case spec.TypeLink:
		return 0o777
	case spec.TypeFile, spec.TypeFIFO, spec.TypeOther, spec.TypeHidden:
	}
	return 0o644
}

// Parse reads a scenario file. name is the file's, without its folder and
// extension; errors say the line and what was expected there.
func Parse(file, name string, data []byte) (Scenario, error) {
	s := Scenario{Name: name}
	ar := txtar.Parse(data)
	at := func(line int, err error) error { return fmt.Errorf("%s:%d: %w", file, line, err) }
	starts := partLines(data)
	line := 1
	for row := range strings.Lines(string(ar.Comment)) {
		if err := s.header(strings.TrimSpace(row)); err != nil {
			return Scenario{}, at(line, err)
		}
		line++
	}
	for i, part := range ar.Files {
		if slices.ContainsFunc(ar.Files[:i], func(f txtar.File) bool { return f.Name == part.Name }) {
			return Scenario{}, at(starts[i]-1, fmt.Errorf("part %q: want it once", part.Name))
		}
		if err := s.part(file, part.Name, starts[i], string(part.Data)); err != nil {
			return Scenario{}, err
		}
	}
	if err := s.Check(); err != nil {
		return Scenario{}, at(1, err)
	}
	return s, nil
}

// partLines returns the line at which the content of each part begins.
func partLines(data []byte) []int {
	var starts []int
	for i, row := range strings.Split(string(data), "\n") {
		row = strings.TrimSuffix(row, "\r")
		if strings.HasPrefix(row, "-- ") && strings.HasSuffix(row, " --") && len(row) >= len("-- x --") {
			starts = append(starts, i+2)
		}
	}
	return starts
}

func (s *Scenario) header(row string) error {
	if row == "" || row[0] == '#' {
		return nil
	}
	key, value, ok := strings.Cut(row, ":")
	value = strings.TrimSpace(value)
	if !ok {
		return fmt.Errorf("%q: want a line as in: title: what happens", row)
	}
	switch key {
	case "title":
		s.Title = value
	case "source":
		s.Source = value
	case "rules":
		for _, r := range strings.Fields(value) {
			s.Rules = append(s.Rules, spec.RuleID(r))
		}
	case "needs":
		s.Needs = strings.Fields(value)
	case "policies":
		fields, err := spec.ParseFields(value)
		if err != nil {
			return err
		}
		s.Policies = spec.Policies{}
		for _, f := range fields {
			s.Policies[f.Key] = f.Value
		}
	case "origin":
		return s.Origin.parse(value)
	default:
		return fmt.Errorf("header %q: want title, source, rules, needs, policies or origin", key)
	}
	return nil
}

func (o *Origin) parse(value string) error {
	fields, err := spec.ParseFields(value)
	if err != nil {
		return err
	}
	for _, f := range fields {
		switch f.Key {
		case "profile":
			o.Profile = f.Value
		case "version":
			o.Version = f.Value
		case "seed":
			if o.Seed, err = strconv.ParseUint(f.Value, 10, 64); err != nil {
				return fmt.Errorf("seed %q: want a number", f.Value)
			}
		default:
			return fmt.Errorf("origin %q: want profile=, seed= or version=", f)
		}
	}
	return nil
}

func (s *Scenario) part(file, name string, line int, text string) error {
	parse := map[string]func([]spec.Field) error{
		partWorld: s.node, partBrokers: s.broker, partSteps: s.step,
	}[name]
	if name == partFaults {
		plan, err := faults.ParsePlan(file, line, text)
		s.Faults = plan
		return err
	}
	if parse == nil {
		return fmt.Errorf("%s:%d: part %q: want world, brokers, steps or faults", file, line-1, name)
	}
	for i, row := range strings.Split(text, "\n") {
		if t := strings.TrimSpace(row); t == "" || t[0] == '#' {
			continue
		}
		fields, err := spec.ParseFields(row)
		if err == nil {
			err = parse(fields)
		}
		if err != nil {
			return fmt.Errorf("%s:%d: %w", file, line+i, err)
		}
	}
	return nil
}

func (s *Scenario) node(fields []spec.Field) error {
	if len(fields) < 2 || fields[0].Key != "" || fields[1].Key != "" {
		return fmt.Errorf("world: want a path and a type, as in: ws/a file content=\"old\"")
	}
	p, n := fields[0].Value, spec.Node{Type: spec.NodeType(fields[1].Value)}
	if n.Type == "hard" {
		n.Type = spec.TypeFile
	}
	n.Mode = defaultMode(n.Type)
	for _, f := range fields[2:] {
		if err := setNode(&n, fields[1].Value, f); err != nil {
			return err
		}
	}
	if s.World == nil {
		s.World = spec.World{}
	}
	if _, twice := s.World[p]; twice {
		return fmt.Errorf("world: %q is there already", p)
	}
	if n.Type == spec.TypeFile && n.Hard == "" && n.Content == nil {
		n.Content = spec.Content{}
	}
	s.World[p] = n
	return nil
}
