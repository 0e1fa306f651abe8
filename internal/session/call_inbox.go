// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// The bounds of what a call keeps for a slow receiver. A message larger than the
// bytes is kept when it is alone.
const (
	inboxMessages = 256
	inboxBytes    = 1 << 20
)

// Call is one outbound request and the cell in which its answer arrives: the
// messages that belong to it, in the order of their arrival, and behind them its
// one terminal. Any carrier may bring them; whoever made the call takes them.
//
// When the terminal is there the call is over: Done is closed, and whatever
// still carries the call (bodies, reconnects, timers) ends on that. What comes
// later is counted and dropped.
type Call struct {
	id     mcp.ID
	serial uint64
	method string
	table  *Calls
	wake   chan struct{} // capacity 1: there is something to take
	room   chan struct{} // capacity 1: something was taken
	done   chan struct{}

	// Below: guarded by table.mu.
	inbox []*mcp.Message
	size  int
	end   *Terminal
	held  bool // nothing of the request has left yet
}

// ID returns the id of the call on its connection, which serves as its progress
// token as well.
func (c *Call) ID() mcp.ID { return c.id }

// Method returns the method that is called.
func (c *Call) Method() string { return c.method }

// Wake returns a channel that receives when Next is worth calling again. It has
// one reader.
func (c *Call) Wake() <-chan struct{} { return c.wake }

// Room returns a channel that receives when Offer is worth calling again, and
// when the call has ended. It has one reader.
func (c *Call) Room() <-chan struct{} { return c.room }

// Done returns a channel that is closed when the call has its terminal.
func (c *Call) Done() <-chan struct{} { return c.done }

// Finish ends the call from our own side: cancelled, late, without a carrier. It
// reports false when the call has ended already; then its terminal stands.
func (c *Call) Finish(end Terminal) bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.end != nil {
		return false
	}
	c.table.endLocked(c, end)
	return true
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
	if c.end != nil {
		return false
	}
	c.held = false
	return true
}

// Withdraw ends the call if nothing of its request has left, and sees to it that
// nothing will. It reports false when something may have, or when the call has
// ended already.
func (c *Call) Withdraw(end Terminal) bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.end != nil || !c.held {
		return false
	}
	c.table.endLocked(c, end)
	return true
}

// Next takes the next message, or the terminal when no message is left. Both
// are nil when there is nothing to take yet.
func (c *Call) Next() (*mcp.Message, *Terminal) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if len(c.inbox) == 0 {
		return nil, c.end
	}
	m := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	c.size -= len(m.Raw)
	signal(c.room)
	return m, nil
}

// Delivery is what became of a message for a call.
type Delivery uint8

// The outcomes of Offer and Push.
const (
	Taken Delivery = iota // it will be taken, or a newer one in its stead
	Full                  // no room: to be offered again
	Lost                  // the call has ended, or there was no room and no way to wait
)

// Offer hands over a message from a carrier that serves this call alone, and so
// may wait: where there is no room it returns Full and keeps nothing.
func (c *Call) Offer(m *mcp.Message) Delivery {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.end != nil:
		c.table.stats.Late++
		return Lost
	case c.mergeLocked(m):
		return Taken
	case !c.fitsLocked(m):
		return Full
	}
	c.appendLocked(m)
	return Taken
}

// Push hands over a message from a carrier that serves others too, and so must
// not wait. Where there is no room, the older of two progress reports goes
// first, then log messages; what finds no room after that is lost.
func (c *Call) Push(m *mcp.Message) Delivery {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.end != nil:
		c.table.stats.Late++
		return Lost
	case c.mergeLocked(m):
		return Taken
	}
	for !c.fitsLocked(m) {
		if !c.shedLocked() {
			c.table.stats.Dropped++
			return Lost
		}
	}
	c.appendLocked(m)
	return Taken
}

func (c *Call) fitsLocked(m *mcp.Message) bool {
	return len(c.inbox) == 0 || len(c.inbox) < inboxMessages && c.size+len(m.Raw) <= inboxBytes
}

func (c *Call) appendLocked(m *mcp.Message) {
	c.inbox = append(c.inbox, m)
	c.size += len(m.Raw)
	signal(c.wake)
}

// mergeLocked reports whether a message that says the same is waiting already. A
// change is a level, not an edge: many changes that nobody has heard of yet are
// one. An invalidation that is still waiting will be followed by a look at what
// is true then.
func (c *Call) mergeLocked(m *mcp.Message) bool {
	if m.Method == "notifications/tasks" {
		c.replaceTaskLocked(m)
		return false
	}
	if !isChange(m.Method) {
		return false
	}
	for _, old := range c.inbox {
		if old.Method == m.Method && bytes.Equal(old.Params.Raw(mcp.FieldURI), m.Params.Raw(mcp.FieldURI)) {
			c.table.stats.Merged++
			return true
		}
	}
	return false
}

// replaceTaskLocked gives up what was said of the same task before and nobody has
// heard yet: the newest says all.
func (c *Call) replaceTaskLocked(m *mcp.Message) {
	for i, old := range c.inbox {
		if old.Method == m.Method && bytes.Equal(old.Params.Raw(mcp.FieldTaskID), m.Params.Raw(mcp.FieldTaskID)) {
			c.size -= len(old.Raw)
			c.inbox = append(c.inbox[:i:i], c.inbox[i+1:]...)
			c.table.stats.Merged++
			return
		}
	}
}

// shedLocked gives up the oldest message that may be given up.
func (c *Call) shedLocked() bool {
	for _, method := range [...]string{"notifications/progress", "notifications/message"} {
		for i, m := range c.inbox {
			if m.Method != method {
				continue
			}
			c.size -= len(m.Raw)
			c.inbox = append(c.inbox[:i:i], c.inbox[i+1:]...)
			c.table.stats.Dropped++
			return true
		}
	}
	return false
}

func isChange(method string) bool {
	switch method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
		return true
	default:
		return false
	}
}
