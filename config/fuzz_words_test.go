// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
)

// FuzzExpand checks that the value of a variable is unmodified and in no message, that a text
// without references is unmodified, and that each reference becomes a value, a default or a
// problem.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "x", "${A}", "a${A}b${env:A}", "${A:-x}", "${A", "${}", "$${A}", "${A:=x}", "${input:A}", "}${A}{", "${\n}"} {
		f.Add(seed)
	}
	const held = "\x00held\x00"
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "held") {
			return
		}
		r := &reader{lookup: func(name string) (string, bool) { return held, name != "NONE" }}
		got := r.expand(text, place{name: "key"}, false)
		references := strings.Count(text, "${")
		switch {
		case references == 0 && (got != text || len(r.problems) > 0):
			t.Errorf("%q has no reference and becomes %q, %v", text, got, r.problems)
		case strings.Count(got, held)+len(r.problems) > references:
			t.Errorf("%q becomes %q with %v, and has only %d references", text, got, r.problems, references)
		case strings.Count(got, held) == 0 && len(r.problems) == 0 && references > 0 && !strings.Contains(text, ":-"):
			t.Errorf("%q becomes %q: its references are gone, and nothing is said", text, got)
		}
		for _, p := range r.problems {
			if strings.Contains(p.String(), "held") || strings.ContainsAny(p.String(), "\n\r\x00") {
				t.Errorf("%q: %q", text, p.String())
			}
		}
	})
}

// FuzzUnits checks that a parsed duration or size is positive, that its formatted value is
// parsed as the same value and accepted by the schema, and that hints are short.
func FuzzUnits(f *testing.F) {
	for _, seed := range []string{"", "30", "30s", "1m30s", "4MiB", "1.5h", "-1s", "0s", "1e9s", "9223372036854775807ns", "8589934592GiB", "none", "µs", "1µs"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if d, err := parseDuration(text); err == nil {
			if again, err := parseDuration(d.String()); err != nil || again != d || d <= 0 {
				t.Errorf("%q is %v, which is read as %v, %v", text, d, again, err)
			}
		}
		if n, err := parseBytes(text); err == nil {
			if again, err := parseBytes(formatBytes(n)); err != nil || again != n || n <= 0 {
				t.Errorf("%q is %d, which is read as %d, %v", text, n, again, err)
			}
		}
		for _, name := range []string{"x.json", "x.yaml"} {
			_, err := Parse(name, []byte(`{"mcpServers": {}, "limits": {"connect": "`+plainOnly(text)+`", "schema": "`+plainOnly(text)+`"}}`), nil)
			if err != nil && len(err.Error()) > 1000 {
				t.Errorf("%q: %d bytes of problems", text, len(err.Error()))
			}
		}
	})
}

// plainOnly removes characters that are special in JSON strings.
func plainOnly(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == '"' || r == '\\' || r == 0x7f || r == '\ufffd' {
			return -1
		}
		return r
	}, text)
}
