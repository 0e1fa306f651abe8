// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxAsks bounds the asks of one session that wait for an answer.
const maxAsks = 16

// asks are the requests of one backend session to its client while they wait for
// an answer. The zero value is ready.
type asks struct {
	mu   sync.Mutex
	open map[mcp.ID]context.CancelFunc
}

// begin notes an ask. It reports false when there are too many, or when its id is
// in use.
func (a *asks) begin(id mcp.ID, cancel context.CancelFunc) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, taken := a.open[id]; taken || len(a.open) >= maxAsks {
		return false
	}
	if a.open == nil {
		a.open = make(map[mcp.ID]context.CancelFunc)
	}
	a.open[id] = cancel
	return true
}

func (a *asks) end(id mcp.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.open, id)
}

// cancel ends the ask of the given id: its backend wants no answer any more.
func (a *asks) cancel(id mcp.ID) {
	if cancel := a.find(id); cancel != nil {
		cancel()
	}
}

func (a *asks) find(id mcp.ID) context.CancelFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open[id]
}

// askThem puts a backend's request to the caller, in a goroutine of the
// session's, and answers it. The ask ends with ctx, with the session, or when the
// backend takes it back.
func (s *legacySession) askThem(ctx context.Context, m *mcp.Message, caller mcp.Caller) {
	// Waited for by the session's end; ended by the answer or by one of the contexts.
	s.tasks.start(func(life context.Context) { s.serveAsk(ctx, life, m, caller) })
}

// serveAsk is one ask. ctx is that of what it is taken to belong to, life is the
// session's.
func (s *legacySession) serveAsk(ctx, life context.Context, m *mcp.Message, caller mcp.Caller) {
	own, cancel := context.WithCancel(life)
	defer cancel()
	if !s.asks.begin(m.ID, cancel) {
		s.refuse(life, m.ID, mcp.Errorf(mcp.CodeInternalError, "too many requests are waiting for an answer"))
		return
	}
	defer s.asks.end(m.ID)
	res, err := s.putAsk(ctx, own, m, caller)
	if err != nil && ctx.Err() != nil && own.Err() == nil && s.isStrayAsk(m) {
		res, err = s.putAsk(own, own, m, s.addr.unrelated)
	}
	s.answer(life, m.ID, res, err)
}

// isStrayAsk reports whether an ask whose call has ended can have another
// addressee. On a pipe the call was a guess, and a call that ends before its ask
// is answered was a wrong one. But the client may have been asked by then, so
// that only what can be asked twice is: the list of roots, which is what servers
// ask for outside every request.
func (s *legacySession) isStrayAsk(m *mcp.Message) bool {
	return s.addr.onlyCall && s.addr.unrelated != nil && m.Method == methodRoots
}

// putAsk puts an ask to a caller until either context ends.
func (s *legacySession) putAsk(ctx, own context.Context, m *mcp.Message, caller mcp.Caller) (*mcp.Result, error) {
	ctx, cancel := both(ctx, own)
	defer cancel()
	if ctx.Err() == nil {
		res, err := caller.Ask(ctx, &mcp.Request{Method: m.Method, Params: m.Params, Client: s.self()})
		if err == nil || ctx.Err() == nil {
			return res, err
		}
	}
	return nil, mcp.Errorf(mcp.CodeInternalError, "the request that this one belongs to has ended")
}

// answer sends the answer to an ask.
func (s *legacySession) answer(ctx context.Context, id mcp.ID, res *mcp.Result, err error) {
	switch {
	case err != nil:
		s.refuse(ctx, id, mcp.ToWire(err))
	case res == nil:
		s.refuse(ctx, id, mcp.Errorf(mcp.CodeInternalError, "no answer"))
	default:
		s.send(ctx, mcp.AppendResult(nil, id, res.Bytes()))
	}
}

// refuse answers an ask with an error.
func (s *legacySession) refuse(ctx context.Context, id mcp.ID, err *mcp.Error) {
	s.send(ctx, mcp.AppendError(nil, id, err))
}

// refuseAsk refuses what the server asks during a call of the session's own.
func (s *legacySession) refuseAsk(_ context.Context, m *mcp.Message) {
	s.tasks.start(func(ctx context.Context) { // bounded by send
		s.refuse(ctx, m.ID, mcp.Errorf(mcp.CodeMethodNotFound, "%.60q: there is nobody to ask", m.Method))
	})
}
