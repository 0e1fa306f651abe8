// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/config"
)

// Pairwise subjects with claims.sub are noted, and so is a provider that cannot sign users in.
func TestIdentity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, principal, metadata string // with the URL of the server for %s
		path, want                string // "" is no note
	}{
		{"public", "", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","subject_types_supported":["public"]}`, "", ""},
		{"both", "", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","subject_types_supported":["public","pairwise"]}`, "", ""},
		{"nothing of subjects", "", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t"}`, "", ""},
		{"pairwise", "", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","subject_types_supported":["pairwise"]}`, "auth.issuers[0].principal", "others on pages than in requests"},
		{"pairwise, written out", " claims.sub ", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","subject_types_supported":["pairwise"]}`, "auth.issuers[0].principal", "claims.oid"},
		{"pairwise, another claim", "claims.oid", `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t","subject_types_supported":["pairwise"]}`, "", ""},
		{"no authorization endpoint", "", `{"issuer":"%[1]s","token_endpoint":"%[1]s/t"}`, "auth.browser.issuer", "no authorization_endpoint"},
		{"another issuer", "", `{"issuer":"https://other.example","authorization_endpoint":"%[1]s/a","token_endpoint":"%[1]s/t"}`, "auth.browser.issuer", "cannot be used"},
		{"no metadata", "", "", "auth.browser.issuer", "cannot be used"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var server *httptest.Server
			server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tt.metadata == "" || r.URL.Path != "/.well-known/openid-configuration" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				fmt.Fprintf(w, tt.metadata, server.URL)
			}))
			defer server.Close()
			principal := ""
			if tt.principal != "" {
				principal = fmt.Sprintf(", principal: %q", tt.principal)
			}
			text := fmt.Sprintf(`{mcpServers: {}, publicURL: "https://mcp.example.com", auth: {issuers: [{name: corp, issuer: %q%s}], browser: {issuer: corp, clientId: gw}}}`, server.URL, principal)
			cfg, err := config.Parse("x.yaml", []byte(text), nil)
			if err != nil {
				t.Fatal(err)
			}
			notes := Identity(t.Context(), cfg)
			if tt.path == "" {
				if notes != nil {
					t.Errorf("got %v", notes)
				}
				return
			}
			if len(notes) != 1 || notes[0].Path != tt.path || !strings.Contains(notes[0].String(), tt.want) {
				t.Errorf("got %+v, want one at %s: %s", notes, tt.path, tt.want)
			}
		})
	}
	cfg, err := config.Parse("x.yaml", []byte("{mcpServers: {}}"), nil)
	if err != nil || Identity(t.Context(), cfg) != nil {
		t.Error("a configuration without a provider has a note")
	}
}
