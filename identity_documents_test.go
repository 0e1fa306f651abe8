// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/server"
)

// providerExamples returns the configurations in the section of docs/identity.md about
// identity providers, by the headings that they are under.
func providerExamples(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("docs/identity.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Identity providers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	examples := make(map[string]string)
	for _, part := range regexp.MustCompile(`(?m)^####? `).Split(section, -1)[1:] {
		heading, rest, _ := strings.Cut(part, "\n")
		if _, block, ok := strings.Cut(rest, "```yaml\n"); ok {
			examples[heading], _, _ = strings.Cut(block, "```")
		}
	}
	return examples
}

// tokenIssuer signs tokens as an identity provider does.
type tokenIssuer struct {
	keySet  []byte
	signers map[string]jose.Signer // by algorithm
}

func newTokenIssuer(t *testing.T) *tokenIssuer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	rs, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &tokenIssuer{signers: make(map[string]jose.Signer)}
	var set jose.JSONWebKeySet
	for alg, key := range map[string]crypto.Signer{"ES256": ec, "RS256": rs} {
		private := jose.JSONWebKey{Key: key, KeyID: alg}
		i.signers[alg], err = jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: private}, (&jose.SignerOptions{}).WithType("JWT"))
		if err != nil {
			t.Fatal(err)
		}
		set.Keys = append(set.Keys, private.Public())
	}
	if i.keySet, err = json.Marshal(set); err != nil {
		t.Fatal(err)
	}
	return i
}

