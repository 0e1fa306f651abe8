// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"maps"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Grant is what a token is requested with. It contains credentials, and prints as a
// placeholder. Use one of the functions that return one; the zero value is not valid.
type Grant struct {
	form    *url.Values // of the token request, without the authentication of the client
	issuer  string      // the one with the token endpoint that it may be sent to
	scopes  []string    // requested, and those of the tokens if the response has none
	secrets []mcp.Token
	idJAG   bool // whether an ID-JAG is requested, which is no access token
}

func newGrant(issuer string, form url.Values, scopes []string, secrets ...mcp.Token) Grant {
	return Grant{form: &form, issuer: issuer, scopes: scopes, secrets: secrets}
}

// Types of tokens (RFC 8693, section 3, and the identity assertion authorization grant).
const (
	TypeAccessToken = "urn:ietf:params:oauth:token-type:access_token" //nolint:gosec // the name of a type
	TypeIDToken     = "urn:ietf:params:oauth:token-type:id_token"     //nolint:gosec // the name of a type
	TypeIDJAG       = "urn:ietf:params:oauth:token-type:id-jag"
)

const (
	grantExchange  = "urn:ietf:params:oauth:grant-type:token-exchange"
	grantJWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer" //nolint:gosec // the name of a grant
)

// Refresh returns the grant of a refresh token (RFC 6749, section 6) that issuer has
// issued. The resource and the scopes are those that were granted: a server that is not
// sent them may issue a token for another resource or with fewer scopes.
func Refresh(issuer string, refresh mcp.Token, resource string, scopes []string) Grant {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh.Reveal()}}
	setScopes(form, scopes)
	setUnlessEmpty(form, "resource", resource)
	return newGrant(issuer, form, scopes, refresh)
}

// ClientCredentials returns the grant of the client's own credentials (RFC 6749, section
// 4.4).
func ClientCredentials(issuer, resource string, scopes []string) Grant {
	form := url.Values{"grant_type": {"client_credentials"}}
	setScopes(form, scopes)
	setUnlessEmpty(form, "resource", resource)
	return newGrant(issuer, form, scopes)
}

// Exchange describes a token exchange (RFC 8693).
type Exchange struct {
	Issuer      string // that the operator has configured; the token is sent to no other
	Subject     mcp.Token
	SubjectType string // TypeAccessToken if it is ""
	Audience    string // "" omits the parameter
	Resource    string // "" omits the parameter
	Scopes      []string
}

// Grant returns the grant of the exchange, for an access token.
func (e Exchange) Grant() Grant { return e.grant(TypeAccessToken) }

// IDJAG returns the grant of an exchange of an ID token for an assertion with which the
// authorization server of a backend issues an access token (MCP extension
// enterprise-managed authorization, section 4). Audience is the issuer of that server, and
// Resource identifies the backend. Use CheckIDJAG with the result, and then JWTBearer.
func (e Exchange) IDJAG() Grant {
	if e.SubjectType == "" {
		e.SubjectType = TypeIDToken
	}
	g := e.grant(TypeIDJAG)
	g.idJAG = true
	return g
}

func (e Exchange) grant(requested string) Grant {
	kind := e.SubjectType
	if kind == "" {
		kind = TypeAccessToken
	}
	form := url.Values{
		"grant_type":           {grantExchange},
		"requested_token_type": {requested},
		"subject_token":        {e.Subject.Reveal()},
		"subject_token_type":   {kind},
	}
	setUnlessEmpty(form, "audience", e.Audience)
	setUnlessEmpty(form, "resource", e.Resource)
	setScopes(form, e.Scopes)
	return newGrant(e.Issuer, form, e.Scopes, e.Subject)
}

// JWTBearer returns the grant of an assertion (RFC 7523, section 2.1): the identity of a
// workload, or an ID-JAG. The assertion is for issuer.
func JWTBearer(issuer string, assertion mcp.Token, resource string, scopes []string) Grant {
	form := url.Values{"grant_type": {grantJWTBearer}, "assertion": {assertion.Reveal()}}
	setScopes(form, scopes)
	setUnlessEmpty(form, "resource", resource)
	return newGrant(issuer, form, scopes, assertion)
}

// With returns the grant with more parameters. It is an error to replace one of ours.
func (g Grant) With(parameters map[string]string) (Grant, error) {
	form := make(url.Values, len(*g.form)+len(parameters))
	maps.Copy(form, *g.form)
	if err := addParameters(form, parameters); err != nil {
		return Grant{}, err
	}
	g.form = &form
	return g, nil
}

// placeholder is printed in place of credentials.
const placeholder = "[redacted]"

// String returns a placeholder.
func (g Grant) String() string { return placeholder }

// GoString returns a placeholder.
func (g Grant) GoString() string { return placeholder }

// CheckParameters reports whether more parameters may be sent in authorization and token
// requests. None that this package sets may be replaced.
func CheckParameters(parameters map[string]string) error {
	return addParameters(url.Values{}, parameters)
}

// isOurs reports whether this package sets a parameter of requests.
func isOurs(name string) bool {
	switch name {
	case "response_type", "client_id", "client_secret", "redirect_uri", "state", "nonce",
		"code", "code_challenge", "code_challenge_method", "code_verifier", "scope", "resource",
		"grant_type", "refresh_token", "assertion", "client_assertion", "client_assertion_type",
		"subject_token", "subject_token_type", "requested_token_type", "request", "request_uri",
		"response_mode", "token", "token_type_hint":
		return true
	}
	return false
}

func addParameters(form url.Values, parameters map[string]string) error {
	for name, value := range parameters {
		if name == "" || isOurs(strings.ToLower(name)) || form.Has(name) {
			return &CheckError{Check: CheckParameter, Got: name, Want: "a parameter that the gateway does not set itself"}
		}
		form.Set(name, value)
	}
	return nil
}

func setUnlessEmpty(form url.Values, name, value string) {
	if value != "" {
		form.Set(name, value)
	}
}

func setScopes(form url.Values, scopes []string) {
	setUnlessEmpty(form, "scope", strings.Join(scopes, " "))
}
