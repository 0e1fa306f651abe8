// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/client"
	"github.com/signalbox-mcp/signalbox/config"
	"github.com/signalbox-mcp/signalbox/internal/access"
	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/catalog"
	"github.com/signalbox-mcp/signalbox/internal/code"
	"github.com/signalbox-mcp/signalbox/internal/grant"
	"github.com/signalbox-mcp/signalbox/internal/oauth"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// signIns are the sign-ins of users at the authorization servers of backends.
type signIns struct {
	desk *signin.Desk

	once  sync.Once // opens the vault when a backend first needs it
	vault *vault.Vault
	err   error
}

// newDesk returns what serves the pages of sign-ins.
func (g *Gateway) newDesk(cfg *config.Config) (*signin.Desk, error) {
	c := signin.Config{
		PublicURL: cfg.PublicURL, Name: cfg.Name, Keys: stateKeys(cfg), Event: g.noteSignIn,
		Count: func(n int) { g.metrics.PendingSignIns().Set(float64(n)) }, Logger: g.log,
	}
	switch {
	case cfg.PublicURL != "":
		c.Open = func() (string, func(), error) { return cfg.PublicURL, func() {}, nil }
	case g.opt.SignInPages != nil:
		c.Open = g.opt.SignInPages
	}
	if g.auth != nil {
		c.Identify = func(r *http.Request, token mcp.Token) (string, bool) {
			own := r.Clone(r.Context())
			own.URL.Path, own.URL.RawQuery = cfg.Path, ""
			own.Header = http.Header{"Authorization": {"Bearer " + token.Reveal()}}
			id, err := g.auth.Authenticate(own)
			if err != nil || id == nil {
				return "", false
			}
			return id.Principal, true
		}
	}
	return signin.New(c)
}

// IsSignIn reports whether [Gateway.ServeSignIn] serves a path.
func (g *Gateway) IsSignIn(path string) bool { return signin.IsPage(path) }

