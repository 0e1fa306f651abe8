// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// "When a value cannot be safely represented as a plain ASCII header value
// (e.g., it contains non-ASCII characters, control characters, or has
// leading/trailing whitespace), clients MUST use Base64 encoding of the UTF-8
// representation"; "clients MUST also Base64-encode any plain-ASCII value that
// matches the sentinel pattern" (2026-07-28, basic/transports/streamable-http,
// "Value Encoding"): H6. The first five are the specification's own examples.
//
// H6+ 2026-07-28 basic/transports/streamable-http: "Clients MUST encode parameter
// values before including them in HTTP headers to ensure safe transmission and prevent
// injection attacks."
func TestEncodeHeaderValue(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"us-west1", "us-west1"},
		{"Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="},
		{" padded ", "=?base64?IHBhZGRlZCA=?="},
		{"line1\nline2", "=?base64?bGluZTEKbGluZTI=?="},
		{"=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="},
		{"", "=?base64??="},
		{"=?base64?=", "=?base64?PT9iYXNlNjQ/PQ==?="},
		{"=?BASE64?literal?=", "=?BASE64?literal?="},
		{"=?base64?x", "=?base64?x"},
		{"a\tb c~!", "a\tb c~!"},
		{"tab\t", "=?base64?dGFiCQ==?="},
		{"\x7f", "=?base64?fw==?="},
		{"\x00", "=?base64?AA==?="},
		{"file:///projects/myapp/config.json", "file:///projects/myapp/config.json"},
	} {
		got := EncodeHeaderValue(tt.in)
		if got != tt.want {
			t.Errorf("EncodeHeaderValue(%q) = %q, want %q", tt.in, got, tt.want)
		}
		if back, err := DecodeHeaderValue("  " + got + "\t"); err != nil || back != tt.in {
			t.Errorf("DecodeHeaderValue(%q) = %q, %v; want %q", got, back, err, tt.in)
		}
	}
}

// "These markers are case-sensitive and MUST appear exactly as shown
// (lowercase)" (same section): H5, H6.
//
// H6- 2026-07-28 basic/transports/streamable-http: "These markers are case-sensitive
// and MUST appear exactly as shown (lowercase)."
func TestDecodeHeaderValue(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"  foo ", "foo"},
		{"TOOLS/CALL", "TOOLS/CALL"},
		{"=?Base64?Zm9v?=", "=?Base64?Zm9v?="},
		{"=?BASE64?Zm9v?=", "=?BASE64?Zm9v?="},
		{"=?base64?Zm9v", "=?base64?Zm9v"},
		{"=?base64?=", "=?base64?="},
		{"=?base64??=", ""},
		{"=?base64?Zm9v?=", "foo"},
		{"", ""},
	} {
		if got, err := DecodeHeaderValue(tt.in); err != nil || got != tt.want {
			t.Errorf("DecodeHeaderValue(%q) = %q, %v; want %q", tt.in, got, err, tt.want)
		}
	}
	const invalid = "header value: invalid base64 between =?base64? and ?="
	for _, tt := range []struct{ in, want string }{
		{"=?base64?Zm9v!?=", invalid},
		{"=?base64?Zm9?=", invalid},   // no padding
		{"=?base64?Zm9=?=", invalid},  // bits beyond the end
		{"=?base64?Zm 9v?=", invalid}, // white space in the middle
		{"=?base64?Zm9v=?=", invalid},
		{"=?base64?_w==?=", invalid}, // the URL alphabet
		{"=?base64?/w==?=", "header value: the decoded base64 is not valid UTF-8"},
		{"a\nb", `header value: invalid character '\n' at byte 1`},
		{"a\x00", `header value: invalid character '\x00' at byte 1`},
		{"\x7fa", `header value: invalid character '\x7f' at byte 0`},
		{"caf\u00e9", `header value: invalid character byte 0xc3 at byte 3`},
	} {
		if got, err := DecodeHeaderValue(tt.in); err == nil || err.Error() != tt.want || got != "" {
			t.Errorf("DecodeHeaderValue(%q) = %q, %v; want %s", tt.in, got, err, tt.want)
		}
	}
}

func TestNameField(t *testing.T) {
	for method, want := range map[string]Field{
		"tools/call": FieldName, "prompts/get": FieldName, "resources/read": FieldURI,
		"tasks/get": FieldTaskID, "tasks/update": FieldTaskID, "tasks/cancel": FieldTaskID,
		"tools/list": FieldNone, "completion/complete": FieldNone, "TOOLS/CALL": FieldNone, "": FieldNone,
	} {
		if got := NameField(method); got != want {
			t.Errorf("NameField(%q) = %q, want %q", method, got.Key(), want.Key())
		}
	}
}

// Encoded text is a valid header and decodes to itself; decoded text survives another
// round.
func FuzzHeaderValue(f *testing.F) {
	for _, seed := range []string{"", "a", " a", "=?base64??=", "=?base64?Zm9v?=", "世界", "\x00", "=?base64?/w==?=", "=?base64?Zm9=?="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if utf8.ValidString(s) {
			v := EncodeHeaderValue(s)
			if badHeaderByte(v) >= 0 || v == "" || strings.Trim(v, " \t") != v {
				t.Fatalf("EncodeHeaderValue(%q) = %q, which is no header", s, v)
			}
			if back, err := DecodeHeaderValue(v); err != nil || back != s {
				t.Fatalf("%q came back from %q as %q, %v", s, v, back, err)
			}
		}
		text, err := DecodeHeaderValue(s)
		if err != nil {
			return
		}
		if back, err := DecodeHeaderValue(EncodeHeaderValue(text)); err != nil || back != text {
			t.Fatalf("%q of header %q came back as %q, %v", text, s, back, err)
		}
	})
}
