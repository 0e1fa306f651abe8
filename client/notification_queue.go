// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// maxOutbox bounds the notifications that wait for a slow receiver.
const maxOutbox = 64

// notificationQueue gives notifications to a receiver that may be slow, in order, on behalf
// of a reader that must not wait. It has a goroutine only while there is
// something to give. The zero value is ready.
type notificationQueue struct {
	mu      sync.Mutex
	queue   []*mcp.Notification
	running bool
	dropped uint64
}

// put hands over a notification; the oldest one is dropped where there are too
// many.
func (o *notificationQueue) put(owner *goroutines, to mcp.Caller, n *mcp.Notification) {
	if !o.add(n) {
		return
	}
	// Lent, because the receiver may do anything; ends when the queue is empty.
	if !owner.startUnowned(func(ctx context.Context) { o.drain(ctx, to) }) {
		o.next(true)
	}
}

// add reports whether a goroutine is needed. The oldest message goes where there is
// no room: these are messages that only the latest of matters, or that are best
// effort.
func (o *notificationQueue) add(n *mcp.Notification) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) >= maxOutbox {
		o.queue = o.queue[1:]
		o.dropped++
	}
	o.queue = append(o.queue, n)
	idle := !o.running
	o.running = true
	return idle
}

// drain gives what is queued, on the receiver's time. What comes meanwhile is given
// by the same goroutine, so that the order holds.
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

// next returns the next notification, or nil when there is none or no more are
// to be given; then the goroutine is over.
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
