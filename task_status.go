// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxStates bounds the states of tasks that wait for one backend. The oldest goes
// first: the newest says more.
const maxQueuedStatuses = 64

// stateLine are the states of the tasks that one client runs, on their way to one
// backend: one after the other, because they were said in an order, and nobody's
// slowness is another's. It is kept under the client's scope.
type statusQueue struct {
	mu      sync.Mutex
	queue   []*mcp.Request
	running bool
}

// stateKey is under what a client's scope keeps the line of a backend.
type statusQueueKey struct{ of *backend.Backend }

// tellState passes on what has become of a task that a client of 2025-11-25 runs for
// a backend (basic/utilities/tasks, "Task Status Notification"): to all, because the
// one that has begun it knows it.
func (g *Gateway) forwardTaskStatus(req *mcp.Request) (*mcp.Result, error) {
	if req.Scope != nil {
		for _, b := range g.view.Load().backends {
			kept, ok := req.Scope.Value(statusQueueKey{b.Backend}, func() any { return new(statusQueue) })
			if queue, isQueue := kept.(*statusQueue); ok && isQueue && queue.add(req) {
				// Ends when the line is empty, each in tellWithin, or with the Gateway, whose
				// stop waits for it.
				g.begin(func() { g.sendTaskStatuses(b, queue) })
			}
		}
	}
	return mcp.NewResult([]byte("{}"))
}

func (g *Gateway) sendTaskStatuses(b *activeBackend, queue *statusQueue) {
	for req := queue.next(); req != nil; req = queue.next() {
		ctx, cancel := context.WithTimeout(g.ctx, notifyTimeout)
		_, _ = b.Serve(ctx, req, noCaller{}) // a backend that has no use for it drops it
		cancel()
	}
}

// add reports whether somebody has to begin to tell.
func (q *statusQueue) add(req *mcp.Request) (begin bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, req)
	q.queue = q.queue[max(0, len(q.queue)-maxQueuedStatuses):]
	begin = !q.running
	q.running = true
	return begin
}

// next returns what is to be told, nil when that is all: then nobody tells any more.
func (q *statusQueue) next() *mcp.Request {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.queue) == 0 {
		q.queue, q.running = nil, false
		return nil
	}
	req := q.queue[0]
	q.queue = q.queue[1:]
	return req
}
