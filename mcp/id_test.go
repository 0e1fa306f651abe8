// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/jsonscan/jsontest"
)

// "Requests MUST include a string or integer ID" and "Result responses MUST
// include the same ID as the request they correspond to" (2026-07-28, basic,
// "Messages"): J2, J5. What comes in is what goes out, byte for byte.
//
// J2+ 2026-07-28 basic/index: "Requests **MUST** include a string or integer ID."
func TestParseID(t *testing.T) {
	for _, in := range []string{
		"0", "1", "-1", "-0", "42", "9007199254740993", "-9007199254740993",
		"18446744073709551616", strings.Repeat("9", 1024),
		`""`, `"1"`, `"a"`, `"\u0061"`, `"\""`, `"ä日🎉"`, `"\ud83c\udf89"`,
		`"3f2b8c51-9d0e-4c1f-8a77-d1a40b5e6f90"`, `"` + strings.Repeat("x", 1022) + `"`,
		`"` + strings.Repeat("x", 21) + `"`, `"` + strings.Repeat("x", 22) + `"`, // about as long as fits inside an ID
	} {
		id, err := ParseID([]byte(in))
		if err != nil {
			t.Errorf("ParseID(%s): %v", in, err)
			continue
		}
		if id.IsZero() || id.String() != in || string(id.AppendTo([]byte("x"))) != "x"+in {
			t.Errorf("ParseID(%s) = %s", in, id)
		}
		if again, _ := ParseID([]byte(" " + in + "\n")); again != id {
			t.Errorf("ParseID(%s) twice: %s and %s differ", in, id, again)
		}
	}
}

// J2- 2026-07-28 basic/index: "Unlike base JSON-RPC, the ID **MUST NOT** be `null`."
func TestParseIDRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "missing JSON text at byte 0; send one JSON object"},
		{"null", "the id is null at byte 0; an id is a string or an integer"},
		{"1.0", "the id is a number with a fraction or an exponent at byte 0; an id is a string or an integer"},
		{"1e0", "the id is a number with a fraction or an exponent at byte 0; an id is a string or an integer"},
		{"01", "unexpected '1' after the end of the JSON text at byte 1; send one value"},
		{"+1", "unexpected '+' at byte 0; expected a value"},
		{"-", "the JSON text ends too early at byte 1; expected a digit"},
		{"1 2", "unexpected '2' after the end of the JSON text at byte 2; send one value"},
		{`"a`, "the JSON text ends too early at byte 2; expected the closing quote of a string"},
		{`"\ud800"`, "the id has an unpaired surrogate at byte 0; send both halves of the pair"},
		{`"\ud800\ud800"`, "the id has an unpaired surrogate at byte 0; send both halves of the pair"},
		{`"\\\n\udc00"`, "the id has an unpaired surrogate at byte 0; send both halves of the pair"},
		{"{}", "the id is an object at byte 0; an id is a string or an integer"},
		{"[1]", "the id is an array at byte 0; an id is a string or an integer"},
		{"true", "the id is a boolean at byte 0; an id is a string or an integer"},
		{strings.Repeat("9", 1025), "the id is longer than 1024 bytes at byte 0; send a shorter id"},
	} {
		id, err := ParseID([]byte(tt.in))
		if err == nil || err.Error() != tt.want || !id.IsZero() {
			t.Errorf("ParseID(%s) = %q, %v; want %s", tt.in, id, err, tt.want)
		}
	}
}

func FuzzParseID(f *testing.F) {
	for _, seed := range []string{"0", "-1", "1.5", `"a"`, `"\ud800"`, "null", "[", "9007199254740993"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		id, err := ParseID(data)
		token := strings.Trim(string(data), " \t\r\n")
		want := jsontest.IsJSON(data) && jsontest.DepthOf(data) == 0 && token[0] != 't' && token[0] != 'f' && token != "null" && isGoodID([]byte(token))
		if (err == nil) != want {
			t.Fatalf("ParseID(%q) = %s, %v; the oracle says %v", data, id, err, want)
		}
		if err == nil && id.String() != token {
			t.Fatalf("ParseID(%q) = %s", data, id)
		}
	})
}
