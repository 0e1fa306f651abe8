// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	stdjson "encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// status returns the status, the challenge and the message of an answer; 200 without an error.
func answer(err error) (status int, challenge, message string) {
	d, ok := errors.AsType[*server.Denial](err)
	switch {
	case err == nil:
		return 200, "", ""
	case !ok:
		return 0, "", err.Error()
	case d.Status == 0:
		return 401, d.Challenge, d.Message
	default:
		return d.Status, d.Challenge, d.Message
	}
}

// as authenticates a request with a bearer token.
func (s *site) as(token string) (*mcp.Identity, error) {
	return s.chain.Authenticate(request("/mcp", "Authorization: Bearer "+token))
}

// unsigned returns a token with a header and claims as they are, and a signature by hand.
func unsigned(t testing.TB, header string, claims any, mac []byte) string {
	t.Helper()
	payload, err := stdjson.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return raw(header, string(payload), mac)
}

func raw(header, payload string, mac []byte) string {
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(header)) + "." + enc.EncodeToString([]byte(payload))
	signature := []byte("x")
	if mac != nil {
		h := hmac.New(sha256.New, mac)
		h.Write([]byte(text))
		signature = h.Sum(nil)
	}
	return text + "." + enc.EncodeToString(signature)
}

// TestTokens is the table of tokens (identity attacks 1, 5, 6, 8; requirement I2). Each refusal
// has one of the known descriptions, and quotes nothing.
func TestTokens(t *testing.T) {
	bubble(t, nil, func(s *site) {
		corp, hour := s.corp, time.Now().Add(time.Hour).Unix()
		with := func(changes map[string]any) string { return corp.token(changes) }
		headed := func(alg, key string, header map[string]any) string {
			return sign(t, alg, key, header, corp.claims(nil))
		}
		public, err := x509.MarshalPKIXPublicKey(testKeys()["rsa"].Public())
		if err != nil {
			t.Fatal(err)
		}
		asPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
		modulus := testKeys()["rsa"].Public().(*rsa.PublicKey).N.Bytes()
		good := with(nil)
		parts := strings.Split(good, ".")
		for _, tt := range []struct {
			name, token string
			want        error // nil is accepted
		}{
			{"good", good, nil},
			{"RSA", headed("RS256", "rsa", map[string]any{"kid": "rsa"}), nil},
			{"RSA-PSS", headed("PS256", "rsa", map[string]any{"kid": "rsa"}), nil},
			{"typ JWT", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "JWT"}), nil},
			{"typ at+jwt", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "at+jwt"}), nil},
			{"typ as a media type", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "application/AT+JWT"}), nil},

			// 1: algorithms.
			{"alg none", unsigned(t, `{"alg":"none"}`, corp.claims(nil), nil), notVerified},
			{"alg None", unsigned(t, `{"alg":"None","kid":"ec"}`, corp.claims(nil), nil), notVerified},
			{"no alg", unsigned(t, `{"kid":"ec"}`, corp.claims(nil), nil), notVerified},
			{"HS256 with the public key in PEM", unsigned(t, `{"alg":"HS256","kid":"rsa"}`, corp.claims(nil), asPEM), notVerified},
			{"HS256 with the modulus", unsigned(t, `{"alg":"HS256","kid":"rsa"}`, corp.claims(nil), modulus), notVerified},
			{"alg of another type of key", unsigned(t, `{"alg":"RS256","kid":"ec"}`, corp.claims(nil), asPEM), notVerified},
			{"alg not in the list", headed("RS512", "rsa", map[string]any{"kid": "rsa"}), notVerified},
			{"other curve", unsigned(t, `{"alg":"ES384","kid":"ec"}`, corp.claims(nil), asPEM), notVerified},

			// Keys.
			{"key of another issuer", sign(t, "ES256", "ec2", map[string]any{"kid": "ec"}, corp.claims(nil)), notVerified},
			{"no kid with several keys", headed("ES256", "ec", nil), notVerified},
			{"kid of another key", headed("ES256", "ec", map[string]any{"kid": "rsa"}), notVerified},
			{"kid not a string", unsigned(t, `{"alg":"ES256","kid":1}`, corp.claims(nil), nil), malformed},
			{"key in the header", headed("ES256", "ec2", map[string]any{"kid": "unknown", "jwk": stdjson.RawMessage(keySetOf(t))}), notVerified},
			{"signature changed", good[:len(good)-6] + "AAAAAA", notVerified},
			{"claims changed", parts[0] + "." + strings.Split(with(map[string]any{"sub": "root"}), ".")[1] + "." + parts[2], notVerified},

			// Header.
			{"crit", unsigned(t, `{"alg":"ES256","kid":"ec","crit":["exp"]}`, corp.claims(nil), nil), notVerified},
			{"crit b64", headed("ES256", "ec", map[string]any{"kid": "ec", "crit": []string{"b64"}, "b64": true}), notVerified},
			{"typ of a logout token", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "logout+jwt"}), notVerified},
			{"typ dpop", headed("ES256", "ec", map[string]any{"kid": "ec", "typ": "dpop+jwt"}), notVerified},
			{"alg twice", raw(`{"alg":"none","alg":"ES256","kid":"ec"}`, `{"iss":"`+corp.url+`"}`, nil), malformed},

			// 5: audiences.
			{"sibling gateway", with(map[string]any{"aud": "https://other.example.com/mcp"}), otherAudience},
			{"ours second", with(map[string]any{"aud": []string{"https://other.example.com/mcp", "https://mcp.example.com/mcp"}}), nil},
			{"no audience", with(map[string]any{"aud": nil}), otherAudience},
			{"empty list", with(map[string]any{"aud": []string{}}), otherAudience},
			{"trailing slash", with(map[string]any{"aud": "https://mcp.example.com/mcp/"}), nil},
			{"two trailing slashes", with(map[string]any{"aud": "https://mcp.example.com/mcp//"}), otherAudience},
			{"host in upper case", with(map[string]any{"aud": "https://MCP.example.com/mcp"}), otherAudience},
			{"path below", with(map[string]any{"aud": "https://mcp.example.com/mcp/p/chat"}), otherAudience},
			{"origin alone", with(map[string]any{"aud": "https://mcp.example.com"}), otherAudience},
			{"audience a number", with(map[string]any{"aud": 1}), malformed},
			{"audience with a number", with(map[string]any{"aud": []any{"https://mcp.example.com/mcp", 1}}), malformed},

			// 6: other tokens of the same issuer.
			{"ID token", with(map[string]any{"nonce": "n"}), otherAudience},
			{"bound to a key", with(map[string]any{"cnf": map[string]any{"jkt": "x"}}), notVerified},
			{"bound to null", withMember(t, corp, `"cnf":null`), notVerified},

			// Times.
			{"expired", with(map[string]any{"exp": time.Now().Add(-31 * time.Second).Unix()}), expired},
			{"expired within the skew", with(map[string]any{"exp": time.Now().Add(-29 * time.Second).Unix()}), nil},
			{"no exp", with(map[string]any{"exp": nil}), malformed},
			{"exp as text", with(map[string]any{"exp": fmt.Sprint(hour)}), malformed},
			{"exp zero", with(map[string]any{"exp": 0}), expired},
			{"exp negative", with(map[string]any{"exp": -1}), malformed},
			{"exp without end", withMember(t, corp, `"exp":1e300`), malformed},
			{"exp beyond numbers", withMember(t, corp, `"exp":1e999`), malformed},
			{"exp with a fraction", withMember(t, corp, fmt.Sprintf(`"exp":%d.5`, hour)), nil},
			{"nbf ahead", with(map[string]any{"nbf": time.Now().Add(31 * time.Second).Unix()}), notYetValid},
			{"nbf within the skew", with(map[string]any{"nbf": time.Now().Add(29 * time.Second).Unix()}), nil},
			{"iat ahead", with(map[string]any{"iat": time.Now().Add(time.Minute).Unix()}), notYetValid},
			{"no iat", with(map[string]any{"iat": nil}), nil},

			// Issuers.
			{"unknown issuer", with(map[string]any{"iss": "https://elsewhere.example"}), unknownIssuer},
			{"slash added", with(map[string]any{"iss": corp.url + "/"}), unknownIssuer},
			{"no issuer", with(map[string]any{"iss": nil}), malformed},
			{"the same name twice", raw(`{"alg":"ES256","kid":"ec"}`, `{"iss":"x","iss":"`+corp.url+`"}`, nil), malformed},

			// Principals.
			{"no sub", with(map[string]any{"sub": nil}), malformed},
			{"empty sub", with(map[string]any{"sub": ""}), noPrincipal},
			{"sub with control characters", with(map[string]any{"sub": "a\nb"}), malformed},

			// 8: no tokens at all.
			{"two parts", parts[0] + "." + parts[1], notVerified},
			{"encrypted", good + ".x.y", notVerified},
			{"empty parts", "ey..", malformed},
			{"not base64", "ey!." + parts[1] + "." + parts[2], malformed},
			{"padded", parts[0] + "=." + parts[1] + "." + parts[2], malformed},
			{"header not JSON", raw(`{"alg"`, `{}`, nil), malformed},
			{"claims not JSON", raw(`{"alg":"ES256"}`, `{"iss":"x"} {}`, nil), malformed},
			{"claims a list", raw(`{"alg":"ES256"}`, `["iss"]`, nil), malformed},
			{"deep", raw(`{"alg":"ES256"}`, `{"a":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+`}`, nil), malformed},
			{"bearer twice", "Bearer " + good, notVerified},
			{"control bytes", good + "\x01", malformed},
			{"100 KiB", "ey" + strings.Repeat("x", 100<<10), malformed},
		} {
			before := corp.fetches()
			id, err := s.as(tt.token)
			status, challenge, message := answer(err)
			if tt.want == nil {
				if status != 200 || id == nil || id.Principal != "corp:8f3a" {
					t.Errorf("%s: %d %s, %+v", tt.name, status, message, id)
				}
				continue
			}
			want := fmt.Sprintf(`Bearer error="invalid_token", error_description="%v", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", scope="mcp:use"`, tt.want)
			if id != nil || status != 401 || challenge != want {
				t.Errorf("%s: %d %+v\n got %s\nwant %s", tt.name, status, id, challenge, want)
			}
			for part := range strings.SplitSeq(tt.token, ".") {
				if len(part) > 8 && strings.Contains(message+challenge, part) {
					t.Errorf("%s: the answer quotes the token: %s %s", tt.name, message, challenge)
				}
			}
			// identity attack 1: nothing that cannot become valid causes a request.
			if strings.HasPrefix(tt.name, "alg") && corp.fetches() != before {
				t.Errorf("%s: %d fetches", tt.name, corp.fetches()-before)
			}
		}
	})
}

