// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serialQueue passes the notifications of a session that supersede each other to the
// Handler one at a time, each when the Handler has returned from the one before.
type serialQueue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed when the newest has been handled, nil before the first
}

type serialQueueKey struct{}

// next returns a channel that is closed when the next notification may be handled, nil if
// it may be at once, and a function to call when it has been.
func (q *serialQueue) next() (before <-chan struct{}, over func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan struct{})
	before, q.last = q.last, done
	return before, func() { close(done) }
}

// serialize returns the Handler for the next such notification, which must be passed to
// it.
func (s *Server) serialize(sess *session.Session) mcp.Handler {
	kept, ok := sess.Scope.Value(serialQueueKey{}, func() any { return new(serialQueue) })
	q, isTurns := kept.(*serialQueue)
	if !ok || !isTurns {
		return s.handler // the session has ended
	}
	before, over := q.next()
	return mcp.HandlerFunc(func(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
		defer over()
		if before != nil {
			select {
			case <-before:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		return s.handler.Serve(ctx, req, caller)
	})
}
