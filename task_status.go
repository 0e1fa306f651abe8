// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package signalbox

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/internal/backend"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxQueuedStatuses bounds the queued task states for one backend. The oldest is
// dropped first, because the newest replaces it.
const maxQueuedStatuses = 64

// statusQueue holds the states of a client's tasks on their way to one backend. They
// are sent one after the other to keep their order, in the background so that a slow
// backend does not delay the others. The queue is kept in the client's scope.
type statusQueue struct {
	mu      sync.Mutex
	queue   []*mcp.Request
	running bool
}

// statusQueueKey is the key of a backend's statusQueue in the client's scope.
type statusQueueKey struct{ of *backend.Backend }

// forwardTaskStatus forwards the state of a task that a client of 2025-11-25 runs for a
// backend (basic/utilities/tasks, "Task Status Notification"). It is sent to all
// backends, because only the one that created the task recognizes it.
func (g *Gateway) forwardTaskStatus(req *mcp.Request) (*mcp.Result, error) {
	if req.Scope != nil {
		for _, b := range g.view.Load().backends {
			kept, ok := req.Scope.Value(statusQueueKey{b.Backend}, func() any { return new(statusQueue) })
			if queue, isQueue := kept.(*statusQueue); ok && isQueue && queue.add(req) {
				// Ends when the queue is empty, each within notifyTimeout, or with the
				// Gateway, which waits for it in stop.
				g.begin(func() { g.sendTaskStatuses(b, queue) })
			}
		}
	}
	return mcp.NewResult([]byte("{}"))
}

func (g *Gateway) sendTaskStatuses(b *activeBackend, queue *statusQueue) {
	for req := queue.next(); req != nil; req = queue.next() {
		ctx, cancel := context.WithTimeout(g.ctx, notifyTimeout)
		_, _ = b.Serve(ctx, req, noCaller{}) // a backend that does not support it drops it
		cancel()
	}
}

// add reports whether the caller must start sending.
func (q *statusQueue) add(req *mcp.Request) (begin bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.queue = append(q.queue, req)
	q.queue = q.queue[max(0, len(q.queue)-maxQueuedStatuses):]
	begin = !q.running
	q.running = true
	return begin
}

// next returns the next state to send. It returns nil if the queue is empty: sending
// stops then.
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
