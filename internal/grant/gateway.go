// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

// Package grant obtains the access tokens with which the gateway calls a backend.
//
// A [Gateway] is the client.Credentials of one backend that the gateway calls as itself. Before
// the first request it finds the authorization server of the backend, requests a token there with
// the gateway's own credentials, and keeps it in memory until shortly before it ends. After a 401
// it renews the token once, and after a 403 for lack of a scope it requests one with more scopes.
// A [Cache] keeps the tokens.
//
// A [Source] is the client.Credentials of one backend that the gateway calls on behalf of the
// senders of requests. Each of them signs in at the authorization server of the backend once,
// for a grant that is kept in a vault and renewed. A request without one ends with a [Missing],
// and can be sent after the sign-in:
//
//	in, err := source.Prepare(ctx, principal, grant.SignInOptions{RedirectURI: uri, Scopes: missing.Scopes})
//	code, err := in.Check(callback.Query()) // after the browser has been at in.URL
//	err = source.Complete(ctx, in, code)
//
// An [Exchange] is the client.Credentials of one backend that is called on behalf of the senders
// of requests, too, without a sign-in: it exchanges the tokens that they have presented.
//
// An [IDJAG] is the client.Credentials of one backend for which an identity provider vouches: it
// has the ID token of a user exchanged for an assertion, with which the authorization server of the
// backend issues a token.
package grant

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Config is the configuration of a Gateway.
type Config struct {
	Backend string // the configured name of the backend, for errors
	URL     string // of the backend

	// OAuth finds authorization servers and requests tokens.
	OAuth *oauth.Client

	// Client is the gateway's client at the authorization server. If its Issuer is "", it
	// belongs to the first authorization server that the backend names, and is not presented to
	// any other.
	Client oauth.Registration

	// Assertion is the file with the assertion of the gateway's identity (RFC 7523), which is
	// read for each request. If it is "", the grant is that of the client's credentials.
	Assertion string

	Scopes     []string          // to request; nil is those that the backend names
	Resource   string            // to request (RFC 8707): "" is what the backend publishes; see NoResource
	Parameters map[string]string // more parameters of token requests, such as audience

	// Logger may be nil.
	Logger *slog.Logger

	// Tried, if not nil, is called after each request for a token, with its error. It must not block.
	Tried func(error)
}

// Limits of scopes that a backend can make the gateway request.
const (
	maxStepUps     = 2 // in stepUpInterval
	stepUpInterval = 10 * time.Minute
	maxScopes      = 64
)

// Gateway is a client.Credentials with the gateway's own identity. It is the same for all
// principals. The caller must close it.
type Gateway struct {
	*tokens
	cfg Config

	mu      sync.Mutex
	scopes  []string // granted and challenged; nil until a step-up
	stepUps []time.Time
}

// New returns the Credentials of a backend. It sends nothing. The error is about the URL.
func New(cfg Config) (*Gateway, error) {
	t, err := newTokens(newAttempts(cfg.Backend, cfg.Logger, cfg.Tried), cfg.URL, cfg.OAuth, cfg.Client)
	if err != nil {
		return nil, err
	}
	return &Gateway{tokens: t, cfg: cfg}, nil
}

// PerPrincipal reports false.
func (g *Gateway) PerPrincipal() bool { return false }

// For returns the token. A backend with an authorization server that cannot be found without
// its challenge gets a request without one first.
func (g *Gateway) For(ctx context.Context, _ *mcp.Request) (client.Credential, error) {
	t, err := g.get(ctx, g.stepped())
	if err != nil {
		if g.server.needsChallenge(err) {
			return client.Credential{}, nil
		}
		return client.Credential{}, g.failure(err)
	}
	return g.credential(t), nil
}

// Refused renews the token after a 401, and requests one with more scopes after a 403 that names
// them.
func (g *Gateway) Refused(ctx context.Context, _ *mcp.Request, sent client.Credential, r client.Refusal) error {
	challenge, isBearer := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
	if isBearer {
		g.server.note(challenge)
	}
	if r.Status == http.StatusForbidden {
		return g.stepUp(ctx, challenge, sent.Generation)
	}
	scopes := g.stepped()
	_, err := g.cache.Renew(ctx, g.key(scopes), sent.Generation, g.requester(scopes))
	switch {
	case errors.Is(err, ErrJustRenewed):
		g.server.forget() // the metadata may have changed
		return g.refusal("it refuses the token of "+g.issuer()+" (HTTP status 401)", "resource", "audience", "scopes")
	case err != nil:
		return g.failure(err)
	}
	return nil
}

