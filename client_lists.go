// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// perClientLists are the lists of clients that differ from the catalog. Most backends
// offer the same to all clients, and the catalog has that once. Two kinds of backends do
// not: some offer a tool only to clients with certain capabilities, and some change
// their lists for one session. The zero value is ready.
type perClientLists struct {
	featuresUsed, sessionsUsed atomic.Int64

	last [8]atomic.Pointer[parsedFeatures] // by the length of the capabilities

	mu         sync.Mutex
	byFeatures map[backend.Features]*clientLists
}

// parsedFeatures caches the features of capabilities that were parsed.
type parsedFeatures struct {
	capabilities string
	features     backend.Features
}

// featuresOf returns the features of capabilities. It caches the last, because clients
// declare the same capabilities with each request.
func (l *perClientLists) featuresOf(capabilities []byte) backend.Features {
	slot := &l.last[len(capabilities)%len(l.last)]
	if last := slot.Load(); last != nil && last.capabilities == string(capabilities) {
		return last.features
	}
	p := backend.FeaturesOf(capabilities)
	slot.Store(&parsedFeatures{string(capabilities), p})
	return p
}

// viewFor returns the view of a client.
func (g *Gateway) viewFor(of viewer) *view {
	v := g.viewOf(of)
	if g.perClient.sessionsUsed.Load() != 0 {
		if l := sessionLists(of.Scope); l != nil {
			v = l.view(v)
		}
	}
	return g.asSeenBy(of, v.at(of.profile))
}

// viewOf returns the view of clients with the capabilities of this one, for its user.
func (g *Gateway) viewOf(of viewer) *view {
	v := g.view.Load()
	if g.perClient.featuresUsed.Load() != 0 || v.hasApps && g.renders(of.Peer) {
		if l := g.featureLists(of.Peer); l != nil {
			v = l.view(v)
		}
	}
	if v.users != nil {
		return g.userLists.view(v, of)
	}
	return v
}

// awaitFeatureLists fetches what the backends offer to clients with the capabilities of
// this client, once for all such clients. It waits for at most limits.firstList. If that
// does not suffice, the client gets the lists for all clients, and list_changed later.
func (g *Gateway) awaitFeatureLists(ctx context.Context, req *mcp.Request) {
	l := g.featureLists(req.Client)
	if l == nil {
		return
	}
	v := g.view.Load().at(req.Profile)
	for _, b := range v.backends {
		if g.needsFeatureFetch(l, b) {
			l.refresh(b)
		}
	}
	l.refreshOutdated(g.view.Load())
	l.awaitFetches(ctx, v.cfg.Limits.FirstList, g.within(req.Profile, anyBackend))
}

// featureListsReady reports whether awaitFeatureLists has nothing to wait for.
func (g *Gateway) featureListsReady(req *mcp.Request) bool {
	l := g.featureLists(req.Client)
	if l == nil {
		return true
	}
	for _, b := range g.view.Load().at(req.Profile).backends {
		if g.needsFeatureFetch(l, b) {
			return false
		}
	}
	l.refreshOutdated(g.view.Load())
	return l.fetching(g.within(req.Profile, anyBackend)) == nil
}

// featureLists returns the lists for clients with the capabilities of this one. It
// returns nil for a client with all features, with which the shared lists are
// fetched, and for a client that has not declared its capabilities. A client that renders
// apps has lists of its own.
func (g *Gateway) featureLists(client *mcp.Peer) *clientLists {
	if g.onlyClient != nil || client == nil || client.Capabilities == nil {
		return nil
	}
	p := g.perClient.featuresOf(client.Capabilities)
	if p == backend.AllFeatures {
		return nil
	}
	all := &g.perClient
	all.mu.Lock()
	defer all.mu.Unlock()
	l := all.byFeatures[p]
	if l == nil {
		if all.byFeatures == nil {
			all.byFeatures = make(map[backend.Features]*clientLists)
		}
		l = &clientLists{g: g, used: &all.featuresUsed, base: g.view.Load, features: p, renders: p.Has(backend.RendersApps)}
		l.fetch = g.featureListsOf
		all.byFeatures[p] = l
	}
	return l
}

// needsFeatureFetch reports whether the lists of a backend must be fetched for a
// set of features. If a backend offers the usual lists to clients with fewer capabilities, it
// offers them to these.
func (g *Gateway) needsFeatureFetch(l *clientLists, b *activeBackend) bool {
	v := g.view.Load()
	p := v.featuresAt(b, l.features)
	if state := b.Offer().State; v.hasOneSession(b) || state != backend.Live && !state.IsResting() || p == backend.AllFeatures || l.hasTried(b, p) {
		return false
	}
	all := &g.perClient
	all.mu.Lock()
	defer all.mu.Unlock()
	for q, other := range all.byFeatures {
		q = v.featuresAt(b, q)
		if other != l && p.Has(q) && q.Has(backend.RendersApps) == p.Has(backend.RendersApps) && other.isSame(b) {
			return false
		}
	}
	return true
}

