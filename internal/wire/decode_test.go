package wire

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fsbench/fsbench/spec"
)

func TestDecodeSaysWhatWasExpected(t *testing.T) {
	for _, tc := range []struct {
		name string
		raw  string
		into any
		want string
	}{
		{"no params", ``, &Do{}, "want an object"},
		{"null params", `null`, &Do{}, "want an object"},
		{"missing", `{}`, &Do{}, "call is missing"},
		{"missing below", `{"call":{"id":1,"kind":"read"}}`, &Do{}, "call.path is missing"},
		{"wrong type", `{"call":{"id":1,"kind":"read","path":7}}`, &Do{}, "call.path: want a string"},
		{"negative id", `{"call":{"id":-1,"kind":"read","path":"a"}}`, &Do{}, "call.id: want a whole number in range"},
		{"fraction", `{"call":{"id":1.5,"kind":"read","path":"a"}}`, &Do{}, "call.id: want a whole number in range"},
		{"null session", `{"call":{"id":1,"kind":"read","path":"a","session":null}}`, &Do{}, "call.session: want a string"},
		{"null session to confess", `{"session":null}`, &Confess{}, "session: want a string"},
		{"null content", `{"call":{"id":1,"kind":"write","path":"a","content_b64":null}}`, &Do{}, "call.content_b64: want standard base64 with padding"},
		{"base64 without padding", `{"outcome":"applied","content_b64":"QQ"}`, &Outcome{}, "content_b64: want standard base64 with padding"},
		{"base64 with a line break", `{"outcome":"applied","content_b64":"QUJD\n"}`, &Outcome{}, "content_b64: want standard base64 with padding"},
		{"base64 with stray bits", `{"outcome":"applied","content_b64":"QR=="}`, &Outcome{}, "content_b64: want standard base64 with padding"},
		{"name in other case", `{"Outcome":"applied"}`, &Outcome{}, "outcome is missing"},
		{"word as number", `{"outcome":1}`, &Outcome{}, "outcome: want a string"},
		{"error as text", `{"outcome":"unknown","error":"x"}`, &Outcome{}, "error: want an object"},
		{"list", `{"entries":[{"id":"a"},{"id":1}]}`, &Entries{}, "entries[1].id: want a string"},
		{"not a list", `{"entries":{}}`, &Entries{}, "entries: want a list"},
		{"landed as text", `{"landed":"true"}`, &Landed{}, "landed: want true or false"},
		{"capability as text", `{"protocol":1,"implementation":{"name":"n","version":"v","language":"l"},"roles":[],"capabilities":{"read":"yes"},"policies":{},"limits":{"max_content":0,"concurrency":1}}`, &Greeting{}, "capabilities.read: want true or false"},
		{"range", `{"protocol":{"min":2,"max":1},"edition":"e","runner":"r","wants":[]}`, &Hello{}, "protocol: want 1 <= min <= max"},
		{"half a range", `{"protocol":{"min":2},"edition":"e","runner":"r","wants":[]}`, &Hello{}, `protocol: want {"min":n,"max":n}: max is missing`},
		{"mode", `{"edit":{"op":"chmod","path":"a","mode":"rw"}}`, &Edit{}, `edit.mode: mode "rw": want octal, at most 7777`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := Decode(json.RawMessage(tc.raw), tc.into)
			if err == nil {
				t.Fatalf("%s was read as %+v, want %q", tc.raw, tc.into, tc.want)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeTakesWhatIsMeant(t *testing.T) {
	three := 3
	agent := spec.SessionID("")
	for _, tc := range []struct {
		name string
		raw  string
		into any
		want any
	}{
		{"empty content is content", `{"content_b64":""}`, &Content{}, &Content{B64: []byte{}}},
		{"no content", `{}`, &Content{}, &Content{}},
		{"member of a later version", `{"landed":true,"cost":7}`, &Landed{}, &Landed{Landed: true}},
		{"same name in other case is another", `{"landed":true,"Landed":false}`, &Landed{}, &Landed{Landed: true}},
		{"bare version", `2`, &Range{}, &Range{2, 2}},
		{"embedded", `{"id":1,"kind":"write","path":"p","content_b64":"QQ==","args":{"a": 1}}`, &Call{}, &Call{ID: 1, Kind: "write", Path: "p", Content: Content{B64: []byte("A")}, Args: json.RawMessage(`{"a": 1}`)}},
		{"pointer", `{"count":3,"denials":[null]}`, &Confession{}, &Confession{Count: &three, Denials: []json.RawMessage{json.RawMessage("null")}}},
		{"empty session", `{"session":""}`, &Confess{}, &Confess{Session: &agent}},
		{"no events", `{"events":[]}`, &Confess{}, &Confess{Events: []json.RawMessage{}}},
		{"text", `{"edit":{"op":"write","path":"a","content":"base64:/w==","mode":"0640"}}`, &Edit{}, &Edit{spec.Edit{Op: "write", Path: "a", Content: spec.Content{0xff}, Mode: 0o640}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := Decode(json.RawMessage(tc.raw), tc.into); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, tc.into); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}
