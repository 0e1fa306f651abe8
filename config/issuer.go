// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/signalbox-mcp/signalbox/internal/configfile"
	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/internal/spelling"
)

// Issuer is an identity provider. The gateway accepts the access tokens (JWT) that it issues
// for this gateway.
type Issuer struct {
	// Name is the prefix of the principals of its tokens, before a colon. It consists of
	// lower-case letters, digits, - and _.
	Name string `json:"name"`
	// Issuer is its identifier, which is the iss of its tokens.
	Issuer string `json:"issuer"`
	// Audience are the accepted audiences of its tokens; nil means the URL at which clients
	// reach the endpoint.
	Audience []string `json:"audience"`
	// Algorithms are the accepted signature algorithms; nil means those of docs/config.md.
	Algorithms []string `json:"algorithms"`
	// Principal is an expression in CEL over claims, for the name of the sender.
	Principal string `json:"principal"`
	// Scopes are what a token needs for any request, and Implies has for a scope those that
	// it includes.
	Scopes  []string            `json:"scopes"`
	Implies map[string][]string `json:"implies"`
	// Skew is the difference of clocks that is tolerated.
	Skew time.Duration `json:"skew"`
	// Header is the header with the token: Authorization, or one that an access proxy adds.
	Header string `json:"header"`
	// Keys is a file with the keys of the issuer, a JSON Web Key Set, or the URL of one. If
	// empty, they are discovered.
	Keys string `json:"keys"`
	// Introspect is how the issuer is asked about tokens that are not JWTs, or nil.
	Introspect *Introspect `json:"introspect"`
	// KeySet is the content of the file, Keys.
	KeySet []byte `json:"-"`
}

// PrincipalVariable is the variable of the expressions for principals.
const PrincipalVariable = "claims"

func issuerKeys() []key {
	return []key{
		// A name for each, since two issuers can have the same subject.
		{"name", text(), "", "The prefix of the principals of its tokens, before a colon."},
		{"issuer", expanded(), "", "The identifier of the issuer, a URL: exactly the claim iss of its tokens. Its metadata and keys are fetched from there."},
		// The resource, so that a token for another server is of no use here.
		{"audience", listOf(expanded()), "", "The accepted audiences of its tokens, for issuers that cannot put the URL of this gateway there. The default is that URL: \"publicURL\" with \"path\"; a token for the URL of a profile is for that profile only."},
		// None that is symmetric: its key could be that of any verifier.
		{"algorithms", listOf(text()), "", "The accepted signature algorithms. The default is ES256, ES384, PS256, RS256 and EdDSA; ES512, PS384, PS512, RS384 and RS512 can be added."},
		{"principal", text(), "claims.sub", "The name of the sender, an expression in CEL over the claims of its token. A token for which it has no result, or an empty one, is refused."},
		{"scopes", listOf(text()), "", "The scopes that each request needs. Clients are told which ones to request."},
		{"implies", mapOf(listOf(text())), "", "For a scope, those that it includes."},
		{"skew", duration(), "30s", "How far the clocks of the issuer and of this machine may differ. A token is accepted for that long after its expiry."},
		// The header of an access proxy is signed, and so needs no trust in addresses.
		{"header", text(), "Authorization", "The header with the token. Any other than Authorization is one that an access proxy adds, such as Cf-Access-Jwt-Assertion, and has the token alone."},
		// A URL for access proxies, which have keys and no metadata.
		{"keys", fileOrURL(), "", "The keys of the issuer, as a JSON Web Key Set: an https URL, which is fetched again as discovered keys are, or a file, relative to the folder of the config. Nothing else is fetched from the issuer then."},
		// A pointer: without it, such tokens are refused, and the issuer is never asked.
		{"introspect", optional(object(introspectKeys(), nil)), "", "The gateway's client at the issuer, to ask it about tokens that are not JWTs (RFC 7662). One issuer can have it."},
	}
}

// maxKeySetFile bounds the file with the keys of an issuer.
const maxKeySetFile = 256 << 10

