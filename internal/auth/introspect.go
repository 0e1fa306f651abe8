// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Introspect is how an issuer is asked about tokens (RFC 7662): as a client that is registered
// there, with one of Secret and Key.
type Introspect struct {
	ClientID string
	Secret   mcp.Token
	Key      *oauth.SigningKey
}

// The bounds of what is kept of answers, and of requests.
const (
	keepActive   = time.Minute
	keepInactive = 10 * time.Second

	// maxAsking is how many tokens an issuer is asked about at once.
	maxAsking = 32

	// maxQuestions bounds the tokens that wait for that.
	maxQuestions = 1000

	// maxAskWait is how long a request waits for the answer.
	maxAskWait = 5 * time.Second
)

// errNotAsked reports that an issuer could not be asked about a token.
var errNotAsked = errors.New("the issuer cannot be asked about the token")

// introspector asks one issuer about tokens.
type introspector struct {
	issuer   *issuer
	client   *oauth.Client
	metadata *oauth.Metadata
	reg      *oauth.Registration
	log      *slog.Logger
	slots    chan struct{} // a value for each request that runs

	mu      sync.Mutex
	kept    map[digest]*opinion
	asking  map[digest]*question
	failing bool
}

// opinion is the response of an issuer about a token.
type opinion struct {
	verified *verified // if the token counts
	invalid  error     // else a kind
	until    time.Time // it is kept
}

// question is a token that the issuer is being asked about.
type question struct {
	done    chan struct{} // closed when the fields below are set
	opinion *opinion
	err     error
}

// useIntrospection makes the Chain ask an issuer about tokens that are not signed ones.
func (c *Chain) useIntrospection(iss *issuer, cfg *Introspect, transport http.RoundTripper) error {
	switch {
	case c.introspector != nil:
		return errors.New("another issuer has introspection already")
	case iss.header != "":
		return errors.New("introspection is for tokens in Authorization")
	}
	client, err := oauth.New(oauth.Config{Backend: iss.url, Issuer: iss.url, Transport: transport})
	if err != nil {
		return err
	}
	c.introspector = &introspector{
		issuer: iss, client: client, metadata: oauth.NewMetadata(client, iss.url), log: c.log, slots: make(chan struct{}, maxAsking),
		reg:  &oauth.Registration{Issuer: iss.url, ClientID: cfg.ClientID, Secret: cfg.Secret, Key: cfg.Key},
		kept: make(map[digest]*opinion), asking: make(map[digest]*question),
	}
	return nil
}

// introspect returns the identity of a token that its issuer vouches for.
func (c *Chain) introspect(r *http.Request, chosen *credential) (*mcp.Identity, error) {
	in := c.introspector
	if !isOpaque(chosen.token) {
		return nil, c.refuse(r, in.issuer, malformed, "")
	}
	a, err := in.ask(r.Context(), chosen, c.resource)
	switch {
	case err != nil:
		return nil, c.refuseToken(r, in.issuer, err)
	case a.invalid != nil:
		return nil, c.refuseToken(r, in.issuer, a.invalid)
	}
	return c.accept(r, a.verified)
}

// isOpaque reports whether a text has the form of a bearer token (RFC 6750, section 2.1), so
// that it is worth a request.
func isOpaque(token string) bool {
	token = strings.TrimRight(token, "=")
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/", r)
	})
}

