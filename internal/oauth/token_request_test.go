// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

// tokenWorld is an authorization server and a client of it.
type tokenWorld struct {
	*peer
	client *oauth.Client
	server *oauth.Server
	reg    *oauth.Registration
}

func newTokenWorld(t *testing.T) *tokenWorld {
	as := newPeer(t)
	as.answer("/token", 200, object{"access_token": "AT", "token_type": "Bearer", "expires_in": 3600})
	as.answer("/revoke", 200, object{})
	return &tokenWorld{
		peer:   as,
		client: newClient(t, oauth.Config{Backend: "http://127.0.0.1:1/mcp"}),
		server: &oauth.Server{
			Issuer: as.URL, TokenEndpoint: as.URL + "/token", RevocationEndpoint: as.URL + "/revoke",
			RegistrationEndpoint: as.URL + "/register",
		},
		reg: &oauth.Registration{Issuer: as.URL, ClientID: "client"},
	}
}

func (w *tokenWorld) token(t *testing.T, g oauth.Grant) (*oauth.Tokens, error) {
	t.Helper()
	return w.client.Token(t.Context(), w.server, w.reg, g)
}

const testResource = "https://MCP.example.com/a%2Fb/"

// I7, I14: the form of each grant. resource and scope are sent as granted, and nothing more.
func TestGrants(t *testing.T) {
	scopes := []string{"a", "b"}
	tests := map[string]struct {
		grant func(issuer string) oauth.Grant
		want  url.Values
	}{
		"code": {
			func(issuer string) oauth.Grant {
				a := &oauth.Authorization{Issuer: issuer, Verifier: mcp.NewToken("VER"), RedirectURI: "http://127.0.0.1:1/cb", Resource: testResource, Scopes: scopes}
				return a.Grant(mcp.NewToken("CODE"))
			},
			url.Values{"grant_type": {"authorization_code"}, "code": {"CODE"}, "code_verifier": {"VER"}, "redirect_uri": {"http://127.0.0.1:1/cb"}, "resource": {testResource}},
		},
		"refresh": {
			func(issuer string) oauth.Grant {
				return oauth.Refresh(issuer, mcp.NewToken("RT"), testResource, scopes)
			},
			url.Values{"grant_type": {"refresh_token"}, "refresh_token": {"RT"}, "resource": {testResource}, "scope": {"a b"}},
		},
		"client credentials": {
			func(issuer string) oauth.Grant { return oauth.ClientCredentials(issuer, testResource, scopes) },
			url.Values{"grant_type": {"client_credentials"}, "resource": {testResource}, "scope": {"a b"}},
		},
		"client credentials without resource and scopes": {
			func(issuer string) oauth.Grant { return oauth.ClientCredentials(issuer, "", nil) },
			url.Values{"grant_type": {"client_credentials"}},
		},
		"exchange": {
			func(issuer string) oauth.Grant {
				return oauth.Exchange{Issuer: issuer, Subject: mcp.NewToken("ST"), Audience: "tickets", Scopes: scopes}.Grant()
			},
			url.Values{
				"grant_type": {"urn:ietf:params:oauth:grant-type:token-exchange"}, "subject_token": {"ST"},
				"subject_token_type":   {"urn:ietf:params:oauth:token-type:access_token"},
				"requested_token_type": {"urn:ietf:params:oauth:token-type:access_token"}, "audience": {"tickets"}, "scope": {"a b"},
			},
		},
		"JWT bearer": {
			func(issuer string) oauth.Grant {
				return oauth.JWTBearer(issuer, mcp.NewToken("ASSERTION"), testResource, scopes)
			},
			url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {"ASSERTION"}, "resource": {testResource}, "scope": {"a b"}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			start := time.Now()
			grant, err := tt.grant(w.URL).With(map[string]string{"more": "x"})
			if err != nil {
				t.Fatal(err)
			}
			got, err := w.token(t, grant)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Set("client_id", "client")
			tt.want.Set("more", "x")
			if diff := cmp.Diff(tt.want, w.last().form); diff != "" {
				t.Error(diff)
			}
			if r := w.last(); r.method != http.MethodPost || r.path != "/token" || r.header.Get("Accept") != "application/json" || r.header.Get("Authorization") != "" {
				t.Errorf("the request is %+v", r)
			}
			if got.Access.Reveal() != "AT" || !got.Refresh.IsZero() || got.Once || got.Expires.Before(start.Add(time.Hour)) || time.Until(got.Expires) > time.Hour {
				t.Errorf("the tokens are %+v", got)
			}
			want := scopes
			if strings.HasSuffix(name, "without resource and scopes") {
				want = nil
			}
			if diff := cmp.Diff(want, got.Scopes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestGrantParameters(t *testing.T) {
	grant := oauth.Refresh("i", mcp.NewToken("RT"), "", nil)
	for _, name := range []string{"grant_type", "Refresh_Token", "scope", "resource", "client_id", "client_secret", "code_verifier", "assertion", "client_assertion", "subject_token", ""} {
		if _, err := grant.With(map[string]string{name: "x"}); err == nil {
			t.Errorf("%q can be replaced", name)
		}
		if oauth.CheckParameters(map[string]string{name: "x"}) == nil {
			t.Errorf("%q passes", name)
		}
	}
	if err := oauth.CheckParameters(map[string]string{"audience": "x", "prompt": "consent"}); err != nil {
		t.Error(err)
	}
	_, err := oauth.Exchange{Audience: "a"}.Grant().With(map[string]string{"audience": "x"})
	wantCheck(t, err, oauth.CheckParameter)
}

// I10 (conformance token-endpoint-auth-basic, -post, -none; client-credentials-basic): the
// authentication by what the client has, how it is registered, and what the server supports.
func TestClientAuthentication(t *testing.T) {
	key := newKey(t, "ES256")
	secret := mcp.NewToken("s3 c:r/t")
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("client+%2B1:s3+c%3Ar%2Ft"))
	tests := map[string]struct {
		supported []string
		reg       oauth.Registration
		method    string // "" is a failed check
	}{
		"nothing":                          {nil, oauth.Registration{}, oauth.MethodNone},
		"nothing, none is listed":          {[]string{"none"}, oauth.Registration{}, oauth.MethodNone},
		"nothing, none is not listed":      {[]string{"client_secret_basic"}, oauth.Registration{}, oauth.MethodNone},
		"secret, nothing is listed":        {nil, oauth.Registration{Secret: secret}, oauth.MethodBasic},
		"secret, both":                     {[]string{"client_secret_post", "client_secret_basic"}, oauth.Registration{Secret: secret}, oauth.MethodBasic},
		"secret, post":                     {[]string{"client_secret_post"}, oauth.Registration{Secret: secret}, oauth.MethodPost},
		"secret, none":                     {[]string{"none"}, oauth.Registration{Secret: secret}, oauth.MethodNone},
		"secret, only keys":                {[]string{"private_key_jwt", "tls_client_auth"}, oauth.Registration{Secret: secret}, ""},
		"secret, nothing at all":           {[]string{}, oauth.Registration{Secret: secret}, ""},
		"key":                              {[]string{"client_secret_basic", "private_key_jwt"}, oauth.Registration{Key: key, Secret: secret}, oauth.MethodPrivateKeyJWT},
		"key, nothing is listed":           {nil, oauth.Registration{Key: key}, oauth.MethodPrivateKeyJWT},
		"key, only secrets":                {[]string{"client_secret_basic"}, oauth.Registration{Key: key}, ""},
		"key and secret, only secrets":     {[]string{"client_secret_basic"}, oauth.Registration{Key: key, Secret: secret}, oauth.MethodBasic},
		"registered: post":                 {[]string{"client_secret_basic"}, oauth.Registration{Secret: secret, Method: oauth.MethodPost}, oauth.MethodPost},
		"registered: none":                 {[]string{"client_secret_basic"}, oauth.Registration{Secret: secret, Method: oauth.MethodNone}, oauth.MethodNone},
		"registered: basic, no secret":     {nil, oauth.Registration{Method: oauth.MethodBasic}, ""},
		"registered: key, no key":          {nil, oauth.Registration{Secret: secret, Method: oauth.MethodPrivateKeyJWT}, ""},
		"registered: something else":       {nil, oauth.Registration{Secret: secret, Method: "client_secret_jwt"}, ""},
		"key of another type than is used": {[]string{"private_key_jwt"}, oauth.Registration{Key: newKey(t, "EdDSA")}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.server.AuthMethods = tt.supported
			w.server.SigningAlgs = []string{"ES256", "RS256"}
			tt.reg.Issuer, tt.reg.ClientID = w.URL, "client +1"
			w.reg = &tt.reg
			_, err := w.token(t, oauth.ClientCredentials(w.URL, "", nil))
			if tt.method == "" {
				failed := failedCheck(t, err, oauth.CheckAuthMethod)
				if strings.Contains(failed.Error(), "s3") || len(w.received()) != 0 {
					t.Errorf("%v, %d requests", failed, len(w.received()))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, header := w.last().form, w.last().header.Get("Authorization")
			got.Del("grant_type")
			want := url.Values{"client_id": {"client +1"}}
			switch tt.method {
			case oauth.MethodBasic:
				want = url.Values{}
				if header != basic {
					t.Errorf("Authorization is %q, want %q", header, basic)
				}
				header = ""
			case oauth.MethodPost:
				want.Set("client_secret", secret.Reveal())
			case oauth.MethodPrivateKeyJWT:
				want["client_assertion"] = got["client_assertion"]
				want.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
				if got.Get("client_assertion") == "" {
					t.Error("there is no assertion")
				}
			}
			if header != "" {
				t.Errorf("Authorization is %q", header)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Identity attack 20, N3: no grant, secret or token goes to an issuer that it is not of.
func TestOtherIssuer(t *testing.T) {
	w := newTokenWorld(t)
	w.reg.Secret = mcp.NewToken("canary")
	const other = "https://honest.example.com"
	elsewhere := &oauth.Registration{Issuer: other, ClientID: "client", Secret: mcp.NewToken("canary")}
	canary := mcp.NewToken("canary")
	for name, send := range map[string]func() error{
		"code": func() error {
			_, err := w.token(t, (&oauth.Authorization{Issuer: other, Verifier: canary}).Grant(canary))
			return err
		},
		"refresh token": func() error { _, err := w.token(t, oauth.Refresh(other, canary, "", nil)); return err },
		"refresh token of a slash": func() error {
			_, err := w.token(t, oauth.Refresh(w.URL+"/", canary, "", nil))
			return err
		},
		"subject token": func() error {
			_, err := w.token(t, oauth.Exchange{Issuer: other, Subject: canary}.Grant())
			return err
		},
		"assertion": func() error { _, err := w.token(t, oauth.JWTBearer(other, canary, "", nil)); return err },
		"client of another server": func() error {
			_, err := w.client.Token(t.Context(), w.server, elsewhere, oauth.ClientCredentials(w.URL, "", nil))
			return err
		},
		"client of no server": func() error {
			_, err := w.client.Token(t.Context(), w.server, &oauth.Registration{ClientID: "x", Secret: canary}, oauth.ClientCredentials(w.URL, "", nil))
			return err
		},
		"revoked token":             func() error { return w.client.Revoke(t.Context(), w.server, w.reg, other, canary, true) },
		"revoked by another client": func() error { return w.client.Revoke(t.Context(), w.server, elsewhere, w.URL, canary, true) },
		"no grant":                  func() error { _, err := w.token(t, oauth.Grant{}); return err },
		"given for another server": func() error {
			_, err := w.client.Registration(t.Context(), w.server, oauth.RegistrationOptions{Given: elsewhere})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			failed := failedCheck(t, send(), oauth.CheckCredential)
			if strings.Contains(failed.Error(), "canary") {
				t.Error(failed)
			}
		})
	}
	if n := len(w.received()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A Server that its caller has kept, or made, is checked again.
func TestTokenEndpointIsChecked(t *testing.T) {
	for name, tt := range map[string]struct{ backend, endpoint string }{
		"http":                        {"http://127.0.0.1:1/mcp", "http://as.example.com/token"},
		"http on loopback":            {"https://mcp.example.com/mcp", "http://127.0.0.1:1/token"},
		"javascript":                  {"http://127.0.0.1:1/mcp", "javascript:alert(1)"},
		"nothing":                     {"http://127.0.0.1:1/mcp", ""},
		"a password":                  {"http://127.0.0.1:1/mcp", "https://u:p@as.example.com/token"},
		"http on this host by a name": {"http://127.0.0.1:1/mcp", "http://localhost.example.com/token"},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, oauth.Config{Backend: tt.backend})
			s := &oauth.Server{Issuer: testIssuer, TokenEndpoint: tt.endpoint}
			_, err := c.Token(t.Context(), s, &oauth.Registration{Issuer: testIssuer}, oauth.ClientCredentials(testIssuer, "", nil))
			wantCheck(t, err, oauth.CheckEndpoint)
		})
	}
	c := newClient(t, oauth.Config{Backend: "http://127.0.0.1:1/mcp"})
	_, err := c.Token(t.Context(), &oauth.Server{TokenEndpoint: "http://127.0.0.1:1/token"}, &oauth.Registration{}, oauth.ClientCredentials("", "", nil))
	wantCheck(t, err, oauth.CheckCredential)
}

// Identity attack 32: what a response may be, and what comes of it.
func TestTokenResponses(t *testing.T) {
	valid := object{"access_token": "AT", "token_type": "Bearer"}
	const hour, day = time.Hour, 24 * time.Hour
	tests := map[string]struct {
		response object
		life     time.Duration // 0 and no check: used once
		scopes   []string
		check    oauth.Check
	}{
		"minimal":                   {valid, hour, []string{"asked"}, ""},
		"bearer in lower case":      {valid.with(object{"token_type": "bearer"}), hour, []string{"asked"}, ""},
		"scopes":                    {valid.with(object{"scope": "a  b"}), hour, []string{"a", "b"}, ""},
		"no scopes":                 {valid.with(object{"scope": ""}), hour, []string{}, ""},
		"null":                      {valid.with(object{"scope": (*int)(nil), "expires_in": (*int)(nil), "refresh_token": (*int)(nil)}), hour, []string{"asked"}, ""},
		"expires_in":                {valid.with(object{"expires_in": 60}), time.Minute, []string{"asked"}, ""},
		"expires_in as text":        {valid.with(object{"expires_in": "60"}), time.Minute, []string{"asked"}, ""},
		"expires_in with a point":   {valid.with(object{"expires_in": 60.5}), 60*time.Second + 500*time.Millisecond, []string{"asked"}, ""},
		"expires_in 0":              {valid.with(object{"expires_in": 0}), 0, []string{"asked"}, ""},
		"expires_in below 0":        {valid.with(object{"expires_in": -5}), 0, []string{"asked"}, ""},
		"expires_in of 10 years":    {valid.with(object{"expires_in": 315360000}), day, []string{"asked"}, ""},
		"expires_in of ages":        {valid.with(object{"expires_in": 1e300}), day, []string{"asked"}, ""},
		"expires_in as another":     {valid.with(object{"expires_in": object{}}), 0, nil, oauth.CheckTokenResponse},
		"expires_in as a word":      {valid.with(object{"expires_in": "soon"}), 0, nil, oauth.CheckTokenResponse},
		"token_type MAC":            {valid.with(object{"token_type": "MAC"}), 0, nil, oauth.CheckTokenType},
		"token_type DPoP":           {valid.with(object{"token_type": "DPoP"}), 0, nil, oauth.CheckTokenType},
		"token_type N_A":            {valid.with(object{"token_type": "N_A"}), 0, nil, oauth.CheckTokenType},
		"no token_type":             {valid.with(object{"token_type": nil}), 0, nil, oauth.CheckTokenType},
		"no access token":           {valid.with(object{"access_token": nil}), 0, nil, oauth.CheckTokenResponse},
		"a line break in the token": {valid.with(object{"access_token": "a\r\nX: canary"}), 0, nil, oauth.CheckTokenResponse},
		"a space in the token":      {valid.with(object{"access_token": "a canary"}), 0, nil, oauth.CheckTokenResponse},
		"the token is a number":     {valid.with(object{"access_token": 5}), 0, nil, oauth.CheckTokenResponse},
		"an ID token was issued":    {valid.with(object{"issued_token_type": oauth.TypeIDToken}), 0, nil, oauth.CheckTokenType},
		"a JWT was issued":          {valid.with(object{"issued_token_type": "urn:ietf:params:oauth:token-type:jwt"}), hour, []string{"asked"}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.answer("/token", 200, tt.response)
			start := time.Now()
			got, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("RT"), testResource, []string{"asked"}))
			if tt.check != "" {
				if failed := failedCheck(t, err, tt.check); strings.Contains(failed.Error(), "canary") {
					t.Error(failed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Expires.Before(start.Add(tt.life)) || got.Expires.After(time.Now().Add(tt.life)) || got.Once != (tt.life == 0) {
				t.Errorf("the token is until %v, once %v, want %v from now", time.Until(got.Expires), got.Once, tt.life)
			}
			if diff := cmp.Diff(tt.scopes, got.Scopes); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTokensOfResponse(t *testing.T) {
	w := newTokenWorld(t)
	w.answer("/token", 200, object{"access_token": "AT", "token_type": "Bearer", "refresh_token": "RT2", "id_token": "ID"})
	got, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("RT"), "", nil))
	if err != nil || got.Access.Reveal() != "AT" || got.Refresh.Reveal() != "RT2" || got.ID.Reveal() != "ID" {
		t.Errorf("the tokens are %v, %v", got, err)
	}
}

// 5.6: refusals and temporary failures are apart, and neither contains what was sent.
func TestTokenErrors(t *testing.T) {
	status := func(code int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const kind = "application/json;charset=UTF-8"
	refusals := map[string]struct {
		handler http.HandlerFunc
		want    oauth.ServerError
	}{
		"invalid_grant":      {status(400, kind, `{"error":"invalid_grant","error_description":"the token canary-RT is gone"}`), oauth.ServerError{Status: 400, Code: oauth.CodeInvalidGrant}},
		"invalid_client":     {status(401, kind, `{"error":"invalid_client"}`), oauth.ServerError{Status: 401, Code: oauth.CodeInvalidClient}},
		"invalid_target":     {status(400, kind, `{"error":"invalid_target","error_uri":"x","more":1}`), oauth.ServerError{Status: 400, Code: oauth.CodeInvalidTarget}},
		"with status 200":    {status(200, kind, `{"error":"invalid_grant"}`), oauth.ServerError{Status: 200, Code: oauth.CodeInvalidGrant}},
		"without JSON":       {status(403, "text/html", `<p>canary-RT</p>`), oauth.ServerError{Status: 403}},
		"with invalid JSON":  {status(400, kind, `{"error":5}`), oauth.ServerError{Status: 400}},
		"with a strange one": {status(400, kind, `{"error":"a\u001b[31m"}`), oauth.ServerError{Status: 400}},
		"the secret as code": {status(400, kind, `{"error":"canary-secret"}`), oauth.ServerError{Status: 400}},
	}
	for name, tt := range refusals {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.reg.Secret = mcp.NewToken("canary-secret")
			w.handle("/token", tt.handler)
			_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("canary-RT"), testResource, nil))
			var refused *oauth.ServerError
			if !errors.As(err, &refused) || oauth.IsTemporary(err) {
				t.Fatalf("the error is %v", err)
			}
			if strings.Contains(err.Error(), "canary") || !strings.Contains(err.Error(), "/token") {
				t.Errorf("the error is %v", err)
			}
			if refused.Status != tt.want.Status || refused.Code != tt.want.Code && name != "the secret as code" || !oauth.HasCode(err, refused.Code) {
				t.Errorf("the error is %#v, want %#v", refused, tt.want)
			}
		})
	}
	temporary := map[string]http.HandlerFunc{
		"500":                     status(500, kind, `{"error":"invalid_grant"}`),
		"503 with HTML":           status(503, "text/html", "<p>"),
		"429":                     status(429, kind, `{"error":"slow_down"}`),
		"408":                     status(408, kind, ""),
		"temporarily_unavailable": status(400, kind, `{"error":"temporarily_unavailable"}`),
	}
	for name, handler := range temporary {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.handle("/token", handler)
			_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("canary-RT"), testResource, nil))
			var failed *oauth.TemporaryError
			if !errors.As(err, &failed) || failed.RetryAfter != 30*time.Second || !failed.Sent || failed.Status == 0 || strings.Contains(err.Error(), "canary") {
				t.Errorf("the error is %#v", err)
			}
		})
	}
	checks := map[string]struct {
		handler http.HandlerFunc
		check   oauth.Check
	}{
		"HTML with status 200": {status(200, "text/html", "<p>"), oauth.CheckTokenResponse},
		"a form":               {status(200, "application/x-www-form-urlencoded", "access_token=canary"), oauth.CheckTokenResponse},
		"a member twice":       {status(200, kind, `{"access_token":"canary","access_token":"b","token_type":"Bearer"}`), oauth.CheckTokenResponse},
		"too long":             {status(200, kind, strings.Repeat(" ", oauth.MaxBody+1)), oauth.CheckDocument},
	}
	for name, tt := range checks {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.handle("/token", tt.handler)
			_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("RT"), testResource, nil))
			if failed := failedCheck(t, err, tt.check); strings.Contains(failed.Error(), "canary") {
				t.Error(failed)
			}
		})
	}
}

