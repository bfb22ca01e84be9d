package spec

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Field is one word of a line in a scenario or a plan: a bare word, or key=value.
// Values are quoted as in Go where they are not plain.
type Field struct {
	Key   string // empty for a bare word
	Value string
}

// String renders f so that ParseFields reads it back.
func (f Field) String() string {
	v := f.Value
	if !plain(v) {
		v = strconv.Quote(v)
	}
	if f.Key == "" {
		return v
	}
	return f.Key + "=" + v
}

// FormatFields joins fields into a line.
func FormatFields(fields []Field) string {
	words := make([]string, len(fields))
	for i, f := range fields {
		words[i] = f.String()
	}
	return strings.Join(words, " ")
}

// Printable returns s on one line, with whatever a terminal would obey instead of
// showing it written out: a subject chooses the names of its files.
func Printable(s string) string {
	var b strings.Builder
	for rest := s; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case strconv.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		rest = rest[size:]
	}
	return b.String()
}

func plain(v string) bool {
	if v == "" {
		return false
	}
	for i := range len(v) {
		switch c := v[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("._-/@:+*,$~", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// ParseFields splits a line into fields. It refuses what it would not print:
// an unquoted value with odd characters, a key without a value, a key twice.
func ParseFields(line string) ([]Field, error) {
	var fields []Field
	seen := map[string]bool{}
	for rest := strings.TrimLeft(line, " \t"); rest != ""; rest = strings.TrimLeft(rest, " \t") {
		var f Field
		if i := strings.IndexAny(rest, "= \t\""); i > 0 && rest[i] == '=' {
			f.Key, rest = rest[:i], rest[i+1:]
		}
		if strings.HasPrefix(rest, `"`) {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("%q: want a closing quote", rest)
			}
			f.Value, err = strconv.Unquote(q)
			if err != nil {
				return nil, fmt.Errorf("%s: want a string quoted as in Go", q)
			}
			rest = rest[len(q):]
			if rest != "" && rest[0] != ' ' && rest[0] != '\t' {
				return nil, fmt.Errorf("%q: want a space after the quoted value", rest)
			}
		} else {
			i := strings.IndexAny(rest, " \t")
			if i < 0 {
				i = len(rest)
			}
			f.Value, rest = rest[:i], rest[i:]
			if !plain(f.Value) {
				return nil, fmt.Errorf("value %q: want it in quotes", f.Value)
			}
		}
		if f.Key != "" && seen[f.Key] {
			return nil, fmt.Errorf("%s=: want it once", f.Key)
		}
		seen[f.Key] = true
		fields = append(fields, f)
	}
	return fields, nil
}

func cutLast(p string) (dir, name string, nested bool) {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return "", p, false
	}
	return p[:i], p[i+1:], true
}

func checkPath(p string) error {
	for _, c := range strings.Split(p, "/") {
		switch c {
		case "", ".", "..":
			return fmt.Errorf("path %q: want slash-separated names without empty parts, \".\" or \"..\"", p)
		}
		if strings.IndexByte(c, 0) >= 0 {
			return fmt.Errorf("path %q: a name cannot hold a NUL byte", p)
		}
	}
	return nil
}
