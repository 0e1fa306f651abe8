// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/signalbox-mcp/signalbox"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/test/gatewaytest"
)

// Where users do not sign in without configuration, the status has the line to write for a server
// that refuses requests without a token.
func TestStatusHasTheLineForSignIns(t *testing.T) {
	const metadata = `Bearer resource_metadata="http://crm/.well-known/oauth-protected-resource"`
	for _, tt := range []struct {
		name, challenge string
		change          func(*config.Config)
		want            string // "" for no such problem
	}{
		{"with auth", metadata, nil, `backend "crm" requires a sign-in: add "oauth: {}" to mcpServers.crm`},
		{"with auth, metadata at the usual place", "Bearer", nil, `backend "crm" requires a credential: add "oauth: {}" to mcpServers.crm if users sign in to it, or else an Authorization header`},
		{"other machines", metadata, func(c *config.Config) {
			c.Auth, c.Listen, c.AllowUnauthenticated = config.Auth{}, "0.0.0.0:7777", true
		}, `backend "crm" requires a sign-in: add "auth" and "publicURL", and "oauth: {}" to mcpServers.crm`},
		{"a header that is refused", metadata, func(c *config.Config) {
			c.Servers[0].Headers = map[string]config.Secret{"authorization": config.NewSecret("Bearer of-nothing")}
		}, ""},
		{"oauth", metadata, func(c *config.Config) { c.Servers[0].OAuth = &config.OAuth{} }, ""},
		{"one user on this machine", metadata, func(c *config.Config) { c.Auth = config.Auth{} }, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			cfg := config.Config{Servers: []config.Backend{{Name: "crm", URL: "http://crm/mcp"}}}
			gatewaytest.WithPrincipals(&cfg, "ann")
			if tt.change != nil {
				tt.change(&cfg)
			}
			refusing := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("WWW-Authenticate", tt.challenge)
				w.WriteHeader(http.StatusUnauthorized)
			})
			g := gatewaytest.New(t, cfg, signalbox.Options{Transport: gatewaytest.ServeBackends(t, refusing), StateFolder: t.TempDir()})
			_ = retried(t, g, "down")
			synctest.Wait()
			isHint := func(p string) bool { return strings.Contains(p, "add ") }
			problems := g.Status().Problems
			at := slices.IndexFunc(problems, isHint)
			switch {
			case at < 0 && tt.want != "", at >= 0 && problems[at] != tt.want:
				t.Errorf("%s: problems %q, want %q", tt.name, problems, tt.want)
			}
		})
	}
}
