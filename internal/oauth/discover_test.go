// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

const wellKnownResource = "/.well-known/oauth-protected-resource"

// discovery is a backend and an authorization server.
type discovery struct {
	backend, as *peer
	cfg         oauth.Config
	options     oauth.DiscoverOptions
}

// newDiscovery returns a backend at /mcp with metadata at the well-known path, and its
// authorization server.
func newDiscovery(t *testing.T) *discovery {
	d := &discovery{backend: newPeer(t), as: newPeer(t)}
	d.cfg.Backend = d.backend.URL + "/mcp"
	d.options.Code = true
	d.backend.answer(wellKnownResource+"/mcp", 200, d.resource())
	d.as.answer(wellKnownServer, 200, metadata(d.as.URL))
	return d
}

// resource returns valid metadata of the backend.
func (d *discovery) resource() object {
	return object{"resource": d.cfg.Backend, "authorization_servers": []string{d.as.URL}, "scopes_supported": []string{"a", "b"}}
}

func (d *discovery) discover(t *testing.T) (*oauth.Discovery, error) {
	t.Helper()
	return newClient(t, d.cfg).Discover(t.Context(), d.options)
}

func TestDiscover(t *testing.T) {
	d := newDiscovery(t)
	d.as.answer(wellKnownServer, 200, metadata(d.as.URL).with(object{
		"scopes_supported": []string{"a", "offline_access"}, "grant_types_supported": []string{"authorization_code"},
		"token_endpoint_auth_methods_supported":            []string{"none"},
		"token_endpoint_auth_signing_alg_values_supported": []string{"ES256"},
		"authorization_response_iss_parameter_supported":   true,
		"client_id_metadata_document_supported":            true,
		"jwks_uri":                                         d.as.URL + "/keys", "something": object{"else": 1},
	}))
	got, err := d.discover(t)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(got.Until); left > time.Hour || left < time.Hour-time.Minute {
		t.Errorf("the metadata is for %v", left)
	}
	got.Until = time.Time{}
	want := &oauth.Discovery{
		Resource: d.cfg.Backend, Scopes: []string{"a", "b"},
		Server: &oauth.Server{
			Issuer: d.as.URL, AuthorizationEndpoint: d.as.URL + "/authorize", TokenEndpoint: d.as.URL + "/token",
			RegistrationEndpoint: d.as.URL + "/register", RevocationEndpoint: d.as.URL + "/revoke", JWKSURI: d.as.URL + "/keys",
			Scopes: []string{"a", "offline_access"}, AuthMethods: []string{"none"},
			SigningAlgs: []string{"ES256"}, S256: true, ResponseIss: true, MetadataID: true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, p := range []*peer{d.backend, d.as} {
		for _, r := range p.received() {
			if r.method != http.MethodGet || r.header.Get("Authorization") != "" || r.header.Get("Accept") != "application/json" {
				t.Errorf("%s %s: %v", r.method, r.path, r.header)
			}
		}
	}
}

// I6 (conformance metadata-default, -var1, -var2, -var3): where the documents may be, and
// the order in which they are looked for.
func TestDiscoverOrder(t *testing.T) {
	const root = wellKnownResource
	tests := map[string]struct {
		path      string            // of the backend
		issuer    string            // path of the issuer
		resources map[string]string // path of a document to the resource that it is about
		servers   []string          // paths of documents about the authorization server
		challenge string            // path of resource_metadata
		backend   []string          // paths that are asked for
		as        []string
	}{
		"path": {
			path: "/mcp", resources: map[string]string{root + "/mcp": "/mcp", root: ""}, servers: []string{wellKnownServer},
			backend: []string{root + "/mcp"}, as: []string{wellKnownServer},
		},
		"root form about the path": {
			path: "/mcp", resources: map[string]string{root: "/mcp"}, servers: []string{"/.well-known/openid-configuration"},
			backend: []string{root + "/mcp", root}, as: []string{wellKnownServer, "/.well-known/openid-configuration"},
		},
		"root form about the root": {
			path: "/mcp", resources: map[string]string{root: ""}, servers: []string{wellKnownServer},
			backend: []string{root + "/mcp", root}, as: []string{wellKnownServer},
		},
		"backend at the root": {
			path: "", resources: map[string]string{root: ""}, servers: []string{wellKnownServer},
			backend: []string{root}, as: []string{wellKnownServer},
		},
		"backend at a slash": {
			path: "/", resources: map[string]string{root: "/"}, servers: []string{wellKnownServer},
			backend: []string{root}, as: []string{wellKnownServer},
		},
		"a query": {
			path: "/mcp?tenant=1", resources: map[string]string{root + "/mcp?tenant=1": "/mcp?tenant=1"}, servers: []string{wellKnownServer},
			backend: []string{root + "/mcp?tenant=1"}, as: []string{wellKnownServer},
		},
		"an escaped path": {
			path: "/a%2Fb/mcp", resources: map[string]string{root + "/a%2Fb/mcp": "/a%2Fb/mcp"}, servers: []string{wellKnownServer},
			backend: []string{root + "/a%2Fb/mcp"}, as: []string{wellKnownServer},
		},
		"challenge": {
			path: "/mcp", challenge: "/custom.json", resources: map[string]string{"/custom.json": "/mcp", root + "/mcp": "/mcp"}, servers: []string{wellKnownServer},
			backend: []string{"/custom.json"}, as: []string{wellKnownServer},
		},
		"issuer with a path, inserted": {
			path: "/mcp", issuer: "/tenant1", resources: map[string]string{root + "/mcp": "/mcp"}, servers: []string{wellKnownServer + "/tenant1", wellKnownServer},
			backend: []string{root + "/mcp"}, as: []string{wellKnownServer + "/tenant1"},
		},
		"issuer with a path, OIDC inserted": {
			path: "/mcp", issuer: "/a/b", resources: map[string]string{root + "/mcp": "/mcp"}, servers: []string{"/.well-known/openid-configuration/a/b", "/a/b/.well-known/openid-configuration"},
			backend: []string{root + "/mcp"}, as: []string{wellKnownServer + "/a/b", "/.well-known/openid-configuration/a/b"},
		},
		"issuer with a path, OIDC appended": {
			path: "/mcp", issuer: "/tenant1", resources: map[string]string{root + "/mcp": "/mcp"}, servers: []string{"/tenant1/.well-known/openid-configuration"},
			backend: []string{root + "/mcp"},
			as:      []string{wellKnownServer + "/tenant1", "/.well-known/openid-configuration/tenant1", "/tenant1/.well-known/openid-configuration"},
		},
		"issuer with a slash at the end": {
			path: "/mcp", issuer: "/tenant1/", resources: map[string]string{root + "/mcp": "/mcp"}, servers: []string{wellKnownServer + "/tenant1"},
			backend: []string{root + "/mcp"}, as: []string{wellKnownServer + "/tenant1"},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &discovery{backend: newPeer(t), as: newPeer(t)}
			d.cfg.Backend = d.backend.URL + tt.path
			issuer := d.as.URL + tt.issuer
			for path, resource := range tt.resources {
				d.backend.answer(path, 200, object{"resource": d.backend.URL + resource, "authorization_servers": []string{issuer}})
			}
			for _, path := range tt.servers {
				d.as.answer(path, 200, metadata(issuer))
			}
			if tt.challenge != "" {
				d.options.Challenge.ResourceMetadata = d.backend.URL + tt.challenge
			}
			got, err := d.discover(t)
			if err != nil {
				t.Fatal(err)
			}
			if got.Server.Issuer != issuer {
				t.Errorf("the issuer is %q, want %q", got.Server.Issuer, issuer)
			}
			if diff := cmp.Diff(tt.backend, d.backend.paths()); diff != "" {
				t.Error("backend:", diff)
			}
			if diff := cmp.Diff(tt.as, d.as.paths()); diff != "" {
				t.Error("authorization server:", diff)
			}
		})
	}
}

// Identity attack 17: what a document may be about. The text is kept byte for byte.
func TestDiscoverResource(t *testing.T) {
	tests := map[string]struct {
		resource func(origin string) string // of a backend at /a/mcp
		refused  bool
	}{
		"equal":                    {func(o string) string { return o + "/a/mcp" }, false},
		"a slash at the end":       {func(o string) string { return o + "/a/mcp/" }, false},
		"parent":                   {func(o string) string { return o + "/a" }, false},
		"parent with a slash":      {func(o string) string { return o + "/a/" }, false},
		"root":                     {func(o string) string { return o }, false},
		"root with a slash":        {func(o string) string { return o + "/" }, false},
		"scheme in upper case":     {func(o string) string { return "HTTP" + strings.TrimPrefix(o, "http") + "/a/mcp" }, false},
		"child":                    {func(o string) string { return o + "/a/mcp/x" }, true},
		"sibling":                  {func(o string) string { return o + "/b" }, true},
		"part of a segment":        {func(o string) string { return o + "/a/mc" }, true},
		"another case of the path": {func(o string) string { return o + "/A/mcp" }, true},
		"other host":               {func(string) string { return "https://evil.example.com/a/mcp" }, true},
		"other port":               {func(string) string { return "http://127.0.0.1:1/a/mcp" }, true},
		"other scheme":             {func(o string) string { return "https" + strings.TrimPrefix(o, "http") + "/a/mcp" }, true},
		"host as user information": {func(o string) string { return o + "@evil.example.com/a/mcp" }, true},
		"a query":                  {func(o string) string { return o + "/a?x" }, true},
		"an empty query":           {func(o string) string { return o + "/a?" }, true},
		"a fragment":               {func(o string) string { return o + "/a#x" }, true},
		"dots":                     {func(o string) string { return o + "/a/../b" }, true},
		"empty":                    {func(string) string { return "" }, true},
		"control bytes":            {func(o string) string { return o + "/a\n" }, true},
		"not a URL":                {func(string) string { return "::" }, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDiscovery(t)
			d.cfg.Backend = d.backend.URL + "/a/mcp"
			resource := tt.resource(d.backend.URL)
			d.backend.answer(wellKnownResource+"/a/mcp", 200, d.resource().with(object{"resource": resource}))
			got, err := d.discover(t)
			if tt.refused {
				failed := failedCheck(t, err, oauth.CheckResource)
				if text := failed.Error(); failed.Got != resource || !strings.Contains(text, d.cfg.Backend) || strings.Contains(text, "\n") {
					t.Errorf("the error does not name both values in one line: %s", text)
				}
				if n := len(d.as.received()); n != 0 {
					t.Errorf("the authorization server has %d requests", n)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got.Resource != resource {
				t.Errorf("the resource is %q, want %q", got.Resource, resource)
			}
		})
	}
}

// Identity attacks 17, 18: each failed check has its own error, and the authorization server
// gets no request after it.
func TestDiscoverRefuses(t *testing.T) {
	server := func(members object) func(*discovery) {
		return func(d *discovery) { d.as.answer(wellKnownServer, 200, metadata(d.as.URL).with(members)) }
	}
	resource := func(members object) func(*discovery) {
		return func(d *discovery) {
			d.backend.answer(wellKnownResource+"/mcp", 200, d.resource().with(members))
		}
	}
	challenge := func(text func(*discovery) string) func(*discovery) {
		return func(d *discovery) { d.options.Challenge.ResourceMetadata = text(d) }
	}
	tests := map[string]struct {
		change func(*discovery)
		check  oauth.Check
	}{
		"resource_metadata on another origin":   {challenge(func(d *discovery) string { return d.as.URL + "/x" }), oauth.CheckChallengeOrigin},
		"resource_metadata on another host":     {challenge(func(*discovery) string { return "https://evil.example.com/x" }), oauth.CheckChallengeOrigin},
		"resource_metadata: javascript":         {challenge(func(*discovery) string { return "javascript:alert(1)" }), oauth.CheckEndpoint},
		"resource_metadata: file":               {challenge(func(*discovery) string { return "file:///etc/passwd" }), oauth.CheckEndpoint},
		"resource_metadata with a password":     {challenge(func(d *discovery) string { return strings.Replace(d.backend.URL, "//", "//u:p@", 1) + "/x" }), oauth.CheckEndpoint},
		"resource_metadata is missing":          {challenge(func(d *discovery) string { return d.backend.URL + "/missing" }), oauth.CheckNotFound},
		"resource_metadata redirects":           {challenge(func(d *discovery) string { return redirect(d.backend, d.as.URL) }), oauth.CheckNotFound},
		"no authorization servers":              {resource(object{"authorization_servers": []string{}}), oauth.CheckServers},
		"authorization servers are absent":      {resource(object{"authorization_servers": nil}), oauth.CheckServers},
		"authorization servers are a text":      {resource(object{"authorization_servers": "x"}), oauth.CheckDocument},
		"authorization server: javascript":      {resource(object{"authorization_servers": []string{"javascript:alert(1)"}}), oauth.CheckEndpoint},
		"authorization server: http":            {resource(object{"authorization_servers": []string{"http://as.example.com"}}), oauth.CheckEndpoint},
		"authorization server with a query":     {resource(object{"authorization_servers": []string{"https://as.example.com?x"}}), oauth.CheckIssuer},
		"other issuer":                          {server(object{"issuer": "https://honest.example.com"}), oauth.CheckIssuer},
		"issuer with a slash":                   {func(d *discovery) { server(object{"issuer": d.as.URL + "/"})(d) }, oauth.CheckIssuer},
		"issuer in another case":                {func(d *discovery) { server(object{"issuer": strings.ToUpper(d.as.URL)})(d) }, oauth.CheckIssuer},
		"issuer is absent":                      {server(object{"issuer": nil}), oauth.CheckIssuer},
		"no PKCE":                               {server(object{"code_challenge_methods_supported": nil}), oauth.CheckPKCE},
		"PKCE plain only":                       {server(object{"code_challenge_methods_supported": []string{"plain"}}), oauth.CheckPKCE},
		"PKCE in another case":                  {server(object{"code_challenge_methods_supported": []string{"s256"}}), oauth.CheckPKCE},
		"authorization endpoint: javascript":    {server(object{"authorization_endpoint": "javascript:alert(1)"}), oauth.CheckEndpoint},
		"authorization endpoint: data":          {server(object{"authorization_endpoint": "data:text/html,x"}), oauth.CheckEndpoint},
		"authorization endpoint: file":          {server(object{"authorization_endpoint": "file:///etc/passwd"}), oauth.CheckEndpoint},
		"authorization endpoint: relative":      {server(object{"authorization_endpoint": "/authorize"}), oauth.CheckEndpoint},
		"authorization endpoint: http":          {server(object{"authorization_endpoint": "http://as.example.com/x"}), oauth.CheckEndpoint},
		"authorization endpoint: fragment":      {server(object{"authorization_endpoint": "https://as.example.com/x#y"}), oauth.CheckEndpoint},
		"authorization endpoint: an option":     {server(object{"authorization_endpoint": "-x"}), oauth.CheckEndpoint},
		"no authorization endpoint":             {server(object{"authorization_endpoint": nil}), oauth.CheckEndpoint},
		"token endpoint: http":                  {server(object{"token_endpoint": "http://as.example.com/token"}), oauth.CheckEndpoint},
		"token endpoint with a password":        {server(object{"token_endpoint": "https://u:p@as.example.com/token"}), oauth.CheckEndpoint},
		"no token endpoint":                     {server(object{"token_endpoint": nil}), oauth.CheckEndpoint},
		"registration endpoint: http":           {server(object{"registration_endpoint": "http://as.example.com/token"}), oauth.CheckEndpoint},
		"revocation endpoint: http":             {server(object{"revocation_endpoint": "http://as.example.com/token"}), oauth.CheckEndpoint},
		"keys: http":                            {server(object{"jwks_uri": "http://as.example.com/token"}), oauth.CheckEndpoint},
		"a member twice":                        {raw(wellKnownServer, `{"issuer":"a","issuer":"b"}`), oauth.CheckDocument},
		"an array":                              {raw(wellKnownServer, `[]`), oauth.CheckDocument},
		"too long":                              {raw(wellKnownServer, `"`+strings.Repeat("x", oauth.MaxBody)+`"`), oauth.CheckDocument},
		"a redirect of the server":              {func(d *discovery) { redirectAt(d.as, wellKnownServer, d.backend.URL+"/elsewhere") }, oauth.CheckNotFound},
		"HTML everywhere":                       {func(d *discovery) { htmlEverywhere(d.as) }, oauth.CheckNotFound},
		"nothing of the server":                 {func(d *discovery) { d.as.handle(wellKnownServer, http.NotFound) }, oauth.CheckNotFound},
		"nothing at all":                        {func(d *discovery) { d.backend.handle(wellKnownResource+"/mcp", http.NotFound) }, oauth.CheckNotFound},
		"a pinned issuer that is not listed":    {func(d *discovery) { d.cfg.Issuer = "https://id.example.com" }, oauth.CheckPinnedIssuer},
		"a pinned issuer with another spelling": {func(d *discovery) { d.cfg.Issuer = d.as.URL + "/" }, oauth.CheckPinnedIssuer},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDiscovery(t)
			tt.change(d)
			_, err := d.discover(t)
			failed := failedCheck(t, err, tt.check)
			if text := failed.Error(); failed.At+failed.Got == "" || failed.Want == "" || len(text) > 2000 {
				t.Errorf("the error does not name what was checked: %s", text)
			}
			for _, r := range append(d.as.received(), d.backend.received()...) {
				if r.path == "/elsewhere" {
					t.Error("the redirect was followed")
				}
			}
		})
	}
}

