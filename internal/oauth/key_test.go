// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// newSigner returns a private key for an algorithm.
func newSigner(t *testing.T, alg string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch alg {
	case "ES256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		key, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func pemOf(t *testing.T, kind string, der []byte, err error) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func pkcs8(t *testing.T, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	return pemOf(t, "PRIVATE KEY", der, err)
}

func newKey(t *testing.T, alg string) *oauth.SigningKey {
	t.Helper()
	key, err := oauth.ParseSigningKey(pkcs8(t, newSigner(t, alg)))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// I14 (conformance client-credentials-jwt): a server verifies the assertion with the public
// key, for each form of a key and each algorithm.
func TestAssertion(t *testing.T) {
	rsaKey, p256 := newSigner(t, "RS256"), newSigner(t, "ES256")
	ecDER, ecErr := x509.MarshalECPrivateKey(p256.(*ecdsa.PrivateKey))
	jwk := func(key crypto.Signer, id, alg string) []byte {
		text, err := json.Marshal(jose.JSONWebKey{Key: key, KeyID: id, Algorithm: alg})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	ed := newSigner(t, "EdDSA")
	p384, p521 := newSigner(t, "ES384"), newSigner(t, "ES512")
	tests := map[string]struct {
		text      []byte
		key       crypto.Signer
		supported []string
		alg       jose.SignatureAlgorithm
		kid       string
	}{
		"RSA, PKCS 8":                  {pkcs8(t, rsaKey), rsaKey, nil, jose.RS256, ""},
		"RSA, PKCS 1":                  {pemOf(t, "RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey.(*rsa.PrivateKey)), nil), rsaKey, []string{"RS256"}, jose.RS256, ""},
		"RSA, both paddings":           {pkcs8(t, rsaKey), rsaKey, []string{"RS256", "PS256"}, jose.PS256, ""},
		"RSA, 512 only":                {pkcs8(t, rsaKey), rsaKey, []string{"ES256", "RS512"}, jose.RS512, ""},
		"P-256, PKCS 8":                {pkcs8(t, p256), p256, []string{"RS256", "ES256"}, jose.ES256, ""},
		"P-256, SEC 1":                 {pemOf(t, "EC PRIVATE KEY", ecDER, ecErr), p256, nil, jose.ES256, ""},
		"P-256, SEC 1 with parameters": {append([]byte("-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"), pemOf(t, "EC PRIVATE KEY", ecDER, ecErr)...), p256, nil, jose.ES256, ""},
		"P-384":                        {pkcs8(t, p384), p384, nil, jose.ES384, ""},
		"P-521":                        {pkcs8(t, p521), p521, nil, jose.ES512, ""},
		"Ed25519":                      {pkcs8(t, ed), ed, []string{"EdDSA"}, jose.EdDSA, ""},
		"JWK":                          {jwk(p256, "k1", ""), p256, nil, jose.ES256, "k1"},
		"JWK with alg":                 {jwk(rsaKey, "k2", "RS384"), rsaKey, []string{"RS256", "RS384"}, jose.RS384, "k2"},
		"JWK, Ed25519":                 {append([]byte("\n "), jwk(ed, "k3", "EdDSA")...), ed, nil, jose.EdDSA, "k3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			key, err := oauth.ParseSigningKey(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			w := newTokenWorld(t)
			w.server.AuthMethods, w.server.SigningAlgs = []string{"private_key_jwt"}, tt.supported
			w.reg.Key = key
			var ids []string
			for range 2 {
				if _, err := w.token(t, oauth.ClientCredentials(w.URL, "", nil)); err != nil {
					t.Fatal(err)
				}
				signed, err := jwt.ParseSigned(w.last().form.Get("client_assertion"), []jose.SignatureAlgorithm{tt.alg})
				if err != nil {
					t.Fatal(err)
				}
				var claims jwt.Claims
				if err := signed.Claims(tt.key.Public(), &claims); err != nil {
					t.Fatal(err)
				}
				if err := claims.Validate(jwt.Expected{Issuer: "client", Subject: "client", AnyAudience: jwt.Audience{w.URL}, Time: time.Now()}); err != nil {
					t.Error(err)
				}
				if len(claims.Audience) != 1 || claims.Expiry.Time().Sub(claims.IssuedAt.Time()) != time.Minute || signed.Headers[0].KeyID != tt.kid {
					t.Errorf("the assertion is %+v with %+v", claims, signed.Headers)
				}
				ids = append(ids, claims.ID)
			}
			if ids[0] == ids[1] || len(ids[0]) < 22 {
				t.Errorf("the ids are %q", ids)
			}
		})
	}
}

func TestParseSigningKeyErrors(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256 := newSigner(t, "ES256")
	public, err := x509.MarshalPKIXPublicKey(p256.Public())
	jwk := func(key jose.JSONWebKey) []byte {
		text, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, text := range map[string][]byte{
		"nothing":          nil,
		"text":             []byte("canary"),
		"a public key":     pemOf(t, "PUBLIC KEY", public, err),
		"a public JWK":     jwk(jose.JSONWebKey{Key: p256.Public()}),
		"a symmetric JWK":  jwk(jose.JSONWebKey{Key: []byte("canary canary canary canary canary")}),
		"for encryption":   jwk(jose.JSONWebKey{Key: p256, Use: "enc"}),
		"another alg":      jwk(jose.JSONWebKey{Key: p256, Algorithm: "RS256"}),
		"HS256":            jwk(jose.JSONWebKey{Key: p256, Algorithm: "HS256"}),
		"a broken JWK":     []byte(`{"kty":"EC","d":"canary"}`),
		"a set of keys":    []byte(`{"keys":[]}`),
		"small RSA":        pkcs8(t, small),
		"P-224":            pkcs8(t, p224),
		"broken PEM":       pemOf(t, "PRIVATE KEY", []byte("canary"), nil),
		"encrypted":        pemOf(t, "ENCRYPTED PRIVATE KEY", []byte("canary"), nil),
		"encrypted PKCS 1": []byte("-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nY2FuYXJ5\n-----END RSA PRIVATE KEY-----\n"),
	} {
		t.Run(name, func(t *testing.T) {
			key, err := oauth.ParseSigningKey(text)
			if err == nil {
				t.Fatalf("there is a key: %v", key)
			}
			if strings.Contains(err.Error(), "canary") {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

// signJWT returns a JWT with a typ and claims.
func signJWT(t *testing.T, typ string, claims object) mcp.Token {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: newSigner(t, "ES256")}, (&jose.SignerOptions{}).WithType(jose.ContentType(typ)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(map[string]any(claims)).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return mcp.NewToken(text)
}

// I14 (conformance enterprise-managed-authorization): an ID token is exchanged for an
// ID-JAG, and that for an access token. The ID-JAG goes to the server that it is for.
func TestIDJAG(t *testing.T) {
	idp := newTokenWorld(t)
	as := newTokenWorld(t)
	valid := object{"aud": as.URL, "resource": testResource, "client_id": "client", "iss": idp.URL, "sub": "alice"}
	tests := map[string]struct {
		typ    string
		claims object
		check  string // the place of the failed check, or ""
	}{
		"valid":                {"oauth-id-jag+jwt", valid, ""},
		"with a prefix":        {"application/oauth-id-jag+jwt", valid, ""},
		"only the audience":    {"oauth-id-jag+jwt", object{"aud": []string{as.URL}}, ""},
		"several resources":    {"oauth-id-jag+jwt", valid.with(object{"resource": []string{"x", testResource}}), ""},
		"a JWT":                {"JWT", valid, "typ"},
		"no typ":               {"", valid, "typ"},
		"an access token":      {"at+jwt", valid, "typ"},
		"another audience":     {"oauth-id-jag+jwt", valid.with(object{"aud": "https://evil.example.com"}), "aud"},
		"a slash":              {"oauth-id-jag+jwt", valid.with(object{"aud": as.URL + "/"}), "aud"},
		"another audience too": {"oauth-id-jag+jwt", valid.with(object{"aud": []string{as.URL, "https://evil.example.com"}}), "aud"},
		"no audience":          {"oauth-id-jag+jwt", valid.with(object{"aud": nil}), "aud"},
		"another resource":     {"oauth-id-jag+jwt", valid.with(object{"resource": "https://evil.example.com"}), "resource"},
		"another client":       {"oauth-id-jag+jwt", valid.with(object{"client_id": "x"}), "client_id"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			jag := signJWT(t, tt.typ, tt.claims)
			idp.answer("/token", 200, object{"access_token": jag.Reveal(), "token_type": "N_A", "issued_token_type": oauth.TypeIDJAG, "expires_in": 300})
			exchange := oauth.Exchange{Issuer: idp.URL, Subject: mcp.NewToken("ID"), Audience: as.URL, Resource: testResource, Scopes: []string{"a"}}
			got, err := idp.token(t, exchange.IDJAG())
			if err != nil {
				t.Fatal(err)
			}
			form := idp.last().form
			if form.Get("requested_token_type") != oauth.TypeIDJAG || form.Get("subject_token_type") != oauth.TypeIDToken || form.Get("subject_token") != "ID" || form.Get("audience") != as.URL || form.Get("resource") != testResource || form.Get("scope") != "a" {
				t.Errorf("the form is %v", form)
			}
			err = oauth.CheckIDJAG(got.Access, as.server, testResource, "client")
			if tt.check != "" {
				failed := failedCheck(t, err, oauth.CheckIDJAGClaim)
				if failed.At != tt.check || strings.Contains(failed.Error(), jag.Reveal()) {
					t.Errorf("the error is %v, want one of %s", failed, tt.check)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tokens, err := as.token(t, oauth.JWTBearer(as.URL, got.Access, testResource, []string{"a"}))
			if err != nil || tokens.Access.Reveal() != "AT" || as.last().form.Get("assertion") != jag.Reveal() {
				t.Errorf("the tokens are %v, %v", tokens, err)
			}
		})
	}
	for name, response := range map[string]object{
		"an access token":    {"access_token": "x", "token_type": "Bearer", "issued_token_type": oauth.TypeAccessToken},
		"no type":            {"access_token": "x", "token_type": "N_A"},
		"another token_type": {"access_token": "x", "token_type": "MAC", "issued_token_type": oauth.TypeIDJAG},
	} {
		t.Run("issued: "+name, func(t *testing.T) {
			idp.answer("/token", 200, response)
			_, err := idp.token(t, oauth.Exchange{Issuer: idp.URL, Subject: mcp.NewToken("ID")}.IDJAG())
			wantCheck(t, err, oauth.CheckTokenType)
		})
	}
	for _, text := range []string{"", "a", "a.b", "a.b.c", "e30.e30.e30.e30", "!.!.!", "W10.W10.x"} {
		wantCheck(t, oauth.CheckIDJAG(mcp.NewToken(text), as.server, testResource, "client"), oauth.CheckIDJAGClaim)
	}
}
