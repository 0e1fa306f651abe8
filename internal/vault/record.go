// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package vault

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A Record is a *Grant, *Registration, *Binding or *IDToken. Its exported key fields identify it.
type Record interface {
	identity() identity
	meta() *Meta
	encode() ([]byte, error)
	decode([]byte) error
}

// Meta is what a Vault sets in each record.
type Meta struct {
	// Generation identifies the version of the record: each change gives it another one,
	// and none is used again for the same key, not even after a deletion. 0 is a record
	// that is not in the vault.
	Generation uint64
	// Saved is the time of the latest change.
	Saved time.Time
}

func (m *Meta) meta() *Meta { return m }

// GrantKey identifies a grant. All texts are compared byte for byte, and none is changed.
type GrantKey struct {
	Principal string // "" is the anonymous one
	Backend   string // name in the configuration
	Issuer    string // of the authorization server (RFC 8414)
	Resource  string // as it is sent to it (RFC 8707); "" if it is not
	Client    string // client_id
}

// A Grant is what an authorization server has given for one GrantKey.
type Grant struct {
	GrantKey
	Meta

	// URL is that of the backend: the access token is for no other place.
	URL string

	AccessToken  mcp.Token
	RefreshToken mcp.Token // may be empty
	TokenType    string
	Scopes       []string  // as granted
	Expires      time.Time // of the access token; zero is unknown
	SignedIn     time.Time // when the user, or the gateway, has got the first token
	Refreshed    time.Time // of the latest refresh; zero if there was none
}

// A Registration is a client that the gateway has registered (RFC 7591).
type Registration struct {
	Issuer      string
	RedirectURI string // "" for a client without one
	Meta

	Client        string // client_id
	Secret        mcp.Token
	SecretExpires time.Time // zero is never
	AuthMethod    string    // token_endpoint_auth_method
	Registered    time.Time
}

// A Binding is the issuer with which the configured client id of a backend was used first,
// and with which alone it may be used.
type Binding struct {
	Backend string
	Client  string
	Meta

	Issuer string
}

// identity is the key of a record of any kind. Records with the same kind and group can be
// found without the rest of the key.
type identity struct {
	kind        string
	group, rest []string
}

const (
	kindGrant        = "grant"
	kindRegistration = "registration"
	kindBinding      = "binding"
	kindIDToken      = "id_token"
)

// ofUser begins the group of each grant. Other values are free for grants that are not of users.
const ofUser = "false"

// values returns the identity as a list that no other identity has.
func (id identity) values() []string {
	values := append([]string{id.kind, strconv.Itoa(len(id.group))}, id.group...)
	return append(values, id.rest...)
}

// check returns an error for a key that cannot be stored.
func (id identity) check() error {
	for _, v := range id.values() {
		if !utf8.ValidString(v) || len(v) > maxKeyText {
			return fmt.Errorf("the key of a %s has a text that is not UTF-8 or has more than %d bytes", id.kind, maxKeyText)
		}
	}
	return nil
}

// maxKeyText bounds each text of a key.
const maxKeyText = 8 << 10

func grantGroup(principal, backend string) identity {
	return identity{kind: kindGrant, group: []string{ofUser, principal, backend}}
}

func (g *Grant) identity() identity {
	id := grantGroup(g.Principal, g.Backend)
	id.rest = []string{g.Issuer, g.Resource, g.Client}
	return id
}

func (r *Registration) identity() identity {
	return identity{kind: kindRegistration, group: []string{r.Issuer}, rest: []string{r.RedirectURI}}
}

func (b *Binding) identity() identity {
	return identity{kind: kindBinding, group: []string{b.Backend}, rest: []string{b.Client}}
}

var (
	errKey = errors.New("the key of the record is not of this version")
	// errForm replaces errors of the decoder, which may quote what they are about.
	errForm = errors.New("the content of the record is not of this version")
)