// ServeSignIn serves the pages with which users sign in at the authorization servers of backends:
// those at /signin/, /oauth/callback and /oauth/client.json. The Host is checked as for all
// requests, and nothing of the request determines a URL.
func (g *Gateway) ServeSignIn(w http.ResponseWriter, r *http.Request) {
	if !g.IsSignIn(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	g.server.GuardHost(g.signIns.desk).ServeHTTP(w, r)
}

// noteSignIn records a step of a sign-in. After one that is done, the backend is asked for its
// lists.
func (g *Gateway) noteSignIn(ctx context.Context, e signin.Event) {
	detail := e.Backend
	if e.Detail != "" {
		detail += ": " + e.Detail
	}
	g.noteIdentityEvent(ctx, &identityEvent{
		kind: server.EventKind(e.Kind), identity: &mcp.Identity{Principal: e.Principal}, remote: e.Remote, detail: detail,
	})
	if e.Kind != signin.Done {
		return
	}
	b, ok := g.view.Load().backend(e.Backend)
	if !ok {
		return
	}
	if user, ok := b.access.(*userCredentials); ok {
		now := time.Now()
		user.lister.Store(&e.Principal)
		user.signedIn.Store(&now)
	}
	b.Retry()
	if b.Offer().Known() {
		b.Refresh()
	}
}

// noteGrant records what happened to a grant.
func (g *Gateway) noteGrant(ctx context.Context, e grant.Event) {
	detail := e.Backend
	if e.Detail != "" {
		detail += ": " + e.Detail
	}
	g.noteIdentityEvent(ctx, &identityEvent{
		kind: server.EventKind(e.Kind), identity: &mcp.Identity{Principal: e.Principal}, detail: detail, verdict: verdict{as: config.AsUser},
	})
}

// openVault returns the vault, which is opened once.
func (g *Gateway) openVault() (*vault.Vault, error) {
	s := &g.signIns
	s.once.Do(func() { s.vault, s.err = access.OpenVault(g.ctx, g.view.Load().cfg, g.opt.StateFolder, g.log) })
	return s.vault, s.err
}

// userCredentials are those of a backend that is called as the user of each request. Without
// authentication there is one user, with the principal "".
type userCredentials struct {
	g          *Gateway
	srv        *config.Backend
	oauth      *config.OAuth
	isSingle   bool
	isOptional bool // the configuration has no oauth: it begins when the server asks for a token

	asked  atomic.Bool
	lister atomic.Pointer[string] // the principal of shared lists: the one that signed in last, or nil

	signedIn atomic.Pointer[time.Time] // the last sign-in here
	unlisted atomic.Pointer[unlisted]  // why the lists could not be fetched, or nil

	mu     sync.Mutex
	closed bool
	source *grant.Source
}

// unlisted is a sign-in with more scopes that the lists of a backend require.
type unlisted struct {
	missing    *grant.Missing
	generation uint64 // of the access that was refused
}

// usersFor returns the credentials of users at a server, or nil if it is not called as them.
func (g *Gateway) usersFor(srv *config.Backend) *userCredentials {
	c := &userCredentials{g: g, srv: srv, oauth: srv.OAuth, isSingle: g.auth == nil}
	if srv.OAuth == nil {
		if g.auth != nil || !g.isLocal || srv.Transport() == config.TypeStdio || access.HasAuthorization(srv) || g.opt.StateFolder == "" {
			return nil
		}
		c.oauth, c.isOptional = &config.OAuth{}, true
	}
	return c
}

// grants returns the grants of the users, which it opens when they are first needed.
func (c *userCredentials) grants() (*grant.Source, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return nil, context.Canceled
	case c.source != nil:
		return c.source, nil
	}
	kept, err := c.g.openVault()
	if err != nil {
		return nil, err
	}
	cfg, err := access.Source(c.srv, c.oauth)
	if err != nil {
		return nil, err
	}
	cfg.Vault, cfg.Anonymous, cfg.Logger, cfg.Event = kept, c.isSingle, c.g.log, c.g.noteGrant
	if c.oauth.ClientMetadata != config.MetadataNone {
		cfg.MetadataURL = signin.ClientID(c.g.view.Load().cfg.PublicURL)
	}
	c.source, err = grant.NewSource(cfg)
	return c.source, err
}

// PerPrincipal reports whether there are several users.
func (c *userCredentials) PerPrincipal() bool { return !c.isSingle }

// asUser returns a request with the principal of its user.
func (c *userCredentials) asUser(req *mcp.Request) *mcp.Request {
	principal := req.Principal
	switch last := c.lister.Load(); {
	case c.isSingle:
		principal = ""
	case principal == "" && c.oauth.Lists == config.ListsShared && last != nil:
		principal = *last // all see the same lists
	}
	if principal == req.Principal {
		return req
	}
	own := *req
	own.Principal = principal
	return &own
}

// For returns the access token of the user.
func (c *userCredentials) For(ctx context.Context, req *mcp.Request) (client.Credential, error) {
	if c.isOptional && !c.asked.Load() {
		return client.Credential{}, nil
	}
	source, err := c.grants()
	if err != nil {
		return client.Credential{}, err
	}
	own := c.asUser(req)
	sent, err := source.For(ctx, own)
	if !c.isSingle && c.oauth.Lists == config.ListsShared {
		c.noteLister(req, own, err)
	}
	return sent, c.explain(err)
}

// noteLister has the shared lists requested as the user of a request if there is no other user, as
// after a restart, and no more as a user that has no access.
func (c *userCredentials) noteLister(req, own *mcp.Request, err error) {
	last := c.lister.Load()
	_, isMissing := errors.AsType[*grant.Missing](err)
	switch {
	case err == nil && last == nil && own.Principal != "":
		if !c.lister.CompareAndSwap(nil, &own.Principal) {
			return
		}
		if b, ok := c.g.view.Load().backend(c.srv.Name); ok {
			b.Retry()
		}
	case isMissing && req.Principal == "" && last != nil:
		c.lister.CompareAndSwap(last, nil)
	}
}