// A server that repeats what it was sent does not get it into an error.
func TestErrorsDoNotRepeat(t *testing.T) {
	w := newTokenWorld(t)
	w.server.AuthMethods = []string{"private_key_jwt", "client_secret_post"}
	w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
		text, err := json.Marshal(object{"error": "invalid_request", "error_description": fmt.Sprint(r.Form, r.Header)})
		if err != nil {
			t.Error(err)
		}
		writeJSON(rw, 400, text)
	})
	for name, reg := range map[string]*oauth.Registration{
		"key":    {Issuer: w.URL, ClientID: "client", Key: newKey(t, "ES256")},
		"secret": {Issuer: w.URL, ClientID: "client", Secret: mcp.NewToken("canary-secret")},
		"basic":  {Issuer: w.URL, ClientID: "client", Secret: mcp.NewToken("canary-secret"), Method: oauth.MethodBasic},
	} {
		_, err := w.client.Token(t.Context(), w.server, reg, oauth.Exchange{Issuer: w.URL, Subject: mcp.NewToken("canary-subject")}.Grant())
		var refused *oauth.ServerError
		if !errors.As(err, &refused) || !strings.Contains(refused.Description, "subject_token") {
			t.Fatalf("%s: %v", name, err)
		}
		sent := w.last()
		for _, secret := range []string{"canary", sent.form.Get("client_assertion"), strings.TrimPrefix(sent.header.Get("Authorization"), "Basic ")} {
			if secret != "" && strings.Contains(err.Error()+refused.Description, secret) {
				t.Errorf("%s: the error shows %q: %v", name, secret, err)
			}
		}
	}
}

