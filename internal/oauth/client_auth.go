// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// clientAuth is how a client authenticates itself in one request.
type clientAuth struct {
	header  string // Authorization, or ""
	form    url.Values
	secrets []mcp.Token // in both
}

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// authenticate returns the authentication of one request at an endpoint of the server.
func (r *Registration) authenticate(s *Server, endpoint string, now time.Time) (clientAuth, error) {
	method, err := r.method(s)
	if err != nil {
		return clientAuth{}, err
	}
	form := url.Values{"client_id": {r.ClientID}}
	switch method {
	case MethodBasic:
		// RFC 6749, section 2.3.1: both are encoded as in a form.
		pair := url.QueryEscape(r.ClientID) + ":" + url.QueryEscape(r.Secret.Reveal())
		encoded := base64.StdEncoding.EncodeToString([]byte(pair))
		return clientAuth{header: "Basic " + encoded, secrets: []mcp.Token{r.Secret, mcp.NewToken(encoded)}}, nil
	case MethodPost:
		form.Set("client_secret", r.Secret.Reveal())
		return clientAuth{form: form, secrets: []mcp.Token{r.Secret}}, nil
	case MethodPrivateKeyJWT:
		audience := s.Issuer
		if s.FixedPaths {
			audience = endpoint
		}
		assertion, err := r.Key.assertion(r.ClientID, audience, s.SigningAlgs, now)
		if err != nil {
			return clientAuth{}, err
		}
		form.Set("client_assertion_type", assertionType)
		form.Set("client_assertion", assertion.Reveal())
		return clientAuth{form: form, secrets: []mcp.Token{assertion}}, nil
	}
	return clientAuth{form: form}, nil
}

// method returns the method of the authentication: that of the registration, or else the
// first of private_key_jwt, basic and post that both sides can use, or else none.
func (r *Registration) method(s *Server) (string, error) {
	supports := func(method string) bool {
		if s.AuthMethods == nil {
			return method != MethodPost // RFC 8414: the default is client_secret_basic
		}
		return slices.Contains(s.AuthMethods, method)
	}
	switch {
	case r.Method != "":
		return r.Method, r.checkMethod()
	case r.Key != nil && supports(MethodPrivateKeyJWT):
		return MethodPrivateKeyJWT, nil
	case !r.Secret.IsZero() && supports(MethodBasic):
		return MethodBasic, nil
	case !r.Secret.IsZero() && supports(MethodPost):
		return MethodPost, nil
	case r.Key == nil && r.Secret.IsZero() || supports(MethodNone) && s.AuthMethods != nil:
		return MethodNone, nil
	}
	return "", &CheckError{
		Check: CheckAuthMethod, At: s.Issuer, Got: strings.Join(s.AuthMethods, " "),
		Want: "a method for " + r.have(), Cure: "set oauth.clientSecret or oauth.clientKey, as the client is registered",
	}
}

// checkMethod reports whether the client has what its method needs.
func (r *Registration) checkMethod() error {
	missing := false
	switch r.Method {
	case MethodNone:
	case MethodBasic, MethodPost:
		missing = r.Secret.IsZero()
	case MethodPrivateKeyJWT:
		missing = r.Key == nil
	default:
		missing = true
	}
	if !missing {
		return nil
	}
	return &CheckError{Check: CheckAuthMethod, At: r.Issuer, Got: r.Method, Want: "a method for " + r.have()}
}

// have describes the credentials of the client.
func (r *Registration) have() string {
	switch {
	case r.Key != nil && !r.Secret.IsZero():
		return "a key or a secret"
	case r.Key != nil:
		return "a key"
	case !r.Secret.IsZero():
		return "a secret"
	}
	return "a client without credentials"
}
