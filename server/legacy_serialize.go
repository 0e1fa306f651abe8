// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/session"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// turns are the notifications of a session of which the next says more than the one
// before: each is handed to the Handler when that has returned from the one before.
type serialQueue struct {
	mu   sync.Mutex
	last <-chan struct{} // closed when the newest is over, nil before the first
}

type serialQueueKey struct{}

// next returns what is closed when it is the next one's turn, nil at once, and what
// says that this is over.
func (q *serialQueue) next() (before <-chan struct{}, over func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	done := make(chan struct{})
	before, q.last = q.last, done
	return before, func() { close(done) }
}

// inTurn is the server's Handler for the next of such notifications, which it must be
// given.
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
