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

// Next takes the next message, or the terminal when no message is left. Both
// are nil when there is nothing to take yet, or as long as somebody else takes what
// has arrived while the caller was away; he is back now.
func (c *Call) Next() (*mcp.Message, *Terminal) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.away = false
	switch {
	case c.taken:
		return nil, nil
	case len(c.inbox) > 0:
		return c.takeLocked(), nil
	case c.over:
		return nil, &c.end
	default:
		return nil, nil
	}
}

func (c *Call) takeLocked() *mcp.Message {
	m := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	c.size -= len(m.Raw)
	signal(c.room)
	return m
}

// Delivery is what became of a message for a call.
type Delivery uint8

// The outcomes of Offer and Push.
const (
	Queued          Delivery = iota // it will be taken, or a newer one in its stead
	Full                            // no room: to be offered again
	Dropped                         // the call has ended, or there was no room and no way to wait
	DeliverDirectly                 // of Offer: nothing is before it, and nobody takes what comes
)

// Offer hands over a message from a carrier that serves this call alone, and so
// may wait: where there is no room it returns Full and keeps nothing.
//
// To whoever is away from the call to carry it, it may return DeliverDirectly, and keep
// nothing either: he is the one to take the message, and then what Take returns
// until that is nil.
func (c *Call) Offer(m *mcp.Message) Delivery {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.over:
		c.table.stats.Late++
		return Dropped
	case c.away && !c.taken:
		c.taken = true
		return DeliverDirectly
	case c.mergeLocked(m):
		return Queued
	case !c.fitsLocked(m):
		c.makeRoomLocked()
		return Full
	}
	c.appendLocked(m)
	return Queued
}

// Push hands over a message from a carrier that serves others too, and so must
// not wait. Where there is no room, the older of two progress reports goes
// first, then log messages; what finds no room after that is lost.
func (c *Call) Push(m *mcp.Message) Delivery {
	d, comes := c.push(m)
	if comes != nil {
		comes.OnMessage()
	}
	return d
}

// push returns whom to tell that there is something to take.
func (c *Call) push(m *mcp.Message) (d Delivery, comes Observer) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.over:
		c.table.stats.Late++
		return Dropped, nil
	case c.mergeLocked(m):
		return Queued, nil
	}
	for !c.fitsLocked(m) {
		if !c.shedLocked() {
			c.table.stats.Dropped++
			return Dropped, nil
		}
	}
	c.appendLocked(m)
	if c.away && !c.taken {
		c.taken = true
		return Queued, c.absent
	}
	return Queued, nil
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