// raw makes the authorization server send a text as JSON.
func raw(path, text string) func(*discovery) {
	return func(d *discovery) {
		d.as.handle(path, func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, 200, []byte(text)) })
	}
}

// redirectAt makes a peer redirect from a path.
func redirectAt(p *peer, path, to string) {
	p.handle(path, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) })
}

// redirect returns a URL at a peer that redirects.
func redirect(p *peer, to string) string {
	redirectAt(p, "/redirect", to+"/elsewhere")
	return p.URL + "/redirect"
}

// htmlEverywhere makes a peer answer as the server of a web application does.
func htmlEverywhere(p *peer) {
	for _, path := range []string{wellKnownServer, "/.well-known/openid-configuration"} {
		p.handle(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte("<!DOCTYPE html>"))
		})
	}
}

// S256 is not asked of grants without a browser, and neither is an authorization endpoint.
func TestDiscoverWithoutCode(t *testing.T) {
	d := newDiscovery(t)
	d.options.Code = false
	d.as.answer(wellKnownServer, 200, object{"issuer": d.as.URL, "token_endpoint": d.as.URL + "/token"})
	got, err := d.discover(t)
	if err != nil {
		t.Fatal(err)
	}
	if got.Server.S256 || got.Server.TokenEndpoint != d.as.URL+"/token" {
		t.Errorf("the server is %+v", got.Server)
	}
}

