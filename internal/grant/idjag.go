// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// IDJAGConfig is the configuration of an IDJAG.
type IDJAGConfig struct {
	Backend string // the configured name of the backend, for errors
	URL     string // of the backend

	// Issuer is the identity provider, and the only server that ID tokens are sent to. Those that
	// another one has issued are not sent. ProviderOAuth requests assertions there, and has the
	// same issuer. ProviderClient is the gateway's client there.
	Issuer         string
	ProviderOAuth  *oauth.Client
	ProviderClient oauth.Registration

	// OAuth finds the authorization server of the backend and requests tokens there. Client is
	// the gateway's client there. If its Issuer is "", it belongs to the first authorization server
	// that the backend names, and is not presented to any other.
	OAuth  *oauth.Client
	Client oauth.Registration

	Scopes     []string          // to request; nil omits them, whatever the backend names
	Resource   string            // to request (RFC 8707): "" is what the backend publishes
	Parameters map[string]string // more parameters of requests to the identity provider

	// IDTokens are those of the senders of requests. nil has none.
	IDTokens IDTokens

	// File, if not "", is a file with the ID token of the one user as which the backend is called
	// for all senders. It is read again when it is used, once a second at most.
	File string

	// SharedLists is whether all users see the same lists: the gateway may fetch them with the
	// access of any user. Listed, if not nil, is called when it has that of one. It must not block.
	SharedLists bool
	Listed      func()

	// Logger may be nil.
	Logger *slog.Logger

	// Tried, if not nil, is called after each request for a token, with its error. It must not block.
	Tried func(error)
}

// IDJAG is the client.Credentials of one backend with access that an identity provider vouches
// for (MCP extension enterprise-managed authorization): the ID token of a user is exchanged there
// for an assertion, the ID-JAG, for the authorization server of the backend, which issues a token
// for that. Tokens are kept in memory until shortly before they end, separately for each ID token.
// An assertion is sent to the authorization server that it is for, once, and not kept.
//
// A request of a user without an ID token ends with a *Missing, and one that the identity provider
// or the authorization server refuses with an *Error. Requests of the gateway itself, which have no
// sender, are sent without a credential, but see IDJAGConfig.File and IDJAGConfig.SharedLists.
//
// An IDJAG is safe for concurrent use. The caller must close it.
type IDJAG struct {
	*tokens
	cfg    IDJAGConfig
	lister atomic.Pointer[string] // the principal of shared lists, or nil

	provider *oauth.Metadata // of the identity provider
}

// NewIDJAG returns the Credentials of a backend. It sends nothing. The error is about the URL,
// or a client of another identity provider.
func NewIDJAG(cfg IDJAGConfig) (*IDJAG, error) {
	if cfg.Issuer == "" || cfg.ProviderClient.Issuer != cfg.Issuer {
		return nil, errors.New("the grant of an assertion needs an identity provider, and a client there")
	}
	if cfg.Client.ClientID == "" {
		return nil, errors.New("the grant of an assertion needs a client at the authorization server")
	}
	if cfg.File != "" {
		cfg.IDTokens = &idTokenFile{path: cfg.File}
	}
	t, err := newTokens(newAttempts(cfg.Backend, cfg.Logger, cfg.Tried), cfg.URL, cfg.OAuth, cfg.Client)
	if err != nil {
		return nil, err
	}
	return &IDJAG{tokens: t, cfg: cfg, provider: oauth.NewMetadata(cfg.ProviderOAuth, cfg.Issuer)}, nil
}

// PerPrincipal reports whether the access of each sender is another.
func (j *IDJAG) PerPrincipal() bool { return !j.isSingle() }

// isSingle reports whether the backend is called as one user for all senders.
func (j *IDJAG) isSingle() bool { return j.cfg.File != "" }

