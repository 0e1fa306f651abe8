// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package valid

import "testing"

func TestIsToken(t *testing.T) {
	tests := map[string]bool{
		"Authorization": true, "X-Api_Key.1": true, "!#$%&'*+-.^_`|~": true,
		"": false, "a b": false, "a:": false, "a\n": false, "a\x7f": false, "é": false, "a/b": false, `a"`: false, "a{": false,
	}
	for name, want := range tests {
		if got := IsToken(name); got != want {
			t.Errorf("IsToken(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestIsReservedHeader(t *testing.T) {
	tests := map[string]bool{
		"Host": true, "content-TYPE": true, "MCP-Protocol-Version": true, "Mcp-Anything": true, "X-Idempotency-Key": true,
		"Authorization": false, "User-Agent": false, "X-Mcp": false, "Cookie": false,
	}
	for name, want := range tests {
		if got := IsReservedHeader(name); got != want {
			t.Errorf("IsReservedHeader(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestIsVariable(t *testing.T) {
	tests := map[string]bool{
		"A": true, "_a1": true, "PATH": true, "a": true,
		"": false, "1A": false, "A-B": false, "A B": false, "É": false, "A.B": false,
	}
	for name, want := range tests {
		if got := IsVariable(name); got != want {
			t.Errorf("IsVariable(%q) = %t, want %t", name, got, want)
		}
	}
}

func TestIsPort(t *testing.T) {
	tests := map[string]bool{
		"": true, "1": true, "443": true, "65535": true,
		"0": false, "65536": false, "-1": false, "http": false, "80 ": false,
	}
	for text, want := range tests {
		if got := IsPort(text); got != want {
			t.Errorf("IsPort(%q) = %t, want %t", text, got, want)
		}
	}
}

func TestIsControl(t *testing.T) {
	tests := map[rune]bool{' ': false, '\t': false, 'a': false, 'é': false, '\n': true, '\r': true, 0: true, 0x7f: true}
	for r, want := range tests {
		if got := IsControl(r); got != want {
			t.Errorf("IsControl(%q) = %t, want %t", r, got, want)
		}
	}
}
