// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// IDTokenRequest is what an ID token was requested with.
type IDTokenRequest struct {
	Issuer   string // its name in the configuration
	ClientID string
	Nonce    string
}

// IDTokenError reports an ID token that is not accepted. Its text names the check, and contains
// nothing of the token.
type IDTokenError string

// Error returns the text.
func (e IDTokenError) Error() string { return "the ID token " + string(e) }

// The errors of ID tokens.
const (
	idTokenForm      IDTokenError = "is not a signed token"
	idTokenKind      IDTokenError = "has the type of another kind of token"
	idTokenIssuer    IDTokenError = "is of another issuer"
	idTokenAudience  IDTokenError = "is for another client"
	idTokenParty     IDTokenError = "was issued to another client (azp)"
	idTokenNonce     IDTokenError = "is not of this sign-in (nonce)"
	idTokenTimes     IDTokenError = "has expired, is not valid yet, or has no times (exp, iat)"
	idTokenSignature IDTokenError = "is not verified: its algorithm is not accepted, or no key of the issuer verifies it"
	idTokenSubject   IDTokenError = "has no subject (sub)"
	idTokenPrincipal IDTokenError = "has no principal: the expression of the issuer has no result for its claims"
)

// errNoSuchIssuer is the error of a name that no issuer has.
var errNoSuchIssuer = errors.New("there is no issuer of this name")

// VerifyIDToken verifies an ID token that an issuer has sent to a client of the gateway (OpenID
// Connect Core 1.0, section 3.1.3.7), and returns the principal, which is derived as that of an
// access token, and when the ID token expires, without the skew. It waits for the keys of the issuer, but not
// beyond ctx. The error is an [IDTokenError], that of ctx, or one about the keys.
//
// An ID token is no credential for requests: Authenticate refuses it.
func (c *Chain) VerifyIDToken(ctx context.Context, r IDTokenRequest, token mcp.Token) (principal string, expires time.Time, err error) {
	i := slices.IndexFunc(c.issuers, func(iss *issuer) bool { return iss.name == r.Issuer })
	if i < 0 {
		return "", time.Time{}, errNoSuchIssuer
	}
	iss, text := c.issuers[i], token.Reveal()
	if len(text) > maxToken {
		return "", time.Time{}, idTokenForm
	}
	t, err := parseJWT(text)
	if err != nil {
		return "", time.Time{}, idTokenForm
	}
	expires, invalid := iss.checkIDToken(t, &r, time.Now())
	if !slices.Contains(iss.algorithms, jose.SignatureAlgorithm(t.header.Algorithm)) || t.header.Critical != nil {
		return "", time.Time{}, idTokenSignature
	}
	switch _, err := iss.signer(ctx, t, invalid == nil); {
	case errors.Is(err, notVerified):
		return "", time.Time{}, idTokenSignature
	case err != nil:
		return "", time.Time{}, err
	case invalid != nil:
		return "", time.Time{}, invalid
	}
	name, err := iss.principal.Name(t.claims)
	if err != nil {
		return "", time.Time{}, idTokenPrincipal
	}
	return iss.name + ":" + name, expires, nil
}

// checkIDToken checks the claims of an ID token, and returns when it ends, without the skew. The error
// is an IDTokenError.
func (iss *issuer) checkIDToken(t *jwt, r *IDTokenRequest, now time.Time) (expires time.Time, err error) {
	if t.header.Type != nil && strings.TrimPrefix(strings.ToLower(*t.header.Type), "application/") != "jwt" {
		return time.Time{}, idTokenKind // at+jwt, for example
	}
	if t.issuer != iss.url {
		return time.Time{}, idTokenIssuer
	}
	audiences, err := texts(t.claims["aud"])
	if err != nil || !slices.Contains(audiences, r.ClientID) {
		return time.Time{}, idTokenAudience
	}
	party, hasParty := t.claims["azp"]
	if hasParty && party != r.ClientID || !hasParty && len(audiences) > 1 {
		return time.Time{}, idTokenParty
	}
	nonce, _ := t.claims["nonce"].(string)
	if r.Nonce == "" || subtle.ConstantTimeCompare([]byte(nonce), []byte(r.Nonce)) != 1 {
		return time.Time{}, idTokenNonce
	}
	if t.claims["iat"] == nil {
		return time.Time{}, idTokenTimes
	}
	if expires, err = iss.checkTimes(t.claims, now); err != nil {
		return time.Time{}, idTokenTimes
	}
	if subject, _ := t.claims["sub"].(string); subject == "" {
		return time.Time{}, idTokenSubject
	}
	return expires.Add(-iss.skew), nil
}
