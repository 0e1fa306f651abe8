// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxQueuedNotifications bounds the notifications that wait for a slow receiver.
const maxQueuedNotifications = 64

// notificationQueue sends notifications to a receiver that may be slow, in order, for a
// reader that must not wait. It has a goroutine only while it is not empty. The zero
// value is ready.
type notificationQueue struct {
	mu      sync.Mutex
	queue   []*mcp.Notification
	running bool
	dropped uint64
}

// put queues a notification. If the queue is full, it drops the oldest one.
func (o *notificationQueue) put(owner *goroutines, to mcp.Caller, n *mcp.Notification) {
	if !o.add(n) {
		return
	}
	// Ends when the queue is empty. Unowned, because the receiver may do anything,
	// including closing the owner.
	if !owner.startUnowned(func(ctx context.Context) { o.drain(ctx, to) }) {
		o.next(true)
	}
}

// add reports whether a goroutine is needed. Dropping the oldest is safe: of these
// messages only the latest matters, or they are best effort.
func (o *notificationQueue) add(n *mcp.Notification) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxQueuedNotifications {
		o.queue = o.queue[1:]
		o.dropped++
	}
	o.queue = append(o.queue, n)
	idle := !o.running
	o.running = true
	return idle
}

// drain sends what is queued. Notifications that arrive meanwhile are sent by the same
// goroutine, which keeps the order.
func (o *notificationQueue) drain(ctx context.Context, to mcp.Caller) {
	for {
		n := o.next(ctx.Err() != nil)
		if n == nil {
			return
		}
		if err := to.Notify(ctx, n); err != nil {
			continue // best effort
		}
	}
}

// next returns the next notification. It returns nil if the queue is empty or stop is
// set; then the goroutine must end.
func (o *notificationQueue) next(stop bool) *mcp.Notification {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stop || len(o.queue) == 0 {
		o.running = false
		o.queue = nil
		return nil
	}
	n := o.queue[0]
	o.queue = o.queue[1:]
	return n
}
