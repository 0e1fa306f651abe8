// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package oauth

import (
	"context"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Tokens are the result of a token request.
type Tokens struct {
	// Access is the access token, or the ID-JAG if that was requested.
	Access mcp.Token

	// Refresh is the new refresh token. If it is zero, the one that was sent remains valid.
	Refresh mcp.Token

	// ID is the ID token, or zero. It has not been verified.
	ID mcp.Token

	// Scopes are those of the access token: what the response names, or else what was
	// requested.
	Scopes []string

	// Expires is when the access token ends, counted from the start of the request: at
	// most 24 hours from then, and one hour without one in the response.
	Expires time.Time

	// Once is whether the access token had ended when it was issued. It may be used for the
	// request that it was obtained for.
	Once bool
}

// Lifetimes of access tokens.
const (
	defaultLife = time.Hour
	maxLife     = 24 * time.Hour
)

// Token requests tokens with a grant. The client authenticates itself with the method that
// it is registered with, or else with the best that it and the server support. The error is
// a *CheckError, before anything is sent, if the grant or the client belongs to another
// authorization server.
func (c *Client) Token(ctx context.Context, s *Server, r *Registration, g Grant) (*Tokens, error) {
	if g.form == nil {
		return nil, &CheckError{Check: CheckCredential, Want: "a grant"}
	}
	if g.issuer != s.Issuer {
		return nil, &CheckError{Check: CheckCredential, At: s.Issuer, Got: g.issuer, Want: quoted(s.Issuer), Cure: "the grant is of another authorization server"}
	}
	start := time.Now()
	reply, err := c.post(ctx, s, r, s.TokenEndpoint, *g.form, g.secrets)
	if err != nil {
		return nil, err
	}
	return g.tokens(reply, start)
}

const wantRevocation = "a revocation_endpoint"

// IsNoRevocation reports whether err is that of Revoke for a server that has no endpoint to revoke
// tokens.
func IsNoRevocation(err error) bool {
	check, ok := errors.AsType[*CheckError](err)
	return ok && check.Check == CheckEndpoint && check.Want == wantRevocation
}

// Revoke revokes a token of an issuer (RFC 7009), which has to be the server. A refresh
// token is revoked with its access tokens where the server does so.
func (c *Client) Revoke(ctx context.Context, s *Server, r *Registration, issuer string, token mcp.Token, isRefresh bool) error {
	if issuer != s.Issuer {
		return &CheckError{Check: CheckCredential, At: s.Issuer, Got: issuer, Want: quoted(s.Issuer), Cure: "the token is of another authorization server"}
	}
	if s.RevocationEndpoint == "" {
		return &CheckError{Check: CheckEndpoint, At: s.Issuer, Want: wantRevocation}
	}
	form := url.Values{"token": {token.Reveal()}, "token_type_hint": {"access_token"}}
	if isRefresh {
		form.Set("token_type_hint", "refresh_token")
	}
	_, err := c.post(ctx, s, r, s.RevocationEndpoint, form, []mcp.Token{token})
	return err
}

// post sends a form as an authenticated client, and returns a response with success.
func (c *Client) post(ctx context.Context, s *Server, r *Registration, endpoint string, form url.Values, secrets []mcp.Token) (*reply, error) {
	if err := r.belongsTo(s); err != nil {
		return nil, err
	}
	auth, err := r.authenticate(s, endpoint, time.Now())
	if err != nil {
		return nil, err
	}
	all := make(url.Values, len(form)+len(auth.form))
	maps.Copy(all, form)
	maps.Copy(all, auth.form)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	if auth.header != "" {
		header.Set("Authorization", auth.header)
	}
	m := message{
		method: http.MethodPost, url: endpoint, issuer: s.Issuer, header: header, body: all.Encode(),
		secrets: append(slices.Clone(secrets), auth.secrets...),
	}
	reply, err := c.do(ctx, m)
	if err != nil {
		return nil, err
	}
	return reply, reply.refusal()
}

// errorResponse is that of RFC 6749, section 5.2.
type errorResponse struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// refusal returns the error of a response, or nil if it is a success. Some servers send
// errors with status 200.
func (r *reply) refusal() error {
	success := r.status >= 200 && r.status < 300
	var e errorResponse
	if r.isJSON() {
		if err := json.Unmarshal(r.body, &e); err != nil {
			e = errorResponse{}
		}
	}
	switch {
	case success && e.Error == "":
		return nil
	case r.status >= 300 && r.status < 400:
		return &CheckError{Check: CheckRedirect, At: r.to.url, Got: r.scrub(r.header.Get("Location")), Want: "a response without a redirect"}
	case e.Error == "temporarily_unavailable" || e.Error == "server_error":
		return &TemporaryError{At: r.to.url, Status: r.status, RetryAfter: retryAfter(r.header, time.Now()), Sent: true}
	}
	err := serverError(r.status, r.scrub(e.Error), r.scrub(e.Description))
	err.At = r.to.url
	return err
}

// maxDescription bounds the text of a refusal that is kept.
const maxDescription = 1 << 10

// serverError returns a refusal. A code with characters that RFC 6749 does not allow is left
// out.
func serverError(status int, code, description string) *ServerError {
	for i := range len(code) {
		if c := code[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			code = ""
			break
		}
	}
	if len(code) > 64 {
		code = ""
	}
	if len(description) > maxDescription {
		description = description[:maxDescription]
	}
	return &ServerError{Status: status, Code: code, Description: description}
}

// tokenResponse is that of RFC 6749, section 5.1, and RFC 8693, section 2.2.1.
type tokenResponse struct {
	AccessToken  string         `json:"access_token"`
	TokenType    string         `json:"token_type"`
	IssuedType   string         `json:"issued_token_type"`
	ExpiresIn    jsontext.Value `json:"expires_in"`
	RefreshToken string         `json:"refresh_token"`
	IDToken      string         `json:"id_token"`
	Scope        *string        `json:"scope"`
}

// tokens returns the tokens of a response to a request that began at start.
func (g Grant) tokens(r *reply, start time.Time) (*Tokens, error) {
	refuse := func(check Check, got, want string) (*Tokens, error) {
		return nil, &CheckError{Check: check, At: r.to.url, Got: r.scrub(got), Want: want}
	}
	var resp tokenResponse
	if !r.isJSON() {
		return refuse(CheckTokenResponse, r.header.Get("Content-Type"), "JSON")
	}
	if err := json.Unmarshal(r.body, &resp); err != nil {
		return refuse(CheckTokenResponse, "", "a JSON object with members of the right types, each once")
	}
	// An ID-JAG is no access token, and has the type N_A.
	if !strings.EqualFold(resp.TokenType, "Bearer") && (!g.idJAG || !strings.EqualFold(resp.TokenType, "N_A")) {
		return refuse(CheckTokenType, resp.TokenType, "Bearer")
	}
	if g.idJAG && resp.IssuedType != TypeIDJAG {
		return refuse(CheckTokenType, resp.IssuedType, TypeIDJAG)
	}
	if !g.idJAG && !isAccessType(resp.IssuedType) {
		return refuse(CheckTokenType, resp.IssuedType, TypeAccessToken)
	}
	for _, token := range []string{resp.AccessToken, resp.RefreshToken, resp.IDToken} {
		if !isVisible(token) {
			return refuse(CheckTokenResponse, "", "tokens of visible ASCII characters")
		}
	}
	if resp.AccessToken == "" {
		return refuse(CheckTokenResponse, "", "an access_token")
	}
	life, ok := lifetime(resp.ExpiresIn)
	if !ok {
		return refuse(CheckTokenResponse, "", "expires_in as a number of seconds")
	}
	t := &Tokens{
		Access: mcp.NewToken(resp.AccessToken), Scopes: g.scopes, Expires: start.Add(life), Once: life == 0,
	}
	if resp.RefreshToken != "" {
		t.Refresh = mcp.NewToken(resp.RefreshToken)
	}
	if resp.IDToken != "" {
		t.ID = mcp.NewToken(resp.IDToken)
	}
	if resp.Scope != nil {
		t.Scopes = SplitScopes(*resp.Scope)
	}
	return t, nil
}

// isAccessType reports whether a token of this type may be used as an access token.
func isAccessType(issued string) bool {
	return issued == "" || issued == TypeAccessToken || issued == "urn:ietf:params:oauth:token-type:jwt"
}

// lifetime returns the lifetime of a token by expires_in.
func lifetime(expiresIn jsontext.Value) (time.Duration, bool) {
	if len(expiresIn) == 0 || string(expiresIn) == "null" {
		return defaultLife, true
	}
	n, ok := seconds(expiresIn)
	return time.Duration(min(n, maxLife.Seconds()) * float64(time.Second)), ok
}

// seconds returns a number of seconds, which some servers write as a text of digits: at
// least 0, and 0 if it is absent.
func seconds(value jsontext.Value) (float64, bool) {
	text := string(value)
	if text == "" || text == "null" {
		return 0, true
	}
	if unquoted, ok := strings.CutPrefix(text, `"`); ok {
		text = strings.TrimSuffix(unquoted, `"`)
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) {
		return 0, false
	}
	return min(max(n, 0), 1<<40), true
}

// isVisible reports whether a token can be sent in a header.
func isVisible(token string) bool {
	for i := range len(token) {
		if token[i] <= ' ' || token[i] > '~' {
			return false
		}
	}
	return true
}
