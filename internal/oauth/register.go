// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ClientMetadata is what an authorization server learns about the client (RFC 7591, section
// 2). The zero value of a field, except of RedirectURIs, has a default.
type ClientMetadata struct {
	Name         string   // shown to users
	URI          string   // of a page about the client
	RedirectURIs []string // at least one
	Method       string   // of the authentication at the token endpoint; "" is what the server supports
	Scopes       []string
}

// clientDocument is a document of client metadata: a request of RFC 7591, or the document
// at a client id that is a URL.
type clientDocument struct {
	ClientID        string   `json:"client_id,omitempty"`
	ClientName      string   `json:"client_name,omitempty"`
	ClientURI       string   `json:"client_uri,omitempty"`
	ApplicationType string   `json:"application_type,omitempty"`
	RedirectURIs    []string `json:"redirect_uris"`
	GrantTypes      []string `json:"grant_types"`
	ResponseTypes   []string `json:"response_types"`
	Method          string   `json:"token_endpoint_auth_method"`
	Scope           string   `json:"scope,omitempty"`
}

const defaultClientName = "Signalbox"

func (m ClientMetadata) document(method string) clientDocument {
	name := m.Name
	if name == "" {
		name = defaultClientName
	}
	return clientDocument{
		ClientName:      name,
		ClientURI:       m.URI,
		ApplicationType: applicationType(m.RedirectURIs),
		RedirectURIs:    m.RedirectURIs,
		GrantTypes:      []string{"authorization_code", "refresh_token"},
		ResponseTypes:   []string{"code"},
		Method:          method,
		Scope:           strings.Join(m.Scopes, " "),
	}
}

// applicationType returns native if the redirects stay on this host, and web otherwise
// (OpenID Connect Dynamic Client Registration 1.0, section 2).
func applicationType(redirectURIs []string) string {
	for _, text := range redirectURIs {
		u, err := parseURL(text)
		if err != nil || !isLoopbackHost(u.Hostname()) {
			return "web"
		}
	}
	return "native"
}

// MetadataDocument returns the document that is served at a client id that is a URL (OAuth
// Client ID Metadata Document), after CheckMetadataDocument.
func MetadataDocument(clientID string, m ClientMetadata) ([]byte, error) {
	doc := m.document(MethodNone)
	doc.ClientID = clientID
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("the client's metadata document: %w", err)
	}
	return text, CheckMetadataDocument(clientID, text)
}

// CheckMetadataDocument reports what would make authorization servers refuse a document at
// a client id: all problems, joined.
func CheckMetadataDocument(clientID string, text []byte) error {
	errs := []error{checkClientID(clientID)}
	add := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("the client's metadata document: "+format, args...))
	}
	var doc clientDocument
	if err := json.Unmarshal(text, &doc); err != nil {
		add("it is not a JSON object with members of the right types")
		return errors.Join(errs...)
	}
	if doc.ClientID != clientID {
		add("client_id is %s, and not its URL %s", quoted(doc.ClientID), quoted(clientID))
	}
	if doc.ClientName == "" {
		add("client_name is missing")
	}
	if len(doc.RedirectURIs) == 0 {
		add("redirect_uris are missing")
	}
	for _, redirect := range doc.RedirectURIs {
		if err := checkRedirectURI(redirect); err != nil {
			errs = append(errs, err)
		}
	}
	if !slices.Contains(doc.GrantTypes, "authorization_code") || !slices.Contains(doc.GrantTypes, "refresh_token") {
		add("grant_types do not have authorization_code and refresh_token")
	}
	if doc.Method != MethodNone && doc.Method != MethodPrivateKeyJWT {
		add("token_endpoint_auth_method is %s: a public document cannot have a secret", quoted(doc.Method))
	}
	return errors.Join(errs...)
}

// checkClientID checks the URL of a metadata document: https, with a path, and without
// query, fragment, user information and dot segments.
func checkClientID(text string) error {
	u, err := parseURL(text)
	switch {
	case err != nil:
		return fmt.Errorf("the client id %s: %w", quoted(text), err)
	case u.Scheme != "https":
		return fmt.Errorf("the client id %s is not an https URL; set publicURL to one", quoted(text))
	case u.Path == "" || u.Path == "/":
		return fmt.Errorf("the client id %s has no path", quoted(text))
	case u.RawQuery != "" || u.ForceQuery:
		return fmt.Errorf("the client id %s has a query", quoted(text))
	}
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return fmt.Errorf("the client id %s has a dot segment", quoted(text))
		}
	}
	return nil
}