// I9: the pinned issuer, else the one that we hold a registration of, else the first.
func TestDiscoverChoice(t *testing.T) {
	tests := map[string]struct {
		servers []string
		pinned  string
		held    []string
		want    string
	}{
		"first":                            {[]string{"/1", "/2"}, "", nil, "/1"},
		"held":                             {[]string{"/1", "/2", "/3"}, "", []string{"/3", "/2"}, "/2"},
		"held elsewhere":                   {[]string{"/1", "/2"}, "", []string{"/9"}, "/1"},
		"pinned":                           {[]string{"/1", "/2"}, "/2", []string{"/1"}, "/2"},
		"pinned, and the backend has none": {nil, "/2", nil, "/2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDiscovery(t)
			in := func(paths []string) (urls []string) {
				for _, path := range paths {
					urls = append(urls, d.as.URL+path)
				}
				return urls
			}
			for _, path := range []string{"/1", "/2", "/3"} {
				d.as.answer(wellKnownServer+path, 200, metadata(d.as.URL+path))
			}
			d.backend.answer(wellKnownResource+"/mcp", 200, d.resource().with(object{"authorization_servers": in(tt.servers)}))
			d.options.Held = in(tt.held)
			if tt.pinned != "" {
				d.cfg.Issuer = d.as.URL + tt.pinned
			}
			got, err := d.discover(t)
			if err != nil {
				t.Fatal(err)
			}
			if want := d.as.URL + tt.want; got.Server.Issuer != want {
				t.Errorf("the issuer is %q, want %q", got.Server.Issuer, want)
			}
		})
	}
}

