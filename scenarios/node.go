package scenarios

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fsbench/fsbench/spec"
)

// setNode puts one field of a world line into n. typ is the word that the line
// gives as type.
func setNode(n *spec.Node, typ string, f spec.Field) (err error) {
	switch f.Key {
	case "to":
		if typ == "hard" {
			n.Hard = f.Value
		} else {
			n.Link = f.Value
		}
	case "mode":
		err = n.Mode.UnmarshalText([]byte(f.Value))
	case "owner":
		n.Owner = spec.Owner(f.Value)
		if n.Owner != spec.OwnerOther {
			err = fmt.Errorf("owner %q: want %s, or no owner for the subject's own", f.Value, spec.OwnerOther)
		}
	case "mtime":
		if n.Mtime, err = strconv.ParseInt(f.Value, 10, 64); err != nil {
			err = fmt.Errorf("mtime %q: want seconds", f.Value)
		}
	case "immutable":
		n.Immutable = f.Value == "yes"
		if !n.Immutable {
			err = fmt.Errorf("immutable %q: want yes, or no such field", f.Value)
		}
	case "mount":
		n.Mount = spec.Mount(f.Value)
		if n.Mount != spec.MountReadOnly && n.Mount != spec.MountBind {
			err = fmt.Errorf("mount %q: want %s or %s", f.Value, spec.MountReadOnly, spec.MountBind)
		}
	case "content":
		err = n.Content.UnmarshalText([]byte(f.Value))
	default:
		name, isXattr := strings.CutPrefix(f.Key, "x:")
		if !isXattr {
			return fmt.Errorf("world: %q is unknown: want to=, mode=, owner=, mtime=, immutable=, mount=, content= or x:NAME=", f)
		}
		var value spec.Content
		if err = value.UnmarshalText([]byte(f.Value)); err == nil {
			if n.Xattrs == nil {
				n.Xattrs = map[string]spec.Content{}
			}
			n.Xattrs[name] = value
		}
	}
	return err
}

func keyed(f spec.Field) bool { return f.Key != "" }

func (s *Scenario) broker(fields []spec.Field) error {
	if len(fields) != 2 || slices.ContainsFunc(fields, keyed) {
		return fmt.Errorf("broker: want a seam and a script, as in: write honest")
	}
	s.Brokers = append(s.Brokers, spec.Broker{
		Seam: spec.Seam(fields[0].Value), Kind: spec.BrokerKind(fields[1].Value),
	})
	return nil
}

func (s *Scenario) step(fields []spec.Field) error {
	if fields[0].Value == "edit" && fields[0].Key == "" {
		e, err := spec.ParseEdit(fields[1:])
		s.Steps = append(s.Steps, Step{Edit: &e})
		return err
	}
	malformed := errors.New("step: want a call, as in: 1 write d/a content=\"new\", or an edit, as in: edit remove ws/a")
	if len(fields) < 3 || slices.ContainsFunc(fields[:3], keyed) {
		return malformed
	}
	id, err := strconv.ParseUint(fields[0].Value, 10, 32)
	if err != nil {
		return malformed
	}
	c := spec.Call{
		ID: spec.CallID(id), Kind: spec.CallKind(fields[1].Value), Path: fields[2].Value, Session: defaultSession,
	}
	for _, f := range fields[3:] {
		switch f.Key {
		case "to":
			c.To = f.Value
		case "content":
			err = c.Content.UnmarshalText([]byte(f.Value))
		case "expect":
			c.ExpectVersion = f.Value
		case "session":
			c.Session = spec.SessionID(f.Value)
		case "client":
			if c.Client, err = strconv.Atoi(f.Value); err != nil {
				err = fmt.Errorf("client %q: want a number", f.Value)
			}
		case "tool":
			c.Tool = f.Value
		case "args":
			err = c.Args.UnmarshalText([]byte(f.Value))
		default:
			err = fmt.Errorf("call: %q is unknown: want to=, content=, expect=, session=, client=, tool= or args=", f)
		}
		if err != nil {
			return err
		}
	}
	s.Steps = append(s.Steps, Step{Call: &c})
	return nil
}
