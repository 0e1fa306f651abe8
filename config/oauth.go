// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"iter"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/valid"
)

// OAuth is how the gateway gets access tokens for a server (MCP specification,
// Authorization). The zero value is valid: every field has a default.
type OAuth struct {
	// As is user or gateway, the owner of the access.
	As string `json:"as"`
	// Grant is how tokens are requested; see Grant in the methods.
	Grant string `json:"grant"`

	// Issuer is the only authorization server, or "" to use one that the server names.
	Issuer string `json:"issuer"`

	// ClientID is the gateway's client there, and ClientSecret or ClientKey its credential.
	// ClientKey is a private key in PEM, or as a JWK. ClientMetadata is auto or none: whether
	// the address of metadata that the gateway serves may be the id.
	ClientID       string `json:"clientId"`
	ClientSecret   Secret `json:"clientSecret"`
	ClientKey      Secret `json:"clientKey"`
	ClientMetadata string `json:"clientMetadata"`

	// Assertion is the file with the assertion of the grant jwtBearer.
	Assertion string `json:"assertion"`

	// AuthorizationServer is that of the server, for the grant idJag, with which Issuer is the
	// identity provider; nil for all other grants. IDToken is the file with the ID token of the
	// user as which the gateway calls, if the access is its own.
	AuthorizationServer *AuthorizationServer `json:"authorizationServer"`
	IDToken             string               `json:"idToken"`

	// Scopes are those of the first request; nil means those that the server names. Resource is
	// auto, none, or a URI. Parameters are added to requests.
	Scopes     []string          `json:"scopes"`
	Resource   string            `json:"resource"`
	Audience   string            `json:"audience"`
	Parameters map[string]Secret `json:"parameters"`

	// Lists is own or shared, Wait how long a call waits for a sign-in. Endpoints is
	// discovered, or a revision with fixed paths.
	Lists     string        `json:"lists"`
	Wait      time.Duration `json:"wait"`
	Endpoints string        `json:"endpoints"`

	// CallbackHost and CallbackPort are those of the redirect URI on the machine of the user: of
	// a sign-in in a terminal, and with ClientID of the pages of a gateway there.
	CallbackHost string `json:"callbackHost"`
	CallbackPort int    `json:"callbackPort"`
}

// The values of OAuth.As.
const (
	AsUser    = "user"
	AsGateway = "gateway"
)

// The values of OAuth.Grant.
const (
	GrantCode              = "code"
	GrantClientCredentials = "clientCredentials"
	GrantExchange          = "exchange"
	GrantIDJAG             = "idJag"
	GrantJWTBearer         = "jwtBearer"
)

// Other words of OAuth.
const (
	ResourceAuto        = "auto"
	ResourceNone        = "none"
	EndpointsDiscovered = "discovered"
	Endpoints20250326   = "2025-03-26"
	ListsOwn            = "own"
	ListsShared         = "shared"
	MetadataAuto        = "auto"
	MetadataNone        = "none"
)

// IsGateway reports whether the access is the gateway's own.
func (o *OAuth) IsGateway() bool { return o.As == AsGateway }

// GrantType returns Grant, or its default.
func (o *OAuth) GrantType() string {
	switch {
	case o.Grant != "":
		return o.Grant
	case o.IsGateway():
		return GrantClientCredentials
	default:
		return GrantCode
	}
}