// A pinned issuer lifts the check of the origin of resource_metadata.
func TestDiscoverPinnedElsewhere(t *testing.T) {
	d := newDiscovery(t)
	d.cfg.Issuer = d.as.URL
	d.as.answer("/about-the-backend", 200, d.resource())
	d.options.Challenge.ResourceMetadata = d.as.URL + "/about-the-backend"
	got, err := d.discover(t)
	if err != nil {
		t.Fatal(err)
	}
	if got.Server.Issuer != d.as.URL || got.Resource != d.cfg.Backend {
		t.Errorf("discovered %+v", got)
	}
}

// I15: a backend of 2025-03-26 has no metadata of its resource.
func TestDiscoverWithoutResource(t *testing.T) {
	t.Run("metadata at the root", func(t *testing.T) {
		d := newDiscovery(t)
		d.backend.handle(wellKnownResource+"/mcp", http.NotFound)
		d.backend.answer(wellKnownServer, 200, metadata(d.backend.URL).with(object{"token_endpoint": d.backend.URL + "/oauth/token"}))
		got, err := d.discover(t)
		if err != nil {
			t.Fatal(err)
		}
		if got.Resource != d.cfg.Backend || got.Scopes != nil || got.Server.TokenEndpoint != d.backend.URL+"/oauth/token" {
			t.Errorf("discovered %+v with %+v", got, got.Server)
		}
	})
	t.Run("metadata of another issuer", func(t *testing.T) {
		d := newDiscovery(t)
		d.backend.handle(wellKnownResource+"/mcp", http.NotFound)
		d.backend.answer(wellKnownServer, 200, metadata(d.as.URL))
		_, err := d.discover(t)
		wantCheck(t, err, oauth.CheckIssuer)
	})
	t.Run("pinned", func(t *testing.T) {
		d := newDiscovery(t)
		d.cfg.Issuer = d.as.URL
		d.backend.handle(wellKnownResource+"/mcp", http.NotFound)
		got, err := d.discover(t)
		if err != nil {
			t.Fatal(err)
		}
		if got.Resource != d.cfg.Backend || got.Server.Issuer != d.as.URL {
			t.Errorf("discovered %+v", got)
		}
	})
	t.Run("fixed endpoints", func(t *testing.T) {
		d := newDiscovery(t)
		d.cfg.FixedEndpoints = true
		got, err := d.discover(t)
		if err != nil {
			t.Fatal(err)
		}
		got.Until = time.Time{}
		o := d.backend.URL
		want := &oauth.Discovery{Resource: d.cfg.Backend, Server: &oauth.Server{
			Issuer: o, AuthorizationEndpoint: o + "/authorize", TokenEndpoint: o + "/token", RegistrationEndpoint: o + "/register", FixedPaths: true,
		}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if paths := d.backend.paths(); paths != nil {
			t.Errorf("the backend was asked for %q", paths)
		}
	})
	t.Run("fixed endpoints over http", func(t *testing.T) {
		c := newClient(t, oauth.Config{Backend: "http://mcp.example.com/mcp", FixedEndpoints: true})
		_, err := c.Discover(t.Context(), oauth.DiscoverOptions{})
		wantCheck(t, err, oauth.CheckEndpoint)
	})
}

// The query of a backend's URL may have a key: it is in no error, and is not sent as the
// resource to an authorization server, unless the backend publishes it.
func TestDiscoverQuery(t *testing.T) {
	d := newDiscovery(t)
	d.cfg.Backend = d.backend.URL + "/mcp?key=canary"
	wellKnown := wellKnownResource + "/mcp?key=canary"
	d.backend.handle(wellKnownResource+"/mcp", http.NotFound)
	refused := func(what string) {
		t.Helper()
		_, err := d.discover(t)
		if err == nil || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("nothing is found")
	d.backend.handle(wellKnown, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) })
	refused("temporary")
	d.backend.answer(wellKnown, 200, object{"resource": "https://evil.example.com"})
	refused("another resource")
	d.backend.answer(wellKnown, 200, object{"resource": d.backend.URL + "/mcp"})
	refused("no authorization server")
	d.backend.answer(wellKnown, 200, d.resource().with(object{"resource": 5}))
	refused("wrong type")
	d.cfg.Issuer = "https://id.example.com"
	d.backend.answer(wellKnown, 200, d.resource())
	refused("another issuer")

	d.cfg = oauth.Config{Backend: "http://mcp.example.com/mcp?key=canary"}
	refused("http")
	d.cfg.FixedEndpoints = true
	refused("http, with fixed endpoints")

	d.cfg = oauth.Config{Backend: d.backend.URL + "/mcp?key=canary", Issuer: d.as.URL}
	for resource, document := range map[string]any{
		d.backend.URL + "/mcp": nil,
		d.cfg.Backend:          d.resource(),
	} {
		d.backend.handle(wellKnown, http.NotFound)
		if document != nil {
			d.backend.answer(wellKnown, 200, document)
		}
		got, err := d.discover(t)
		if err != nil || got.Resource != resource {
			t.Errorf("discovered %+v, %v, want %q", got, err, resource)
		}
	}
}

