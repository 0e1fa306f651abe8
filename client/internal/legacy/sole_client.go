// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package legacy

import (
	"context"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// soleClient is the session of a gateway's only client (OneClient) if that client has
// no session of its own. Its calls are made in this session, one at a time, and so are
// its lists and listens. The session is kept when a call is given up, as the process of
// a directly connected server would be.
type soleClient struct {
	session scopedSession

	mu    sync.Mutex
	known bool
	key   call.ClientKey // of the first request
}

// IsOf reports whether the request is from the sole client.
func (h *soleClient) isOf(req *mcp.Request) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.known {
		h.known, h.key = true, call.KeyOf(req)
	}
	return h.key.IsOf(req)
}

// isSoleClient reports whether the sole client's session serves the request. The
// request must not be for a shared session.
func (l *Protocol) isSoleClient(req *mcp.Request) bool {
	return l.OneClient && (req.Scope == nil || req.Scope.Unrelated() == nil) && l.sole.isOf(req)
}

// soleSession returns the session, and opens it if necessary. ours is as in opener.
func (l *Protocol) soleSession(ctx context.Context, req *mcp.Request, ours bool) (*clientSession, error) {
	s, err := l.sole.session.get(ctx, l, l.opener(req.Client, routing{onlyCall: true}, ours))
	if err == nil {
		l.pool.addResident(&l.sole.session, call.KeyOf(req), s, true)
	}
	return s, err
}

// soleSessionForLists is soleSession for lists. It returns nil if the session must wait
// for a call.
func (l *Protocol) soleSessionForLists(ctx context.Context, req *mcp.Request) (*clientSession, error) {
	if hasRoots(req.Client) {
		return l.sole.session.current(), nil
	}
	return l.soleSession(ctx, req, true)
}

// hasRoots reports whether a client has declared roots. A server asks for them right
// after the handshake, and a client without a session can be asked only during a call
// of its own. So the session that is opened for that call becomes the sole client's.
func hasRoots(client *mcp.Peer) bool {
	if client == nil || len(client.Capabilities) == 0 {
		return false
	}
	var declared struct {
		Roots jsontext.Value `json:"roots"`
	}
	return json.Unmarshal(client.Capabilities, &declared) != nil || declared.Roots != nil
}

// makeSole makes the session of a call the sole client's, unless that has one.
func (l *Protocol) makeSole(use *lease) {
	r, old := l.pool.makeResident(&l.sole.session, use.key, use.clientSession)
	l.retire(old)
	if r != nil {
		use.pooled, use.resident = false, r
	}
}

// makeResident stores a borrowed session in sl and makes it a resident. r is nil if sl
// has a session.
func (p *pool) makeResident(sl *scopedSession, key call.ClientKey, s *clientSession) (r *resident, old *clientSession) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return nil, nil
	}
	old, ok := sl.set(s)
	if !ok {
		return nil, nil
	}
	p.open--
	r = &resident{holder: sl, key: key, s: s, lent: true, reusable: true}
	p.addResidentLocked(r)
	return r, old
}
