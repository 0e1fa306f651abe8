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
		for _, u := range g.view.Load().backends {
			kept, ok := req.Scope.Value(statusQueueKey{u.Backend}, func() any { return new(statusQueue) })
			if line, isLine := kept.(*statusQueue); ok && isLine && line.add(req) {
				// Ends when the line is empty, each in tellWithin, or with the Gateway, whose
				// stop waits for it.
				g.begin(func() { g.sendTaskStatuses(u, line) })
			}
		}
	}
	return mcp.NewResult([]byte("{}"))
}

func (g *Gateway) sendTaskStatuses(u *activeBackend, line *statusQueue) {
	for req := line.next(); req != nil; req = line.next() {
		ctx, cancel := context.WithTimeout(g.ctx, notifyTimeout)
		_, _ = u.Serve(ctx, req, noCaller{}) // a backend that has no use for it drops it
		cancel()
	}
}

// add reports whether somebody has to begin to tell.
func (l *statusQueue) add(req *mcp.Request) (begin bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, req)
	l.queue = l.queue[max(0, len(l.queue)-maxQueuedStatuses):]
	begin = !l.running
	l.running = true
	return begin
}

// next returns what is to be told, nil when that is all: then nobody tells any more.
func (l *statusQueue) next() *mcp.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.queue) == 0 {
		l.queue, l.running = nil, false
		return nil
	}
	req := l.queue[0]
	l.queue = l.queue[1:]
	return req
}