// stepUp requests a token with the scopes of a challenge besides those that the token has. The
// token before is kept if that fails.
func (g *Gateway) stepUp(ctx context.Context, challenge oauth.Bearer, sent uint64) error {
	if challenge.Error != oauth.ErrorInsufficientScope || len(challenge.Scopes) == 0 {
		return client.ErrRefused
	}
	now, err := g.get(ctx, g.stepped())
	if err != nil {
		return g.failure(err)
	}
	scopes := oauth.ScopeSources{Granted: append([]string{}, now.Value.Scopes...), Challenge: challenge.Scopes}.Scopes()
	missing := slices.DeleteFunc(slices.Clone(challenge.Scopes), func(s string) bool { return slices.Contains(now.Value.Scopes, s) })
	switch {
	case now.Generation != sent && len(missing) == 0:
		return nil // another request has stepped up meanwhile
	case len(missing) == 0:
		return g.refusal("the token of "+g.issuer()+" has the scopes that it requires, and it refuses it (HTTP status 403)", "scopes")
	case len(scopes) > maxScopes || !g.mayStepUp():
		return g.lacks(missing)
	}
	t, err := g.get(ctx, scopes)
	if err != nil {
		return g.failure(err)
	}
	if slices.ContainsFunc(missing, func(s string) bool { return !slices.Contains(t.Value.Scopes, s) }) {
		return g.lacks(missing)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.scopes = scopes
	return nil
}

// lacks returns the error of a request that needs scopes that the token has not.
func (g *Gateway) lacks(scopes []string) error {
	return g.refusal("the token of "+g.issuer()+" has not all scopes that it requires, which are "+scopeText(scopes), "scopes")
}

// refusal returns the error of a request that the backend refuses.
func (g *Gateway) refusal(text string, keys ...string) error {
	return newError(nil, g.cfg.Backend, text, keys...)
}

// issuer describes the authorization server.
func (g *Gateway) issuer() string {
	if last := g.Last().Issuer; last != "" {
		return fmt.Sprintf("%+.200q", last)
	}
	return "its authorization server"
}

// failure returns the error of a request for a token.
func (g *Gateway) failure(err error) error {
	if isOver(err) {
		return err
	}
	text, keys := reasonOf(err)
	return newError(err, g.cfg.Backend, text, keys...)
}

// mayStepUp reports whether another step-up may be attempted now, and counts it.
func (g *Gateway) mayStepUp() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	g.stepUps = slices.DeleteFunc(g.stepUps, func(at time.Time) bool { return now.Sub(at) >= stepUpInterval })
	if len(g.stepUps) >= maxStepUps {
		return false
	}
	g.stepUps = append(g.stepUps, now)
	return true
}

func (g *Gateway) stepped() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.scopes
}

func (g *Gateway) get(ctx context.Context, scopes []string) (Kept[*oauth.Tokens], error) {
	return g.cache.Get(ctx, g.key(scopes), g.requester(scopes))
}

// key returns the key of a token with scopes. All other parts of it are the same for the
// Gateway, or follow from what the backend publishes.
func (g *Gateway) key(scopes []string) Key {
	return Key{Backend: g.cfg.Backend, ClientID: g.cfg.Client.ClientID, Scopes: strings.Join(scopes, " ")}
}

// requester returns the request for a token with scopes; nil is those that are configured or
// that the backend names.
func (g *Gateway) requester(scopes []string) Requester[*oauth.Tokens] {
	return func(ctx context.Context) (*oauth.Tokens, time.Time, error) {
		a := Attempt{At: time.Now()}
		t, err := g.request(ctx, scopes, &a)
		if a.Err = err; err == nil {
			a.Scopes, a.Until = t.Scopes, t.Expires
		}
		if g.server.needsChallenge(err) {
			g.keep(a)
		} else {
			g.addToken(ctx, a)
		}
		return t, a.Until, err
	}
}

func (g *Gateway) request(ctx context.Context, scopes []string, a *Attempt) (*oauth.Tokens, error) {
	d, err := g.server.get(ctx)
	if err != nil {
		return nil, err
	}
	a.Issuer = d.Server.Issuer
	registration, err := g.server.registration(ctx, d.Server)
	if err != nil {
		return nil, err
	}
	a.Resource = resourceOf(g.cfg.Resource, d)
	if scopes == nil {
		scopes = oauth.ScopeSources{Configured: g.cfg.Scopes, Challenge: g.server.challenged(), Resource: d.Scopes, Server: d.Server}.Scopes()
	}
	request := oauth.ClientCredentials(d.Server.Issuer, a.Resource, scopes)
	if g.cfg.Assertion != "" {
		assertion, err := readToken(g.cfg.Assertion, "the assertion")
		if err != nil {
			return nil, err
		}
		request = oauth.JWTBearer(d.Server.Issuer, assertion, a.Resource, scopes)
	}
	if request, err = request.With(g.cfg.Parameters); err != nil {
		return nil, err
	}
	return g.cfg.OAuth.Token(ctx, d.Server, registration, request)
}

// maxAssertion bounds the size of an assertion, and of an ID token, in a file.
const maxAssertion = 64 << 10

// errAssertion is the error of an assertion or an ID token that cannot be read.
type errAssertion struct{ text string }

func (e *errAssertion) Error() string { return e.text }

// readToken returns the token in a file. what names it in errors.
func readToken(path, what string) (mcp.Token, error) {
	refuse := func(format string, args ...any) error { return &errAssertion{what + fmt.Sprintf(format, args...)} }
	// Checked before it is opened: opening a pipe may block.
	info, err := os.Stat(path)
	if err != nil {
		return mcp.Token{}, refuse(" cannot be read: %v", err)
	}
	if !info.Mode().IsRegular() {
		return mcp.Token{}, refuse(" %s is not a regular file (mode %v)", path, info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return mcp.Token{}, refuse(" cannot be read: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxAssertion+1))
	switch text = bytes.TrimSpace(text); {
	case err != nil:
		return mcp.Token{}, refuse(" cannot be read: %v", err)
	case len(text) > maxAssertion:
		return mcp.Token{}, refuse(" %s is larger than 64 KiB", path)
	case len(text) == 0:
		return mcp.Token{}, refuse(" %s is empty", path)
	}
	return mcp.NewToken(string(text)), nil
}
