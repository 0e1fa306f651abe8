// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package configedit

import (
	"slices"
	"testing"
)

// TestLiterals checks that everything that may be a credential is found, wherever a
// configuration has it.
func TestLiterals(t *testing.T) {
	t.Parallel()
	f := File{Name: "x.yaml", Text: []byte(`
mcpServers:
  a:
    url: "https://h/?key=1"
    headers: {X-Key: "2"}
    oauth: {clientSecret: "3", authorizationServer: {clientSecret: "4"}, parameters: {p: "5"}}
    headersHelper: {command: [mint], env: {TOKEN: "6"}}
  b: {command: x, env: {KEY: "7", OTHER: "${OTHER}"}}
listen: 127.0.0.1:1
state: {keys: ["8"]}
credentials: {keys: ["9"]}
auth:
  browser: {issuer: corp, clientKey: "10"}
  issuers: [{name: corp, introspect: {clientSecret: "11"}}]
`)}
	env, headers, urls := f.Literals()
	for _, want := range []string{"clientSecret=3", "clientSecret=4", "p=5", "TOKEN=6", "KEY=7", "OTHER=${OTHER}", "STATE_KEY=8", "STATE_KEY=9", "clientKey=10", "clientSecret=11"} {
		if !slices.Contains(env, want) {
			t.Errorf("no %s in %q", want, env)
		}
	}
	if slices.Contains(env, "listen=127.0.0.1:1") || headers.Get("X-Key") != "2" || !slices.Contains(urls, "https://h/?key=1") {
		t.Errorf("variables %q, headers %q, URLs %q", env, headers, urls)
	}
	if env, headers, urls := (File{Name: "x.yaml", Text: []byte("a: [")}).Literals(); env != nil || len(headers) > 0 || urls != nil {
		t.Errorf("of an invalid file: %q, %q, %q", env, headers, urls)
	}
}
