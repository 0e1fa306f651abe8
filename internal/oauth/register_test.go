// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

const (
	loopbackRedirect = "http://127.0.0.1:8765/callback"
	webRedirect      = "https://gw.example.com/oauth/callback"
)

// received returns the body of the last request as an object.
func (p *peer) object() (o object) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(p.last().body), &o); err != nil {
		p.t.Fatal(err)
	}
	return o
}

// I10: RFC 7591 with what the MCP specification asks for: application_type, and
// refresh_token among grant_types.
func TestRegister(t *testing.T) {
	tests := map[string]struct {
		metadata  oauth.ClientMetadata
		supported []string
		want      object
	}{
		"loopback": {
			oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect, "http://localhost:1/cb", "http://[::1]:1/cb"}}, nil,
			object{"application_type": "native", "token_endpoint_auth_method": "none"},
		},
		"beyond loopback": {
			oauth.ClientMetadata{Name: "Mine", URI: "https://gw.example.com", RedirectURIs: []string{webRedirect}, Scopes: []string{"a", "b"}}, []string{"client_secret_basic", "none"},
			object{"application_type": "web", "token_endpoint_auth_method": "none", "client_name": "Mine", "client_uri": "https://gw.example.com", "scope": "a b"},
		},
		"only basic": {
			oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}}, []string{"client_secret_post", "client_secret_basic"},
			object{"application_type": "native", "token_endpoint_auth_method": "client_secret_basic"},
		},
		"only post": {
			oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}}, []string{"client_secret_post"},
			object{"application_type": "native", "token_endpoint_auth_method": "client_secret_post"},
		},
		"by choice": {
			oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect, webRedirect}, Method: "client_secret_basic"}, []string{"none"},
			object{"application_type": "web", "token_endpoint_auth_method": "client_secret_basic"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.server.AuthMethods = tt.supported
			w.answer("/register", 201, object{"client_id": "new", "client_secret": "S", "client_secret_expires_at": 0})
			got, err := w.client.Register(t.Context(), w.server, tt.metadata)
			if err != nil {
				t.Fatal(err)
			}
			redirects := []any{}
			for _, uri := range tt.metadata.RedirectURIs {
				redirects = append(redirects, uri)
			}
			want := object{
				"client_name": "Signalbox", "redirect_uris": redirects, "response_types": []any{"code"},
				"grant_types": []any{"authorization_code", "refresh_token"},
			}.with(tt.want)
			if diff := cmp.Diff(want, w.object()); diff != "" {
				t.Error(diff)
			}
			if r := w.last(); r.method != http.MethodPost || r.header.Get("Content-Type") != "application/json" || r.header.Get("Authorization") != "" {
				t.Errorf("the request is %+v", r)
			}
			if got.Issuer != w.URL || got.ClientID != "new" || got.Secret.Reveal() != "S" || !got.SecretExpires.IsZero() || got.Source != oauth.SourceRegistered || !cmp.Equal(got.RedirectURIs, tt.metadata.RedirectURIs) {
				t.Errorf("the registration is %+v", got)
			}
		})
	}
}

