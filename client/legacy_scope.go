// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// ofScope returns the session of a request's scope.
func (l *legacy) ofScope(ctx context.Context, req *mcp.Request) (lease, error) {
	if l.hasHome(req) {
		if s, err := l.listsHome(ctx, req); s != nil || err != nil {
			return lease{legacySession: s}, err
		}
	}
	sl, err := l.slotOf(req.Scope)
	if err != nil {
		return lease{}, err
	}
	sl.join()
	s := sl.open()
	if s == nil {
		s, err = l.openFor(ctx, sl, req)
	}
	if err != nil {
		sl.rest()
		return lease{}, err
	}
	return lease{legacySession: s, slot: sl}, nil
}

// openFor opens the session of a scope. Both the client's capabilities and the address
// for what belongs to no request are those of the first request: they are the
// session's for as long as it lives.
func (l *legacy) openFor(ctx context.Context, sl *scopedSession, req *mcp.Request) (*legacySession, error) {
	addr := routing{onlyCall: l.dial.sharesStream() || l.OneClient, unrelated: req.Scope.Unrelated()}
	if addr.unrelated != nil {
		addr.scope = req.Scope
	}
	// A scope that nothing can be said to is no client's session: the gateway's own
	// requests have one, to learn what a server offers.
	return sl.get(ctx, l, l.opener(req.Client, addr, addr.unrelated == nil))
}

// slotOf returns the place of a scope's session, which ends with the scope. It is
// bound to the scope once, by whoever comes first; a scope that ends in between has
// the slot ended here, because nothing else would.
func (l *legacy) slotOf(scope *mcp.Scope) (*scopedSession, error) {
	v, ok := scope.Value(l, func() any { return new(scopedSession) })
	if !ok {
		return nil, l.fault(mcp.CodeSessionEnded, mcp.NotDispatched, nil, "the client's session has ended")
	}
	sl, ok := v.(*scopedSession)
	if !ok {
		return nil, l.fault(mcp.CodeInternalError, mcp.NotDispatched, nil, "foreign value in the scope")
	}
	if !sl.tie() {
		return sl, nil
	}
	// Here, and not where the slot is made: what a client says before its first
	// request makes one as well (opened). Nobody looks at it before it is held.
	sl.scope = scope
	l.hold(sl)
	end := func() {
		l.letGo(sl)
		sl.end(l)
	}
	if !scope.OnEnd(end) {
		end()
	}
	return sl, nil
}

// openTaskResult and letGo keep account of the slots of scopes that have not ended.
func (l *legacy) hold(sl *scopedSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = make(map[*scopedSession]struct{})
	}
	l.held[sl] = struct{}{}
}

func (l *legacy) letGo(sl *scopedSession) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.held, sl)
}

func (l *legacy) holding() []*scopedSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Keys(l.held))
}

// makeRoom ends one session that nobody uses now, for the sake of another one. A
// session in the pool is nobody's, and costs the next request a handshake. That of
// a scope costs a client whatever the server keeps for it: it is asked for last,
// the longest unused first, and only its owner can give it up. It reports false
// where all are in use.
func (l *legacy) makeRoom() bool {
	if s := l.pool.oldest(); s != nil {
		l.retire(s)
		return true
	}
	for _, sl := range l.unused() {
		if sl.scope.Yield() {
			return true
		}
	}
	return false
}

// unused returns the slots of scopes that have a session and no request under
// way, the longest unused first. It is a look and no promise: what is used again
// in the next moment is protected by the scope's owner, who alone can tell.
func (l *legacy) unused() []*scopedSession {
	since := make(map[*scopedSession]time.Time)
	for _, sl := range l.holding() {
		if at, idle := sl.idleSince(); idle && !sl.isPinned() {
			since[sl] = at
		}
	}
	return slices.SortedFunc(maps.Keys(since), func(a, b *scopedSession) int { return since[a].Compare(since[b]) })
}
