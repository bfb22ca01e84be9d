package spec_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

func TestStatus(t *testing.T) {
	for status, name := range map[spec.Status]string{
		spec.StatusUnknown: "unknown", spec.StatusOK: "ok", spec.StatusFailed: "failed",
	} {
		text, err := status.MarshalText()
		if err != nil || string(text) != name || status.String() != name {
			t.Errorf("status %d prints as %q and %q, %v; want %q", status, text, status, err, name)
		}
		back := spec.Status(99)
		if err := back.UnmarshalText(text); err != nil || back != status {
			t.Errorf("%q reads as %v, %v", text, back, err)
		}
	}
	// An answer that never arrived reads as neither success nor failure.
	if zero := (spec.Outcome{}).Status; zero != spec.StatusUnknown {
		t.Errorf("the zero status is %s", zero)
	}
}

func TestNoSuchStatus(t *testing.T) {
	var s spec.Status
	for _, text := range []string{"", "OK", "done", "status(9)"} {
		want := `status "` + text + `": want unknown, ok or failed`
		if err := s.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	if _, err := spec.Status(9).MarshalText(); err == nil || err.Error() != "spec: no such status 9" {
		t.Errorf("status 9 marshals: %v", err)
	}
	if got := spec.Status(9).String(); got != "status(9)" {
		t.Errorf("status 9 prints as %q", got)
	}
}

func TestOutcomeJSON(t *testing.T) {
	out := spec.Outcome{
		Call: 3, Status: spec.StatusFailed, Err: spec.ErrAccess, Errno: "EACCES", Detail: "no", Content: spec.Content{0xff},
		Version: "v", Receipt: &spec.Receipt{Dst: "/r/a", Size: 1},
	}
	raw, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"call":3,"status":"failed","err":"EACCES","errno":"EACCES","detail":"no","content":"base64:/w==","version":"v","receipt":{"dst":"/r/a","size":1}}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var back spec.Outcome
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out, back); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}
