// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const testIssuer = "https://as.example.com/t"

func testServer() *oauth.Server {
	return &oauth.Server{
		Issuer: testIssuer, AuthorizationEndpoint: testIssuer + "/authorize", TokenEndpoint: testIssuer + "/token",
		S256: true,
	}
}

func testRequest() oauth.AuthorizationRequest {
	return oauth.AuthorizationRequest{
		Server:       testServer(),
		Registration: &oauth.Registration{Issuer: testIssuer, ClientID: "client 1&x"},
		RedirectURI:  "http://127.0.0.1:8765/callback?a=b",
		Resource:     "https://MCP.example.com/a%2Fb/?x=ü",
		Scopes:       []string{"a", "b:c"},
		Parameters:   map[string]string{"audience": "x y", "prompt": "consent"},
	}
}

// I7: PKCE, state and resource in the request. The resource has the bytes that were
// published.
func TestBegin(t *testing.T) {
	r := testRequest()
	a, err := oauth.Begin(r)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(a.URL)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(a.Verifier.Reveal()))
	want := url.Values{
		"response_type": {"code"}, "client_id": {"client 1&x"}, "redirect_uri": {r.RedirectURI},
		"state": {a.State}, "code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
		"scope": {"a b:c"}, "resource": {r.Resource}, "audience": {"x y"}, "prompt": {"consent"},
	}
	if diff := cmp.Diff(want, u.Query()); diff != "" {
		t.Error(diff)
	}
	if got := strings.TrimSuffix(a.URL, "?"+u.RawQuery); got != testIssuer+"/authorize" {
		t.Errorf("the endpoint is %q", got)
	}
	// RFC 7636, section 4.1, and RFC 6749, section 10.10.
	if n := len(a.Verifier.Reveal()); n < 43 || n > 128 {
		t.Errorf("the verifier has %d characters", n)
	}
	if b, err := oauth.Begin(r); err != nil || b.State == a.State || b.Verifier.Reveal() == a.Verifier.Reveal() || len(a.State) < 22 {
		t.Errorf("the state or the verifier is not random: %v", err)
	}
	if a.Issuer != testIssuer || a.IssExpected {
		t.Errorf("the recorded issuer is %q, iss is expected: %v", a.Issuer, a.IssExpected)
	}
}

func TestBeginVariants(t *testing.T) {
	t.Run("omitted", func(t *testing.T) {
		r := testRequest()
		r.Resource, r.Scopes, r.Parameters = "", nil, nil
		a, err := oauth.Begin(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(a.URL, "resource") || strings.Contains(a.URL, "scope") {
			t.Errorf("the URL is %q", a.URL)
		}
	})
	t.Run("a nonce", func(t *testing.T) {
		r := testRequest()
		r.Nonce = "n-1"
		a, err := oauth.Begin(r)
		if err != nil || !strings.Contains(a.URL, "&nonce=n-1&") {
			t.Errorf("%v, %+v", err, a)
		}
		// Instead of the word of the server that it supports PKCE, it is enough for a client
		// with a credential.
		r.Server.S256 = false
		if _, err := oauth.Begin(r); err == nil {
			t.Error("a public client without PKCE")
		}
		r.Registration.Secret = mcp.NewToken("s")
		if a, err := oauth.Begin(r); err != nil || !strings.Contains(a.URL, "code_challenge_method=S256") {
			t.Errorf("a client with a secret: %v", err)
		}
		r.Nonce = ""
		if _, err := oauth.Begin(r); err == nil {
			t.Error("without a nonce and PKCE")
		}
	})
	t.Run("a query of the endpoint", func(t *testing.T) {
		r := testRequest()
		r.Server.AuthorizationEndpoint += "?tenant=%2F"
		a, err := oauth.Begin(r)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(a.URL, testIssuer+"/authorize?tenant=%2F&") {
			t.Errorf("the URL is %q", a.URL)
		}
	})
	t.Run("fixed paths", func(t *testing.T) {
		r := testRequest()
		r.Server.S256, r.Server.FixedPaths = false, true
		a, err := oauth.Begin(r)
		if err != nil || !strings.Contains(a.URL, "code_challenge_method=S256") {
			t.Errorf("the URL is %q, %v", a.URL, err)
		}
	})
}

func TestBeginErrors(t *testing.T) {
	tests := map[string]struct {
		change func(*oauth.AuthorizationRequest)
		check  oauth.Check
	}{
		"no PKCE":               {func(r *oauth.AuthorizationRequest) { r.Server.S256 = false }, oauth.CheckPKCE},
		"no endpoint":           {func(r *oauth.AuthorizationRequest) { r.Server.AuthorizationEndpoint = "" }, oauth.CheckEndpoint},
		"javascript":            {func(r *oauth.AuthorizationRequest) { r.Server.AuthorizationEndpoint = "javascript:alert(1)" }, oauth.CheckEndpoint},
		"an option":             {func(r *oauth.AuthorizationRequest) { r.Server.AuthorizationEndpoint = "--help" }, oauth.CheckEndpoint},
		"another server's":      {func(r *oauth.AuthorizationRequest) { r.Registration.Issuer = "https://other.example.com" }, oauth.CheckCredential},
		"nothing is registered": {func(r *oauth.AuthorizationRequest) { r.Registration.Issuer = "" }, oauth.CheckCredential},
		"a parameter of ours":   {func(r *oauth.AuthorizationRequest) { r.Parameters = map[string]string{"State": "x"} }, oauth.CheckParameter},
		"resource":              {func(r *oauth.AuthorizationRequest) { r.Parameters = map[string]string{"resource": "x"} }, oauth.CheckParameter},
		"request object":        {func(r *oauth.AuthorizationRequest) { r.Parameters = map[string]string{"request_uri": "x"} }, oauth.CheckParameter},
		"a parameter without a name": {
			func(r *oauth.AuthorizationRequest) { r.Parameters = map[string]string{"": "x"} }, oauth.CheckParameter,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := testRequest()
			tt.change(&r)
			_, err := oauth.Begin(r)
			wantCheck(t, err, tt.check)
		})
	}
	r := testRequest()
	r.RedirectURI = ""
	if _, err := oauth.Begin(r); err == nil {
		t.Error("there is no error without a redirect URI")
	}
}

