package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func nest(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestParse(t *testing.T) {
	raw := func(s string) json.RawMessage { return json.RawMessage(s) }
	for _, tc := range []struct {
		name, line string
		kind       Kind // empty for none
		want       Message
	}{
		{"request", `{"jsonrpc":"2.0","id":1,"method":"do","params":{"a":1}}`, "", Message{ID: raw(`1`), Method: "do", Params: raw(`{"a":1}`)}},
		{"notification", `{"jsonrpc":"2.0","method":"event"}`, "", Message{Method: "event"}},
		{"answer", ` {"jsonrpc":"2.0","id":"x","result":null} ` + "\r", "", Message{ID: raw(`"x"`), Result: raw(`null`)}},
		{"error", `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}`, "", Message{ID: raw(`1`), Error: raw(`{"code":-1,"message":"m"}`)}},
		{"deepest", `{"jsonrpc":"2.0","id":1,"result":` + nest(MaxDepth-1) + `}`, "", Message{ID: raw(`1`), Result: raw(nest(MaxDepth - 1))}},
		{"brackets in a string", `{"jsonrpc":"2.0","id":1,"result":"\"` + strings.Repeat("[", 100) + `"}`, "", Message{ID: raw(`1`), Result: raw(`"\"` + strings.Repeat("[", 100) + `"`)}},
		{"same name in two objects", `{"jsonrpc":"2.0","id":1,"result":[{"a":1},{"a":{"a":"a"}}]}`, "", Message{ID: raw(`1`), Result: raw(`[{"a":1},{"a":{"a":"a"}}]`)}},
		{"pair", `{"jsonrpc":"2.0","id":1,"result":"\\ud800\ud83d\ude00"}`, "", Message{ID: raw(`1`), Result: raw(`"\\ud800\ud83d\ude00"`)}},

		{"banner", `ready.`, NotJSON, Message{}},
		{"nothing", ``, NotJSON, Message{}},
		{"blank", `  `, NotJSON, Message{}},
		{"garbage after", `{"jsonrpc":"2.0","id":1,"result":{}} x`, NotJSON, Message{}},
		{"two objects", `{}{}`, NotJSON, Message{}},
		{"byte order mark", "\ufeff{}", NotJSON, Message{}},
		{"batch", `[{"jsonrpc":"2.0","id":1,"result":{}}]`, NotObject, Message{}},
		{"bare value", `null`, NotObject, Message{}},
		{"bad bytes", "{\"a\":\"\xff\"}", BadUTF8, Message{}},
		{"overlong", "{\"a\":\"\xc0\xaf\"}", BadUTF8, Message{}},
		{"high half", `{"a":"\ud800"}`, BadUTF8, Message{}},
		{"high half twice", `{"a":"\ud800\ud800"}`, BadUTF8, Message{}},
		{"low half", `{"a":"\udc00x"}`, BadUTF8, Message{}},
		{"half at the end", `{"\ud83d":1}`, BadUTF8, Message{}},
		{"too deep", `{"jsonrpc":"2.0","id":1,"result":` + nest(MaxDepth) + `}`, TooDeep, Message{}},
		{"deep garbage", strings.Repeat("[", 1<<20), TooDeep, Message{}},
		{"twice", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"b":2,"a":1}}`, DuplicateKey, Message{ID: raw(`1`), Result: raw(`{"a":1,"b":2,"a":1}`)}},
		{"twice, spelled otherwise", `{"jsonrpc":"2.0","id":1,"result":{"a":1,"\u0061":1}}`, DuplicateKey, Message{ID: raw(`1`), Result: raw(`{"a":1,"\u0061":1}`)}},
		{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"result":{}}`, DuplicateKey, Message{Result: raw(`{}`)}},
		{"twice in an array", `{"jsonrpc":"2.0","id":1,"result":[[],{"x":[],"x":1}]}`, DuplicateKey, Message{ID: raw(`1`), Result: raw(`[[],{"x":[],"x":1}]`)}},
		{"no version", `{"id":1,"result":{}}`, NotJSONRPC, Message{ID: raw(`1`), Result: raw(`{}`)}},
		{"version 1.0", `{"jsonrpc":"1.0","id":1,"result":{}}`, NotJSONRPC, Message{ID: raw(`1`), Result: raw(`{}`)}},
		{"version as number", `{"jsonrpc":2.0,"id":1,"result":{}}`, NotJSONRPC, Message{ID: raw(`1`), Result: raw(`{}`)}},
		{"both", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}`, NotJSONRPC, Message{ID: raw(`1`), Result: raw(`{}`), Error: raw(`{"code":1,"message":"m"}`)}},
		{"neither", `{"jsonrpc":"2.0","id":1}`, NotJSONRPC, Message{ID: raw(`1`)}},
		{"request and answer", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, NotJSONRPC, Message{ID: raw(`1`), Method: "m", Result: raw(`{}`)}},
		{"answer without id", `{"jsonrpc":"2.0","result":{}}`, NotJSONRPC, Message{Result: raw(`{}`)}},
		{"request with null id", `{"jsonrpc":"2.0","id":null,"method":"m"}`, NotJSONRPC, Message{ID: raw(`null`), Method: "m"}},
		{"answer with null id", `{"jsonrpc":"2.0","id":null,"result":{}}`, "", Message{ID: raw(`null`), Result: raw(`{}`)}},
		{"object as id", `{"jsonrpc":"2.0","id":{},"method":"m"}`, NotJSONRPC, Message{ID: raw(`{}`), Method: "m"}},
		{"number as method", `{"jsonrpc":"2.0","id":1,"method":1}`, NotJSONRPC, Message{ID: raw(`1`)}},
		{"empty method", `{"jsonrpc":"2.0","id":1,"method":""}`, NotJSONRPC, Message{ID: raw(`1`)}},
		{"stray member", `{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`, NotJSONRPC, Message{ID: raw(`1`), Result: raw(`{}`)}},
		{"error as text", `{"jsonrpc":"2.0","id":1,"error":"no"}`, NotJSONRPC, Message{ID: raw(`1`), Error: raw(`"no"`)}},
		{"error without code", `{"jsonrpc":"2.0","id":1,"error":{"message":"m"}}`, NotJSONRPC, Message{ID: raw(`1`), Error: raw(`{"message":"m"}`)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, fault := Parse([]byte(tc.line))
			var kind Kind
			if fault != nil {
				kind = fault.Kind
			}
			if diff := cmp.Diff(tc.kind, kind); diff != "" {
				t.Errorf("kind (-want +got):\n%s%v", diff, fault)
			}
			if diff := cmp.Diff(tc.want, m); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// Whatever a child prints, the check ends, and what it lets through is what
// encoding/json reads, too.
func TestParseAnything(t *testing.T) { rapid.Check(t, parseAnything) }

func FuzzParse(f *testing.F) { f.Fuzz(rapid.MakeFuzz(parseAnything)) }

func parseAnything(t *rapid.T) {
	piece := rapid.SampledFrom([]string{
		`{`, `}`, `[`, `]`, `"`, `\`, `:`, `,`, `"id":`, `1`, `"method":"m"`, `"result":{}`, `"jsonrpc":"2.0"`,
		`\ud800`, `\udc00`, `\u0061`, "\xff", " ", "\n", "null", `"a":1`,
	})
	line := []byte(strings.Join(rapid.SliceOf(piece).Draw(t, "line"), ""))
	m, fault := Parse(line)
	if fault != nil {
		return
	}
	var back struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatalf("%q was let through: %v", line, err)
	}
	if diff := cmp.Diff(string(back.ID), string(m.ID)); diff != "" {
		t.Fatalf("id (-json +wire):\n%s", diff)
	}
	if diff := cmp.Diff(back.Method, m.Method); diff != "" {
		t.Fatalf("method (-json +wire):\n%s", diff)
	}
}

