// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// acquireScoped returns the session of the request's scope.
func (l *Protocol) acquireScoped(ctx context.Context, req *mcp.Request) (lease, error) {
	if l.isSoleClient(req) {
		if s, err := l.soleSessionForLists(ctx, req); s != nil || err != nil {
			return lease{clientSession: s}, err
		}
	}
	sl, err := l.scopedFor(req.Scope)
	if err != nil {
		return lease{}, err
	}
	sl.acquire()
	s := sl.current()
	if s == nil {
		s, err = l.openScoped(ctx, sl, req)
	}
	if err != nil {
		sl.release()
		return lease{}, err
	}
	return lease{clientSession: s, scoped: sl}, nil
}

// openScoped opens the session of a scope. The first request determines the client's
// capabilities and the caller for messages that belong to no call, for the lifetime of
// the session.
func (l *Protocol) openScoped(ctx context.Context, sl *scopedSession, req *mcp.Request) (*clientSession, error) {
	route := routing{onlyCall: l.dial.SharesStream() || l.OneClient, unrelated: req.Scope.Unrelated()}
	if route.unrelated != nil {
		route.scope = req.Scope
	}
	// A scope without an unrelated caller is not a client's: the gateway uses one to
	// learn what a server offers.
	return sl.get(ctx, l, l.opener(req.Client, route, route.unrelated == nil))
}

// scopedFor returns the scopedSession of a scope. The first caller binds it to the
// scope, so that it ends with the scope. If the scope ends in between, scopedFor ends
// it.
func (l *Protocol) scopedFor(scope *mcp.Scope) (*scopedSession, error) {
	v, ok := scope.Value(l, func() any { return new(scopedSession) })
	if !ok {
		return nil, l.Fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	sl, ok := v.(*scopedSession)
	if !ok {
		return nil, l.Fault(mcp.CodeInternalError, mcp.NotDispatched, nil, "foreign value in the scope")
	}
	if !sl.bind() {
		return sl, nil
	}
	// Not where the value is created: openSession creates one as well, for
	// notifications before the first request. scope is read only after trackScoped.
	sl.scope = scope
	l.trackScoped(sl)
	end := func() {
		l.untrackScoped(sl)
		sl.end(l)
	}
	if !scope.OnEnd(end) {
		end()
	}
	return sl, nil
}

// trackScoped adds sl to the scopes that have not ended, untrackScoped removes it.
func (l *Protocol) trackScoped(sl *scopedSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.scoped == nil {
		l.scoped = make(map[*scopedSession]struct{})
	}
	l.scoped[sl] = struct{}{}
}

func (l *Protocol) untrackScoped(sl *scopedSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.scoped, sl)
}

func (l *Protocol) scopedSessions() []*scopedSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.scoped))
}

// makeRoom ends one idle session to make room for another one, and reports whether it
// has. It prefers a session of the pool, which costs the next request a handshake.
// Ending that of a scope costs the client what the server keeps for it, so scopes are
// asked last, the longest idle first, and only the scope's owner can decide.
func (l *Protocol) makeRoom() bool {
	if s := l.pool.evictOldest(); s != nil {
		l.retire(s)
		return true
	}
	for _, sl := range l.idleScoped() {
		if sl.scope.Yield() {
			return true
		}
	}
	return false
}

// idleScoped returns the scopes that have a session and no request in progress, the
// longest idle first. One of them may be used again at any moment; Scope.Yield refuses
// then.
func (l *Protocol) idleScoped() []*scopedSession {
	since := make(map[*scopedSession]time.Time)
	for _, sl := range l.scopedSessions() {
		if at, idle := sl.idleSince(); idle && !sl.isKeptForTask() {
			since[sl] = at
		}
	}
	return slices.SortedFunc(maps.Keys(since), func(a, b *scopedSession) int { return since[a].Compare(since[b]) })
}