// A backend on http beyond loopback has no discovery, unless the issuer is pinned.
func TestDiscoverHTTP(t *testing.T) {
	dns, resolver := newNames(t)
	dns.set("mcp.internal", addrs("127.0.0.1"))
	backend := newPeer(t)
	as := newPeer(t)
	as.answer(wellKnownServer, 200, metadata(as.URL))
	cfg := oauth.Config{Backend: strings.Replace(backend.URL, "127.0.0.1", "mcp.internal", 1) + "/mcp", Resolver: resolver}
	backend.answer(wellKnownResource+"/mcp", 200, object{"resource": cfg.Backend, "authorization_servers": []string{as.URL}})

	_, err := newClient(t, cfg).Discover(t.Context(), oauth.DiscoverOptions{})
	wantCheck(t, err, oauth.CheckEndpoint)
	if paths := backend.paths(); paths != nil {
		t.Errorf("the backend was asked for %q", paths)
	}
	cfg.Issuer = as.URL
	if _, err := newClient(t, cfg).Discover(t.Context(), oauth.DiscoverOptions{Challenge: oauth.Bearer{ResourceMetadata: strings.TrimSuffix(cfg.Backend, "/mcp") + wellKnownResource + "/mcp"}}); err != nil {
		t.Error(err)
	}
}