// Identity attack 27: a connection that is cut after the request may have been a refresh,
// and one that was refused was not.
func TestTokenConnections(t *testing.T) {
	w := newTokenWorld(t)
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	})
	var failed *oauth.TemporaryError
	_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("canary"), "", nil))
	if !errors.As(err, &failed) || !failed.Sent {
		t.Errorf("cut: %#v", err)
	}
	w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(rw, "{")
	})
	_, err = w.token(t, oauth.Refresh(w.URL, mcp.NewToken("canary"), "", nil))
	if !errors.As(err, &failed) || !failed.Sent {
		t.Errorf("cut in the body: %#v", err)
	}
	w.Close()
	_, err = w.token(t, oauth.Refresh(w.URL, mcp.NewToken("canary"), "", nil))
	if !errors.As(err, &failed) || failed.Sent || strings.Contains(err.Error(), "canary") {
		t.Errorf("refused: %#v", err)
	}
}

// Identity attack 19: a token endpoint that redirects gets no second request.
func TestTokenRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			w := newTokenWorld(t)
			elsewhere := newPeer(t)
			w.handle("/token", func(rw http.ResponseWriter, r *http.Request) {
				http.Redirect(rw, r, elsewhere.URL+"/token", code)
			})
			_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken("RT"), "", nil))
			wantCheck(t, err, oauth.CheckRedirect)
			if n := len(elsewhere.received()); n != 0 {
				t.Errorf("%d requests followed", n)
			}
		})
	}
}

