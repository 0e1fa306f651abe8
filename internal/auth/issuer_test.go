// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/test/memnet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testKeys are the keys of the tests, made once: RSA keys take long.
var testKeys = sync.OnceValue(func() map[string]crypto.Signer {
	keys := make(map[string]crypto.Signer)
	for name, curve := range map[string]elliptic.Curve{"ec": elliptic.P256(), "ec2": elliptic.P256(), "ec3": elliptic.P256(), "ec384": elliptic.P384()} {
		keys[name], _ = ecdsa.GenerateKey(curve, rand.Reader)
	}
	keys["rsa"], _ = rsa.GenerateKey(rand.Reader, 2048)
	keys["rsa1024"], _ = rsa.GenerateKey(rand.Reader, 1024)
	_, keys["ed"], _ = ed25519.GenerateKey(rand.Reader)
	return keys
})

// provider is an identity provider: an HTTP server with metadata and keys, and their private
// halves.
type provider struct {
	t    testing.TB
	name string
	url  string

	mu       sync.Mutex
	keys     []string // names of testKeys in the set
	respond  func(w http.ResponseWriter, r *http.Request) bool
	maxAge   string
	requests map[string]int // by path
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	respond, keys, maxAge := p.respond, p.keys, p.maxAge
	p.mu.Unlock()
	if respond != nil && respond(w, r) {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		fmt.Fprintf(w, `{"issuer": %q, "jwks_uri": %q}`, p.url, p.url+"/keys")
	case "/keys":
		if maxAge != "" {
			w.Header().Set("Cache-Control", maxAge)
		}
		_, _ = w.Write(keySetOf(p.t, keys...))
	default:
		http.NotFound(w, r)
	}
}

// set changes what the provider does.
func (p *provider) set(change func(*provider)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p)
}

// fetches returns how often the keys were requested.
func (p *provider) fetches() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests["/keys"]
}

// requestsTo returns the number of requests for a path.
func (p *provider) requestsTo(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

func (p *provider) allRequests() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.requests {
		n += m
	}
	return n
}

// keySetOf returns the JSON Web Key Set with some of the testKeys.
func keySetOf(t testing.TB, names ...string) []byte {
	t.Helper()
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	for _, name := range names {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: testKeys()[name].Public(), KeyID: name, Use: "sig"})
	}
	raw, err := stdjson.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// claims returns the claims of a good token, with changes; nil removes one.
func (p *provider) claims(changes map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": p.url, "sub": "8f3a", "aud": "https://mcp.example.com/mcp", "scope": "mcp:use openid",
		"iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
	maps.Copy(claims, changes)
	maps.DeleteFunc(claims, func(_ string, v any) bool { return v == nil })
	return claims
}

// token returns a token of the provider with changed claims, signed with its first key.
func (p *provider) token(changes map[string]any) string {
	return sign(p.t, "ES256", "ec", map[string]any{"kid": "ec"}, p.claims(changes))
}

// sign returns a token signed with one of the testKeys.
func sign(t testing.TB, alg, key string, header, claims map[string]any) string {
	t.Helper()
	payload, err := stdjson.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return signRaw(t, alg, key, header, payload)
}

// signRaw is sign for claims as they are written.
func signRaw(t testing.TB, alg, key string, header map[string]any, payload []byte) string {
	t.Helper()
	opts := &jose.SignerOptions{ExtraHeaders: map[jose.HeaderKey]any{}}
	for name, v := range header {
		opts.ExtraHeaders[jose.HeaderKey(name)] = v
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: testKeys()[key]}, opts)
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

// site is a Chain and the identity providers "corp" and "partner", in a bubble.
type site struct {
	t             testing.TB
	chain         *Chain
	corp, partner *provider
}

// bubble runs f in a bubble with a Chain that runs. configure may be nil.
func bubble(t *testing.T, configure func(*Config, *provider), f func(*site)) {
	t.Helper()
	testKeys() // outside of the bubble: randomness is read in the background
	synctest.Test(t, func(t *testing.T) {
		listeners := make(map[string]*memnet.Listener)
		tr := &http.Transport{DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			if l := listeners[address]; l != nil {
				return l.Dial(ctx)
			}
			return nil, fmt.Errorf("no host %s", address)
		}}
		defer tr.CloseIdleConnections()
		begin := func(name, host string) *provider {
			p := &provider{t: t, name: name, url: "http://" + host, keys: []string{"ec", "rsa"}, requests: make(map[string]int)}
			l := memnet.Listen()
			listeners[host] = l
			srv := &http.Server{Handler: p}
			go func() { _ = srv.Serve(l) }() // ends with Close
			t.Cleanup(func() { _ = srv.Close() })
			return p
		}
		s := &site{t: t, corp: begin("corp", "127.0.0.1:1001"), partner: begin("partner", "127.0.0.1:1002")}
		cfg := Config{
			Tokens:    []Token{{"ci", "a-token-of-the-configuration", nil}},
			PublicURL: "https://mcp.example.com", Path: "/mcp", Name: "signalbox", Transport: tr,
			Issuers: []Issuer{
				{Name: "corp", URL: s.corp.url, Principal: expression(t, "claims.sub"), Scopes: []string{"mcp:use"}, Skew: 30 * time.Second},
				{Name: "partner", URL: s.partner.url, Principal: expression(t, "claims.sub"), Skew: 30 * time.Second},
			},
		}
		if configure != nil {
			configure(&cfg, s.corp)
		}
		var err error
		if s.chain, err = New(cfg); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { // ends with ctx; waited for below
			defer close(ended)
			s.chain.Run(ctx)
		}()
		f(s)
		cancel()
		<-ended
		tr.CloseIdleConnections()
	})
}

func expression(t testing.TB, text string) *principal.Expression {
	t.Helper()
	e, err := principal.Compile("claims", text)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// request returns a request to a path with header lines "Name: value".
func request(path string, lines ...string) *http.Request {
	r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://elsewhere.example"+path, http.NoBody)
	if err != nil {
		panic(err)
	}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}
