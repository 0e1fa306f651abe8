// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// TestIDTokens is the table of ID tokens (identity section 5.3, step 1; N7). Each refusal names the
// check, and quotes nothing.
func TestIDTokens(t *testing.T) {
	bubble(t, nil, func(s *site) {
		synctest.Wait() // until the keys are there
		corp, now := s.corp, time.Now().Unix()
		good := map[string]any{"aud": "gw-web", "nonce": "n-1", "scope": nil, "exp": now + 300}
		with := func(changes map[string]any) map[string]any {
			all := map[string]any{}
			for _, m := range []map[string]any{good, changes} {
				maps.Copy(all, m)
			}
			return corp.claims(all)
		}
		signed := func(changes map[string]any) string {
			return sign(t, "ES256", "ec", map[string]any{"kid": "ec"}, with(changes))
		}
		headed := func(alg, key string, header map[string]any) string { return sign(t, alg, key, header, with(nil)) }
		// What is refused for its algorithm costs no request for its key (identity attack 1).
		before := corp.fetches()
		for alg, token := range map[string]string{
			"PS512": headed("PS512", "rsa", map[string]any{"kid": "new"}),
			"HS256": unsigned(t, `{"alg":"HS256","kid":"new"}`, with(nil), []byte("secret")),
			"none":  unsigned(t, `{"alg":"none","kid":"new"}`, with(nil), nil),
		} {
			if _, _, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"corp", "gw-web", "n-1"}, mcp.NewToken(token)); !errors.Is(err, idTokenSignature) || corp.fetches() != before {
				t.Errorf("%s: %v, %d fetches", alg, err, corp.fetches()-before)
			}
		}
		ends := map[string]time.Time{"expired within the skew": time.Unix(now-29, 0)}
		for _, tt := range []struct {
			name, token string
			want        error // nil for the principal
		}{
			{"as it should be", signed(nil), nil},
			{"RS256", headed("RS256", "rsa", map[string]any{"kid": "rsa"}), nil},
			{"typ JWT", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "JWT"}), nil},
			{"a list with one audience", signed(map[string]any{"aud": []string{"gw-web"}}), nil},
			{"azp", signed(map[string]any{"azp": "gw-web"}), nil},
			{"several audiences, and azp", signed(map[string]any{"aud": []string{"other", "gw-web"}, "azp": "gw-web"}), nil},
			{"expired within the skew", signed(map[string]any{"exp": now - 29}), nil},

			{"several audiences", signed(map[string]any{"aud": []string{"other", "gw-web"}}), idTokenParty},
			{"azp of another client", signed(map[string]any{"azp": "other"}), idTokenParty},
			{"azp that is no text", signed(map[string]any{"azp": 7}), idTokenParty},
			{"another client", signed(map[string]any{"aud": "other"}), idTokenAudience},
			{"a client with a slash", signed(map[string]any{"aud": "gw-web/"}), idTokenAudience},
			{"no audience", signed(map[string]any{"aud": nil}), idTokenAudience},
			{"the resource", signed(map[string]any{"aud": "https://mcp.example.com/mcp"}), idTokenAudience},
			{"another nonce", signed(map[string]any{"nonce": "n-2"}), idTokenNonce},
			{"no nonce", signed(map[string]any{"nonce": nil}), idTokenNonce},
			{"an empty nonce", signed(map[string]any{"nonce": ""}), idTokenNonce},
			{"a list of nonces", signed(map[string]any{"nonce": []string{"n-1"}}), idTokenNonce},
			{"expired", signed(map[string]any{"exp": now - 31}), idTokenTimes},
			{"no expiry", signed(map[string]any{"exp": nil}), idTokenTimes},
			{"expiry as a text", signed(map[string]any{"exp": "tomorrow"}), idTokenTimes},
			{"no iat", signed(map[string]any{"iat": nil}), idTokenTimes},
			{"issued in the future", signed(map[string]any{"iat": now + 120}), idTokenTimes},
			{"not valid yet", signed(map[string]any{"nbf": now + 120}), idTokenTimes},
			{"no subject", signed(map[string]any{"sub": nil}), idTokenSubject},
			{"another issuer", signed(map[string]any{"iss": s.partner.url}), idTokenIssuer},
			{"the issuer with a slash", signed(map[string]any{"iss": corp.url + "/"}), idTokenIssuer},
			{"no issuer", signed(map[string]any{"iss": nil}), idTokenForm},
			{"an access token", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "at+jwt"}), idTokenKind},
			{"a logout token", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "logout+jwt"}), idTokenKind},
			{"ES384, which is accepted, by a key that is not", headed("ES384", "ec384", map[string]any{"kid": "ec"}), idTokenSignature},
			{"PS512, which is not accepted", headed("PS512", "rsa", map[string]any{"kid": "rsa"}), idTokenSignature},
			{"a key that is not the issuer's", headed("ES256", "ec2", map[string]any{"kid": "ec"}), idTokenSignature},
			{"an unknown key", headed("ES256", "ec2", map[string]any{"kid": "ec2"}), idTokenSignature},
			{"no kid", headed("ES256", "ec", nil), idTokenSignature},
			{"none", unsigned(t, `{"alg":"none"}`, with(nil), nil), idTokenSignature},
			{"HS256 with the secret of the client", unsigned(t, `{"alg":"HS256"}`, with(nil), []byte("secret")), idTokenSignature},
			{"crit", unsigned(t, `{"alg":"ES256","kid":"ec","crit":["x"]}`, with(nil), nil), idTokenSignature},
			{"a changed claim", strings.Replace(signed(nil), ".", ".e30", 1), idTokenForm},
			{"encrypted", "ey.a.b.c.d", idTokenForm},
			{"a text", "hello", idTokenForm},
			{"nothing", "", idTokenForm},
			{"17 KiB", signed(map[string]any{"padding": strings.Repeat("x", 17<<10)}), idTokenForm},
			{"a claim twice", signRaw(t, "ES256", "ec", map[string]any{"kid": "ec"}, []byte(`{"iss":"`+corp.url+`","sub":"a","sub":"b"}`)), idTokenForm},
		} {
			name, expires, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"corp", "gw-web", "n-1"}, mcp.NewToken(tt.token))
			end, ok := ends[tt.name]
			if !ok {
				end = time.Unix(now+300, 0)
			}
			switch {
			case tt.want == nil && (err != nil || name != "corp:8f3a" || !expires.Equal(end)):
				t.Errorf("%s: got %q until %v, %v", tt.name, name, expires, err)
			case tt.want != nil && (!errors.Is(err, tt.want) || name != ""):
				t.Errorf("%s: got %q, %v, want %v", tt.name, name, err, tt.want)
			}
		}
		if n := corp.fetches(); n > 2 {
			t.Errorf("%d fetches of keys", n)
		}
		// What is an ID token for the pages is no credential for requests (identity attack 6).
		if status, _, _ := answer(second(s.as(signed(map[string]any{"aud": []string{"gw-web", "https://mcp.example.com/mcp"}, "azp": "gw-web", "scope": "mcp:use"})))); status != http.StatusUnauthorized {
			t.Errorf("as an access token: status %d", status)
		}
		if _, _, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"corp", "gw-web", ""}, mcp.NewToken(signed(map[string]any{"nonce": ""}))); !errors.Is(err, idTokenNonce) {
			t.Errorf("no nonce was requested: %v", err)
		}
		if _, _, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"partner", "gw-web", "n-1"}, mcp.NewToken(signed(nil))); !errors.Is(err, idTokenIssuer) {
			t.Errorf("at another issuer: %v", err)
		}
		if _, _, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"nobody", "gw-web", "n-1"}, mcp.NewToken(signed(nil))); !errors.Is(err, errNoSuchIssuer) {
			t.Errorf("of no issuer: %v", err)
		}
	})
}