// ask returns the kept answer for a token, or asks the issuer. Requests with one token wait for
// one answer. The error is errNotAsked, or that of ctx; it is not kept.
func (in *introspector) ask(ctx context.Context, chosen *credential, s resource) (*opinion, error) {
	in.mu.Lock()
	if a := in.kept[chosen.sum]; a != nil && time.Now().Before(a.until) {
		in.mu.Unlock()
		return a, nil
	}
	q := in.asking[chosen.sum]
	if q != nil {
		in.mu.Unlock()
		select {
		case <-q.done:
			return q.opinion, q.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	if len(in.asking) >= maxQuestions {
		in.mu.Unlock()
		return nil, errNotAsked
	}
	q = &question{done: make(chan struct{})}
	in.asking[chosen.sum] = q
	in.mu.Unlock()

	// Others may wait for the answer when this client has left.
	q.opinion, q.err = in.request(context.WithoutCancel(ctx), chosen.token, s)
	in.mu.Lock()
	delete(in.asking, chosen.sum)
	if q.err == nil {
		in.keepLocked(&chosen.sum, q.opinion)
	}
	in.mu.Unlock()
	close(q.done)
	return q.opinion, q.err
}

// keepLocked keeps an answer. If there are too many, it drops those that are over, or else one
// of an inactive token, or else any. It looks at a part of them only.
func (in *introspector) keepLocked(sum *digest, a *opinion) {
	const looked = 32
	now := time.Now()
	if len(in.kept) >= maxKept {
		seen, least := 0, *sum
		for other, old := range in.kept { // in random order
			switch {
			case !now.Before(old.until):
				delete(in.kept, other)
			case seen == 0 || old.verified == nil:
				least = other
			}
			if seen++; seen == looked {
				break
			}
		}
		if len(in.kept) >= maxKept {
			delete(in.kept, least)
		}
	}
	in.kept[*sum] = a
}

// request asks the issuer about a token.
func (in *introspector) request(ctx context.Context, token string, s resource) (*opinion, error) {
	ctx, cancel := context.WithTimeout(ctx, maxAskWait)
	defer cancel()
	select {
	case in.slots <- struct{}{}:
		defer func() { <-in.slots }()
	case <-ctx.Done():
		return nil, errNotAsked
	}
	raw, err := in.send(ctx, token)
	var a *opinion
	if err == nil {
		a, err = in.parse(raw, token, s, time.Now())
	}
	in.note(ctx, err)
	if err != nil {
		return nil, errNotAsked
	}
	return a, nil
}

// send returns the response of the issuer about a token.
func (in *introspector) send(ctx context.Context, token string) ([]byte, error) {
	srv, err := in.metadata.Get(ctx)
	if err != nil {
		return nil, err
	}
	return in.client.Introspect(ctx, srv, in.reg, mcp.NewToken(token))
}

// note logs the first failure, and the first answer after failures.
func (in *introspector) note(ctx context.Context, err error) {
	in.mu.Lock()
	before := in.failing
	in.failing = err != nil
	in.mu.Unlock()
	switch {
	case err != nil && !before:
		in.log.WarnContext(ctx, "an identity provider cannot be asked about tokens", slog.String("issuer", in.issuer.name), slog.Any("error", err))
	case err == nil && before:
		in.log.InfoContext(ctx, "an identity provider can be asked about tokens again", slog.String("issuer", in.issuer.name))
	}
}

// parse returns the content of a response about a token (RFC 7662, section 2.2). Its members count as
// the claims of a signed token do. An error means that it says nothing.
func (in *introspector) parse(raw []byte, token string, s resource, now time.Time) (*opinion, error) {
	members, err := decodeClaims(raw)
	if err != nil {
		return nil, errors.New("the response is not a JSON object with each member once")
	}
	active, ok := members["active"].(bool)
	if !ok {
		return nil, errors.New("the response does not have active as a boolean")
	}
	refused := func(why error) (*opinion, error) { return &opinion{invalid: why, until: now.Add(keepInactive)}, nil }
	if !active {
		return refused(notActive)
	}
	if issuer, found := members["iss"]; found && issuer != in.issuer.url {
		return refused(unknownIssuer)
	}
	if !isAccessToken(members) {
		return refused(notVerified)
	}
	v, err := in.issuer.read(&jwt{text: token, claims: members, issuer: in.issuer.url}, s, now)
	if err != nil {
		return refused(err)
	}
	v.identity.Via = mcp.ViaIntrospection
	return &opinion{verified: v, until: earliest(now.Add(keepActive), v.identity.Expires)}, nil
}

// isAccessToken reports whether a response is about an access token that anyone with it may
// use. Issuers answer about refresh tokens and ID tokens, too.
func isAccessToken(members map[string]any) bool {
	for name, good := range map[string][]string{"token_type": {"bearer", "access_token"}, "typ": {"bearer", "jwt", "at+jwt"}} {
		if v, found := members[name]; found {
			text, ok := v.(string)
			if !ok || !slices.Contains(good, strings.ToLower(text)) {
				return false
			}
		}
	}
	return true
}