// Identity attack 33: what a response to a registration may be.
func TestRegisterResponses(t *testing.T) {
	valid := object{"client_id": "new"}
	expires := time.Now().Add(time.Hour).Truncate(time.Second)
	tests := map[string]struct {
		status   int
		response object
		method   string
		expires  time.Time
		check    oauth.Check // or ""
		code     string      // of a refusal, or ""
	}{
		"public":                         {201, valid, "none", time.Time{}, "", ""},
		"with status 200":                {200, valid, "none", time.Time{}, "", ""},
		"secret":                         {201, valid.with(object{"client_secret": "S"}), "", time.Time{}, "", ""},
		"secret and method":              {201, valid.with(object{"client_secret": "S", "token_endpoint_auth_method": "client_secret_post"}), "client_secret_post", time.Time{}, "", ""},
		"secret that expires":            {201, valid.with(object{"client_secret": "S", "client_secret_expires_at": expires.Unix()}), "", expires, "", ""},
		"expiry without a secret":        {201, valid.with(object{"client_secret_expires_at": expires.Unix()}), "none", time.Time{}, "", ""},
		"null":                           {201, valid.with(object{"client_secret": (*int)(nil), "client_secret_expires_at": (*int)(nil), "redirect_uris": (*int)(nil)}), "none", time.Time{}, "", ""},
		"our redirect URIs":              {201, valid.with(object{"redirect_uris": []string{"x", loopbackRedirect}}), "none", time.Time{}, "", ""},
		"no client_id":                   {201, object{}, "", time.Time{}, oauth.CheckRegistration, ""},
		"client_id with a line break":    {201, valid.with(object{"client_id": "a\nb"}), "", time.Time{}, oauth.CheckRegistration, ""},
		"client_id as a number":          {201, valid.with(object{"client_id": 5}), "", time.Time{}, oauth.CheckRegistration, ""},
		"other redirect URIs":            {201, valid.with(object{"redirect_uris": []string{"https://evil.example.com"}}), "", time.Time{}, oauth.CheckRegistration, ""},
		"no redirect URIs":               {201, valid.with(object{"redirect_uris": []string{}}), "", time.Time{}, oauth.CheckRegistration, ""},
		"a method without its secret":    {201, valid.with(object{"token_endpoint_auth_method": "client_secret_basic"}), "", time.Time{}, oauth.CheckAuthMethod, ""},
		"a method without its key":       {201, valid.with(object{"client_secret": "S", "token_endpoint_auth_method": "private_key_jwt"}), "", time.Time{}, oauth.CheckAuthMethod, ""},
		"expiry as a word":               {201, valid.with(object{"client_secret": "S", "client_secret_expires_at": "soon"}), "", time.Time{}, oauth.CheckRegistration, ""},
		"the redirect URI is refused":    {400, object{"error": "invalid_redirect_uri", "error_description": "only https"}, "", time.Time{}, "", "invalid_redirect_uri"},
		"not allowed":                    {403, object{"error": "access_denied"}, "", time.Time{}, "", oauth.CodeAccessDenied},
		"not allowed, without a code":    {401, object{}, "", time.Time{}, "", ""},
		"an error with status 200":       {200, object{"error": "invalid_client_metadata"}, "", time.Time{}, "", "invalid_client_metadata"},
		"a response that is a number":    {201, nil, "", time.Time{}, oauth.CheckRegistration, ""},
		"a secret of the wrong type":     {201, valid.with(object{"client_secret": 5}), "", time.Time{}, oauth.CheckRegistration, ""},
		"a registration that is deleted": {404, object{}, "", time.Time{}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.answer("/register", tt.status, tt.response)
			if tt.response == nil {
				w.handle("/register", func(rw http.ResponseWriter, _ *http.Request) { writeJSON(rw, tt.status, []byte("5")) })
			}
			got, err := w.client.Register(t.Context(), w.server, oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}})
			switch {
			case tt.check != "":
				wantCheck(t, err, tt.check)
			case tt.status >= 300 || tt.code != "":
				var refused *oauth.ServerError
				if !errors.As(err, &refused) || refused.Code != tt.code {
					t.Fatalf("the error is %v", err)
				}
				text := err.Error()
				for _, want := range []string{"oauth.clientId", loopbackRedirect, refused.Description} {
					if !strings.Contains(text, want) {
						t.Errorf("the error has no %q: %s", want, text)
					}
				}
			case err != nil:
				t.Fatal(err)
			case got.Method != tt.method || !got.SecretExpires.Equal(tt.expires):
				t.Errorf("the registration is %+v", got)
			}
		})
	}
	t.Run("temporary", func(t *testing.T) {
		w := newTokenWorld(t)
		w.answer("/register", 503, object{})
		if _, err := w.client.Register(t.Context(), w.server, oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}}); !oauth.IsTemporary(err) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("a redirect URI of ours", func(t *testing.T) {
		w := newTokenWorld(t)
		if _, err := w.client.Register(t.Context(), w.server, oauth.ClientMetadata{RedirectURIs: []string{"http://gw.example.com/cb"}}); err == nil || len(w.received()) != 0 {
			t.Errorf("the error is %v", err)
		}
	})
}

