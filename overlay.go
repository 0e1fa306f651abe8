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
)

// Most backends offer the same to all clients, and the catalog has that once. Two
// kinds of backends do not: some offer a tool only to clients with certain capabilities,
// and some change their lists for one session. An overlay holds what such backends
// offer to one kind of client or to one session, and makes the view of it.

// overlay is what differs from the view below it. The zero value is not usable.
type overlay struct {
	g *Gateway

	// beneath returns the view below. fetch asks a backend for its lists as those are
	// seen here.
	beneath func() *view
	fetch   func(ctx context.Context, u *unit) (backend.Lists, error)

	// used counts the overlays of its kind that differ from what is below.
	used *atomic.Int64

	mu           sync.Mutex
	by           map[*backend.Backend]*ownLists // nil until there is one: most sessions have none
	ended        bool
	below, built *view // built is made of below
}

// ownLists are the lists of one backend in an overlay.
type ownLists struct {
	known bool           // they were fetched, or could not be
	same  bool           // they were fetched, and are those below
	lists *backend.Lists // nil if they are those below
	since backend.Lists  // below, when they were fetched

	wanted bool          // they may have changed since the fetch under way began
	busy   chan struct{} // closed when the fetch under way has ended; nil without one
}

// refresh has the lists of a backend fetched in the background, and once more if they
// may change again meanwhile.
func (o *overlay) refresh(u *unit) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refreshLocked(u)
}

func (o *overlay) refreshLocked(u *unit) {
	if o.ended {
		return
	}
	own := o.by[u.Backend]
	if own == nil {
		own = &ownLists{}
		if o.by == nil {
			o.by = make(map[*backend.Backend]*ownLists)
		}
		o.by[u.Backend] = own
	}
	own.wanted = true
	if own.busy != nil {
		return
	}
	own.busy = make(chan struct{})
	// Ends with the fetches, each of which is bounded; Gateway.stop waits for it.
	if !o.g.begin(func() { o.keepFetching(u, own) }) {
		o.doneLocked(own)
	}
}

// refetchEvery is the shortest time between two fetches, however often the lists of a
// session change. It is short, because requests wait for the lists.
const refetchEvery = 200 * time.Millisecond

// keepFetching fetches until the lists are those of the last refresh.
func (o *overlay) keepFetching(u *unit, own *ownLists) {
	for o.fetchOnce(u, own) {
		pause(o.g.ctx, refetchEvery)
	}
	o.g.changes.announce()
}

// fetchOnce reports whether there is to be another fetch. Where it fails, what was
// known stays, and the lists below hold if nothing was.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: it outlives the request
func (o *overlay) fetchOnce(u *unit, own *ownLists) (again bool) {
	ctx, cancel := withTimeout(o.g.ctx, o.g.view.Load().cfg.Limits.Handshake)
	defer cancel()
	o.take(own)
	since := o.beneath().listsOf(u)
	lists, err := o.fetch(ctx, u)
	if err != nil {
		o.g.log.Debug("lists for a client could not be fetched", slog.String("backend", u.Name()), slog.Any("err", err))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	own.known = true
	if err == nil && !o.ended {
		own.since = since
		o.setLocked(own, &lists)
		own.same = own.lists == nil
	}
	if own.wanted && err == nil && !o.ended {
		return true
	}
	o.doneLocked(own)
	return false
}

// take comes before the fetch: what changes meanwhile is fetched once more.
func (o *overlay) take(own *ownLists) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own.wanted = false
}

func (o *overlay) doneLocked(own *ownLists) {
	close(own.busy)
	own.busy = nil
}

// setLocked notes lists that were fetched. Those below are none of its own.
func (o *overlay) setLocked(own *ownLists, lists *backend.Lists) {
	if lists != nil && lists.Equal(&own.since) {
		lists = nil
	}
	if had, has := own.lists != nil, lists != nil; had != has {
		if has {
			o.used.Add(1)
		} else {
			o.used.Add(-1)
		}
	}
	own.lists, o.built = lists, nil
}

// forget drops the lists of a backend, whose session is gone.
func (o *overlay) forget(b *backend.Backend) {
	if o.drop(b) {
		o.g.changes.announce()
	}
}

func (o *overlay) drop(b *backend.Backend) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.by[b]
	if own == nil {
		return false
	}
	changed = own.lists != nil
	o.setLocked(own, nil)
	return changed
}

// end drops all lists for good.
func (o *overlay) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	for _, own := range o.by {
		o.setLocked(own, nil)
	}
}

// over returns the view for the clients of the overlay, made of the view below. Where
// the lists below have changed since a fetch there is another one.
func (o *overlay) over(v *view) *view {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v == o.below && o.built != nil {
		return o.built
	}
	o.dropGoneLocked(v)
	offers, differs := slices.Clone(v.offered), false
	for i, u := range v.units {
		own := o.by[u.Backend]
		if own == nil || own.lists == nil {
			continue
		}
		if !own.since.Equal(&offers[i].Lists) {
			own.since = offers[i].Lists
			o.setLocked(own, own.lists)
			o.refreshLocked(u)
		}
		if own.lists != nil {
			differs = true
			next := *offers[i]
			next.Lists = *own.lists
			offers[i] = &next
		}
	}
	o.below, o.built = v, v
	if differs {
		next := *v
		next.offered, next.catalog = offers, v.build(offers)
		next.discovery = o.g.discoveryOf(next.catalog)
		o.built = &next
	}
	return o.built
}

// dropGoneLocked drops the lists of backends that a reload has ended.
func (o *overlay) dropGoneLocked(v *view) {
	for b, own := range o.by {
		if own.busy == nil && !slices.ContainsFunc(v.units, func(u *unit) bool { return u.Backend == b }) {
			o.setLocked(own, nil)
			delete(o.by, b)
		}
	}
}

// settle waits until no fetch of a backend that want reports is under way, or for the
// time, or until ctx ends.
func (o *overlay) settle(ctx context.Context, patience time.Duration, want func(*unit) bool) {
	ctx, cancel := withTimeout(ctx, patience)
	defer cancel()
	for {
		busy := o.busy(want)
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

// knows reports whether the lists of a backend were fetched, or are about to be.
func (o *overlay) knows(u *unit) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.by[u.Backend]
	return own != nil && (own.known || own.busy != nil)
}

// isSame reports whether the lists of a backend are known to be those below.
func (o *overlay) isSame(u *unit) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.by[u.Backend]
	return own != nil && own.same
}

// busy returns the end of a fetch under way, or nil.
func (o *overlay) busy(want func(*unit) bool) <-chan struct{} {
	units := o.g.view.Load().units
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range units {
		if own := o.by[u.Backend]; own != nil && own.busy != nil && want(u) {
			return own.busy
		}
	}
	return nil
}