// sessionListsKey is the key of a session's clientLists in its scope.
type sessionListsKey struct{}

// sessionLists returns the lists of a session. It returns nil if there is no session, or
// it has none.
func sessionLists(scope *mcp.Scope) *clientLists {
	if scope == nil {
		return nil
	}
	kept, _ := scope.Value(sessionListsKey{}, func() any { return (*clientLists)(nil) })
	l, _ := kept.(*clientLists)
	return l
}

// initSessionLists prepares the lists of a session that begins.
func (g *Gateway) initSessionLists(req *mcp.Request) {
	if g.onlyClient != nil || req.Scope == nil || req.Scope.Unrelated() == nil {
		return
	}
	of := viewerOf(req)
	l := &clientLists{g: g, used: &g.perClient.sessionsUsed, principal: of.Principal, renders: g.renders(of.Peer)}
	l.base = func() *view { return g.viewOf(of) }
	l.fetch = func(ctx context.Context, b *activeBackend, _ backend.Features, _ bool) (backend.Lists, error) {
		return g.userLists.tracker(b, of).ListsFor(ctx, b.inScope(of))
	}
	if _, ok := req.Scope.Value(sessionListsKey{}, func() any { return l }); ok && !req.Scope.OnEnd(l.close) {
		l.close()
	}
}

// noteListsChanged is called when the lists of a backend may have changed for a
// session, or when its session at the backend, and so its lists, have ended.
func (g *Gateway) noteListsChanged(b *activeBackend, scope *mcp.Scope, ended bool) {
	switch {
	case !ended && g.onlyClient != nil:
		b.NoteChange()
	case !ended, scope == nil:
		b.Refresh() // the change may concern all clients, and the shared lists are of one client's session
	}
	switch l := sessionLists(scope); {
	case l == nil:
	case ended:
		l.discard(b.Backend)
	default:
		if b.users != nil {
			g.userLists.refresh(l.principal, b.Backend)
		}
		l.refresh(b)
	}
}

// awaitSessionLists waits for running fetches of the session's lists, of the backends
// that want accepts.
func (g *Gateway) awaitSessionLists(ctx context.Context, req *mcp.Request, want func(*activeBackend) bool) {
	patience := g.view.Load().cfg.Limits.Handshake
	if g.onlyClient != nil {
		ctx, cancel := withTimeout(ctx, patience)
		defer cancel()
		_ = g.await(ctx, req.Profile, func(v *view) (time.Duration, bool) { return noLimit, v.isBehind(want) }) // what is known then is the answer
		return
	}
	if l := sessionLists(req.Scope); l != nil {
		l.refreshOutdated(l.base())
		l.awaitFetches(ctx, patience, g.within(req.Profile, want))
	}
}

// sessionListsReady reports whether awaitSessionLists has nothing to wait for.
func (g *Gateway) sessionListsReady(req *mcp.Request) bool {
	if g.onlyClient != nil {
		return !g.view.Load().at(req.Profile).isBehind(anyBackend)
	}
	l := sessionLists(req.Scope)
	if l == nil {
		return true
	}
	l.refreshOutdated(l.base())
	return l.fetching(g.within(req.Profile, anyBackend)) == nil
}

// clientLists holds what backends offer to clients with the same capabilities, or to one
// session, where it differs from a base view, and builds the view of it. The zero value
// is not usable.
type clientLists struct {
	g *Gateway

	// base returns the base view. fetch fetches the lists of a backend on behalf of the
	// client, or for clients with the features; again is whether they may have changed
	// since an earlier fetch.
	base  func() *view
	fetch func(ctx context.Context, b *activeBackend, p backend.Features, again bool) (backend.Lists, error)

	features  backend.Features // of the clients; not set for a session
	renders   bool             // the clients render apps
	principal string           // of a session

	// used counts the backendLists of this kind that differ from the base.
	used *atomic.Int64

	mu             sync.Mutex
	own            map[*backend.Backend]*backendLists // nil until used: most sessions have none
	closed         bool
	builtOn, built *view // built is built on builtOn
}

