// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package auth identifies the senders of HTTP requests by their credentials: bearer tokens of
// the configuration, tokens of identity providers, for which the gateway is an OAuth protected
// resource (MCP specification 2026-07-28, Authorization; RFC 6750; RFC 9728), client
// certificates, and headers of a trusted proxy.
//
// A request is identified in two steps. The first chooses the one credential that counts, by
// its place and form alone; the second verifies it. A credential that fails is refused: no
// other one is tried, and the sender does not become anonymous.
//
// For signed tokens (JWT), an identity provider is contacted for its metadata and keys only.
// For all others it is asked about the token (RFC 7662). What is kept of it has bounds of its
// own, so that an outage of one affects only the senders of its tokens.
package auth

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/principal"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// Config configures a [Chain]. New keeps its slices, which must not be changed afterwards.
type Config struct {
	// Tokens are the bearer tokens that are known by their text.
	Tokens []Token

	// Issuers are the identity providers of signed tokens. With at least one, the Chain has
	// metadata, and its challenges name them.
	Issuers []Issuer

	// PublicURL is the scheme and host at which clients reach the endpoint, without a slash
	// at the end, and Path the path of the endpoint. Together they are the resource that
	// tokens are for. They are required with Issuers.
	PublicURL, Path string

	// Name is the name of the resource in the metadata. It may be empty.
	Name string

	// Certificates derives the name of a sender from its verified client certificate, with
	// the members subject, dns, uris and fingerprint. If nil, certificates are ignored.
	Certificates *principal.Expression

	// Proxy is a proxy that identifies senders by headers, or nil.
	Proxy *Proxy

	// ForeignProxy is called for a request with a header of the Proxy that is not from it,
	// with the name of the header, after the header was removed. It may be nil, and must not
	// block.
	ForeignProxy func(r *http.Request, header string)

	// Transport carries the requests to issuers. If nil, the Chain uses one of its own. It
	// must not follow redirects.
	Transport http.RoundTripper

	// Logger may be nil. No token and no part of one is logged.
	Logger *slog.Logger
}

// An Issuer is an identity provider with signed access tokens.
type Issuer struct {
	// Name is the prefix of the principals, before a colon.
	Name string
	// URL is the identifier of the issuer, which is byte for byte the iss of its tokens.
	URL string
	// Audiences are the accepted audiences, instead of the resource itself.
	Audiences []string
	// Algorithms are the accepted signature algorithms, as in RFC 7518. Nil means
	// [DefaultAlgorithms].
	Algorithms []string
	// Principal derives the name of a sender from the claims of its token.
	Principal *principal.Expression
	// Scopes are what a token needs for any request.
	Scopes []string
	// Implies lists, for a scope, those that it includes.
	Implies map[string][]string
	// Skew is the difference of clocks that is tolerated.
	Skew time.Duration
	// Header is the header with the token. "" is Authorization; any other contains the
	// token alone.
	Header string
	// KeySet is a JSON Web Key Set (RFC 7517) with the keys of the issuer. If nil, they are
	// fetched, and fetched again: from KeysURL, or if that is "", from where the metadata of
	// the issuer say.
	KeySet  []byte
	KeysURL string
	// Introspect is how the issuer is asked about tokens that are not signed ones, or nil.
	// At most one issuer has it, and that with the Header Authorization.
	Introspect *Introspect
}

// A Chain identifies senders. Its methods may be called concurrently.
type Chain struct {
	tokens  staticTokens
	issuers []*issuer
	headers []string // besides Authorization, in which issuers have signed tokens

	introspector *introspector         // or nil
	certificates *principal.Expression // or nil
	proxy        *proxy                // or nil

	resource resource
	name     string
	servers  []string // the issuers of tokens in Authorization, from which clients get them
	scopes   []string // of all of these
	verified cache
	counts   counts
	log      *slog.Logger
}

