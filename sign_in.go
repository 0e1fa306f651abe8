// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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
	"github.com/signalbox-mcp/signalbox/internal/oidc"
	"github.com/signalbox-mcp/signalbox/internal/policy"
	"github.com/signalbox-mcp/signalbox/internal/signin"
	"github.com/signalbox-mcp/signalbox/internal/vault"
	"github.com/signalbox-mcp/signalbox/mcp"
	"github.com/signalbox-mcp/signalbox/server"
)

// signIns are the sign-ins of users at the authorization servers of backends.
type signIns struct {
	desk     *signin.Desk
	idTokens *oidc.Tokens // of auth.browser, or nil

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
	if err := g.useBrowser(&c, cfg); err != nil {
		return nil, err
	}
	return signin.New(c)
}

// IsSignIn reports whether [Gateway.ServeSignIn] serves a path.
func (g *Gateway) IsSignIn(path string) bool { return signin.IsPage(path) || isOwnAccess(path) }

// ServeSignIn serves the pages with which users sign in at the authorization servers of backends:
// those at /signin/, /oauth/callback and /oauth/client.json. The Host is checked as for all
// requests, and nothing of the request determines a URL.
//
// At /oauth/credentials it serves programs of a user with which that manages its own access, for
// requests that may call the endpoint.
func (g *Gateway) ServeSignIn(w http.ResponseWriter, r *http.Request) {
	if !g.IsSignIn(r.URL.Path) {
		http.NotFound(w, r)
		return
	}
	if isOwnAccess(r.URL.Path) {
		g.serveOwnAccess(w, r)
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
	if b.users != nil {
		g.userLists.recheck(g.ctx, e.Principal, b) //nolint:contextcheck // what it begins outlives the request
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

	refusedBare atomic.Pointer[time.Time] // when a request for lists without a token was refused

	mu     sync.Mutex
	closed bool
	source *grant.Source
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
	cfg.Vault, cfg.Anonymous, cfg.Logger, cfg.Event, cfg.Tried = kept, c.isSingle, c.g.log, c.g.noteGrant, c.g.countRefreshes(c.srv.Name)
	if c.oauth.ClientMetadata != config.MetadataNone {
		cfg.MetadataURL = signin.ClientID(c.g.view.Load().cfg.PublicURL)
	}
	c.source, err = grant.NewSource(cfg)
	return c.source, err
}

// isPerUser reports whether users have lists of their own: not with "lists: shared", and not if there
// is one user only.
func (c *userCredentials) isPerUser() bool {
	return !c.isSingle && c.oauth.Lists != config.ListsShared && c.g.onlyClient == nil
}

// held returns the grant of a principal.
func (c *userCredentials) held(ctx context.Context, principal string, age time.Duration) (grant.Held, error) {
	source, err := c.grants()
	if err != nil {
		return grant.Held{}, err
	}
	return source.Held(ctx, principal, age)
}

// look reads the grants of principals.
func (c *userCredentials) look(ctx context.Context, principals []string) {
	source, err := c.grants()
	if err == nil {
		err = source.Look(ctx, principals)
	}
	if err != nil && ctx.Err() == nil {
		c.g.log.LogAttrs(ctx, slog.LevelWarn, "the grants of users cannot be read", slog.String("backend", c.srv.Name), slog.Any("err", err))
	}
}

func (*userCredentials) identity(string) *mcp.Identity { return nil }

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
	if c.isUnasked() {
		return client.Credential{}, nil
	}
	source, err := c.grants()
	if err != nil {
		return client.Credential{}, err
	}
	own := c.asUser(req)
	sent, err := source.For(ctx, own)
	if err == nil && sent.Header == nil {
		err = c.refusedBefore(ctx, source, own)
	}
	if err != nil && c.isPerUser() {
		c.noteMissing(err)
	}
	if !c.isSingle && c.oauth.Lists == config.ListsShared {
		c.noteLister(req, own, err)
	}
	return sent, c.explain(err)
}

// noteMissing looks at the lists of a user that has lost its access.
func (c *userCredentials) noteMissing(err error) {
	if missing, ok := errors.AsType[*grant.Missing](err); ok && missing.Principal != "" {
		if b, ok := c.g.view.Load().backend(c.srv.Name); ok {
			c.g.userLists.refresh(missing.Principal, b.Backend)
		}
	}
}

// barePause is the time between two requests without a token to a backend that has refused one. In
// between, attempts only look whether a user has signed in, also in another process.
const barePause = 10 * time.Minute

// refusedBefore returns the *grant.Missing of a request that would be sent without a token, and was
// refused lately.
func (c *userCredentials) refusedBefore(ctx context.Context, source *grant.Source, own *mcp.Request) error {
	at := c.refusedBare.Load()
	if at == nil || time.Since(*at) >= barePause {
		return nil
	}
	if !c.isSingle && own.Principal == "" {
		return &grant.Missing{Backend: c.srv.Name, Reason: grant.NeverSignedIn}
	}
	return source.Check(ctx, own.Principal)
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
	if c.isUnasked() {
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
	if sent.Header == nil && r.Status == http.StatusUnauthorized && isForLists(req.Method) {
		now := time.Now()
		c.refusedBare.Store(&now)
	}
	own := c.asUser(req)
	err = source.Refused(ctx, own, sent, r)
	if !c.isSingle && own.Principal == "" && errors.Is(err, client.ErrRefused) && r.Status == http.StatusUnauthorized {
		err = &grant.Missing{Backend: c.srv.Name, Reason: grant.NeverSignedIn} // the lists are those of users
	}
	if missing, ok := errors.AsType[*grant.Missing](err); ok && missing.Reason == grant.NeedsMoreScope && isForLists(req.Method) {
		source.RefuseLists(missing, sent.Generation)
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
	var why error = missing
	if c.isPerUser() && missing.Principal == "" {
		why = errListsPerUser
	}
	how := fmt.Sprintf("%v: in a terminal, run signalbox login %s", why, c.srv.Name)
	if c.g.signIns.desk.HasPages() {
		tool := c.srv.NamePrefix() + gateName
		if b, ok := c.g.view.Load().backend(c.srv.Name); ok && b.Offer().Known() {
			tool = "one of its tools"
		}
		how = fmt.Sprintf("%v: call %s, or run signalbox login %s in a terminal", why, tool, c.srv.Name)
	}
	return signInFault(c.srv.Name, how, err)
}

// signInFault is the error of a request for which a user has to sign in.
func signInFault(server, text string, cause error) *mcp.Fault {
	return &mcp.Fault{Code: mcp.CodeBackendUnavailable, Outcome: mcp.NotDispatched, Backend: server, Reason: code.AuthSignIn, Message: text, Cause: cause}
}

// signInHint returns a text of explain with the name that the clients of a view know the tool by.
func (v *view) signInHint(b *activeBackend, text string) string {
	if !v.catalog.HasOwnNames() {
		return text
	}
	return strings.Replace(text, "call "+b.srv.NamePrefix()+gateName+",", "call "+gateName+",", 1)
}

// errListsPerUser is why a backend has no lists for everybody.
var errListsPerUser = errors.New("it lists its tools only for users that are signed in, for each its own")

func (c *userCredentials) status() *OAuthStatus {
	if c.isUnasked() {
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

func (c *userCredentials) retry() { c.refusedBare.Store(nil) }

func (c *userCredentials) close() {
	c.mu.Lock()
	source := c.source
	c.closed = true
	c.mu.Unlock()
	if source != nil {
		source.Close()
	}
}

// forwardAfterSignIn is forward for a request that ended with a missing sign-in, for one that is
// resumed, and for the tool to sign in.
func (g *Gateway) forwardAfterSignIn(ctx context.Context, b *activeBackend, users signsIn, item admitted, field mcp.Field, req *mcp.Request, caller mcp.Caller, missing error) (res *mcp.Result, err error) {
	item.signingIn = true
	next := func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		_, res, err := g.forward(ctx, item, field, req, caller)
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
			return res, err
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
	h, err := users.dialog()
	if err != nil {
		return nil, err
	}
	h.Next, h.Desk, h.Backend, h.Rounds = mcp.HandlerFunc(next), g.signIns.desk, b.Name(), item.cfg.Limits.Rounds
	return h.Serve(ctx, req, caller)
}

// gateName is the name of the tool, after the prefix of its backend, with which a user signs in at
// a backend without lists that can be seen before.
const gateName = "sign_in"

// needsGate reports whether a backend is offered as the tool to sign in.
func (b *activeBackend) needsGate(o *backend.Offer) bool {
	users, ok := b.access.(signsIn)
	return ok && !o.Known() && (o.Refused || o.Code == code.AuthSignIn) && users.hasPages()
}

// remainingSignIn returns how long to wait for the lists of a backend after a sign-in, or 0.
func (b *activeBackend) remainingSignIn(o *backend.Offer, now time.Time) time.Duration {
	users, ok := b.access.(*userCredentials)
	if !ok || !b.needsGate(o) || users.isPerUser() {
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
	return b.needsGate(v.offerOf(b))
}

// gateInput returns what the catalog has of a backend at which a user has to sign in first. It may
// come to offer anything. Its rules are about its own tools, and so do not hide this one.
func (b *activeBackend) gateInput(in catalog.Backend) catalog.Backend {
	in.State, in.IsPartial = catalog.Stale, true
	in.Rules = catalog.Rules{Prefix: in.Rules.Prefix}
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
	mustSignIn := func() error {
		return c.explain(source.CheckLists(ctx, own.Principal))
	}
	if err := mustSignIn(); err != nil {
		return nil, err
	}
	if c.isPerUser() {
		return c.g.gateOfUser(ctx, req, b, mustSignIn)
	}
	if !c.isSingle {
		c.lister.CompareAndSwap(nil, &req.Principal)
	}
	if err := c.g.awaitListsAfterSignIn(ctx, b, mustSignIn); err != nil {
		return nil, err
	}
	return signedIn(b, "")
}

// listsAfterSignIn bounds the wait for the lists of a backend after a sign-in.
const listsAfterSignIn = 10 * time.Second

// awaitListsAfterSignIn waits until the lists of a backend replace the tool to sign in. The error is that of
// mustSignIn, for a user whose access the backend does not accept for them.
func (g *Gateway) awaitListsAfterSignIn(ctx context.Context, b *activeBackend, mustSignIn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, listsAfterSignIn)
	defer cancel()
	b.Retry()
	for {
		v := g.view.Load()
		if !b.needsGate(v.offerOf(b)) {
			return nil
		}
		if err := mustSignIn(); err != nil {
			return err
		}
		select {
		case <-v.replaced:
		case <-ctx.Done():
			return nil
		}
	}
}

// gateOfUser serves the tool to sign in for a user that has signed in, after it has waited for the
// lists of that user.
func (g *Gateway) gateOfUser(ctx context.Context, req *mcp.Request, b *activeBackend, mustSignIn func() error) (*mcp.Result, error) {
	g.userLists.recheck(ctx, req.Principal, b)
	g.awaitUserLists(ctx, req, listsAfterSignIn, func(other *activeBackend) bool { return other.Backend == b.Backend })
	if err := mustSignIn(); err != nil {
		return nil, err
	}
	switch o := g.userLists.offerOf(b, viewerOf(req)); {
	case o == nil:
		return signedIn(b, " It has not listed its tools yet.")
	case !o.Known():
		return signedIn(b, " Its tools are not known: "+o.Reason+".")
	}
	return signedIn(b, "")
}

// signedIn returns the result of the tool to sign in, with more text.
func signedIn(b *activeBackend, more string) (*mcp.Result, error) {
	return textResult("You are signed in to " + b.Name() + "." + more)
}

// formerGate answers a call of the tool to sign in that has just been replaced by the tools of its
// backend, for a user that has signed in there. It returns nil for any other tool and user.
func (v *view) formerGate(ctx context.Context, req *mcp.Request, name string) (*activeBackend, *mcp.Result) {
	for _, b := range v.backends {
		users, ok := b.access.(*userCredentials)
		if !ok || name != b.srv.NamePrefix()+gateName && (name != gateName || !v.catalog.HasOwnNames()) {
			continue
		}
		source, err := users.grants()
		if err != nil || v.hidesGate(b) || source.Check(ctx, users.asUser(req).Principal) != nil {
			continue
		}
		if res, err := signedIn(b, ""); err == nil {
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
	gate := policy.NewGate(b.Name(), b.srv.NamePrefix(), b.srv.NamePrefix()+gateName, gateName, tools[0])
	verdict := v.policy.List(v.class.subject, gate)
	return verdict.Hidden()
}
