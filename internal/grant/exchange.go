// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package grant

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// ExchangeConfig is the configuration of an Exchange.
type ExchangeConfig struct {
	Backend string // the configured name of the backend, for errors
	URL     string // of the backend

	// OAuth requests tokens. It has the same issuer.
	OAuth *oauth.Client

	// Issuer is the authorization server, and the only one that the tokens of users are sent to.
	// Tokens that another one has issued are not sent to it.
	Issuer string

	Client     oauth.Registration // of the gateway at Issuer
	Scopes     []string           // to request; nil omits them, whatever the backend names
	Resource   string             // to request (RFC 8707): "" is what the backend publishes; see NoResource
	Audience   string             // to request, or ""
	Parameters map[string]string  // more parameters of token requests

	// SharedLists is whether all users see the same lists: the gateway may fetch them with the
	// token of any user.
	SharedLists bool

	// Logger may be nil.
	Logger *slog.Logger

	// Tried, if not nil, is called after each request for a token, with its error. It must not block.
	Tried func(error)
}

// Exchange is the client.Credentials of one backend with the access of the senders of requests:
// the token that a sender has presented to the gateway is exchanged for one that is for the
// backend (RFC 8693), at the authorization server that has issued it. Tokens are kept in memory
// until shortly before they end, separately for each token that they were exchanged for.
//
// A request whose sender has presented no such token ends with an *Error, as does one with a
// token that the authorization server does not exchange. Requests of the gateway itself, which have no
// sender, are sent without a credential, but see ExchangeConfig.SharedLists.
//
// An Exchange is safe for concurrent use. The caller must close it.
type Exchange struct {
	*tokens
	cfg    ExchangeConfig
	lister atomic.Pointer[mcp.Identity]
}

// NewExchange returns the Credentials of a backend. It sends nothing. The error is about the URL,
// or a client of another authorization server.
func NewExchange(cfg ExchangeConfig) (*Exchange, error) {
	if cfg.Issuer == "" || cfg.Client.Issuer != cfg.Issuer {
		return nil, errors.New("an exchange needs an issuer, and a client there")
	}
	t, err := newTokens(newAttempts(cfg.Backend, cfg.Logger, cfg.Tried), cfg.URL, cfg.OAuth, cfg.Client)
	if err != nil {
		return nil, err
	}
	return &Exchange{tokens: t, cfg: cfg}, nil
}

// PerPrincipal reports true.
func (e *Exchange) PerPrincipal() bool { return true }

// Offer notes a sender. With its token, the gateway may fetch the lists if all users see the
// same. It reports whether there was none with a valid token before.
func (e *Exchange) Offer(id *mcp.Identity) bool {
	if !e.cfg.SharedLists || e.check(id) != nil || hasEnded(id) {
		return false
	}
	before := e.lister.Load()
	if before != nil && !hasEnded(before) {
		return false
	}
	return e.lister.CompareAndSwap(before, id)
}

// Accepts reports whether the token of a sender may be exchanged: it is of the authorization server,
// and has not expired.
func (e *Exchange) Accepts(id *mcp.Identity) bool { return e.check(id) == nil && !hasEnded(id) }

// For returns the token that the one of the sender of a request was exchanged for.
//
// A call goes on when the token of its sender ends: what it sends from then on has the token that
// was obtained before, until that ends, and no other is requested.
func (e *Exchange) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	id := e.sender(req)
	if id == nil && isOwn(req) {
		return client.Credential{}, nil
	}
	if err := e.check(id); err != nil {
		return client.Credential{}, err
	}
	if hasEnded(id) && isOwnMethod(req.Method) {
		return client.Credential{}, e.failure(errSubjectEnded)
	}
	t, err := e.cache.Get(ctx, e.key(id), e.requester(id))
	if err != nil {
		return client.Credential{}, e.failure(err)
	}
	return e.credential(t), nil
}

// Refused exchanges the token of the sender again after a 401. After a 403 for lack of a scope
// it returns an error with the scopes: more than the configuration says is not requested.
func (e *Exchange) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	challenge, isBearer := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
	if isBearer && r.Status == http.StatusUnauthorized {
		e.server.note(challenge)
	}
	id := e.sender(req)
	switch {
	case id == nil && isOwn(req) && r.Status == http.StatusUnauthorized && !e.cfg.SharedLists:
		return &Missing{Backend: e.cfg.Backend, Reason: NeverSignedIn} // the lists are those of users
	case id == nil && isOwn(req) && r.Status == http.StatusUnauthorized:
		return listsError(e.cfg.SharedLists)
	case id == nil && isOwn(req):
		return client.ErrRefused
	case r.Status == http.StatusForbidden:
		return forbidden(e.cfg.Backend, "the exchanged token", challenge)
	}
	if err := e.check(id); err != nil {
		return err
	}
	_, err := e.cache.Renew(ctx, e.key(id), sent.Generation, e.requester(id))
	if errors.Is(err, ErrJustRenewed) {
		e.server.forget() // the metadata may have changed
		text := fmt.Sprintf("it refuses the token that %+.200q has exchanged (HTTP status 401)", e.cfg.Issuer)
		return newError(nil, e.cfg.Backend, text, "audience", "resource", "scopes")
	}
	if err != nil {
		return e.failure(err)
	}
	return nil
}

