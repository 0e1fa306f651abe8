// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// A grant of assertions that would expose a credential or cannot work is refused, at its place and
// with a cure, and so are its keys with another grant (I14).
func TestIDJAGRefusals(t *testing.T) {
	const (
		idp    = `"grant": "idJag", "issuer": "https://i", "clientId": "c"`
		server = `"authorizationServer": {"issuer": "https://s", "clientId": "d"}`
		token  = `"idToken": "f"`
	)
	of := func(server string) string {
		return `"as": "gateway", ` + idp + `, ` + token + `, "authorizationServer": {` + server + `}`
	}
	for _, tt := range []struct{ oauth, at, problem, hint string }{
		{`"as": "gateway", ` + idp + `, ` + server, ".grant", "needs an ID token", "idToken"},
		{`"as": "gateway", ` + idp + `, ` + token, ".grant", "needs the authorization server", "authorizationServer"},
		{`"as": "gateway", "grant": "idJag", "clientId": "c", ` + server + `, ` + token, ".issuer", "never sent to a server that another one names", "add it"},
		{`"as": "gateway", "grant": "idJag", "issuer": "https://i", ` + server + `, ` + token, ".clientId", "is missing", "add it"},
		{`"as": "gateway", ` + idp + `, ` + server + `, ` + token + `, "audience": "x"`, ".audience", "no meaning", "remove it"},
		{`"as": "gateway", ` + idp + `, ` + server + `, ` + token + `, "resource": "none"`, ".resource", "for one server", "remove it"},
		{`"as": "gateway", ` + idp + `, ` + server + `, ` + token + `, "assertion": "x"`, ".assertion", "no meaning", "jwtBearer"},
		{`"as": "gateway", ` + idp + `, ` + server + `, ` + token + `, "lists": "shared"`, ".lists", "no meaning", "remove it"},
		{of(`"clientId": "d"`), ".authorizationServer", "any authorization server that the server names", "add it"},
		{of(`"issuer": "https://s"`), ".authorizationServer", `has no`, "add it"},
		{of(`"issuer": "http://s.example.com", "clientId": "d"`), ".authorizationServer.issuer", "http URL beyond loopback", "use https"},
		{of(`"issuer": "https://s?x", "clientId": "d"`), ".authorizationServer.issuer", "without a query", "such as"},
		{of(`"issuer": "https://s", "clientId": "d", "clientSecret": "hunter2", "clientKey": "hunter2"`), ".authorizationServer.clientKey", "both set", "remove one"},
		{of(`"issuer": "https://s", "clientId": "d", "clientKey": "hunter2"`), ".authorizationServer.clientKey", "cannot be used", "PEM or JWK"},
		{of(`"issuer": "https://s", "clientId": "d", "client": "d"`), ".authorizationServer.client", "unknown key", ""},
		{token, ".idToken", "no meaning with the grant code", "idJag"},
		{server, ".authorizationServer", "no meaning with the grant code", "idJag"},
		{`"as": "gateway", "issuer": "https://i", "clientId": "c", "clientSecret": "s", ` + token, ".idToken", "clientCredentials", "remove it"},
	} {
		_, err := Parse("x.json", []byte(`{"mcpServers": {"a": {"url": "https://x", "oauth": {`+tt.oauth+`}}}}`), nil)
		problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
		if len(problems) != 1 || problems[0].Path != "mcpServers.a.oauth"+tt.at || !strings.Contains(problems[0].Message, tt.problem) || !strings.Contains(problems[0].Hint, tt.hint) || problems[0].Line == 0 {
			t.Errorf("%s:\n%+v\nwant one at %s: %s (%s)", tt.oauth, problems, tt.at, tt.problem, tt.hint)
		}
		if text := fmt.Sprint(err); strings.Contains(text, "hunter2") {
			t.Errorf("%s shows a secret: %s", tt.oauth, text)
		}
	}
}

// The authorization server may be left out for a server on this machine, and no secret is shown.
func TestIDJAGIsAccepted(t *testing.T) {
	for _, tt := range []struct{ url, server string }{
		{"https://x", `"issuer": "https://s", "clientId": "d", "clientSecret": "hunter2"`},
		{"https://x", `"issuer": "http://127.0.0.1:1", "clientId": "d"`},
		{"http://127.0.0.1:1/mcp", `"clientId": "d", "clientSecret": "hunter2"`},
	} {
		text := `{"mcpServers": {"a": {"url": "` + tt.url + `", "oauth": {"as": "gateway", "grant": "idJag", "issuer": "https://i", "clientId": "c", "idToken": "f", "authorizationServer": {` + tt.server + `}}}}}`
		c, err := Parse("x.json", []byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if o := c.Servers[0].OAuth; o.GrantType() != GrantIDJAG || o.AuthorizationServer == nil || o.AuthorizationServer.ClientID != "d" || o.IDToken != "f" {
			t.Errorf("%s is read as %+v", text, o)
		}
		if shown := fmt.Sprintf("%+v %v", *c.Servers[0].OAuth.AuthorizationServer, c.Servers[0].OAuth.AuthorizationServer); strings.Contains(shown, "hunter2") {
			t.Errorf("a secret is shown: %s", shown)
		}
	}
}

// The grant of assertions for users needs their ID tokens, from a page, of the same issuer.
func TestIDJAGOfUsers(t *testing.T) {
	const (
		issuers = `"publicURL": "https://mcp.example.com", "auth": {"issuers": [{"name": "corp", "issuer": "https://i"}, {"name": "other", "issuer": "https://o"}]`
		corp    = issuers + `, "browser": {"issuer": "corp", "clientId": "c"}}`
		server  = `"authorizationServer": {"issuer": "https://s", "clientId": "d"}`
	)
	for _, tt := range []struct{ name, auth, oauth, at, want string }{
		{"good", corp, `"clientId": "c"`, "", ""},
		{"no page", issuers + `}`, `"clientId": "c"`, ".grant", "auth.browser"},
		{"another issuer", issuers + `, "browser": {"issuer": "other", "clientId": "c"}}`, `"clientId": "c"`, ".issuer", "not the issuer of the users' ID tokens"},
		{"a file", corp, `"clientId": "c", "idToken": "f"`, ".idToken", "users have ID tokens of their own"},
		{"another client", corp, `"clientId": "x"`, ".clientId", ""},
	} {
		text := `{"mcpServers": {"a": {"url": "https://x", "oauth": {"grant": "idJag", "issuer": "https://i", ` + server + `, ` + tt.oauth + `}}}, ` + tt.auth + `}`
		c, err := Parse("x.json", []byte(text), nil)
		if tt.want == "" {
			if err != nil || (tt.at != "") != (len(c.Notes) == 1) || tt.at != "" && c.Notes[0].Path != "mcpServers.a.oauth"+tt.at {
				t.Errorf("%s: %v, notes %v", tt.name, err, c)
			}
			continue
		}
		problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
		if len(problems) != 1 || problems[0].Path != "mcpServers.a.oauth"+tt.at || !strings.Contains(problems[0].String(), tt.want) {
			t.Errorf("%s: got %v, want one problem at %s: %s", tt.name, err, tt.at, tt.want)
		}
	}
}