// withMember returns a signed token with one more member, as it is written.
func withMember(t *testing.T, p *provider, member string) string {
	t.Helper()
	name, _, _ := strings.Cut(member, ":")
	claims := p.claims(map[string]any{strings.Trim(name, `"`): nil})
	payload, err := stdjson.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return signRaw(t, "ES256", "ec", map[string]any{"kid": "ec"}, []byte(string(payload[:len(payload)-1])+","+member+"}"))
}

// An identity has what the claims contain (requirement I5: scopes with those they imply).
func TestIdentity(t *testing.T) {
	bubble(t, func(cfg *Config, _ *provider) {
		cfg.Issuers[0].Implies = map[string][]string{"mcp:admin": {"mcp:write", "mcp:audit"}, "mcp:write": {"mcp:use"}}
		cfg.Issuers[0].Principal = expression(t, `claims.realm.user + "@" + string(claims.tenant)`)
	}, func(s *site) {
		token := s.corp.token(map[string]any{
			"scope": nil, "scp": []string{"mcp:admin", "email"}, "tenant": 9007199254740993, "realm": map[string]any{"user": "ann"},
			"groups": []string{"staff"}, "sub": "s-1",
		})
		id, err := s.as(token)
		if err != nil {
			t.Fatal(err)
		}
		expires := time.Now().Add(time.Hour + 30*time.Second)
		switch {
		case id.Principal != "corp:ann@9007199254740993", id.Issuer != s.corp.url, id.Subject != "s-1", id.Via != mcp.ViaJWT:
			t.Errorf("got %+v", id)
		case !slices.Equal(id.Scopes, []string{"email", "mcp:admin", "mcp:audit", "mcp:use", "mcp:write"}):
			t.Errorf("scopes %q", id.Scopes)
		case id.Expires.Sub(expires).Abs() > time.Second:
			t.Errorf("expires %v, want %v", id.Expires, expires)
		case id.Claims["tenant"] != stdjson.Number("9007199254740993"):
			t.Errorf("claims %v", id.Claims)
		case id.Token.Reveal() != token || strings.Contains(fmt.Sprintf("%+v", id), token):
			t.Errorf("the token is %v", id.Token)
		}
	})
}