// Refused renews a token, or returns the error of a user that has to sign in.
func (c *userCredentials) Refused(ctx context.Context, req *mcp.Request, sent client.Credential, r client.Refusal) error {
	if c.isOptional && !c.asked.Load() {
		_, isBearer := oauth.BearerChallenge(http.Header{"Www-Authenticate": r.Challenges})
		if r.Status != http.StatusUnauthorized || !isBearer {
			return client.ErrRefused
		}
		c.asked.Store(true)
	}
	source, err := c.grants()
	if err != nil {
		return err
	}
	own := c.asUser(req)
	err = source.Refused(ctx, own, sent, r)
	if !c.isSingle && own.Principal == "" && errors.Is(err, client.ErrRefused) && r.Status == http.StatusUnauthorized {
		err = &grant.Missing{Backend: c.srv.Name, Reason: grant.NeverSignedIn} // the lists are those of users
	}
	if missing, ok := errors.AsType[*grant.Missing](err); ok && missing.Reason == grant.NeedsMoreScope && isForLists(req.Method) {
		c.unlisted.Store(&unlisted{missing, sent.Generation})
	}
	return c.explain(err)
}

// isForLists reports whether requests of a method precede the lists of a backend.
func isForLists(method string) bool {
	return method == "server/discover" || method == "initialize" || strings.HasSuffix(method, "/list")
}

// explain returns the error of a user that has to sign in as a fault with its code.
func (c *userCredentials) explain(err error) error {
	missing, ok := errors.AsType[*grant.Missing](err)
	if !ok {
		return err
	}
	how := fmt.Sprintf("%v: in a terminal, run signalbox login %s", missing, c.srv.Name)
	switch {
	case !c.isSingle && missing.Principal == "" && c.oauth.Lists != config.ListsShared:
		how = "it lists its tools only for users that are signed in: " + c.listsCure()
	case c.g.signIns.desk.HasPages():
		tool := c.srv.NamePrefix() + gateName
		if b, ok := c.g.view.Load().backend(c.srv.Name); ok && b.Offer().Known() {
			tool = "one of its tools"
		}
		how = fmt.Sprintf("%v: call %s, or run signalbox login %s in a terminal", missing, tool, c.srv.Name)
	}
	return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: c.srv.Name, Reason: code.AuthSignIn, Message: how, Cause: err}
}

// listsCure returns what the operator does about a server that lists nothing without access.
func (c *userCredentials) listsCure() string {
	return fmt.Sprintf("if all of them see the same tools, write lists: shared as a member of oauth in mcpServers.%s", c.srv.Name)
}

func (c *userCredentials) status() *OAuthStatus {
	if c.isOptional && !c.asked.Load() {
		return nil
	}
	s := oauthStatusOf(c.oauth)
	c.mu.Lock()
	source := c.source
	c.mu.Unlock()
	if source == nil {
		return s
	}
	last := source.Stats().Last
	if last.At.IsZero() {
		return s
	}
	s.Issuer, s.Resource, s.Requested, s.Outcome = last.Issuer, last.Resource, last.At, "ok"
	if last.Err != nil {
		s.Outcome = last.Err.Error()
	}
	return s
}

func (c *userCredentials) retry() {}

func (c *userCredentials) close() {
	c.mu.Lock()
	source := c.source
	c.closed = true
	c.mu.Unlock()
	if source != nil {
		source.Close()
	}
}

// isUsers reports whether the backend of an item may be called as the user of a request.
func (a admitted) isUsers() bool {
	b, ok := a.backendOf(a.entry)
	if !ok {
		return false
	}
	_, ok = b.access.(*userCredentials)
	return ok
}

// forwardAs is admitted.forward for a backend that may be called as the user of the request: a user
// without access is asked to sign in.
func (g *Gateway) forwardAs(ctx context.Context, item admitted, field mcp.Field, req *mcp.Request, caller mcp.Caller) (b *activeBackend, res *mcp.Result, err error) {
	if b, ok := item.backendOf(item.entry); ok && req.Resumed == nil && !b.isGate(item.view, item.entry) {
		if b, res, err = item.forward(ctx, field, req, caller); !signin.IsMissing(err) {
			return b, res, err
		}
	}
	return g.forwardAfterSignIn(ctx, item, field, req, caller, err)
}