// I8, identity attacks 21, 22 and N9: state, then iss by the table of RFC 9207, then error.
// No error shows the response, unless it is known to be that of the server.
func TestCheckResponse(t *testing.T) {
	const text = "canary of the response"
	issuers := []struct {
		name     string
		promised bool
		iss      []string
		check    oauth.Check // "" is accepted
	}{
		{"promised, right", true, []string{testIssuer}, ""},
		{"promised, missing", true, nil, oauth.CheckResponseIssuer},
		{"promised, empty", true, []string{""}, oauth.CheckResponseIssuer},
		{"promised, wrong", true, []string{"https://evil.example.com"}, oauth.CheckResponseIssuer},
		{"not promised, right", false, []string{testIssuer}, ""},
		{"not promised, missing", false, nil, ""},
		{"not promised, wrong", false, []string{"https://evil.example.com"}, oauth.CheckResponseIssuer},
		{"not promised, empty", false, []string{""}, oauth.CheckResponseIssuer},
		{"a slash at the end", false, []string{testIssuer + "/"}, oauth.CheckResponseIssuer},
		{"the host in upper case", false, []string{"https://AS.example.com/t"}, oauth.CheckResponseIssuer},
		{"the scheme in upper case", false, []string{"HTTPS://as.example.com/t"}, oauth.CheckResponseIssuer},
		{"the default port", false, []string{"https://as.example.com:443/t"}, oauth.CheckResponseIssuer},
		{"an escape", false, []string{"https://as.example.com/%74"}, oauth.CheckResponseIssuer},
		{"twice", false, []string{testIssuer, testIssuer}, oauth.CheckResponse},
	}
	responses := map[string]url.Values{
		"code":           {"code": {"the code"}},
		"error":          {"error": {"access_denied"}, "error_description": {text}},
		"code and error": {"error": {"server_error"}, "error_description": {text}, "code": {"the code"}},
	}
	for _, tt := range issuers {
		for kind, response := range responses {
			t.Run(tt.name+"/"+kind, func(t *testing.T) {
				a := &oauth.Authorization{State: "the state", Issuer: testIssuer, IssExpected: tt.promised}
				query := url.Values{"state": {"the state"}}
				maps.Copy(query, response)
				if tt.iss != nil {
					query["iss"] = tt.iss
				}
				code, err := a.Check(query)
				switch {
				case tt.check != "":
					wantCheck(t, err, tt.check)
					for _, secret := range []string{text, "access_denied", "server_error", "the code", "evil"} {
						if strings.Contains(err.Error(), secret) || !code.IsZero() {
							t.Errorf("the response is shown: %v", err)
						}
					}
				case kind == "code":
					if err != nil || code.Reveal() != "the code" {
						t.Errorf("the code is %q, %v", code.Reveal(), err)
					}
				default:
					var refused *oauth.ServerError
					if !errors.As(err, &refused) || refused.Code != query.Get("error") || refused.Description != text || !code.IsZero() {
						t.Errorf("the error is %v", err)
					}
				}
			})
		}
	}
}

// Identity attack 22: another state, none, an empty one, or two.
func TestCheckState(t *testing.T) {
	for name, tt := range map[string]struct {
		query string
		check oauth.Check
	}{
		"other":                  {"state=other&code=x&error=y&iss=z", oauth.CheckState},
		"none":                   {"code=x", oauth.CheckState},
		"empty":                  {"state=&code=x", oauth.CheckState},
		"part":                   {"state=the&code=x", oauth.CheckState},
		"twice":                  {"state=the+state&state=the+state&code=x", oauth.CheckResponse},
		"two codes":              {"state=the+state&code=x&code=y", oauth.CheckResponse},
		"two errors":             {"state=the+state&error=x&error=y", oauth.CheckResponse},
		"neither code nor error": {"state=the+state", oauth.CheckResponse},
		"an empty code":          {"state=the+state&code=", oauth.CheckResponse},
	} {
		t.Run(name, func(t *testing.T) {
			query, err := url.ParseQuery(tt.query)
			if err != nil {
				t.Fatal(err)
			}
			_, err = (&oauth.Authorization{State: "the state", Issuer: testIssuer}).Check(query)
			wantCheck(t, err, tt.check)
		})
	}
	_, err := (&oauth.Authorization{Issuer: testIssuer}).Check(url.Values{"state": {""}, "code": {"x"}})
	wantCheck(t, err, oauth.CheckState)
}

// Text of a server is quoted and cut, and a code with other characters is left out.
func TestServerErrorText(t *testing.T) {
	a := &oauth.Authorization{State: "s", Issuer: testIssuer}
	_, err := a.Check(url.Values{"state": {"s"}, "error": {"x\r\n\x1b[31m"}, "error_description": {"a\nb\x1b[0m\u202e" + strings.Repeat("ü", 2000)}})
	text := err.Error()
	if strings.ContainsAny(text, "\r\n\x1b\u202e") || len(text) > 3000 {
		t.Errorf("the text is %q", text)
	}
	if oauth.HasCode(err, "x") || !oauth.HasCode(err, "") {
		t.Errorf("the error is %#v", err)
	}
}