// issuerEntry is one entry of auth.issuers. The file with keys is read immediately, so that
// a missing one is found with the configuration.
func issuerEntry() form {
	return object(issuerKeys(), nil).then(func(r *reader, _ configfile.Node, p place, into reflect.Value) {
		issuer := into.Addr().Interface().(*Issuer)
		at := p.key("keys")
		if issuer.Keys == "" || issuer.KeysURL() != "" || r.has(at) {
			return
		}
		raw, problem, hint := readRegular("file with keys", issuer.Keys, maxKeySetFile, false)
		if problem != "" {
			r.reject(at, hint, "%s", problem)
		}
		issuer.KeySet = raw
	})
}

// KeysURL returns the URL of the keys, or "" if they are in a file or discovered.
func (s *Issuer) KeysURL() string {
	if isURL(s.Keys) {
		return s.Keys
	}
	return ""
}

// isURL reports whether text is meant as a URL, and not as the path of a file.
func isURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && !strings.ContainsAny(scheme, `/\.`)
}

// fileOrURL is an expanded string that is a URL, or else the path of a file.
func fileOrURL() form {
	return textAs(func(r *reader, text string, p place) string {
		value := r.expand(text, p, false)
		if text == "" || r.formOnly || isURL(value) {
			return value
		}
		return r.resolve(value, p)
	})
}

// checkPublicURL requires a scheme and host, which issuers and clients compare as texts.
func checkPublicURL(c *Config, r *reader) {
	p := place{}.key("publicURL")
	issuers := place{}.key("auth").key("issuers")
	switch {
	case r.has(p):
	case c.PublicURL == "":
		if len(c.Auth.Issuers) > 0 && !r.hasOrMeant(p) {
			r.report(issuers, `add "publicURL", such as https://mcp.example.com`, `%q needs "publicURL": tokens are for the URL at which clients reach this gateway`, issuers.name)
		}
	case !isOrigin(c.PublicURL):
		r.report(p, "write scheme://host in lower case, such as https://mcp.example.com", "%q must be a scheme and a host alone", p.name)
	case !isSecureURL(c.PublicURL):
		r.report(p, "http is for this machine only", "%q must begin with https://", p.name)
	}
}

// isOrigin reports whether text is a scheme and a host, spelled as browsers do.
func isOrigin(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && text == u.Scheme+"://"+u.Host && text == strings.ToLower(text) && !strings.Contains(text, "*")
}

// isSecureURL reports whether text is a URL with https, or with http to this machine.
func isSecureURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && isLoopback(u.Hostname()))
}

func checkIssuers(c *Config, r *reader) {
	list := place{}.key("auth").key("issuers")
	for i := range c.Auth.Issuers {
		p := list.item(i)
		if r.has(p) {
			continue
		}
		checkIssuer(&c.Auth.Issuers[i], c.Auth.Issuers[:i], list, p, r)
	}
	tokens := place{}.key("auth").key("tokens")
	for i := range c.Auth.Tokens {
		prefix, _, found := strings.Cut(c.Auth.Tokens[i].Principal, ":")
		named := func(s Issuer) bool { return s.Name == prefix }
		if at := tokens.item(i).key("principal"); found && !r.has(at) && slices.ContainsFunc(c.Auth.Issuers, named) {
			r.report(at, "choose another name", "%q begins with %q, as the principals of that issuer do", at.name, prefix+":")
		}
	}
}

