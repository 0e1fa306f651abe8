// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Call is one outbound request and its answer: the messages that belong to it, in the order
// of their arrival, and after them its one terminal. Messages may arrive on any stream; the
// caller takes them.
//
// When the terminal arrives the call ends: Done is closed, and all I/O for the call
// (bodies, reconnects, timers) ends. Later messages are counted and dropped.
//
// The caller either waits for the call (Next, Wake), or performs its I/O and has an
// Observer notified of what arrives on other streams; see Detach.
type Call struct {
	id     mcp.ID
	serial uint64
	method string
	table  *Calls
	req    *mcp.Request // that the call is made for; see SetRequest

	// Below: guarded by table.mu.

	// The channels are created on demand; most calls need none.
	wake  chan struct{} // capacity 1: Next should be called
	space chan struct{} // capacity 1: Offer should be called
	done  chan struct{}

	inbox        []*mcp.Message
	size         int
	end          Terminal // valid once ended
	ended        bool
	undispatched bool // no byte of the request was sent

	detached bool     // the caller is
	draining bool     // a goroutine is draining the inbox, until it is empty
	observer Observer // see Detach; nil before that
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

// SetRequest sets the request that the call is made for. It must be called before the call
// is sent.
func (c *Call) SetRequest(req *mcp.Request) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.req = req
}

// Timeline returns that of the request which SetRequest has set, or nil.
func (c *Call) Timeline() *mcp.Timeline {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.req == nil {
		return nil
	}
	return c.req.Timeline
}

// ID returns the id of the call on its connection, which is also its progress token.
func (c *Call) ID() mcp.ID { return c.id }

// Method returns the method of the call.
func (c *Call) Method() string { return c.method }

// Wake returns a channel that receives when Next should be called. It must have one reader.
func (c *Call) Wake() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
		if c.ended || len(c.inbox) > 0 {
			signal(c.wake)
		}
	}
	return c.wake
}

// Space returns a channel that receives when Offer should be called again, and when the
// call has ended. It must have one reader.
func (c *Call) Space() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.initSpaceLocked()
	return c.space
}

func (c *Call) initSpaceLocked() {
	if c.space == nil {
		c.space = make(chan struct{}, 1)
		if c.ended {
			signal(c.space)
		}
	}
}

// Done returns a channel that is closed when the call has its terminal.
func (c *Call) Done() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.ended {
			close(c.done)
		}
	}
	return c.done
}

// IsOver reports whether the call has its terminal.
func (c *Call) IsOver() bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.ended
}

// Finish ends the call locally, for example because of a cancellation, a timeout or a lost
// connection. It reports false if the call has already ended; its terminal is not changed.
func (c *Call) Finish(end Terminal) bool { return c.finish(end, false) }

// Withdraw ends the call if no byte of its request was sent, and prevents Dispatch. It
// reports false if a byte may have been sent, or if the call has already ended.
func (c *Call) Withdraw(end Terminal) bool { return c.finish(end, true) }

// finish ends the call unless it has already ended; with undispatched, only if no byte of
// its request was sent. It notifies the observer.
func (c *Call) finish(end Terminal, undispatched bool) bool {
	o, ok := c.tryEnd(end, undispatched)
	if o != nil {
		o.OnEnd()
	}
	return ok
}

// tryEnd returns the observer to notify, if any.
func (c *Call) tryEnd(end Terminal, undispatched bool) (o Observer, ok bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.ended || undispatched && !c.undispatched {
		return nil, false
	}
	c.endLocked(end)
	return c.observer, true
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
	c.endLocked(end)
	return true
}

// endLocked is the only place where a call ends. Queued messages are taken before the
// terminal.
func (c *Call) endLocked(end Terminal) {
	delete(c.table.open, c.id)
	c.end, c.ended = end, true
	if c.done != nil {
		close(c.done)
	}
	signal(c.wake)
	signal(c.space)
}

// Hold promises that no byte of the request is sent before Dispatch is called. It must be
// called before the caller waits for the call. Without it, a call counts as dispatched from
// the beginning, which is the safe assumption.
func (c *Call) Hold() {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.undispatched = true
}

// Dispatch must be called before the first byte of the request is sent. It reports false if
// the call has ended: then nothing may be sent, because the caller may have been informed
// that nothing was.
func (c *Call) Dispatch() bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.ended {
		return false
	}
	c.undispatched = false
	return true
}

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

func (c *Call) detach(o Observer) (queued, ended bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.detached, c.observer = true, o
	c.draining = len(c.inbox) > 0
	return c.draining, c.ended
}