// A server that does not respond, or drips, has 10 seconds.
func TestRequestTimeout(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"drips": func(conn net.Conn) {
			for i := 0; ; i++ {
				text := "x"
				if i == 0 {
					text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
				}
				if _, err := io.WriteString(conn, text); err != nil {
					return
				}
				time.Sleep(time.Second) // of the bubble
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ln := memnet.Listen()
				var all sync.WaitGroup
				defer all.Wait()
				defer ln.Close()
				all.Go(func() { // ends when the client leaves
					conn, err := ln.Accept()
					if err != nil {
						return
					}
					defer conn.Close()
					in := bufio.NewReader(conn)
					if _, err := http.ReadRequest(in); err != nil {
						t.Error(err)
						return
					}
					all.Go(func() { serve(conn) }) // ends when the connection is closed
					_, _ = io.Copy(io.Discard, in)
				})
				c := newClient(t, oauth.Config{Backend: "http://127.0.0.1:1/mcp"})
				c.SetDial(func(ctx context.Context, _, _ string) (net.Conn, error) { return ln.Dial(ctx) })
				s := &oauth.Server{Issuer: "http://127.0.0.1:2", TokenEndpoint: "http://127.0.0.1:2/token"}
				start := time.Now()
				_, err := c.Token(t.Context(), s, &oauth.Registration{Issuer: s.Issuer}, oauth.ClientCredentials(s.Issuer, "", nil))
				var failed *oauth.TemporaryError
				if !errors.As(err, &failed) || !failed.Sent || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("the error is %#v", err)
				}
				if took := time.Since(start); took != oauth.RequestTimeout {
					t.Errorf("it took %v, want %v", took, oauth.RequestTimeout)
				}
			})
		})
	}
}

func TestRetryAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": 0, "5": 5 * time.Second, "99999999999": 0, "4000000000": time.Hour, "-1": 0, "x": 0,
		"Thu, 26 Nov 2020 00:00:00 GMT": 0, "Thu, 26 Nov 2099 00:00:00 GMT": time.Hour,
	} {
		w := newTokenWorld(t)
		w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Retry-After", text)
			rw.WriteHeader(503)
		})
		_, err := w.token(t, oauth.ClientCredentials(w.URL, "", nil))
		var failed *oauth.TemporaryError
		if !errors.As(err, &failed) || failed.RetryAfter != want {
			t.Errorf("%q: %#v, want %v", text, err, want)
		}
	}
}

// RFC 7009.
func TestRevoke(t *testing.T) {
	w := newTokenWorld(t)
	w.reg.Secret = mcp.NewToken("secret")
	if err := w.client.Revoke(t.Context(), w.server, w.reg, w.URL, mcp.NewToken("RT"), true); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(url.Values{"token": {"RT"}, "token_type_hint": {"refresh_token"}}, w.last().form); diff != "" {
		t.Error(diff)
	}
	if got, want := w.last().header.Get("Authorization"), "Basic "+base64.StdEncoding.EncodeToString([]byte("client:secret")); got != want {
		t.Errorf("Authorization is %q, want %q", got, want)
	}
	if err := w.client.Revoke(t.Context(), w.server, w.reg, w.URL, mcp.NewToken("AT"), false); err != nil || w.last().form.Get("token_type_hint") != "access_token" {
		t.Errorf("%v, %v", err, w.last().form)
	}
	w.handle("/revoke", func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(200) })
	if err := w.client.Revoke(t.Context(), w.server, w.reg, w.URL, mcp.NewToken("AT"), false); err != nil {
		t.Errorf("an empty response: %v", err)
	}
	w.answer("/revoke", 400, object{"error": "unsupported_token_type"})
	if err := w.client.Revoke(t.Context(), w.server, w.reg, w.URL, mcp.NewToken("AT"), false); !oauth.HasCode(err, "unsupported_token_type") {
		t.Errorf("the error is %v", err)
	}
	w.server.RevocationEndpoint = ""
	wantCheck(t, w.client.Revoke(t.Context(), w.server, w.reg, w.URL, mcp.NewToken("AT"), false), oauth.CheckEndpoint)
}