// checkIssuer checks one issuer. before are those that precede it in the list.
func checkIssuer(s *Issuer, before []Issuer, list, p place, r *reader) {
	name, issuer := p.key("name"), p.key("issuer")
	switch {
	case r.hasOrMeant(name):
	case s.Name == "":
		r.report(p, `add "name"`, "%q has no name, with which its principals begin", p.name)
	case !isProfileName(s.Name):
		r.report(name, "lower-case letters, digits, - and _, and up to 64 of them", "%.80q cannot be the name of an issuer", s.Name)
	}
	if first := slices.IndexFunc(before, func(o Issuer) bool { return o.Name == s.Name }); s.Name != "" && first >= 0 {
		r.report(name, "", "%q and %q have the same name", list.item(first).name, p.name)
	}
	switch {
	case r.hasOrMeant(issuer):
	case s.Issuer == "":
		r.report(p, `add "issuer"`, "%q does not specify its issuer", p.name)
	case !isIssuer(s.Issuer):
		r.report(issuer, "such as https://id.example.com/realms/corp", "%q must be a URL without query and fragment", issuer.name)
	case !isSecureURL(s.Issuer):
		r.report(issuer, "http is for this machine only", "%q must begin with https://", issuer.name)
	}
	same := func(o Issuer) bool { return o.Issuer == s.Issuer && strings.EqualFold(header(&o), header(s)) }
	if first := slices.IndexFunc(before, same); s.Issuer != "" && first >= 0 {
		r.report(issuer, "remove one of them", "%q and %q are one issuer", list.item(first).name, p.name)
	}
	checkAudience(s, p.key("audience"), r)
	checkAlgorithms(s, p.key("algorithms"), r)
	checkPrincipal(s, p.key("principal"), r)
	checkScopes(s, p, r)
	checkSkew(s, p.key("skew"), r)
	checkHeader(s, p.key("header"), r)
	checkIssuerKeys(s, p.key("keys"), r)
}

// checkIssuerKeys checks the URL of the keys, or what was read from their file.
func checkIssuerKeys(s *Issuer, at place, r *reader) {
	switch u, err := url.Parse(s.KeysURL()); {
	case r.has(at):
	case s.KeysURL() != "" && (err != nil || u.Host == "" || u.User != nil || strings.Contains(s.Keys, "#")):
		r.report(at, "such as https://id.example.com/keys", "%q is not a URL without credentials and fragment", at.name)
	case s.KeysURL() != "" && !isSecureURL(s.Keys):
		r.report(at, "http is for this machine only", "%q must begin with https://", at.name)
	case s.KeySet != nil:
		if problem := keySetProblem(s.KeySet); problem != "" {
			r.report(at, "", "the file with keys %s: %s", s.Keys, problem)
		}
	}
}

func header(s *Issuer) string {
	if s.Header == "" {
		return "Authorization"
	}
	return s.Header
}

// isIssuer reports whether text can be the identifier of an issuer (RFC 8414, section 2).
func isIssuer(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && u.User == nil && !strings.ContainsAny(text, "?#* ")
}

func checkAudience(s *Issuer, list place, r *reader) {
	if s.Audience != nil && len(s.Audience) == 0 && !r.has(list) {
		r.report(list, "remove it for the URL of this gateway", "%q is empty", list.name)
	}
	for i, audience := range s.Audience {
		switch at := list.item(i); {
		case r.has(at):
		case audience == "":
			r.report(at, "", "%q is empty", at.name)
		case strings.Contains(audience, "*"):
			r.report(at, "write each audience", "%q has a pattern, and would accept tokens for other servers", at.name)
		}
	}
	checkTwice(s.Audience, list, r)
}

// algorithms returns the signature algorithms that can be accepted.
func algorithms() []string {
	return []string{"ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512", "EdDSA"}
}

func checkAlgorithms(s *Issuer, list place, r *reader) {
	if s.Algorithms != nil && len(s.Algorithms) == 0 && !r.has(list) {
		r.report(list, "remove it for the default", "%q is empty", list.name)
	}
	for i, name := range s.Algorithms {
		switch at := list.item(i); {
		case r.has(at) || slices.Contains(algorithms(), name):
		case strings.HasPrefix(name, "HS") || strings.EqualFold(name, "none"):
			r.report(at, "use one with a public key, such as ES256", "%.20q cannot be accepted: anyone could make such a token", name)
		default:
			r.report(at, spelling.DidYouMean(name, algorithms()), "%q must be one of %s", at.name, strings.Join(algorithms(), ", "))
		}
	}
	checkTwice(s.Algorithms, list, r)
}

func checkPrincipal(s *Issuer, p place, r *reader) {
	if s.Principal == "" || r.has(p) {
		return
	}
	if _, err := principal.Compile(PrincipalVariable, s.Principal); err != nil {
		r.report(p, "such as claims.sub", "%q is not an expression for a name: %v", p.name, err)
	}
	if strings.Contains(s.Principal, "claims.email") {
		r.note(p, "claims.sub does not change", "%q depends on an email address, which may be given to another person", p.name)
	}
}

