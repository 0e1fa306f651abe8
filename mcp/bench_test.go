// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
)

// smallCall is a call of about 100 bytes, as a legacy client sends it.
const smallCall = `{"jsonrpc":"2.0","id":42,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}`

// modernCall is a call with all the metadata of the modern era.
const modernCall = `{"jsonrpc":"2.0","id":"3f2b8c51-9d0e-4c1f-8a77-d1a40b5e6f90","method":"tools/call","params":{` +
	`"name":"get_weather","arguments":{"location":"Seattle, WA","days":[1,2,3]},"_meta":{` +
	`"progressToken":"p-17","io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
	`"io.modelcontextprotocol/clientInfo":{"name":"ExampleClient","version":"1.0.0"},` +
	`"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}},"sampling":{}}}}}`

// textResult is a result of about n bytes, like that of a tool that reads a file.
func textResult(n int) string {
	const line = `\t\"The quick brown fox\" jumps over the lazy dog, again and again, until line %d of the file.\n`
	var text strings.Builder
	for i := 0; text.Len() < n-100; i++ {
		fmt.Fprintf(&text, line, i)
	}
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + text.String() + `"}],"isError":false}}`
}

// proseResult is a result of about n bytes of text that needs escapes only for line
// ends.
func proseResult(n int) string {
	const line = `The signalman sets the points, and no two trains are ever sent onto one track.\n`
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + strings.Repeat(line, n/len(line)) + `"}]}}`
}

// denseResult is a result of about n bytes of mostly structure, like a list or the
// answer to a query.
func denseResult(n int) string {
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

// wideResult is a result of about n bytes of non-ASCII text.
func wideResult(n int) string {
	const text = "日本語の文章と、ときどき English、そして emoji 🎉。"
	return `{"jsonrpc":"2.0","id":42,"result":{"content":[{"type":"text","text":"` + strings.Repeat(text, n/len(text)) + `"}]}}`
}

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct{ name, message string }{
		{"call 100 B", smallCall},
		{"call modern", modernCall},
		{"text 10 KiB", textResult(10 << 10)},
		{"text 1 MiB", textResult(1 << 20)},
		{"prose 1 MiB", proseResult(1 << 20)},
		{"dense 10 KiB", denseResult(10 << 10)},
		{"dense 1 MiB", denseResult(1 << 20)},
		{"wide 10 KiB", wideResult(10 << 10)},
		{"list 10 KiB", toolsResult(10 << 10)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			data := []byte(bm.message)
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(data, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFlow reads, checks and streams a response in the form of most large ones.
func BenchmarkFlow(b *testing.B) {
	for _, bm := range []struct{ name, message string }{
		{"text 1 MiB", textResult(1 << 20)},
		{"prose 1 MiB", proseResult(1 << 20)},
		{"dense 1 MiB", denseResult(1 << 20)},
		{"wide 1 MiB", wideResult(1 << 20)},
	} {
		b.Run(bm.name, func(b *testing.B) {
			b.SetBytes(int64(len(bm.message)))
			b.ReportAllocs()
			for b.Loop() {
				a := NewArrival(strings.NewReader(bm.message), -1, Limits{}, math.MaxInt)
				if whole, err := a.Begin(); whole != nil || err != nil {
					b.Fatal(err)
				}
				if _, err := a.Flow(io.Discard, Passage{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// toolsResult is a result of tools/list of about n bytes.
func toolsResult(n int) string {
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

func BenchmarkEdit(b *testing.B) {
	m, err := Parse([]byte(modernCall), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	var e Edit
	e.SetText(FieldName, "weather__get_weather")
	e.Set(MetaProgressToken, []byte("17"))
	e.Delete(MetaClientInfo)
	dst := make([]byte, 0, 2*len(modernCall))
	b.ReportAllocs()
	for b.Loop() {
		dst = e.AppendTo(dst[:0], &m.Params)
	}
}

// BenchmarkApply renames the tool of a call and parses the new parameters.
func BenchmarkApply(b *testing.B) {
	for name, message := range map[string]string{"call 100 B": smallCall, "call modern": modernCall} {
		m, err := Parse([]byte(message), Limits{})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var e Edit
				e.SetText(FieldName, "add")
				if _, err := e.Apply(&m.Params); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkText(b *testing.B) {
	m, err := Parse([]byte(modernCall), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := m.Params.Text(FieldName); !ok {
			b.Fatal("no name")
		}
	}
}

// BenchmarkSplice renames the tool of a call, as a gateway does for each.
func BenchmarkSplice(b *testing.B) {
	for _, bm := range []struct{ name, message string }{{"call 100 B", smallCall}, {"call modern", modernCall}} {
		b.Run(bm.name, func(b *testing.B) {
			splice := spliced(b, bm.message)
			b.SetBytes(int64(len(bm.message)))
			b.ReportAllocs()
			for b.Loop() {
				splice()
			}
		})
	}
}

// spliced returns a function that parses a message and renames its tool, into an
// existing buffer.
func spliced(tb testing.TB, message string) func() {
	data, dst := []byte(message), make([]byte, 0, 2*len(message))
	return func() {
		m, err := Parse(data, Limits{})
		if err != nil {
			tb.Fatal(err)
		}
		var e Edit
		e.SetText(FieldName, "add")
		if dst = e.AppendTo(dst[:0], &m.Params); len(dst) == 0 {
			tb.Fatal("nothing was written")
		}
	}
}

// A rename allocates only for a long id, whatever else is in the message.
func TestSpliceAllocations(t *testing.T) {
	large := strings.Replace(smallCall, `"a":1`, `"a":"`+strings.Repeat("x", 100<<10)+`"`, 1)
	for name, message := range map[string]string{"100 B": smallCall, "modern": modernCall, "100 KiB": large} {
		if got := testing.AllocsPerRun(50, spliced(t, message)); got > 1 {
			t.Errorf("%s: %v allocations, want at most 1", name, got)
		}
	}
}
