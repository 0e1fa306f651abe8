// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configfile

import (
	"strings"
	"testing"
)

// TestPositionAt checks that columns count characters and not bytes.
func TestPositionAt(t *testing.T) {
	text := []byte("é=1\r\nab\n")
	tests := []struct {
		offset int
		want   Position
	}{{0, Position{1, 1}}, {2, Position{1, 2}}, {6, Position{2, 1}}, {9, Position{3, 1}}, {99, Position{3, 1}}, {-1, Position{1, 1}}}
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
		At   Position
		says string
	}{
		{"a byte of Latin 1", []byte("{\n \"a\": \"\xff\"}"), Position{2, 8}, "is not UTF-8 here"},
		{"a cut character", []byte("# \xc3"), Position{1, 3}, "is not UTF-8 here"},
		{"half of a pair", []byte("# é\xed\xa0\x80"), Position{1, 4}, "is not UTF-8 here"},
		{"UTF-16 of Windows", append([]byte("\xff\xfe"), utf16(text, 0)...), Position{1, 1}, "is UTF-16"},
		{"UTF-16 of networks", append([]byte("\xfe\xff"), utf16(text, 1)...), Position{1, 1}, "is UTF-16"},
		{"UTF-16 without a mark", utf16(text, 0), Position{1, 2}, "has a NUL here"},
		{"a NUL in a comment", []byte("a: 1\n# é\x00"), Position{2, 4}, "has a NUL here"},
		{"a NUL in a string", []byte("{\"a\": \"b\x00\"}"), Position{1, 9}, "has a NUL here"},
		{"nothing but a mark of UTF-16", []byte("\xff\xfe"), Position{1, 1}, "is UTF-16"},
	}
	for _, tt := range tests {
		for _, isJSON := range []bool{true, false} {
			_, err := Parse(tt.data, isJSON)
			if err == nil || err.At != tt.At || !strings.Contains(err.Message, tt.says) || err.Hint != "save it as UTF-8" {
				t.Errorf("%s, JSON %t: %+v, want at %v that it %s", tt.name, isJSON, err, tt.At, tt.says)
			}
		}
	}
}

func TestTooLarge(t *testing.T) {
	for size, want := range map[int]bool{MaxSize: true, MaxSize + 1: false} {
		text := "a: 1 #" + strings.Repeat("x", size-len("a: 1 #"))
		_, err := Parse([]byte(text), false)
		if (err == nil) != want {
			t.Errorf("a file of %d bytes: %v, want read %t", size, err, want)
		}
		if err != nil && (err.Message != "the file is larger than 1MiB" || err.Hint == "") {
			t.Errorf("a file over the limit: %q (%s)", err.Message, err.Hint)
		}
	}
}
