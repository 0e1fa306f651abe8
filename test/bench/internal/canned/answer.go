// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Era is one of the two eras of MCP.
type Era string

// The eras, each with the revision that is used here.
const (
	Legacy Era = "legacy"
	Modern Era = "modern"

	LegacyVersion = "2025-11-25"
	ModernVersion = "2026-07-28"
)

// envelope precedes the id of each response.
const envelope = `{"jsonrpc":"2.0","id":`

// answer is the response to a request without its id, in the form of each era.
type answer struct {
	legacy, modern []byte // everything after the id
	events         int    // progress notifications before it
	stream         bool   // sent as an event stream
}

// tail returns everything after the id, for a client of an era.
func (a *answer) tail(modern bool) []byte {
	if modern {
		return a.modern
	}
	return a.legacy
}

// resultAnswer makes a response from the members of a result, without its braces. It adds
// the members of modern results; cacheable adds a time to live.
func resultAnswer(members string, cacheable bool) *answer {
	more := `"resultType":"complete"`
	if cacheable {
		more += `,"ttlMs":3600000,"cacheScope":"public"`
	}
	if members != "" {
		more += ","
	}
	return &answer{
		legacy: []byte(`,"result":{` + members + `}}`),
		modern: []byte(`,"result":{` + more + members + `}}`),
	}
}

// errorAnswer makes an error response.
func errorAnswer(code int, text string) *answer {
	tail := fmt.Appendf(nil, `,"error":{"code":%d,"message":%q}}`, code, text)
	return &answer{legacy: tail, modern: tail}
}

// Text returns a tool's text of the given size: lines of prose. JSON escapes nothing in it
// but the ends of its lines, which count as two bytes, so its size on the wire is the same.
func Text(size int) string {
	const line = `The signalman sets the points, and no two trains are ever sent onto one track.\n`
	return strings.Repeat(line, size/len(line)) + strings.Repeat(".", size%len(line))
}

// callAnswer makes the response of a tool by its name.
func callAnswer(tool string) *answer {
	kind, number, _ := strings.Cut(tool, "_")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 {
		return nil
	}
	a := resultAnswer(`"content":[{"type":"text","text":"`+Text(TextSize(tool))+`"}]`, false)
	switch kind {
	case "text", "tool":
	case "sse":
		a.stream, a.events = true, n
	default:
		return nil
	}
	return a
}

// special returns the tools with a meaning.
func special() []string {
	return []string{
		"text_100", "text_1024", "text_10240", "text_102400", "text_1048576", "sse_0", "sse_5", "sse_100", "text_8388608",
	}
}

// ToolNames returns the names of the tools of a backend with n tools.
func ToolNames(n int) []string {
	names := special()[:min(n, len(special()))]
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("tool_%04d", i))
	}
	return names
}

// toolJSON returns a tool as listed: some 500 bytes, like tools of usual servers.
func toolJSON(name string) string {
	return `{"name":"` + name + `","title":"Find in files","description":"Searches the files below a folder for a pattern and ` +
		`returns what it found, one match on each line with the file and its number.","inputSchema":{"type":"object","properties":{` +
		`"path":{"type":"string","description":"The folder to begin in."},"pattern":{"type":"string","description":"What to look for."},` +
		`"limit":{"type":"integer","minimum":1,"description":"How many matches are enough."}},"required":["path","pattern"]},` +
		`"annotations":{"readOnlyHint":true}}`
}

// listAnswer makes one page of tools; more is the cursor of the next page, or "".
func listAnswer(names []string, more string) *answer {
	var b bytes.Buffer
	b.WriteString(`"tools":[`)
	for i, name := range names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(toolJSON(name))
	}
	b.WriteByte(']')
	if more != "" {
		fmt.Fprintf(&b, `,"nextCursor":%q`, more)
	}
	return resultAnswer(b.String(), true)
}

// PlainText returns Text for a program that encodes its JSON itself.
func PlainText(size int) string { return strings.ReplaceAll(Text(size), `\n`, "\n") }

// TextSize returns the size of a tool's text.
func TextSize(tool string) int {
	if number, ok := strings.CutPrefix(tool, "text_"); ok {
		n, _ := strconv.Atoi(number) // calls of unknown tools are refused
		return n
	}
	return defaultText
}

// defaultText is the size of the text of tools without one in their name.
const defaultText = 100
