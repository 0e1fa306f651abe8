// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/internal/auth"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/oidc"
	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	publicURL    = "https://mcp.example.com"
	providerURL  = "https://id.example.com"
	clientSecret = "canary-secret-of-the-client"
)

// providerKeys are the key of the provider and that of another one, made once.
var providerKeys = sync.OnceValue(func() (keys [2]crypto.Signer) {
	for i := range keys {
		keys[i], _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	}
	return keys
})

// identityProvider is an OpenID provider, as an http.RoundTripper. Its tokens can have faults.
type identityProvider struct {
	t *testing.T

	mu     sync.Mutex
	codes  map[string]url.Values // the authorization requests
	users  map[string]string     // by code
	asked  int                   // token requests
	reads  int                   // of the metadata
	fault  func(*idToken)        // of the next tokens, or nil
	token  http.HandlerFunc      // answers token requests instead, or nil
	isDown bool
}

// idToken is a token that is about to be issued.
type idToken struct {
	header, claims map[string]any
	key            crypto.Signer
	sign           func(input string) []byte // instead of the key
	omit           bool
}

func (p *identityProvider) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w.Result(), nil
}

func (p *identityProvider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := func(status int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v) // a recorder has no errors
	}
	if p.isDown {
		answer(http.StatusInternalServerError, nil)
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		p.reads++
		answer(200, map[string]any{
			"issuer": providerURL, "authorization_endpoint": providerURL + "/authorize", "token_endpoint": providerURL + "/token", "jwks_uri": providerURL + "/keys",
			"authorization_response_iss_parameter_supported": true, "subject_types_supported": []string{"public"}, // and nothing of PKCE, as at some
		})
	case "/keys":
		answer(200, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: providerKeys()[0].Public(), KeyID: "1", Use: "sig"}}})
	case "/token":
		p.asked++
		if p.token != nil {
			p.token(w, r)
			return
		}
		_ = r.ParseForm() // an invalid form has no values
		request, code := p.codes[r.PostForm.Get("code")], r.PostForm.Get("code")
		id, secret, _ := r.BasicAuth()
		sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
		if request == nil || id != "gw-web" || secret != clientSecret || r.PostForm.Get("redirect_uri") != request.Get("redirect_uri") ||
			base64.RawURLEncoding.EncodeToString(sum[:]) != request.Get("code_challenge") {
			answer(400, map[string]string{"error": "invalid_grant", "error_description": "evil text"})
			return
		}
		delete(p.codes, code)
		out := map[string]any{"access_token": "canary-access-token", "token_type": "Bearer", "expires_in": 300}
		if text, ok := p.idToken(request, p.users[code]); ok {
			out["id_token"] = text
		}
		answer(200, out)
	default:
		http.NotFound(w, r)
	}
}

// idToken returns the token for an authorization request.
func (p *identityProvider) idToken(request url.Values, user string) (text string, ok bool) {
	now := time.Now()
	k := &idToken{
		header: map[string]any{"alg": "ES256", "kid": "1"}, key: providerKeys()[0],
		claims: map[string]any{
			"iss": providerURL, "sub": user, "aud": "gw-web", "nonce": request.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		},
	}
	if p.fault != nil {
		p.fault(k)
	}
	if k.omit {
		return "", false
	}
	maps.DeleteFunc(k.claims, func(_ string, v any) bool { return v == nil })
	var parts []string
	for _, part := range []any{k.header, k.claims} {
		raw, err := json.Marshal(part)
		if err != nil {
			p.t.Error(err)
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(raw))
	}
	input := strings.Join(parts, ".")
	if k.sign != nil {
		return input + "." + base64.RawURLEncoding.EncodeToString(k.sign(input)), true
	}
	key, _ := k.key.(*ecdsa.PrivateKey)
	sum := sha256.Sum256([]byte(input))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		p.t.Error(err)
	}
	signature := slices.Concat(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32)))
	return input + "." + base64.RawURLEncoding.EncodeToString(signature), true
}

