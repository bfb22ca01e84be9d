package runner_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/fsbench/fsbench/runner"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/trace"
)

// TestScripts asks every script at both seams, once for what can be done and once
// for what cannot, and compares what it did, what it said, and what was recorded.
func TestScripts(t *testing.T) {
	type behaviour struct {
		said  string // by the handler
		acted bool
		write string // what a file that held old holds after a write
		gone  bool   // whether a file is gone after a delete
		spoil string // what is said where the work cannot be done
	}
	const threw = "the broker is unavailable"
	scripts := map[spec.BrokerKind]struct{ write, delete behaviour }{
		spec.Honest:    {behaviour{"landed", true, "new!", false, "declined"}, behaviour{"landed", true, "", true, "declined"}},
		spec.Liar:      {behaviour{"landed", false, "old", false, "landed"}, behaviour{"landed", false, "", false, "landed"}},
		spec.Short:     {behaviour{"landed", true, "ne", false, "declined"}, behaviour{"landed", false, "", false, "landed"}},
		spec.Declines:  {behaviour{"declined", false, "old", false, "declined"}, behaviour{"declined", false, "", false, "declined"}},
		spec.Mutates:   {behaviour{"declined", false, "old", false, "declined"}, behaviour{"declined", false, "", false, "declined"}},
		spec.Throws:    {behaviour{threw, false, "old", false, threw}, behaviour{threw, false, "", false, threw}},
		spec.LateThrow: {behaviour{threw, true, "new!", false, "declined"}, behaviour{threw, true, "", true, "declined"}},
		spec.Panics:    {behaviour{"panic", false, "old", false, "panic"}, behaviour{"panic", false, "", false, "panic"}},
	}
	for _, kind := range spec.BrokerKinds {
		script, known := scripts[kind]
		if !known {
			t.Errorf("no script %s here", kind)
		}
		for _, seam := range []spec.Seam{spec.SeamWrite, spec.SeamDelete} {
			want := script.write
			if seam == spec.SeamDelete {
				want = script.delete
			}
			for _, dst := range []string{"a", "d"} { // a directory can be neither written to nor unlinked
				t.Run(fmt.Sprintf("%s %s %s", seam, kind, dst), func(t *testing.T) {
					said, consults, after := consult(t, seam, kind, dst)
					wantSaid, acted := want.said, want.acted
					if dst == "d" {
						wantSaid, acted = want.spoil, false
					}
					if said != wantSaid {
						t.Errorf("it said %q, want %q", said, wantSaid)
					}
					if len(consults) != 1 {
						t.Fatalf("%d consults were recorded", len(consults))
					}
					c := consults[0]
					recorded := map[trace.Answer]string{trace.Landed: "landed", trace.Declined: "declined", trace.Threw: threw}[c.Answer]
					if wantSaid == "panic" {
						wantSaid = threw
					}
					if recorded != wantSaid || c.Acted != acted || c.Handler != 2 {
						t.Errorf("recorded: handler %d, %s, acted %v; want 2, %s, %v", c.Handler, recorded, c.Acted, wantSaid, acted)
					}
					if (c.Write != nil) != (seam == spec.SeamWrite) || (c.Delete != nil) != (seam == spec.SeamDelete) {
						t.Errorf("recorded: %+v", c)
					}
					file, there := after["ws/a"]
					switch {
					case dst == "d" && (after["ws/d"].Type != spec.TypeDir || string(file.Content) != "old"):
						t.Errorf("the tree is %v", after)
					case dst == "a" && seam == spec.SeamDelete && there == want.gone:
						t.Errorf("the file is there: %v", there)
					case dst == "a" && seam == spec.SeamWrite && string(file.Content) != want.write:
						t.Errorf("the file holds %q, want %q", file.Content, want.write)
					}
				})
			}
		}
	}
}

// consult has a subject ask the second of two handlers.
func consult(t *testing.T, seam spec.Seam, kind spec.BrokerKind, dst string) (said string, consults []trace.Consult, after spec.World) {
	t.Helper()
	s := parse(t, fmt.Sprintf("title: t\n-- world --\nws/a file content=old\nws/d dir\n-- brokers --\nwrite declines\n%s %s\n-- steps --\n1 read a\n", seam, kind))
	d := &fake{}
	d.open = func(_ int, env sut.Env) (*session, error) {
		return &session{do: func(ctx context.Context, _ spec.Call) (spec.Outcome, error) {
			said = ask(ctx, env.Handlers[1], env.Root+"/"+dst)
			return spec.Outcome{Status: spec.StatusOK}, nil
		}}, nil
	}
	run, err := execute(t, d, newBox(nil), s, runner.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range run.Events {
		if e.Consult != nil {
			consults = append(consults, *e.Consult)
		}
		if e.World != nil {
			after = e.World
		}
	}
	return said, consults, after
}

func ask(ctx context.Context, h sut.Handler, dst string) (said string) {
	defer func() {
		if recover() != nil {
			said = "panic"
		}
	}()
	var landed bool
	var err error
	if h.Seam == spec.SeamWrite {
		r := spec.WriteRequest{Content: spec.Content("new!")}
		r.Dst = dst
		landed, err = h.Write(ctx, r)
	} else {
		r := spec.DeleteRequest{}
		r.Dst = dst
		landed, err = h.Delete(ctx, r)
	}
	switch {
	case err != nil:
		return err.Error()
	case landed:
		return "landed"
	}
	return "declined"
}
