// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Call is one outbound request and the cell in which its answer arrives: the
// messages that belong to it, in the order of their arrival, and behind them its
// one terminal. Any carrier may bring them; whoever made the call takes them.
//
// When the terminal is there the call is over: Done is closed, and whatever
// still carries the call (bodies, reconnects, timers) ends on that. What comes
// later is counted and dropped.
//
// Whoever made the call either waits for it (Next, Wake), or is about its transport
// and has himself told of what comes by other ways (Away): see there.
type Call struct {
	id     mcp.ID
	serial uint64
	method string
	table  *Calls
	req    *mcp.Request // that it is made for; see SetRequest

	// Below: guarded by table.mu.

	// The channels are made when somebody asks for them, which for most calls nobody
	// does.
	wake chan struct{} // capacity 1: there is something to take
	room chan struct{} // capacity 1: something was taken
	done chan struct{}

	inbox []*mcp.Message
	size  int
	end   Terminal // once over
	over  bool
	held  bool // nothing of the request has left yet

	away   bool     // whoever made the call is
	taken  bool     // somebody takes what there is, until nothing is left
	absent Observer // see Away; nil before that
}

// SetRequest says for which request the call is made. It must be called before the call
// is sent.
func (c *Call) SetRequest(req *mcp.Request) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.req = req
}

// ID returns the id of the call on its connection, which serves as its progress
// token as well.
func (c *Call) ID() mcp.ID { return c.id }

// Method returns the method that is called.
func (c *Call) Method() string { return c.method }

// Wake returns a channel that receives when Next is worth calling again. It has
// one reader.
func (c *Call) Wake() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
		if c.over || len(c.inbox) > 0 {
			signal(c.wake)
		}
	}
	return c.wake
}

// Room returns a channel that receives when Offer is worth calling again, and
// when the call has ended. It has one reader.
func (c *Call) Space() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.makeRoomLocked()
	return c.room
}

func (c *Call) makeRoomLocked() {
	if c.room == nil {
		c.room = make(chan struct{}, 1)
		if c.over {
			signal(c.room)
		}
	}
}

// Done returns a channel that is closed when the call has its terminal.
func (c *Call) Done() <-chan struct{} {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.over {
			close(c.done)
		}
	}
	return c.done
}

// IsOver reports whether the call has its terminal.
func (c *Call) IsOver() bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	return c.over
}

// Finish ends the call from our own side: cancelled, late, without a carrier. It
// reports false when the call has ended already; then its terminal stands.
func (c *Call) Finish(end Terminal) bool {
	ended, ok := c.finish(end)
	tell(ended)
	return ok
}

func (c *Call) finish(end Terminal) (ended Observer, ok bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.over {
		return nil, false
	}
	return c.table.endLocked(c, end), true
}

// Hold promises that nothing of the request leaves before Dispatch is called. A
// carrier that can keep that promise makes it before anybody waits for the call;
// without it, a call counts as dispatched from the beginning, which is what is
// safe to believe.
func (c *Call) Hold() {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.held = true
}

// Dispatch is called before the first byte of the request leaves. It reports false
// when the call has ended: then none may, because whoever made the call may have
// been told that none did.
func (c *Call) Dispatch() bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.over {
		return false
	}
	c.held = false
	return true
}

// Withdraw ends the call if nothing of its request has left, and sees to it that
// nothing will. It reports false when something may have, or when the call has
// ended already.
func (c *Call) Withdraw(end Terminal) bool {
	ended, ok := c.withdraw(end)
	tell(ended)
	return ok
}

func (c *Call) withdraw(end Terminal) (ended Observer, ok bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.over || !c.held {
		return nil, false
	}
	return c.table.endLocked(c, end), true
}
