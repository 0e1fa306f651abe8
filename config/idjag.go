// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"net/url"
)

// AuthorizationServer is the authorization server of a server that trusts an identity provider.
type AuthorizationServer struct {
	// Issuer is its issuer, or "" to use the one that the server names, which has to be on
	// loopback.
	Issuer string `json:"issuer"`
	// ClientID is the gateway's client there, and ClientSecret or ClientKey its credential, if
	// it has one. ClientKey is a private key in PEM, or as a JWK.
	ClientID     string `json:"clientId"`
	ClientSecret Secret `json:"clientSecret"`
	ClientKey    Secret `json:"clientKey"`
}

func authorizationServerKeys() []key {
	return []key{
		// Required beyond loopback, so that a server cannot name another one.
		{"issuer", nonEmpty(), "", "Its issuer. The identity provider is asked for an assertion for exactly this one. Without it, the one that a server on this machine names is used."},
		{"clientId", nonEmpty(), "", "The gateway's client id there, which the identity provider puts into assertions."},
		{"clientSecret", credential(), "", "The secret of the client."},
		{"clientKey", credential(), "", "The private key of the client, as PEM or JWK, with which it signs an assertion instead of a secret."},
	}
}

// checkIDJAG rejects a grant of assertions that cannot be used as configured, and its keys with
// another grant.
func checkIDJAG(s *Backend, at place, r *reader) {
	o, grant, server, token := s.OAuth, at.key("grant"), at.key("authorizationServer"), at.key("idToken")
	if o.GrantType() != GrantIDJAG {
		if o.AuthorizationServer != nil {
			r.report(server, `write "grant: idJag", or remove it`, "%q has no meaning with the grant %s", server.name, o.GrantType())
		}
		if o.IDToken != "" {
			r.report(token, `write "grant: idJag", or remove it`, "%q has no meaning with the grant %s", token.name, o.GrantType())
		}
		return
	}
	switch {
	case !o.IsGateway() && o.IDToken != "":
		r.report(token, `remove it, or write "as: gateway"`, "%q is for the gateway itself: users have ID tokens of their own", token.name)
	case o.IsGateway() && o.IDToken == "" && !r.hasOrMeant(token):
		r.report(grant, `add "idToken" with its file`, "the grant %s of the gateway needs an ID token", o.Grant)
	}
	if o.Audience != "" {
		r.report(at.key("audience"), "remove it", "%q has no meaning with the grant %s: it is the authorization server of the server", at.key("audience").name, o.Grant)
	}
	if o.Resource == ResourceNone {
		r.report(at.key("resource"), "remove it", "%q cannot be none with the grant %s: an assertion is for one server", at.key("resource").name, o.Grant)
	}
	switch {
	case o.AuthorizationServer != nil:
		checkAuthorizationServer(s, server, r)
	case !r.hasOrMeant(server):
		r.report(grant, `add "authorizationServer" with its issuer and the gateway's client there`, "the grant %s needs the authorization server of the server", o.Grant)
	}
}

func checkAuthorizationServer(s *Backend, p place, r *reader) {
	a, issuer := s.OAuth.AuthorizationServer, p.key("issuer")
	if r.has(p) {
		return
	}
	backend, err := url.Parse(s.URL)
	switch {
	case a.Issuer != "":
		if !r.has(issuer) {
			checkIssuerURL(a.Issuer, issuer, r)
		}
	case r.hasOrMeant(issuer):
	case err != nil || !isLoopback(backend.Hostname()):
		r.report(p, "add it", "%q needs an %q: the gateway's credentials would be sent to any authorization server that the server names", p.name, "issuer")
	}
	id := p.key("clientId")
	if a.ClientID == "" && !r.hasOrMeant(id) {
		r.report(p, "add it, as the authorization server has registered the gateway", "%q has no %q", p.name, id.name)
	}
	checkCredential(a.ClientSecret, a.ClientKey, p, r)
}

// checkVouchedUsers rejects a grant of assertions for users whose ID tokens are of another issuer, or
// that have none.
func checkVouchedUsers(c *Config, r *reader) {
	for at, s := range c.userAccess(r) {
		issuer, browser := at.key("issuer"), place{}.key("auth").key("browser")
		if s.OAuth.GrantType() != GrantIDJAG || s.OAuth.Issuer == "" || r.has(issuer) || r.hasOrMeant(browser) {
			continue
		}
		switch iss := c.Auth.BrowserIssuer(); {
		case c.Auth.Browser == nil:
			r.report(at.key("grant"), `add "auth.browser", or write "as: gateway"`, "the grant %s needs ID tokens of users, which are those of sign-ins on a page", GrantIDJAG)
		case iss != nil && iss.Issuer != s.OAuth.Issuer:
			r.report(issuer, "write that of auth.browser", "%q is not the issuer of the users' ID tokens, which is that of %q", issuer.name, "auth.browser")
		case iss != nil && s.OAuth.ClientID != c.Auth.Browser.ClientID:
			r.note(at.key("clientId"), "write the same, if the identity provider refuses the exchange", "%q is not the client that ID tokens are issued to, %q", at.key("clientId").name, "auth.browser.clientId")
		}
	}
}
