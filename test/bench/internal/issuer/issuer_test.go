// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package issuer_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/signalbox-mcp/signalbox/test/bench/internal/issuer"
)

func get(t *testing.T, url string, into any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		t.Fatalf("%s: %v: %s", url, err, raw)
	}
}

func decode(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A token is one of the published key, and each fetch of that is counted.
func TestToken(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s, err := issuer.Serve(l)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	var metadata struct {
		Issuer string `json:"issuer"`
		Keys   string `json:"jwks_uri"`
	}
	get(t, s.URL+"/.well-known/oauth-authorization-server", &metadata)
	var set struct {
		Keys []struct{ X, Y, Kid string }
	}
	if metadata.Issuer != s.URL || s.Fetches() != 0 {
		t.Errorf("metadata %+v, %d fetches", metadata, s.Fetches())
	}
	get(t, metadata.Keys, &set)
	if len(set.Keys) != 1 || s.Fetches() != 1 {
		t.Fatalf("keys %+v, %d fetches", set, s.Fetches())
	}
	token, err := s.Token("me", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(token, ".")
	public := &ecdsa.PublicKey{Curve: elliptic.P256(), X: new(big.Int).SetBytes(decode(t, set.Keys[0].X)), Y: new(big.Int).SetBytes(decode(t, set.Keys[0].Y))}
	sum, signature := sha256.Sum256([]byte(parts[0]+"."+parts[1])), decode(t, parts[2])
	if !ecdsa.Verify(public, sum[:], new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])) {
		t.Error("the signature is not valid")
	}
	if head := string(decode(t, parts[0])); !strings.Contains(head, set.Keys[0].Kid) {
		t.Errorf("header %s", head)
	}
	var claims struct {
		Aud, Iss string
		Exp      int64
	}
	if err := json.Unmarshal(decode(t, parts[1]), &claims); err != nil || claims.Aud != "me" || claims.Iss != s.URL || time.Until(time.Unix(claims.Exp, 0)) < 59*time.Minute {
		t.Errorf("claims %+v, error %v", claims, err)
	}
}
