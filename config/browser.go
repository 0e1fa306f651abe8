// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
)

// Browser is how the pages of the gateway identify their user: by a sign-in at an issuer, with
// OpenID Connect.
type Browser struct {
	// Issuer is the name of one of Auth.Issuers.
	Issuer string `json:"issuer"`
	// ClientID is the gateway's client there, and ClientSecret or ClientKey its credential, if
	// it has one. ClientKey is a private key in PEM, or as a JWK.
	ClientID     string `json:"clientId"`
	ClientSecret Secret `json:"clientSecret"`
	ClientKey    Secret `json:"clientKey"`
	// Scopes are requested besides openid.
	Scopes []string `json:"scopes"`
}

func browserKeys() []key {
	return []key{
		{"issuer", text(), "", "The name of one of \"auth.issuers\". Its \"principal\" is applied to the claims of ID tokens, too."},
		{"clientId", nonEmpty(), "", "The gateway's client id at the issuer. The redirect URI to register there is \"publicURL\" with /oauth/identity."},
		{"clientSecret", credential(), "", "The secret of the client."},
		{"clientKey", credential(), "", "The private key of the client, as PEM or JWK, with which it signs an assertion instead of a secret."},
		// Not more by default: the name of the user needs none of the other claims.
		{"scopes", listOf(text()), "", "Scopes to request besides openid, for claims that \"principal\" needs, such as profile."},
	}
}

// BrowserIssuer returns the issuer of Browser, or nil.
func (a *Auth) BrowserIssuer() *Issuer {
	if a.Browser == nil {
		return nil
	}
	i := slices.IndexFunc(a.Issuers, func(s Issuer) bool { return s.Name == a.Browser.Issuer })
	if i < 0 {
		return nil
	}
	return &a.Issuers[i]
}

func checkBrowser(c *Config, r *reader) {
	p, issuers := place{}.key("auth").key("browser"), place{}.key("auth").key("issuers")
	b := c.Auth.Browser
	if b == nil || r.has(p) {
		return
	}
	issuer, id := p.key("issuer"), p.key("clientId")
	switch {
	case r.hasOrMeant(issuer, issuers):
	case b.Issuer == "":
		r.report(p, `add "issuer", the name of one of "auth.issuers"`, "%q does not specify its issuer", p.name)
	case c.Auth.BrowserIssuer() == nil && !hasUnknownName(c, issuers, r):
		var names []string
		for i := range c.Auth.Issuers {
			names = append(names, c.Auth.Issuers[i].Name)
		}
		hint := `add it to "auth.issuers"`
		if names != nil {
			hint = fmt.Sprintf("the names are %s", strings.Join(names, ", "))
		}
		r.report(issuer, hint, "%q is not the name of one of %q", issuer.name, "auth.issuers")
	}
	if b.ClientID == "" && !r.hasOrMeant(id) {
		r.report(p, "add it, as the issuer has registered the gateway", "%q has no %q", p.name, id.name)
	}
	if iss := c.Auth.BrowserIssuer(); iss != nil && slices.Contains(iss.Audience, b.ClientID) && !r.has(id) {
		r.note(id, "register a client of its own for the pages", "%q is an audience of the issuer, too: ID tokens of the client differ from access tokens by their nonce alone", id.name)
	}
	checkCredential(b.ClientSecret, b.ClientKey, p, r)
	for i, scope := range b.Scopes {
		at := p.key("scopes").item(i)
		switch {
		case r.has(at):
		case len(oauth.SplitScopes(scope)) != 1:
			r.report(at, "write each scope as an element of its own", "%q is not a scope", at.name)
		case scope == "offline_access":
			r.report(at, "remove it", "%q is for refresh tokens, which the gateway does not keep of a user's sign-in here", at.name)
		}
	}
}

// hasUnknownName reports whether the name of an issuer could not be read.
func hasUnknownName(c *Config, issuers place, r *reader) bool {
	for i := range c.Auth.Issuers {
		if at := issuers.item(i); r.hasOrMeant(at, at.key("name")) {
			return true
		}
	}
	return false
}
