// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"net/http"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Credentials gives the credential of each HTTP request to a server, for example an access
// token that is refreshed. A child process gets none. The methods are called concurrently,
// must not call the Client, and may block until ctx ends.
//
// The request passed to a method is the one that the HTTP request belongs to. HTTP requests
// that belong to no request of a sender, such as the end of a session, a notification, and
// the stream of a session, get one with the Principal and the Identity that the session was
// last used with: its Method is "subscriptions/listen" for a stream, and else "". A request
// of the Client itself, such as the probe of the era for a request without identity, has
// neither. The request is never nil and must not be modified.
type Credentials interface {
	// PerPrincipal reports whether the credentials of two principals differ. A legacy session
	// then serves the requests of one principal only, even with Config.Share, and at most
	// Config.IdleSessions sessions of each principal are kept idle. The result must not change.
	PerPrincipal() bool

	// For returns the credential for one HTTP request. The zero Credential adds nothing. After
	// an error the request is not sent, and ends with that error, as described for Refused.
	For(ctx context.Context, req *mcp.Request) (Credential, error)

	// Refused is called when the server has answered an HTTP request with 401 or 403, and
	// nothing else. If it returns nil, the request is sent again with what For returns then:
	// once after a 401, and once after a 403. After ErrRefused the request ends as it would
	// without Credentials.
	//
	// Any other error ends the request: an *mcp.Error or an *mcp.Fault as it is, and the text
	// of any other error in an *mcp.Fault that reports that the request was not dispatched. If
	// the HTTP request was to continue the response to a request, that one has the outcome
	// unknown, whatever the error. The text must not contain a credential, and is shown to the
	// sender.
	Refused(ctx context.Context, req *mcp.Request, sent Credential, r Refusal) error
}

// Credential is what one HTTP request carries for the server to accept it.
type Credential struct {
	// Header has the fields to set. They replace those of Config.Header. Fields that HTTP or
	// the protocol defines, other than Authorization and Cookie, are refused. The map must not
	// be modified any more. The values are removed from logs.
	Header map[string]mcp.Token

	// Origin is the origin that the credential is for, as OriginOf returns it. A request to
	// another origin is not sent. It may be empty if Header is.
	Origin string

	// Generation distinguishes the credentials of one sender. The Client passes it to Refused.
	Generation uint64
}

// Refusal is the response of a server that has refused a credential.
type Refusal struct {
	Status int // 401 or 403

	// Challenges are the values of WWW-Authenticate, unparsed, as the server has sent them:
	// they must not be shown, nor passed to a client.
	Challenges []string
}

// ErrRefused is returned by Credentials.Refused to end a request as without Credentials: with
// the error that the server has sent, or with one that names the status.
var ErrRefused = call.ErrRefused

// OriginOf returns the origin of an http or https URL: the scheme, the host in lower case, and
// the port unless it is the default one (RFC 6454, section 6.2). Two URLs have the same
// origin if the texts are equal.
func OriginOf(rawURL string) (string, error) { return call.OriginOf(rawURL) }

// CheckCredentialField returns an error if a Credential cannot set the header field: the name
// is not valid, or HTTP or the protocol defines it.
func CheckCredentialField(name string) error {
	return call.CheckCredentialField(http.CanonicalHeaderKey(name))
}

// credentialsOf adapts Credentials to the types of the packages below.
type credentialsOf struct{ Credentials }

// For calls the Credentials.
func (a credentialsOf) For(ctx context.Context, req *mcp.Request) (call.Credential, error) {
	c, err := a.Credentials.For(ctx, req)
	return call.Credential(c), err
}

// Refused calls the Credentials.
func (a credentialsOf) Refused(ctx context.Context, req *mcp.Request, sent call.Credential, r call.Refusal) error {
	return a.Credentials.Refused(ctx, req, Credential(sent), Refusal(r))
}
