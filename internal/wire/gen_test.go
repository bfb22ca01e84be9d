package wire

import (
	"encoding/json"
	"fmt"

	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/spec"
)

// Generators of what goes over the wire. Text is any UTF-8; what is not has its
// own test.
var (
	genText    = rapid.String()
	genContent = rapid.OneOf(rapid.Just[[]byte](nil), rapid.SliceOf(rapid.Byte()))
	genKind    = rapid.Map(rapid.SampledFrom(spec.ErrWords), func(w spec.ErrWord) spec.ErrKind { return w.Kind })
	genSession = rapid.Map(genText, func(s string) spec.SessionID { return spec.SessionID(s) })

	genJSON = rapid.Custom(func(t *rapid.T) json.RawMessage {
		return rapid.OneOf(
			rapid.Just(json.RawMessage(`null`)),
			rapid.Map(rapid.Int(), func(n int) json.RawMessage { return json.RawMessage(fmt.Sprint(n)) }),
			rapid.Just(json.RawMessage(`1e400`)),
			rapid.Map(genText, func(s string) json.RawMessage { return marshal(s) }),
			rapid.Map(rapid.MapOf(genText, rapid.Bool()), func(m map[string]bool) json.RawMessage { return marshal(m) }),
		).Draw(t, "json")
	})

	genCall = rapid.Custom(func(t *rapid.T) spec.Call {
		c := spec.Call{
			ID: spec.CallID(rapid.Uint32Min(1).Draw(t, "id")), Session: genSession.Draw(t, "session"),
			Kind: rapid.SampledFrom(spec.CallKinds).Draw(t, "kind"), Path: genText.Draw(t, "path"), To: genText.Draw(t, "to"),
			Content: genContent.Draw(t, "content"), ExpectVersion: genText.Draw(t, "expect"), Tool: genText.Draw(t, "tool"),
		}
		if rapid.Bool().Draw(t, "has args") {
			c.Args = spec.Content(genJSON.Draw(t, "args"))
		}
		return c
	})

	genOutcome = rapid.Custom(func(t *rapid.T) spec.Outcome {
		o := spec.Outcome{
			Call:   spec.CallID(rapid.Uint32().Draw(t, "call")),
			Status: rapid.SampledFrom([]spec.Status{spec.StatusUnknown, spec.StatusOK, spec.StatusFailed}).Draw(t, "status"),
			Errno:  rapid.SampledFrom([]string{"", "EACCES", "EPERM", "EDQUOT", "EWHATEVER"}).Draw(t, "errno"),
			Detail: genText.Draw(t, "detail"), Content: genContent.Draw(t, "content"), Version: genText.Draw(t, "version"),
		}
		if o.Status == spec.StatusFailed {
			o.Err = genKind.Draw(t, "err")
		}
		if rapid.Bool().Draw(t, "has receipt") {
			o.Receipt = &spec.Receipt{
				Dst: genText.Draw(t, "dst"), SHA256: genText.Draw(t, "sha256"), Size: rapid.Int64Min(0).Draw(t, "size"),
				Mode: genText.Draw(t, "mode"), Durable: rapid.SampledFrom(append([]string{""}, Durables...)).Draw(t, "durable"),
			}
		}
		return o
	})

	genDenial = rapid.Custom(func(t *rapid.T) spec.Denial {
		return spec.Denial{Session: genSession.Draw(t, "session"), Dst: genText.Draw(t, "dst"), Cause: genKind.Draw(t, "cause")}
	})

	genWrite = rapid.Custom(func(t *rapid.T) spec.WriteRequest {
		return spec.WriteRequest{
			Denial: genDenial.Draw(t, "denial"), Content: genContent.Draw(t, "content"), Exclusive: rapid.Bool().Draw(t, "exclusive"),
		}
	})

	genDelete = rapid.Custom(func(t *rapid.T) spec.DeleteRequest {
		return spec.DeleteRequest{Denial: genDenial.Draw(t, "denial"), ConfirmedFile: rapid.Bool().Draw(t, "confirmed")}
	})

	genEntry = rapid.Custom(func(t *rapid.T) spec.LogEntry {
		e := spec.LogEntry{
			ID: genText.Draw(t, "id"), Session: genText.Draw(t, "session"), Time: genText.Draw(t, "ts"), Type: genText.Draw(t, "type"),
		}
		if rapid.Bool().Draw(t, "has seq and data") {
			e.Seq, e.Data = genJSON.Draw(t, "seq"), genJSON.Draw(t, "data")
		}
		return e
	})

	genConfession = rapid.Custom(func(t *rapid.T) spec.Confession {
		c := spec.Confession{
			Status: genText.Draw(t, "status"), Error: genText.Draw(t, "error"),
			Denials: rapid.SliceOf(genJSON).Draw(t, "denials"),
		}
		if rapid.Bool().Draw(t, "has count") {
			n := rapid.Int().Draw(t, "count")
			c.Count = &n
		}
		return c
	})

	genEdit = rapid.Custom(func(t *rapid.T) spec.Edit {
		return spec.Edit{
			Op: rapid.SampledFrom(spec.EditOps).Draw(t, "op"), Path: rapid.StringN(1, -1, -1).Draw(t, "path"), To: genText.Draw(t, "to"),
			Content: spec.Content(rapid.SliceOfN(rapid.Byte(), 1, -1).Draw(t, "content")),
			Mode:    spec.Mode(rapid.Uint32Max(0o7777).Draw(t, "mode")), Mtime: rapid.Int64().Draw(t, "mtime"),
		}
	})
)

func marshal(v any) json.RawMessage {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return raw
}
