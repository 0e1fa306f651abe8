// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package catalog

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
