// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider starts oidc-provider, a certified authorization server in Node.js, for
// tests. Anybody signs in by a name, on a page with a form.
package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/signalbox-mcp/signalbox/test/foreign"
)

// Settings are the settings of a provider. The zero value is useful.
type Settings struct {
	// Issuer is its name, an address that leads to it; "" is its own address. A test that
	// puts a proxy before the provider needs it.
	Issuer string `json:"issuer,omitempty"`

	// Groups are the values of the claim groups, by the names of users.
	Groups map[string][]string `json:"groups,omitempty"`

	// Clients are registered from the beginning.
	Clients []Client `json:"clients,omitempty"`

	// Lifetime is that of access tokens in seconds; 0 is an hour.
	Lifetime int `json:"lifetime,omitempty"`

	// Format is jwt or opaque; "" is jwt.
	Format string `json:"format,omitempty"`

	// Algorithm signs access tokens: ES256, which is the default, or RS256.
	Algorithm string `json:"algorithm,omitempty"`

	// NoRegistration turns dynamic client registration off.
	NoRegistration bool `json:"-"`
}

// Client is the registration of a client (RFC 7591).
type Client struct {
	ID          string   `json:"client_id"`
	Secret      string   `json:"client_secret,omitempty"`
	Redirects   []string `json:"redirect_uris"`
	Grants      []string `json:"grant_types,omitempty"`
	Responses   []string `json:"response_types"`
	AuthMethod  string   `json:"token_endpoint_auth_method,omitempty"`
	Application string   `json:"application_type,omitempty"`
}

// Machine is a client that has no user: it gets tokens for itself, and may introspect those
// of others.
func Machine(id, secret string) Client {
	return Client{
		ID: id, Secret: secret, Redirects: []string{}, Responses: []string{},
		Grants: []string{"client_credentials"}, AuthMethod: "client_secret_basic",
	}
}

// Provider is a running provider.
type Provider struct {
	// Issuer is its issuer identifier.
	Issuer string
	// URL is its own address.
	URL string

	process *foreign.Process
}

// folder is that of the lock file.
func folder() string {
	_, file, _, _ := runtime.Caller(0) //nolint:dogsled // only the file is of use
	return filepath.Dir(filepath.Dir(file))
}

// Install installs the provider, unless it is installed already.
func Install(t testing.TB) foreign.Node {
	t.Helper()
	return foreign.InstallNodeIn(t, folder())
}

// Start starts a provider that ends with the test.
func Start(t testing.TB, s Settings) *Provider {
	t.Helper()
	node := Install(t)
	settings := struct {
		Settings

		Registration bool `json:"registration"`
	}{s, !s.NoRegistration}
	text, err := json.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	p := foreign.Start(t, node.Bin, filepath.Join(folder(), "provider", "provider.mjs"), string(text))
	issuer := s.Issuer
	if issuer == "" {
		issuer = p.URL
	}
	return &Provider{Issuer: issuer, URL: p.URL, process: p}
}

// Log returns the last lines of its output, after it has ended.
func (p *Provider) Log() []string { return p.process.Log }

// Metadata returns the metadata document of the provider.
func (p *Provider) Metadata(ctx context.Context) (map[string]any, error) {
	var doc map[string]any
	err := get(ctx, p.Issuer+"/.well-known/openid-configuration", &doc)
	return doc, err
}

func get(ctx context.Context, address string, into any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	return do(req, into)
}

// do decodes the answer to a request.
func do(req *http.Request, into any) error {
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s: %s", req.URL.Path, res.Status, body)
	}
	return json.NewDecoder(bytes.NewReader(body)).Decode(into)
}

// Tokens is the answer of the token endpoint.
type Tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
	Type    string `json:"token_type"`
	Expires int    `json:"expires_in"`
	Scope   string `json:"scope"`
}

// Token sends a request to the token endpoint, with the fields of a form.
func (p *Provider) Token(ctx context.Context, c Client, form url.Values) (*Tokens, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.Issuer+"/token", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if c.Secret != "" {
		req.SetBasicAuth(url.QueryEscape(c.ID), url.QueryEscape(c.Secret))
	}
	var got Tokens
	if err := do(req, &got); err != nil {
		return nil, err
	}
	if got.Access == "" {
		return nil, errors.New("the token endpoint gave no token")
	}
	return &got, nil
}

// MachineToken returns an access token of a machine for a resource.
func (p *Provider) MachineToken(ctx context.Context, c Client, resource, scope string) (*Tokens, error) {
	return p.Token(ctx, c, url.Values{"grant_type": {"client_credentials"}, "resource": {resource}, "scope": {scope}})
}

// Keys returns the key set of the provider.
func (p *Provider) Keys(ctx context.Context) ([]byte, error) {
	var set json.RawMessage
	err := get(ctx, p.Issuer+"/jwks", &set)
	return set, err
}
