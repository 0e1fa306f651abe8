// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// Any text can be encoded as a header and decoded, also twice: a text that looks
// encoded is encoded (H6).
func TestHeaderValueRoundTrip(t *testing.T) {
	r := jsontest.Seeded(4)
	for range 2_000 {
		want := jsontest.RandomText(r)
		value := EncodeHeaderValue(want)
		if badHeaderByte(value) >= 0 || !utf8.ValidString(value) || strings.Trim(value, " \t") != value || value == "" {
			t.Fatalf("EncodeHeaderValue(%q) = %q, which is no header", want, value)
		}
		if got, err := DecodeHeaderValue(value); err != nil || got != want {
			t.Fatalf("%q came back from %q as %q, %v", want, value, got, err)
		}
		twice := EncodeHeaderValue(value)
		if got, err := DecodeHeaderValue(twice); err != nil || got != value {
			t.Fatalf("%q came back from %q as %q, %v", value, twice, got, err)
		}
	}
}

// Every mirrored value passes the check, whatever the argument.
func TestParamHeaderRoundTrip(t *testing.T) {
	r := jsontest.Seeded(5)
	for range 1_500 {
		headers := []ParamHeader{
			{Name: "S", Path: []string{"s"}, Type: "string"},
			{Name: "N", Path: []string{"o", "n"}, Type: "integer"},
			{Name: "B", Path: []string{"o", "b"}, Type: "boolean"},
		}
		number := []string{"0", "-0", "42", "4.2e1", "420e-1", "9007199254740991", "-9007199254740991", "1.5", "1e400"}[r.IntN(9)]
		arguments := []byte(`{"s":` + jsontest.EscapedText(r, jsontest.RandomText(r)) + `,"o":{"n":` + number + `,"b":` + []string{"true", "false", "null"}[r.IntN(3)] + `}}`)
		got := map[string][]string{}
		for _, h := range headers {
			if value, ok, _ := h.Value(arguments); ok {
				got[h.Header()] = []string{EncodeHeaderValue(value)}
			}
		}
		if err := CheckParamHeaders(headers, got, arguments); err != nil {
			t.Fatalf("%s with %q: %v", arguments, got, err)
		}
		// With one more character it does not match.
		for name, v := range got {
			got[name] = []string{EncodeHeaderValue("x" + v[0])}
			if CheckParamHeaders(headers, got, arguments) == nil {
				t.Fatalf("%s with %q: no error", arguments, got)
			}
			got[name] = v
		}
	}
}

// For any message, an error is one short line of ASCII, safe for logs and terminals.
func TestParseErrorsAreOneLine(t *testing.T) {
	r := jsontest.Seeded(10)
	for range 2_000 {
		name := jsontest.RandomText(r) + "\u202e\x1b[2J" + strings.Repeat("k", r.IntN(200))
		in := `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + jsontest.EscapedText(r, name) + `:1,` + jsontest.EscapedText(r, name) + `:2}}`
		_, err := Parse([]byte(in), Limits{})
		if err == nil || !strings.Contains(err.Error(), "duplicate member ") {
			t.Fatalf("%s: %v", in, err)
		}
		checkOneLine(t, err)
		cut := in[:r.IntN(len(in))] + string([]byte{byte(r.UintN(256))})
		if _, err := Parse([]byte(cut), Limits{}); err != nil {
			checkOneLine(t, err)
		}
	}
}

func checkOneLine(t testing.TB, err error) {
	t.Helper()
	text := err.Error()
	plain := func(c rune) bool { return c < ' ' || c > '~' }
	if strings.ContainsFunc(text, plain) || len(text) > 800 {
		t.Fatalf("the error is %q", text)
	}
}
