package mutants

import (
	"bytes"
	"io"
	"strings"

	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/sut"
	"github.com/fsbench/fsbench/sut/inproc"
)

// protocol holds the mutants of PT- rules. Most are the reference behind a wire
// that somebody has cut into.
var protocol = []Mutant{
	{
		Name: "claims-too-much", Rule: "PT-001", Breaks: "claims to move files and does not",
		Variant: inproc.Variant{Do: on(spec.CallMove, func(_ sut.Env, _ func(spec.Call) spec.Outcome, c spec.Call) spec.Outcome {
			return spec.Outcome{Call: c.ID, Status: spec.StatusFailed, Err: spec.ErrUnsupported, Detail: "not offered"}
		})},
	},
	{
		Name: "greets", Rule: "PT-002", Breaks: "prints a line of its own before the first answer to a call",
		Tamper: lines(func(line string) string {
			if isOutcome(line) {
				return "fsbench is ready\n" + line
			}
			return line
		}),
	},
	{
		Name: "answers-twice", Rule: "PT-003", Breaks: "answers every call twice",
		Tamper: lines(func(line string) string {
			if isOutcome(line) {
				return line + line
			}
			return line
		}),
	},
	{
		Name: "answers-the-unasked", Rule: "PT-004", Breaks: "answers what nobody has asked",
		Tamper: lines(func(line string) string {
			if isOutcome(line) {
				return `{"jsonrpc":"2.0","id":987654,"result":{}}` + "\n" + line
			}
			return line
		}),
	},
	{
		Name: "repeats-members", Rule: "PT-005", Breaks: "sends an object with two members of one name",
		Tamper: lines(func(line string) string {
			if isOutcome(line) {
				return strings.Replace(line, `{"jsonrpc":"2.0"`, `{"jsonrpc":"2.0","jsonrpc":"2.0"`, 1)
			}
			return line
		}),
	},
	{
		Name: "nests-deeply", Rule: "PT-006", Breaks: "sends an object that is nested beyond reason",
		Tamper: lines(func(line string) string {
			if isOutcome(line) {
				deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
				return strings.Replace(line, `"outcome":`, `"extra":`+deep+`,"outcome":`, 1)
			}
			return line
		}),
	},
	{
		Name: "own-words", Rule: "PT-008", Breaks: "uses an outcome word that the protocol does not have",
		Tamper: lines(func(line string) string {
			return strings.Replace(line, `"outcome":"applied"`, `"outcome":"done"`, 1)
		}),
	},
	{
		Name: "relative-receipts", Rule: "PT-009", Breaks: "names destinations in receipts by the path it was given",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, c spec.Call, out spec.Outcome) spec.Outcome {
			if out.Receipt != nil {
				out.Receipt.Dst = c.Path
			}
			return out
		})},
	},
	{
		Name: "hopeful-receipts", Rule: "PT-009", Breaks: "puts the digest of other bytes into receipts",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			if out.Receipt != nil {
				out.Receipt.SHA256 = strings.Repeat("0", 64)
			}
			return out
		})},
	},
	{
		Name: "rounded-receipts", Rule: "PT-009", Breaks: "puts another size into receipts than that of the bytes",
		Variant: inproc.Variant{Do: answers(func(_ sut.Env, _ spec.Call, out spec.Outcome) spec.Outcome {
			if out.Receipt != nil {
				out.Receipt.Size++
			}
			return out
		})},
	},
}

func isOutcome(line string) bool { return strings.Contains(line, `"outcome":`) }

// lines returns a Tamper that changes whole lines.
func lines(f func(line string) string) func(io.Writer) io.Writer {
	return func(w io.Writer) io.Writer { return &tamperer{w: w, f: f} }
}

// tamperer changes the lines that pass through it.
type tamperer struct {
	w   io.Writer
	f   func(string) string
	buf []byte
}

func (t *tamperer) Write(p []byte) (int, error) {
	t.buf = append(t.buf, p...)
	for {
		i := bytes.IndexByte(t.buf, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := string(t.buf[:i+1])
		t.buf = t.buf[i+1:]
		if _, err := io.WriteString(t.w, t.f(line)); err != nil {
			return 0, err
		}
	}
}

// Close closes what is behind it, if that can be closed.
func (t *tamperer) Close() error {
	if c, ok := t.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
