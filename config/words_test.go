// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"math"
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
