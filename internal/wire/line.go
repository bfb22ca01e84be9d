package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Message is one line taken apart: a request, a notification or an answer.
type Message struct {
	ID     json.RawMessage // as it stands on the line; nil for a notification
	Method string          // empty for an answer
	Params json.RawMessage
	Result json.RawMessage // exactly one of Result and Error in an answer
	Error  json.RawMessage
}

// Request reports whether m asks for something rather than answers.
func (m Message) Request() bool { return m.Method != "" }

// Parse checks a line and takes it apart.
//
// A line with a fault is not to be believed, but where its id can be told the
// Message that comes with the fault has it, so that whoever waits for that id
// can be told.
func Parse(line []byte) (Message, *Fault) {
	members, f := parseObject(line)
	if f != nil {
		return Message{}, f
	}
	m := Message{ID: members["id"], Params: members["params"], Result: members["result"], Error: members["error"]}
	_ = json.Unmarshal(members["method"], &m.Method) // checkEnvelope refuses what is not a string
	if key, at := duplicate(line); key != "" {
		if at == 1 && key == "id" {
			m.ID = nil
		}
		return m, duplicateFault(key)
	}
	return m, checkEnvelope(m, members)
}

// ParseObject checks text that is to be one JSON object, and no message.
func ParseObject(text []byte) *Fault {
	if len(text) > MaxLine {
		return Faultf(LineTooLong, "want at most %d bytes", MaxLine)
	}
	if _, f := parseObject(text); f != nil {
		return f
	}
	if key, _ := duplicate(text); key != "" {
		return duplicateFault(key)
	}
	return nil
}

func parseObject(text []byte) (members map[string]json.RawMessage, f *Fault) {
	if f := checkJSON(text, MaxDepth); f != nil {
		return nil, f
	}
	if bytes.TrimLeft(text, " \t\r\n")[0] != '{' || json.Unmarshal(text, &members) != nil {
		return nil, Faultf(NotObject, "want one JSON object")
	}
	return members, nil
}

func duplicateFault(key string) *Fault {
	return Faultf(DuplicateKey, "%q stands twice in one object", key)
}

// envelope lists the members of a JSON-RPC message.
var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

func checkEnvelope(m Message, members map[string]json.RawMessage) *Fault {
	has := func(name string) bool { return members[name] != nil }
	for name := range members {
		if !slices.Contains(envelope, name) {
			return Faultf(NotJSONRPC, "no member but %v is expected beside params and result", envelope)
		}
	}
	switch {
	case string(members["jsonrpc"]) != `"2.0"`:
		return Faultf(NotJSONRPC, `want "jsonrpc":"2.0"`)
	case has("method") && m.Method == "":
		return Faultf(NotJSONRPC, "method: want the name of one")
	case has("id") && !validID(m.ID):
		return Faultf(NotJSONRPC, "id: want a string or a number")
	case m.Request() && (has("result") || has("error")):
		return Faultf(NotJSONRPC, "want either a method or an answer")
	case m.Request() && string(m.ID) == "null":
		return Faultf(NotJSONRPC, "id: null names no request; leave it out for a notification")
	case m.Request():
		return nil
	case has("result") == has("error"):
		return Faultf(NotJSONRPC, "want either a result or an error")
	case !has("id"):
		return Faultf(NotJSONRPC, "id: an answer needs the id of its request")
	case has("error"):
		return checkError(m.Error)
	}
	return nil
}

// validID admits null, which JSON-RPC allows in an answer to a line that could
// not be read. The runner's lines can, so for it that is an unknown id.
func validID(id json.RawMessage) bool {
	c := id[0]
	return string(id) == "null" || c == '"' || c == '-' || c >= '0' && c <= '9'
}

func checkError(raw json.RawMessage) *Fault {
	var e struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data,omitempty"`
	}
	if err := Decode(raw, &e); err != nil {
		return Faultf(NotJSONRPC, "error: %v", err)
	}
	return nil
}