// oauthKeys returns the keys of oauth. Defaults that depend on another key are in the texts.
func oauthKeys() []key {
	return []key{
		// The person, as in the files of clients, which have no other.
		{"as", oneOf(AsUser, AsGateway), "", "The owner of the access: each user, after a sign-in (user, the default), or the gateway itself (gateway)."},
		{"grant", oneOf(GrantCode, GrantClientCredentials, GrantExchange, GrantIDJAG, GrantJWTBearer), "", "How tokens are requested. For users: by a sign-in (code, the default), or for the token that the user has presented (exchange). For the gateway: with its client's credentials (clientCredentials, the default), with an assertion (jwtBearer), or with one that an identity provider gives for an ID token (idJag). For users, idJag takes the ID token of their sign-in on a page (\"auth.browser\")."},
		// Pinned, so that a server cannot name another one.
		{"issuer", nonEmpty(), "", "The only authorization server, by its issuer. Without it, one that the server names is used. With it, the authorization server may have a private address. For the grant idJag it is the identity provider, and so are the client and its credential below."},
		{"clientId", nonEmpty(), "", "The gateway's client id at the authorization server. Without it, the gateway uses the address of its metadata, or registers itself."},
		{"clientSecret", credential(), "", "The secret of the client."},
		{"clientKey", credential(), "", "The private key of the client, as PEM or JWK, with which it signs an assertion instead of a secret."},
		{"clientMetadata", oneOf(MetadataAuto, MetadataNone), "", "Whether the address of the gateway's client metadata may be its client id: where the authorization server supports it (auto, the default), or never (none)."},
		// Reread, because the platform that writes it replaces it.
		{"assertion", pathname(), "", "The file with the assertion of the gateway's identity, for the grant jwtBearer. It is read for each use."},
		{"authorizationServer", optional(object(authorizationServerKeys(), nil)), "", "The authorization server of the server, for the grant idJag, and the gateway's client there."},
		// Reread, as an ID token lasts for about an hour.
		{"idToken", pathname(), "", "The file with the ID token of the user as which the gateway calls, for the grant idJag. It is read again when it changes."},
		{"scopes", listOf(text()), "", "The scopes to request first. Without it they are those that the server names. Scopes that it requires later are added."},
		{"resource", text(), "", "What tokens are requested for (RFC 8707): what the server publishes (auto, the default), a URI, or nothing (none), for an authorization server that refuses the parameter."},
		{"audience", text(), "", "The audience to request, for an authorization server that expects one."},
		// Secrets, since it is unknown which of them are.
		{"parameters", mapOf(secret()), "", "More parameters of authorization and token requests. None that the gateway sets can be replaced."},
		{"lists", oneOf(ListsOwn, ListsShared), "", "The lists of the server: each user has their own (own, the default), or all have the same (shared), which are then shown before a sign-in."},
		{"wait", duration(), "", "How long a call waits for a sign-in that its user has agreed to. The default is 2m, and 25s for clients of 2026-07-28."},
		// By the fixed paths only on request: without metadata, support for PKCE is unknown.
		{"endpoints", oneOf(EndpointsDiscovered, Endpoints20250326), "", "Where the endpoints of the authorization server are: as its metadata has them (discovered, the default), or at the paths of the server that 2025-03-26 defines."},
		{"callbackHost", oneOf("127.0.0.1", "localhost"), "", "The host of the redirect URI on the user's machine, as the client is registered: for a sign-in in a terminal, and with clientId and callbackPort for the pages of a gateway on loopback. The default is 127.0.0.1."},
		{"callbackPort", port(), "", "The port of that redirect URI, as the client is registered. The default is a free one, and for the pages their own."},
	}
}

// userAccess returns the servers that are called with the access of users, and the places of
// its settings.
func (c *Config) userAccess(r *reader) iter.Seq2[place, *Backend] {
	return func(yield func(place, *Backend) bool) {
		for i := range c.Servers {
			s := &c.Servers[i]
			at := s.place().key("oauth")
			if s.OAuth == nil || s.Disabled || s.OAuth.IsGateway() || r.has(at) || isGrantUnknown(at, r) {
				continue
			}
			if !yield(at, s) {
				return
			}
		}
	}
}

// isGrantUnknown reports whether the owner of the access or the grant could not be read, on
// which the meaning of other settings depends.
func isGrantUnknown(at place, r *reader) bool { return r.hasOrMeant(at.key("as"), at.key("grant")) }

// checkExchanges rejects an exchange of tokens that no caller can present: a token is sent only to
// the issuer that it is of.
func checkExchanges(c *Config, r *reader) {
	for at, s := range c.userAccess(r) {
		issuer := at.key("issuer")
		if s.OAuth.GrantType() != GrantExchange || s.OAuth.Issuer == "" || r.has(issuer) {
			continue
		}
		isSame := func(other Issuer) bool { return other.Issuer == s.OAuth.Issuer }
		if !slices.ContainsFunc(c.Auth.Issuers, isSame) {
			r.report(issuer, `add it to "auth.issuers", exactly as it is here`, "the grant %s needs tokens of %q, and callers can present none: it is not in %q", GrantExchange, issuer.name, "auth.issuers")
		}
	}
}

// port is a number of a port.
func port() form {
	f := wholeNumber("a whole number from 1 to 65535", "", 1<<16-1)
	f.want = "a port"
	return f
}