// backendLists are the lists of one backend in a clientLists.
type backendLists struct {
	tried bool           // a fetch has succeeded or failed
	same  bool           // the fetched lists equal the base
	lists *backend.Lists // nil if they equal the base
	base  backend.Lists  // the base lists at the time of the fetch
	noted notices        // those of the base lists at that time

	features backend.Features // that the current or the last fetch is for

	dirty bool          // they may have changed since the current fetch began
	began time.Time     // when the last fetch began
	busy  chan struct{} // closed when the current fetch has ended; nil without one
}

// refresh starts fetching the lists of a backend in the background. If a fetch is
// running, another follows it.
func (l *clientLists) refresh(b *activeBackend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refreshLocked(b)
}

func (l *clientLists) refreshLocked(b *activeBackend) {
	if l.closed {
		return
	}
	own := l.own[b.Backend]
	if own == nil {
		own = &backendLists{}
		if l.own == nil {
			l.own = make(map[*backend.Backend]*backendLists)
		}
		l.own[b.Backend] = own
	}
	own.dirty = true
	if own.busy != nil {
		return
	}
	own.busy = make(chan struct{})
	// Ends with the fetches, each with a time limit; Gateway.stop waits for it.
	if !l.g.begin(func() { l.keepFetching(b, own) }) {
		l.doneLocked(own)
	}
}

// minRefetchInterval is the shortest time between two fetches, however often the lists
// of a session change. It is short, because requests wait for the lists.
const minRefetchInterval = 200 * time.Millisecond

// keepFetching fetches until the lists are as new as the last refresh.
func (l *clientLists) keepFetching(b *activeBackend, own *backendLists) {
	for again := true; again; {
		backoff.Sleep(l.g.ctx, l.untilFetch(own))
		again = l.fetchOnce(b, own)
	}
	l.g.changed.wakeAll()
}

// untilFetch returns how long to wait before the next fetch.
func (l *clientLists) untilFetch(own *backendLists) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if own.began.IsZero() {
		return 0
	}
	return minRefetchInterval - time.Since(own.began)
}

// fetchOnce reports whether another fetch must follow. If the fetch fails, the previous
// lists stay; without previous lists, those of the base are used.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: it outlives the request
func (l *clientLists) fetchOnce(b *activeBackend, own *backendLists) (again bool) {
	ctx, cancel := withTimeout(l.g.ctx, l.g.view.Load().cfg.Limits.Handshake)
	defer cancel()
	base := l.base()
	p := base.featuresAt(b, l.features)
	tried := l.clearDirty(own, p)
	since := base.offerOf(b)
	lists, err := l.fetch(ctx, b, p, tried)
	if err != nil {
		l.g.log.Debug("could not fetch the lists for a client", slog.String("backend", b.Name()), slog.Any("err", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own.tried = true
	if err == nil && !l.closed {
		own.base, own.noted = since.Lists, since.Notices
		l.setLocked(own, &lists)
		own.same = own.lists == nil
	}
	if own.dirty && err == nil && !l.closed {
		return true
	}
	l.doneLocked(own)
	return false
}

// clearDirty is called before the fetch, so that a change during it causes another.
// It returns whether there was an earlier one.
func (l *clientLists) clearDirty(own *backendLists, p backend.Features) (tried bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own.dirty, own.began, own.features = false, time.Now(), p
	return own.tried
}

func (l *clientLists) doneLocked(own *backendLists) {
	close(own.busy)
	own.busy = nil
}

// setLocked stores fetched lists. Lists that equal the base are stored as nil.
func (l *clientLists) setLocked(own *backendLists, lists *backend.Lists) {
	if lists != nil && lists.Equal(&own.base) {
		lists = nil
	}
	if had, has := own.lists != nil, lists != nil; had != has {
		if has {
			l.used.Add(1)
		} else {
			l.used.Add(-1)
		}
	}
	own.lists, l.built = lists, nil
}

// discard drops the lists of a backend after its session has ended.
func (l *clientLists) discard(key *backend.Backend) {
	if l.drop(key) {
		l.g.changed.wakeAll()
	}
}

func (l *clientLists) drop(key *backend.Backend) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own[key]
	if own == nil {
		return false
	}
	changed = own.lists != nil
	l.setLocked(own, nil)
	return changed
}

// close drops all lists and stores no more.
func (l *clientLists) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, own := range l.own {
		l.setLocked(own, nil)
	}
}

// view returns the client's view, built on v. If the base lists have changed since a
// fetch, it starts another fetch.
func (l *clientLists) view(v *view) *view {
	seen, isNew := l.buildOn(v)
	if isNew && l.features.Has(backend.RendersApps) {
		l.g.logAppProblems(v, seen)
	}
	return seen
}

// buildOn returns the view, and reports whether it was built now.
func (l *clientLists) buildOn(v *view) (seen *view, isNew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if v == l.builtOn && l.built != nil {
		return l.built, false
	}
	l.dropRemovedLocked(v)
	offers, differs := slices.Clone(v.offered), false
	for i, b := range v.backends {
		own := l.own[b.Backend]
		if !own.mayDiffer() || offers[i].Refused {
			continue
		}
		l.refreshOutdatedLocked(b, own, offers[i])
		if own.lists != nil {
			differs = true
			next := *offers[i]
			next.Lists = *own.lists
			offers[i] = &next
		}
	}
	l.builtOn, l.built = v, v
	if differs || l.renders && v.hasApps && !v.rendered {
		next := *v
		next.rendered = v.rendered || l.renders
		next.offered, next.catalog = offers, next.build(offers)
		l.g.derive(&next, v)
		l.built = &next
	}
	return l.built, true
}

// refreshOutdated starts fetching the lists of which the base has changed since they were fetched.
func (l *clientLists) refreshOutdated(v *view) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range v.backends {
		if own := l.own[b.Backend]; own.mayDiffer() && !v.offered[i].Refused {
			l.refreshOutdatedLocked(b, own, v.offered[i])
		}
	}
}