func TestLines(t *testing.T) {
	long := strings.Repeat("x", MaxLine)
	for _, tc := range []struct {
		name, input string
		want        []string // lines, or errors with what came along
	}{
		{"nothing", "", nil},
		{"two", "a\nb\n", []string{"a", "b"}},
		{"empty lines", "\n\n", []string{"", ""}},
		{"torn", "a\nb", []string{"a", "end of file inside a line: b"}},
		{"longest", long + "\nb\n", []string{long, "b"}},
		{"too long", long + "x\nb\n", []string{"line too long: " + long[:shown], "b"}},
		{"too long and torn", long + "x", []string{"line too long: " + long[:shown]}},
		{"far too long", long + long + "\nb\n", []string{"line too long: " + long[:shown], "b"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			src := lines{r: bufio.NewReader(strings.NewReader(tc.input))}
			var got []string
			for {
				line, err := src.next()
				if errors.Is(err, io.EOF) {
					break
				}
				text := string(line)
				if err != nil {
					text = err.Error() + ": " + text
				}
				got = append(got, text)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("lines (-want +got), cut:\n%.2000s", diff)
			}
		})
	}
}

// endless is a child that prints without end and without a line feed.
type endless struct{ left int }

func (e *endless) Read(b []byte) (int, error) {
	if e.left -= len(b); e.left < 0 {
		return 0, io.EOF
	}
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

func TestLinesAreNotBufferedBeyondTheBound(t *testing.T) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	src := lines{r: bufio.NewReaderSize(&endless{left: 20 * MaxLine}, 64<<10)}
	if _, err := src.next(); !errors.Is(err, errTooLong) {
		t.Fatalf("first line: %v, want it too long", err)
	}
	if _, err := src.next(); !errors.Is(err, io.EOF) {
		t.Fatalf("the rest: %v, want the end of file", err)
	}
	runtime.ReadMemStats(&after)
	// A slice that grows by a quarter at a time has been allocated about five
	// times over in the end; twenty lines' worth would mean that it was kept.
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 10*MaxLine {
		t.Errorf("%d bytes were allocated for a line of at most %d", grown, MaxLine)
	}
}

func TestEscape(t *testing.T) {
	for _, tc := range []struct{ name, in, want string }{
		{"plain", `say "hi"`, `say "hi"`},
		{"terminal", "\x1b[31m\r\n\x00", `\x1b[31m\x0d\x0a\x00`},
		{"backslash", `a\x1b`, `a\\x1b`},
		{"not ASCII", "é\xff", `\xc3\xa9\xff`},
		{"long", strings.Repeat("a", 300), strings.Repeat("a", 200)},
	} {
		if diff := cmp.Diff(tc.want, Escape([]byte(tc.in))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

func TestKindsAreListedOnce(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range Kinds {
		if seen[k] || !bytes.Equal([]byte(k), bytes.ToLower([]byte(k))) {
			t.Errorf("kind %q stands twice, or not in lower case", k)
		}
		seen[k] = true
	}
}