// For returns the token that the identity provider has vouched for.
func (j *IDJAG) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	principal, isUser := j.sender(req)
	if !isUser {
		return client.Credential{}, nil
	}
	t, err := j.token(ctx, principal)
	switch {
	case err == nil:
		j.noteLister(req)
		return j.credential(t), nil
	case isOwn(req) && !j.isSingle() && j.isSignedOut(err):
		j.lister.Store(nil)
		return client.Credential{}, nil
	}
	return client.Credential{}, j.failure(principal, err)
}

func (j *IDJAG) token(ctx context.Context, principal string) (Kept[*oauth.Tokens], error) {
	subject, err := j.subject(ctx, principal)
	if err != nil {
		return Kept[*oauth.Tokens]{}, err
	}
	return j.cache.Get(ctx, j.key(principal, subject), j.requester(subject))
}

// Refused requests the token again after a 401. After a 403 for lack of a scope it returns an error
// with the scopes: none beyond those of the configuration are requested.
func (j *IDJAG) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	challenge, isBearer := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
	if isBearer && r.Status == http.StatusUnauthorized {
		j.server.note(challenge)
	}
	principal, isUser := j.sender(req)
	switch {
	case !isUser && r.Status == http.StatusUnauthorized:
		return listsError(j.cfg.SharedLists)
	case !isUser:
		return client.ErrRefused
	case r.Status == http.StatusForbidden:
		return forbidden(j.cfg.Backend, "the token", challenge)
	}
	subject, err := j.subject(ctx, principal)
	if err != nil {
		return j.failure(principal, err)
	}
	_, err = j.cache.Renew(ctx, j.key(principal, subject), sent.Generation, j.requester(subject))
	if errors.Is(err, ErrJustRenewed) {
		j.server.forget() // the metadata may have changed
		return newError(nil, j.cfg.Backend, "it refuses the token of its authorization server (HTTP status 401)", "resource", "scopes")
	}
	if err != nil {
		return j.failure(principal, err)
	}
	return nil
}

// sender returns the principal as which a request is sent. isUser is false for requests of the
// gateway itself, which are sent as none.
func (j *IDJAG) sender(req *mcp.Request) (principal string, isUser bool) {
	switch {
	case j.isSingle():
		return "", true
	case !isOwn(req):
		return req.Principal, true
	}
	if lister := j.lister.Load(); lister != nil {
		return *lister, true
	}
	return "", false
}

// noteLister has lists that are the same for all users fetched as the sender of a request.
func (j *IDJAG) noteLister(req *mcp.Request) {
	if !j.cfg.SharedLists || j.isSingle() || req.Principal == "" || j.lister.Load() != nil {
		return
	}
	principal := req.Principal // without the rest of the request
	if j.lister.CompareAndSwap(nil, &principal) && j.cfg.Listed != nil {
		j.cfg.Listed()
	}
}

// subject returns the ID token of a principal.
func (j *IDJAG) subject(ctx context.Context, principal string) (mcp.Token, error) {
	if j.cfg.IDTokens == nil || principal == "" && !j.isSingle() {
		return mcp.Token{}, ErrNoIDToken
	}
	return j.cfg.IDTokens.IDToken(ctx, principal)
}

// key returns the key of the token of a principal.
func (j *IDJAG) key(principal string, subject mcp.Token) Key {
	return Key{
		Backend: j.cfg.Backend, Issuer: j.cfg.Issuer, ClientID: j.cfg.Client.ClientID, Resource: j.cfg.Resource,
		Scopes: strings.Join(j.cfg.Scopes, " "), Principal: principal, Subject: sha256.Sum256([]byte(subject.Reveal())),
	}
}

// requester returns the requests of a token for an ID token.
func (j *IDJAG) requester(subject mcp.Token) Requester[*oauth.Tokens] {
	return func(ctx context.Context) (*oauth.Tokens, time.Time, error) {
		a := Attempt{At: time.Now()}
		t, err := j.request(ctx, subject, &a)
		if a.Err = err; err == nil {
			a.Until = t.Expires
			if j.isSingle() {
				a.Scopes = t.Scopes
			}
		}
		j.addToken(ctx, a)
		return t, a.Until, err
	}
}

