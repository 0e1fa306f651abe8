// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"
)

// A client for the pages that cannot work is refused at its place.
func TestBrowser(t *testing.T) {
	const issuers = `issuers: [{name: corp, issuer: "https://id.example.com"}, {name: other, issuer: "https://other.example"}]`
	for _, tt := range []struct {
		name, browser string
		path, want    string // of the one problem; "" for none
	}{
		{"with a secret", `issuer: corp, clientId: gw, clientSecret: "${SECRET}"`, "", ""},
		{"public", `issuer: other, clientId: gw, scopes: [profile, email]`, "", ""},
		{"no issuer", `clientId: gw`, "auth.browser", "does not specify its issuer"},
		{"unknown issuer", `issuer: crop, clientId: gw`, "auth.browser.issuer", "the names are corp, other"},
		{"a URL", `issuer: "https://id.example.com", clientId: gw`, "auth.browser.issuer", "the names are corp, other"},
		{"no client", `issuer: corp`, "auth.browser", `has no "clientId"`},
		{"two credentials", `issuer: corp, clientId: gw, clientSecret: "${SECRET}", clientKey: "hunter2"`, "auth.browser.clientKey", "are both set"},
		{"no key in it", `issuer: corp, clientId: gw, clientKey: "hunter2"`, "auth.browser.clientKey", "cannot be used"},
		{"scopes in one", `issuer: corp, clientId: gw, scopes: ["profile email"]`, "auth.browser.scopes[0]", "is not a scope"},
		{"for refresh tokens", `issuer: corp, clientId: gw, scopes: [profile, offline_access]`, "auth.browser.scopes[1]", "remove it"},
		{"unknown key", `issuer: corp, clientId: gw, redirect: "https://x"`, "auth.browser.redirect", "unknown key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := func(string) (string, bool) { return "sesame-open-sesame", true }
			text := `{mcpServers: {}, publicURL: "https://mcp.example.com", auth: {` + issuers + `, browser: {` + tt.browser + `}}}`
			c, err := Parse("x.yaml", []byte(text), env)
			if tt.path == "" {
				if err != nil {
					t.Fatal(err)
				}
				if s := c.Auth.BrowserIssuer(); s == nil || s.Name != c.Auth.Browser.Issuer {
					t.Errorf("the issuer is %+v", s)
				}
				return
			}
			problems, _ := err.(Problems) //nolint:errorlint // Parse returns no other type
			if len(problems) != 1 || problems[0].Path != tt.path || !strings.Contains(problems[0].String(), tt.want) || problems[0].Line != 1 {
				t.Errorf("got %v (%+v), want one problem at %s: %s", err, problems, tt.path, tt.want)
			}
			if shown := fmt.Sprint(err); strings.Contains(shown, "hunter2") || strings.Contains(shown, "sesame") {
				t.Errorf("%v shows a secret", err)
			}
		})
	}
	t.Run("without issuers", func(t *testing.T) {
		_, err := Parse("x.yaml", []byte(`{mcpServers: {}, auth: {browser: {issuer: corp, clientId: gw}}}`), nil)
		if err == nil || !strings.Contains(err.Error(), `add it to "auth.issuers"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a client that is an audience", func(t *testing.T) {
		const text = `{mcpServers: {}, publicURL: "https://mcp.example.com", auth: {issuers: [{name: corp, issuer: "https://id.example.com", audience: [gw]}], browser: {issuer: corp, clientId: %s}}}`
		for id, want := range map[string]int{"gw": 1, "gw-web": 0} {
			c, err := Parse("x.yaml", fmt.Appendf(nil, text, id), nil)
			if err != nil || len(c.Notes) != want || want > 0 && c.Notes[0].Path != "auth.browser.clientId" {
				t.Errorf("%s: %v, notes %v", id, err, c.Notes)
			}
		}
	})
	t.Run("printed without its secret", func(t *testing.T) {
		b := &Browser{ClientSecret: NewSecret("hunter2"), ClientKey: NewSecret("hunter2")}
		if shown := fmt.Sprintf("%v %+v %#v", b, b, *b); strings.Contains(shown, "hunter2") {
			t.Errorf("got %s", shown)
		}
	})
}
