// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestIsLoopback(t *testing.T) {
	tests := map[string]bool{
		"127.0.0.1": true, "127.255.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "localhost": true,
		"": false, "0.0.0.0": false, "::": false, "10.0.0.1": false, "localhost.": false, "127.0.0.1.nip.io": false, "127.1": false,
	}
	for host, want := range tests {
		if got := isLoopback(host); got != want {
			t.Errorf("isLoopback(%q) = %t, want %t", host, got, want)
		}
	}
}

func TestIsBearer(t *testing.T) {
	tests := map[string]bool{
		"abc-._~+/123": true, "YWJj==": true, "": true,
		"a b": false, "a=b": false, "a\n": false, "ä": false, "a,b": false, "Bearer a": false,
	}
	for text, want := range tests {
		if got := isBearer(text); got != want {
			t.Errorf("isBearer(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestIsModern(t *testing.T) {
	modern := map[string]bool{eraModern: true, "2026-07-28": true}
	for _, era := range append(eras(), "") {
		if got := isModern(era); got != modern[era] {
			t.Errorf("isModern(%q) = %t, want %t", era, got, modern[era])
		}
	}
}

// TestServerNamePattern checks that the schema and the parser have the same rule.
func TestServerNamePattern(t *testing.T) {
	pattern := regexp.MustCompile(serverNamePattern)
	names := []string{
		"a", "A.b-c_9", "", "a b", "a/b", "é", "a\n", "-",
		strings.Repeat("a", maxServerName), strings.Repeat("a", maxServerName+1),
	}
	for _, name := range names {
		if schema, reader := pattern.MatchString(name), name != "" && isName(name, maxServerName); schema != reader {
			t.Errorf("%q: by the schema %t, by the reader %t", name, schema, reader)
		}
	}
}

// TestMeasurePatterns checks that the schema accepts every valid duration and size.
func TestMeasurePatterns(t *testing.T) {
	durations, sizes := regexp.MustCompile(durationPattern), regexp.MustCompile(sizePattern)
	for _, text := range []string{"30s", "1h30m", "1.5h", ".5s", "1.s", "1h.5m", "1us", "1µs", "1μs", "1ns", "1", "s", "+1s", "-1s", "1 s", "1d", "1h2"} {
		d, err := parseDuration(text)
		if err == nil && !durations.MatchString(text) {
			t.Errorf("%q is read as %v, and the schema refuses it", text, d)
		}
		if err != nil && durations.MatchString(text) && d > 0 {
			t.Errorf("%q is refused, and the schema takes it", text)
		}
	}
	for _, text := range []string{"1B", "1KiB", "1MiB", "1GiB", "007B", "1", "B", "+1B", "-1B", "1.5MiB", "1KB", "1 B"} {
		if _, err := parseBytes(text); (err == nil) != sizes.MatchString(text) {
			t.Errorf("%q: read with %v, by the schema %t", text, err, sizes.MatchString(text))
		}
	}
}

// TestExpand checks what is replaced in a text.
func TestExpand(t *testing.T) {
	vars := map[string]string{"A": "one", "B": "${A}", "EMPTY": ""}
	tests := []struct {
		text, want string
		problems   int
	}{
		{text: "", want: ""},
		{text: "plain $A $$ $", want: "plain $A $$ $"},
		{text: "${A}", want: "one"},
		{text: "x${A}y${A}z", want: "xoneyonez"},
		{text: "$${A}", want: "$one"},
		{text: "${env:A}", want: "one"},
		{text: "${B}", want: "${A}"}, // values are not expanded
		{text: "${EMPTY}", want: ""},
		{text: "${EMPTY:-two}", want: "two"},
		{text: "${NONE:-two}", want: "two"},
		{text: "${NONE:-}", want: ""},
		{text: "${NONE:-a:-b}", want: "a:-b"},
		{text: "${NONE:-$A}", want: "$A"},
		{text: "${env:NONE:-two}", want: "two"},
		{text: "a${NONE}b", want: "ab", problems: 1},
		{text: "${NONE}${NONE2}", want: "", problems: 2},
		{text: "a${A", want: "a", problems: 1},
		{text: "${}", want: "", problems: 1},
		{text: "${A-b}", want: "", problems: 1},
	}
	for _, tt := range tests {
		r := &reader{lookup: func(name string) (string, bool) { v, ok := vars[name]; return v, ok }}
		if got := r.expand(tt.text, place{}, false); got != tt.want || len(r.problems) != tt.problems {
			t.Errorf("expand(%q) = %q with %v, want %q with %d problems", tt.text, got, r.problems, tt.want, tt.problems)
		}
	}
}

// TestReadToken checks which files are accepted as token files.
func TestReadToken(t *testing.T) {
	tests := []struct {
		name, content string
		mode          os.FileMode
		want, problem string
	}{
		{name: "private", content: "abc", mode: 0o600, want: "abc"},
		{name: "of the group", content: "abc\n", mode: 0o640, want: "abc"},
		{name: "a line of Windows", content: "abc\r\n", mode: 0o400, want: "abc"},
		{name: "readable by all", content: "abc", mode: 0o604, problem: "(mode 0604)"},
		{name: "writable by all", content: "abc", mode: 0o602, problem: "(mode 0602)"},
		{name: "line breaks only", content: "\r\n\n", mode: 0o600, problem: "is empty"},
		{name: "large", content: strings.Repeat("a", maxTokenFile+1), mode: 0o600, problem: "is larger than 16KiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, tt.mode); err != nil {
				t.Fatal(err)
			}
			got, problem, _ := readToken(path)
			if got.Reveal() != tt.want || !strings.Contains(problem, tt.problem) || (problem == "") != (tt.problem == "") {
				t.Errorf("token %q, problem %q; want %q, %q", got.Reveal(), problem, tt.want, tt.problem)
			}
			if problem != "" && !strings.Contains(problem, path) {
				t.Errorf("the problem does not name the file: %s", problem)
			}
		})
	}
}

// TestReadTokenOfNoFile checks that a file that would block or has no end is not opened.
func TestReadTokenOfNoFile(t *testing.T) {
	for _, path := range []string{t.TempDir(), os.DevNull} {
		if _, problem, _ := readToken(path); !strings.Contains(problem, "not a regular file") {
			t.Errorf("%s: %q", path, problem)
		}
	}
}

// TestDefaultsAreReadable checks that each default can be parsed: otherwise the field would
// stay zero.
func TestDefaultsAreReadable(t *testing.T) {
	for _, row := range object(configKeys(), nil).rows("") {
		if row.def == "" || row.want == "a string" || strings.Contains(row.want, ", ") {
			continue
		}
		_, sizeErr := parseBytes(row.def)
		_, timeErr := parseDuration(row.def)
		if sizeErr != nil && timeErr != nil && !isNumber(row.def) {
			t.Errorf("%s: the default %q is neither a size nor a duration nor a number", row.path, row.def)
		}
	}
	var l Limits
	fill(limitKeys(), reflect.ValueOf(&l).Elem())
	if l.CallMax != 10*time.Minute || l.LogLine != 8<<10 || l.Depth != 128 {
		t.Errorf("filled limits %+v", l)
	}
}
