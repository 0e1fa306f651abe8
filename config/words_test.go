// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseBytes(t *testing.T) {
	tests := []struct {
		text string
		want int64
		err  error
	}{
		{text: "1B", want: 1},
		{text: "64KiB", want: 64 << 10},
		{text: "4MiB", want: 4 << 20},
		{text: "2GiB", want: 2 << 30},
		{text: "9223372036854775807B", want: math.MaxInt64},
		{text: "9223372036854775808B", err: errTooLarge},
		{text: "8589934592GiB", err: errTooLarge},
		{text: "4194304", err: errNoUnit},
		{text: "1.5", err: errNoUnit},
		{text: "", err: errNotASize},
		{text: "B", err: errNotASize},
		{text: "1.5MiB", err: errNotASize},
		{text: "+1B", err: errNotASize},
		{text: "4MB", err: errNotASize},
		{text: "4 MiB", err: errNotASize},
		{text: "0KiB", err: errNotMore},
		{text: "-1B", err: errNotMore},
	}
	for _, tt := range tests {
		got, err := parseBytes(tt.text)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("parseBytes(%q) = %d, %v, want %d, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

// TestFormatBytes checks that a formatted size can be parsed.
func TestFormatBytes(t *testing.T) {
	tests := []struct {
		size int64
		want string
	}{{1, "1B"}, {1000, "1000B"}, {1024, "1KiB"}, {1536, "1536B"}, {4 << 20, "4MiB"}, {3 << 30, "3GiB"}}
	for _, tt := range tests {
		got := formatBytes(tt.size)
		if back, err := parseBytes(got); got != tt.want || back != tt.size || err != nil {
			t.Errorf("formatBytes(%d) = %q, read back %d, %v; want %q", tt.size, got, back, err, tt.want)
		}
	}
}

func TestParseDuration(t *testing.T) {
	tests := []struct {
		text string
		want time.Duration
		err  error
	}{
		{text: "30s", want: 30 * time.Second},
		{text: "1m30s", want: 90 * time.Second},
		{text: "1.5h", want: 90 * time.Minute},
		{text: "250ms", want: 250 * time.Millisecond},
		{text: "0", err: errNoUnit},
		{text: "30", err: errNoUnit},
		{text: "1e3", err: errNoUnit},
		{text: "", err: errNotATime},
		{text: "s", err: errNotATime},
		{text: "1d", err: errNotATime},
		{text: "+1s", err: errNotATime},
		{text: "30 s", err: errNotATime},
		{text: "inf", err: errNotATime},
		{text: "0s", err: errNotMore},
		{text: "-1s", err: errNotMore},
	}
	for _, tt := range tests {
		got, err := parseDuration(tt.text)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("parseDuration(%q) = %v, %v, want %v, %v", tt.text, got, err, tt.want, tt.err)
		}
	}
}

// TestPlaces checks that different places have different paths.
func TestPlaces(t *testing.T) {
	servers := place{}.key("mcpServers")
	tests := []struct {
		at                 place
		path, name, parent string
	}{
		{servers, "mcpServers", "mcpServers", ""},
		{servers.key("a").key("args").item(2), "mcpServers.a.args[2]", "args[2]", "mcpServers.a.args"},
		{servers.key("a.args"), `mcpServers["a.args"]`, "a.args", "mcpServers"},
		{servers.key("a[0]"), `mcpServers["a[0]"]`, "a[0]", "mcpServers"},
		{servers.key(""), `mcpServers[""]`, "", "mcpServers"},
		{place{}.key(""), `[""]`, "", ""},
	}
	for _, tt := range tests {
		if tt.at.path != tt.path || tt.at.name != tt.name {
			t.Errorf("place %q, %q, want %q, %q", tt.at.path, tt.at.name, tt.path, tt.name)
		}
		if got := parent(tt.path); tt.at.name != "a[0]" && tt.at.name != "a.args" && got != tt.parent {
			t.Errorf("parent(%q) = %q, want %q", tt.path, got, tt.parent)
		}
	}
}

// TestTouch checks when a problem follows from another.
func TestTouch(t *testing.T) {
	known := Problems{{Path: "mcpServers.a.args[1]"}}
	tests := map[string]bool{
		"mcpServers.a.args[1]": true, "mcpServers.a.args": true, "mcpServers.a": true, "mcpServers": true,
		"mcpServers.a.arg": false, "mcpServers.a.args[10]": false, "mcpServers.b": false, "listen": false,
	}
	for path, want := range tests {
		if got := known.touch(path); got != want {
			t.Errorf("touch(%q) = %t, want %t", path, got, want)
		}
	}
}

// TestPositionAt checks that columns count characters and not bytes.
func TestPositionAt(t *testing.T) {
	text := []byte("é=1\r\nab\n")
	tests := []struct {
		offset int
		want   position
	}{{0, position{1, 1}}, {2, position{1, 2}}, {6, position{2, 1}}, {9, position{3, 1}}, {99, position{3, 1}}, {-1, position{1, 1}}}
	for _, tt := range tests {
		if got := positionAt(text, tt.offset); got != tt.want {
			t.Errorf("positionAt(%d) = %v, want %v", tt.offset, got, tt.want)
		}
	}
}

// TestCheckText checks the position of the first character that editors do not show.
func TestCheckText(t *testing.T) {
	utf16 := func(text string, swap int) []byte {
		var out []byte
		for _, unit := range []byte(text) {
			pair := [2]byte{unit, 0}
			out = append(out, pair[swap], pair[1-swap])
		}
		return out
	}
	const text = "{\n \"a\": 1}"
	tests := []struct {
		name string
		data []byte
		at   position
		says string
	}{
		{"a byte of Latin 1", []byte("{\n \"a\": \"\xff\"}"), position{2, 8}, "is not UTF-8 here"},
		{"a cut character", []byte("# \xc3"), position{1, 3}, "is not UTF-8 here"},
		{"half of a pair", []byte("# é\xed\xa0\x80"), position{1, 4}, "is not UTF-8 here"},
		{"UTF-16 of Windows", append([]byte("\xff\xfe"), utf16(text, 0)...), position{1, 1}, "is UTF-16"},
		{"UTF-16 of networks", append([]byte("\xfe\xff"), utf16(text, 1)...), position{1, 1}, "is UTF-16"},
		{"UTF-16 without a mark", utf16(text, 0), position{1, 2}, "has a NUL here"},
		{"a NUL in a comment", []byte("a: 1\n# é\x00"), position{2, 4}, "has a NUL here"},
		{"a NUL in a string", []byte("{\"a\": \"b\x00\"}"), position{1, 9}, "has a NUL here"},
		{"nothing but a mark of UTF-16", []byte("\xff\xfe"), position{1, 1}, "is UTF-16"},
	}
	for _, tt := range tests {
		for _, isJSON := range []bool{true, false} {
			_, err := parseTree(tt.data, isJSON)
			if err == nil || err.at != tt.at || !strings.Contains(err.message, tt.says) || err.hint != "save it as UTF-8" {
				t.Errorf("%s, JSON %t: %+v, want at %v that it %s", tt.name, isJSON, err, tt.at, tt.says)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	for size, want := range map[int]bool{maxFile: true, maxFile + 1: false} {
		text := "a: 1 #" + strings.Repeat("x", size-len("a: 1 #"))
		_, err := parseTree([]byte(text), false)
		if (err == nil) != want {
			t.Errorf("a file of %d bytes: %v, want read %t", size, err, want)
		}
		if err != nil && (err.Error() != "the file is larger than 1MiB" || err.hint == "") {
			t.Errorf("a file over the limit: %q (%s)", err, err.hint)
		}
	}
}
