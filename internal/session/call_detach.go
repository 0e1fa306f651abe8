// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Detach reports that the caller is busy with network I/O: it sends the request and reads
// the answer. Until the next call to Next, o is notified of messages that arrive on other
// streams.
func (c *Call) Detach(o Observer) {
	queued, ended := c.detach(o)
	if queued {
		o.OnMessage()
	}
	if ended {
		o.OnEnd()
	}
}

// Observer is notified of what arrives for a detached call on other streams. Both methods
// are called without a lock by the goroutine that delivers, and must not block. Either may
// be called before Detach returns.
type Observer interface {
	// OnMessage is called when a message is queued and no goroutine is draining. The callee
	// must drain with Take, and is called again only after Take has returned nil.
	OnMessage()

	// OnEnd is called when the call has its terminal, unless Call.Respond delivered it. The
	// callee must cancel the I/O of the call.
	OnEnd()
}

func (c *Call) detach(o Observer) (queued, ended bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.detached, c.observer = true, o
	c.draining = len(c.inbox) > 0
	return c.draining, c.ended
}

// Respond ends the call with the response that arrived on its own stream. Unlike
// Calls.Respond it does not notify the observer: the goroutine that reads that stream calls
// it.
func (c *Call) Respond(end Terminal) bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.ended {
		c.table.stats.Late++
		return false
	}
	c.table.endLocked(c, end)
	return true
}

// Take returns the next message while the caller is detached. It returns nil when none is
// left; then the goroutine must stop draining.
func (c *Call) Take() *mcp.Message {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if len(c.inbox) > 0 {
		return c.takeLocked()
	}
	c.draining = false
	signal(c.wake)
	return nil
}
