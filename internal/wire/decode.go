package wire

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Decode reads a JSON value into what v points to, and fails with what was
// expected and where.
//
// It is stricter than encoding/json where that would help a liar: names match
// exactly (there "Outcome" also fills outcome, so one object could say two
// things), null stands for nothing, a member without omitempty or omitzero must
// be there, and base64 has one spelling. Members that v does not know are left
// alone: later versions may add some.
func Decode(raw json.RawMessage, v any) error {
	return decode(raw, reflect.ValueOf(v).Elem(), "")
}

var rawMessage = reflect.TypeFor[json.RawMessage]()

func decode(raw json.RawMessage, v reflect.Value, at string) error {
	if v.Type() == rawMessage {
		v.SetBytes(bytes.Clone(raw))
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		return decode(raw, v.Elem(), at)
	}
	switch own := v.Addr().Interface().(type) {
	case json.Unmarshaler:
		return where(at, own.UnmarshalJSON(raw))
	case encoding.TextUnmarshaler:
		var text string
		if err := scalar(raw, &text, at, "a string"); err != nil {
			return err
		}
		return where(at, own.UnmarshalText([]byte(text)))
	}
	switch v.Kind() { //nolint:exhaustive // the default is for the numbers; no message has other types
	case reflect.Struct:
		members, err := object(raw, at)
		if err != nil {
			return err
		}
		return decodeFields(members, v, at)
	case reflect.Map:
		return decodeMap(raw, v, at)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return decodeBytes(raw, v, at)
		}
		return decodeSlice(raw, v, at)
	case reflect.String:
		return scalar(raw, v.Addr().Interface(), at, "a string")
	case reflect.Bool:
		return scalar(raw, v.Addr().Interface(), at, "true or false")
	default:
		return scalar(raw, v.Addr().Interface(), at, "a whole number in range")
	}
}

func decodeFields(members map[string]json.RawMessage, v reflect.Value, at string) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if field.Anonymous {
			if err := decodeFields(members, v.Field(i), at); err != nil {
				return err
			}
			continue
		}
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		raw, there := members[name]
		switch {
		case there:
			if err := decode(raw, v.Field(i), below(at, name)); err != nil {
				return err
			}
		case options == "":
			return fmt.Errorf("%s is missing", below(at, name))
		}
	}
	return nil
}

func decodeMap(raw json.RawMessage, v reflect.Value, at string) error {
	members, err := object(raw, at)
	if err != nil {
		return err
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(members)))
	for name, raw := range members {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := decode(raw, value, below(at, name)); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name).Convert(v.Type().Key()), value)
	}
	return nil
}

func decodeSlice(raw json.RawMessage, v reflect.Value, at string) error {
	var items []json.RawMessage
	if err := scalar(raw, &items, at, "a list"); err != nil {
		return err
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, raw := range items {
		if err := decode(raw, v.Index(i), fmt.Sprintf("%s[%d]", at, i)); err != nil {
			return err
		}
	}
	return nil
}

// encoding/json admits line breaks inside base64 and stray bits at its end, so
// that one content would have many spellings.
func decodeBytes(raw json.RawMessage, v reflect.Value, at string) error {
	const want = "standard base64 with padding"
	var text string
	if err := scalar(raw, &text, at, want); err != nil {
		return err
	}
	b, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return where(at, errors.New("want "+want))
	}
	v.SetBytes(b)
	return nil
}

func object(raw json.RawMessage, at string) (members map[string]json.RawMessage, err error) {
	return members, scalar(raw, &members, at, "an object")
}

func scalar(raw json.RawMessage, v any, at, want string) error {
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, v) != nil {
		return where(at, errors.New("want "+want))
	}
	return nil
}

func where(at string, err error) error {
	if err == nil || at == "" {
		return err
	}
	return fmt.Errorf("%s: %w", at, err)
}

func below(at, name string) string {
	if at == "" {
		return name
	}
	return at + "." + name
}