// identity attack 7: two issuers with one sub are two principals, and neither is that of a
// token of the configuration.
func TestPrincipalsOfTwoIssuers(t *testing.T) {
	bubble(t, nil, func(s *site) {
		names := make(map[string]bool)
		for _, token := range []string{s.corp.token(nil), s.partner.token(nil), "a-token-of-the-configuration"} {
			id, err := s.as(token)
			if err != nil {
				t.Fatal(err)
			}
			names[id.Principal] = true
		}
		if !names["corp:8f3a"] || !names["partner:8f3a"] || !names["ci"] {
			t.Errorf("got %v", names)
		}
		// A key of one issuer verifies no token that names the other.
		s.partner.set(func(p *provider) { p.keys = []string{"ec2"} })
		time.Sleep(2 * time.Hour) // the keys of the partner are renewed
		synctest.Wait()
		forged := s.corp.claims(map[string]any{"iss": s.partner.url})
		if id, err := s.as(sign(t, "ES256", "ec", map[string]any{"kid": "ec"}, forged)); err == nil {
			t.Errorf("let in as %q", id.Principal)
		}
	})
}

// A missing scope is a 403 with all that the request needs, and never a 401.
func TestMissingScope(t *testing.T) {
	bubble(t, nil, func(s *site) {
		for range 2 { // verified, and from the cache
			_, err := s.as(s.corp.token(map[string]any{"scope": "openid"}))
			status, challenge, _ := answer(err)
			const want = `Bearer error="insufficient_scope", scope="mcp:use", resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource/mcp", error_description="requests need the scope mcp:use"`
			if status != http.StatusForbidden || challenge != want {
				t.Errorf("%d\n got %s\nwant %s", status, challenge, want)
			}
		}
	})
}