// isScope reports whether text can be a scope (RFC 6749, section 3.3).
func isScope(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

func checkScopes(s *Issuer, p place, r *reader) {
	const hint = "printable ASCII without spaces"
	list, implies := p.key("scopes"), p.key("implies")
	for i, scope := range s.Scopes {
		switch at := list.item(i); {
		case r.has(at):
		case !isScope(scope):
			r.report(at, hint, "%q is not a scope", at.name)
		case scope == "offline_access":
			r.report(at, "remove it", "%q is for refresh tokens, which are between a client and its issuer", at.name)
		}
	}
	checkTwice(s.Scopes, list, r)
	for _, scope := range slices.Sorted(maps.Keys(s.Implies)) {
		at := implies.key(scope)
		if !isScope(scope) {
			r.report(at, hint, "%.80q is not a scope", scope)
		}
		for i, implied := range s.Implies[scope] {
			if !r.has(at.item(i)) && !isScope(implied) {
				r.report(at.item(i), hint, "%q is not a scope", at.item(i).name)
			}
		}
	}
	if cycle := scopeCycle(s.Implies); cycle != nil && !r.has(implies) {
		r.report(implies.key(cycle[0]), "", "%q has a cycle: %s", implies.name, strings.Join(cycle, " implies "))
	}
}

// scopeCycle returns a cycle of implied scopes, with its first scope at both ends, or nil.
func scopeCycle(implies map[string][]string) []string {
	done := make(map[string]bool)
	var path []string
	var visit func(scope string) []string
	visit = func(scope string) []string {
		if i := slices.Index(path, scope); i >= 0 {
			return append(slices.Clone(path[i:]), scope)
		}
		if done[scope] {
			return nil
		}
		path = append(path, scope)
		for _, next := range implies[scope] {
			if cycle := visit(next); cycle != nil {
				return cycle
			}
		}
		path, done[scope] = path[:len(path)-1], true
		return nil
	}
	for _, scope := range slices.Sorted(maps.Keys(implies)) {
		if cycle := visit(scope); cycle != nil {
			return cycle
		}
	}
	return nil
}

// maxSkew is more than any two clocks that are set differ.
const maxSkew = 5 * time.Minute

func checkSkew(s *Issuer, p place, r *reader) {
	if !r.has(p) && (s.Skew < 0 || s.Skew > maxSkew) {
		r.report(p, "set the clocks", "%q is more than %v", p.name, maxSkew)
	}
}

// checkHeader requires a header that clients and proxies use for nothing else.
func checkHeader(s *Issuer, p place, r *reader) {
	name := strings.ToLower(s.Header)
	isBad := func(c rune) bool { return c > unicode.MaxASCII || !isNameByte(byte(c)) }
	switch {
	case name == "" || r.has(p):
	case strings.ContainsFunc(name, isBad):
		r.report(p, "such as Cf-Access-Jwt-Assertion", "%q is not the name of a header", p.name)
	case hasOtherUse(name):
		r.report(p, "such as Cf-Access-Jwt-Assertion", "%q has another use", p.name)
	}
}

// hasOtherUse reports whether clients or proxies use a header, in lower case, for something
// else.
func hasOtherUse(name string) bool {
	return strings.HasPrefix(name, "mcp-") || strings.HasPrefix(name, "content-") ||
		slices.Contains([]string{"host", "origin", "accept", "cookie", "connection", "last-event-id", "proxy-authorization"}, name)
}

// keySetProblem returns what is wrong with the form of a set of keys, or "". Private keys are
// refused: they have no use here, and whoever reads the file could sign.
func keySetProblem(raw []byte) string {
	var doc struct {
		Keys []map[string]json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil || len(doc.Keys) == 0 {
		return `it is not a JSON Web Key Set with "keys"`
	}
	for i, k := range doc.Keys {
		if k["d"] != nil || k["k"] != nil {
			return fmt.Sprintf("keys[%d] is private; write the public keys only", i)
		}
	}
	return ""
}
