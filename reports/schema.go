package reports

import _ "embed" // schema/report.json

// ReportSchema is the JSON Schema (2020-12) of what WriteJSON writes.
//
//go:embed schema/report.json
var ReportSchema string