// Requirement N6: a credential that fails is final, and the choice depends on its place and
// form alone (identity attacks 8 and 9).
func TestChoice(t *testing.T) {
	bubble(t, func(cfg *Config, _ *provider) {
		cfg.Issuers[1].Header = "cf-access-jwt-assertion"
	}, func(s *site) {
		const static = "a-token-of-the-configuration"
		corp, partner := s.corp.token(nil), s.partner.token(nil)
		bad := s.partner.token(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()})
		const proxy = "Cf-Access-Jwt-Assertion: "
		for _, tt := range []struct {
			name  string
			lines []string
			want  string // the principal, or ""
		}{
			{"nothing", nil, ""},
			{"static", []string{"Authorization: Bearer " + static}, "ci"},
			{"JWT", []string{"Authorization: Bearer " + corp}, "corp:8f3a"},
			{"signed header", []string{proxy + partner}, "partner:8f3a"},
			{"bearer before the signed header", []string{"Authorization: Bearer " + static, proxy + partner}, "ci"},
			{"failed bearer before a good signed header", []string{"Authorization: Bearer nope", proxy + partner}, ""},
			{"failed signed header, then nothing", []string{proxy + bad}, ""},
			{"two signed headers", []string{proxy + partner, proxy + partner}, ""},
			{"two Authorization headers", []string{"Authorization: Bearer " + static, "Authorization: Bearer " + static}, ""},
			{"static token in the signed header", []string{proxy + static}, ""},
			{"issuer of the signed header in Authorization", []string{"Authorization: Bearer " + partner}, ""},
			{"issuer of Authorization in the signed header", []string{proxy + corp}, ""},
			{"signed header with a scheme", []string{proxy + "Bearer " + partner}, ""},
			{"Basic", []string{"Authorization: Basic b25lLWxvbmctdG9rZW4=", proxy + partner}, ""},
			{"header of a proxy that is not configured", []string{"X-Forwarded-User: ann", "X-Forwarded-Access-Token: " + corp}, ""},
			{"cookie", []string{"Cookie: Authorization=Bearer " + corp}, ""},
		} {
			for range 2 { // a token may be in the cache
				id, err := s.chain.Authenticate(request("/mcp", tt.lines...))
				got := ""
				if id != nil {
					got = id.Principal
				}
				if got != tt.want || (err == nil) != (tt.want != "") {
					t.Errorf("%s: got %q, %v; want %q", tt.name, got, err, tt.want)
				}
			}
		}
		// Clients do not get tokens from the issuer that a proxy uses.
		if got := s.chain.servers; len(got) != 1 || got[0] != s.corp.url {
			t.Errorf("authorization servers %q", got)
		}
	})
}

