// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// errNotNow says that a request is to be served as usual.
var errNotCached = errors.New("the handler has no answer at hand")

// answerNow answers a list that the Handler has at hand, on the goroutine that the
// request came on. It is no task: nothing of it waits, so that there is nothing to
// cancel and nothing in flight to be bounded. It reports false, and has done nothing,
// for what is to be served as usual.
func (s *Server) answerCached(ctx context.Context, p *response, id mcp.ID, req *mcp.Request, enc encoder) bool {
	h, ok := s.handler.(mcp.Instant)
	if !ok || !isList(req.Method) {
		return false
	}
	res, err := s.serveCached(ctx, h, req)
	if errors.Is(err, errNotCached) || err == nil && res == nil {
		return false
	}
	s.requests.Add(1)
	answer := s.encodeOutcome(ctx, id, req, enc, res, err)
	p.writeJSON(&answer)
	if p.err != nil {
		p.aborted = true
		s.counts.Undelivered.Add(1)
	}
	return true
}

// say makes the terminal out of what came of a request.
func (s *Server) encodeOutcome(ctx context.Context, id mcp.ID, req *mcp.Request, enc encoder, res *mcp.Result, err error) session.Message {
	if err != nil {
		return enc.failure(id, req, s.wireError(ctx, req, err))
	}
	return enc.result(nil, id, req, res)
}

// serveNow asks the Handler for what it has at hand. It is a flight for as long as
// that takes, so that a Server which has ended asks nothing; one that is draining
// refuses in the usual way.
func (s *Server) serveCached(ctx context.Context, h mcp.Instant, req *mcp.Request) (*mcp.Result, error) {
	entry := &inflight{kind: kindCall, stop: session.StopFunc(func(error) {})}
	if !s.inflight.add(entry) {
		return nil, errNotCached
	}
	defer s.inflight.remove(entry)
	return s.callHandler(ctx, cachedHandler{h}, req, noCaller{})
}

// atHand is a Handler that has answers at hand, as a Handler that has no others.
type cachedHandler struct{ mcp.Instant }

// Serve fails with errNotNow where there is none.
func (h cachedHandler) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if res, ok := h.ServeNow(req); ok {
		return res, nil
	}
	return nil, errNotCached
}
