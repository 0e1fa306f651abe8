// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/json"
	"testing"
	"unicode/utf16"
)

func TestDecodeText(t *testing.T) {
	for in, want := range map[string]string{
		`""`:                         "",
		`"a"`:                        "a",
		`"\"\\\/\b\f\n\r\t"`:         "\"\\/\b\f\n\r\t",
		`"\u0000\u0041\u00e9\uFFFD"`: "\x00Aé\uFFFD",
		`"x\ud83c\udf89y"`:           "x🎉y",
		`"\uD834\uDD1E\ud834\udd1e"`: "𝄞𝄞",
		`"\\ud800"`:                  `\ud800`,
		`"é世🎉"`:                      "é世🎉",
	} {
		if got, ok := DecodeText([]byte(in)); !ok || got != want {
			t.Errorf("DecodeText(%s) = %q, %v; want %q", in, got, ok, want)
		}
		if HasHalfPair([]byte(in)) {
			t.Errorf("%s has half a pair", in)
		}
	}
	for _, in := range []string{
		`"\ud800"`, `"\udfff"`, `"\ud800x"`, `"\ud800\n"`, `"\ud800\u0041"`, `"\ud800\ud800"`,
		`"\udc00\ud800"`, `"\ud83c\udf89\ud83c"`, `"\\\ud800"`, `"\ud800\\udc00"`,
	} {
		if got, ok := DecodeText([]byte(in)); ok || got != "" {
			t.Errorf("DecodeText(%s) = %q, want none", in, got)
		}
		if !HasHalfPair([]byte(in)) {
			t.Errorf("%s has no half of a pair", in)
		}
	}
	for _, in := range []string{``, `"`, `1`, `null`, `{}`, `["a"]`} {
		if got, ok := DecodeText([]byte(in)); ok {
			t.Errorf("DecodeText(%s) = %q, want none", in, got)
		}
	}
}

// Every code unit, alone and before another, decodes as in the standard library, with
// U+FFFD for an unpaired surrogate.
func TestUnescapeUnits(t *testing.T) {
	const digits = "0123456789abcdef"
	for r := range rune(0x10000) {
		unit := `\u` + string([]byte{digits[r>>12], digits[r>>8&15], digits[r>>4&15], digits[r&15]})
		got, ok := Unescape(nil, []byte(unit))
		if ok == utf16.IsSurrogate(r) || ok && string(got) != string(r) || !ok && string(got) != "\uFFFD" {
			t.Fatalf("%s: %q, %v", unit, got, ok)
		}
	}
	units := []string{`\u0041`, `\ud7ff`, `\ud800`, `\udbff`, `\udc00`, `\udfff`, `\ue000`, `x`, `\n`}
	for _, a := range units {
		for _, b := range units {
			for _, c := range units {
				var want string
				if err := json.Unmarshal([]byte(`"`+a+b+c+`"`), &want); err != nil {
					t.Fatal(err)
				}
				if got, _ := Unescape(nil, []byte(a+b+c)); string(got) != want {
					t.Errorf("%s%s%s: %q, want %q", a, b, c, got, want)
				}
			}
		}
	}
}

func TestTextOf(t *testing.T) {
	for raw, want := range map[string]string{
		`"a"`: "a", `"\u00e9\n"`: "é\n", `"\ud83d\ude00"`: "😀", `"a\ud800b"`: "a\uFFFDb", `""`: "", `5`: "", `{"a":"b"}`: "", ``: "",
	} {
		if got := TextOf([]byte(raw)); got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}
