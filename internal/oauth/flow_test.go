// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// authServer is an authorization server that refuses what lacks PKCE, resource, or a
// registered redirect URI, and rotates refresh tokens.
type authServer struct {
	*peer
	resource string

	mu       sync.Mutex
	clients  map[string]string     // client id to redirect URI
	codes    map[string]url.Values // code to its authorization request
	refresh  map[string]url.Values // refresh token, likewise
	sequence int
}

func newAuthServer(t *testing.T, resource string) *authServer {
	s := &authServer{peer: newPeer(t), resource: resource, clients: make(map[string]string), codes: make(map[string]url.Values), refresh: make(map[string]url.Values)}
	s.answer(wellKnownServer, 200, metadata(s.URL).with(object{
		"authorization_response_iss_parameter_supported": true, "scopes_supported": []string{"read", "offline_access"},
		"token_endpoint_auth_methods_supported": []string{"client_secret_post"},
	}))
	s.handle("/register", s.register)
	s.handle("/token", s.locked(s.token))
	s.handle("/revoke", s.locked(func(form url.Values) (int, object) {
		delete(s.refresh, form.Get("token"))
		return 200, object{}
	}))
	return s
}

func (s *authServer) next(kind string) string {
	s.sequence++
	return fmt.Sprintf("%s-%d", kind, s.sequence)
}

func (s *authServer) register(w http.ResponseWriter, _ *http.Request) {
	redirects, _ := s.object()["redirect_uris"].([]any)
	s.mu.Lock()
	id := s.next("client")
	s.clients[id], _ = redirects[0].(string)
	s.mu.Unlock()
	text, _ := json.Marshal(object{"client_id": id, "client_secret": "secret of " + id, "token_endpoint_auth_method": "client_secret_post"})
	writeJSON(w, 201, text)
}

// authorize is what a browser does, with a user that agrees. It returns the query of the
// redirect.
func (s *authServer) authorize(t *testing.T, text string) url.Values {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q := u.Query()
	out := url.Values{"state": q["state"], "iss": {s.URL}}
	if s.clients[q.Get("client_id")] != q.Get("redirect_uri") || q.Get("code_challenge_method") != "S256" || q.Get("resource") != s.resource {
		out.Set("error", "invalid_request")
		return out
	}
	code := s.next("code")
	s.codes[code] = q
	out.Set("code", code)
	return out
}

func (s *authServer) locked(f func(url.Values) (int, object)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		status, o := f(r.Form)
		s.mu.Unlock()
		text, _ := json.Marshal(o)
		writeJSON(w, status, text)
	}
}

func (s *authServer) token(form url.Values) (int, object) {
	id := form.Get("client_id")
	if s.clients[id] == "" || form.Get("client_secret") != "secret of "+id {
		return 401, object{"error": "invalid_client"}
	}
	from, key := s.codes, form.Get("code")
	if form.Get("grant_type") == "refresh_token" {
		from, key = s.refresh, form.Get("refresh_token")
	}
	asked, ok := from[key]
	delete(from, key)
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case !ok || asked.Get("client_id") != id || form.Get("resource") != s.resource:
		return 400, object{"error": "invalid_grant"}
	case form.Has("code") && (asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != form.Get("redirect_uri")):
		return 400, object{"error": "invalid_grant"}
	case !form.Has("code") && form.Get("scope") != asked.Get("scope"):
		return 400, object{"error": "invalid_scope"}
	}
	refresh := s.next("refresh")
	s.refresh[refresh] = asked
	return 200, object{"access_token": s.next("access"), "token_type": "Bearer", "expires_in": 60, "refresh_token": refresh, "scope": asked.Get("scope")}
}

