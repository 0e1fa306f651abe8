// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// The issuer and the times of an assertion and of an ID token are checked before they are sent
// (I14). Errors have the claim, and not the token.
func TestTimesOfAssertions(t *testing.T) {
	const issuer = "https://id.example.com"
	now := time.Unix(1_800_000_000, 0)
	in := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) / 1000 }
	valid := object{"iss": issuer, "exp": in(time.Minute), "iat": in(-time.Second)}
	for _, tt := range []struct {
		name           string
		claims         object
		idJAG, idToken string // the claim that fails, or ""
	}{
		{"valid", valid, "", ""},
		{"a fraction of a second", valid.with(object{"exp": in(time.Minute) + 0.5}), "", ""},
		{"no iat", valid.with(object{"iat": nil}), "", ""},
		{"no exp", valid.with(object{"exp": nil}), "exp", "exp"},
		{"exp as text", valid.with(object{"exp": "1900000000"}), "exp", "exp"},
		{"exp before 1970", valid.with(object{"exp": -1}), "exp", "exp"},
		{"exp without end", valid.with(object{"exp": 1e300}), "exp", "exp"},
		{"expired", valid.with(object{"exp": in(-time.Minute)}), "exp", "exp"},
		{"expired at this moment", valid.with(object{"exp": in(0)}), "", "exp"},
		{"another clock", valid.with(object{"exp": in(-29 * time.Second), "iat": in(29 * time.Second)}), "", "exp"},
		{"from the future", valid.with(object{"iat": in(time.Minute)}), "iat", ""},
		{"iat as text", valid.with(object{"iat": "x"}), "iat", ""},
		{"another issuer", valid.with(object{"iss": "https://evil.example.com"}), "iss", "iss"},
		{"a slash", valid.with(object{"iss": issuer + "/"}), "iss", "iss"},
		{"no issuer", valid.with(object{"iss": nil}), "iss", "iss"},
	} {
		token := signJWT(t, "JWT", tt.claims)
		for _, of := range []struct {
			check oauth.Check
			err   error
			at    string
		}{
			{oauth.CheckIDJAGClaim, oauth.CheckIDJAGLife(token, issuer, now), tt.idJAG},
			{oauth.CheckIDTokenClaim, oauth.CheckIDToken(token, issuer, now), tt.idToken},
		} {
			if of.at == "" {
				if of.err != nil {
					t.Errorf("%s: %v", tt.name, of.err)
				}
				continue
			}
			if failed := failedCheck(t, of.err, of.check); failed.At != of.at || strings.Contains(failed.Error(), token.Reveal()) {
				t.Errorf("%s: the error is %v, want one of %s", tt.name, failed, of.at)
			}
		}
	}
	for _, text := range []string{"", "a.b", "a.b.c", "e30.W10.x", "!.!.!", "e30.e30.e30.e30"} {
		wantCheck(t, oauth.CheckIDJAGLife(mcp.NewToken(text), issuer, now), oauth.CheckIDJAGClaim)
		wantCheck(t, oauth.CheckIDToken(mcp.NewToken(text), issuer, now), oauth.CheckIDTokenClaim)
	}
}

// A server that repeats the token that it was sent in a response that is refused has it in no
// error (N1).
func TestRefusedResponseRepeatsTheToken(t *testing.T) {
	idp := newTokenWorld(t)
	subject := mcp.NewToken("canary-id-token")
	for name, response := range map[string]object{
		"token_type":        {"access_token": "x", "token_type": subject.Reveal()},
		"issued_token_type": {"access_token": "x", "token_type": "N_A", "issued_token_type": "urn:" + subject.Reveal()},
	} {
		idp.answer("/token", 200, response)
		_, err := idp.token(t, oauth.Exchange{Issuer: idp.URL, Subject: subject}.IDJAG())
		if failed := failedCheck(t, err, oauth.CheckTokenType); strings.Contains(failed.Error()+failed.Got, "canary") {
			t.Errorf("%s: the error is %v", name, failed)
		}
	}
}
