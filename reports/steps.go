package reports

import (
	"fmt"
	"io"
	"strings"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
)

// WriteSteps writes for people what a subject that was watched from outside did in the
// tree: a line for each step, with what it changed, and what is on no record.
func WriteSteps(w io.Writer, steps []faults.Step, records []faults.Record) error {
	var b strings.Builder
	done := map[string][]faults.Mutation{}
	var order []string // of what was done at no step of a call
	for _, r := range records {
		for _, m := range r.Mutations {
			if done[m.Key] == nil {
				order = append(order, m.Key)
			}
			done[m.Key] = append(done[m.Key], m)
		}
	}
	for _, s := range steps {
		writeStep(&b, s.Key, done[s.Key])
		delete(done, s.Key)
	}
	for _, key := range order {
		if done[key] != nil {
			writeStep(&b, key, done[key])
		}
	}
	for _, r := range records {
		for _, g := range r.Gaps {
			what := string(g.Path)
			if what == "" {
				what = "the tree"
			}
			fmt.Fprintf(&b, "record incomplete for %s: %s\n", spec.Printable(what), spec.Printable(g.Reason))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeStep(b *strings.Builder, key string, done []faults.Mutation) {
	if len(done) == 0 {
		fmt.Fprintf(b, "step  %s\n", spec.Printable(key))
		return
	}
	for _, m := range done {
		fmt.Fprintf(b, "step  %-40s  %s\n", spec.Printable(key), spec.Printable(tellMutation(m)))
	}
}

// tellMutation says what was changed, and what the call returned.
func tellMutation(m faults.Mutation) string {
	fields := []spec.Field{{Value: string(m.Do)}}
	add := func(key, value string) {
		if value != "" {
			fields = append(fields, spec.Field{Key: key, Value: value})
		}
	}
	number := func(key string, n int64) {
		if n != 0 {
			add(key, fmt.Sprint(n))
		}
	}
	if m.Path != "" {
		fields = append(fields, spec.Field{Value: string(m.Path)})
	}
	switch m.Do {
	case faults.ChangeMake:
		add("type", string(m.Type))
		add("mode", m.Mode.String())
		add("to", string(m.Text))
	case faults.ChangeWrite:
		number("off", m.Off)
		add("content", cut(m.Data.String()))
	case faults.ChangeResize:
		add("size", fmt.Sprint(m.Size))
	case faults.ChangeClear, faults.ChangeReserve, faults.ChangeSyncPart:
		number("off", m.Off)
		number("size", m.Size)
	case faults.ChangeRename, faults.ChangeExchange:
		add("from", string(m.At.Name))
		add("to", string(m.To.Name))
	case faults.ChangeMode:
		add("mode", m.Mode.String())
	case faults.ChangeOwner:
		add("uid", fmt.Sprint(m.UID))
		add("gid", fmt.Sprint(m.GID))
	case faults.ChangeXattr, faults.ChangeNoXattr:
		add("name", string(m.Text))
		add("content", cut(m.Data.String()))
	case faults.ChangeSync:
		add("scope", string(m.Scope))
	case faults.ChangeEdit:
		if m.Edit != nil {
			fields = append(fields, m.Edit.Fields()...)
		}
	case faults.ChangeLink, faults.ChangeUnlink, faults.ChangeTimes, faults.ChangeSyncAll, faults.ChangeKnown:
	}
	number("result", m.Result)
	return spec.FormatFields(fields)
}
