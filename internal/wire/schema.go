package wire

import (
	"embed"
	"strings"
)

// Schemas holds the JSON Schemas (2020-12) of the protocol: schema/message.json
// for a line, schema/common.json for what messages share, and one file for each
// method, with the parameters under $defs/params and the result, if it has one,
// under $defs/result.
//
//go:embed schema/*.json
var Schemas embed.FS

// SchemaBase is what the ids of the schemas begin with.
const SchemaBase = "https://github.com/fsbench/fsbench/protocol/1/"

// SchemaOf returns the reference to the schema of a method's params or result.
func SchemaOf(method, part string) string {
	return SchemaBase + strings.ReplaceAll(method, "/", "-") + ".json#/$defs/" + part
}
