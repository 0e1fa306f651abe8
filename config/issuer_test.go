// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// issuerFile returns a file with one issuer and more members of it, as flow YAML.
func issuerFile(more string) string {
	return `{mcpServers: {}, publicURL: "https://mcp.example.com", auth: {issuers: [{name: corp, issuer: "https://id.example.com"` + more + `}]}}`
}

// TestIssuerProblems checks what is refused, with its place and its cure.
func TestIssuerProblems(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"empty.json":     `{"keys": []}`,
		"private.json":   `{"keys": [{"kty": "EC", "d": "hunter2"}]}`,
		"symmetric.json": `{"keys": [{"kty": "oct", "k": "hunter2"}]}`,
		"text.json":      `hunter2`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) (string, bool) { return "sesame-open-sesame", name == "TOKEN" }
	for _, tt := range []struct {
		name, text string
		path, want string // of the one problem
	}{
		{"no publicURL", `{mcpServers: {}, auth: {issuers: [{name: corp, issuer: "https://id.example.com"}]}}`, "auth.issuers", `needs "publicURL"`},
		{"publicURL with a path", strings.Replace(issuerFile(""), "example.com", "example.com/", 1), "publicURL", "a scheme and a host alone"},
		{"publicURL over http", strings.Replace(issuerFile(""), "https://mcp", "http://mcp", 1), "publicURL", "must begin with https://"},
		{"publicURL in upper case", strings.Replace(issuerFile(""), "https://mcp", "https://MCP", 1), "publicURL", "a scheme and a host alone"},
		{"no name", `{mcpServers: {}, publicURL: "https://x", auth: {issuers: [{issuer: "https://id.example.com"}]}}`, "auth.issuers[0]", "has no name"},
		{"name with a colon", strings.Replace(issuerFile(""), "corp", `"co:rp"`, 1), "auth.issuers[0].name", "cannot be the name of an issuer"},
		{"no issuer", `{mcpServers: {}, publicURL: "https://x", auth: {issuers: [{name: corp}]}}`, "auth.issuers[0]", "does not specify its issuer"},
		{"http beyond this machine", strings.Replace(issuerFile(""), "https://id", "http://id", 1), "auth.issuers[0].issuer", "must begin with https://"},
		{"issuer with a query", strings.Replace(issuerFile(""), "https://id.example.com", "https://id.example.com/?x", 1), "auth.issuers[0].issuer", "without query and fragment"},
		{"issuer that is no URL", strings.Replace(issuerFile(""), "https://id.example.com", "id.example.com", 1), "auth.issuers[0].issuer", "must be a URL"},
		{"empty audience", issuerFile(`, audience: []`), "auth.issuers[0].audience", "is empty"},
		{"audience that is empty", issuerFile(`, audience: [""]`), "auth.issuers[0].audience[0]", "is empty"},
		{"audience with a pattern", issuerFile(`, audience: ["https://*.example.com"]`), "auth.issuers[0].audience[0]", "has a pattern"},
		{"HS256", issuerFile(`, algorithms: [ES256, HS256]`), "auth.issuers[0].algorithms[1]", "anyone could make such a token"},
		{"alg none", issuerFile(`, algorithms: ["none"]`), "auth.issuers[0].algorithms[0]", "anyone could make such a token"},
		{"misspelt algorithm", issuerFile(`, algorithms: [ES265]`), "auth.issuers[0].algorithms[0]", `did you mean "ES256"`},
		{"no algorithms", issuerFile(`, algorithms: []`), "auth.issuers[0].algorithms", "is empty"},
		{"principal not an expression", issuerFile(`, principal: "claims."`), "auth.issuers[0].principal", "not an expression for a name: column"},
		{"principal a number", issuerFile(`, principal: "1 + 1"`), "auth.issuers[0].principal", "type int"},
		{"scope with a space", issuerFile(`, scopes: ["a b"]`), "auth.issuers[0].scopes[0]", "is not a scope"},
		{"offline_access", issuerFile(`, scopes: [offline_access]`), "auth.issuers[0].scopes[0]", "refresh tokens"},
		{"cycle", issuerFile(`, implies: {a: [b], b: [c], c: [b]}`), "auth.issuers[0].implies.b", "has a cycle: b implies c implies b"},
		{"scope that implies itself", issuerFile(`, implies: {a: [a]}`), "auth.issuers[0].implies.a", "a implies a"},
		{"skew", issuerFile(`, skew: 1h`), "auth.issuers[0].skew", "is more than 5m"},
		{"no skew limit", issuerFile(`, skew: none`), "auth.issuers[0].skew", "is more than 5m"},
		{"header of the protocol", issuerFile(`, header: Mcp-Session-Id`), "auth.issuers[0].header", "has another use"},
		{"header with a space", issuerFile(`, header: "a b"`), "auth.issuers[0].header", "not the name of a header"},
		{"keys: no file", issuerFile(`, keys: missing.json`), "auth.issuers[0].keys", "cannot be read"},
		{"keys: folder", issuerFile(`, keys: .`), "auth.issuers[0].keys", "not a regular file"},
		{"keys: none", issuerFile(`, keys: empty.json`), "auth.issuers[0].keys", "not a JSON Web Key Set"},
		{"keys: text", issuerFile(`, keys: text.json`), "auth.issuers[0].keys", "not a JSON Web Key Set"},
		{"keys: private", issuerFile(`, keys: private.json`), "auth.issuers[0].keys", "keys[0] is private"},
		{"keys: symmetric", issuerFile(`, keys: symmetric.json`), "auth.issuers[0].keys", "keys[0] is private"},
		{"keys: http URL", issuerFile(`, keys: "http://id.example.com/keys"`), "auth.issuers[0].keys", "must begin with https://"},
		{"keys: another URL", issuerFile(`, keys: "file:///keys.json"`), "auth.issuers[0].keys", "is not a URL"},
		{"keys: URL with credentials", issuerFile(`, keys: "https://hunter2@id.example.com/keys"`), "auth.issuers[0].keys", "is not a URL"},
		{"keys: URL with a fragment", issuerFile(`, keys: "https://id.example.com/keys#"`), "auth.issuers[0].keys", "is not a URL"},
		{"two with one name", issuerFile(`}, {name: corp, issuer: "https://other.example"`), "auth.issuers[1].name", "have the same name"},
		{"one twice", issuerFile(`}, {name: other, issuer: "https://id.example.com"`), "auth.issuers[1].issuer", "are one issuer"},
		// identity attack 7: no token of the configuration has the principal of another sender.
		{"static principal of an issuer", `{mcpServers: {}, publicURL: "https://x", auth: {tokens: [{principal: "corp:x", env: TOKEN}], issuers: [{name: corp, issuer: "https://id.example.com"}]}}`, "auth.tokens[0].principal", `begins with "corp:"`},
		{"with allowUnauthenticated", strings.Replace(issuerFile(""), "{mcpServers", "{allowUnauthenticated: true, mcpServers", 1), "allowUnauthenticated", "contradicts"},
		{"path of sign-ins", `{mcpServers: {}, path: /oauth/callback}`, "path", `"path" is below /oauth, where users sign in (such as "/mcp")`},
		{"path of the metadata", strings.Replace(issuerFile(""), "{mcpServers", "{path: /.well-known/x, mcpServers", 1), "path", "describes itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse(filepath.Join(dir, "x.yaml"), []byte(tt.text), env)
			problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
			if len(problems) != 1 || problems[0].Path != tt.path || !strings.Contains(problems[0].String(), tt.want) || problems[0].Line != 1 || problems[0].Column < 2 {
				t.Errorf("got %v (%+v), want one problem at %s: %s", err, problems, tt.path, tt.want)
			}
			if strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("%v shows the content of a file", err)
			}
		})
	}
}