// Neither does one that repeats it where there is no error response: in the address of a redirect,
// a type, or a response that is not one of HTTP.
func TestOtherTextsDoNotRepeat(t *testing.T) {
	const canary = "canary-refresh-token"
	raw := func(rw http.ResponseWriter, text string) {
		conn, _, err := http.NewResponseController(rw).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(conn, text)
		_ = conn.Close()
	}
	for name, respond := range map[string]func(rw http.ResponseWriter, secret string){
		"redirect": func(rw http.ResponseWriter, secret string) {
			rw.Header().Set("Location", "/"+secret)
			rw.WriteHeader(307)
		},
		"type": func(rw http.ResponseWriter, secret string) { rw.Header().Set("Content-Type", "text/"+secret) },
		"token type": func(rw http.ResponseWriter, secret string) {
			writeJSON(rw, 200, fmt.Appendf(nil, `{"token_type":%q}`, secret))
		},
		"line":   func(rw http.ResponseWriter, secret string) { raw(rw, secret+"\r\n\r\n") },
		"header": func(rw http.ResponseWriter, secret string) { raw(rw, "HTTP/1.1 200 OK\r\n"+secret+"\r\n\r\n") },
		"length of a body": func(rw http.ResponseWriter, secret string) {
			raw(rw, "HTTP/1.1 200 OK\r\nContent-Length: "+secret+"\r\n\r\n")
		},
		"chunk": func(rw http.ResponseWriter, secret string) {
			raw(rw, "HTTP/1.1 200 OK\r\nTransfer-Encoding: "+secret+"\r\n\r\n")
		},
	} {
		w := newTokenWorld(t)
		w.reg.Secret = mcp.NewToken("canary+client=secret")
		for _, secret := range []string{canary, w.reg.Secret.Reveal(), url.QueryEscape(w.reg.Secret.Reveal())} {
			w.handle("/token", func(rw http.ResponseWriter, _ *http.Request) { respond(rw, secret) })
			_, err := w.token(t, oauth.Refresh(w.URL, mcp.NewToken(canary), "", nil))
			var check *oauth.CheckError
			if err == nil || strings.Contains(fmt.Sprintf("%v %q", err, fmt.Sprint(err)), secret) || errors.As(err, &check) && strings.Contains(check.Got, secret) {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
	}
}
