// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/test/browser"
	"github.com/signalbox-mcp/signalbox/test/tap"
)

// annID is the subject of ann at her identity provider.
const annID = "0e1d5cfa-97a1-4b5e-9a52-3a8f3c3ab001"

// exchangeRealm is realm with the gateway's client signalbox, which may exchange the tokens of the
// client app-exchange for the audience tickets.
func exchangeRealm(base string) object {
	r := realm(base)
	r["users"].([]object)[0]["id"] = annID
	r["clients"] = append(r["clients"].([]object),
		object{
			"clientId": "app-exchange", "publicClient": true, "enabled": true, "standardFlowEnabled": true, "redirectUris": []string{redirect},
			"attributes": object{"pkce.code.challenge.method": "S256"},
			"protocolMappers": []object{
				mapper("gateway", "oidc-audience-mapper", object{"included.custom.audience": audience, "access.token.claim": "true"}),
				mapper("requester", "oidc-audience-mapper", object{"included.client.audience": "signalbox", "access.token.claim": "true"}),
			},
		},
		object{
			"clientId": "signalbox", "secret": machineSecret, "publicClient": false, "enabled": true, "standardFlowEnabled": true, "redirectUris": []string{redirect},
			"attributes":      object{"standard.token.exchange.enabled": "true"},
			"protocolMappers": []object{mapper("tickets", "oidc-audience-mapper", object{"included.client.audience": "tickets", "access.token.claim": "true"})},
		},
		object{"clientId": "tickets", "enabled": true, "publicClient": false, "secret": "unused", "standardFlowEnabled": false},
	)
	return r
}

// partnerSecret is that of the gateway's client in the realm partner.
const partnerSecret = "partner-secret-0123456789"

// partnerRealm trusts the assertions of an identity provider.
func partnerRealm(corp string) object {
	return object{
		"realm": "partner", "enabled": true, "sslRequired": "none",
		"identityProviders": []object{{
			"alias": "corp", "providerId": "oidc", "enabled": true,
			"config": object{
				"issuer": corp, "authorizationUrl": corp + "/authorize", "tokenUrl": corp + "/token", "jwksUrl": corp + "/keys", "useJwksUrl": "true", "validateSignature": "true", "clientId": "partner", "clientSecret": "unused",
				"jwtAuthorizationGrantEnabled": "true", "jwtAuthorizationGrantAssertionReuseAllowed": "false", "jwtAuthorizationGrantMaxAllowedAssertionExpiration": "300",
			},
		}},
		"users": []object{{
			"username": "ann-at-partner", "enabled": true, "email": "ann@partner.example.com", "emailVerified": true, "firstName": "Ann", "lastName": "Lee",
			"federatedIdentities": []object{{"identityProvider": "corp", "userId": annID, "userName": "ann"}},
		}},
		"clients": []object{{
			"clientId": "signalbox-at-partner", "secret": partnerSecret, "publicClient": false, "enabled": true, "serviceAccountsEnabled": true,
			"attributes": object{"oauth2.jwt.authorization.grant.enabled": "true", "oauth2.jwt.authorization.grant.idp": "corp"},
		}},
	}
}

// claimsOf verifies a token of a realm, and returns its claims.
func claimsOf(t *testing.T, issuer, token string) map[string]any {
	t.Helper()
	var set jose.JSONWebKeySet
	getJSON(t, issuer+"/protocol/openid-connect/certs", &set)
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	var registered jwt.Claims
	var all map[string]any
	if err := parsed.Claims(set, &registered, &all); err != nil {
		t.Fatal(err)
	}
	if err := registered.Validate(jwt.Expected{Issuer: issuer, Time: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return all
}

// readAs calls the tool read with a token, or without one, and returns the token that the server got.
func (g *gateway) readAs(t *testing.T, token string) string {
	t.Helper()
	body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
	fields := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "read"}
	if token != "" {
		fields = append(fields, "Authorization", "Bearer "+token)
	}
	got := g.send(t, http.MethodPost, "/mcp", body, fields...)
	_, after, found := strings.Cut(got.body, "read with Bearer ")
	if got.status != http.StatusOK || !found {
		t.Fatalf("got %d %s", got.status, got.body)
	}
	text, _, _ := strings.Cut(after, `"`)
	return text
}

// vouching is an identity provider that gives assertions (ID-JAG) for its ID tokens, which
// Keycloak does not.
type vouching struct {
	*httptest.Server
	key *key

	mu         sync.Mutex
	assertions []string
}

func startVouching(t *testing.T) *vouching {
	t.Helper()
	v := &vouching{key: ellipticKey(t, "vouching")}
	reply := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(value) // the client has disconnected
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, object{"issuer": v.URL, "authorization_endpoint": v.URL + "/authorize", "token_endpoint": v.URL + "/token", "jwks_uri": v.URL + "/keys"})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: v.key.private.Public(), KeyID: v.key.id, Algorithm: string(v.key.algorithm), Use: "sig"}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.PostForm.Get("requested_token_type") != oauth.TypeIDJAG {
			http.Error(w, "not an exchange", http.StatusBadRequest)
			return
		}
		assertion := v.sign(t, "oauth-id-jag+jwt", object{
			"aud": r.PostForm.Get("audience"), "resource": r.PostForm.Get("resource"), "client_id": "signalbox-at-partner", "jti": fmt.Sprint(time.Now().UnixNano()),
		})
		v.mu.Lock()
		v.assertions = append(v.assertions, assertion)
		v.mu.Unlock()
		reply(w, object{"access_token": assertion, "token_type": "N_A", "issued_token_type": oauth.TypeIDJAG, "expires_in": 120})
	})
	v.Server = serve(t, mux)
	return v
}