// checkPageUsers notes sign-ins with pages that cannot know their user: it has no token to enter there.
func checkPageUsers(c *Config, r *reader) {
	isEntered := func(s Issuer) bool { return strings.EqualFold(header(&s), "Authorization") }
	if c.Auth.IsZero() || len(c.Auth.Tokens) > 0 || c.Auth.Browser != nil || slices.ContainsFunc(c.Auth.Issuers, isEntered) {
		return
	}
	auth := (place{}).key("auth")
	if r.hasOrMeant(auth, auth.key("tokens"), auth.key("issuers"), auth.key("browser")) {
		return
	}
	for at, s := range c.userAccess(r) {
		if s.OAuth.GrantType() == GrantCode {
			r.note(at, `add "auth.browser"`, "%q is the access of users, and no page knows its user: users sign in with 'signalbox login' on the machine of the gateway alone", at.name)
		}
	}
}

// checkUsers rejects the access of users where all callers are one, and where no page to sign in
// is reached by the browsers of other machines.
func checkUsers(c *Config, r *reader) {
	if !c.isPublic() {
		return
	}
	hasPages := c.PublicURL != "" || r.hasOrMeant((place{}).key("publicURL"))
	for at, s := range c.userAccess(r) {
		switch {
		case c.Auth.IsZero():
			r.report(at, `add "auth", or listen on 127.0.0.1`, "%q is the access of a user, which without \"auth\" everyone on the network would have", at.name)
		case s.OAuth.GrantType() == GrantCode && !hasPages:
			r.report(at, `add "publicURL", such as https://mcp.example.com`, "%q is the access of users, and without \"publicURL\" their browsers reach no page to sign in", at.name)
		}
	}
}

// checkOAuth rejects settings that contradict each other or would expose a credential.
func checkOAuth(s *Backend, p place, r *reader) {
	o, at := s.OAuth, p.key("oauth")
	if o == nil || r.has(at) {
		return
	}
	isUnknown := isGrantUnknown(at, r)
	switch authorization := slices.IndexFunc(slices.Collect(maps.Keys(s.Headers)), func(name string) bool { return http.CanonicalHeaderKey(name) == "Authorization" }); {
	case s.Command != "" || r.has(p.key("command")):
		r.report(at, "remove it", "%q has no meaning beside %q", at.name, "command")
		return
	case authorization >= 0:
		r.report(at, `remove "oauth", or the Authorization header in "headers"`, "%q has both %q and an Authorization header", p.name, at.name)
	case s.Share && !o.IsGateway() && !isUnknown:
		r.report(at, `remove "share", or write "as: gateway"`, `%q has "share", but each user has a session with it`, p.name)
	}
	for _, k := range oauthKeys() {
		if k.form.words != nil {
			checkWord(r, at.key(k.name), k.field(reflect.ValueOf(o).Elem()).String(), k.form.words...)
		}
	}
	hasCredential := checkCredential(o.ClientSecret, o.ClientKey, at, r)
	checkRequested(o, at, r)
	checkOAuthIssuer(s, at, r)
	if isUnknown {
		return
	}
	checkGrant(o, at, r)
	checkClient(o, hasCredential, at, r)
	checkIDJAG(s, at, r)
}

// checkGrant rejects a grant that cannot be used as configured, and keys without a meaning.
func checkGrant(o *OAuth, at place, r *reader) {
	grant := at.key("grant")
	byGateway := slices.Contains([]string{GrantClientCredentials, GrantJWTBearer}, o.GrantType())
	switch {
	case o.GrantType() == GrantIDJAG: // for both
	case o.IsGateway() && !byGateway:
		r.report(grant, `write clientCredentials or jwtBearer, or "as: user"`, "the grant %s is for users", o.Grant)
	case !o.IsGateway() && byGateway:
		r.report(grant, `write "as: gateway"`, "the grant %s is for the gateway itself", o.Grant)
	}
	isAssertion := o.GrantType() == GrantJWTBearer
	switch p := at.key("assertion"); {
	case isAssertion && o.Assertion == "" && !r.hasOrMeant(p):
		r.report(grant, `add "assertion" with its file`, "the grant %s needs an assertion", o.Grant)
	case !isAssertion && o.Assertion != "":
		r.report(p, `write "grant: jwtBearer", or remove it`, "%q has no meaning with the grant %s", p.name, o.GrantType())
	}
	if o.IsGateway() {
		checkUnused(o, at, `with "as: gateway"`, r, "clientMetadata", "lists", "wait", "callbackHost", "callbackPort")
	}
}

