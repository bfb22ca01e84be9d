package spec

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"strconv"
	"unicode/utf8"
)

// Content is file content. In traces and scenarios it is text when it is valid
// UTF-8, so that people can read the diff.
type Content []byte

const base64Prefix = "base64:"

// String returns the text form.
func (c Content) String() string {
	if utf8.Valid(c) && !bytes.HasPrefix(c, []byte(base64Prefix)) {
		return string(c)
	}
	return base64Prefix + base64.StdEncoding.EncodeToString(c)
}

// MarshalText implements encoding.TextMarshaler.
func (c Content) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *Content) UnmarshalText(text []byte) error {
	enc, ok := bytes.CutPrefix(text, []byte(base64Prefix))
	if !ok {
		*c = append(Content{}, text...)
		return nil
	}
	dec, err := base64.StdEncoding.DecodeString(string(enc))
	if err != nil {
		return fmt.Errorf("content %q: want text, or base64: and standard base64", text)
	}
	*c = dec
	return nil
}

// Mode is the twelve permission bits, written in octal.
type Mode uint32

// String returns four octal digits.
func (m Mode) String() string { return fmt.Sprintf("%04o", uint32(m)) }

// MarshalText implements encoding.TextMarshaler.
func (m Mode) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (m *Mode) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 8, 12)
	if err != nil {
		return fmt.Errorf("mode %q: want octal, at most 7777", text)
	}
	*m = Mode(n)
	return nil
}
