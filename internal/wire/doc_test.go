package wire

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fsbench/fsbench/spec"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The conversation in docs/PROTOCOL.md keeps the protocol that it explains.
func TestDocumentedConversation(t *testing.T) {
	_, rest, _ := strings.Cut(page(t), "```conversation\n")
	conversation, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the page has no conversation")
	}
	s := loadSchemas(t)
	codecs := map[string]func() any{}
	for _, m := range messages {
		codecs[m.method+" "+m.part] = m.into
	}
	check := func(line, method, part string, raw json.RawMessage) {
		if err := s.check(SchemaOf(method, part), raw); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		if err := Decode(raw, codecs[method+" "+part]()); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
	pending := map[string]string{} // methods, by who asked and the id
	answerer := map[string]string{">": "<", "<": ">"}
	for line := range strings.Lines(conversation) {
		side, raw := line[:1], []byte(strings.TrimSpace(line[1:]))
		if err := s.check(SchemaBase+"message.json", raw); err != nil {
			t.Errorf("%s: %v", line, err)
		}
		m, fault := Parse(raw)
		if fault != nil {
			t.Errorf("%s: %v", line, fault)
			continue
		}
		if m.Request() {
			check(line, m.Method, "params", m.Params)
			if m.ID != nil {
				pending[side+string(m.ID)] = m.Method
			}
			continue
		}
		method, asked := pending[answerer[side]+string(m.ID)]
		delete(pending, answerer[side]+string(m.ID))
		switch {
		case !asked:
			t.Errorf("%s: it answers nothing", line)
		case m.Result != nil:
			check(line, method, "result", m.Result)
		}
		if method == MethodDo && m.Result != nil {
			var o Outcome
			if err := Decode(m.Result, &o); err != nil {
				t.Error(err)
			} else if f := o.Check("/box/ws"); f != nil {
				t.Errorf("%s: %v", line, f)
			}
		}
	}
	if len(pending) > 0 {
		t.Errorf("never answered: %v", pending)
	}
}

// The page names every method, word, class, policy and kind, and no other.
func TestDocumentedWords(t *testing.T) {
	text := page(t)
	quoted := map[string]bool{}
	for _, m := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(text, -1) {
		quoted[m[1]] = true
	}
	want := slices.Concat(words(Kinds), words(Words), Roles, Durables, TurnActions, RegistryActions, []string{
		FeatureExpectVersion, FeatureExclusive, FeatureConfess, FeatureLog, FeatureTurn, FeatureBench, FeatureWorker,
	})
	for _, w := range spec.ErrWords {
		want = append(want, string(w.Class))
	}
	for name, values := range spec.PolicyValues {
		want = append(append(want, name), values...)
	}
	for _, m := range messages {
		want = append(want, m.method)
	}
	for _, word := range want {
		if !quoted[word] {
			t.Errorf("the page does not name %q", word)
		}
	}
	departures := text[strings.Index(text, "## Departures"):strings.Index(text, "## A conversation")]
	for _, m := range regexp.MustCompile("`([a-z0-9]+-[a-z0-9-]+)`").FindAllStringSubmatch(departures, -1) {
		if !slices.Contains(Kinds, Kind(m[1])) {
			t.Errorf("the page names the kind %q, and there is none", m[1])
		}
	}
}
