// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// userListsReady reports whether awaitUserLists has nothing to wait for.
func (g *Gateway) userListsReady(req *mcp.Request) bool {
	backends := g.view.Load().users.backends()
	if len(backends) == 0 || req.Principal == "" {
		return true
	}
	u := g.userLists.of(viewerOf(req))
	return u == nil || u.isKnown(backends, g.within(req.Profile, anyBackend))
}

// isKnown reports whether the access of the user was looked up just now, and the lists of the
// backends that want accepts are known.
func (u *listUser) isKnown(backends []*activeBackend, want func(*activeBackend) bool) bool {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	return !slices.ContainsFunc(backends, func(b *activeBackend) bool {
		one := u.lists[b.Backend]
		return want(b) && (one == nil || now.Sub(one.checked) >= accessFor || u.isAwaitedLocked(one))
	})
}

// isAwaitedLocked reports whether a backend has not answered the first request for its lists. Its
// own offer may be a moment ahead of what the user is offered.
func (u *listUser) isAwaitedLocked(one *userList) bool {
	_, answered := (*u.offers.Load())[one.of.Backend]
	return one.Backend != nil && !answered
}

// awaitUserLists waits for the lists of the sender of a request at the backends that want accepts,
// until the start of each has taken limit. A negative limit means no limit.
func (g *Gateway) awaitUserLists(ctx context.Context, req *mcp.Request, limit time.Duration, want func(*activeBackend) bool) {
	backends := g.view.Load().users.backends()
	if len(backends) == 0 {
		return
	}
	g.noteUser(req) // the backend may have refused to list for anybody just now
	u := g.userLists.of(viewerOf(req))
	if u == nil {
		return
	}
	want = g.within(req.Profile, want)
	for _, b := range backends {
		if want(b) && u.isCheckDue(b) {
			u.check(ctx, b, accessFor)
		}
	}
	for {
		left, changed, wait := u.pending(limit, want)
		if !wait || g.awaitChange(ctx, changed, left) != nil {
			return
		}
	}
}

func (u *listUser) isCheckDue(b *activeBackend) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	one := u.lists[b.Backend]
	return one == nil || time.Since(one.checked) >= accessFor
}

// pending is view.pending for the lists of a user. changed is closed when an offer has changed.
func (u *listUser) pending(limit time.Duration, want func(*activeBackend) bool) (left time.Duration, changed <-chan struct{}, ok bool) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.lists {
		if !u.isAwaitedLocked(one) || !want(one.of) {
			continue
		}
		switch rest := remainingStart(one.Backend, limit, now); {
		case rest < 0:
			return noLimit, u.changed, true
		case rest > 0:
			left, ok = max(left, rest), true
		}
	}
	return left, u.changed, ok
}
