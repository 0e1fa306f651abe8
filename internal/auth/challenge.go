// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"net/http"
	"strings"

	"github.com/signalbox-mcp/signalbox/server"
)

// kind is why a token is refused. Its text is the only thing that the sender learns.
type kind string

// The kinds.
const (
	malformed     kind = "the token is malformed"
	expired       kind = "the token has expired"
	notYetValid   kind = "the token is not valid yet"
	otherAudience kind = "the token is for another audience"
	unknownIssuer kind = "the token is of an unknown issuer"
	notVerified   kind = "the token is not verified"
	notActive     kind = "the token is not active"
	noPrincipal   kind = "the principal of the token is empty"
)

// Error returns the text for the sender.
func (k kind) Error() string { return string(k) }

// SSEPath is the path of the endpoint for clients of 2024-11-05.
const SSEPath = "/sse"

// profilePath is between the path of an endpoint and the name of a profile.
const profilePath = "/p/"

// wellKnown is where the metadata of a resource is, before its path (RFC 9728, section 3.1).
const wellKnown = "/.well-known/oauth-protected-resource"

// resource is the resource of the endpoint. Parts of it at paths of their own, which are
// profiles and the endpoint for older clients, are resources as well. None of it is derived
// from a request but which of these paths the request is for.
type resource struct{ public, path string }

// of returns the path of the resource that a request is for.
func (s resource) of(r *http.Request) string {
	path := s.path
	if r.URL != nil && (r.URL.Path == SSEPath || strings.HasPrefix(r.URL.Path, SSEPath+profilePath)) {
		path = SSEPath
	}
	if profile := server.ProfileOf(r.Context()); profile != "" {
		return strings.TrimSuffix(path, "/") + profilePath + profile
	}
	return path
}

// Challenge returns the challenge for a request without a credential (RFC 6750, section 3, and
// RFC 9728, section 5.1). It has no error code, so that clients do not take it for the expiry
// of a token.
func (c *Chain) Challenge(r *http.Request) string {
	return c.withResource("Bearer", c.resource.of(r), c.scopes)
}

// invalidChallenge returns the challenge for a credential that is refused. The description is
// that of a token, and so is only there with issuers.
func (c *Chain) invalidChallenge(path string, scopes []string, why kind) string {
	const invalid = `Bearer error="invalid_token"`
	if len(c.issuers) == 0 {
		return invalid
	}
	return c.withResource(invalid+`, error_description="`+string(why)+`"`, path, scopes)
}

// withResource appends the metadata of a resource and the scopes to a challenge, if there is
// metadata.
func (c *Chain) withResource(challenge, path string, scopes []string) string {
	if !c.HasMetadata() {
		return challenge
	}
	if challenge != "Bearer" {
		challenge += ","
	}
	challenge += " resource_metadata=" + quoted(c.resource.public+wellKnown+metadataPath(path))
	if len(scopes) > 0 {
		challenge += ", scope=" + quoted(strings.Join(scopes, " "))
	}
	return challenge
}

// metadataPath is what follows wellKnown for the resource with a path: nothing for "/".
func metadataPath(path string) string { return strings.TrimSuffix(path, "/") }

// ScopeChallenge returns the challenge for a request whose sender lacks scopes for what it
// requests. scopes are all that the request needs. The description is for people, and must
// not have anything in it that a client has sent.
func (c *Chain) ScopeChallenge(profile string, scopes []string, description string) string {
	path := c.resource.path
	if profile != "" {
		path = strings.TrimSuffix(path, "/") + profilePath + profile
	}
	return c.scopeChallenge(path, scopes, description)
}

func (c *Chain) scopeChallenge(path string, scopes []string, description string) string {
	challenge := `Bearer error="insufficient_scope", scope=` + quoted(strings.Join(scopes, " "))
	if c.HasMetadata() {
		challenge += ", resource_metadata=" + quoted(c.resource.public+wellKnown+metadataPath(path))
	}
	return challenge + ", error_description=" + quoted(description)
}

// quoted returns a quoted-string of a header (RFC 9110, section 5.6.4), with a question mark
// in place of each character that it must not have.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
