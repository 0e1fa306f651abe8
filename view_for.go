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
type overlays struct {
	variantsUsed, sessionsUsed atomic.Int64

	last atomic.Pointer[profiled]

	mu       sync.Mutex
	variants map[backend.Profile]*overlay
}

// profiled is the profile of the capabilities that were read last.
type profiled struct {
	capabilities string
	profile      backend.Profile
}

// profileOf returns the profile of capabilities: clients declare the same ones with each
// request.
func (o *overlays) profileOf(capabilities []byte) backend.Profile {
	if last := o.last.Load(); last != nil && last.capabilities == string(capabilities) {
		return last.profile
	}
	p := backend.ProfileOf(capabilities)
	o.last.Store(&profiled{string(capabilities), p})
	return p
}

// viewFor returns the view of a client.
func (g *Gateway) viewFor(of requester) *view {
	v := g.viewOf(of.Peer)
	if of.Scope == nil || g.overlays.sessionsUsed.Load() == 0 {
		return v
	}
	if o := sessionOverlay(of.Scope); o != nil {
		return o.over(v)
	}
	return v
}

// viewOf returns the view of clients with the capabilities of this one.
func (g *Gateway) viewOf(client *mcp.Peer) *view {
	v := g.view.Load()
	if g.overlays.variantsUsed.Load() == 0 || client == nil || client.Capabilities == nil {
		return v
	}
	if o := g.knownVariant(g.overlays.profileOf(client.Capabilities)); o != nil {
		return o.over(v)
	}
	return v
}

// awaitVariant learns what the backends offer to clients with the capabilities of this
// one, unless that is known: once for all such clients. Like the first list of all, it
// waits for at most limits.firstList. A list that comes before has what all have, and
// list_changed follows.
func (g *Gateway) awaitVariant(ctx context.Context, client *mcp.Peer) {
	o := g.variantOf(client)
	if o == nil {
		return
	}
	v := g.view.Load()
	for _, u := range v.units {
		if g.needsVariant(o, u) {
			o.refresh(u)
		}
	}
	o.settle(ctx, v.cfg.Limits.FirstList, func(*unit) bool { return true })
}

// hasVariant reports whether awaitVariant has nothing to wait for.
func (g *Gateway) hasVariant(client *mcp.Peer) bool {
	o := g.variantOf(client)
	if o == nil {
		return true
	}
	for _, u := range g.view.Load().units {
		if g.needsVariant(o, u) {
			return false
		}
	}
	return o.busy(func(*unit) bool { return true }) == nil
}

// variantOf returns the overlay for clients with the capabilities of this one, nil if
// the lists of all are fetched with no less, or if it has not said what it can do.
func (g *Gateway) variantOf(client *mcp.Peer) *overlay {
	if g.sole != nil || client == nil || client.Capabilities == nil {
		return nil
	}
	p := g.overlays.profileOf(client.Capabilities)
	if p == backend.FullProfile {
		return nil
	}
	all := &g.overlays
	all.mu.Lock()
	defer all.mu.Unlock()
	o := all.variants[p]
	if o == nil {
		if all.variants == nil {
			all.variants = make(map[backend.Profile]*overlay)
		}
		o = &overlay{g: g, used: &all.variantsUsed, beneath: g.view.Load}
		o.fetch = func(ctx context.Context, u *unit) (backend.Lists, error) { return u.ListsOf(ctx, p) }
		all.variants[p] = o
	}
	return o
}

// knownVariant returns the overlay for clients of a profile, nil if there is none.
func (g *Gateway) knownVariant(p backend.Profile) *overlay {
	g.overlays.mu.Lock()
	defer g.overlays.mu.Unlock()
	return g.overlays.variants[p]
}

