// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

func BenchmarkParse(b *testing.B) {
	for _, bm := range []struct{ name, message string }{
		{"call 100 B", jsontest.SmallCall},
		{"call modern", jsontest.ModernCall},
		{"text 10 KiB", jsontest.TextResult(10 << 10)},
		{"text 1 MiB", jsontest.TextResult(1 << 20)},
		{"prose 1 MiB", jsontest.ProseResult(1 << 20)},
		{"dense 10 KiB", jsontest.DenseResult(10 << 10)},
		{"dense 1 MiB", jsontest.DenseResult(1 << 20)},
		{"wide 10 KiB", jsontest.WideResult(10 << 10)},
		{"list 10 KiB", jsontest.ToolsResult(10 << 10)},
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

func BenchmarkEdit(b *testing.B) {
	m, err := Parse([]byte(jsontest.ModernCall), Limits{})
	if err != nil {
		b.Fatal(err)
	}
	var e Edit
	e.SetText(FieldName, "weather__get_weather")
	e.Set(MetaProgressToken, []byte("17"))
	e.Delete(MetaClientInfo)
	dst := make([]byte, 0, 2*len(jsontest.ModernCall))
	b.ReportAllocs()
	for b.Loop() {
		dst = e.AppendTo(dst[:0], &m.Params)
	}
}

// BenchmarkApply renames the tool of a call and parses the new parameters.
func BenchmarkApply(b *testing.B) {
	for name, message := range map[string]string{"call 100 B": jsontest.SmallCall, "call modern": jsontest.ModernCall} {
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
	m, err := Parse([]byte(jsontest.ModernCall), Limits{})
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
	for _, bm := range []struct{ name, message string }{{"call 100 B", jsontest.SmallCall}, {"call modern", jsontest.ModernCall}} {
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
	large := strings.Replace(jsontest.SmallCall, `"a":1`, `"a":"`+strings.Repeat("x", 100<<10)+`"`, 1)
	for name, message := range map[string]string{"100 B": jsontest.SmallCall, "modern": jsontest.ModernCall, "100 KiB": large} {
		if got := testing.AllocsPerRun(50, spliced(t, message)); got > 1 {
			t.Errorf("%s: %v allocations, want at most 1", name, got)
		}
	}
}