// checkJSON reports the first reason not to hand text to encoding/json: that
// would repair some of these silently, and spend a stack on another.
func checkJSON(text []byte, depth int) *Fault {
	switch {
	case !utf8.Valid(text):
		return Faultf(BadUTF8, "want UTF-8")
	case deeper(text, depth):
		return Faultf(TooDeep, "want objects and arrays at most %d inside each other", MaxDepth)
	case !json.Valid(text):
		return Faultf(NotJSON, "want one JSON object, and nothing beside it")
	case halfCharacter(text):
		return Faultf(BadUTF8, `want \ud800 to \udfff in pairs only`)
	}
	return nil
}

// deeper reports whether text opens more than limit objects and arrays inside
// each other. It needs no valid JSON: it runs first, so that the parser's own
// recursion is never driven by a child.
func deeper(text []byte, limit int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if depth++; depth > limit {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// halfCharacter reports whether valid JSON text escapes half of a surrogate
// pair. Decoders put a replacement character there, so a destination spelled so
// would silently become another one.
func halfCharacter(text []byte) bool {
	for i := 0; i+5 < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++
		if text[i] != 'u' {
			continue
		}
		r := unit(text[i+1:])
		i += 4
		if !utf16.IsSurrogate(r) {
			continue
		}
		if i+6 >= len(text) || text[i+1] != '\\' || text[i+2] != 'u' ||
			utf16.DecodeRune(r, unit(text[i+3:])) == utf8.RuneError {
			return true
		}
		i += 6
	}
	return false
}

// unit reads the four hexadecimal digits of an escape.
func unit(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 32) // checked by json.Valid
	return rune(n)
}

// duplicate returns the first member name that an object of valid JSON text
// holds twice, and how deep that object lies. Names are compared as decoded:
// "a" and "\u0061" are the same member to every reader.
func duplicate(text []byte) (key string, depth int) {
	type frame struct {
		names map[string]bool // nil for an array
		value bool            // the next string is a value, not a name
	}
	var stack []*frame
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	for {
		token, err := dec.Token()
		if err != nil {
			return "", 0
		}
		var top *frame
		if len(stack) > 0 {
			top = stack[len(stack)-1]
		}
		if name, ok := token.(string); ok && top != nil && top.names != nil && !top.value {
			if top.names[name] {
				return name, len(stack)
			}
			top.names[name], top.value = true, true
			continue
		}
		switch token {
		case json.Delim('{'):
			stack = append(stack, &frame{names: map[string]bool{}})
			continue
		case json.Delim('['):
			stack = append(stack, &frame{})
			continue
		case json.Delim('}'), json.Delim(']'):
			stack = stack[:len(stack)-1]
		}
		if len(stack) > 0 {
			stack[len(stack)-1].value = false
		}
	}
}

// What ended a line other than its line feed.
var (
	errTooLong    = errors.New("line too long")
	errUnfinished = errors.New("end of file inside a line")
)

// lines reads lines of bounded length.
type lines struct {
	r        *bufio.Reader
	skipping bool // the rest of a line that is too long
}

// next returns the next line without its line feed. It fails with errTooLong
// and how the line began as soon as a line passes MaxLine, not when it ends: it
// need never end. With errUnfinished it returns the torn line.
func (l *lines) next() ([]byte, error) {
	var line []byte
	for {
		chunk, err := l.r.ReadSlice('\n')
		whole := err == nil
		if whole {
			chunk = chunk[:len(chunk)-1]
		}
		stopped := !whole && !errors.Is(err, bufio.ErrBufferFull)
		switch {
		case l.skipping && stopped:
			return nil, io.EOF
		case l.skipping:
			l.skipping = !whole
			continue
		case len(line)+len(chunk) > MaxLine:
			l.skipping = !whole
			return line[:shown], errTooLong // one chunk is far smaller than a line may be
		}
		line = append(line, chunk...)
		switch {
		case whole:
			return line, nil
		case stopped && len(line) > 0:
			return line, errUnfinished
		case stopped:
			return nil, io.EOF
		}
	}
}
