// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsontest

import (
	"fmt"
	"slices"
	"strings"
)

// SmallCall is a call of about 100 bytes, as a legacy client sends it.
const SmallCall = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}`

// ModernCall is a call with all the metadata of the modern era.
const ModernCall = `{"jsonrpc":"2.0","id":"3f2b8c51-9d0e-4c1f-8a77-d1a40b5e6f90","method":"tools/call","params":{` +
	`"name":"get_weather","arguments":{"location":"Seattle, WA","days":[1,2,3]},"_meta":{` +
	`"progressToken":"p-17","io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{}}}}}`

// TextResult is a result of about n bytes, like that of a tool that reads a file.
func TextResult(n int) string {
	const line = `\t\"The quick brown fox\" jumps over the lazy dog, again and again, until line %d of the file.\n`
	var text strings.Builder
	for i := 0; text.Len() < n-100; i++ {
		fmt.Fprintf(&text, line, i)
	}
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + text.String() + `"}],"isError":false}}`
}

// ProseResult is a result of about n bytes of text that needs escapes only for line
// ends.
func ProseResult(n int) string {
	const line = `The signalman sets the points, and no two trains are ever sent onto one track.\n`
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + strings.Repeat(line, n/len(line)) + `"}]}}`
}

// DenseResult is a result of about n bytes of mostly structure, like a list or the
// answer to a query.
func DenseResult(n int) string {
	const row = `{"id":%d,"name":"row %d","active":true,"score":%d.25,"tags":["alpha","beta"],"owner":{"login":"someone","url":"https://example.com/users/someone"}}`
	var rows strings.Builder
	for i := 0; rows.Len() < n-100; i++ {
		if i > 0 {
			rows.WriteByte(',')
		}
		fmt.Fprintf(&rows, row, i, i, i)
	}
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[],"structuredContent":{"rows":[` + rows.String() + `]},"isError":false}}`
}

// WideResult is a result of about n bytes of non-ASCII text.
func WideResult(n int) string {
	const text = "日本語の文章と、ときどき English、そして emoji 🎉。"
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + strings.Repeat(text, n/len(text)) + `"}]}}`
}

// ToolsResult is a result of tools/list of about n bytes.
func ToolsResult(n int) string {
	const tool = `{"name":"tool_%d","title":"A tool","description":"Does something useful with a path and a pattern; returns what it found, one match per line.",` +
		`"inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Where to begin"},"pattern":{"type":"string"}},"required":["path"]}}`
	var tools strings.Builder
	for i := 0; tools.Len() < n-100; i++ {
		if i > 0 {
			tools.WriteByte(',')
		}
		fmt.Fprintf(&tools, tool, i)
	}
	return `{"jsonrpc":"2.0","id":42,"result":{"tools":[` + tools.String() + `],"nextCursor":"abc"}}`
}

// Brackets returns a text nested to a depth with the given opening Brackets in turn.
func Brackets(depth int, openers string) string {
	var open, closing []string
	for _, o := range strings.SplitAfter(strings.ReplaceAll(openers, "[", "[;"), ";") {
		if o = strings.TrimSuffix(o, ";"); o != "" {
			open = append(open, o)
		}
	}
	var b strings.Builder
	for i := range depth {
		o := open[i%len(open)]
		if i == depth-1 {
			o = strings.TrimSuffix(o, `"":`)
		}
		b.WriteString(o)
		closing = append(closing, map[byte]string{'[': "]", '{': "}"}[o[0]])
	}
	for _, c := range slices.Backward(closing) {
		b.WriteString(c)
	}
	return b.String()
}

// CutReader returns a text in pieces of the lengths in Cuts, repeatedly, and the end of
// the text with the last piece or after it. The first piece has the requested length.
type CutReader struct {
	Text     string
	Cuts     []byte
	End      error
	Together bool // report the end with the last piece

	n int
}

// Read returns the next piece.
func (r *CutReader) Read(p []byte) (int, error) {
	if len(r.Text) == 0 {
		return 0, r.End
	}
	size := len(r.Text)
	if len(r.Cuts) > 0 && r.n > 0 {
		size = 1 + int(r.Cuts[r.n%len(r.Cuts)])
	}
	r.n++
	n := copy(p, r.Text[:min(size, len(r.Text))])
	if r.Text = r.Text[n:]; r.Text == "" && r.Together {
		return n, r.End
	}
	return n, nil
}
