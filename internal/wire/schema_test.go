package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

// schemas compiles what is embedded.
type schemas struct{ compiler *jsonschema.Compiler }

func loadSchemas(t *testing.T) schemas {
	t.Helper()
	files, err := fs.Glob(Schemas, "schema/*.json")
	if err != nil {
		t.Fatal(err)
	}
	s := schemas{jsonschema.NewCompiler()}
	s.compiler.AssertFormat()
	for _, name := range files {
		text, err := Schemas.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		id := doc.(map[string]any)["$id"].(string)
		if want := SchemaBase + name[len("schema/"):]; id != want {
			t.Errorf("%s: its id is %s, want %s", name, id, want)
		}
		if err := s.compiler.AddResource(id, doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	return s
}

// check validates raw against the schema called url.
func (s schemas) check(url string, raw []byte) error {
	schema, err := s.compiler.Compile(url)
	if err != nil {
		return fmt.Errorf("compile %s: %w", url, err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	return schema.Validate(doc)
}

// message is one form of message: how it is drawn, and what reads it.
type message struct {
	method, part string
	draw         func(*rapid.T) any
	into         func() any
}

func of[M any](method, part string, draw func(*rapid.T) M) message {
	return message{method, part, func(t *rapid.T) any { return draw(t) }, func() any { return new(M) }}
}

func fixed[M any](method, part string, m M) message {
	return of(method, part, func(*rapid.T) M { return m })
}

func drawn[M any](t *rapid.T, m M, err error) M {
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// messages lists every message of the protocol.
var messages = []message{
	fixed(MethodHello, "params", Hello{Protocol: Speaks, Edition: "1", Runner: "fsbench", Wants: Roles}),
	of(MethodHello, "result", func(t *rapid.T) Greeting {
		g := Greeting{
			Protocol: Range{1, rapid.IntRange(1, 5).Draw(t, "max")}, Implementation: Implementation{genText.Draw(t, "name"), "1", "go", "", ""},
			Roles: rapid.SliceOf(rapid.SampledFrom(Roles)).Draw(t, "roles"), Capabilities: rapid.MapOf(genText, rapid.Bool()).Draw(t, "caps"),
			Policies: spec.Policies{}, Limits: Limits{rapid.Int64Min(0).Draw(t, "content"), rapid.IntMin(1).Draw(t, "concurrency")},
		}
		if g.Roles == nil {
			g.Roles = []string{}
		}
		for _, name := range slices.Sorted(maps.Keys(spec.PolicyValues)) {
			g.Policies[name] = rapid.SampledFrom(spec.PolicyValues[name]).Draw(t, name)
		}
		return g
	}),
	fixed(MethodOpen, "params", Open{
		Session: "s", Root: "/r", Workspace: "/r", AgentWork: "/w", Policy: json.RawMessage(`{"version":1}`),
		Brokers: []BrokerID{{"h1", spec.SeamWrite}, {"h2", spec.SeamDelete}}, Allow: []string{"/r/a"},
	}),
	fixed(MethodOpen, "params", Open{Session: "s", Root: "/r"}),
	fixed(MethodOpen, "result", Empty{}),
	of(MethodDo, "params", func(t *rapid.T) Do {
		c, err := FromCall(genCall.Draw(t, "call"), Inline)
		return Do{Call: drawn(t, c, err), Deadline: rapid.Int64Min(1).Draw(t, "deadline")}
	}),
	fixed(MethodDo, "params", Do{Call: Call{ID: 1, Kind: spec.CallWrite, Content: Content{File: "/content/1"}}}),
	of(MethodDo, "result", func(t *rapid.T) Outcome {
		spoken := genOutcome.Draw(t, "outcome")
		if spoken.Receipt != nil && spoken.Receipt.Dst != "" {
			spoken.Receipt.Dst = "/r/" + spoken.Receipt.Dst
		}
		o, err := FromOutcome(spoken)
		return drawn(t, o, err)
	}),
	of(MethodWrite, "params", func(t *rapid.T) BrokerWrite {
		w, err := FromWrite("h1", genWrite.Draw(t, "request"), Inline)
		return drawn(t, w, err)
	}),
	of(MethodDelete, "params", func(t *rapid.T) BrokerDelete {
		w, err := FromDelete("", genDelete.Draw(t, "request"))
		return drawn(t, w, err)
	}),
	fixed(MethodWrite, "result", Landed{true}),
	fixed(MethodDelete, "result", Landed{false}),
	of(MethodConfess, "params", func(t *rapid.T) Confess {
		id := genSession.Draw(t, "session")
		return rapid.SampledFrom([]Confess{
			{Session: &id}, {Log: genContent.Draw(t, "log")}, {Events: []json.RawMessage{genJSON.Draw(t, "event")}}, {Events: []json.RawMessage{}},
		}).Filter(func(c Confess) bool { return c.Session != nil || c.Log != nil || c.Events != nil }).Draw(t, "confess")
	}),
	of(MethodConfess, "result", func(t *rapid.T) Confession { return FromConfession(genConfession.Draw(t, "confession")) }),
	of(MethodLog, "params", func(t *rapid.T) Log { return Log{genSession.Draw(t, "session")} }),
	of(MethodLog, "result", func(t *rapid.T) Entries {
		return Entries{append([]LogEntry{}, rapid.SliceOf(rapid.Map(genEntry, FromLogEntry)).Draw(t, "entries")...)}
	}),
	fixed(MethodCancel, "params", Cancel{json.RawMessage(`7`)}),
	fixed(MethodRegistry, "params", Registry{"register", spec.SeamWrite, "h1", "s"}),
	fixed(MethodRegistry, "params", Registry{Action: "shutdown"}),
	fixed(MethodRegistry, "result", Empty{}),
	fixed(MethodTurn, "params", Turn{"s", "interrupt"}),
	fixed(MethodTurn, "result", Empty{}),
	fixed(MethodPrompt, "params", Prompt{"s", "may I?"}),
	fixed(MethodPrompt, "result", Allowed{false}),
	fixed(MethodBench, "params", Bench{"/r", 4096, 100, 4}),
	fixed(MethodBench, "result", Timing{1000, 10}),
	fixed(MethodArm, "params", Arm{json.RawMessage(`{}`)}),
	fixed(MethodArm, "result", Unfired{[]string{}}),
	fixed(MethodDisarm, "params", Empty{}),
	fixed(MethodDisarm, "result", Unfired{[]string{"deny"}}),
	fixed(MethodEvent, "params", map[string]any{"seq": 1.0, "actor": "fault"}),
	of(MethodEdit, "params", func(t *rapid.T) Edit { return Edit{genEdit.Draw(t, "edit")} }),
	of(MethodEdit, "result", func(t *rapid.T) Edited { return Edited{rapid.Bool().Draw(t, "done")} }),
	fixed(MethodQuiesce, "params", Session{}),
	fixed(MethodQuiesce, "result", Empty{}),
	fixed(MethodClose, "params", Session{"s"}),
	fixed(MethodClose, "result", Empty{}),
	fixed(MethodShutdown, "params", Empty{}),
	fixed(MethodShutdown, "result", Empty{}),
}

// What this package says, its schemas allow and its codecs read back.
func TestMessagesKeepTheirSchemas(t *testing.T) {
	s := loadSchemas(t)
	covered := map[string]bool{}
	for _, m := range messages {
		covered[SchemaOf(m.method, m.part)] = true
		t.Run(m.method+" "+m.part, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				want := m.draw(t)
				raw := marshal(want)
				if err := s.check(SchemaOf(m.method, m.part), raw); err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				got := m.into()
				if err := Decode(raw, got); err != nil {
					t.Fatalf("%s: %v", raw, err)
				}
				if diff := cmp.Diff(string(raw), string(marshal(got))); diff != "" {
					t.Fatalf("read back (-said +read):\n%s", diff)
				}
			})
		})
	}
	files, _ := fs.Glob(Schemas, "schema/*.json")
	for _, name := range files {
		text, _ := Schemas.ReadFile(name)
		var doc struct {
			ID   string                     `json:"$id"`
			Defs map[string]json.RawMessage `json:"$defs"`
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		for part := range doc.Defs {
			if ref := doc.ID + "#/$defs/" + part; doc.ID != SchemaBase+"common.json" && !covered[ref] {
				t.Errorf("%s: no message is checked against it", ref)
			}
		}
	}
}

func TestLinesKeepTheirSchema(t *testing.T) {
	s := loadSchemas(t)
	for _, tc := range []struct {
		line string
		want bool
	}{
		{`{"jsonrpc":"2.0","id":1,"method":"do","params":{}}`, true},
		{`{"jsonrpc":"2.0","method":"event","params":{}}`, true},
		{`{"jsonrpc":"2.0","id":"a","result":null}`, true},
		{`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}`, true},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`, true},
		{string(errorLine(nil, CodeFault, "")), false}, // a message is never empty: see the callers
		{`[]`, false},
		{`{"jsonrpc":"1.0","id":1,"result":{}}`, false},
		{`{"id":1,"result":{}}`, false},
		{`{"jsonrpc":"2.0","id":1}`, false},
		{`{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"do","result":{}}`, false},
		{`{"jsonrpc":"2.0","id":null,"method":"do"}`, false},
		{`{"jsonrpc":"2.0","id":{},"method":"do"}`, false},
		{`{"jsonrpc":"2.0","result":{}}`, false},
		{`{"jsonrpc":"2.0","id":1,"result":{},"extra":1}`, false},
	} {
		if err := s.check(SchemaBase+"message.json", []byte(tc.line)); (err == nil) != tc.want {
			t.Errorf("%s: allowed %v, want %v: %v", tc.line, err == nil, tc.want, err)
		}
		m, fault := Parse([]byte(tc.line))
		if (fault == nil) != tc.want {
			t.Errorf("%s: parsed as %+v with %v, want agreement with the schema", tc.line, m, fault)
		}
	}
}

// What must not be said is refused by the schemas and by the code.
func TestBadMessages(t *testing.T) {
	s := loadSchemas(t)
	type judge func(json.RawMessage) error
	reads := func(into any) judge {
		return func(raw json.RawMessage) error { return Decode(raw, into) }
	}
	outcome := func(raw json.RawMessage) error {
		var o Outcome
		if err := Decode(raw, &o); err != nil {
			return err
		}
		if f := o.Check("/r"); f != nil {
			return f
		}
		return nil
	}
	greeting := func(raw json.RawMessage) error {
		var g Greeting
		if err := Decode(raw, &g); err != nil {
			return err
		}
		if f := g.Check(); f != nil {
			return f
		}
		return nil
	}
	call := func(raw json.RawMessage) error {
		var d Do
		if err := Decode(raw, &d); err != nil {
			return err
		}
		_, err := d.Call.Spec(noFile)
		return err
	}
	write := func(raw json.RawMessage) error {
		var b BrokerWrite
		if err := Decode(raw, &b); err != nil {
			return err
		}
		_, err := b.Spec(noFile)
		return err
	}
	edit := func(raw json.RawMessage) error {
		var e Edit
		if err := Decode(raw, &e); err != nil {
			return err
		}
		return e.Edit.Check()
	}
	const hello = `"implementation":{"name":"n","version":"v","language":"l"},"capabilities":{},"limits":{"max_content":0,"concurrency":1}`
	for _, tc := range []struct {
		method, part, raw string
		judge             judge
	}{
		{MethodHello, "result", `{"protocol":0,"roles":[],"policies":{},` + hello + `}`, greeting},
		{MethodHello, "result", `{"protocol":1,"roles":["oracle"],"policies":{},` + hello + `}`, greeting},
		{MethodHello, "result", `{"protocol":1,"roles":[],"policies":{"links":"sometimes"},` + hello + `}`, greeting},
		{MethodHello, "result", `{"protocol":1,"roles":[],"policies":{"colour":"red"},` + hello + `}`, greeting},
		{MethodHello, "result", `{"protocol":1,"roles":[],` + hello + `}`, greeting},
		{MethodOpen, "params", `{"session":"s"}`, reads(&Open{})},
		{MethodOpen, "params", `{"session":null,"root":"/r"}`, reads(&Open{})},
		{MethodOpen, "params", `{"session":"s","root":"/r","brokers":["h1"]}`, reads(&Open{})},
		{MethodDo, "params", `{"call":{"id":0,"kind":"read","path":"p"}}`, call},
		{MethodDo, "params", `{"call":{"id":1,"kind":"append","path":"p"}}`, call},
		{MethodDo, "params", `{"call":{"id":1,"kind":"write","path":"p","content_b64":"?"}}`, call},
		{MethodDo, "params", `{"call":{"id":1,"kind":"write","path":"p","content_b64":"","content_file":"/f"}}`, call},
		{MethodDo, "params", `{"call":{"id":1,"kind":"write","path":"p","session":null}}`, call},
		{MethodDo, "result", `{}`, outcome},
		{MethodDo, "result", `{"outcome":"done"}`, outcome},
		{MethodDo, "result", `{"outcome":"not_applied"}`, outcome},
		{MethodDo, "result", `{"outcome":"declined","error":{}}`, outcome},
		{MethodDo, "result", `{"outcome":"unknown","error":{"class":"EACCES"}}`, outcome},
		{MethodDo, "result", `{"outcome":"applied","receipt":{"size":-1}}`, outcome},
		{MethodDo, "result", `{"outcome":"applied","receipt":{"durable":"very"}}`, outcome},
		{MethodWrite, "params", `{"dst":"/r/a","cause":{"class":"permission_denied"},"exclusive":false}`, write},
		{MethodWrite, "params", `{"dst":"/r/a","content_b64":"","cause":{"class":"no"},"exclusive":false}`, write},
		{MethodWrite, "params", `{"dst":"/r/a","content_b64":"","cause":{"class":"exists"}}`, write},
		{MethodWrite, "result", `{"landed":1}`, reads(&Landed{})},
		{MethodDelete, "params", `{"dst":"/r/a","cause":{"class":"exists"}}`, reads(&BrokerDelete{})},
		{MethodLog, "result", `{"entries":null}`, reads(&Entries{})},
		{MethodConfess, "result", `{"count":0}`, reads(&Confession{})},
		{MethodConfess, "result", `{"count":0,"denials":null}`, reads(&Confession{})},
		{MethodDisarm, "result", `{}`, reads(&Unfired{})},
		{MethodEdit, "params", `{"edit":{"op":"explode","path":"a"}}`, edit},
		{MethodEdit, "params", `{"edit":{"op":"write","path":""}}`, edit},
	} {
		if err := s.check(SchemaOf(tc.method, tc.part), []byte(tc.raw)); err == nil {
			t.Errorf("%s %s: the schema allows %s", tc.method, tc.part, tc.raw)
		}
		if err := tc.judge(json.RawMessage(tc.raw)); err == nil {
			t.Errorf("%s %s: the code allows %s", tc.method, tc.part, tc.raw)
		}
	}
}

// The words of the schemas are those of package spec and of this one.
func TestSchemasUseTheWords(t *testing.T) {
	text, err := Schemas.ReadFile("schema/common.json")
	if err != nil {
		t.Fatal(err)
	}
	type enum struct {
		Enum []string `json:"enum"`
	}
	var doc struct {
		Defs struct {
			Class    enum `json:"class"`
			Role     enum `json:"role"`
			Seam     enum `json:"seam"`
			Policies struct {
				Properties map[string]enum `json:"properties"`
			} `json:"policies"`
			Call struct {
				Properties struct {
					Kind enum `json:"kind"`
				} `json:"properties"`
			} `json:"call"`
			Outcome struct {
				Properties struct {
					Outcome enum `json:"outcome"`
				} `json:"properties"`
			} `json:"outcome"`
			Receipt struct {
				Properties struct {
					Durable enum `json:"durable"`
				} `json:"properties"`
			} `json:"receipt"`
			Edit struct {
				Properties struct {
					Op enum `json:"op"`
				} `json:"properties"`
			} `json:"edit"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var classes []string
	for _, w := range spec.ErrWords {
		if !slices.Contains(classes, string(w.Class)) {
			classes = append(classes, string(w.Class))
		}
	}
	policies := map[string][]string{}
	for name, values := range spec.PolicyValues {
		policies[name] = slices.Sorted(slices.Values(values))
	}
	schemaPolicies := map[string][]string{}
	for name, values := range doc.Defs.Policies.Properties {
		schemaPolicies[name] = slices.Sorted(slices.Values(values.Enum))
	}
	if diff := cmp.Diff(policies, schemaPolicies); diff != "" {
		t.Errorf("policies (-spec +schema):\n%s", diff)
	}
	for _, tc := range []struct {
		name string
		want []string
		got  enum
	}{
		{"class", classes, doc.Defs.Class},
		{"role", Roles, doc.Defs.Role},
		{"seam", []string{string(spec.SeamWrite), string(spec.SeamDelete)}, doc.Defs.Seam},
		{"kind", words(spec.CallKinds), doc.Defs.Call.Properties.Kind},
		{"outcome", words(Words), doc.Defs.Outcome.Properties.Outcome},
		{"durable", Durables, doc.Defs.Receipt.Properties.Durable},
		{"op", words(spec.EditOps), doc.Defs.Edit.Properties.Op},
	} {
		want, got := slices.Sorted(slices.Values(tc.want)), slices.Sorted(slices.Values(tc.got.Enum))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-words +schema):\n%s", tc.name, diff)
		}
	}
}

func words[W ~string](list []W) []string {
	out := make([]string, len(list))
	for i, w := range list {
		out[i] = string(w)
	}
	return out
}
