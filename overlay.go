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

// Most backends offer the same to all clients, and the catalog has that once. Two kinds
// of backends do not: some offer a tool only to clients with certain capabilities, and
// some change their lists for one session. A clientLists holds what such backends offer
// to clients with the same capabilities or to one session, and builds the view of it.

// clientLists are the lists that differ from those of a base view. The zero value is
// not usable.
type clientLists struct {
	g *Gateway

	// base returns the base view. fetch fetches the lists of a backend on behalf of the
	// client.
	base func() *view
	fetch   func(ctx context.Context, u *activeBackend) (backend.Lists, error)

	// used counts the backendLists of this kind that differ from the base.
	used *atomic.Int64

	mu           sync.Mutex
	own           map[*backend.Backend]*backendLists // nil until used: most sessions have none
	closed        bool
	builtOn, built *view // built is built on builtOn
}

// backendLists are the lists of one backend in a clientLists.
type backendLists struct {
	tried bool           // a fetch has succeeded or failed
	same  bool           // the fetched lists equal the base
	lists *backend.Lists // nil if they equal the base
	base backend.Lists  // the base lists at the time of the fetch

	dirty bool          // they may have changed since the current fetch began
	busy   chan struct{} // closed when the current fetch has ended; nil without one
}

// refresh starts fetching the lists of a backend in the background. If a fetch is
// running, another follows it.
func (o *clientLists) refresh(u *activeBackend) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refreshLocked(u)
}

func (o *clientLists) refreshLocked(u *activeBackend) {
	if o.closed {
		return
	}
	own := o.own[u.Backend]
	if own == nil {
		own = &backendLists{}
		if o.own == nil {
			o.own = make(map[*backend.Backend]*backendLists)
		}
		o.own[u.Backend] = own
	}
	own.dirty = true
	if own.busy != nil {
		return
	}
	own.busy = make(chan struct{})
	// Ends with the fetches, each with a time limit; Gateway.stop waits for it.
	if !o.g.begin(func() { o.keepFetching(u, own) }) {
		o.doneLocked(own)
	}
}

// minRefetchInterval is the shortest time between two fetches, however often the lists
// of a session change. It is short, because requests wait for the lists.
const minRefetchInterval = 200 * time.Millisecond

// keepFetching fetches until the lists are as new as the last refresh.
func (o *clientLists) keepFetching(u *activeBackend, own *backendLists) {
	for o.fetchOnce(u, own) {
		sleep(o.g.ctx, minRefetchInterval)
	}
	o.g.changed.wakeAll()
}

// fetchOnce reports whether another fetch must follow. If the fetch fails, the previous
// lists stay, or those of the base if there are none.
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: it outlives the request
func (o *clientLists) fetchOnce(u *activeBackend, own *backendLists) (again bool) {
	ctx, cancel := withTimeout(o.g.ctx, o.g.view.Load().cfg.Limits.Handshake)
	defer cancel()
	o.clearDirty(own)
	since := o.base().listsOf(u)
	lists, err := o.fetch(ctx, u)
	if err != nil {
		o.g.log.Debug("lists for a client could not be fetched", slog.String("backend", u.Name()), slog.Any("err", err))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	own.tried = true
	if err == nil && !o.closed {
		own.base = since
		o.setLocked(own, &lists)
		own.same = own.lists == nil
	}
	if own.dirty && err == nil && !o.closed {
		return true
	}
	o.doneLocked(own)
	return false
}

// clearDirty is called before the fetch, so that a change during it causes another.
func (o *clientLists) clearDirty(own *backendLists) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own.dirty = false
}

func (o *clientLists) doneLocked(own *backendLists) {
	close(own.busy)
	own.busy = nil
}

// setLocked stores fetched lists. Lists that equal the base are stored as nil.
func (o *clientLists) setLocked(own *backendLists, lists *backend.Lists) {
	if lists != nil && lists.Equal(&own.base) {
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

// discard drops the lists of a backend after its session has ended.
func (o *clientLists) discard(b *backend.Backend) {
	if o.drop(b) {
		o.g.changed.wakeAll()
	}
}

func (o *clientLists) drop(b *backend.Backend) (changed bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own[b]
	if own == nil {
		return false
	}
	changed = own.lists != nil
	o.setLocked(own, nil)
	return changed
}

// close drops all lists and stores no more.
func (o *clientLists) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	for _, own := range o.own {
		o.setLocked(own, nil)
	}
}

// view returns the client's view, built on v. If the base lists have changed since a
// fetch, it starts another fetch.
func (o *clientLists) view(v *view) *view {
	o.mu.Lock()
	defer o.mu.Unlock()
	if v == o.builtOn && o.built != nil {
		return o.built
	}
	o.dropRemovedLocked(v)
	offers, differs := slices.Clone(v.offered), false
	for i, u := range v.backends {
		own := o.own[u.Backend]
		if own == nil || own.lists == nil {
			continue
		}
		if !own.base.Equal(&offers[i].Lists) {
			own.base = offers[i].Lists
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
	o.builtOn, o.built = v, v
	if differs {
		next := *v
		next.offered, next.catalog = offers, v.build(offers)
		next.discovery = o.g.discoveryOf(next.catalog)
		o.built = &next
	}
	return o.built
}

// dropRemovedLocked drops the lists of backends that a reload has removed.
func (o *clientLists) dropRemovedLocked(v *view) {
	for b, own := range o.own {
		if own.busy == nil && !slices.ContainsFunc(v.backends, func(u *activeBackend) bool { return u.Backend == b }) {
			o.setLocked(own, nil)
			delete(o.own, b)
		}
	}
}

// awaitFetches waits until no backend that want accepts is being fetched, the timeout
// has passed, or ctx ends.
func (o *clientLists) awaitFetches(ctx context.Context, patience time.Duration, want func(*activeBackend) bool) {
	ctx, cancel := withTimeout(ctx, patience)
	defer cancel()
	for {
		busy := o.fetching(want)
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

// hasTried reports whether the lists of a backend were fetched, or are being fetched.
func (o *clientLists) hasTried(u *activeBackend) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own[u.Backend]
	return own != nil && (own.tried || own.busy != nil)
}

// isSame reports whether the lists of a backend are known to equal the base.
func (o *clientLists) isSame(u *activeBackend) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	own := o.own[u.Backend]
	return own != nil && own.same
}

// fetching returns a channel that is closed when a running fetch has ended, or nil.
func (o *clientLists) fetching(want func(*activeBackend) bool) <-chan struct{} {
	units := o.g.view.Load().backends
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, u := range units {
		if own := o.own[u.Backend]; own != nil && own.busy != nil && want(u) {
			return own.busy
		}
	}
	return nil
}