// listsError returns the error of lists that a backend shows only to users.
func listsError(isShared bool) error {
	if isShared {
		return &Error{"it shows its lists only to users, and no user with a token has called the gateway yet", nil}
	}
	return &Error{"it shows its lists only to users, for each its own", nil}
}

// isOwn reports whether a request is one of the gateway itself.
func isOwn(req *mcp.Request) bool {
	return req.Principal == "" && req.Identity == nil && isOwnMethod(req.Method)
}

// sender returns the identity of the token that a request is sent with, or nil.
func (e *Exchange) sender(req *mcp.Request) *mcp.Identity {
	if !isOwn(req) {
		return req.Identity
	}
	if id := e.lister.Load(); id != nil && !hasEnded(id) {
		return id
	}
	return nil
}

// hasEnded reports whether the token of a sender has expired.
func hasEnded(id *mcp.Identity) bool { return !id.Expires.IsZero() && !time.Now().Before(id.Expires) }

// check returns an error if a sender has not presented a token of the authorization server.
func (e *Exchange) check(id *mcp.Identity) error {
	switch {
	case id == nil || id.Token.IsZero():
		return &Error{fmt.Sprintf("it is called with the access of the user, which needs a token of %+.200q: you have presented none to the gateway", e.cfg.Issuer), nil}
	case id.Issuer != e.cfg.Issuer:
		return &Error{fmt.Sprintf("it is called with the access of the user, which needs a token of %+.200q: yours is of another identity provider", e.cfg.Issuer), nil}
	}
	return nil
}

// Errors of an exchange.
var (
	errSubjectEnded = errors.New("the token of the user has expired")
	errSubject      = errors.New("the authorization server has returned the token of the user itself")
)

// failure returns the error of a request for a token.
func (e *Exchange) failure(err error) error {
	switch {
	case isOver(err):
		return err
	case errors.Is(err, errSubjectEnded):
		return &Error{"your token has expired, and is not exchanged any more: call again with a new one", err}
	case errors.Is(err, errSubject):
		return newError(err, e.cfg.Backend, "its authorization server has exchanged no token, but returned yours, which is not sent to it", "audience", "grant")
	}
	text, keys := reasonOf(err)
	for i, key := range keys {
		if key == "assertion" { // which an exchange has not
			keys[i] = "clientId"
		}
	}
	return newError(err, e.cfg.Backend, text, keys...)
}

// key returns the key of the token of a sender.
func (e *Exchange) key(id *mcp.Identity) Key {
	return Key{
		Backend: e.cfg.Backend, Issuer: e.cfg.Issuer, ClientID: e.cfg.Client.ClientID, Resource: e.cfg.Resource,
		Scopes: strings.Join(e.cfg.Scopes, " "), Principal: id.Principal, Subject: sha256.Sum256([]byte(id.Token.Reveal())),
	}
}

// requester returns the exchange of the token of a sender.
func (e *Exchange) requester(id *mcp.Identity) Requester[*oauth.Tokens] {
	return func(ctx context.Context) (*oauth.Tokens, time.Time, error) {
		if hasEnded(id) {
			return nil, time.Time{}, errSubjectEnded
		}
		a := Attempt{At: time.Now(), Issuer: e.cfg.Issuer}
		t, err := e.request(ctx, id, &a)
		if a.Err = err; err == nil {
			a.Until = t.Expires
		}
		e.addToken(ctx, a)
		return t, a.Until, err
	}
}

func (e *Exchange) request(ctx context.Context, id *mcp.Identity, a *Attempt) (*oauth.Tokens, error) {
	d, err := e.server.get(ctx)
	if err != nil {
		return nil, err
	}
	a.Resource = resourceOf(e.cfg.Resource, d)
	request, err := oauth.Exchange{
		Issuer: e.cfg.Issuer, Subject: id.Token, Audience: e.cfg.Audience, Resource: a.Resource, Scopes: e.cfg.Scopes,
	}.Grant().With(e.cfg.Parameters)
	if err != nil {
		return nil, err
	}
	t, err := e.cfg.OAuth.Token(ctx, d.Server, &e.cfg.Client, request)
	if err != nil {
		return nil, err
	}
	if isSame(t.Access, id.Token) {
		return nil, errSubject
	}
	t.Refresh, t.ID = mcp.Token{}, mcp.Token{} // the token of the user is exchanged again instead
	return t, nil
}
