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
var errNotNow = errors.New("the handler has no answer at hand")

// answerNow answers a list that the Handler has at hand, on the goroutine that the
// request came on. It is no task: nothing of it waits, so that there is nothing to
// cancel and nothing in flight to be bounded. It reports false, and has done nothing,
// for what is to be served as usual.
func (s *Server) answerNow(ctx context.Context, p *response, id mcp.ID, req *mcp.Request, d dialect) bool {
	h, ok := s.handler.(mcp.Instant)
	if !ok || !isList(req.Method) {
		return false
	}
	res, err := s.serveNow(ctx, h, req)
	if errors.Is(err, errNotNow) || err == nil && res == nil {
		return false
	}
	s.requests.Add(1)
	answer := s.say(ctx, id, req, d, res, err)
	p.json(&answer)
	if p.err != nil {
		p.cut = true
		s.counts.Undelivered.Add(1)
	}
	return true
}

// say makes the terminal out of what came of a request.
func (s *Server) say(ctx context.Context, id mcp.ID, req *mcp.Request, d dialect, res *mcp.Result, err error) session.Message {
	if err != nil {
		return d.failure(id, req, s.wireError(ctx, req, err))
	}
	return d.result(nil, id, req, res)
}

// serveNow asks the Handler for what it has at hand. It is a flight for as long as
// that takes, so that a Server which has ended asks nothing; one that is draining
// refuses in the usual way.
func (s *Server) serveNow(ctx context.Context, h mcp.Instant, req *mcp.Request) (*mcp.Result, error) {
	fl := &flight{kind: call, stop: session.StopFunc(func(error) {})}
	if !s.flights.enter(fl) {
		return nil, errNotNow
	}
	defer s.flights.leave(fl)
	return s.serveBy(ctx, atHand{h}, req, silent{})
}

// atHand is a Handler that has answers at hand, as a Handler that has no others.
type atHand struct{ mcp.Instant }

// Serve fails with errNotNow where there is none.
func (h atHand) Serve(_ context.Context, req *mcp.Request, _ mcp.Caller) (*mcp.Result, error) {
	if res, ok := h.ServeNow(req); ok {
		return res, nil
	}
	return nil, errNotNow
}