// newRecord returns an empty record with the identity of values.
func newRecord(values []string) (Record, error) {
	var r Record
	switch {
	case len(values) == 8 && values[0] == kindGrant:
		r = &Grant{GrantKey: GrantKey{
			Principal: values[3], Backend: values[4], Issuer: values[5], Resource: values[6], Client: values[7],
		}}
	case len(values) == 4 && values[0] == kindRegistration:
		r = &Registration{Issuer: values[2], RedirectURI: values[3]}
	case len(values) == 4 && values[0] == kindBinding:
		r = &Binding{Backend: values[2], Client: values[3]}
	case len(values) == 5 && values[0] == kindIDToken:
		r = &IDToken{Principal: values[2], Issuer: values[3], Client: values[4]}
	default:
		return nil, errKey
	}
	if strings.Join(r.identity().values(), "\x00") != strings.Join(values, "\x00") {
		return nil, errKey
	}
	return r, nil
}

// The plain bytes of records. They are sealed, and the only place where tokens are written.

type storedGrant struct {
	URL          string    `json:"url,omitzero"`
	AccessToken  string    `json:"access_token"`
	RefreshToken string    `json:"refresh_token,omitzero"`
	TokenType    string    `json:"token_type,omitzero"`
	Scopes       []string  `json:"scopes,omitzero"`
	Expires      time.Time `json:"expires,omitzero"`
	SignedIn     time.Time `json:"signed_in,omitzero"`
	Refreshed    time.Time `json:"refreshed,omitzero"`
	Saved        time.Time `json:"saved"`
}

func (g *Grant) encode() ([]byte, error) {
	return json.Marshal(storedGrant{
		g.URL, g.AccessToken.Reveal(), g.RefreshToken.Reveal(),
		g.TokenType, g.Scopes, g.Expires, g.SignedIn, g.Refreshed, g.Saved,
	})
}

func (g *Grant) decode(plain []byte) error {
	var s storedGrant
	if json.Unmarshal(plain, &s) != nil {
		return errForm
	}
	g.AccessToken, g.RefreshToken = mcp.NewToken(s.AccessToken), mcp.NewToken(s.RefreshToken)
	g.URL, g.TokenType, g.Scopes, g.Expires, g.SignedIn, g.Refreshed, g.Saved = s.URL, s.TokenType, s.Scopes, s.Expires, s.SignedIn, s.Refreshed, s.Saved
	return nil
}

type storedRegistration struct {
	Client        string    `json:"client_id"`
	Secret        string    `json:"client_secret,omitzero"`
	SecretExpires time.Time `json:"client_secret_expires,omitzero"`
	AuthMethod    string    `json:"auth_method,omitzero"`
	Registered    time.Time `json:"registered,omitzero"`
	Saved         time.Time `json:"saved"`
}

func (r *Registration) encode() ([]byte, error) {
	return json.Marshal(storedRegistration{r.Client, r.Secret.Reveal(), r.SecretExpires, r.AuthMethod, r.Registered, r.Saved})
}

func (r *Registration) decode(plain []byte) error {
	var s storedRegistration
	if json.Unmarshal(plain, &s) != nil {
		return errForm
	}
	r.Client, r.Secret, r.SecretExpires, r.AuthMethod, r.Registered, r.Saved = s.Client, mcp.NewToken(s.Secret), s.SecretExpires, s.AuthMethod, s.Registered, s.Saved
	return nil
}

type storedBinding struct {
	Issuer string    `json:"issuer"`
	Saved  time.Time `json:"saved"`
}

func (b *Binding) encode() ([]byte, error) { return json.Marshal(storedBinding{b.Issuer, b.Saved}) }

func (b *Binding) decode(plain []byte) error {
	var s storedBinding
	if json.Unmarshal(plain, &s) != nil {
		return errForm
	}
	b.Issuer, b.Saved = s.Issuer, s.Saved
	return nil
}
