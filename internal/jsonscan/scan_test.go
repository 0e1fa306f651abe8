// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// accepts reports whether the scanner accepts a JSON text, both as a value on its own
// and, with other code, in an object with known members.
func accepts(t *testing.T, text string) bool {
	t.Helper()
	s := NewScanner([]byte(text), Limits{Depth: MaxDepth})
	i := s.Begin()
	alone := i >= 0 && s.End(s.Value(i, 0)) >= 0
	if alone != (s.Err == nil) {
		t.Errorf("%q: accepted %v with error %v", text, alone, s.Err)
	}
	_, err := ParseObject([]byte(`{"v":`+text+"}"), LevelParams)
	if inside := err == nil; inside != alone && !strings.HasPrefix(text, "\uFEFF") {
		t.Errorf("%q: accepted %v alone and %v in an object: %v", text, alone, inside, err)
	}
	return alone
}

// "A JSON text is a serialized value" (RFC 8259, section 2), and the sections on each
// kind of value.
func TestScanAccepts(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `""`, `0`, `true`, `false`, `null`,
		" \t\r\n{ \t\r\n} \t\r\n", " [ ] ", "[ 1 , 2 ]", `{ "a" : 1 , "b" : 2 }`,
		`[[]]`, `[{}]`, `{"a":{}}`, `{"a":[]}`, `[[],[[]],{"a":[{}]}]`, `[1,[2,[3,{"a":[4]}]],5]`,
		`{"":""}`, `{"a":1,"a":2}`, `{"a":{"a":{"a":1,"b":2},"b":3},"b":4}`,
		// Section 6.
		`-0`, `-1`, `10`, `1234567890123456789012345678901234567890`, `0.0`, `-0.1`, `1.50`, `1e5`, `1E5`, `1e+05`, `1e-5`, `0e0`, `0E+0`, `1.5e-10`, `1e400`,
		// Section 7.
		`"\"\\\/\b\f\n\r\t"`, `"\u0000"`, `"\uABCD\uabcd"`, `"\ud83c\udf89"`, `"\ud800"`, `"\udc00\ud800"`, `"\\u12"`, "\"\x7f\"", `"/"`, `"'"`,
		"\"\u0080\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\"", "\"\ufeff\"",
		strings.Repeat("[", 1000) + strings.Repeat("]", 1000),
		strings.Repeat(`{"a":[`, 500) + strings.Repeat("]}", 500),
	} {
		if !accepts(t, text) {
			t.Errorf("%.60q is refused", text)
		}
		if !jsontest.IsJSON([]byte(text)) {
			t.Errorf("%.60q is no JSON text to the oracle either", text)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for _, text := range []string{
		``, ` `, `{`, `}`, `[`, `]`, `"`, `,`, `:`, `{]`, `[}`, `[1}`, `{"a":1]`, `[]]`, `{}}`, `[[]`, `[{]}`,
		`[,]`, `[1,]`, `[,1]`, `[1,,2]`, `[1 2]`, `[1:2]`, `["a":1]`,
		`{,}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,"a":1}`, `{"a":1,,"b":2}`, `{"a":1 "b":2}`, `{"a","b"}`, `{a:1}`, `{1:1}`, `{'a':1}`, `{null:1}`, `{"a"::1}`, `{"a":1:2}`,
		`+1`, `01`, `-01`, `00`, `-`, `--1`, `.5`, `1.`, `-.5`, `1.e5`, `1e`, `1e+`, `1E-`, `1e1.5`, `1.5.5`, `0x1`, `1_000`, `1,5`, `Infinity`, `NaN`, `-Infinity`, `1a`, `٣`,
		`True`, `TRUE`, `nul`, `nulll`, `truefalse`, `tru e`, `undefined`, `n`, `f`, `t`,
		`'a'`, `"a`, `a"`, `"\"`, `"\x"`, `"\u"`, `"\u1"`, `"\u12"`, `"\u123"`, `"\u123g"`, `"\U0001F389"`, `"\u{1F389}"`, `"\'"`, `"\0"`, "\"\\\n\"", `"\ud83c\u"`, `"\ud83c\`,
		"\"\n\"", "\"\t\"", "\"\x00\"", "\"\x1f\"", "\"a\rb\"",
		"\"\x80\"", "\"\xbf\"", "\"\xc0\xaf\"", "\"\xc1\xbf\"", "\"\xc2\"", "\"\xc2\"\x80", "\"\xe0\x80\xaf\"", "\"\xe0\x9f\xbf\"", "\"\xed\xa0\x80\"", "\"\xed\xbf\xbf\"",
		"\"\xf0\x80\x80\x80\"", "\"\xf0\x8f\xbf\xbf\"", "\"\xf4\x90\x80\x80\"", "\"\xf5\x80\x80\x80\"", "\"\xfe\"", "\"\xff\"", "\"\xe2\x82\"", "\"\xf0\x9f\x8e\"", "\"\xc3\\u00a9\"",
		"\u00a0{}", "{}\u00a0", "\u2028{}", "{}\v", "{}\f", "{}\x00", "\x00", "\ufeff{}", "{}\ufeff",
		`//c` + "\n{}", `/*c*/{}`, `{}//c`, `[1,/**/2]`, `#c` + "\n{}",
		`{} {}`, `{}{}`, `1 1`, `""""`, `[]1`, "{}\n{}",
		strings.Repeat("[", 1000), strings.Repeat(`{"":`, 1000),
	} {
		if accepts(t, text) {
			t.Errorf("%.60q is accepted", text)
		}
		if jsontest.IsJSON([]byte(text)) {
			t.Errorf("%.60q is a JSON text to the oracle", text)
		}
	}
}

// Strings are read eight bytes at a time: the end or an error is found at every offset
// within the eight, and before and after them.
func TestScanStringPlaces(t *testing.T) {
	for n := range 40 {
		for after := range 10 {
			head, tail := strings.Repeat("a", n), strings.Repeat("b", after)
			for _, tt := range []struct {
				middle string
				ok     bool
			}{
				{"", true}, {" ", true}, {"!", true}, {"#", true}, {"[", true}, {"]", true}, {"\x7f", true},
				{`\n`, true}, {`\"`, true}, {`\\`, true}, {`\u0041`, true}, {"é", true}, {"世", true}, {"🎉", true},
				{"\x1f", false}, {"\x00", false}, {"\n", false}, {`"`, false}, {`\x`, false}, {"\x80", false}, {"\xff", false},
				{"\xc3", false}, {"\xf0\x9f\x8e", false},
			} {
				text := `"` + head + tt.middle + tail + `"`
				s := NewScanner([]byte(text), Limits{})
				end, escaped := s.Text(0)
				if ok := end == len(text); ok != tt.ok {
					t.Fatalf("%q: end %d of %d, %v", text, end, len(text), s.Err)
				}
				if tt.ok && escaped != strings.Contains(tt.middle, `\`) {
					t.Fatalf("%q: escaped %v", text, escaped)
				}
			}
		}
	}
}

// stops agrees with a loop over bytes, for every byte next to every other.
func TestStops(t *testing.T) {
	stop := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' }
	for a := range 256 {
		for b := range 256 {
			x := uint64('x')*ones&^0xFFFF | uint64(b)<<8 | uint64(a)
			m := stops(x)
			var got int // bytes before the first stop
			for got = 0; got < 8 && m>>(8*got)&0x80 == 0; got++ {
			}
			want := 8
			switch {
			case stop(byte(a)):
				want = 0
			case stop(byte(b)):
				want = 1
			}
			if got != want {
				t.Fatalf("bytes %#x %#x: %d, want %d", a, b, got, want)
			}
		}
	}
}

// skipPlain stops at the first other byte, for every byte next to every other, at any
// offset, and detects non-ASCII bytes.
func TestSkipPlain(t *testing.T) {
	stop := func(c byte) bool { return c < ' ' || c == '"' || c == '\\' }
	for a := range 256 {
		for b := range 256 {
			at := (a + b) % 11 * 8
			data := bytes.Repeat([]byte("x"), 100)
			data[at], data[at+1] = byte(a), byte(b)
			want := 96 // bytes too near to the end are not skipped
			switch {
			case stop(byte(a)):
				want = at
			case stop(byte(b)):
				want = at + 1
			}
			got, high := skipPlain(data, 0)
			if got != want {
				t.Fatalf("bytes %#x %#x at %d: %d, want %d", a, b, at, got, want)
			}
			if beyond := a >= 0x80 || b >= 0x80 && want != at; beyond && high&highs == 0 {
				t.Fatalf("bytes %#x %#x at %d: taken for ASCII", a, b, at)
			}
		}
	}
}

// The offset of invalid UTF-8 is exact.
func TestScanOffsets(t *testing.T) {
	for n := range 30 {
		text := `"` + strings.Repeat("é", n) + "a\xe2\x82b" + strings.Repeat("é", 30-n) + `"`
		s := NewScanner([]byte(text), Limits{})
		if s.Text(0); s.Err == nil || s.Err.Offset != 2*n+2 {
			t.Errorf("%q: %v, want an error at byte %d", text, s.Err, 2*n+2)
		}
	}
}

func TestScanLimits(t *testing.T) {
	s := NewScanner(nil, Limits{})
	if s.Depth != 128 || s.members != 100_000 {
		t.Errorf("defaults: depth %d, members %d", s.Depth, s.members)
	}
	s = NewScanner(nil, Limits{Depth: -1, Members: -1})
	if s.Depth != 128 || s.members != 100_000 {
		t.Errorf("negative: depth %d, members %d", s.Depth, s.members)
	}
	// At every depth the kind of each open bracket is remembered.
	for _, depth := range []int{1, 63, 64, 65, 127, 128, 129, 1023, 1024} {
		for _, text := range []string{jsontest.Brackets(depth, "["), jsontest.Brackets(depth, `{"":`), jsontest.Brackets(depth, `[{"":`)} {
			s := NewScanner([]byte(text), Limits{Depth: depth})
			if end := s.Value(0, 0); end != len(text) {
				t.Errorf("depth %d of %d: %v", depth, depth, s.Err)
			}
			s = NewScanner([]byte(text), Limits{Depth: depth - 1})
			if end := s.Value(0, 0); depth > 1 && end != Failed {
				t.Errorf("depth %d of %d is accepted", depth, depth-1)
			}
		}
	}
}
