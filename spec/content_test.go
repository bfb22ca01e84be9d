package spec_test

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

func TestContentRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		content := spec.Content(rapid.SliceOf(rapid.Byte()).Draw(rt, "content"))
		if rapid.Bool().Draw(rt, "text") {
			content = spec.Content(rapid.SampledFrom([]string{"", "base64:", "base", "b64:"}).Draw(rt, "prefix") + rapid.String().Draw(rt, "text"))
		}
		text, err := content.MarshalText()
		if err != nil {
			rt.Fatal(err)
		}
		if !utf8.Valid(text) {
			rt.Errorf("%q is no text", text)
		}
		if utf8.Valid(content) && !bytes.HasPrefix(content, []byte("base64:")) && string(text) != string(content) {
			rt.Errorf("text %q prints as %q: people cannot read that", content, text)
		}
		var back spec.Content
		if err := back.UnmarshalText(text); err != nil || !bytes.Equal(back, content) || back == nil {
			rt.Errorf("%q prints as %q and reads as %q, %v", content, text, back, err)
		}
	})
}

func TestContentIsACopy(t *testing.T) {
	text := []byte("old")
	var c spec.Content
	if err := c.UnmarshalText(text); err != nil {
		t.Fatal(err)
	}
	text[0] = 'X'
	if c.String() != "old" {
		t.Errorf("content became %q when its source was reused", c)
	}
}

func TestMalformedContent(t *testing.T) {
	for _, text := range []string{"base64:*", "base64:AAA", "base64:AAA=A", "base64: AAAA"} {
		want := `content "` + text + `": want text, or base64: and standard base64`
		var c spec.Content
		if err := c.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestModeRoundTrip(t *testing.T) {
	for m := range spec.Mode(0o10000) {
		text, err := m.MarshalText()
		if err != nil || len(text) != 4 {
			t.Fatalf("mode %d prints as %q, %v", m, text, err)
		}
		var back spec.Mode
		if err := back.UnmarshalText(text); err != nil || back != m {
			t.Fatalf("%q reads as %s, %v", text, back, err)
		}
	}
}

func TestMalformedMode(t *testing.T) {
	for _, text := range []string{"", "8", "0o644", "10000", "-1", "+7", "rw-r--r--", "0644 "} {
		want := `mode "` + text + `": want octal, at most 7777`
		var m spec.Mode
		if err := m.UnmarshalText([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestFieldsRoundTrip(t *testing.T) {
	key := rapid.StringMatching(`[a-z][a-z:._-]{0,6}`)
	rapid.Check(t, func(rt *rapid.T) {
		var fields []spec.Field
		seen := map[string]bool{}
		for range rapid.IntRange(0, 5).Draw(rt, "fields") {
			f := spec.Field{Value: string(rapid.SliceOf(rapid.Byte()).Draw(rt, "value"))}
			if rapid.Bool().Draw(rt, "plain") {
				f.Value = rapid.StringMatching(`[a-zA-Z0-9._/@:+*,$~-]{1,8}`).Draw(rt, "word")
			}
			if k := key.Draw(rt, "key"); rapid.Bool().Draw(rt, "keyed") && !seen[k] {
				f.Key, seen[k] = k, true
			}
			fields = append(fields, f)
		}
		line := spec.FormatFields(fields)
		if strings.ContainsAny(line, "\n\r") {
			rt.Errorf("%q is no line", line)
		}
		back, err := spec.ParseFields(" \t" + line + " ")
		if err != nil {
			rt.Fatalf("%s: %v", line, err)
		}
		if len(back) != len(fields) {
			rt.Fatalf("%s reads as %v, want %v", line, back, fields)
		}
		for i := range back {
			if back[i] != fields[i] {
				rt.Errorf("%s reads as %#v, want %#v", line, back[i], fields[i])
			}
		}
	})
}

func TestMalformedFields(t *testing.T) {
	for line, want := range map[string]string{
		`a=`:           `value "": want it in quotes`,
		`a=b=c`:        `value "b=c": want it in quotes`,
		`caf\xe9`:      `value "caf\\xe9": want it in quotes`,
		`a"b`:          `value "a\"b": want it in quotes`,
		`a="b`:         `"\"b": want a closing quote`,
		`"a"b`:         `"b": want a space after the quoted value`,
		`"a`:           `"\"a": want a closing quote`,
		`a=1 a=2`:      `a=: want it once`,
		`w x=1 y=2 x=`: `value "": want it in quotes`,
		"x='a b'":      `value "'a": want it in quotes`,
		`x=(1)`:        `value "(1)": want it in quotes`,
	} {
		if _, err := spec.ParseFields(line); err == nil || err.Error() != want {
			t.Errorf("%s\n got %v\nwant %s", line, err, want)
		}
	}
}