// forwardAfterSignIn is forwardAs for a request that ended with a missing sign-in, for one that is
// resumed, and for the tool to sign in.
func (g *Gateway) forwardAfterSignIn(ctx context.Context, item admitted, field mcp.Field, req *mcp.Request, caller mcp.Caller, missing error) (b *activeBackend, res *mcp.Result, err error) {
	b, ok := item.backendOf(item.entry)
	var users *userCredentials
	if ok {
		users, ok = b.access.(*userCredentials)
	}
	if !ok {
		return item.forward(ctx, field, req, caller)
	}
	next := func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		_, res, err := item.forward(ctx, field, req, caller)
		return res, err
	}
	if b.isGate(item.view, item.entry) {
		next = func(ctx context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
			return users.gate(ctx, req, b)
		}
	}
	if req.Resumed == nil {
		if err = missing; err == nil {
			res, err = next(ctx, req, caller)
		}
		if !signin.IsMissing(err) {
			return b, res, err
		}
		again, first := next, err
		next = func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
			if err := first; err != nil {
				first = nil
				return nil, err
			}
			return again(ctx, req, caller)
		}
	}
	source, err := users.grants()
	if err != nil {
		return b, nil, err
	}
	h := signin.Handler{
		Next: mcp.HandlerFunc(next), Desk: g.signIns.desk, Source: source, Backend: b.Name(),
		IsSingle: users.isSingle, Wait: users.oauth.Wait, Rounds: item.cfg.Limits.Rounds,
	}
	res, err = h.Serve(ctx, req, caller)
	return b, res, err
}

// gateName is the name of the tool, after the prefix of its backend, with which a user signs in at
// a backend without lists that can be seen before.
const gateName = "sign_in"

// needsGate reports whether a backend is offered as the tool to sign in.
func (b *activeBackend) needsGate(o *backend.Offer) bool {
	users, ok := b.access.(*userCredentials)
	return ok && !o.Known() && o.Code == code.AuthSignIn && users.g.signIns.desk.HasPages()
}

// remainingSignIn returns how long to wait for the lists of a backend after a sign-in, or 0.
func (b *activeBackend) remainingSignIn(o *backend.Offer, now time.Time) time.Duration {
	users, ok := b.access.(*userCredentials)
	if !ok || !b.needsGate(o) || !users.isSingle && users.oauth.Lists != config.ListsShared {
		return 0
	}
	at := users.signedIn.Load()
	if at == nil {
		return 0
	}
	return max(0, listsAfterSignIn-now.Sub(*at))
}

// isGate reports whether an entry of a view is the tool to sign in.
func (b *activeBackend) isGate(v *view, entry *catalog.Entry) bool {
	if entry.Kind != catalog.Tools || entry.Own != gateName {
		return false
	}
	i := slices.IndexFunc(v.backends, func(other *activeBackend) bool { return other.Backend == b.Backend })
	return i >= 0 && b.needsGate(v.offered[i])
}

// gateInput returns what the catalog has of a backend at which a user has to sign in first.
func (b *activeBackend) gateInput(in catalog.Backend) catalog.Backend {
	in.State = catalog.Live
	in.Capabilities = []byte(`{"tools":{"listChanged":true}}`)
	tool, err := json.Marshal(map[string]any{
		"name": gateName, "title": "Sign in to " + b.Name(),
		"description": "Sign in to " + b.Name() + ", which shows its tools to users that are signed in.",
		"inputSchema": map[string]any{"type": "object"},
		"annotations": map[string]any{"readOnlyHint": true},
	})
	if err == nil {
		in.Lists = backend.Lists{}
		in.Lists[catalog.Tools].Items = []json.RawMessage{tool}
	}
	return in
}

