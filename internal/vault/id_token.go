// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"context"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// An IDToken is what an identity provider has issued to a client of the gateway about a user
// (OpenID Connect Core 1.0, section 2). It was verified before it was stored.
type IDToken struct {
	Principal string
	Issuer    string // of the identity provider
	Client    string // client_id, its audience
	Meta

	Token    mcp.Token
	Expires  time.Time
	SignedIn time.Time // when the gateway got it
}

func (t *IDToken) identity() identity {
	return identity{kind: kindIDToken, group: []string{t.Principal}, rest: []string{t.Issuer, t.Client}}
}

type storedIDToken struct {
	Token    string    `json:"id_token"`
	Expires  time.Time `json:"expires"`
	SignedIn time.Time `json:"signed_in"`
	Saved    time.Time `json:"saved"`
}

func (t *IDToken) encode() ([]byte, error) {
	return json.Marshal(storedIDToken{t.Token.Reveal(), t.Expires, t.SignedIn, t.Saved})
}

func (t *IDToken) decode(plain []byte) error {
	var s storedIDToken
	if json.Unmarshal(plain, &s) != nil {
		return errForm
	}
	t.Token, t.Expires, t.SignedIn, t.Saved = mcp.NewToken(s.Token), s.Expires, s.SignedIn, s.Saved
	return nil
}

// IDTokens returns the ID tokens of a principal, of all issuers and clients. Those that do not
// open are left out.
func (v *Vault) IDTokens(ctx context.Context, principal string) ([]*IDToken, error) {
	return find[*IDToken](ctx, v, (&IDToken{Principal: principal}).identity(), v.store.Names)
}
