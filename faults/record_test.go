package faults_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fsbench/fsbench/faults"
	"github.com/fsbench/fsbench/spec"
	"github.com/fsbench/fsbench/vfs"
)

// TestRecordRoundTrip: a record is the same after its text, with whatever bytes the
// subject has put into names.
func TestRecordRoundTrip(t *testing.T) {
	raw := rapid.Map(rapid.SampledFrom([]string{"", "a", "ws/a b", "\xff\x00", "base64:x", "é"}), func(s string) faults.Raw { return faults.Raw(s) })
	id := rapid.Custom(func(rt *rapid.T) vfs.ID {
		return vfs.ID{Dev: rapid.Uint64().Draw(rt, "dev"), Ino: rapid.Uint64().Draw(rt, "ino")}
	})
	entry := rapid.Custom(func(rt *rapid.T) faults.Entry {
		return faults.Entry{Dir: id.Draw(rt, "dir"), Name: raw.Draw(rt, "name")}
	})
	mutation := rapid.Custom(func(rt *rapid.T) faults.Mutation {
		m := faults.Mutation{
			Key: rapid.String().Draw(rt, "key"), Call: "write", Result: rapid.Int64().Draw(rt, "result"), Path: raw.Draw(rt, "path"),
			Do: rapid.SampledFrom(faults.Changes).Draw(rt, "do"), Object: id.Draw(rt, "object"), At: entry.Draw(rt, "at"),
			To: entry.Draw(rt, "to"), Type: spec.TypeFile, Mode: 0o4755, UID: rapid.Uint32().Draw(rt, "uid"),
			Text: raw.Draw(rt, "text"), Off: rapid.Int64().Draw(rt, "off"), Durable: rapid.Bool().Draw(rt, "durable"),
			Scope: faults.ScopeData,
		}
		if data := rapid.SliceOfN(rapid.Byte(), 0, 9).Draw(rt, "data"); len(data) > 0 {
			m.Data = data
		}
		if rapid.Bool().Draw(rt, "edit") {
			m.Edit = &spec.Edit{Op: spec.EditRename, Path: "a", To: "b"}
		}
		return m
	})
	rapid.Check(t, func(rt *rapid.T) {
		rec := faults.Record{UID: rapid.Uint32().Draw(rt, "uid")}
		for range rapid.IntRange(0, 3).Draw(rt, "lines") {
			rec.Start = append(rec.Start, faults.Held{Path: raw.Draw(rt, "path"), ID: id.Draw(rt, "id")})
			rec.Mutations = append(rec.Mutations, mutation.Draw(rt, "mutation"))
			rec.Gaps = append(rec.Gaps, faults.Gap{Key: "k", Object: id.Draw(rt, "id"), Path: raw.Draw(rt, "path"), Reason: "r", Coarse: rapid.Bool().Draw(rt, "coarse")})
		}
		var text bytes.Buffer
		if err := rec.Write(&text); err != nil {
			rt.Fatal(err)
		}
		back, err := faults.ReadRecord(&text)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(rec, back); diff != "" {
			rt.Errorf("-written +read:\n%s", diff)
		}
	})
}

func TestReadRecordRefuses(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "record: line 1: EOF"},
		{"no identity", `{"gap":{"reason":"r"}}`, "record: line 1: want the identity on the first line, and only there"},
		{"two identities", `{"uid":1}{"uid":2}`, "record: line 2: want the identity on the first line, and only there"},
		{"an empty line", `{"uid":1}{}`, "record: line 2 holds nothing"},
		{"a word that is not known", `{"uid":1}{"gap":{"why":"r"}}`, `record: line 2: json: unknown field "why"`},
	} {
		if _, err := faults.ReadRecord(strings.NewReader(tt.text)); err == nil || err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestCompleteBarsGaps(t *testing.T) {
	rec := faults.Record{Gaps: []faults.Gap{{Reason: "between steps", Coarse: true}}}
	if !rec.Complete() {
		t.Error("a coarse gap makes a record incomplete")
	}
	if rec.Gaps = append(rec.Gaps, faults.Gap{Reason: "lost"}); rec.Complete() {
		t.Error("a record with a gap is complete")
	}
}
