// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/signalbox-mcp/signalbox/test/browser"
)

// Web is a client of users, with a fixed redirect address to which nothing listens.
func Web(id string) Client {
	return Client{
		ID: id, Redirects: []string{"http://127.0.0.1:1/callback"}, Responses: []string{"code"},
		Grants: []string{"authorization_code", "refresh_token"}, AuthMethod: "none", Application: "native",
	}
}

// UserTokens signs a user in, with the browser, and returns the tokens for a resource. With
// the scope offline_access the user is asked for consent, as OpenID Connect Core, section 11,
// requires.
func (p *Provider) UserTokens(ctx context.Context, b *browser.Browser, c Client, resource, scope string) (*Tokens, error) {
	verifier, state := rand.Text()+rand.Text(), rand.Text()
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {c.ID}, "redirect_uri": {c.Redirects[0]}, "scope": {scope}, "state": {state},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	if resource != "" {
		query.Set("resource", resource)
	}
	if strings.Contains(scope, "offline_access") {
		query.Set("prompt", "consent")
	}
	own := *b
	own.Until = func(u *url.URL) bool { return strings.HasPrefix(u.String(), c.Redirects[0]) }
	page, err := own.SignIn(ctx, p.Issuer+"/auth?"+query.Encode())
	if err != nil {
		return nil, err
	}
	answer := page.URL.Query()
	switch {
	case page.Status != 0:
		return nil, fmt.Errorf("the sign-in ends at %s: %d %s", page.URL, page.Status, page.Body)
	case answer.Get("error") != "":
		return nil, fmt.Errorf("%s: %s", answer.Get("error"), answer.Get("error_description"))
	case answer.Get("state") != state || answer.Get("iss") != p.Issuer:
		return nil, errors.New("the answer is of another sign-in or issuer")
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {answer.Get("code")}, "redirect_uri": {c.Redirects[0]}, "code_verifier": {verifier}, "client_id": {c.ID},
	}
	if resource != "" {
		form.Set("resource", resource)
	}
	return p.Token(ctx, c, form)
}

// Refresh redeems a refresh token.
func (p *Provider) Refresh(ctx context.Context, c Client, refresh, resource string) (*Tokens, error) {
	return p.Token(ctx, c, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "resource": {resource}, "client_id": {c.ID}})
}
