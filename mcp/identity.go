// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package mcp

import (
	"fmt"
	"io"
	"log/slog"
	"time"
)

// An Identity is the sender of one request, as authentication found it. It is immutable and
// may be shared by requests.
type Identity struct {
	// Principal is the sender's name at this endpoint, and the key of everything that is
	// kept for the sender. "" is the anonymous principal.
	Principal string

	// Via is the form of the credential.
	Via Via

	// Issuer and Subject are those of the token, and "" for any other credential.
	Issuer, Subject string

	// Scopes are the scopes of the token with those that they imply, sorted.
	Scopes []string

	// Claims are the claims of the token as decoded JSON, with numbers as json.Number, or
	// nil.
	Claims map[string]any

	// Expires is when the credential ends; zero is never. A stream of the sender must not
	// continue after it.
	Expires time.Time

	// Token is the access token that the sender presented, for an exchange at its issuer
	// (RFC 8693). It must not be sent to any other party.
	Token Token
}

// Via is the form of the credential with which a sender has identified itself.
type Via string

// The forms of credentials.
const (
	ViaNone          Via = ""              // none is needed
	ViaToken         Via = "token"         // a bearer token of the configuration
	ViaJWT           Via = "jwt"           // a signed token of an issuer
	ViaIntrospection Via = "introspection" // a token that its issuer has vouched for (RFC 7662)
	ViaCertificate   Via = "certificate"   // a client certificate
	ViaProxy         Via = "proxy"         // a header of a trusted proxy
	ViaLocal         Via = "local"         // the user of this machine: a pipe or a private socket
)

// A Token is a credential that is not printed: all verbs of fmt, slog, and encoding to text
// or JSON write a placeholder. Only Reveal returns the text, so that all uses can be searched
// for. The zero value is an empty text.
type Token struct {
	// A pointer, because fmt prints unexported strings of a struct with a Token in an
	// unexported field, without calling its methods.
	text *string
}

// NewToken returns a Token with a text.
func NewToken(text string) Token { return Token{text: &text} }

// Reveal returns the text.
func (t Token) Reveal() string {
	if t.text == nil {
		return ""
	}
	return *t.text
}

// IsZero reports whether the text is empty.
func (t Token) IsZero() bool { return t.Reveal() == "" }

const redacted = "[redacted]"

// String returns a placeholder.
func (t Token) String() string { return redacted }

// GoString returns a placeholder.
func (t Token) GoString() string { return redacted }

// Format writes a placeholder, whatever the verb.
func (t Token) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, redacted) // a fmt.Formatter cannot report an error
}

// LogValue returns a placeholder.
func (t Token) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns a placeholder.
func (t Token) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Denied is an error of a Handler that refuses a request because of its sender: for lack of
// permission, or because a quota is used up. It has not been dispatched. Over HTTP the edge
// answers with Status, Challenge and RetryAfter while nothing of the response has been
// written, and on all other ways with Err alone.
type Denied struct {
	Status     int           // of HTTP: 401, 403 or 429
	Challenge  string        // the WWW-Authenticate header, or ""
	RetryAfter time.Duration // the Retry-After header in whole seconds, rounded up; or 0
	Err        *Error
}

// Error returns the text of Err.
func (d *Denied) Error() string { return d.Err.Error() }

// Unwrap returns Err.
func (d *Denied) Unwrap() error { return d.Err }