// token returns a token of an hour with these claims.
func (i *tokenIssuer) token(t *testing.T, alg string, claims map[string]any) string {
	t.Helper()
	claims = maps.Clone(claims)
	now := time.Now()
	claims["iat"], claims["exp"] = now.Unix(), now.Add(time.Hour).Unix()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := i.signers[alg].Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// chain returns what authenticates requests with a configuration, with the keys of i.
func (i *tokenIssuer) chain(t *testing.T, cfg *config.Config) *auth.Chain {
	t.Helper()
	cfg = cfg.Effective()
	for k := range cfg.Auth.Issuers {
		cfg.Auth.Issuers[k].KeySet = i.keySet
	}
	c, err := newAuth(cfg, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const documentedResource = "https://mcp.example.com/mcp"

// documentedTokens are tokens with the claims that providers document, and what the example
// of the page makes of each: a principal, or the description of the refusal. The first one of
// each section is accepted, and the others differ from it by the claims that are given.
func documentedTokens() map[string][]documentedToken {
	const entra = "https://login.microsoftonline.com/11111111-2222-3333-4444-555555555555/v2.0"
	return map[string][]documentedToken{
		"Keycloak": {
			{"RS256", map[string]any{
				"iss": "https://id.example.com/realms/corp", "aud": []string{documentedResource, "account"}, "sub": "8f3a", "typ": "Bearer",
				"azp": "claude-code", "scope": "openid mcp:use", "realm_access": map[string]any{"roles": []string{"staff"}},
			}, "corp:8f3a"},
			{"RS256", map[string]any{"aud": "account"}, "the token is for another audience"}, // without the mapper
			{"RS256", map[string]any{"scope": "openid"}, "requests need the scope mcp:use"},
			{"RS256", map[string]any{"iss": "https://keycloak.svc/realms/corp"}, "the token is of an unknown issuer"},
		},
		"Entra ID": {
			{"RS256", map[string]any{
				"iss": entra, "aud": "66666666-7777-8888-9999-000000000000", "ver": "2.0", "oid": "aaaa", "sub": "pairwise", "scp": "mcp.use", "tid": "1111",
			}, "entra:aaaa"},
			{"RS256", map[string]any{"iss": "https://sts.windows.net/11111111-2222-3333-4444-555555555555/", "ver": "1.0"}, "the token is of an unknown issuer"},
			{"RS256", map[string]any{"aud": "00000003-0000-0000-c000-000000000000"}, "the token is for another audience"},
			{"RS256", map[string]any{"scp": "other.use"}, "requests need the scope " + documentedResource + "/mcp.use"},
			{"RS256", map[string]any{"scp": nil, "roles": []string{"mcp.use"}}, "requests need the scope " + documentedResource + "/mcp.use"}, // an application
		},
		"Okta": {
			{"RS256", map[string]any{
				"iss": "https://example.okta.com/oauth2/aus1a2b3c4d5e6f7g8h9", "aud": documentedResource, "sub": "ann@example.com", "uid": "00u1", "cid": "0oa1", "scp": []string{"openid", "mcp:use"},
			}, "okta:00u1"},
			{"RS256", map[string]any{"iss": "https://example.okta.com", "aud": "https://example.okta.com"}, "the token is of an unknown issuer"}, // the org's
			{"RS256", map[string]any{"uid": nil}, "the token is malformed"},
		},
		"Auth0": {
			{"RS256", map[string]any{
				"iss": "https://example.eu.auth0.com/", "aud": []string{documentedResource, "https://example.eu.auth0.com/userinfo"}, "sub": "auth0|507f1f77bcf86cd799439020", "scope": "openid mcp:use", "azp": "a",
			}, "auth0:auth0|507f1f77bcf86cd799439020"},
			{"RS256", map[string]any{"iss": "https://example.eu.auth0.com"}, "the token is of an unknown issuer"}, // without the slash
		},
		"Google": {
			{"RS256", map[string]any{
				"iss": "https://accounts.google.com", "aud": documentedResource, "azp": "110248495921238986420", "sub": "110248495921238986420",
				"email": "ci@my-project.iam.gserviceaccount.com", "email_verified": true,
			}, "google:110248495921238986420"},
			{"RS256", map[string]any{"sub": "110248495921238986421"}, "the principal of the token is empty"}, // any other account
		},
		"GitHub": {
			{"RS256", map[string]any{
				"iss": "https://token.actions.githubusercontent.com", "aud": documentedResource, "sub": "repo:example/app:ref:refs/heads/main",
				"repository": "example/app", "repository_owner": "example", "repository_owner_id": "65",
			}, "actions:example/app"},
			{"RS256", map[string]any{"repository": "mallory/app", "repository_owner": "mallory"}, "the principal of the token is empty"},
		},
		"Cloudflare Access": {
			{"RS256", map[string]any{
				"iss": "https://example.cloudflareaccess.com", "aud": []string{"4714c1358e65fe4b408ad6d432a5f878f08194bdb4752441fd56faefa9b2b6f2"}, "sub": "7335d417", "type": "app",
				"email": "ann@example.com", "identity_nonce": "6ei69kawdKzMIAPF",
			}, "access:7335d417"},
			{"RS256", map[string]any{"aud": []string{"another"}}, "the token is for another audience"},
		},
		"Google IAP": {
			{"ES256", map[string]any{
				"iss": "https://cloud.google.com/iap", "aud": "/projects/123456789012/global/backendServices/1234567890123456789", "sub": "accounts.google.com:117", "email": "ann@example.com",
			}, "iap:accounts.google.com:117"},
			{"ES256", map[string]any{"aud": "/projects/123456789012/global/backendServices/2"}, "the token is for another audience"},
		},
		"Pomerium": {
			{"ES256", map[string]any{"iss": "https://mcp.example.com/", "aud": "mcp.example.com", "sub": "ann", "groups": []string{"staff"}}, "pomerium:ann"},
			{"ES256", map[string]any{"aud": "wiki.example.com"}, "the token is for another audience"},
			{"ES256", map[string]any{"iss": "mcp.example.com"}, "the token is of an unknown issuer"}, // the default format
		},
		"oauth2-proxy": {
			{"RS256", map[string]any{"iss": "https://id.example.com/realms/corp", "aud": documentedResource, "sub": "8f3a"}, "corp:8f3a"},
			{"RS256", map[string]any{"aud": "oauth2-proxy", "nonce": "n"}, "the token is for another audience"}, // an ID token
		},
	}
}

type documentedToken struct {
	algorithm string
	claims    map[string]any // nil removes one
	want      string
}

// TestDocumentedProviders checks that the configuration that the page has for each provider
// accepts a token as the provider issues it, and refuses those that the page names.
func TestDocumentedProviders(t *testing.T) {
	examples, tokens := providerExamples(t), documentedTokens()
	if got, want := slices.Sorted(maps.Keys(examples)), slices.Sorted(maps.Keys(tokens)); !slices.Equal(got, want) {
		t.Fatalf("the page has examples for %q, and there are tokens for %q", got, want)
	}
	issuer := newTokenIssuer(t)
	t.Chdir(t.TempDir())
	for name, text := range examples {
		for _, file := range regexp.MustCompile(`keys: (\S+\.json)`).FindAllStringSubmatch(text, -1) {
			if err := os.WriteFile(file[1], issuer.keySet, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cfg, err := config.Parse("signalbox.yaml", []byte(text), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		chain := issuer.chain(t, cfg)
		claims := make(map[string]any)
		for i, token := range tokens[name] {
			changed := maps.Clone(claims)
			maps.Copy(changed, token.claims)
			if i == 0 {
				claims = changed
			}
			maps.DeleteFunc(changed, func(_ string, value any) bool { return value == nil })
			if got := authenticated(t, chain, cfg.Auth.Issuers[0].Header, issuer.token(t, token.algorithm, changed)); got != token.want {
				t.Errorf("%s: a token with %v is %q, want %q", name, token.claims, got, token.want)
			}
		}
	}
}

// authenticated returns the principal of a request with a token in a header, or why it is
// refused.
func authenticated(t *testing.T, chain *auth.Chain, header, token string) string {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, documentedResource, http.NoBody)
	if header == "" {
		header, token = "Authorization", "Bearer "+token
	}
	r.Header.Set(header, token)
	identity, err := chain.Authenticate(r)
	if denial, ok := errors.AsType[*server.Denial](err); ok {
		return denial.Message
	}
	if err != nil {
		t.Fatal(err)
	}
	return identity.Principal
}
