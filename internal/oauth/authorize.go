// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// An AuthorizationRequest asks a user for access, in a browser.
type AuthorizationRequest struct {
	Server       *Server
	Registration *Registration
	RedirectURI  string
	Resource     string            // sent byte for byte; "" omits the parameter
	Scopes       []string          // nil omits the parameter
	Nonce        string            // of the ID token (OpenID Connect); "" omits the parameter
	Parameters   map[string]string // more parameters; none of ours can be replaced
}

// An Authorization is an authorization request that awaits its response. The URL and the
// state are for one browser only.
type Authorization struct {
	URL         string // for the browser: the authorization endpoint with the request
	State       string
	Verifier    mcp.Token // of PKCE (RFC 7636)
	Issuer      string
	IssExpected bool // whether a response has to have iss (RFC 9207)
	RedirectURI string
	Resource    string
	Scopes      []string
}

// randomText returns 256 random bits as text.
func randomText() string {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: crypto/rand crashes the program instead
	return base64.RawURLEncoding.EncodeToString(random)
}

// s256 returns the code challenge of a verifier (RFC 7636, section 4.2).
func s256(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Begin returns a new authorization request, with PKCE and a state of its own.
func Begin(r AuthorizationRequest) (*Authorization, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	a := &Authorization{
		State:       randomText(),
		Verifier:    mcp.NewToken(randomText()),
		Issuer:      r.Server.Issuer,
		IssExpected: r.Server.ResponseIss,
		RedirectURI: r.RedirectURI,
		Resource:    r.Resource,
		Scopes:      r.Scopes,
	}
	form := url.Values{
		"response_type":         {"code"},
		"client_id":             {r.Registration.ClientID},
		"redirect_uri":          {r.RedirectURI},
		"state":                 {a.State},
		"code_challenge":        {s256(a.Verifier.Reveal())},
		"code_challenge_method": {"S256"},
	}
	setScopes(form, r.Scopes)
	setUnlessEmpty(form, "resource", r.Resource)
	setUnlessEmpty(form, "nonce", r.Nonce)
	if err := addParameters(form, r.Parameters); err != nil {
		return nil, err
	}
	// OpenID Connect Core 1.0, section 11: without consent, a server ignores offline_access.
	if slices.Contains(r.Scopes, scopeOffline) && !form.Has("prompt") {
		form.Set("prompt", "consent")
	}
	// RFC 6749, section 3.1: a query of the endpoint is retained.
	separator := "?"
	if strings.Contains(r.Server.AuthorizationEndpoint, "?") {
		separator = "&"
	}
	a.URL = r.Server.AuthorizationEndpoint + separator + form.Encode()
	return a, nil
}

func (r AuthorizationRequest) check() error {
	switch {
	case r.Server.AuthorizationEndpoint == "":
		return &CheckError{Check: CheckEndpoint, At: r.Server.Issuer, Want: "an authorization_endpoint"}
	// Some OpenID providers support PKCE and do not publish that. For a client with a credential,
	// the nonce prevents the injection of codes, too (RFC 9700, section 2.1.1).
	case !r.Server.S256 && !r.Server.FixedPaths && (r.Nonce == "" || r.Registration.isPublic()):
		return errNoPKCE(r.Server.Issuer)
	case r.RedirectURI == "":
		return errors.New("the authorization request has no redirect URI")
	}
	if _, err := parseURL(r.Server.AuthorizationEndpoint); err != nil {
		return &CheckError{Check: CheckEndpoint, At: "authorization_endpoint", Got: r.Server.AuthorizationEndpoint, Want: "an https URL: " + err.Error()}
	}
	return r.Registration.belongsTo(r.Server)
}

// Check returns the code of an authorization response, from the query of its redirect. The
// checks are those of RFC 9207 and of the MCP specification, in this order: no parameter
// occurs twice; state is ours; iss is the recorded issuer, byte for byte, and present if
// the server has promised it; and only then error is looked at, which is a *ServerError. No
// other error contains anything of the response.
//
// The caller makes sure that the response came with the browser that the request was for,
// and that an Authorization is checked only once.
func (a *Authorization) Check(query url.Values) (code mcp.Token, err error) {
	for _, name := range []string{"state", "iss", "code", "error", "error_description"} {
		if len(query[name]) > 1 {
			return mcp.Token{}, &CheckError{Check: CheckResponse, Want: name + " at most once"}
		}
	}
	if a.State == "" || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(a.State)) != 1 {
		return mcp.Token{}, &CheckError{Check: CheckState, Want: "the state of the authorization request"}
	}
	if present := query.Has("iss"); present || a.IssExpected {
		if !present || query.Get("iss") != a.Issuer {
			return mcp.Token{}, &CheckError{Check: CheckResponseIssuer, Want: quoted(a.Issuer), Cure: "the response is of another authorization server, or was changed: start again"}
		}
	}
	if query.Has("error") {
		return mcp.Token{}, serverError(0, query.Get("error"), query.Get("error_description"))
	}
	if query.Get("code") == "" {
		return mcp.Token{}, &CheckError{Check: CheckResponse, Want: "a code"}
	}
	return mcp.NewToken(query.Get("code")), nil
}

// Grant returns the grant of an authorization code.
func (a *Authorization) Grant(code mcp.Token) Grant {
	form := url.Values{
		"grant_type":    {"authorization_code"},
		"code":          {code.Reveal()},
		"redirect_uri":  {a.RedirectURI},
		"code_verifier": {a.Verifier.Reveal()},
	}
	setUnlessEmpty(form, "resource", a.Resource)
	return newGrant(a.Issuer, form, a.Scopes, code, a.Verifier)
}
