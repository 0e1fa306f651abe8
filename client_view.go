// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// perClientLists are the lists of all clients of a Gateway that differ from the
// catalog. The zero value is ready.
type perClientLists struct {
	profilesUsed, sessionsUsed atomic.Int64

	last atomic.Pointer[parsedProfile]

	mu        sync.Mutex
	byProfile map[backend.Profile]*clientLists
}

// parsedProfile caches the profile of the capabilities that were parsed last.
type parsedProfile struct {
	capabilities string
	profile      backend.Profile
}

// profileOf returns the profile of capabilities. It caches the last, because clients
// declare the same capabilities with each request.
func (l *perClientLists) profileOf(capabilities []byte) backend.Profile {
	if last := l.last.Load(); last != nil && last.capabilities == string(capabilities) {
		return last.profile
	}
	p := backend.ProfileOf(capabilities)
	l.last.Store(&parsedProfile{string(capabilities), p})
	return p
}

// viewFor returns the view of a client.
func (g *Gateway) viewFor(of requester) *view {
	v := g.viewOf(of.Peer)
	if of.Scope == nil || g.perClient.sessionsUsed.Load() == 0 {
		return v
	}
	if l := sessionLists(of.Scope); l != nil {
		return l.view(v)
	}
	return v
}

// viewOf returns the view of clients with the capabilities of this one.
func (g *Gateway) viewOf(client *mcp.Peer) *view {
	v := g.view.Load()
	if g.perClient.profilesUsed.Load() == 0 || client == nil || client.Capabilities == nil {
		return v
	}
	if l := g.knownProfileLists(g.perClient.profileOf(client.Capabilities)); l != nil {
		return l.view(v)
	}
	return v
}

// awaitProfileLists fetches what the backends offer to clients with the capabilities of
// this one, unless that is known: once for all such clients. Like the first list of
// all, it waits for at most limits.firstList. A list that is returned earlier has what
// all clients are offered, and list_changed follows.
func (g *Gateway) awaitProfileLists(ctx context.Context, client *mcp.Peer) {
	l := g.profileLists(client)
	if l == nil {
		return
	}
	v := g.view.Load()
	for _, b := range v.backends {
		if g.needsProfileFetch(l, b) {
			l.refresh(b)
		}
	}
	l.awaitFetches(ctx, v.cfg.Limits.FirstList, func(*activeBackend) bool { return true })
}

// profileListsReady reports whether awaitProfileLists has nothing to wait for.
func (g *Gateway) profileListsReady(client *mcp.Peer) bool {
	l := g.profileLists(client)
	if l == nil {
		return true
	}
	for _, b := range g.view.Load().backends {
		if g.needsProfileFetch(l, b) {
			return false
		}
	}
	return l.fetching(func(*activeBackend) bool { return true }) == nil
}

// profileLists returns the lists for clients with the capabilities of this one. It
// returns nil for a client with the full profile, with which the shared lists are
// fetched, and for a client that has not declared its capabilities.
func (g *Gateway) profileLists(client *mcp.Peer) *clientLists {
	if g.onlyClient != nil || client == nil || client.Capabilities == nil {
		return nil
	}
	p := g.perClient.profileOf(client.Capabilities)
	if p == backend.FullProfile {
		return nil
	}
	all := &g.perClient
	all.mu.Lock()
	defer all.mu.Unlock()
	l := all.byProfile[p]
	if l == nil {
		if all.byProfile == nil {
			all.byProfile = make(map[backend.Profile]*clientLists)
		}
		l = &clientLists{g: g, used: &all.profilesUsed, base: g.view.Load}
		l.fetch = func(ctx context.Context, b *activeBackend) (backend.Lists, error) { return b.ListsOf(ctx, p) }
		all.byProfile[p] = l
	}
	return l
}

// knownProfileLists returns the lists for clients of a profile, or nil.
func (g *Gateway) knownProfileLists(p backend.Profile) *clientLists {
	g.perClient.mu.Lock()
	defer g.perClient.mu.Unlock()
	return g.perClient.byProfile[p]
}

// needsProfileFetch reports whether the lists of a backend must be fetched for a
// profile. If a backend offers the usual lists to clients with fewer capabilities, it
// offers them to these. A backend with a session shared by all clients offers the same
// to all.
func (g *Gateway) needsProfileFetch(l *clientLists, b *activeBackend) bool {
	if b.srv.Share || b.Offer().State != backend.Live || l.hasTried(b) {
		return false
	}
	all := &g.perClient
	all.mu.Lock()
	defer all.mu.Unlock()
	var own backend.Profile
	for p, other := range all.byProfile {
		if other == l {
			own = p
		}
	}
	for p, other := range all.byProfile {
		if other != l && p.Within(own) && other.isSame(b) {
			return false
		}
	}
	return true
}

// sessionListsKey is the key of a session's clientLists in its scope.
type sessionListsKey struct{}

// sessionLists returns the lists of a session, nil if it has none.
func sessionLists(scope *mcp.Scope) *clientLists {
	kept, _ := scope.Value(sessionListsKey{}, func() any { return (*clientLists)(nil) })
	l, _ := kept.(*clientLists)
	return l
}

// initSessionLists prepares the lists of a session that begins.
func (g *Gateway) initSessionLists(req *mcp.Request) {
	if g.onlyClient != nil || req.Scope == nil || req.Scope.Unrelated() == nil {
		return
	}
	of := clientOf(req)
	l := &clientLists{g: g, used: &g.perClient.sessionsUsed}
	l.base = func() *view { return g.viewOf(of.Peer) }
	l.fetch = func(ctx context.Context, b *activeBackend) (backend.Lists, error) { return b.ListsFor(ctx, of.at(b)) }
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
	if scope == nil || g.onlyClient != nil {
		return
	}
	l := sessionLists(scope)
	switch {
	case l == nil:
	case ended:
		l.discard(b.Backend)
	default:
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
		_ = g.await(ctx, func(v *view) (time.Duration, bool) { return noLimit, v.isBehind(want) }) // what is known then is the answer
		return
	}
	if req.Scope == nil {
		return
	}
	if l := sessionLists(req.Scope); l != nil {
		l.awaitFetches(ctx, patience, want)
	}
}

// sessionListsReady reports whether awaitSessionLists has nothing to wait for.
func (g *Gateway) sessionListsReady(req *mcp.Request) bool {
	if g.onlyClient != nil {
		return !g.view.Load().isBehind(func(*activeBackend) bool { return true })
	}
	if req.Scope == nil {
		return true
	}
	l := sessionLists(req.Scope)
	return l == nil || l.fetching(func(*activeBackend) bool { return true }) == nil
}

// onlyClient is the client of a Gateway with Options.OneClient.
type onlyClient struct {
	once   sync.Once
	known  chan struct{} // closed when client is set
	client requester
}

// set stores the client of the first request that identifies one.
func (s *onlyClient) set(req *mcp.Request) {
	if s == nil || req.Client == nil {
		return
	}
	s.once.Do(func() {
		s.client = clientOf(req)
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
			return s.client.at(b), true
		case <-ctx.Done():
			return backend.Client{}, false
		}
	}
}

// requester is the client that sent a request.
type requester struct {
	Peer      *mcp.Peer
	Principal string
	Scope     *mcp.Scope
}

func clientOf(req *mcp.Request) requester { return requester{req.Client, req.Principal, req.Scope} }

// at returns the client as a backend knows it, in the scope that its calls have there.
func (r requester) at(b *activeBackend) backend.Client {
	return backend.Client{Peer: r.Peer, Principal: r.Principal, Scope: b.scopeOf(r.Scope, r.Principal)}
}
