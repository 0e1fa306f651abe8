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

// overlays are those of all clients of a Gateway. The zero value is ready.
type perClientLists struct {
	profilesUsed, sessionsUsed atomic.Int64

	last atomic.Pointer[parsedProfile]

	mu        sync.Mutex
	byProfile map[backend.Profile]*clientLists
}

// profiled is the profile of the capabilities that were read last.
type parsedProfile struct {
	capabilities string
	profile      backend.Profile
}

// profileOf returns the profile of capabilities: clients declare the same ones with each
// request.
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

// awaitVariant learns what the backends offer to clients with the capabilities of this
// one, unless that is known: once for all such clients. Like the first list of all, it
// waits for at most limits.firstList. A list that comes before has what all have, and
// list_changed follows.
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

// hasVariant reports whether awaitVariant has nothing to wait for.
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

// variantOf returns the overlay for clients with the capabilities of this one, nil if
// the lists of all are fetched with no less, or if it has not said what it can do.
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

// knownVariant returns the overlay for clients of a profile, nil if there is none.
func (g *Gateway) knownProfileLists(p backend.Profile) *clientLists {
	g.perClient.mu.Lock()
	defer g.perClient.mu.Unlock()
	return g.perClient.byProfile[p]
}

// needsVariant reports whether the lists of a backend have to be fetched for a variant.
// A backend that offers the same to clients that can do less offers it to these. One
// that all clients share a session with offers the same to all.
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

// overlayKey is where a scope keeps the overlay of its session.
type sessionListsKey struct{}

// sessionOverlay returns the overlay of a session, nil if it has none.
func sessionLists(scope *mcp.Scope) *clientLists {
	kept, _ := scope.Value(sessionListsKey{}, func() any { return (*clientLists)(nil) })
	l, _ := kept.(*clientLists)
	return l
}

// noteSession prepares the overlay of a session that begins.
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

// noteLists is called when the lists of a backend may have changed for a session, or
// when what they were for it is gone with its session at the backend.
func (g *Gateway) noteListsChanged(b *activeBackend, scope *mcp.Scope, ended bool) {
	switch {
	case !ended && g.onlyClient != nil:
		b.NoteChange()
	case !ended, scope == nil:
		b.Refresh() // the server may mean all, and one client's session is that of the lists
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

// awaitSession waits for lists of the session that are being fetched anew, of the
// backends that want reports.
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

// sessionSettled reports whether awaitSession has nothing to wait for.
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

// sole is the only client of a Gateway that has one.
type onlyClient struct {
	once   sync.Once
	known  chan struct{} // closed when client is set
	client requester
}

// note takes the client of the first request that names one.
func (s *onlyClient) set(req *mcp.Request) {
	if s == nil || req.Client == nil {
		return
	}
	s.once.Do(func() {
		s.client = clientOf(req)
		close(s.known)
	})
}

// of returns what waits for the client on behalf of a backend.
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

// requester is the client that has sent a request.
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