// checkRedirectURI checks a redirect URI: https, or http on loopback (MCP specification,
// Communication Security).
func checkRedirectURI(text string) error {
	u, err := parseURL(text)
	if err != nil {
		return fmt.Errorf("the redirect URI %s: %w", quoted(text), err)
	}
	if u.Scheme != "https" && !isLoopbackHost(u.Hostname()) {
		return fmt.Errorf("the redirect URI %s is neither https nor on loopback", quoted(text))
	}
	return nil
}

// registrationResponse is that of RFC 7591, section 3.2.1.
type registrationResponse struct {
	ClientID      string         `json:"client_id"`
	Secret        string         `json:"client_secret"`
	SecretExpires jsontext.Value `json:"client_secret_expires_at"`
	Method        string         `json:"token_endpoint_auth_method"`
	RedirectURIs  []string       `json:"redirect_uris"`
}

// Register registers a client (RFC 7591). The error names the key of the configuration that
// helps if the server refuses it.
func (c *Client) Register(ctx context.Context, s *Server, m ClientMetadata) (*Registration, error) {
	if s.RegistrationEndpoint == "" {
		return nil, &CheckError{
			Check: CheckRegistration, At: s.Issuer, Want: "a way to register a client",
			Cure: registerCure(m),
		}
	}
	for _, redirect := range m.RedirectURIs {
		if err := checkRedirectURI(redirect); err != nil {
			return nil, err
		}
	}
	doc := m.document(m.registrationMethod(s))
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("the registration request: %w", err)
	}
	r, err := c.do(ctx, message{
		method: http.MethodPost, url: s.RegistrationEndpoint, issuer: s.Issuer, body: string(text),
		header: http.Header{"Content-Type": {"application/json"}},
	})
	if err != nil {
		return nil, err
	}
	if err := r.refusal(); err != nil {
		if IsTemporary(err) {
			return nil, err
		}
		return nil, fmt.Errorf("register a client: %w; %s", err, registerCure(m))
	}
	return registered(s, doc, r)
}

func registerCure(m ClientMetadata) string {
	return "register a client with the redirect URI " + quoted(strings.Join(m.RedirectURIs, " ")) +
		" there by hand, and write its id as oauth.clientId of the backend"
}

// registrationMethod returns the method to register with: none, unless the server supports
// only others.
func (m ClientMetadata) registrationMethod(s *Server) string {
	if m.Method != "" {
		return m.Method
	}
	for _, method := range []string{MethodNone, MethodBasic, MethodPost} {
		if s.AuthMethods == nil || slices.Contains(s.AuthMethods, method) {
			return method
		}
	}
	return MethodNone
}

// registered checks a response to a registration.
func registered(s *Server, asked clientDocument, r *reply) (*Registration, error) {
	refuse := func(got, want string) (*Registration, error) {
		return nil, &CheckError{Check: CheckRegistration, At: s.RegistrationEndpoint, Got: got, Want: want}
	}
	var resp registrationResponse
	if !r.isJSON() {
		return refuse(r.header.Get("Content-Type"), "JSON")
	}
	if err := json.Unmarshal(r.body, &resp); err != nil {
		return refuse("", "a JSON object with members of the right types, each once")
	}
	if resp.ClientID == "" || !isVisible(resp.ClientID) {
		return refuse("", "a client_id of visible ASCII characters")
	}
	if resp.RedirectURIs != nil {
		for _, redirect := range asked.RedirectURIs {
			if !slices.Contains(resp.RedirectURIs, redirect) {
				return refuse(strings.Join(resp.RedirectURIs, " "), "the redirect URI "+quoted(redirect))
			}
		}
	}
	reg := &Registration{
		Issuer: s.Issuer, ClientID: resp.ClientID, Method: resp.Method,
		RedirectURIs: asked.RedirectURIs, Source: SourceRegistered,
	}
	if resp.Secret != "" {
		reg.Secret = mcp.NewToken(resp.Secret)
	}
	if reg.Method == "" && reg.Secret.IsZero() {
		reg.Method = MethodNone
	}
	if reg.Method != "" {
		if err := reg.checkMethod(); err != nil {
			return nil, err
		}
	}
	expires, ok := seconds(resp.SecretExpires)
	if !ok {
		return refuse("", "client_secret_expires_at as a number of seconds")
	}
	if expires > 0 && !reg.Secret.IsZero() {
		reg.SecretExpires = time.Unix(int64(expires), 0)
	}
	return reg, nil
}
