// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Token is a bearer token and the principal it belongs to.
type Token struct {
	Principal string
	Value     string
	Profiles  []string // the only ones that it is for; nil means everything
}

// staticToken is the digest of a Token: it is compared in constant time, whatever the
// token's length, and the token cannot be recovered from it.
type staticToken struct {
	identity *mcp.Identity
	profiles []string
	sum      digest
}

// digest is the SHA-256 of a token.
type digest = [sha256.Size]byte

// isFor reports whether the token is for a profile, or for everything if that is "".
func (t *staticToken) isFor(profile string) bool {
	return t.profiles == nil || slices.Contains(t.profiles, profile)
}

// staticTokens are the tokens of the configuration.
type staticTokens []staticToken

func newStaticTokens(tokens []Token) staticTokens {
	known := make(staticTokens, 0, len(tokens))
	for _, t := range tokens {
		known = append(known, staticToken{&mcp.Identity{Principal: t.Principal, Via: mcp.ViaToken}, t.Profiles, sha256.Sum256([]byte(t.Value))})
	}
	return known
}

// find returns the token with a digest, or nil. All tokens are compared, even after a match:
// otherwise the duration would reveal the position of a token in the file.
func (known staticTokens) find(sum *digest) *staticToken {
	var found *staticToken
	for i := range known {
		if match := subtle.ConstantTimeCompare(sum[:], known[i].sum[:]); match == 1 {
			found = &known[i]
		}
	}
	return found
}
