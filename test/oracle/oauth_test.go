// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/oauthex"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ours returns our challenges in the form of the SDK, or false for a form that it does not
// know: a challenge with token68, or with an empty value.
func ours(challenges []oauth.Challenge) (list []oauthex.Challenge, known bool) {
	for _, c := range challenges {
		if c.Token68 != "" || slices.Contains(slices.Collect(maps.Values(c.Params)), "") {
			return nil, false
		}
		list = append(list, oauthex.Challenge{Scheme: c.Scheme, Params: c.Params})
	}
	return list, true
}

// compareChallenges checks that both parsers agree about a header that ours accepts.
func compareChallenges(t *testing.T, field string) (compared bool) {
	t.Helper()
	got, err := oauth.ParseChallenges(field)
	if err != nil {
		return false
	}
	want, known := ours(got)
	if !known || isBeyondTheSDK(field) {
		return false
	}
	theirs, err := oauthex.ParseWWWAuthenticate([]string{field})
	if err != nil {
		t.Errorf("%q: the SDK refuses it: %v", field, err)
		return true
	}
	if diff := cmp.Diff(want, theirs); diff != "" {
		t.Errorf("%q: %s", field, diff)
	}
	return true
}

// isBeyondTheSDK reports whether a header has what RFC 9110 allows and the parser of the SDK
// does not: tabs, spaces around "=", an escape before the end of a quoted string, empty
// elements, and a comma right after a scheme.
func isBeyondTheSDK(field string) bool {
	if strings.ContainsAny(field, "\t") || strings.Contains(field, `\\`) {
		return true
	}
	plain := unquoted(field)
	for _, odd := range []string{" =", "= ", "==", ",,", "  "} {
		if strings.Contains(plain, odd) {
			return true
		}
	}
	for element := range strings.SplitSeq(plain, ",") {
		words := strings.Fields(element)
		// An element that is a scheme alone; the SDK takes what follows for its parameter.
		if len(words) == 0 || len(words) == 1 && !strings.Contains(words[0], "=") {
			return true
		}
	}
	return false
}

// unquoted returns a header without its quoted strings.
func unquoted(field string) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(field); i++ {
		switch {
		case field[i] == '\\' && quoted:
			i++
		case field[i] == '"':
			quoted = !quoted
			b.WriteByte('q')
		case !quoted:
			b.WriteByte(field[i])
		}
	}
	return b.String()
}

// I6: headers as servers write them mean the same to both.
func TestChallenges(t *testing.T) {
	schemes := []string{"Bearer", "bearer", "Basic", "DPoP", "Digest"}
	names := []string{"realm", "scope", "error", "resource_metadata", "ERROR_description", "algs", "nonce"}
	values := []string{`"https://h/.well-known/oauth-protected-resource/mcp?a=b,c"`, `"a b"`, "invalid_token", `"say \"x\", y=z"`, `"é"`, `"Bearer x"`, "1"}
	r := rand.New(rand.NewPCG(1, 2))
	compared := 0
	for range 20000 {
		var challenges []string
		for range 1 + r.IntN(3) {
			var params []string
			for _, i := range r.Perm(len(names))[:1+r.IntN(4)] {
				params = append(params, names[i]+"="+values[r.IntN(len(values))])
			}
			challenges = append(challenges, schemes[r.IntN(len(schemes))]+" "+strings.Join(params, []string{",", ", ", " , "}[r.IntN(3)]))
		}
		if compareChallenges(t, strings.Join(challenges, ", ")) {
			compared++
		}
	}
	if compared != 20000 {
		t.Errorf("%d headers of 20000 were compared", compared)
	}
}

// Any header that ours accepts means the same to the SDK, but for the forms above.
func FuzzChallenges(f *testing.F) {
	for _, seed := range []string{`Bearer a=b`, `Basic realm="simple", Newauth realm="apps", type=1, title="Login to \"apps\""`, `a b="c", d e=f`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, field string) { compareChallenges(t, field) })
}