// authorize lets a user agree to an authorization request, and returns the response.
func (p *identityProvider) authorize(address, user string) url.Values {
	p.t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		p.t.Fatal(err)
	}
	q := u.Query()
	for name, want := range map[string]string{
		"response_type": "code", "client_id": "gw-web", "redirect_uri": publicURL + PathIdentity, "code_challenge_method": "S256", "scope": "openid profile",
	} {
		if got := q.Get(name); got != want {
			p.t.Errorf("the authorization request has the %s %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(address, providerURL+"/authorize?") || len(q.Get("state")) < 22 || len(q.Get("nonce")) < 22 || len(q.Get("code_challenge")) != 43 {
		p.t.Errorf("the authorization request is %s", address)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	code := "canary-code-" + rand.Text()
	p.codes[code], p.users[code] = q, user
	return url.Values{"state": {q.Get("state")}, "iss": {providerURL}, "code": {code}}
}

func (p *identityProvider) set(change func(*identityProvider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// identityFixture is a Desk for users with accounts at a provider, with the grants of a backend.
type identityFixture struct {
	*fixture
	t        *testing.T
	provider *identityProvider
	tokens   *oidc.Tokens
	log      *strings.Builder

	mu     sync.Mutex
	events []Event
}

// withProvider runs f in a bubble.
func withProvider(t *testing.T, configure func(*Config), f func(*testing.T, *identityFixture)) {
	t.Helper()
	providerKeys() // outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		x := &identityFixture{fixture: new(fixture), t: t, log: new(strings.Builder)}
		x.provider = &identityProvider{t: t, codes: make(map[string]url.Values), users: make(map[string]string)}
		log := slog.New(slog.NewTextHandler(&lockedWriter{w: x.log}, &slog.HandlerOptions{Level: slog.LevelDebug}))
		var err error
		if x.vault, err = vault.Open(t.Context(), vault.Options{Folder: filepath.Join(t.TempDir(), "credentials"), Keys: [][]byte{make([]byte, vault.MinKey)}, Log: log}); err != nil {
			t.Fatal(err)
		}
		expression, err := principal.Compile("claims", "claims.sub")
		if err != nil {
			t.Fatal(err)
		}
		chain, err := auth.New(auth.Config{
			PublicURL: publicURL, Path: "/mcp", Transport: x.provider, Logger: log,
			Issuers: []auth.Issuer{{Name: "corp", URL: providerURL, Principal: expression, Skew: 30 * time.Second}},
		})
		if err != nil {
			t.Fatal(err)
		}
		requests, err := oauth.New(oauth.Config{Backend: providerURL, Issuer: providerURL, Transport: x.provider})
		if err != nil {
			t.Fatal(err)
		}
		x.tokens = oidc.NewTokens(func() (*vault.Vault, error) { return x.vault.Vault, nil }, providerURL, "gw-web", log)
		cfg := Config{
			PublicURL: publicURL, IDTokens: x.tokens, Keep: x.tokens.Keep, Logger: log,
			Open: func() (string, func(), error) {
				x.open.Add(1)
				return publicURL, func() { x.open.Add(-1) }, nil
			},
			Provider: oidc.New(oidc.Config{
				Client: oauth.Registration{Issuer: providerURL, ClientID: "gw-web", Secret: mcp.NewToken(clientSecret)}, Scopes: []string{"profile"}, OAuth: requests, Logger: log,
				Verify: func(ctx context.Context, nonce string, token mcp.Token) (string, time.Time, error) {
					return chain.VerifyIDToken(ctx, auth.IDTokenRequest{Issuer: "corp", ClientID: "gw-web", Nonce: nonce}, token)
				},
			}),
			Event: func(_ context.Context, e Event) {
				x.mu.Lock()
				defer x.mu.Unlock()
				x.events = append(x.events, e)
			},
		}
		if configure != nil {
			configure(&cfg)
		}
		if x.desk, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		backend, err := oauth.New(oauth.Config{Backend: backendURL, Transport: backendServers()})
		if err != nil {
			t.Fatal(err)
		}
		if x.source, err = grant.NewSource(grant.SourceConfig{Backend: "crm", URL: backendURL, OAuth: backend, Vault: x.vault.Vault}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { chain.Run(ctx) })    // ends with ctx
		running.Go(func() { x.tokens.Run(ctx) }) // ends with ctx
		f(t, x)
		x.close()
		cancel()
		running.Wait()
		if text := x.log.String(); strings.Contains(text, "canary") {
			t.Errorf("the log has a credential, or a text of the provider:\n%s", text)
		}
	})
}

// lockedWriter is a writer for several goroutines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// backendServers are the backend and its authorization server, as far as a page needs them.
func backendServers() http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/.well-known/oauth-protected-resource/mcp":
			_, _ = w.WriteString(`{"resource":"` + backendURL + `","authorization_servers":["https://as.example"]}`)
		case "/.well-known/oauth-authorization-server":
			_, _ = w.WriteString(`{"issuer":"https://as.example","authorization_endpoint":"https://as.example/authorize","token_endpoint":"https://as.example/token","registration_endpoint":"https://as.example/register","code_challenge_methods_supported":["S256"]}`)
		case "/register":
			w.WriteHeader(http.StatusCreated)
			_, _ = w.WriteString(`{"client_id":"c","redirect_uris":["` + publicURL + PathCallback + `"]}`)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
		return w.Result(), nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kindsOf returns the kinds of the events, except that of the beginning.
func (x *identityFixture) kindsOf() (kinds []EventKind) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.events {
		if e.Kind != Begun {
			kinds = append(kinds, e.Kind)
		}
	}
	return kinds
}

// beginIdentity begins a sign-in at the provider alone, for a backend.
func (x *identityFixture) beginIdentity(principal string) *pending {
	x.t.Helper()
	p, err := x.desk.begin(context.Background(), &grant.Missing{Backend: "tickets", Principal: principal, Reason: grant.NoIDToken}, nil)
	if err != nil {
		x.t.Fatal(err)
	}
	return p
}

// visitor is a browser.
type visitor struct {
	desk    *Desk
	address string
	cookies map[string]string
}

func (x *identityFixture) visitor() *visitor {
	return &visitor{x.desk, "192.0.2.1:1000", make(map[string]string)}
}

// do sends a request as a page of the Desk does.
func (v *visitor) do(method, target string, form url.Values) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, publicURL+target, strings.NewReader(form.Encode()))
	r.RemoteAddr = v.address
	if method == http.MethodPost {
		r.Header.Set("Origin", publicURL)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for name, value := range v.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	v.desk.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() {
		v.cookies[c.Name] = c.Value
		if c.MaxAge < 0 {
			delete(v.cookies, c.Name)
		}
	}
	return w
}

var toProvider = url.Values{providerField: {"1"}}

// signIn goes from a page to the provider and back, and returns the answer to that.
func (v *visitor) signIn(x *identityFixture, id, user string, change func(url.Values)) *httptest.ResponseRecorder {
	x.t.Helper()
	w := v.do(http.MethodPost, PathPages+id, toProvider)
	if w.Code != http.StatusSeeOther {
		x.t.Fatalf("status %d\n%s", w.Code, w.Body)
	}
	response := x.provider.authorize(w.Header().Get("Location"), user)
	if change != nil {
		change(response)
	}
	return v.do(http.MethodGet, PathIdentity+"?"+response.Encode(), nil)
}

func hs256(input string) []byte {
	mac := hmac.New(sha256.New, []byte(clientSecret))
	mac.Write([]byte(input))
	return mac.Sum(nil)
}
