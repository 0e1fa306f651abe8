// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// home is the session of the only client of a gateway, where that client has none of
// its own: its calls are made in it, one at a time, and its lists and listens are those
// of the same session. It is kept when a call is given up, as the process of a server
// without a gateway would be.
type home struct {
	slot scopedSession

	mu    sync.Mutex
	known bool
	key   poolKey // of the request that came first
}

// isOf reports whether the request is of the client whose home it is.
func (h *home) isOf(req *mcp.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		h.known, h.key = true, keyOf(req)
	}
	return h.key.isOf(req)
}

// hasHome reports whether a request, which is not for a session of all, is to be served
// in the home.
func (l *legacy) hasHome(req *mcp.Request) bool {
	return l.OneClient && (req.Scope == nil || req.Scope.Unrelated() == nil) && l.home.isOf(req)
}

// goHome returns the session, opened if need be. ours is as in opener.
func (l *legacy) goHome(ctx context.Context, req *mcp.Request, ours bool) (*legacySession, error) {
	s, err := l.home.slot.get(ctx, l, l.opener(req.Client, routing{onlyCall: true}, ours))
	if err == nil {
		l.pool.host(&l.home.slot, keyOf(req), s, true)
	}
	return s, err
}

// listsHome is goHome for lists. It returns nil where the session has to wait for a call.
func (l *legacy) listsHome(ctx context.Context, req *mcp.Request) (*legacySession, error) {
	if hasRoots(req.Client) {
		return l.home.slot.open(), nil
	}
	return l.goHome(ctx, req, true)
}

// hasRoots reports whether a client has declared roots. A server asks for them right
// after the handshake, and a client without a session can be asked only while a call of
// its own runs: the session that was opened for that call is its home.
func hasRoots(client *mcp.Peer) bool {
	if client == nil || len(client.Capabilities) == 0 {
		return false
	}
	var declared struct {
		Roots jsontext.Value `json:"roots"`
	}
	return json.Unmarshal(client.Capabilities, &declared) != nil || declared.Roots != nil
}

// settle makes the session of a call the home of its client, where that has none.
func (l *legacy) settle(use *lease) {
	r, old := l.pool.settle(&l.home.slot, use.key, use.legacySession)
	l.retire(old)
	if r != nil {
		use.pooled, use.resident = false, r
	}
}

// settle moves a session that is lent into a slot that has none, as a resident. It
// returns nil where the slot has one.
func (p *pool) settle(sl *scopedSession, key poolKey, s *legacySession) (r *resident, old *legacySession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, nil
	}
	old, ok := sl.put(s)
	if !ok {
		return nil, nil
	}
	p.open--
	r = &resident{slot: sl, key: key, s: s, lent: true, kept: true}
	p.registerLocked(r)
	return r, old
}