// gate serves the tool to sign in.
func (c *userCredentials) gate(ctx context.Context, req *mcp.Request, b *activeBackend) (*mcp.Result, error) {
	source, err := c.grants()
	if err != nil {
		return nil, err
	}
	own := c.asUser(req)
	if err := c.mustSignIn(ctx, source, own); err != nil {
		return nil, c.explain(err)
	}
	if !c.isSingle && c.oauth.Lists != config.ListsShared {
		return signedIn(req, b, " Its tools cannot be listed, because it lists them only for users that are signed in. For the operator of the gateway: "+c.listsCure()+".")
	}
	if !c.isSingle {
		c.lister.CompareAndSwap(nil, &req.Principal)
	}
	if err := c.awaitLists(ctx, b, source, own); err != nil {
		return nil, c.explain(err)
	}
	return signedIn(req, b, "")
}

// mustSignIn returns the *grant.Missing of the sender of a request that has to sign in before the
// lists can be fetched, or nil.
func (c *userCredentials) mustSignIn(ctx context.Context, source *grant.Source, req *mcp.Request) error {
	if err := source.Check(ctx, req.Principal); err != nil {
		return err
	}
	u := c.unlisted.Load()
	if u == nil || u.missing.Principal != req.Principal {
		return nil
	}
	if now, err := source.For(ctx, req); err != nil || now.Generation != u.generation {
		return nil //nolint:nilerr // signed in since, or an error that the lists will have, too
	}
	return u.missing
}

// listsAfterSignIn bounds the wait for the lists of a backend after a sign-in.
const listsAfterSignIn = 10 * time.Second

// awaitLists waits until the lists of a backend replace the tool to sign in. The error is a
// *grant.Missing if the backend does not accept the access of the user for them.
func (c *userCredentials) awaitLists(ctx context.Context, b *activeBackend, source *grant.Source, req *mcp.Request) error {
	ctx, cancel := context.WithTimeout(ctx, listsAfterSignIn)
	defer cancel()
	b.Retry()
	for {
		v := c.g.view.Load()
		i := slices.IndexFunc(v.backends, func(other *activeBackend) bool { return other.Backend == b.Backend })
		if i < 0 || !b.needsGate(v.offered[i]) {
			return nil
		}
		if err := c.mustSignIn(ctx, source, req); err != nil {
			return err
		}
		select {
		case <-v.replaced:
		case <-ctx.Done():
			return nil
		}
	}
}

// signedIn returns the result of the tool to sign in, with more text.
func signedIn(req *mcp.Request, b *activeBackend, more string) (*mcp.Result, error) {
	out := map[string]any{"content": []any{map[string]any{"type": "text", "text": "You are signed in to " + b.Name() + "." + more}}}
	if req.Client.Version.Era() == mcp.EraModern {
		out["resultType"] = mcp.ResultComplete
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, err
	}
	return mcp.NewResult(raw)
}

// formerGate answers a call of the tool to sign in that has just been replaced by the tools of its
// backend, for a user that has signed in there. It returns nil for any other tool and user.
func (v *view) formerGate(ctx context.Context, req *mcp.Request, name string) (*activeBackend, *mcp.Result) {
	for _, b := range v.backends {
		users, ok := b.access.(*userCredentials)
		if !ok || name != b.srv.NamePrefix()+gateName {
			continue
		}
		source, err := users.grants()
		if err != nil || v.hidesGate(b) || source.Check(ctx, users.asUser(req).Principal) != nil {
			continue
		}
		if res, err := signedIn(req, b, ""); err == nil {
			return b, res
		}
	}
	return nil, nil
}

// hidesGate reports whether the policy hides the tool to sign in at a backend from the client of the
// view, as it did while the backend had it.
func (v *view) hidesGate(b *activeBackend) bool {
	tools := b.gateInput(catalog.Backend{}).Lists[catalog.Tools].Items
	if v.class == nil || len(tools) == 0 {
		return v.class != nil
	}
	gate := policy.NewItem(policy.Tool, b.Name(), b.srv.NamePrefix()+gateName, gateName, tools[0])
	verdict := v.policy.List(v.class.subject, gate)
	return verdict.Hidden()
}