// answering returns a server that sends one document for each path.
func answering(t *testing.T, document func(path string) any) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := document(r.URL.Path)
		if v == nil {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// I6: metadata of an authorization server that ours accepts, the SDK accepts, with the same
// values. Ours refuses more: an issuer or PKCE that only looks right.
func TestServerMetadata(t *testing.T) {
	const path = "/.well-known/oauth-authorization-server"
	tests := map[string]struct {
		change     func(doc map[string]any)
		ours, sdks bool
	}{
		"valid":                       {func(map[string]any) {}, true, true},
		"another issuer":              {func(doc map[string]any) { doc["issuer"] = "https://honest.example.com" }, false, false},
		"no issuer":                   {func(doc map[string]any) { delete(doc, "issuer") }, false, false},
		"no PKCE":                     {func(doc map[string]any) { delete(doc, "code_challenge_methods_supported") }, false, false},
		"only plain":                  {func(doc map[string]any) { doc["code_challenge_methods_supported"] = []string{"plain"} }, false, true},
		"javascript":                  {func(doc map[string]any) { doc["authorization_endpoint"] = "javascript:alert(1)" }, false, false},
		"http token endpoint":         {func(doc map[string]any) { doc["token_endpoint"] = "http://as.example.com/token" }, false, false},
		"no token endpoint":           {func(doc map[string]any) { delete(doc, "token_endpoint") }, false, true},
		"wrong type":                  {func(doc map[string]any) { doc["token_endpoint"] = 5 }, false, false},
		"members that are not of use": {func(doc map[string]any) { doc["x"] = map[string]any{"y": nil} }, true, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var issuer string
			s := answering(t, func(at string) any {
				if at != path {
					return nil
				}
				doc := map[string]any{
					"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
					"registration_endpoint": issuer + "/register", "scopes_supported": []string{"a"}, "response_types_supported": []string{"code"},
					"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
				}
				tt.change(doc)
				return doc
			})
			issuer = s.URL
			c, err := oauth.New(oauth.Config{Backend: s.URL + "/mcp"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Server(t.Context(), issuer, true)
			if (err == nil) != tt.ours {
				t.Errorf("ours: %v", err)
			}
			want, err := oauthex.GetAuthServerMeta(t.Context(), s.URL+path, issuer, s.Client())
			if (err == nil) != tt.sdks {
				t.Errorf("the SDK's: %v", err)
			}
			if got == nil || want == nil {
				return
			}
			if got.Issuer != want.Issuer || got.AuthorizationEndpoint != want.AuthorizationEndpoint || got.TokenEndpoint != want.TokenEndpoint ||
				got.RegistrationEndpoint != want.RegistrationEndpoint || !slices.Equal(got.Scopes, want.ScopesSupported) || got.ResponseIss != want.AuthorizationResponseIssParameterSupported {
				t.Errorf("ours is %+v, the SDK's %+v", got, want)
			}
		})
	}
}

// tokenServer records the requests to a token endpoint.
type tokenServer struct {
	*httptest.Server

	mu    sync.Mutex
	forms []url.Values
	auths []string
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			t.Error(err)
		}
		s.mu.Lock()
		s.forms = append(s.forms, form)
		s.auths = append(s.auths, r.Header.Get("Authorization"))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"access_token":"AT","token_type":"bearer","refresh_token":"RT2","expires_in":1800}`)
	}))
	t.Cleanup(s.Close)
	return s
}

// I7, I10: what x/oauth2 sends, ours sends, and besides it the resource, and the scopes of a
// refresh. Both read the same tokens of the response.
func TestTokenRequests(t *testing.T) {
	const id, secret, resource, redirect = "client +1", "s3 c:r/t", "https://MCP.example.com/a%2Fb", "http://127.0.0.1:1/cb"
	verifier := oauth2.GenerateVerifier()
	for _, style := range []struct {
		theirs oauth2.AuthStyle
		ours   string
	}{{oauth2.AuthStyleInHeader, oauth.MethodBasic}, {oauth2.AuthStyleInParams, oauth.MethodPost}} {
		cfg := func(s *tokenServer) *oauth2.Config {
			return &oauth2.Config{ClientID: id, ClientSecret: secret, RedirectURL: redirect, Endpoint: oauth2.Endpoint{TokenURL: s.URL + "/token", AuthStyle: style.theirs}}
		}
		tests := map[string]struct {
			theirs func(ctx context.Context, s *tokenServer) (*oauth2.Token, error)
			ours   func(s *tokenServer) oauth.Grant
			more   url.Values // that ours sends
		}{
			"code": {
				func(ctx context.Context, s *tokenServer) (*oauth2.Token, error) {
					return cfg(s).Exchange(ctx, "CODE", oauth2.VerifierOption(verifier))
				},
				func(s *tokenServer) oauth.Grant {
					a := &oauth.Authorization{Issuer: s.URL, Verifier: mcp.NewToken(verifier), RedirectURI: redirect, Resource: resource}
					return a.Grant(mcp.NewToken("CODE"))
				},
				url.Values{"resource": {resource}},
			},
			"refresh": {
				func(ctx context.Context, s *tokenServer) (*oauth2.Token, error) {
					return cfg(s).TokenSource(ctx, &oauth2.Token{RefreshToken: "RT", Expiry: time.Now().Add(-time.Hour)}).Token()
				},
				func(s *tokenServer) oauth.Grant {
					return oauth.Refresh(s.URL, mcp.NewToken("RT"), resource, []string{"a", "b"})
				},
				url.Values{"resource": {resource}, "scope": {"a b"}},
			},
			"client credentials": {
				func(ctx context.Context, s *tokenServer) (*oauth2.Token, error) {
					c := clientcredentials.Config{ClientID: id, ClientSecret: secret, TokenURL: s.URL + "/token", Scopes: []string{"a", "b"}, AuthStyle: style.theirs}
					return c.Token(ctx)
				},
				func(s *tokenServer) oauth.Grant { return oauth.ClientCredentials(s.URL, resource, []string{"a", "b"}) },
				url.Values{"resource": {resource}},
			},
		}
		for name, tt := range tests {
			t.Run(fmt.Sprintf("%s/%s", style.ours, name), func(t *testing.T) {
				s := newTokenServer(t)
				ctx := context.WithValue(t.Context(), oauth2.HTTPClient, s.Client())
				theirs, err := tt.theirs(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				c, err := oauth.New(oauth.Config{Backend: s.URL + "/mcp"})
				if err != nil {
					t.Fatal(err)
				}
				server := &oauth.Server{Issuer: s.URL, TokenEndpoint: s.URL + "/token"}
				reg := &oauth.Registration{Issuer: s.URL, ClientID: id, Secret: mcp.NewToken(secret), Method: style.ours}
				got, err := c.Token(t.Context(), server, reg, tt.ours(s))
				if err != nil {
					t.Fatal(err)
				}
				want := s.forms[0]
				maps.Copy(want, tt.more)
				if diff := cmp.Diff(want, s.forms[1]); diff != "" {
					t.Error(diff)
				}
				if s.auths[0] != s.auths[1] {
					t.Errorf("Authorization is %q, want %q", s.auths[1], s.auths[0])
				}
				if got.Access.Reveal() != theirs.AccessToken || got.Refresh.Reveal() != theirs.RefreshToken || got.Expires.Sub(theirs.Expiry).Abs() > time.Minute {
					t.Errorf("ours is %v until %v, theirs until %v", got, got.Expires, theirs.Expiry)
				}
			})
		}
	}
}

// The challenge of PKCE is that of x/oauth2, and so is the URL, but for the resource.
func TestAuthorizationURL(t *testing.T) {
	server := &oauth.Server{Issuer: "https://as.example.com", AuthorizationEndpoint: "https://as.example.com/authorize?tenant=1", S256: true}
	a, err := oauth.Begin(oauth.AuthorizationRequest{
		Server: server, Registration: &oauth.Registration{Issuer: server.Issuer, ClientID: "client +1"},
		RedirectURI: "http://127.0.0.1:1/cb", Resource: "https://h/x", Scopes: []string{"a", "b"},
	})
	if err != nil {
		t.Fatal(err)
	}
	cfg := oauth2.Config{ClientID: "client +1", RedirectURL: "http://127.0.0.1:1/cb", Scopes: []string{"a", "b"}, Endpoint: oauth2.Endpoint{AuthURL: server.AuthorizationEndpoint}}
	want, err := url.Parse(cfg.AuthCodeURL(a.State, oauth2.S256ChallengeOption(a.Verifier.Reveal()), oauth2.SetAuthURLParam("resource", "https://h/x")))
	if err != nil {
		t.Fatal(err)
	}
	got, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Query(), got.Query()); diff != "" {
		t.Error(diff)
	}
}
