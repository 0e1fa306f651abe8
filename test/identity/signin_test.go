// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/identity/provider"
)

var signInPage = regexp.MustCompile(`http://\S+/signin/[A-Z2-7]{26}`)

// A user signs in at a real authorization server, with the page that a call has in its result, and
// calls go on with the user's token, also after a restart of the gateway. Nothing is configured
// (identity I7, I10, I16).
func TestUserSignsIn(t *testing.T) {
	for _, version := range []string{"2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			p, between := watched(t, provider.Settings{})
			address, _ := reference(t, p)
			g := startGateway(t, object{"mcpServers": object{"tools": object{"url": address, "prefix": ""}}})
			got := anonymous(t, g, version, "sign_in")[0]
			page := signInPage.FindString(got.Text)
			if page == "" || !strings.HasPrefix(page, g.Base) {
				t.Fatalf("the call: %+v", got)
			}
			ann := browser.New("ann")
			end, err := ann.SignIn(t.Context(), page)
			if err != nil || end.Status != http.StatusOK || !strings.Contains(end.Body, "You are signed in to tools") {
				t.Fatalf("the browser: %v, %+v", err, end)
			}
			if got := anonymous(t, g, version, "sign_in")[0]; !strings.Contains(got.Text, "You are signed in") {
				t.Errorf("the tool to sign in: %+v", got)
			}
			for _, got := range anonymous(t, g, version, "read", "read") {
				if _, ok := strings.CutPrefix(got.Text, "read with Bearer "); !ok {
					t.Errorf("a call: %+v", got)
				}
			}
			redeemed := 0
			for _, e := range between.Passed() {
				if e.Path == "/token" && e.Form().Get("grant_type") == "authorization_code" {
					redeemed++
					if e.Form().Get("code_verifier") == "" || e.Form().Get("resource") == "" {
						t.Error("the code was redeemed without a verifier or a resource")
					}
				}
			}
			if redeemed != 1 {
				t.Errorf("%d codes were redeemed, want 1", redeemed)
			}
		})
	}
}
