package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/trace"
)

// WriteStory writes a trace for people: one line for each event, in order, with
// trees as what changed in them. The trace itself stays the evidence; content is
// cut short here.
func WriteStory(w io.Writer, events []trace.Event) error {
	var b strings.Builder
	var before spec.World
	for _, e := range events {
		for _, l := range tell(e, before) {
			call := ""
			if e.Call != 0 {
				call = strconv.Itoa(int(e.Call))
			}
			fmt.Fprintf(&b, "%4d %3s  %-8s %s\n", e.Seq, call, l.what, spec.Printable(l.text))
		}
		if e.World != nil {
			before = e.World
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// line is one line of a story: a word, and what it says of the event.
type line struct{ what, text string }

func tell(e trace.Event, before spec.World) []line {
	switch {
	case e.Header != nil:
		h := e.Header
		text := fmt.Sprintf("%s on %s, scenario %s, root %s", h.Subject, h.Sandbox, h.Scenario, h.Root)
		if h.Limits != "" {
			text += ", " + h.Limits
		}
		return []line{{"run", text}}
	case e.Invoke != nil:
		return []line{{"call", tellCall(*e.Invoke)}}
	case e.Fault != nil:
		f := e.Fault
		text := fmt.Sprintf("%s at %s of %s (%s, injection %s)", f.Effect, f.Op, f.Path, f.By, f.Injection)
		if f.After {
			text += ", after it was performed"
		}
		return []line{{"fault", text}}
	case e.Edit != nil:
		return []line{{"edit", spec.FormatFields(e.Edit.Fields())}}
	case e.Glimpse != nil:
		return []line{{"look", "a reader looks after " + e.Glimpse.After}}
	case e.Left != nil:
		return []line{{"open", "still open: " + spec.Printable(strings.Join(e.Left.Paths, " "))}}
	case e.Consult != nil:
		return []line{{"handler", tellConsult(*e.Consult)}}
	case e.Diag != nil:
		text := e.Diag.Level + " " + e.Diag.Msg
		for _, k := range slices.Sorted(maps.Keys(e.Diag.Attrs)) {
			text += " " + spec.Field{Key: k, Value: cut(e.Diag.Attrs[k])}.String()
		}
		return []line{{"diag", text}}
	case e.Wire != nil:
		return []line{{"wire", strings.TrimSpace(e.Wire.Kind + " " + e.Wire.Note + " " + e.Wire.Line)}}
	case e.Crash != nil:
		return []line{{"crash", e.Crash.Model}}
	case e.Log != nil:
		return []line{{"log", fmt.Sprintf("%s %s", e.Log.Type, cutJSON(e.Log.Data))}}
	case e.World != nil:
		return tellWorld(e.World, before)
	case e.Return != nil:
		return []line{{"answer", tellOutcome(*e.Return)}}
	}
	return []line{{"?", "an event of a later format"}}
}

func tellCall(c spec.Call) string {
	fields := []spec.Field{{Value: string(c.Kind)}, {Value: c.Path}}
	for _, f := range []spec.Field{
		{Key: "to", Value: c.To},
		{Key: "tool", Value: c.Tool},
		{Key: "args", Value: cut(c.Args.String())},
		{Key: "expect", Value: cut(c.ExpectVersion)},
		{Key: "session", Value: string(c.Session)},
	} {
		if f.Value != "" {
			fields = append(fields, f)
		}
	}
	if c.Content != nil {
		fields = append(fields, spec.Field{Key: "content", Value: cut(c.Content.String())})
	}
	return spec.FormatFields(fields)
}

func tellConsult(c trace.Consult) string {
	text := strconv.Itoa(c.Handler)
	switch {
	case c.Write != nil:
		text += fmt.Sprintf(" is asked to write %q to %s after %s", cut(c.Write.Content.String()), c.Write.Dst, c.Write.Cause)
		if c.Write.Exclusive {
			text += ", if nothing is there"
		}
	case c.Delete != nil:
		text += fmt.Sprintf(" is asked to unlink %s after %s", c.Delete.Dst, c.Delete.Cause)
	}
	text += ": " + string(c.Answer)
	if c.Acted {
		text += " (and the tree changed)"
	}
	return text
}

func tellOutcome(o spec.Outcome) string {
	text := o.Status.String()
	if o.Err != "" {
		text += " " + string(o.Err)
	}
	if o.Content != nil {
		text += fmt.Sprintf(" %q", cut(o.Content.String()))
	}
	if o.Version != "" {
		text += " version " + cut(o.Version)
	}
	if o.Detail != "" {
		text += ": " + o.Detail
	}
	return text
}

// tellWorld says how the tree changed: + is new, - is gone, ~ is different.
func tellWorld(after, before spec.World) []line {
	all := before.Clone()
	if all == nil {
		all = spec.World{}
	}
	maps.Copy(all, after)
	var lines []line
	for _, p := range all.Paths() {
		was, had := before[p]
		is, has := after[p]
		switch {
		case !had:
			lines = append(lines, line{"tree", "+ " + tellNode(p, is)})
		case !has:
			lines = append(lines, line{"tree", "- " + tellNode(p, was)})
		case tellNode(p, was) != tellNode(p, is) || !slices.Equal(was.Content, is.Content):
			lines = append(lines, line{"tree", "~ " + tellNode(p, is)})
		}
	}
	if lines == nil {
		lines = []line{{"tree", "as before"}}
	}
	return lines
}

func tellNode(p string, n spec.Node) string {
	fields := []spec.Field{{Value: p}, {Value: string(n.Type)}, {Key: "mode", Value: n.Mode.String()}}
	for _, f := range []spec.Field{
		{Key: "owner", Value: string(n.Owner)},
		{Key: "to", Value: n.Link},
		{Key: "hard", Value: n.Hard},
		{Key: "mount", Value: string(n.Mount)},
	} {
		if f.Value != "" {
			fields = append(fields, f)
		}
	}
	if n.Immutable {
		fields = append(fields, spec.Field{Key: "immutable", Value: "yes"})
	}
	if n.Nlink > 1 {
		fields = append(fields, spec.Field{Key: "nlink", Value: strconv.Itoa(n.Nlink)})
	}
	for _, name := range slices.Sorted(maps.Keys(n.Xattrs)) {
		fields = append(fields, spec.Field{Key: "x:" + name, Value: cut(n.Xattrs[name].String())})
	}
	if n.Type == spec.TypeFile && n.Hard == "" {
		fields = append(fields, spec.Field{Key: "content", Value: cut(n.Content.String())})
	}
	return spec.FormatFields(fields)
}

// storyWidth is what a line shows of a content, in characters.
const storyWidth = 60

func cut(s string) string {
	if r := []rune(s); len(r) > storyWidth {
		return fmt.Sprintf("%s... (%d bytes)", string(r[:storyWidth/2]), len(s))
	}
	return s
}

// cutJSON writes the members of an object as fields, each cut short.
func cutJSON(raw json.RawMessage) string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return cut(string(raw))
	}
	parts := make([]string, 0, len(fields))
	for _, k := range slices.Sorted(maps.Keys(fields)) {
		v := string(fields[k])
		var s string
		if json.Unmarshal(fields[k], &s) == nil {
			v = s
		}
		parts = append(parts, spec.Field{Key: k, Value: cut(v)}.String())
	}
	return strings.Join(parts, " ")
}