// I10 (conformance basic-cimd, pre-registration): the given client, else the metadata URL,
// else the held one, else a registration.
func TestRegistrationOrder(t *testing.T) {
	const metadataURL = "https://gw.example.com/oauth/client.json"
	given := &oauth.Registration{ClientID: "given"}
	tests := map[string]struct {
		given       *oauth.Registration
		metadataURL string
		supported   bool                                          // metadata URLs
		held        func(w *tokenWorld, held *oauth.Registration) // changes one that is usable
		endpoint    bool
		want        string
		source      oauth.RegistrationSource
	}{
		"given":                         {given, metadataURL, true, func(*tokenWorld, *oauth.Registration) {}, true, "given", oauth.SourceGiven},
		"metadata URL":                  {nil, metadataURL, true, func(*tokenWorld, *oauth.Registration) {}, true, metadataURL, oauth.SourceMetadata},
		"metadata URL is not supported": {nil, metadataURL, false, nil, true, "new", oauth.SourceRegistered},
		"no metadata URL":               {nil, "", true, nil, true, "new", oauth.SourceRegistered},
		"held":                          {nil, "", false, func(*tokenWorld, *oauth.Registration) {}, true, "held", oauth.SourceRegistered},
		"held elsewhere":                {nil, "", false, func(_ *tokenWorld, r *oauth.Registration) { r.Issuer = "https://x.example.com" }, true, "new", oauth.SourceRegistered},
		"held for another redirect URI": {nil, "", false, func(_ *tokenWorld, r *oauth.Registration) { r.RedirectURIs = []string{webRedirect} }, true, "new", oauth.SourceRegistered},
		"held, expired":                 {nil, "", false, func(_ *tokenWorld, r *oauth.Registration) { r.SecretExpires = time.Now() }, true, "new", oauth.SourceRegistered},
		"held, expires later":           {nil, "", false, func(_ *tokenWorld, r *oauth.Registration) { r.SecretExpires = time.Now().Add(time.Minute) }, true, "held", oauth.SourceRegistered},
		"nothing":                       {nil, metadataURL, false, nil, false, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTokenWorld(t)
			w.answer("/register", 201, object{"client_id": "new"})
			w.server.MetadataID = tt.supported
			if !tt.endpoint {
				w.server.RegistrationEndpoint = ""
			}
			o := oauth.RegistrationOptions{
				Given: tt.given, MetadataURL: tt.metadataURL,
				Metadata: oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}},
			}
			if tt.held != nil {
				o.Held = &oauth.Registration{Issuer: w.URL, ClientID: "held", Secret: mcp.NewToken("S"), RedirectURIs: []string{loopbackRedirect}, Source: oauth.SourceRegistered}
				tt.held(w, o.Held)
			}
			got, err := w.client.Registration(t.Context(), w.server, o)
			if tt.want == "" {
				if failed := failedCheck(t, err, oauth.CheckRegistration); !strings.Contains(failed.Error(), "oauth.clientId") {
					t.Error(failed)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.ClientID != tt.want || got.Source != tt.source || got.Issuer != w.URL {
				t.Errorf("the registration is %+v", got)
			}
			if n := len(w.received()); (n == 1) != (tt.want == "new") {
				t.Errorf("there were %d requests", n)
			}
		})
	}
	if given.Issuer != "" {
		t.Error("the given client was changed")
	}
}

// B10: the document at a client id that is a URL, and its check.
func TestMetadataDocument(t *testing.T) {
	const id = "https://gw.example.com/oauth/client.json"
	text, err := oauth.MetadataDocument(id, oauth.ClientMetadata{RedirectURIs: []string{webRedirect, loopbackRedirect}})
	if err != nil {
		t.Fatal(err)
	}
	var valid object
	if err := json.Unmarshal(text, &valid); err != nil {
		t.Fatal(err)
	}
	want := object{
		"client_id": id, "client_name": "Signalbox", "application_type": "web", "redirect_uris": []any{webRedirect, loopbackRedirect},
		"grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"}, "token_endpoint_auth_method": "none",
	}
	if diff := cmp.Diff(want, valid); diff != "" {
		t.Error(diff)
	}
	for name, tt := range map[string]struct {
		id      string
		members object
		want    string // part of the error
	}{
		"another id":          {id, object{"client_id": id + "/"}, "client_id is"},
		"no id":               {id, object{"client_id": nil}, "client_id is"},
		"no name":             {id, object{"client_name": nil}, "client_name is missing"},
		"no redirect URIs":    {id, object{"redirect_uris": []string{}}, "redirect_uris are missing"},
		"redirect over http":  {id, object{"redirect_uris": []string{"http://gw.example.com/cb"}}, "neither https nor on loopback"},
		"redirect javascript": {id, object{"redirect_uris": []string{"javascript:alert(1)"}}, "scheme is not http"},
		"no refresh_token":    {id, object{"grant_types": []string{"authorization_code"}}, "grant_types"},
		"a secret":            {id, object{"token_endpoint_auth_method": "client_secret_post"}, "cannot have a secret"},
		"wrong types":         {id, object{"client_name": 5}, "right types"},
		"http":                {"http://gw.example.com/oauth/client.json", nil, "publicURL"},
		"no path":             {"https://gw.example.com/", nil, "no path"},
		"a query":             {id + "?x", nil, "has a query"},
		"a fragment":          {id + "#x", nil, "fragment"},
		"a user":              {"https://u@gw.example.com/client.json", nil, "user information"},
		"dots":                {"https://gw.example.com/a/../client.json", nil, "dot segment"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(valid.with(object{"client_id": tt.id}).with(tt.members))
			if err != nil {
				t.Fatal(err)
			}
			if err := oauth.CheckMetadataDocument(tt.id, text); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("the error is %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := oauth.MetadataDocument("http://127.0.0.1/client.json", oauth.ClientMetadata{RedirectURIs: []string{loopbackRedirect}}); err == nil {
		t.Error("an http document passes")
	}
}