func (l *clientLists) refreshOutdatedLocked(b *activeBackend, own *backendLists, base *backend.Offer) {
	// Lists that are the same for clients that render apps may become others.
	if !own.base.Equal(&base.Lists) || own.isRendered() && own.noted != base.Notices {
		own.base, own.noted = base.Lists, base.Notices
		l.setLocked(own, own.lists)
		l.refreshLocked(b)
	}
}

// dropRemovedLocked drops the lists of backends that a reload has removed.
func (l *clientLists) dropRemovedLocked(v *view) {
	for key, own := range l.own {
		if own.busy == nil && !slices.ContainsFunc(v.backends, func(b *activeBackend) bool { return b.Backend == key }) {
			l.setLocked(own, nil)
			delete(l.own, key)
		}
	}
}

// awaitFetches waits until no backend that want accepts is being fetched, the timeout
// has passed, or ctx ends.
func (l *clientLists) awaitFetches(ctx context.Context, patience time.Duration, want func(*activeBackend) bool) {
	ctx, cancel := withTimeout(ctx, patience)
	defer cancel()
	for {
		busy := l.fetching(want)
		if busy == nil {
			return
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return
		}
	}
}

// hasTried reports whether the lists of a backend were fetched for the features, or are being
// fetched.
func (l *clientLists) hasTried(b *activeBackend, p backend.Features) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own[b.Backend]
	return own != nil && (own.tried && own.features == p || own.busy != nil)
}

// mayDiffer reports whether the lists are others than the base, or become others with another base.
func (l *backendLists) mayDiffer() bool { return l != nil && (l.lists != nil || l.isRendered()) }

// isRendered reports whether the lists are those for clients that render apps.
func (l *backendLists) isRendered() bool { return l.tried && l.features.Has(backend.RendersApps) }

// isSame reports whether the lists of a backend are known to equal the base.
func (l *clientLists) isSame(b *activeBackend) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own[b.Backend]
	return own != nil && own.same
}

// fetching returns a channel that is closed when a running fetch has ended, or nil.
func (l *clientLists) fetching(want func(*activeBackend) bool) <-chan struct{} {
	backends := l.g.view.Load().backends
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, b := range backends {
		if own := l.own[b.Backend]; own != nil && own.busy != nil && want(b) {
			return own.busy
		}
	}
	return nil
}

// onlyClient is the client of a Gateway with Options.OneClient.
type onlyClient struct {
	once   sync.Once
	known  chan struct{} // closed when client is set
	client viewer
}

// set stores the client of the first request that identifies one.
func (s *onlyClient) set(req *mcp.Request) {
	if s == nil || req.Client == nil {
		return
	}
	s.once.Do(func() {
		s.client = viewerOf(req)
		close(s.known)
	})
}

// waiterFor returns a function that waits for the client on behalf of a backend.
func (s *onlyClient) waiterFor(b *activeBackend) func(ctx context.Context) (backend.Client, bool) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context) (backend.Client, bool) {
		select {
		case <-s.known:
			return b.inScope(s.client), true
		case <-ctx.Done():
			return backend.Client{}, false
		}
	}
}

// inScope returns a client as the backend knows it, in the scope that its calls have
// there.
func (b *activeBackend) inScope(c viewer) backend.Client {
	own := c.Client
	own.Scope = b.scopeOf(c.Scope, c.owner())
	return own
}