// New returns a Chain. The error explains what is wrong with an issuer, and is an
// [*IssuerError].
func New(cfg Config) (*Chain, error) {
	c := &Chain{
		tokens:   newStaticTokens(cfg.Tokens),
		resource: resource{cfg.PublicURL, cfg.Path},
		name:     cfg.Name,
		log:      cfg.Logger,
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.certificates = cfg.Certificates
	if cfg.Proxy != nil {
		c.proxy = newProxy(cfg.Proxy, cfg.ForeignProxy)
	}
	for i := range cfg.Issuers {
		iss, err := newIssuer(&cfg.Issuers[i], cfg.Transport, c.log)
		if err == nil && cfg.Issuers[i].Introspect != nil {
			err = c.useIntrospection(iss, cfg.Issuers[i].Introspect, cfg.Transport)
		}
		if err != nil {
			return nil, &IssuerError{Index: i, Err: err}
		}
		c.issuers = append(c.issuers, iss)
		if iss.header != "" { // a proxy has signed the user in
			if !slices.Contains(c.headers, iss.header) {
				c.headers = append(c.headers, iss.header)
			}
			continue
		}
		c.servers = append(c.servers, iss.url)
		for _, scope := range iss.scopes {
			if !slices.Contains(c.scopes, scope) {
				c.scopes = append(c.scopes, scope)
			}
		}
	}
	return c, nil
}

// An IssuerError reports an issuer that cannot be used as configured.
type IssuerError struct {
	Index int // in Config.Issuers
	Err   error
}

// Error returns the text of Err.
func (e *IssuerError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *IssuerError) Unwrap() error { return e.Err }

// maxToken bounds the length of a token; real ones are much shorter.
const maxToken = 16 << 10

// Authenticate returns the identity of the sender of a request. The error is a
// [*server.Denial], and never quotes a credential. If the credential is not for the profile
// of the request, its status is 404. Its duration does not depend on how much of a
// configured token is correct.
//
// It removes the headers of the proxy from a request that is not from the proxy.
func (c *Chain) Authenticate(r *http.Request) (*mcp.Identity, error) {
	if c.proxy != nil {
		c.proxy.dropForeign(r)
	}
	chosen, err := c.choose(r)
	var id *mcp.Identity
	if err == nil {
		id, err = c.verify(r, &chosen)
	}
	c.counts.add(chosen.via, err)
	return id, err
}

// credential is the credential of a request that counts.
type credential struct {
	via    mcp.Via
	token  string
	header string // that the token was in; "" is Authorization
	sum    digest // of the token
	static *staticToken
}

// choose returns the credential of a request by its place and form. It verifies nothing but
// whether a bearer token is one of the configuration.
func (c *Chain) choose(r *http.Request) (credential, error) {
	if values := r.Header["Authorization"]; len(values) > 0 {
		// With two headers, an intermediary may have checked the other one.
		scheme, token, _ := strings.Cut(values[0], " ")
		if len(values) > 1 || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
			return credential{}, c.refuse(r, nil, malformed, "the Authorization header is not a single bearer token")
		}
		return c.bearer(token), nil
	}
	signed := credential{}
	for _, name := range c.headers {
		switch values := r.Header[name]; {
		case len(values) == 0:
		case len(values) > 1 || signed.header != "":
			return credential{}, c.refuse(r, nil, malformed, "there is more than one signed header")
		case values[0] == "" || len(values[0]) > maxToken:
			return credential{}, c.refuse(r, nil, malformed, "the header "+name+" is not a token")
		default:
			signed = credential{via: mcp.ViaJWT, token: values[0], header: name, sum: sha256.Sum256([]byte(values[0]))}
		}
	}
	switch {
	case signed.header != "":
		return signed, nil
	case c.certificates != nil && r.TLS != nil && len(r.TLS.VerifiedChains) > 0:
		return credential{via: mcp.ViaCertificate}, nil
	case c.proxy != nil && c.proxy.isIn(r.Header):
		return credential{via: mcp.ViaProxy}, nil
	}
	return credential{}, &server.Denial{Challenge: c.Challenge(r), Message: c.missing()}
}

// missing returns the message for a request without a credential.
func (c *Chain) missing() string {
	switch {
	case len(c.tokens) > 0 || len(c.issuers) > 0:
		return "missing bearer token: send the header Authorization: Bearer TOKEN"
	case c.certificates != nil:
		return "missing client certificate"
	default:
		return "the request does not come from the proxy that identifies its sender"
	}
}

// bearer returns the credential with a token of the Authorization header.
func (c *Chain) bearer(token string) credential {
	chosen := credential{via: mcp.ViaToken, token: token, sum: sha256.Sum256([]byte(token))}
	chosen.static = c.tokens.find(&chosen.sum)
	switch {
	case chosen.static != nil || len(c.issuers) == 0:
	case isCompact(token) && (c.introspector == nil || hasHeader(token)):
		chosen.via = mcp.ViaJWT
	case c.introspector != nil:
		chosen.via = mcp.ViaIntrospection
	}
	return chosen
}

