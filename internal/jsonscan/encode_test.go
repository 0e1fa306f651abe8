// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestAppendString(t *testing.T) {
	for in, want := range map[string]string{
		"":                   `""`,
		"plain":              `"plain"`,
		"\"\\/":              `"\"\\/"`,
		"\n\r\t\b\f\x00\x1f": `"\n\r\t\u0008\u000c\u0000\u001f"`,
		"äß日🎉\u2028\x7f":     "\"äß日🎉\u2028\x7f\"",
		"a\xffb\xc3":         "\"a\uFFFDb\uFFFD\"",
		"\uFFFD":             "\"\uFFFD\"",
		"\xed\xa0\x80":       "\"\uFFFD\uFFFD\uFFFD\"",
	} {
		got := AppendString(nil, in)
		if string(got) != want {
			t.Errorf("AppendString(%q) = %s, want %s", in, got, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil || utf8.ValidString(in) && back != in {
			t.Errorf("AppendString(%q) = %s, which is %q, %v", in, got, back, err)
		}
	}
}