// checkOAuthIssuer rejects an issuer that cannot be trusted, and credentials that would be sent to any
// authorization server that a remote server names.
func checkOAuthIssuer(s *Backend, at place, r *reader) {
	o, p := s.OAuth, at.key("issuer")
	if r.has(p) {
		return
	}
	if o.Issuer != "" {
		if checkIssuerURL(o.Issuer, p, r) && o.Endpoints == Endpoints20250326 {
			r.report(p, `remove it, or "endpoints"`, "%q has endpoints of its own", p.name)
		}
		return
	}
	backend, err := url.Parse(s.URL)
	isLocal := err == nil && isLoopback(backend.Hostname())
	switch {
	case isGrantUnknown(at, r):
	case o.GrantType() == GrantExchange || o.GrantType() == GrantIDJAG:
		r.report(p, "add it", "the grant %s needs an %q: a user's token is never sent to a server that another one names", o.GrantType(), p.name)
	case o.IsGateway() && !isLocal && o.Endpoints != Endpoints20250326:
		r.report(p, "add it", "%q needs an %q: the gateway's credentials would be sent to any authorization server that the server names", "as: gateway", p.name)
	}
}

// checkIssuerURL rejects the issuer of an authorization server that is not an https URL. It reports
// whether it is one.
func checkIssuerURL(issuer string, p place, r *reader) bool {
	u, err := url.Parse(issuer)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || strings.ContainsAny(issuer, "?#"):
		r.report(p, `such as "https://id.example.com"`, "%q must be an https URL without a query or fragment", p.name)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		r.report(p, "use https", "%q is an http URL beyond loopback: others could read the credentials of the gateway", p.name)
	default:
		return true
	}
	return false
}

// checkClient rejects an incomplete client.
func checkClient(o *OAuth, hasCredential bool, at place, r *reader) {
	id := at.key("clientId")
	switch {
	case o.ClientID == "" && !r.hasOrMeant(id) && (hasCredential || o.IsGateway() || o.GrantType() != GrantCode):
		r.report(id, "add it, as the authorization server has registered the gateway", "%q is missing", id.name)
	case o.GrantType() == GrantClientCredentials && !hasCredential:
		r.report(at, `add "clientSecret" or "clientKey"`, "the grant clientCredentials needs a credential of the client")
	}
}

// checkCredential rejects two credentials of a client, and a key that cannot be used. It
// reports whether there is a credential, or may be.
func checkCredential(secret, key Secret, client place, r *reader) bool {
	inSecret, inKey := client.key("clientSecret"), client.key("clientKey")
	hasSecret, hasKey := !secret.IsZero() || r.has(inSecret), !key.IsZero() || r.has(inKey)
	switch {
	case hasSecret && hasKey:
		r.report(inKey, "remove one of them", "%q and %q are both set", inSecret.name, inKey.name)
	case !key.IsZero() && !r.has(inKey):
		if _, err := oauth.ParseSigningKey([]byte(key.Reveal())); err != nil {
			r.report(inKey, "a PEM or JWK private key: RSA of 2048 bits or more, EC, or Ed25519", "%q cannot be used: %v", inKey.name, err)
		}
	}
	return hasSecret || hasKey || r.hasOrMeant(inSecret, inKey)
}

// checkRequested checks what is requested.
func checkRequested(o *OAuth, at place, r *reader) {
	for i, scope := range o.Scopes {
		if p := at.key("scopes").item(i); !r.has(p) && len(oauth.SplitScopes(scope)) != 1 {
			r.report(p, "write each scope as an element of its own", "%q is not a scope", p.name)
		}
	}
	if p := at.key("resource"); o.Resource != "" && o.Resource != ResourceAuto && o.Resource != ResourceNone && !r.has(p) {
		if u, err := url.Parse(o.Resource); err != nil || u.Scheme == "" || u.User != nil || strings.Contains(o.Resource, "#") {
			r.report(p, "write auto, none, or a URI without a fragment", "%q is not a URI", p.name)
		}
	}
	parameters := at.key("parameters")
	for _, name := range slices.Sorted(maps.Keys(o.Parameters)) {
		if oauth.CheckParameters(map[string]string{name: ""}) != nil || name == "audience" {
			r.report(parameters.key(name), "remove it", "%q is set by the gateway", validPrefix(name, valid.IsTokenRune))
		}
	}
}
