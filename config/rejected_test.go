// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestUnclearDisabled checks whether a server counts as disabled if its "disabled" is not a
// boolean but a similar word.
func TestUnclearDisabled(t *testing.T) {
	const refused = `mcpServers.g.disabled: "disabled" must be true or false, not a string`
	const neither = `mcpServers.g: "g" has neither "command" nor "url"`
	tests := map[string]map[string]bool{
		`true`:    {},
		`"yes"`:   {refused: true},
		`"no"`:    {refused: true, neither: true},
		`"maybe"`: {refused: true, neither: true},
	}
	for value, want := range tests {
		got := problemsOf(`{"mcpServers": {"g": {"disabled": ` + value + `}}}`)
		if diff := cmp.Diff(got, want); diff != "" {
			t.Errorf("%s (-got +want):\n%s", value, diff)
		}
	}
}

// TestFollowsFromRejected checks that problems that only follow from a rejected value are not
// reported.
func TestFollowsFromRejected(t *testing.T) {
	tests := map[string]int{
		`{"mcpServers": {}, "listen": ":1", "auth": 7}`:                                                           1,
		`{"mcpServers": {}, "listen": ":1", "auth": {"tokens": 7}}`:                                               1,
		`{"mcpServers": {}, "listen": ":1", "auth": {"tokns": []}}`:                                               1,
		`{"mcpServers": {}, "listen": ":1", "tokens": []}`:                                                        1,
		`{"mcpServers": {}, "listen": ":1", "allowUnauthenticated": "yes"}`:                                       1,
		`{"mcpServers": {}, "listen": "${NO}:1"}`:                                                                 1,
		`{"mcpServers": {}, "allowedHosts": [7], "allowedOrigins": [7]}`:                                          2,
		`{"mcpServers": {}, "auth": {"tokens": [{"principal": "a", "token": "x"}]}}`:                              1,
		`{"mcpServers": {}, "auth": {"tokens": [{"princpal": "a", "env": "TOKEN"}]}}`:                             1,
		`{"mcpServers": {}, "auth": {"tokens": [7]}}`:                                                             1,
		`{"mcpServers": {"g": {"serverUrl": "x"}}}`:                                                               1,
		`{"mcpServers": {"g": {"command": " ${NO}"}}}`:                                                            1,
		`{"mcpServers": {"g": {"url": "${NO}x"}}}`:                                                                1,
		`{"mcpServers": {"g": {"command": "x", "rename": {"a": 7, "b": 7}}}}`:                                     2,
		`{"mcpServers": {"g": {"command": "x", "include": [7], "exclude": [7], "rename": {"a": "b"}}}}`:           2,
		`{"mcpServers": {"g": 7, "h": {"command": "x", "prefix": "g__"}}}`:                                        1,
		`{"mcpServers": {"g": {"command": "x", "prefx": "y"}, "h": {"command": "x", "prefix": "g__"}}}`:           1,
		`{"mcpServers": {"g": {"command": "x", "prefix": 1}, "h": {"command": "x", "prefix": 2}, "i__": "none"}}`: 3,
		`{"mcpservers": {}}`:                                                       1,
		`{"command": "x", "args": []}`:                                             2,
		`{"mcpServers": {}, "audit": 7}`:                                           1,
		`{"mcpServers": {}, "audit": {"path": "x"}}`:                               1,
		`{"mcpServers": {}, "audit": {"file": "${X}"}}`:                            1,
		`{"mcpServers": {"g": {"url": "http://x", "share": true, "oauth": true}}}`: 1,
		`{"mcpServers": {"g": {"url": "http://127.0.0.1", "oauth": {"as": "gateway", "grant": "jwtBarer", "assertion": "f"}}}}`:            1,
		`{"mcpServers": {"g": {"url": "http://127.0.0.1", "oauth": {"as": "gatewy", "grant": "clientCredentials", "clientSecret": "s"}}}}`: 1,
		// What does not follow is reported.
		`{"mcpServers": {}, "policy": {"rules": [{"name": "a", "allow": "x("}]}}`:                                2,
		`{"mcpServers": {"g": {"url": "http://x", "oauth": {"grant": "cod", "resource": "x", "scopes": [""]}}}}`: 3,
	}
	for text, want := range tests {
		if got := problemsOf(text); len(got) != want {
			t.Errorf("%s: %v, want %d problems", text, got, want)
		}
	}
}
