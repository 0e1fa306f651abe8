// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"
	"testing"
)

// Each setting of oauth that would expose a credential or cannot work is refused, at its place
// and with a cure.
func TestOAuthRefusals(t *testing.T) {
	for _, tt := range []struct{ entry, at, problem, hint string }{
		{`"command": "x", "oauth": {}`, "mcpServers.a.oauth", `no meaning beside "command"`, "remove it"},
		{`"url": "https://x", "headers": {"authorization": "Bearer abc"}, "oauth": {}`, "mcpServers.a.oauth", "an Authorization header", `remove "oauth"`},
		{`"url": "https://x", "share": true, "oauth": {}`, "mcpServers.a.oauth", "each user has a session", `as: gateway`},
		{`"url": "https://x", "oauth": {"issuer": "http://id.example.com"}`, "mcpServers.a.oauth.issuer", "http URL beyond loopback", "use https"},
		{`"url": "https://x", "oauth": {"issuer": "https://id.example.com/?x"}`, "mcpServers.a.oauth.issuer", "without a query", "such as"},
		{`"url": "https://x", "oauth": {"issuer": "https://id.example.com", "endpoints": "2025-03-26"}`, "mcpServers.a.oauth.issuer", "endpoints of its own", "remove"},
		{`"url": "https://x", "oauth": {"as": "gateway", "clientId": "c", "clientSecret": "s"}`, "mcpServers.a.oauth.issuer", "any authorization server", "add it"},
		{`"url": "https://x", "oauth": {"as": "gateway", "issuer": "https://i", "clientId": "c"}`, "mcpServers.a.oauth", "needs a credential", "clientSecret"},
		{`"url": "https://x", "oauth": {"as": "gateway", "issuer": "https://i", "clientSecret": "s"}`, "mcpServers.a.oauth.clientId", "is missing", "add it"},
		{`"url": "https://x", "oauth": {"as": "gateway", "grant": "exchange", "issuer": "https://i", "clientId": "c"}`, "mcpServers.a.oauth.grant", "is for users", "as: user"},
		{`"url": "https://x", "oauth": {"grant": "jwtBearer", "assertion": "f", "issuer": "https://i", "clientId": "c"}`, "mcpServers.a.oauth.grant", "for the gateway itself", "as: gateway"},
		{`"url": "https://x", "oauth": {"as": "gateway", "grant": "jwtBearer", "issuer": "https://i", "clientId": "c"}`, "mcpServers.a.oauth.grant", "needs an assertion", "assertion"},
		{`"url": "https://x", "oauth": {"assertion": "f"}`, "mcpServers.a.oauth.assertion", "no meaning", "jwtBearer"},
		{`"url": "https://x", "oauth": {"grant": "exchange", "clientId": "c"}`, "mcpServers.a.oauth.issuer", "never sent to a server that another one names", "add it"},
		{`"url": "https://x", "oauth": {"clientId": "c", "clientSecret": "s", "clientKey": "k"}`, "mcpServers.a.oauth.clientKey", "both set", "remove one"},
		{`"url": "https://x", "oauth": {"clientId": "c", "clientKey": "hunter2"}`, "mcpServers.a.oauth.clientKey", "cannot be used", "PEM or JWK"},
		{`"url": "https://x", "oauth": {"scopes": ["a b"]}`, "mcpServers.a.oauth.scopes[0]", "not a scope", "each scope"},
		{`"url": "https://x", "oauth": {"resource": "x"}`, "mcpServers.a.oauth.resource", "not a URI", "auto, none"},
		{`"url": "https://x", "oauth": {"parameters": {"client_id": "x"}}`, "mcpServers.a.oauth.parameters.client_id", "set by the gateway", "remove it"},
		{`"url": "https://x", "oauth": {"callbackPort": 70000}`, "mcpServers.a.oauth.callbackPort", "1 to 65535", ""},
		{`"url": "https://x", "oauth": {"as": "gateway", "issuer": "https://i", "clientId": "c", "clientSecret": "s", "wait": "1m"}`, "mcpServers.a.oauth.wait", "no meaning", "remove it"},
		{`"url": "https://x", "oauth": {}, "headersHelper": {"command": ["x"]}`, "mcpServers.a.headersHelper", `both "oauth"`, "remove one"},
		{`"url": "https://x", "headersHelper": {"every": "1m"}`, "mcpServers.a.headersHelper", "no program", "command"},
		{`"command": "x", "headersHelper": {"command": ["x"]}`, "mcpServers.a.headersHelper", `no meaning beside "command"`, "remove it"},
		{`"url": "https://x", "headersHelper": {"command": ["x", "a\u0000hunter2"]}`, "mcpServers.a.headersHelper.command[1]", "a NUL in it", "remove it"},
		{`"url": "https://x", "headersHelper": {"command": ["x"], "env": {"A=hunter2": "x"}}`, "mcpServers.a.headersHelper.env.A=hunter2", `"A..." cannot be the name`, "NAME"},
		{`"url": "https://x", "headersHelper": {"command": ["x"], "env": {"A": "hunter2\u0000"}}`, "mcpServers.a.headersHelper.env.A", "the variable A has a NUL in it", ""},
		{`"url": "https://x", "headersHelper": "mint --all"`, "mcpServers.a.headersHelper", "must be a mapping", ""},
		{`"url": "https://x", "oauth": {"grant": "exchange", "issuer": "https://i", "clientId": "c"}`, "mcpServers.a.oauth.issuer", `not in "auth.issuers"`, "exactly as it is here"},
		{`"url": "https://x", "oauth": {"client": "c"}`, "mcpServers.a.oauth.client", "unknown key", ""},
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {"a": {`+tt.entry+`}}}`), nil)
		problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
		if len(problems) != 1 || problems[0].Path != tt.at || !strings.Contains(problems[0].Message, tt.problem) || !strings.Contains(problems[0].Hint, tt.hint) || problems[0].Line == 0 {
			t.Errorf("%s:\n%+v\nwant one at %s: %s (%s)", tt.entry, problems, tt.at, tt.problem, tt.hint)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s shows a secret: %v", tt.entry, err)
		}
	}
}

// The entries of the documents and of clients are accepted, and their defaults depend on
// the owner of the access.
func TestOAuthIsAccepted(t *testing.T) {
	for entry, want := range map[string]string{
		`"oauth": {}`: GrantCode,
		`"oauth": {"clientId": "abc", "callbackPort": 8765, "scopes": ["repo"]}`:                                                                         GrantCode,
		`"oauth": {"as": "gateway", "issuer": "https://i", "clientId": "gw", "clientSecret": "s", "scopes": ["crm.read"]}`:                               GrantClientCredentials,
		`"oauth": {"as": "gateway", "grant": "jwtBearer", "issuer": "https://i", "clientId": "gw", "assertion": "/run/token"}`:                           GrantJWTBearer,
		`"oauth": {"as": "user", "grant": "exchange", "issuer": "https://i", "clientId": "gw", "clientSecret": "s", "audience": "tickets"}`:              GrantExchange,
		`"oauth": {"as": "gateway", "issuer": "https://i", "clientId": "gw", "clientSecret": "s", "resource": "none", "parameters": {"x": "${ANY:-y}"}}`: GrantClientCredentials,
	} {
		c, err := Parse("x.json", []byte(`{"publicURL": "https://gw", "auth": {"issuers": [{"name": "corp", "issuer": "https://i"}]}, "mcpServers": {"a": {"url": "https://x", `+entry+`}}}`), nil)
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		if o := c.Servers[0].OAuth; o == nil || o.GrantType() != want {
			t.Errorf("%s is read as %+v, want the grant %s", entry, o, want)
		}
	}
	for issuers, accepted := range map[string]bool{`{"name": "corp", "issuer": "https://i/"}`: false, `{"name": "other", "issuer": "https://o"}`: false, `{"name": "corp", "issuer": "https://i"}`: true} {
		text := `{"publicURL": "https://gw", "auth": {"issuers": [` + issuers + `]}, "mcpServers": {"a": {"url": "https://x", "oauth": {"grant": "exchange", "issuer": "https://i", "clientId": "gw"}}}}`
		if _, err := Parse("x.json", []byte(text), nil); (err == nil) != accepted {
			t.Errorf("an exchange at https://i with tokens of %s: %v", issuers, err)
		}
	}
	local := `{"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp", "oauth": {"as": "gateway", "clientId": "gw", "clientSecret": "s"}}}}`
	if _, err := Parse("x.json", []byte(local), nil); err != nil {
		t.Errorf("a server on this machine without an issuer: %v", err)
	}
}

// Beyond this machine the access of users needs callers that are known, and pages that their browsers
// reach. Access without a sign-in needs no page.
func TestUsersBeyondThisMachine(t *testing.T) {
	const tokens, public = `"auth": {"tokens": [{"principal": "ann", "env": "TOKEN"}]}, `, `"publicURL": "https://gw.example", `
	const gateway = `{"as": "gateway", "issuer": "https://i", "clientId": "gw", "clientSecret": "s"}`
	for _, tt := range []struct{ listen, more, oauth, want, hint string }{
		{"0.0.0.0:7777", `"allowUnauthenticated": true, `, `{}`, `without "auth" everyone on the network`, `add "auth"`},
		{"0.0.0.0:7777", tokens, `{}`, "without \"publicURL\" their browsers reach no page to sign in", `add "publicURL"`},
		{"0.0.0.0:7777", tokens + public, `{}`, "", ""},
		{"0.0.0.0:7777", tokens, gateway, "", ""},
		{"127.0.0.1:7777", tokens, `{}`, "", ""},
		{"127.0.0.1:7777", "", `{}`, "", ""},
	} {
		env := func(string) (string, bool) { return "sesame-open-sesame", true }
		text := `{"listen": "` + tt.listen + `", ` + tt.more + `"mcpServers": {"a": {"url": "https://x", "oauth": ` + tt.oauth + `}}}`
		_, err := Parse("x.json", []byte(text), env)
		problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if len(problems) != 1 || problems[0].Path != "mcpServers.a.oauth" || !strings.Contains(problems[0].Message, tt.want) || !strings.Contains(problems[0].Hint, tt.hint) || problems[0].Line == 0 {
			t.Errorf("%s:\n%+v\nwant one: %s (%s)", text, problems, tt.want, tt.hint)
		}
	}
}

// Where callers are identified by what no browser has on a page, a note says how pages know their users.
func TestUsersThatPagesDoNotKnow(t *testing.T) {
	const proxy = `"proxy": {"from": ["10.0.0.0/28"], "user": "X-Forwarded-User"}`
	const gateway = `{"as": "gateway", "issuer": "https://i", "clientId": "gw", "clientSecret": "s"}`
	for _, tt := range []struct {
		auth, oauth string
		noted       bool
	}{
		{proxy, `{}`, true},
		{`"issuers": [{"name": "access", "issuer": "https://i", "header": "X-Assertion"}]`, `{}`, true},
		{proxy, gateway, false},
		{proxy + `, "tokens": [{"principal": "ann", "env": "TOKEN"}]`, `{}`, false},
		{`"issuers": [{"name": "corp", "issuer": "https://i"}]`, `{}`, false},
		{`"issuers": [{"name": "access", "issuer": "https://i", "header": "X-Assertion"}], "browser": {"issuer": "access", "clientId": "web"}`, `{}`, false},
	} {
		env := func(string) (string, bool) { return "sesame-open-sesame", true }
		text := `{"publicURL": "https://gw", "auth": {` + tt.auth + `}, "mcpServers": {"a": {"url": "https://x", "oauth": ` + tt.oauth + `}}}`
		c, err := Parse("x.json", []byte(text), env)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		isNote := func(p Problem) bool {
			return p.Path == "mcpServers.a.oauth" && strings.Contains(p.Message, "no page knows its user") && strings.Contains(p.Hint, `add "auth.browser"`)
		}
		if slices.ContainsFunc(c.Notes, isNote) != tt.noted {
			t.Errorf("%s: notes %v", text, c.Notes)
		}
	}
}
