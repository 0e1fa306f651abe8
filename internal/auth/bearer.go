// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth says who sends a request.
package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"

	"github.com/signalbox-mcp/signalbox/server"
)

// Token is a bearer token and who calls with it.
type Token struct {
	Principal string
	Value     string
}

// Bearer knows callers by bearer tokens (RFC 6750). It is immutable, and its
// methods may be called concurrently.
type Bearer struct {
	known []known
}

// known is what is left of a Token: a digest is compared in one time whatever the
// length, and leads nobody back to the token.
type known struct {
	principal string
	sum       [sha256.Size]byte
}

// NewBearer returns a Bearer of the tokens. It keeps their digests only.
func NewBearer(tokens []Token) *Bearer {
	b := &Bearer{known: make([]known, 0, len(tokens))}
	for _, t := range tokens {
		b.known = append(b.known, known{t.Principal, sha256.Sum256([]byte(t.Value))})
	}
	return b
}

// The challenges of RFC 6750, section 3: a request without a token is told that
// it needs one, and not that it was wrong.
const (
	challengeMissing = `Bearer`
	challengeInvalid = `Bearer error="invalid_token"`
)

// maxToken bounds what is looked at. It is more than any token has.
const maxToken = 16 << 10

// Authenticate returns the principal of the request's token. The error is a
// [*server.Denial], and never quotes the token. How long it takes does not
// depend on how much of a token is right.
func (b *Bearer) Authenticate(r *http.Request) (string, error) {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return "", &server.Denial{Challenge: challengeMissing, Message: "a bearer token is needed: send the header Authorization: Bearer TOKEN"}
	}
	// Of two headers another party on the way may have read the other one.
	scheme, token, _ := strings.Cut(values[0], " ")
	if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", &server.Denial{Challenge: challengeInvalid, Message: "the Authorization header is not one bearer token"}
	}
	sum := sha256.Sum256([]byte(token))
	principal, ok := "", 0
	// Every token is looked at, also behind the one that fits: where the search
	// stops would tell how far down the file a token stands.
	for _, k := range b.known {
		if match := subtle.ConstantTimeCompare(sum[:], k.sum[:]); match == 1 {
			principal, ok = k.principal, 1
		}
	}
	if ok == 0 {
		return "", &server.Denial{Challenge: challengeInvalid, Message: "the bearer token is not known here"}
	}
	return principal, nil
}
