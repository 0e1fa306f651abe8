// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"net/url"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// A server ignores offline_access without prompt=consent (OpenID Connect Core 1.0, section
// 11). A prompt of the configuration is kept.
func TestOfflineAccessAsksForConsent(t *testing.T) {
	for _, tt := range []struct {
		name       string
		scopes     []string
		parameters map[string]string
		want       string
	}{
		{"offline_access", []string{"a", "offline_access"}, nil, "consent"},
		{"no offline_access", []string{"a"}, nil, ""},
		{"no scopes", nil, nil, ""},
		{"a prompt of its own", []string{"offline_access"}, map[string]string{"prompt": "login consent"}, "login consent"},
	} {
		r := testRequest()
		r.Scopes, r.Parameters = tt.scopes, tt.parameters
		a, err := oauth.Begin(r)
		if err != nil {
			t.Fatal(err)
		}
		u, err := url.Parse(a.URL)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Query().Get("prompt"); got != tt.want {
			t.Errorf("%s: prompt %q, want %q", tt.name, got, tt.want)
		}
	}
}
