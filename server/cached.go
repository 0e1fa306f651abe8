// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"errors"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// errNotCached reports that a request must be served as usual.
var errNotCached = errors.New("the handler has no cached answer")

// answerCached answers a list request on the goroutine of the request if the Handler has
// the answer cached. Nothing in it blocks, so there is nothing to cancel, and it does not
// count as a request in flight. It reports false, and has done nothing, if the request
// must be served as usual.
func (s *Server) answerCached(ctx context.Context, p *response, id mcp.ID, req *mcp.Request, enc encoder) bool {
	h, ok := s.handler.(mcp.HandlerExtension)
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

// encodeOutcome returns the terminal message for the outcome of a request.
func (s *Server) encodeOutcome(ctx context.Context, id mcp.ID, req *mcp.Request, enc encoder, res *mcp.Result, err error) session.Message {
	if err != nil {
		return enc.failure(id, req, s.wireError(ctx, req, err))
	}
	return enc.result(nil, id, req, res)
}

// serveCached asks the Handler for a cached answer. It is registered as in flight
// meanwhile, so that a Server that has ended calls no Handler; one that is draining
// refuses in the usual way.
func (s *Server) serveCached(ctx context.Context, h mcp.HandlerExtension, req *mcp.Request) (*mcp.Result, error) {
	entry := &inflight{kind: kindCall, stop: session.StopFunc(func(error) {})}
	if !s.inflight.add(entry) {
		return nil, errNotCached
	}
	defer s.inflight.remove(entry)
	return s.callHandler(ctx, cachedHandler{h}, req, noCaller{})
}

// cachedHandler is a Handler with only the cached answers of an [mcp.HandlerExtension].
type cachedHandler struct{ mcp.HandlerExtension }

// Serve fails with errNotCached if there is no cached answer.
func (h cachedHandler) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if res, ok := h.ServeNow(req); ok {
		return res, nil
	}
	return nil, errNotCached
}