// request requests an assertion for an ID token, and then a token for that.
func (j *IDJAG) request(ctx context.Context, subject mcp.Token, a *Attempt) (*oauth.Tokens, error) {
	if err := oauth.CheckIDToken(subject, j.cfg.Issuer, a.At); err != nil {
		return nil, oauth.Scrubbed(err, subject)
	}
	d, err := j.server.get(ctx)
	if err != nil {
		return nil, err
	}
	a.Issuer, a.Resource = d.Server.Issuer, resourceOf(j.cfg.Resource, d)
	reg, err := j.server.registration(ctx, d.Server)
	if err != nil {
		return nil, err
	}
	assertion, err := j.assertion(ctx, subject, d.Server, a.Resource, reg)
	if err != nil {
		return nil, &providerError{oauth.Scrubbed(err, subject, assertion)}
	}
	// Its scopes are those of the assertion, which may be fewer than were requested.
	t, err := j.cfg.OAuth.Token(ctx, d.Server, reg, oauth.JWTBearer(d.Server.Issuer, assertion, a.Resource, nil))
	switch {
	case err != nil:
		return nil, oauth.Scrubbed(err, subject, assertion)
	case isSame(t.Access, subject) || isSame(t.Access, assertion):
		return nil, errAssertionReturned
	}
	t.Refresh, t.ID = mcp.Token{}, mcp.Token{} // the identity provider is asked again instead
	return t, nil
}

// assertion requests the assertion for an ID token. Errors are those of the identity provider.
func (j *IDJAG) assertion(ctx context.Context, subject mcp.Token, s *oauth.Server, resource string, reg *oauth.Registration) (mcp.Token, error) {
	provider, err := j.provider.Get(ctx)
	if err != nil {
		return mcp.Token{}, err
	}
	request, err := oauth.Exchange{
		Issuer: j.cfg.Issuer, Subject: subject, Audience: s.Issuer, Resource: resource, Scopes: j.cfg.Scopes,
	}.IDJAG().With(j.cfg.Parameters)
	if err != nil {
		return mcp.Token{}, err
	}
	t, err := j.cfg.ProviderOAuth.Token(ctx, provider, &j.cfg.ProviderClient, request)
	if err != nil {
		return mcp.Token{}, err
	}
	if err := oauth.CheckIDJAG(t.Access, s, resource, reg.ClientID); err != nil {
		return t.Access, err
	}
	return t.Access, oauth.CheckIDJAGLife(t.Access, j.cfg.Issuer, time.Now())
}

// providerError is an error of the identity provider.
type providerError struct{ err error }

func (e *providerError) Error() string { return "the identity provider: " + e.err.Error() }

func (e *providerError) Unwrap() error { return e.err }

// errAssertionReturned is the error of an authorization server that returns what it was sent.
var errAssertionReturned = errors.New("the authorization server has returned the assertion or the ID token itself")

func isSame(a, b mcp.Token) bool {
	return subtle.ConstantTimeCompare([]byte(a.Reveal()), []byte(b.Reveal())) == 1
}

// isSignedOut reports whether there is no ID token, or one that has expired.
func (j *IDJAG) isSignedOut(err error) bool {
	check, ok := errors.AsType[*oauth.CheckError](err)
	return errors.Is(err, ErrNoIDToken) || ok && check.Check == oauth.CheckIDTokenClaim && check.At == "exp"
}

// failure returns the error of a request for the token of a principal.
func (j *IDJAG) failure(principal string, err error) error {
	if isOver(err) {
		return err
	}
	if j.isSignedOut(err) && !j.isSingle() {
		return &Missing{Backend: j.cfg.Backend, Principal: principal, Reason: NoIDToken, Err: err}
	}
	text, keys := j.reasonOf(err)
	return newError(err, j.cfg.Backend, text, keys...)
}

