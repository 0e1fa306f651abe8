// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// A Check is the name of a check of this package.
type Check string

// The checks. Their texts are parts of error messages.
const (
	CheckChallengeOrigin Check = "origin of resource_metadata"
	CheckResource        Check = "resource"
	CheckServers         Check = "authorization_servers"
	CheckPinnedIssuer    Check = "pinned issuer"
	CheckIssuer          Check = "issuer"
	CheckPKCE            Check = "code_challenge_methods_supported"
	CheckEndpoint        Check = "endpoint"
	CheckAddress         Check = "address"
	CheckRedirect        Check = "redirect"
	CheckDocument        Check = "document"
	CheckNotFound        Check = "metadata"
	CheckState           Check = "state"
	CheckResponseIssuer  Check = "iss"
	CheckResponse        Check = "authorization response"
	CheckTokenResponse   Check = "token response"
	CheckTokenType       Check = "token_type"
	CheckCredential      Check = "issuer of the credential" //nolint:gosec // the name of a check
	CheckAuthMethod      Check = "token_endpoint_auth_methods_supported"
	CheckIDJAGClaim      Check = "ID-JAG"
	CheckIDTokenClaim    Check = "ID token"
	CheckRegistration    Check = "registration"
	CheckParameter       Check = "parameter"
)

// A CheckError reports that a check has failed. What was received must not be used, and
// nothing was sent on account of it.
type CheckError struct {
	Check Check
	At    string // the URL or the place that was checked, or ""; Error omits a query
	Got   string // untrusted; Error quotes it
	Want  string // a value or a description, or ""
	Cure  string // what to change, or ""
}

// Error names the check, the place and both values, each quoted and cut.
func (e *CheckError) Error() string {
	var b strings.Builder
	b.WriteString(string(e.Check))
	if e.At != "" {
		fmt.Fprintf(&b, " at %s", quoted(withoutQuery(e.At)))
	}
	if e.Got != "" {
		fmt.Fprintf(&b, ": got %s", quoted(e.Got))
	}
	if e.Want != "" {
		fmt.Fprintf(&b, ": want %s", e.Want)
	}
	if e.Cure != "" {
		fmt.Fprintf(&b, " (%s)", e.Cure)
	}
	return b.String()
}

// A ServerError is a refusal by an authorization server: an error response of RFC 6749,
// section 5.2, RFC 7591, section 3.2.2, or of an authorization request.
type ServerError struct {
	Status      int    // of HTTP; 0 in an authorization response
	Code        string // such as CodeInvalidGrant; "" if the response has none
	Description string // untrusted; Error quotes it
	At          string // the URL of the endpoint, or ""
}

// Codes of refusals that callers handle in a way of their own (RFC 6749, sections 4.1.2.1 and
// 5.2, and RFC 8707, section 2).
const (
	CodeInvalidGrant  = "invalid_grant"
	CodeInvalidClient = "invalid_client"
	CodeInvalidScope  = "invalid_scope"
	CodeInvalidTarget = "invalid_target"
	CodeAccessDenied  = "access_denied"
)

// Error names the endpoint, the code and the description, which are quoted and cut.
func (e *ServerError) Error() string {
	var b strings.Builder
	b.WriteString("the authorization server refused the request")
	if e.At != "" {
		fmt.Fprintf(&b, " to %s", quoted(withoutQuery(e.At)))
	}
	if e.Status != 0 {
		fmt.Fprintf(&b, " with status %d", e.Status)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, ": %s", quoted(e.Code))
	}
	if e.Description != "" {
		fmt.Fprintf(&b, ": %s", quoted(e.Description))
	}
	return b.String()
}

// HasCode reports whether err is a *ServerError with this code.
func HasCode(err error, code string) bool {
	refused, ok := errors.AsType[*ServerError](err)
	return ok && refused.Code == code
}

// A TemporaryError is a failure that is no refusal: no connection, a timeout, a status of
// 429 or 5xx. Credentials remain valid, and the request may be repeated.
type TemporaryError struct {
	At         string        // the URL of the endpoint
	Status     int           // of HTTP, or 0 without a response
	RetryAfter time.Duration // that the server asked for, or 0
	Sent       bool          // whether the server may have received the request
	Err        error         // nil if there is a Status
}

// Error names the endpoint and the cause.
func (e *TemporaryError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("no response from %s: %v", quoted(withoutQuery(e.At)), e.Err)
	}
	return fmt.Sprintf("%s answered with status %d", quoted(withoutQuery(e.At)), e.Status)
}

// Unwrap returns Err.
func (e *TemporaryError) Unwrap() error { return e.Err }

// IsTemporary reports whether err is a *TemporaryError.
func IsTemporary(err error) bool {
	_, ok := errors.AsType[*TemporaryError](err)
	return ok
}

// maxQuoted bounds untrusted text in an error message, in bytes.
const maxQuoted = 300

// withoutQuery returns a URL without its query, which may have credentials.
func withoutQuery(url string) string {
	before, _, _ := strings.Cut(url, "?")
	return before
}

// quoted returns untrusted text as a Go string of ASCII, cut to a bounded length.
func quoted(s string) string {
	if len(s) <= maxQuoted {
		return fmt.Sprintf("%+q", s)
	}
	cut := maxQuoted
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return fmt.Sprintf("%+q...", s[:cut])
}
