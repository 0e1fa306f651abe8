// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package issuer is an identity provider with one key, which counts how often it is fetched.
package issuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Server is a provider. Its methods may be called concurrently.
type Server struct {
	URL string // the issuer

	key     *ecdsa.PrivateKey
	server  *http.Server
	ended   chan struct{}
	fetches atomic.Int64
}

const keyID = "the key"

// Serve starts a provider that serves a listener until Close.
func Serve(l net.Listener) (*Server, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey.Bytes() // 4, x, y
	if err != nil {
		return nil, err
	}
	s := &Server{URL: "http://" + l.Addr().String(), key: key, ended: make(chan struct{})}
	set := map[string]any{"keys": []any{map[string]any{
		"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": keyID, "x": encode(public[1:33]), "y": encode(public[33:]),
	}}}
	metadata := map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys"}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /.well-known/", func(w http.ResponseWriter, _ *http.Request) { respond(w, metadata) })
	routes.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		s.fetches.Add(1)
		respond(w, set)
	})
	s.server = &http.Server{Handler: routes, ReadHeaderTimeout: time.Minute}
	go func() { // ends with Close, which waits for it
		defer close(s.ended)
		_ = s.server.Serve(l) // until Close
	}()
	return s, nil
}

func respond(w http.ResponseWriter, doc any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(doc) // the gateway has left
}

// Close ends the provider.
func (s *Server) Close() error {
	err := s.server.Close()
	<-s.ended
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Fetches returns how often the keys were fetched.
func (s *Server) Fetches() int { return int(s.fetches.Load()) }

// Token returns an access token for an audience, which expires after d.
func (s *Server) Token(audience string, d time.Duration) (string, error) {
	now := time.Now()
	header, err := json.Marshal(map[string]any{"alg": "ES256", "kid": keyID})
	if err != nil {
		return "", err
	}
	claims, err := json.Marshal(map[string]any{"iss": s.URL, "sub": "bench", "aud": audience, "iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(d).Unix()})
	if err != nil {
		return "", err
	}
	text := encode(header) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	r, v, err := ecdsa.Sign(rand.Reader, s.key, sum[:])
	if err != nil {
		return "", err
	}
	const half = 32
	signature := make([]byte, 2*half)
	r.FillBytes(signature[:half])
	v.FillBytes(signature[half:])
	return text + "." + encode(signature), nil
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