// An issuer permits a listener beyond loopback, as a token does.
func TestIssuerPermitsPublicListener(t *testing.T) {
	text := strings.Replace(issuerFile(""), "{mcpServers", `{listen: "0.0.0.0:7777", mcpServers`, 1)
	if _, err := Parse("x.yaml", []byte(text), nil); err != nil {
		t.Error(err)
	}
}

// The defaults of an issuer are those of the document.
func TestIssuerDefaults(t *testing.T) {
	c, err := Parse("x.yaml", []byte(issuerFile("")), nil)
	if err != nil {
		t.Fatal(err)
	}
	got := c.Effective().Auth.Issuers[0]
	if got.Principal != "claims.sub" || got.Skew != 30*time.Second || got.Header != "Authorization" || got.Audience != nil || got.Algorithms != nil {
		t.Errorf("got %+v", got)
	}
	if c.Auth.Issuers[0].Principal != "" {
		t.Error("the defaults changed the Config itself")
	}
}

// Keys are at a URL, or in a file relative to that of the configuration.
func TestIssuerKeysAtURL(t *testing.T) {
	env := func(name string) (string, bool) { return "team.example.com", name == "TEAM" }
	c, err := Parse("x.yaml", []byte(issuerFile(`, keys: "https://${TEAM}/certs?x=1"`)), env)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Auth.Issuers[0]; s.KeysURL() != "https://team.example.com/certs?x=1" || s.KeySet != nil {
		t.Errorf("got %q, %q", s.KeysURL(), s.KeySet)
	}
	if s := (Issuer{Keys: "/etc/keys:/x.json"}); s.KeysURL() != "" {
		t.Errorf("a path is the URL %q", s.KeysURL())
	}
}

// A principal that may change hands is noted.
func TestPrincipalByEmailIsNoted(t *testing.T) {
	c, err := Parse("x.yaml", []byte(issuerFile(`, principal: claims.email`)), nil)
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0].Message, "may be given to another person") {
		t.Errorf("%v, %v", err, c.Notes)
	}
}