// A web application may redirect what it does not know to its login page: that is not
// followed, and the next URL is tried.
func TestDiscoverPastRedirects(t *testing.T) {
	d := newDiscovery(t)
	d.backend.answer(wellKnownResource, 200, d.resource())
	redirectAt(d.backend, wellKnownResource+"/mcp", d.backend.URL+"/login")
	d.as.answer("/.well-known/openid-configuration", 200, metadata(d.as.URL))
	redirectAt(d.as, wellKnownServer, d.as.URL+"/login")
	if _, err := d.discover(t); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{wellKnownServer, "/.well-known/openid-configuration"}, d.as.paths()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{wellKnownResource + "/mcp", wellKnownResource}, d.backend.paths()); diff != "" {
		t.Error(diff)
	}
}

// A backend or a server that is down is not one without metadata: what is found otherwise
// would be another resource, or another authorization server.
func TestDiscoverTemporary(t *testing.T) {
	status := func(p func(*discovery) *peer, path string, code int) func(*discovery) {
		return func(d *discovery) {
			p(d).handle(path, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(code)
			})
		}
	}
	backend := func(d *discovery) *peer { return d.backend }
	as := func(d *discovery) *peer { return d.as }
	for name, change := range map[string]func(*discovery){
		"backend 503": status(backend, wellKnownResource+"/mcp", 503),
		"backend 429": status(backend, wellKnownResource+"/mcp", 429),
		"server 500":  status(as, wellKnownServer, 500),
	} {
		t.Run(name, func(t *testing.T) {
			d := newDiscovery(t)
			d.backend.answer(wellKnownResource, 200, d.resource().with(object{"resource": d.backend.URL}))
			d.as.answer("/.well-known/openid-configuration", 200, metadata(d.as.URL))
			change(d)
			_, err := d.discover(t)
			var temporary *oauth.TemporaryError
			if !errors.As(err, &temporary) || temporary.RetryAfter != 7*time.Second || !temporary.Sent {
				t.Errorf("the error is %#v", err)
			}
		})
	}
	t.Run("no connection", func(t *testing.T) {
		d := newDiscovery(t)
		d.as.Close()
		_, err := d.discover(t)
		var temporary *oauth.TemporaryError
		if !errors.As(err, &temporary) || temporary.Sent {
			t.Errorf("the error is %#v", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		d := newDiscovery(t)
		ctx, cancel := context.WithCancel(t.Context())
		d.as.handle(wellKnownServer, func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		})
		_, err := newClient(t, d.cfg).Discover(ctx, d.options)
		if !errors.Is(err, context.Canceled) || !oauth.IsTemporary(err) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestNewErrors(t *testing.T) {
	for name, cfg := range map[string]oauth.Config{
		"no backend":         {},
		"backend: scheme":    {Backend: "ftp://h/x"},
		"backend: user":      {Backend: "https://u@h/x"},
		"issuer: http":       {Backend: "https://h/x", Issuer: "http://as.example.com"},
		"issuer: query":      {Backend: "https://h/x", Issuer: "https://as.example.com?"},
		"issuer: no URL":     {Backend: "https://h/x", Issuer: "corp"},
		"issuer and fixed":   {Backend: "https://h/x", Issuer: "https://as.example.com", FixedEndpoints: true},
		"backend: fragment":  {Backend: "https://h/x#"},
		"backend: no host":   {Backend: "https:///x"},
		"issuer: user":       {Backend: "https://h/x", Issuer: "https://u:p@as.example.com"},
		"issuer: javascript": {Backend: "https://h/x", Issuer: "javascript:alert(1)"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := oauth.New(cfg); err == nil {
				t.Error("there is no error")
			}
		})
	}
}

// Metadata that passes has the issuer, and only endpoints that may be used.
func FuzzServer(f *testing.F) {
	const issuer = "https://as.example.com/t"
	for _, members := range []object{nil, {"issuer": "x"}, {"token_endpoint": "javascript:x"}, {"revocation_endpoint": "HTTPS://h"}, {"jwks_uri": "https://[::1%25a]/"}} {
		text, err := json.Marshal(metadata(issuer).with(members))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, true)
	}
	f.Add([]byte(`{"issuer":"a","issuer":"https://as.example.com/t"}`), false)
	c, err := oauth.New(oauth.Config{Backend: "https://mcp.example.com/mcp"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte, code bool) {
		s, err := c.ParseServer(issuer, text, code)
		if err != nil {
			return
		}
		if s.Issuer != issuer || code && !s.S256 || s.TokenEndpoint == "" {
			t.Errorf("accepted %+v", s)
		}
		for _, endpoint := range []string{s.AuthorizationEndpoint, s.TokenEndpoint, s.RegistrationEndpoint, s.RevocationEndpoint, s.JWKSURI} {
			u, err := url.Parse(endpoint)
			if err != nil || endpoint != "" && (u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "") {
				t.Errorf("accepted the endpoint %q", endpoint)
			}
		}
	})
}

// Metadata that passes is about the backend or a parent of it.
func FuzzResource(f *testing.F) {
	f.Add([]byte(`{"resource":"https://mcp.example.com/a/mcp","authorization_servers":["https://as.example.com"]}`))
	f.Add([]byte(`{"resource":"https://mcp.example.com:443/a/","authorization_servers":["x","y"],"scopes_supported":["a"]}`))
	f.Add([]byte(`{"resource":"https://mcp.example.com@evil.example.com"}`))
	f.Add([]byte(`{"resource":"https://mcp.example.com/a/../../b"}`))
	c, err := oauth.New(oauth.Config{Backend: "https://mcp.example.com/a/mcp"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		resource, issuer, err := c.ParseResource(text)
		if err != nil {
			return
		}
		u, err := url.Parse(resource)
		if err != nil {
			t.Fatal(err)
		}
		path := strings.TrimSuffix(u.Path, "/")
		if !strings.EqualFold(u.Hostname(), "mcp.example.com") || u.Scheme != "https" || path != "" && path != "/a" && path != "/a/mcp" || issuer == "" {
			t.Errorf("accepted %q at %q", resource, issuer)
		}
	})
}