// needsVariant reports whether the lists of a backend have to be fetched for a variant.
// A backend that offers the same to clients that can do less offers it to these. One
// that all clients share a session with offers the same to all.
func (g *Gateway) needsVariant(o *overlay, u *unit) bool {
	if u.srv.Share || u.Offer().State != backend.Live || o.knows(u) {
		return false
	}
	all := &g.overlays
	all.mu.Lock()
	defer all.mu.Unlock()
	var own backend.Profile
	for p, other := range all.variants {
		if other == o {
			own = p
		}
	}
	for p, other := range all.variants {
		if other != o && p.Within(own) && other.isSame(u) {
			return false
		}
	}
	return true
}

// overlayKey is where a scope keeps the overlay of its session.
type overlayKey struct{}

// sessionOverlay returns the overlay of a session, nil if it has none.
func sessionOverlay(scope *mcp.Scope) *overlay {
	kept, _ := scope.Value(overlayKey{}, func() any { return (*overlay)(nil) })
	o, _ := kept.(*overlay)
	return o
}

// noteSession prepares the overlay of a session that begins.
func (g *Gateway) noteSession(req *mcp.Request) {
	if g.sole != nil || req.Scope == nil || req.Scope.Unrelated() == nil {
		return
	}
	of := clientOf(req)
	o := &overlay{g: g, used: &g.overlays.sessionsUsed}
	o.beneath = func() *view { return g.viewOf(of.Peer) }
	o.fetch = func(ctx context.Context, u *unit) (backend.Lists, error) { return u.ListsFor(ctx, of.at(u)) }
	if _, ok := req.Scope.Value(overlayKey{}, func() any { return o }); ok && !req.Scope.OnEnd(o.end) {
		o.end()
	}
}

// noteLists is called when the lists of a backend may have changed for a session, or
// when what they were for it is gone with its session at the backend.
func (g *Gateway) noteLists(u *unit, scope *mcp.Scope, ended bool) {
	switch {
	case !ended && g.sole != nil:
		u.NoteChange()
	case !ended, scope == nil:
		u.Refresh() // the server may mean all, and one client's session is that of the lists
	}
	if scope == nil || g.sole != nil {
		return
	}
	o := sessionOverlay(scope)
	switch {
	case o == nil:
	case ended:
		o.forget(u.Backend)
	default:
		o.refresh(u)
	}
}

// awaitSession waits for lists of the session that are being fetched anew, of the
// backends that want reports.
func (g *Gateway) awaitSession(ctx context.Context, req *mcp.Request, want func(*unit) bool) {
	patience := g.view.Load().cfg.Limits.Handshake
	if g.sole != nil {
		ctx, cancel := withTimeout(ctx, patience)
		defer cancel()
		_ = g.await(ctx, func(v *view) (time.Duration, bool) { return always, v.isBehind(want) }) // what is known then is the answer
		return
	}
	if req.Scope == nil {
		return
	}
	if o := sessionOverlay(req.Scope); o != nil {
		o.settle(ctx, patience, want)
	}
}

// sessionSettled reports whether awaitSession has nothing to wait for.
func (g *Gateway) sessionSettled(req *mcp.Request) bool {
	if g.sole != nil {
		return !g.view.Load().isBehind(func(*unit) bool { return true })
	}
	if req.Scope == nil {
		return true
	}
	o := sessionOverlay(req.Scope)
	return o == nil || o.busy(func(*unit) bool { return true }) == nil
}

// sole is the only client of a Gateway that has one.
type sole struct {
	once   sync.Once
	known  chan struct{} // closed when client is set
	client requester
}

// note takes the client of the first request that names one.
func (s *sole) note(req *mcp.Request) {
	if s == nil || req.Client == nil {
		return
	}
	s.once.Do(func() {
		s.client = clientOf(req)
		close(s.known)
	})
}

// of returns what waits for the client on behalf of a backend.
func (s *sole) of(u *unit) func(ctx context.Context) (backend.Client, bool) {
	if s == nil {
		return nil
	}
	return func(ctx context.Context) (backend.Client, bool) {
		select {
		case <-s.known:
			return s.client.at(u), true
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
func (r requester) at(u *unit) backend.Client {
	return backend.Client{Peer: r.Peer, Principal: r.Principal, Scope: u.scopeOf(r.Scope, r.Principal)}
}
