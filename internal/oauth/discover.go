// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// A Discovery is what Discover has found.
type Discovery struct {
	// Resource identifies the backend in requests (RFC 8707). It is byte for byte as
	// published, or else the URL of the backend without a query, which may have credentials.
	Resource string

	// Scopes are the scopes_supported of the resource; nil if absent.
	Scopes []string

	// Server is the authorization server that was chosen.
	Server *Server

	// Until is when the metadata should be read again.
	Until time.Time
}

// DiscoverOptions direct a discovery.
type DiscoverOptions struct {
	// Challenge is that of the backend's response, or the zero value.
	Challenge Bearer

	// Held are the issuers at which a client is registered. One of them is preferred if
	// the backend has several authorization servers.
	Held []string

	// Code is whether the authorization code grant is to be used, for which the server has
	// to support PKCE with S256.
	Code bool
}

// metadataLife is how long metadata is used.
const metadataLife = time.Hour

// resourceMetadata is a document of RFC 9728.
type resourceMetadata struct {
	Resource string   `json:"resource"`
	Servers  []string `json:"authorization_servers"`
	Scopes   []string `json:"scopes_supported"`
}

// Discover finds the resource and the authorization server of the backend (MCP
// specification, Authorization Server Discovery): the document that the challenge names, or
// else that of the path, or else that of the root; then the metadata of the authorization
// server, which is the pinned one, or else a held one, or else the first. A backend without
// metadata of its resource has the pinned one, or the one of its origin if that has metadata
// (revision 2025-03-26).
//
// A failed check is a *CheckError; the documents after it are not tried.
func (c *Client) Discover(ctx context.Context, o DiscoverOptions) (*Discovery, error) {
	d := &Discovery{Resource: withoutQuery(c.text), Until: time.Now().Add(metadataLife)}
	if c.fixed {
		d.Server = c.fixedServer()
		if err := c.checkURL("token_endpoint", d.Server.TokenEndpoint); err != nil {
			return nil, err
		}
		return d, nil
	}
	doc, tried, err := c.resource(ctx, o.Challenge.ResourceMetadata)
	if err != nil {
		return nil, err
	}
	if doc == nil {
		d.Server, err = c.serverWithoutResource(ctx, tried, o.Code)
	} else {
		d.Resource, d.Scopes = doc.Resource, doc.Scopes
		var issuer string
		if issuer, err = c.choose(doc, o.Held); err == nil {
			d.Server, err = c.Server(ctx, issuer, o.Code)
		}
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// fixedServer returns the authorization server of a backend of revision 2025-03-26 without
// metadata.
func (c *Client) fixedServer() *Server {
	origin := originOf(c.backend)
	return &Server{
		Issuer:                origin,
		AuthorizationEndpoint: origin + "/authorize",
		TokenEndpoint:         origin + "/token",
		RegistrationEndpoint:  origin + "/register",
		FixedPaths:            true,
	}
}

// resource returns the metadata of the resource, or nil and the URLs that have none.
func (c *Client) resource(ctx context.Context, challenged string) (*resourceMetadata, []string, error) {
	urls := c.resourceURLs()
	if challenged != "" {
		if err := c.checkChallenged(challenged); err != nil {
			return nil, nil, err
		}
		urls = []string{challenged}
	}
	var tried []string
	for _, u := range urls {
		if err := c.checkResourceURL(withoutQuery(u)); err != nil {
			return nil, nil, err
		}
		var doc resourceMetadata
		missing, err := c.document(ctx, u, "", &doc)
		if err != nil {
			return nil, nil, err
		}
		if missing == "" {
			return &doc, nil, c.checkResource(u, doc.Resource)
		}
		tried = append(tried, fmt.Sprintf("%s: %s", withoutQuery(u), missing))
	}
	if challenged != "" {
		return nil, nil, &CheckError{Check: CheckNotFound, At: challenged, Got: tried[0], Want: "the metadata of the resource (RFC 9728), which the challenge names"}
	}
	return nil, tried, nil
}

// resourceURLs returns the well-known URLs of the backend (RFC 9728, section 3.1).
func (c *Client) resourceURLs() []string {
	root := originOf(c.backend) + "/.well-known/oauth-protected-resource"
	path := c.backend.EscapedPath()
	query := ""
	if c.backend.RawQuery != "" {
		query = "?" + c.backend.RawQuery
	}
	if path == "/" {
		path = ""
	}
	if path+query == "" {
		return []string{root}
	}
	return []string{root + path + query, root}
}

// checkResourceURL checks the scheme of the URL of a document about the resource. The
// backend itself may use http if its authorization server is pinned: what such a document
// may then change is the scopes.
func (c *Client) checkResourceURL(text string) error {
	if u, err := parseURL(text); err == nil && c.issuer != "" && sameOrigin(u, c.backend) {
		return nil
	}
	return c.checkURL("resource_metadata", text)
}

// checkChallenged checks the origin of the URL of the metadata in a challenge.
func (c *Client) checkChallenged(text string) error {
	u, err := parseURL(text)
	if err != nil {
		return &CheckError{Check: CheckEndpoint, At: "resource_metadata", Got: text, Want: "an https URL: " + err.Error()}
	}
	if c.issuer != "" || sameOrigin(u, c.backend) {
		return nil
	}
	return &CheckError{
		Check: CheckChallengeOrigin, Got: text, Want: "a URL at " + quoted(originOf(c.backend)),
		Cure: "if it is right, set oauth.issuer of the backend",
	}
}

// checkResource checks that a document is about the backend: its resource is the URL of the
// backend, or a parent of it on the same origin.
func (c *Client) checkResource(at, resource string) error {
	if resource == c.text {
		return nil
	}
	u, err := parseURL(resource)
	if err == nil && sameOrigin(u, c.backend) && u.RawQuery == "" && !u.ForceQuery {
		parent := strings.TrimSuffix(u.EscapedPath(), "/")
		path := strings.TrimSuffix(c.backend.EscapedPath(), "/")
		if path == parent || strings.HasPrefix(path, parent+"/") {
			return nil
		}
	}
	return &CheckError{Check: CheckResource, At: at, Got: resource, Want: quoted(withoutQuery(c.text)) + " or a parent of it"}
}

// choose returns the issuer to use of a document.
func (c *Client) choose(doc *resourceMetadata, held []string) (string, error) {
	if c.issuer != "" {
		if len(doc.Servers) == 0 || slices.Contains(doc.Servers, c.issuer) {
			return c.issuer, nil
		}
		return "", &CheckError{
			Check: CheckPinnedIssuer, At: c.text, Got: strings.Join(doc.Servers, " "), Want: quoted(c.issuer),
			Cure: "if the backend has moved, change oauth.issuer",
		}
	}
	for _, issuer := range doc.Servers {
		if slices.Contains(held, issuer) {
			return issuer, nil
		}
	}
	if len(doc.Servers) == 0 {
		return "", &CheckError{Check: CheckServers, At: c.text, Want: "at least one authorization server", Cure: "set oauth.issuer of the backend"}
	}
	return doc.Servers[0], nil
}

// serverWithoutResource returns the authorization server of a backend without metadata of
// its resource.
func (c *Client) serverWithoutResource(ctx context.Context, tried []string, code bool) (*Server, error) {
	if c.issuer != "" {
		return c.Server(ctx, c.issuer, code)
	}
	origin := originOf(c.backend)
	var doc serverMetadata
	u := origin + "/.well-known/oauth-authorization-server"
	missing, err := c.document(ctx, u, origin, &doc)
	if err != nil {
		return nil, err
	}
	if missing != "" {
		tried = append(tried, fmt.Sprintf("%s: %s", withoutQuery(u), missing))
		return nil, &CheckError{
			Check: CheckNotFound, At: c.text, Got: strings.Join(tried, ", "), Want: "metadata of the resource (RFC 9728)",
			Cure: "set oauth.issuer of the backend, or oauth.endpoints for a server of 2025-03-26",
		}
	}
	return c.checkServer(u, origin, &doc, code)
}

// Server returns the metadata of an authorization server, after all checks. With code, the
// server has to support the authorization code grant with PKCE.
func (c *Client) Server(ctx context.Context, issuer string, code bool) (*Server, error) {
	if err := c.checkURL("issuer", issuer); err != nil {
		return nil, err
	}
	u, err := parseURL(issuer)
	if err != nil || u.RawQuery != "" || u.ForceQuery {
		return nil, &CheckError{Check: CheckIssuer, Got: issuer, Want: "a URL without a query"}
	}
	var tried []string
	for _, at := range MetadataURLs(u) {
		var doc serverMetadata
		missing, err := c.document(ctx, at, issuer, &doc)
		if err != nil {
			return nil, err
		}
		if missing == "" {
			return c.checkServer(at, issuer, &doc, code)
		}
		tried = append(tried, fmt.Sprintf("%s: %s", at, missing))
	}
	return nil, &CheckError{Check: CheckNotFound, At: issuer, Got: strings.Join(tried, ", "), Want: "metadata of the authorization server (RFC 8414)"}
}

// MetadataURLs returns the well-known URLs of an issuer, in the order of the MCP
// specification.
func MetadataURLs(issuer *url.URL) []string {
	origin := originOf(issuer)
	path := strings.TrimSuffix(issuer.EscapedPath(), "/")
	urls := []string{
		origin + "/.well-known/oauth-authorization-server" + path,
		origin + "/.well-known/openid-configuration" + path,
	}
	if path != "" {
		urls = append(urls, origin+path+"/.well-known/openid-configuration")
	}
	return urls
}

// document reads a document of JSON. If the URL has none, it returns why.
func (c *Client) document(ctx context.Context, at, issuer string, doc any) (missing string, err error) {
	r, err := c.do(ctx, message{method: http.MethodGet, url: at, issuer: issuer})
	switch {
	case err != nil:
		return "", err
	case r.status != http.StatusOK:
		return fmt.Sprintf("status %d", r.status), nil
	case !r.isJSON():
		return "no JSON", nil
	}
	if err := json.Unmarshal(r.body, doc); err != nil {
		return "", &CheckError{Check: CheckDocument, At: at, Want: "a JSON object with members of the right types, each once"}
	}
	return "", nil
}

// originOf returns the scheme, host and port of a URL, as they are.
func originOf(u *url.URL) string { return u.Scheme + "://" + u.Host }
