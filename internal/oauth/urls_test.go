// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

func TestMetadataURLs(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://a.example":          "https://a.example/.well-known/oauth-authorization-server https://a.example/.well-known/openid-configuration",
		"https://a.example/":         "https://a.example/.well-known/oauth-authorization-server https://a.example/.well-known/openid-configuration",
		"https://a.example/realms/x": "https://a.example/.well-known/oauth-authorization-server/realms/x https://a.example/.well-known/openid-configuration/realms/x https://a.example/realms/x/.well-known/openid-configuration",
	} {
		u, err := url.Parse(issuer)
		if err != nil {
			t.Fatal(err)
		}
		if got := oauth.MetadataURLs(u); strings.Join(got, " ") != want {
			t.Errorf("%s: %q", issuer, got)
		}
	}
}

// A user knows an authorization server by its host. One in other scripts can look like another one, and
// is only for the operator to write (identity attack 20).
func TestHostsInOtherScripts(t *testing.T) {
	const lookalike = "https://id.ex\u0430mple.com" // the letter a of Cyrillic
	endpoint := func(name, at string) object {
		doc := metadata("https://id.example.com")
		doc[name] = at
		return doc
	}
	for name, tt := range map[string]struct {
		cfg    oauth.Config
		issuer string
		doc    object
		want   bool
	}{
		"authorization endpoint": {oauth.Config{Backend: "https://mcp.example.com/mcp"}, "https://id.example.com", endpoint("authorization_endpoint", lookalike+"/authorize"), false},
		"token endpoint":         {oauth.Config{Backend: "https://mcp.example.com/mcp"}, "https://id.example.com", endpoint("token_endpoint", lookalike+"/token"), false},
		"in ASCII":               {oauth.Config{Backend: "https://mcp.example.com/mcp"}, "https://id.example.com", endpoint("token_endpoint", "https://xn--idn-ioa.example.com/token"), true},
		"of the backend":         {oauth.Config{Backend: lookalike + "/mcp"}, lookalike, metadata(lookalike), true},
		"pinned":                 {oauth.Config{Backend: "https://mcp.example.com/mcp", Issuer: lookalike}, lookalike, metadata(lookalike), true},
	} {
		text, err := json.Marshal(tt.doc)
		if err != nil {
			t.Fatal(err)
		}
		switch _, err := newClient(t, tt.cfg).ParseServer(tt.issuer, text, true); {
		case tt.want && err != nil:
			t.Errorf("%s: %v", name, err)
		case !tt.want:
			wantCheck(t, err, oauth.CheckEndpoint)
		}
	}
	_, err := newClient(t, oauth.Config{Backend: "https://mcp.example.com/mcp"}).Server(t.Context(), lookalike, true)
	wantCheck(t, err, oauth.CheckEndpoint)
}
