// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth identifies the senders of requests by their bearer tokens.
package auth

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// A Token is a bearer token and the principal it belongs to.
type Token struct {
	Principal string
	Value     string
	Profiles  []string // the only ones that it is for; nil means everything
}

// A Bearer identifies callers by bearer tokens (RFC 6750). It is immutable, and its
// methods may be called concurrently.
type Bearer struct {
	tokens []knownToken
}

// knownToken is the digest of a Token: it is compared in constant time, whatever the
// token's length, and the token cannot be recovered from it.
type knownToken struct {
	identity *mcp.Identity
	profiles []string
	sum      [sha256.Size]byte
}

// NewBearer returns a Bearer with the given tokens. It keeps their digests only.
func NewBearer(tokens []Token) *Bearer {
	b := &Bearer{tokens: make([]knownToken, 0, len(tokens))}
	for _, t := range tokens {
		b.tokens = append(b.tokens, knownToken{&mcp.Identity{Principal: t.Principal, Via: mcp.ViaToken}, t.Profiles, sha256.Sum256([]byte(t.Value))})
	}
	return b
}

// The challenges of RFC 6750, section 3: the one for a request without a token has no
// error code.
const (
	challengeMissing = `Bearer`
	challengeInvalid = `Bearer error="invalid_token"`
)

// maxToken bounds the length of a token; real ones are much shorter.
const maxToken = 16 << 10

// Authenticate returns the identity of the request's token. The error is a
// [*server.Denial], and never quotes the token. If the token is not for the profile of the
// request, its status is 404. Its duration does not depend on how much of a token is
// correct.
func (b *Bearer) Authenticate(r *http.Request) (*mcp.Identity, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return nil, &server.Denial{Challenge: challengeMissing, Message: "missing bearer token: send the header Authorization: Bearer TOKEN"}
	}
	// With two headers, an intermediary may have checked the other one.
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return nil, &server.Denial{Challenge: challengeInvalid, Message: "the Authorization header is not a single bearer token"}
	}
	sum := sha256.Sum256([]byte(token))
	var found *knownToken
	// All tokens are compared, even after a match: otherwise the duration would reveal
	// the position of a token in the file.
	for i := range b.tokens {
		if match := subtle.ConstantTimeCompare(sum[:], b.tokens[i].sum[:]); match == 1 {
			found = &b.tokens[i]
		}
	}
	if found == nil {
		return nil, &server.Denial{Challenge: challengeInvalid, Message: "unknown bearer token"}
	}
	if profile := server.ProfileOf(r.Context()); found.profiles != nil && !slices.Contains(found.profiles, profile) {
		return found.identity, &server.Denial{Status: http.StatusNotFound, Message: cmp.Or(profile, "everything")}
	}
	return found.identity, nil
}