// I6, I7, I10: a sign-in from the 401 to the revocation.
func TestSignIn(t *testing.T) {
	backend := newPeer(t)
	resource := backend.URL + "/mcp"
	as := newAuthServer(t, resource)
	backend.answer(wellKnownResource+"/mcp", 200, object{"resource": resource, "authorization_servers": []string{as.URL}})
	backend.handle("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("WWW-Authenticate", `Basic realm="x"`)
		w.Header().Add("WWW-Authenticate", `Bearer resource_metadata="`+backend.URL+wellKnownResource+`/mcp", scope="read"`)
		w.WriteHeader(401)
	})
	resp, err := backend.Client().Get(resource)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	challenge, ok := oauth.BearerChallenge(resp.Header)
	if !ok {
		t.Fatal("there is no challenge")
	}

	c := newClient(t, oauth.Config{Backend: resource})
	d, err := c.Discover(t.Context(), oauth.DiscoverOptions{Challenge: challenge, Code: true})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := c.Registration(t.Context(), d.Server, oauth.RegistrationOptions{Metadata: oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}}})
	if err != nil {
		t.Fatal(err)
	}
	scopes := oauth.ScopeSources{Challenge: challenge.Scopes, Resource: d.Scopes, Server: d.Server, Offline: true}.Scopes()
	a, err := oauth.Begin(oauth.AuthorizationRequest{Server: d.Server, Registration: reg, RedirectURI: loopbackRedirect, Resource: d.Resource, Scopes: scopes})
	if err != nil {
		t.Fatal(err)
	}
	code, err := a.Check(as.authorize(t, a.URL))
	if err != nil {
		t.Fatal(err)
	}
	first, err := c.Token(t.Context(), d.Server, reg, a.Grant(code))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(first.Scopes, " "); got != "read offline_access" {
		t.Errorf("the scopes are %q", got)
	}
	if _, err := c.Token(t.Context(), d.Server, reg, a.Grant(code)); !oauth.HasCode(err, oauth.CodeInvalidGrant) {
		t.Errorf("the code again: %v", err)
	}
	second, err := c.Token(t.Context(), d.Server, reg, oauth.Refresh(d.Server.Issuer, first.Refresh, d.Resource, first.Scopes))
	if err != nil || second.Access.Reveal() == first.Access.Reveal() {
		t.Fatalf("the second token is %v, %v", second, err)
	}
	if _, err := c.Token(t.Context(), d.Server, reg, oauth.Refresh(d.Server.Issuer, first.Refresh, d.Resource, first.Scopes)); !oauth.HasCode(err, oauth.CodeInvalidGrant) {
		t.Errorf("the rotated token: %v", err)
	}
	if err := c.Revoke(t.Context(), d.Server, reg, d.Server.Issuer, second.Refresh, true); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Token(t.Context(), d.Server, reg, oauth.Refresh(d.Server.Issuer, second.Refresh, d.Resource, second.Scopes)); !oauth.HasCode(err, oauth.CodeInvalidGrant) {
		t.Errorf("the revoked token: %v", err)
	}
}

// N1: no type of the package prints a credential.
func TestNothingPrints(t *testing.T) {
	const canary = "canary-0123456789"
	secret := mcp.NewToken(canary)
	a := &oauth.Authorization{Issuer: "i", Verifier: secret}
	signer := newSigner(t, "EdDSA")
	key, err := oauth.ParseSigningKey(pkcs8(t, signer))
	if err != nil {
		t.Fatal(err)
	}
	with, err := oauth.Refresh("i", secret, "r", nil).With(map[string]string{"x": canary})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{
		"authorization":     a,
		"code":              a.Grant(secret),
		"refresh":           oauth.Refresh("i", secret, "r", nil),
		"with":              with,
		"exchange":          oauth.Exchange{Issuer: "i", Subject: secret},
		"exchange grant":    oauth.Exchange{Issuer: "i", Subject: secret}.Grant(),
		"ID-JAG":            oauth.Exchange{Issuer: "i", Subject: secret}.IDJAG(),
		"assertion":         oauth.JWTBearer("i", secret, "", nil),
		"registration":      oauth.Registration{Issuer: "i", Secret: secret, Key: key},
		"registration, too": &oauth.Registration{Issuer: "i", Secret: secret, Key: key},
		"tokens":            &oauth.Tokens{Access: secret, Refresh: secret, ID: secret},
		"key":               key,
		"key by value":      *key,
	}
	for name, v := range values {
		var out bytes.Buffer
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
			fmt.Fprintf(&out, verb+"\n", []any{v, &v, struct{ V any }{v}})
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", slog.Any("v", v))
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", slog.Any("v", v))
		if text, err := json.Marshal(v); err == nil {
			out.Write(text)
		}
		for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), base64.StdEncoding.EncodeToString([]byte(canary))} {
			if strings.Contains(out.String(), form) {
				t.Errorf("%s prints %q: %s", name, form, out.String())
			}
		}
		// fmt prints an Ed25519 key as a slice of bytes.
		for _, verb := range []string{"%d", "%x", "%X", "%#v"} {
			private := strings.Trim(fmt.Sprintf(verb, signer), "[]")
			if strings.Contains(out.String(), private[len("ed25519.PrivateKey{"):]) {
				t.Errorf("%s prints the key", name)
			}
		}
	}
}
