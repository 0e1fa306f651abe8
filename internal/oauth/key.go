// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// A SigningKey is the private key with which a client authenticates itself. It is not
// printed. Use ParseSigningKey to make one.
type SigningKey struct {
	key  crypto.Signer
	id   string                    // kid, or ""
	algs []jose.SignatureAlgorithm // that fit the key, the preferred first
}

// minRSA is the minimal size of an RSA key in bits (RFC 7518, section 3.3).
const minRSA = 2048

// ParseSigningKey parses a private key: PEM (PKCS 8, PKCS 1 or SEC 1), or a JWK. It is RSA
// of at least 2048 bits, an elliptic curve P-256, P-384 or P-521, or Ed25519. The error does
// not contain the text.
func ParseSigningKey(text []byte) (*SigningKey, error) {
	k := &SigningKey{}
	var alg string
	var key any
	var err error
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		var jwk jose.JSONWebKey
		if jwk.UnmarshalJSON(text) != nil || !jwk.Valid() {
			return nil, errors.New("the key is not a valid JWK")
		}
		if jwk.Use != "" && jwk.Use != "sig" {
			return nil, errors.New("the key is not for signatures: its use is not sig")
		}
		key, k.id, alg = jwk.Key, jwk.KeyID, jwk.Algorithm
	} else if key, err = parsePEM(text); err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, errors.New("the key is not a private key")
	}
	k.key = signer
	if k.algs, err = algorithms(signer); err != nil {
		return nil, err
	}
	if alg != "" {
		if !slices.Contains(k.algs, jose.SignatureAlgorithm(alg)) {
			return nil, errors.New("the alg of the key does not fit its type")
		}
		k.algs = []jose.SignatureAlgorithm{jose.SignatureAlgorithm(alg)}
	}
	return k, nil
}

// parsePEM returns the first private key of PEM.
func parsePEM(text []byte) (any, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errors.New("the key is neither PEM with a private key nor a JWK")
		}
		text = rest
		var key any
		var err error
		switch block.Type {
		case "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		case "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("the key is encrypted; write it without a password, in a file that only the gateway can read")
		default:
			continue // such as parameters or a certificate
		}
		if err != nil || block.Headers["DEK-Info"] != "" {
			return nil, errors.New("the private key in PEM does not parse")
		}
		return key, nil
	}
}

// algorithms returns the algorithms of a key (RFC 7518, section 3.1, and RFC 8037).
func algorithms(key crypto.Signer) ([]jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if key.N.BitLen() < minRSA {
			return nil, fmt.Errorf("the RSA key has %d bits, fewer than %d", key.N.BitLen(), minRSA)
		}
		return []jose.SignatureAlgorithm{jose.PS256, jose.RS256, jose.PS384, jose.RS384, jose.PS512, jose.RS512}, nil
	case *ecdsa.PrivateKey:
		switch key.Curve.Params().BitSize {
		case 256:
			return []jose.SignatureAlgorithm{jose.ES256}, nil
		case 384:
			return []jose.SignatureAlgorithm{jose.ES384}, nil
		case 521:
			return []jose.SignatureAlgorithm{jose.ES512}, nil
		}
	case ed25519.PrivateKey:
		return []jose.SignatureAlgorithm{jose.EdDSA}, nil
	}
	return nil, errors.New("the key is neither RSA, nor on P-256, P-384 or P-521, nor Ed25519")
}

// assertionLife is how long an assertion can be used.
const assertionLife = time.Minute

// assertion returns a signed assertion of the client (RFC 7523, section 3). Its audience is
// the issuer, and not the endpoint: an endpoint in metadata may be another server's.
func (k *SigningKey) assertion(clientID, audience string, supported []string, now time.Time) (mcp.Token, error) {
	alg, err := k.choose(supported)
	if err != nil {
		return mcp.Token{}, err
	}
	claims, err := json.Marshal(struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Audience string `json:"aud"`
		ID       string `json:"jti"`
		Issued   int64  `json:"iat"`
		Expires  int64  `json:"exp"`
	}{clientID, clientID, audience, randomText(), now.Unix(), now.Add(assertionLife).Unix()})
	if err != nil {
		return mcp.Token{}, fmt.Errorf("the claims of the client's assertion: %w", err)
	}
	key := jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: k.key, KeyID: k.id}}
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return mcp.Token{}, fmt.Errorf("sign the client's assertion: %w", err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		return mcp.Token{}, fmt.Errorf("sign the client's assertion: %w", err)
	}
	text, err := signed.CompactSerialize()
	return mcp.NewToken(text), err
}

// choose returns the preferred algorithm that the server supports. A server that does not
// list any supports RS256 and ES256 in practice.
func (k *SigningKey) choose(supported []string) (jose.SignatureAlgorithm, error) {
	if supported == nil && slices.Contains(k.algs, jose.RS256) {
		return jose.RS256, nil
	}
	for _, alg := range k.algs {
		if supported == nil || slices.Contains(supported, string(alg)) {
			return alg, nil
		}
	}
	return "", &CheckError{
		Check: CheckAuthMethod, Got: strings.Join(supported, " "), Want: fmt.Sprint(k.algs),
		Cure: "use a key of another type for oauth.clientKey",
	}
}

// Format writes a placeholder, whatever the verb.
func (k SigningKey) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, placeholder) // a fmt.Formatter cannot report an error
}
