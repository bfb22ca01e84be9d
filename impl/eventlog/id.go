package eventlog

import (
	"errors"
	"unicode"
	"unicode/utf8"
)

// maxID leaves room for a suffix in a name of 255 bytes.
const maxID = 235 // bytes

// errID never repeats the id: it comes from outside, and an error text travels.
var errID = errors.New("session id: want 1 to 235 bytes of UTF-8: a letter, number or _ first, then also marks, dots and dashes")

// CheckID refuses a session id that is not safe as a file name. Ids come from
// outside, and one like "../../etc/x" would choose where the Log goes.
func CheckID(id string) error {
	if id == "" || len(id) > maxID || !utf8.ValidString(id) {
		return errID
	}
	for i, r := range id {
		word := unicode.IsLetter(r) || unicode.IsNumber(r) || r == '_'
		if !word && (i == 0 || !unicode.IsMark(r) && r != '-' && r != '.') {
			return errID
		}
	}
	return nil
}