// The principal of an ID token is that of the access tokens of its user, by the one expression; a
// token without one is refused.
func TestPrincipalsOfIDTokens(t *testing.T) {
	bubble(t, func(cfg *Config, _ *provider) { cfg.Issuers[0].Principal = expression(t, "claims.oid") }, func(s *site) {
		token := func(changes map[string]any) mcp.Token { return mcp.NewToken(s.corp.token(changes)) }
		r := IDTokenRequest{"corp", "gw-web", "n-1"}
		name, _, err := s.chain.VerifyIDToken(s.t.Context(), r, token(map[string]any{"aud": "gw-web", "nonce": "n-1", "oid": "ann", "sub": "pairwise-1"}))
		id, denied := s.as(s.corp.token(map[string]any{"oid": "ann", "sub": "pairwise-2"}))
		if err != nil || denied != nil || name != id.Principal {
			t.Errorf("got %q, %v and %+v, %v", name, err, id, denied)
		}
		if _, _, err = s.chain.VerifyIDToken(s.t.Context(), r, token(map[string]any{"aud": "gw-web", "nonce": "n-1"})); !errors.Is(err, idTokenPrincipal) {
			t.Errorf("without the claim: %v", err)
		}
	})
}

// The expression of docs/identity.md for Okta, where access tokens have the user as uid and ID tokens
// as sub, names users alike, and no program.
func TestPrincipalsAtOkta(t *testing.T) {
	const okta = `has(claims.uid) ? claims.uid : (has(claims.nonce) ? claims.sub : "")`
	bubble(t, func(cfg *Config, _ *provider) { cfg.Issuers[0].Principal = expression(t, okta) }, func(s *site) {
		name, _, err := s.chain.VerifyIDToken(s.t.Context(), IDTokenRequest{"corp", "gw-web", "n-1"}, mcp.NewToken(s.corp.token(map[string]any{"aud": "gw-web", "nonce": "n-1", "sub": "00u1"})))
		id, denied := s.as(s.corp.token(map[string]any{"uid": "00u1", "sub": "ann@example.com"}))
		if err != nil || denied != nil || name != "corp:00u1" || id.Principal != name {
			t.Errorf("got %q, %v and %+v, %v", name, err, id, denied)
		}
		if id, denied := s.as(s.corp.token(map[string]any{"sub": "a-program", "cid": "a-program"})); denied == nil {
			t.Errorf("a program is %+v", id)
		}
	})
}

// While the keys of the issuer are not known, an ID token is not verified, and nothing waits beyond
// its context.
func TestIDTokenWithoutKeys(t *testing.T) {
	bubble(t, func(_ *Config, p *provider) {
		p.respond = func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusInternalServerError)
			return true
		}
	}, func(s *site) {
		token := mcp.NewToken(s.corp.token(map[string]any{"aud": "gw-web", "nonce": "n-1"}))
		ctx, cancel := context.WithTimeout(s.t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if name, _, err := s.chain.VerifyIDToken(ctx, IDTokenRequest{"corp", "gw-web", "n-1"}, token); err == nil || name != "" {
			t.Errorf("got %q", name)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
	})
}
