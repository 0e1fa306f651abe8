// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configpath

import "testing"

func TestServer(t *testing.T) {
	for name, want := range map[string]string{
		"github":   "mcpServers.github",
		"a-b_C9":   "mcpServers.a-b_C9",
		"github.c": `mcpServers["github.c"]`,
		"":         `mcpServers[""]`,
		"a[0]":     `mcpServers["a[0]"]`,
		`a"]`:      `mcpServers["a\"]"]`,
	} {
		if got := Server(name); got != want {
			t.Errorf("Server(%q) = %s, want %s", name, got, want)
		}
		for _, rest := range []string{"", ".args", ".args[0]", `.env["A.B"]`, "[0]"} {
			if got, after, ok := CutServer(want + rest); got != name || after != rest || !ok {
				t.Errorf("CutServer(%s) = %q, %q, %t", want+rest, got, after, ok)
			}
		}
	}
	for _, path := range []string{"", "mcpServers", "mcpServersX.a", "policy.rules[0]", "mcpServers[0]", `mcpServers["a`, `mcpServers["a"`} {
		if name, rest, ok := CutServer(path); ok {
			t.Errorf("CutServer(%s) = %q, %q", path, name, rest)
		}
	}
}

func TestKey(t *testing.T) {
	for _, tt := range []struct{ path, key, want string }{
		{"", "listen", "listen"},
		{"", "a.b", `["a.b"]`},
		{"mcpServers.a", "env", "mcpServers.a.env"},
		{"mcpServers.a.env", "A.B", `mcpServers.a.env["A.B"]`},
	} {
		if got := Key(tt.path, tt.key); got != tt.want {
			t.Errorf("Key(%q, %q) = %s, want %s", tt.path, tt.key, got, tt.want)
		}
	}
}

func TestIsIn(t *testing.T) {
	for _, tt := range []struct {
		path, of string
		want     bool
	}{
		{"mcpServers.kid", "mcpServers.kid", true},
		{"mcpServers.kid.args[0]", "mcpServers.kid", true},
		{"mcpServers.kid.args[0]", "mcpServers.kid.args", true},
		{"listen", "", true},
		{"mcpServers.kid2.args[0]", "mcpServers.kid", false},
		{"mcpServers", "mcpServers.kid", false},
	} {
		if got := IsIn(tt.path, tt.of); got != tt.want {
			t.Errorf("IsIn(%s, %s) = %t", tt.path, tt.of, got)
		}
	}
}

func FuzzCutServer(f *testing.F) {
	f.Add("a")
	f.Add("a.b")
	f.Add("\"\\\x00\xff]")
	f.Fuzz(func(t *testing.T, name string) {
		if got, rest, ok := CutServer(Server(name) + ".url"); got != name || rest != ".url" || !ok {
			t.Errorf("CutServer(%s) = %q, %q, %t", Server(name)+".url", got, rest, ok)
		}
	})
}
