// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"plain", "Guten Tag,\n\tこんにちは — 1\u00a0€", "Guten Tag,\n\tこんにちは — 1\u00a0€"},
		{"colour", "\x1b[31mred\x1b[0m", `\x1b[31mred\x1b[0m`},
		{"title of the window", "\x1b]0;x\x07", `\x1b]0;x\a`},
		{"over what stands there", "password: \rgone\b", `password: \rgone\b`},
		{"control of eight bits", "\u009b31m", `\u009b31m`},
		{"direction", "abc\u202edef\u2066", `abc\u202edef\u2066`},
		{"no width", "a\u200bb\ufeff\u00ad", `a\u200bb\ufeff\u00ad`},
		{"tags", "\U000e0041", `\U000e0041`},
		{"no UTF-8", "a\xffb\x9b", `a\xffb\x9b`},
		{"replacement character", "\ufffd", `�`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Visible(tt.in); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestVisibleLine(t *testing.T) {
	t.Parallel()
	if got, want := VisibleLine(" one\n\ttwo\r\n\x1b three "), `one two \x1b three`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzVisible checks that the result has nothing that a terminal interprets, and that JSON
// keeps its value.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\x1b[2J", "\u202e", "\U000e0041", "\xff", `"\u001b`, "\x7f\u0085\u2028"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := Visible(s); hidden(got) || !utf8.ValidString(got) {
			t.Errorf("visible(%q) = %q", s, got)
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		shown := VisibleJSON(quoted)
		if hidden(string(shown)) {
			t.Errorf("visibleJSON(%s) = %q", quoted, shown)
		}
		var before, after string
		if json.Unmarshal(quoted, &before) != nil || json.Unmarshal(shown, &after) != nil || before != after {
			t.Errorf("visibleJSON(%s) = %s, another value", quoted, shown)
		}
	})
}

func hidden(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r != utf8.RuneError && isHidden(r) })
}
