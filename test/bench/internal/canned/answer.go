// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package canned

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// Era is one of the two ways in which MCP is spoken.
type Era string

// The eras, and what each is spoken as here.
const (
	Legacy Era = "legacy"
	Modern Era = "modern"

	LegacyVersion = "2025-11-25"
	ModernVersion = "2026-07-28"
)

// envelope and its end stand around the id of each answer.
const envelope = `{"jsonrpc":"2.0","id":`

// answer is what a request is answered with, but for its id: in the form of each era.
type answer struct {
	legacy, modern []byte // what follows the id, to the end of the message
	events         int    // progress notifications before it
	stream         bool   // it comes as an event stream
}

// tail is what follows the id for a client of an era.
func (a *answer) tail(modern bool) []byte {
	if modern {
		return a.modern
	}
	return a.legacy
}

// resultAnswer makes an answer of the members of a result, without its braces. What
// modern results have besides is added; cacheable says whether that is a life.
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

// errorAnswer makes an answer that refuses.
func errorAnswer(code int, text string) *answer {
	tail := fmt.Appendf(nil, `,"error":{"code":%d,"message":%q}}`, code, text)
	return &answer{legacy: tail, modern: tail}
}

// Text is the text of so many bytes that a tool answers with: lines of prose. It has
// nothing that JSON would write differently but for the ends of its lines, which are
// two bytes each on the wire, so that it has this size there too.
func Text(size int) string {
	const line = `The signalman sets the points, and no two trains are ever sent onto one track.\n`
	return strings.Repeat(line, size/len(line)) + strings.Repeat(".", size%len(line))
}

// callAnswer makes the answer of a tool by its name.
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

// special are the tools that mean something.
func special() []string {
	return []string{
		"text_100", "text_1024", "text_10240", "text_102400", "text_1048576", "sse_0", "sse_5", "sse_100", "text_8388608",
	}
}

// ToolNames are the names of n tools, as a backend with so many has them.
func ToolNames(n int) []string {
	names := special()[:min(n, len(special()))]
	for i := len(names); i < n; i++ {
		names = append(names, fmt.Sprintf("tool_%04d", i))
	}
	return names
}

// toolJSON is a tool as it is listed: some 500 bytes, as tools of usual servers have.
func toolJSON(name string) string {
	return `{"name":"` + name + `","title":"Find in files","description":"Searches the files below a folder for a pattern and ` +
		`returns what it found, one match on each line with the file and its number.","inputSchema":{"type":"object","properties":{` +
		`"path":{"type":"string","description":"The folder to begin in."},"pattern":{"type":"string","description":"What to look for."},` +
		`"limit":{"type":"integer","minimum":1,"description":"How many matches are enough."}},"required":["path","pattern"]},` +
		`"annotations":{"readOnlyHint":true}}`
}

// listAnswer makes one page of tools; more is the cursor of the next, or "".
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

// PlainText is Text as a program has it that writes its JSON itself.
func PlainText(size int) string { return strings.ReplaceAll(Text(size), `\n`, "\n") }

// TextSize is the size of the text that a tool answers with.
func TextSize(tool string) int {
	if number, ok := strings.CutPrefix(tool, "text_"); ok {
		n, _ := strconv.Atoi(number) // a tool that is not there is refused when it is called
		return n
	}
	return defaultText
}

// defaultText is the size of the text of tools whose name has none.
const defaultText = 100