// One issuer can be configured twice, for tokens of clients and of an access proxy.
func TestIssuerWithTwoHeaders(t *testing.T) {
	bubble(t, func(cfg *Config, corp *provider) {
		cfg.Issuers[1].URL, cfg.Issuers[1].Header = corp.url, "X-Proxy-Assertion"
	}, func(s *site) {
		token := s.corp.token(nil)
		id, err := s.chain.Authenticate(request("/mcp", "X-Proxy-Assertion: "+token))
		if err != nil || id.Principal != "partner:8f3a" {
			t.Errorf("in the header of the proxy: %+v, %v", id, err)
		}
		id, err = s.chain.Authenticate(request("/mcp", "Authorization: Bearer "+token))
		if err != nil || id.Principal != "corp:8f3a" {
			t.Errorf("in Authorization: %+v, %v", id, err)
		}
	})
}

// Configured audiences replace the resource. By default a token for one path is for that path
// only, and one for the endpoint is for all.
func TestAudiencesOfPaths(t *testing.T) {
	const origin = "https://mcp.example.com"
	at := func(path string) *http.Request {
		name := ""
		if _, after, ok := strings.Cut(path, "/p/"); ok {
			name = after
		}
		r := request(path)
		return r.WithContext(server.WithProfile(r.Context(), name))
	}
	paths := []string{"/mcp", "/mcp/p/chat", "/mcp/p/code", "/sse", "/sse/p/chat", "/status"}
	for audience, want := range map[string]string{
		origin + "/mcp":         "/mcp /mcp/p/chat /mcp/p/code /sse /sse/p/chat /status",
		origin + "/mcp/p/chat":  "/mcp/p/chat",
		origin + "/mcp/p/chat/": "/mcp/p/chat",
		origin + "/sse":         "/sse",
		origin + "/sse/p/chat":  "/sse/p/chat",
		origin + "/status":      "",
		origin:                  "",
		"special":               "",
	} {
		bubble(t, nil, func(s *site) {
			for range 2 {
				var got []string
				for _, path := range paths {
					r := at(path)
					r.Header.Set("Authorization", "Bearer "+s.corp.token(map[string]any{"aud": audience}))
					if _, err := s.chain.Authenticate(r); err == nil {
						got = append(got, path)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("%s is accepted at %q, want %s", audience, got, want)
				}
			}
		})
	}
	bubble(t, func(cfg *Config, _ *provider) { cfg.Issuers[0].Audiences = []string{"special"} }, func(s *site) {
		for audience, want := range map[string]int{"special": 200, origin + "/mcp": 401} {
			if _, err := s.as(s.corp.token(map[string]any{"aud": audience})); err == nil != (want == 200) {
				t.Errorf("%s: %v, want %d", audience, err, want)
			}
		}
	})
}

// Requirements N14 and I2: a kept token is refused at its expiry and the skew, on the second.
func TestExpiryOfKeptToken(t *testing.T) {
	bubble(t, nil, func(s *site) {
		token := s.corp.token(map[string]any{"exp": time.Now().Add(time.Minute).Unix()})
		for range 3 {
			if _, err := s.as(token); err != nil {
				t.Fatal(err)
			}
		}
		id, _ := s.as(token)
		time.Sleep(time.Until(id.Expires) - time.Millisecond)
		if _, err := s.as(token); err != nil {
			t.Errorf("before its end: %v", err)
		}
		time.Sleep(time.Millisecond)
		if _, err := s.as(token); err == nil || err.Error() != string(expired) {
			t.Errorf("at its end: %v", err)
		}
	})
}
