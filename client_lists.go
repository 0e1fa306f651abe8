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
	base  func() *view
	fetch func(ctx context.Context, b *activeBackend) (backend.Lists, error)

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

	dirty bool          // they may have changed since the current fetch began
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
	for l.fetchOnce(b, own) {
		backoff.Sleep(l.g.ctx, minRefetchInterval)
	}
	l.g.changed.wakeAll()
}

// fetchOnce reports whether another fetch must follow. If the fetch fails, the previous
// lists stay; without previous lists, those of the base are used.
//
//nolint:contextcheck,nolintlint // read from here by contextcheck for all callers: it outlives the request
func (l *clientLists) fetchOnce(b *activeBackend, own *backendLists) (again bool) {
	ctx, cancel := withTimeout(l.g.ctx, l.g.view.Load().cfg.Limits.Handshake)
	defer cancel()
	l.clearDirty(own)
	since := l.base().listsOf(b)
	lists, err := l.fetch(ctx, b)
	if err != nil {
		l.g.log.Debug("could not fetch the lists for a client", slog.String("backend", b.Name()), slog.Any("err", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own.tried = true
	if err == nil && !l.closed {
		own.base = since
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
func (l *clientLists) clearDirty(own *backendLists) {
	l.mu.Lock()
	defer l.mu.Unlock()
	own.dirty = false
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
	l.mu.Lock()
	defer l.mu.Unlock()
	if v == l.builtOn && l.built != nil {
		return l.built
	}
	l.dropRemovedLocked(v)
	offers, differs := slices.Clone(v.offered), false
	for i, b := range v.backends {
		own := l.own[b.Backend]
		if own == nil || own.lists == nil {
			continue
		}
		if !own.base.Equal(&offers[i].Lists) {
			own.base = offers[i].Lists
			l.setLocked(own, own.lists)
			l.refreshLocked(b)
		}
		if own.lists != nil {
			differs = true
			next := *offers[i]
			next.Lists = *own.lists
			offers[i] = &next
		}
	}
	l.builtOn, l.built = v, v
	if differs {
		next := *v
		next.offered, next.catalog = offers, v.build(offers)
		next.discovery = l.g.discoveryOf(next.catalog)
		l.built = &next
	}
	return l.built
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

// hasTried reports whether the lists of a backend were fetched, or are being fetched.
func (l *clientLists) hasTried(b *activeBackend) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.own[b.Backend]
	return own != nil && (own.tried || own.busy != nil)
}

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
