// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"fmt"

	"github.com/signalbox-mcp/signalbox/internal/code"
)

// readResultTool is the tool that reads the rest of results that were cut, as it is listed.
//
//nolint:gochecknoglobals // never changed
var readResultTool = Entry{Kind: Tools, Backend: ownTool, Name: ReadResult, Own: ReadResult, ReadOnly: true, Idempotent: true, item: []byte(
	`{"name":"read_result","title":"Read more of a result","description":"Reads more of a result of a tool that was cut because it is large. The last text of such a result has the id, and the offset of what is missing.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"id":{"type":"string","description":"The id of the result"},` +
		`"offset":{"type":"integer","minimum":0,"default":0,"description":"Where to begin, in bytes"},` +
		`"length":{"type":"integer","minimum":1,"description":"How many bytes to read; by default as many as one result may have"}},` +
		`"required":["id"]},"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`)}

// withReadResult returns the tools with read_result as the first one. A tool of a backend with this name is
// left out and reported.
func (b *builder) withReadResult(tools []*Entry) []*Entry {
	own := readResultTool // a copy, since a table sets its place
	all := append(make([]*Entry, 0, len(tools)+1), &own)
	for _, e := range tools {
		if e.Name != ReadResult {
			all = append(all, e)
			continue
		}
		b.hide(Tools, e.Name)
		b.report.problems = append(b.report.problems, Problem{
			Backend: e.BackendName, Code: code.NameReserved,
			Text: fmt.Sprintf("tool %s is left out, because the gateway has a tool with this name (results); rename it", quote(e.Own)),
		})
	}
	return all
}
