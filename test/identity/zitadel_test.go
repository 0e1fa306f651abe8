// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/zitadel/oidc/v3/example/server/storage"
	"github.com/zitadel/oidc/v3/pkg/oidc"
	"github.com/zitadel/oidc/v3/pkg/op"

	"github.com/signalbox-mcp/signalbox/test/tap"
)

// zitadel is the provider of zitadel/oidc in the test process. The test has its keys, and
// signs tokens that no provider issues; what passes between it and the gateway goes through
// a proxy that can fail.
type zitadel struct {
	*tap.Tap // its URL is the issuer

	keys *keys
}

func startZitadel(t *testing.T) *zitadel {
	t.Helper()
	z := &zitadel{Tap: tap.New(t), keys: new(keys)}
	z.KeepHost = true
	z.keys.Storage = storage.NewStorage(storage.NewUserStore(z.URL))
	z.rotate(t)
	provider, err := op.NewProvider(&op.Config{CryptoKey: [32]byte{1}, CodeMethodS256: true}, z.keys, op.StaticIssuer(z.URL), op.WithAllowInsecure())
	if err != nil {
		t.Fatal(err)
	}
	z.To(t, serve(t, provider).URL)
	return z
}

// rotate makes a new key, which signs from now on. The earlier ones remain in the set.
func (z *zitadel) rotate(t *testing.T) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	z.keys.add(&key{rand.Text(), jose.RS256, private})
}

// fetched returns how often the key set was requested.
func (z *zitadel) fetched() int {
	var n int
	for _, e := range z.Passed() {
		if e.Path == "/keys" {
			n++
		}
	}
	return n
}

// key is a signing key of zitadel.
type key struct {
	id        string
	algorithm jose.SignatureAlgorithm
	private   crypto.Signer
}

func (k *key) ID() string                                  { return k.id }
func (k *key) Key() any                                    { return k.private }
func (k *key) SignatureAlgorithm() jose.SignatureAlgorithm { return k.algorithm }

// published is the public half of a key.
type published struct{ *key }

func (p published) Algorithm() jose.SignatureAlgorithm { return p.algorithm }
func (p published) Use() string                        { return "sig" }
func (p published) Key() any                           { return p.private.Public() }

// keys is the storage of a provider, with keys that the test changes.
type keys struct {
	*storage.Storage

	mu  sync.Mutex
	all []*key // the newest first
}

func (s *keys) add(k *key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.Insert(s.all, 0, k)
}

// drop removes all keys but the newest.
func (s *keys) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = s.all[:1]
}

func (s *keys) current() *key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[0]
}

func (s *keys) SigningKey(context.Context) (op.SigningKey, error) { return s.current(), nil }

func (s *keys) SignatureAlgorithms(context.Context) ([]jose.SignatureAlgorithm, error) {
	return []jose.SignatureAlgorithm{s.current().algorithm}, nil
}

func (s *keys) KeySet(context.Context) ([]op.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var set []op.Key
	for _, k := range s.all {
		set = append(set, published{k})
	}
	return set, nil
}

// token is a token that a test places: what zitadel would issue, with changes.
type token struct {
	header, claims map[string]any
	key            *key
}

// token returns a valid access token for an audience, to be changed and signed.
func (z *zitadel) token(audience string) *token {
	now := time.Now()
	k := z.keys.current()
	return &token{
		header: map[string]any{"typ": "at+jwt", "kid": k.id},
		claims: map[string]any{
			"iss": z.URL, "sub": "ann", "aud": audience, "scope": "mcp:use", "jti": rand.Text(),
			"iat": now.Unix(), "nbf": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		},
		key: k,
	}
}

// with sets a claim, or removes it if the value is nil.
func (k *token) with(name string, value any) *token { return k.set(k.claims, name, value) }

// head sets a field of the header, or removes it if the value is nil.
func (k *token) head(name string, value any) *token { return k.set(k.header, name, value) }

func (k *token) set(in map[string]any, name string, value any) *token {
	in[name] = value
	if value == nil {
		delete(in, name)
	}
	return k
}