// sign returns a JWT about ann.
func (v *vouching) sign(t *testing.T, kind string, claims object) string {
	t.Helper()
	now := time.Now()
	k := &token{header: map[string]any{"typ": kind, "kid": v.key.id}, claims: map[string]any{"iss": v.URL, "sub": annID, "iat": now.Unix(), "exp": now.Add(2 * time.Minute).Unix()}, key: v.key}
	for name, value := range claims {
		k = k.with(name, value)
	}
	return k.sign(t)
}

// Keycloak exchanges the token of a user for one with another audience (I14), with the standard
// token exchange of RFC 8693.
func TestKeycloakExchange(t *testing.T) {
	if !takesKeycloak(t) {
		return
	}
	issuer := startKeycloak(t, "", exchangeRealm) + "corp"
	backend := tap.Before(t, serve(t, tools()).URL)
	g := startGateway(t, object{
		"auth": object{"issuers": []object{{"name": "corp", "issuer": issuer, "audience": []string{audience}, "principal": "claims.preferred_username"}}},
		"mcpServers": object{"tools": object{"url": backend.URL + "/mcp", "prefix": "", "oauth": object{
			"grant": "exchange", "issuer": issuer, "clientId": "signalbox", "clientSecret": machineSecret, "audience": "tickets", "resource": "none",
		}}},
	})
	given := &oauth.Registration{ClientID: "app-exchange", Method: oauth.MethodNone, Source: oauth.SourceGiven}
	own := signInWith(t.Context(), t, g.URL, browser.New("ann"), oauth.RegistrationOptions{Given: given}).tokens.Access.Reveal()
	exchanged := g.readAs(t, own)
	if exchanged == own {
		t.Fatal("the server got the token of the user")
	}
	claims := claimsOf(t, issuer, exchanged)
	if claims["aud"] != "tickets" || claims["azp"] != "signalbox" || claims["sub"] != annID {
		t.Errorf("the server got a token for %v, of %v and %v", claims["aud"], claims["azp"], claims["sub"])
	}
	if again := g.readAs(t, own); again != exchanged {
		t.Error("the token was exchanged again")
	}
	for _, e := range backend.Passed() {
		if strings.Contains(e.Body+fmt.Sprint(e.Header), own) {
			t.Error("the server got the token of the user")
		}
	}
}

// Keycloak issues a token for an assertion (ID-JAG) of an identity provider that it trusts (I14).
func TestKeycloakIDJAG(t *testing.T) {
	if !takesKeycloak(t) {
		return
	}
	v := startVouching(t)
	base := startKeycloak(t, "identity-assertion-jwt,jwt-authorization-grant", func(string) object { return partnerRealm(v.URL) })
	file, idToken := filepath.Join(t.TempDir(), "id-token"), v.sign(t, "JWT", object{"aud": "signalbox"})
	if err := os.WriteFile(file, []byte(idToken), 0o600); err != nil {
		t.Fatal(err)
	}
	backend := tap.Before(t, serve(t, tools()).URL)
	g := startGateway(t, object{
		"mcpServers": object{"tools": object{"url": backend.URL + "/mcp", "prefix": "", "oauth": object{
			"as": "gateway", "grant": "idJag", "issuer": v.URL, "clientId": "signalbox", "clientSecret": machineSecret, "idToken": file,
			"authorizationServer": object{"issuer": base + "partner", "clientId": "signalbox-at-partner", "clientSecret": partnerSecret},
		}}},
	})
	claims := claimsOf(t, base+"partner", g.readAs(t, ""))
	if claims["preferred_username"] != "ann-at-partner" || claims["azp"] != "signalbox-at-partner" {
		t.Errorf("the server got a token of %v and %v", claims["azp"], claims["preferred_username"])
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, e := range backend.Passed() {
		if got := e.Body + fmt.Sprint(e.Header); strings.Contains(got, idToken) || strings.Contains(got, v.assertions[0]) {
			t.Error("the server got the ID token or the assertion")
		}
	}
}
