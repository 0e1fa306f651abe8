// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Registration is a client at one authorization server: its id, and how it authenticates
// itself. It prints without its secret.
type Registration struct {
	// Issuer is the authorization server that the client is registered at. The client is
	// not presented to any other.
	Issuer string

	ClientID string
	Secret   mcp.Token   // or zero
	Key      *SigningKey // for private_key_jwt, or nil

	// Method is the authentication that the client is registered with, or "" to choose one
	// that the server supports.
	Method string

	// RedirectURIs are those that the client is registered with; nil is not known.
	RedirectURIs []string

	// SecretExpires is when the secret ends; zero is never.
	SecretExpires time.Time

	// Source is how the client came to be known.
	Source RegistrationSource
}

// RegistrationSource is how a client came to be known to an authorization server.
type RegistrationSource string

// The sources of registrations.
const (
	SourceGiven      RegistrationSource = "given"        // by the configuration
	SourceMetadata   RegistrationSource = "metadata URL" // its id is the URL of its metadata
	SourceRegistered RegistrationSource = "registered"   // by the gateway (RFC 7591)
)

// Methods of the authentication of a client at the token endpoint.
const (
	MethodNone          = "none"
	MethodBasic         = "client_secret_basic"
	MethodPost          = "client_secret_post"
	MethodPrivateKeyJWT = "private_key_jwt"
)

// isPublic reports whether the client has no credential.
func (r *Registration) isPublic() bool { return r.Secret.IsZero() && r.Key == nil }

// belongsTo reports whether the client may be presented to a server.
func (r *Registration) belongsTo(s *Server) error {
	if r.Issuer == s.Issuer && r.Issuer != "" {
		return nil
	}
	return &CheckError{
		Check: CheckCredential, At: s.Issuer, Got: r.Issuer, Want: quoted(s.Issuer),
		Cure: "the client is registered at another authorization server",
	}
}

// usable reports whether a kept registration can be used at a server, with a redirect URI.
func (r *Registration) usable(s *Server, redirectURI string, now time.Time) bool {
	return r != nil && r.Issuer == s.Issuer &&
		(r.SecretExpires.IsZero() || now.Before(r.SecretExpires)) &&
		(redirectURI == "" || slices.Contains(r.RedirectURIs, redirectURI))
}

// RegistrationOptions are the ways to a client id.
type RegistrationOptions struct {
	// Given is the client of the configuration, or nil. Its Issuer is the one that it
	// belongs to: the pinned one, or the one that it was first used with. If it is "", it
	// is the issuer of this server.
	Given *Registration

	// MetadataURL is the URL of the metadata document that the gateway serves, or "".
	MetadataURL string

	// Held is the kept result of an earlier registration, or nil. It is used if it is of
	// this server, has the redirect URI, and its secret has not expired.
	Held *Registration

	// Metadata is what a client is registered with.
	Metadata ClientMetadata
}

// Registration returns the client to use at a server: the given one, or else the one with
// the metadata URL, if the server supports those, or else the held one, or else one that
// is registered now (MCP specification, Client Registration). The result is new if its
// Source is SourceRegistered and it is not Held: the caller keeps it.
func (c *Client) Registration(ctx context.Context, s *Server, o RegistrationOptions) (*Registration, error) {
	if o.Given != nil {
		given := *o.Given
		if given.Issuer == "" {
			given.Issuer = s.Issuer
		}
		given.Source = SourceGiven
		return &given, given.belongsTo(s)
	}
	if o.MetadataURL != "" && s.MetadataID {
		return &Registration{
			Issuer: s.Issuer, ClientID: o.MetadataURL, Method: MethodNone,
			RedirectURIs: o.Metadata.RedirectURIs, Source: SourceMetadata,
		}, nil
	}
	redirectURI := ""
	if len(o.Metadata.RedirectURIs) > 0 {
		redirectURI = o.Metadata.RedirectURIs[0]
	}
	if o.Held.usable(s, redirectURI, time.Now()) {
		return o.Held, nil
	}
	return c.Register(ctx, s, o.Metadata)
}