// by changes the key that signs.
func (k *token) by(other *key) *token {
	k.key = other
	return k
}

// sign returns the token.
func (k *token) sign(t *testing.T) string {
	t.Helper()
	options := &jose.SignerOptions{ExtraHeaders: make(map[jose.HeaderKey]any)}
	for name, value := range k.header {
		options.ExtraHeaders[jose.HeaderKey(name)] = value
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: k.key.algorithm, Key: k.key.private}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(k.claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// unsigned returns the token with a header of its own and this signature.
func (k *token) unsigned(t *testing.T, algorithm string, sign func(input string) []byte) string {
	t.Helper()
	header := maps.Clone(k.header)
	header["alg"] = algorithm
	var parts []string
	for _, part := range []any{header, k.claims} {
		text, err := json.Marshal(part)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, base64.RawURLEncoding.EncodeToString(text))
	}
	input := strings.Join(parts, ".")
	return input + "." + base64.RawURLEncoding.EncodeToString(sign(input))
}

// pemOf returns the public key of a key, as files have it.
func pemOf(t *testing.T, k *key) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(k.private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// ellipticKey returns a key for ES256 with an id.
func ellipticKey(t *testing.T, id string) *key {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &key{id, jose.ES256, private}
}

// issued returns an access token that the provider issues to a machine, whose audience is the
// machine itself.
func (z *zitadel) issued(t *testing.T) string {
	t.Helper()
	client := machine{id: "batch"}
	request := &oidc.JWTTokenRequest{Subject: "batch", Audience: []string{"batch"}, Scopes: []string{"mcp:use"}}
	text, err := op.CreateJWT(t.Context(), z.URL, request, time.Now().Add(time.Hour), rand.Text(), client, z.keys)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// machine is a client of the provider.
type machine struct{ id string }

func (m machine) GetID() string                { return m.id }
func (m machine) ClockSkew() time.Duration     { return 0 }
func (m machine) GrantTypes() []oidc.GrantType { return nil }
func (m machine) RestrictAdditionalAccessTokenScopes() func([]string) []string {
	return slices.Clone[[]string]
}

// What the tests take from zitadel: its metadata leads to its keys, with which what it issues
// and what a test places verifies.
func TestZitadel(t *testing.T) {
	z := startZitadel(t)
	set := fetchKeys(t, z.URL)
	for name, text := range map[string]string{"issued": z.issued(t), "placed": z.token(resource).sign(t)} {
		parsed, err := jose.ParseSignedCompact(text, []jose.SignatureAlgorithm{jose.RS256})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := parsed.Verify(set); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	z.rotate(t)
	parsed, err := jose.ParseSignedCompact(z.token(resource).sign(t), []jose.SignatureAlgorithm{jose.RS256})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.Verify(set); err == nil {
		t.Error("the earlier key verifies a token of the new one")
	}
	if set := fetchKeys(t, z.URL); len(set.Keys) != 2 || z.fetched() != 2 {
		t.Errorf("%d keys, %d fetches", len(set.Keys), z.fetched())
	}
	z.keys.drop()
	if set := fetchKeys(t, z.URL); len(set.Keys) != 1 {
		t.Errorf("%d keys after the drop", len(set.Keys))
	}
	if fetched := z.fetched(); fetched != 3 {
		t.Errorf("%d fetches", fetched)
	}
}

// fetchKeys follows the metadata of an issuer to its keys.
func fetchKeys(t *testing.T, issuer string) *jose.JSONWebKeySet {
	t.Helper()
	var metadata struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	getJSON(t, issuer+"/.well-known/openid-configuration", &metadata)
	if metadata.Issuer != issuer {
		t.Fatalf("the issuer is %q", metadata.Issuer)
	}
	set := new(jose.JSONWebKeySet)
	getJSON(t, metadata.Keys, set)
	return set
}

func getJSON(t *testing.T, address string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(into); err != nil {
		t.Fatalf("%s: %s: %v", address, res.Status, err)
	}
}