// verify returns the identity that a credential proves.
func (c *Chain) verify(r *http.Request, chosen *credential) (*mcp.Identity, error) {
	switch chosen.via {
	case mcp.ViaJWT:
		return c.verifyJWT(r, chosen)
	case mcp.ViaIntrospection:
		return c.introspect(r, chosen)
	case mcp.ViaCertificate:
		return c.verifyCertificate(r)
	case mcp.ViaProxy:
		return c.verifyProxy(r)
	default:
		return c.verifyStatic(r, chosen)
	}
}

// verifyStatic returns the identity of a token of the configuration.
func (c *Chain) verifyStatic(r *http.Request, chosen *credential) (*mcp.Identity, error) {
	profile := server.ProfileOf(r.Context())
	switch found := chosen.static; {
	case found == nil:
		return nil, c.refuse(r, nil, notVerified, "unknown bearer token")
	case !found.isFor(profile):
		return found.identity, &server.Denial{Status: http.StatusNotFound, Message: cmp.Or(profile, "everything")}
	default:
		return found.identity, nil
	}
}

// verifyJWT returns the identity that a signed token proves, from the cache if it was
// verified lately.
func (c *Chain) verifyJWT(r *http.Request, chosen *credential) (*mcp.Identity, error) {
	now := time.Now()
	v := c.verified.get(&chosen.sum, now)
	if v == nil || v.issuer.header != chosen.header {
		t, iss, err := c.parse(chosen)
		if err == nil {
			v, err = iss.verify(r.Context(), t, c.resource, now)
		}
		if err != nil {
			return nil, c.refuseToken(r, iss, err)
		}
		c.verified.put(&chosen.sum, v, now)
	}
	return c.accept(r, v)
}

// accept returns the identity of a token that was verified, if it is for the request.
func (c *Chain) accept(r *http.Request, v *verified) (*mcp.Identity, error) {
	switch {
	case !v.isFor(c.resource, r):
		return nil, c.refuse(r, v.issuer, otherAudience, "")
	case v.lacksScope:
		return nil, &server.Denial{
			Status:    http.StatusForbidden,
			Challenge: c.scopeChallenge(c.resource.of(r), v.issuer.scopes, needsText(v.issuer.scopes)),
			Message:   needsText(v.issuer.scopes),
		}
	default:
		return v.identity, nil
	}
}

// parse decodes a token and returns the issuer that it names, of those with the header that it
// was in.
func (c *Chain) parse(chosen *credential) (*jwt, *issuer, error) {
	t, err := parseJWT(chosen.token)
	if err != nil {
		return nil, nil, err
	}
	for _, iss := range c.issuers {
		if iss.url == t.issuer && iss.header == chosen.header {
			return t, iss, nil
		}
	}
	return nil, nil, unknownIssuer
}

// needsText is the description of a challenge for scopes that every request needs.
func needsText(scopes []string) string {
	return "requests need the scope " + strings.Join(scopes, " ")
}

// retryAfter is how long a client should wait for an issuer that cannot be reached.
const retryAfter = 5 * time.Second

// refuseToken returns the denial for the error of a token.
func (c *Chain) refuseToken(r *http.Request, iss *issuer, err error) error {
	unknown := ""
	switch {
	case errors.Is(err, errUnavailable):
		unknown = "its keys are not known"
	case errors.Is(err, errNotAsked):
		unknown = "it is not known whether the token is active"
	}
	if unknown != "" {
		return &server.Denial{
			Status: http.StatusServiceUnavailable, RetryAfter: retryAfter,
			Message: fmt.Sprintf("the identity provider %s cannot be reached and %s", iss.name, unknown),
		}
	}
	why, ok := errors.AsType[kind](err)
	if !ok { // the client has left
		why = notVerified
	}
	return c.refuse(r, iss, why, "")
}

// refuse returns the denial of a credential. iss is the issuer of the token, or nil if that is
// not known. Without issuers, the challenge has no parameters besides the error. The message
// defaults to the kind.
func (c *Chain) refuse(r *http.Request, iss *issuer, why kind, message string) error {
	scopes := c.scopes
	if iss != nil {
		scopes = iss.scopes
	}
	return &server.Denial{Challenge: c.invalidChallenge(c.resource.of(r), scopes, why), Message: cmp.Or(message, why.Error())}
}

// canonical returns the canonical form of the name of a header, or "" for Authorization.
func canonical(header string) string {
	name := textproto.CanonicalMIMEHeaderKey(header)
	if name == "Authorization" {
		return ""
	}
	return name
}