// reasonOf describes why there is no token, and returns the keys that can cause it.
func (j *IDJAG) reasonOf(err error) (text string, keys []string) {
	provider, isProvider := errors.AsType[*providerError](err)
	check, isCheck := errors.AsType[*oauth.CheckError](err)
	_, isFile := errors.AsType[*errAssertion](err)
	switch {
	case isFile:
		return "the ID token cannot be read", []string{"idToken"}
	case isCheck && check.Check == oauth.CheckIDTokenClaim && check.At == "exp":
		return "the ID token has expired", []string{"idToken"}
	case isCheck && check.Check == oauth.CheckIDTokenClaim && j.isSingle():
		return fmt.Sprintf("the ID token is not one of %+.200q", j.cfg.Issuer), []string{"idToken", "issuer"}
	case isCheck && check.Check == oauth.CheckIDTokenClaim:
		return fmt.Sprintf("your ID token is not one of %+.200q", j.cfg.Issuer), []string{"issuer"}
	case errors.Is(err, errAssertionReturned):
		return "its authorization server has issued no token, but returned what it was sent", []string{"authorizationServer.issuer"}
	case isProvider:
		return j.providerReason(provider.err)
	}
	text, keys = reasonOf(err)
	for i, key := range keys {
		switch key {
		case "issuer", "clientId", "clientSecret", "clientKey":
			keys[i] = "authorizationServer." + key
		case "assertion": // invalid_grant
			keys[i] = "authorizationServer.clientId"
		}
	}
	return text, keys
}

// providerReason is reasonOf for an error of the identity provider.
func (j *IDJAG) providerReason(err error) (text string, keys []string) {
	refused, isRefused := errors.AsType[*oauth.ServerError](err)
	check, isCheck := errors.AsType[*oauth.CheckError](err)
	switch {
	case oauth.IsTemporary(err):
		return "the identity provider cannot be reached, and is asked again within a minute", nil
	case isRefused && refused.Code == "":
		return fmt.Sprintf("the identity provider does not vouch for the user (HTTP status %d)", refused.Status), []string{"issuer", "clientId"}
	case isRefused:
		return fmt.Sprintf("the identity provider does not vouch for the user (%s)", refused.Code), j.providerKeys(refused.Code)
	case isCheck && check.Check == oauth.CheckAuthMethod:
		return "the identity provider accepts no credential of the client", []string{"clientSecret", "clientKey"}
	case isCheck && check.Check == oauth.CheckIDJAGClaim:
		return fmt.Sprintf("the assertion of the identity provider is not for it (%s)", check.At), claimKeys(check.At)
	case isCheck:
		return fmt.Sprintf("what the identity provider has published is not acceptable (%s)", check.Check), []string{"issuer"}
	default:
		return "the identity provider has given no assertion", nil
	}
}

// providerKeys returns the keys that can cause an error of the identity provider.
func (j *IDJAG) providerKeys(code string) []string {
	switch code {
	case oauth.CodeInvalidTarget:
		return []string{"resource", "authorizationServer.issuer"}
	case oauth.CodeInvalidGrant:
		if j.isSingle() {
			return []string{"idToken", "clientId"}
		}
		return []string{"clientId"}
	}
	return keysOf(code)
}

// claimKeys returns the keys that can cause a claim of an assertion.
func claimKeys(claim string) []string {
	switch claim {
	case "aud":
		return []string{"authorizationServer.issuer"}
	case "client_id":
		return []string{"authorizationServer.clientId"}
	case "resource":
		return []string{"resource"}
	}
	return []string{"issuer"}
}

// idTokenFile is the ID token in a file.
type idTokenFile struct {
	path string

	mu    sync.Mutex
	read  time.Time
	token mcp.Token
	err   error
}

// IDToken returns the token, which is the same for all principals.
func (f *idTokenFile) IDToken(context.Context, string) (mcp.Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); f.read.IsZero() || now.Sub(f.read) >= lookInterval || now.Before(f.read) {
		f.token, f.err = readToken(f.path, "the ID token")
		f.read = now
	}
	return f.token, f.err
}
