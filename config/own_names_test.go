// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOwnNamesNeedOneServer(t *testing.T) {
	const servers = `"a": {"command": "x"}, "b": {"command": "y", "prefix": ""}, "renamed": {"command": "z", "rename": {"t": "u"}},
		"some": {"command": "z", "include": ["t"]}, "less": {"command": "z", "exclude": ["t"]}, "off": {"command": "z", "exclude": ["t"], "disabled": true}`
	for profile, want := range map[string]string{
		`{"servers": ["a"], "names": "own"}`:                        "",
		`{"servers": ["b"], "names": "own"}`:                        "",
		`{"servers": ["off"], "names": "own"}`:                      "",
		`{"servers": ["a"], "names": "own", "view": "search"}`:      "",
		`{"servers": ["renamed"], "names": "prefixed"}`:             "",
		`{"names": "own"}`:                                          `"p" needs exactly one server`,
		`{"servers": ["a", "b"], "names": "own"}`:                   `"p" needs exactly one server`,
		`{"servers": ["a"], "names": "own", "include": ["t"]}`:      `"include" has no place in a profile with the server's own names`,
		`{"servers": ["a"], "names": "own", "exclude": ["t"]}`:      `"exclude" has no place in a profile with the server's own names`,
		`{"servers": ["renamed"], "names": "own"}`:                  `of the server "renamed" by its own names, and the server has "rename"`,
		`{"servers": ["some"], "names": "own"}`:                     `of the server "some" by its own names, and the server has "include"`,
		`{"servers": ["less"], "names": "own"}`:                     `of the server "less" by its own names, and the server has "exclude"`,
		`{"servers": ["a"], "names": "mine"}`:                       `"names" must be one of prefixed, own`,
		`{"servers": ["a"], "extensions": "pass"}`:                  `needs the names of one server`,
		`{"servers": ["a"], "names": "own", "extensions": "pass"}`:  "",
		`{"servers": ["a"], "names": "own", "extensions": "known"}`: "",
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {`+servers+`}, "profiles": {"p": `+profile+`}}`), nil)
		wantError(t, profile, err, want)
	}
}

func wantError(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", what, err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: error %v, want %s", what, err, want)
	}
}

// TestPassIsRefused covers what cannot be promised of messages that the gateway does not read.
func TestPassIsRefused(t *testing.T) {
	const (
		server  = `{"command": "x"}`
		tokens  = `"auth": {"tokens": [{"principal": "a", "env": "A"}, {"principal": "b", "env": "B"}]}, `
		oneUses = `"auth": {"tokens": [{"principal": "a", "env": "A"}, {"principal": "b", "env": "B", "profiles": ["search"]}]}, `
		single  = `"auth": {"tokens": [{"principal": "a", "env": "A"}, {"principal": "a", "env": "B"}]}, `
		issuer  = `"publicURL": "https://gw.example.com", "auth": {"issuers": [{"name": "idp", "issuer": "https://idp.example.com"}]}, `
	)
	lookup := func(name string) (string, bool) { return name + "-token-of-some-length", true }
	for _, tt := range []struct{ name, rest, server, want string }{
		{"nothing", "", server, ""},
		{"a filter of all", `"filters": [{"in": "results", "mark": "untrusted"}], `, server, `filters[0] filters it`},
		{"a filter of the server", `"filters": [{"on": ["a__x*"], "in": "results", "mark": "untrusted"}], `, server, `filters[0] filters it`},
		{"a filter of URIs", `"filters": [{"on": ["file:///*"], "in": "results", "mark": "untrusted"}], `, server, `filters[0] filters it`},
		{"a filter of another server", `"filters": [{"on": ["other__*"], "in": "results", "mark": "untrusted"}], `, server, ""},
		{"a rule with args", `"policy": {"otherwise": "allow", "rules": [{"name": "r", "deny": "args.path == '/'"}]}, `, server, `the rule r of the policy reads arguments`},
		{"a condition with args", `"policy": {"otherwise": "allow", "rules": [{"name": "r", "deny": "true", "when": "args.path == '/'", "on": ["*__x"]}]}, `, server, `the rule r of the policy reads arguments`},
		{"a rule with args for another server", `"policy": {"otherwise": "allow", "rules": [{"name": "r", "deny": "args.path == '/'", "on": ["other__*"]}]}, `, server, ""},
		{"a rule without args", `"policy": {"otherwise": "allow", "rules": [{"name": "r", "deny": "principal.name == 'x'"}]}, `, server, ""},
		{"share", "", `{"command": "x", "share": true}`, `it has "share"`},
		{"two principals", tokens, server, `called with one credential for all`},
		{"one principal at the profile", oneUses, server, ""},
		{"one principal with two tokens", single, server, ""},
		{"users of an issuer", issuer, `{"url": "https://a.example.com/mcp", "headers": {"Authorization": "Bearer x"}}`, `called with one credential for all`},
		{"the access of each user", issuer, `{"url": "https://a.example.com/mcp", "oauth": {}}`, ""},
	} {
		text := `{` + tt.rest + `"mcpServers": {"a": ` + tt.server + `, "other": {"command": "y"}}, "profiles": {"p": {"servers": ["a"], "names": "own", "extensions": "pass"}}}`
		_, err := Parse("x.json", []byte(text), lookup)
		wantError(t, tt.name, err, tt.want)
	}
}

func TestPassIsRefusedForPinnedServers(t *testing.T) {
	const approved = "server a a 1\ntool t sha256:" + "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef\n"
	for _, tt := range []struct{ name, lock, pins, want string }{
		{"no lock file", "", "", ""},
		{"the server is in it", approved, `"pins": {"new": "allow"}, `, `definitions of it are pinned`},
		{"new definitions are held", strings.ReplaceAll(approved, "server a", "server b"), "", `definitions of it are pinned`},
		{"new definitions are offered", strings.ReplaceAll(approved, "server a", "server b"), `"pins": {"new": "allow"}, `, ""},
	} {
		file := filepath.Join(t.TempDir(), "x.json")
		text := `{` + tt.pins + `"mcpServers": {"a": {"command": "x"}}, "profiles": {"p": {"servers": ["a"], "names": "own", "extensions": "pass"}}}`
		write := func(file, text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(file, text)
		if tt.lock != "" {
			write(LockFile(file), tt.lock)
		}
		_, err := Load(file, nil)
		wantError(t, tt.name, err, tt.want)
	}
}
