// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"bytes"
	"slices"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// Limits of the messages queued for a slow caller. A message larger than inboxBytes is
// queued if it is alone.
const (
	inboxMessages = 256
	inboxBytes    = 1 << 20
)

// Next returns the next message, or the terminal when no message is left. Both are nil if
// there is nothing to take, or while another goroutine drains what arrived while the caller
// was detached. Next ends the detachment.
func (c *Call) Next() (*mcp.Message, *Terminal) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.detached = false
	switch {
	case c.draining:
		return nil, nil
	case len(c.inbox) > 0:
		return c.takeLocked(), nil
	case c.ended:
		return nil, &c.end
	default:
		return nil, nil
	}
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

func (c *Call) takeLocked() *mcp.Message {
	m := c.inbox[0]
	c.inbox[0] = nil
	c.inbox = c.inbox[1:]
	c.size -= len(m.Raw)
	signal(c.space)
	return m
}

// Delivery is the outcome of Offer or Push.
type Delivery uint8

// The outcomes of Offer and Push.
const (
	Queued          Delivery = iota // it will be taken, or a newer one instead of it
	Full                            // no space: offer it again
	Dropped                         // the call has ended, or there was no space
	DeliverDirectly                 // of Offer: the inbox is empty and no goroutine is draining
)

// Offer queues m for a caller that reads from a stream of this call alone, and so may
// block: if there is no space it returns Full and queues nothing.
//
// While the caller is detached, Offer may return DeliverDirectly and queue nothing. The
// caller of Offer must then deliver m itself, and after it the messages from Take until
// that returns nil.
func (c *Call) Offer(m *mcp.Message) Delivery {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.ended:
		c.table.stats.Late++
		return Dropped
	case c.detached && !c.draining:
		c.draining = true
		return DeliverDirectly
	case c.mergeLocked(m):
		return Queued
	case !c.fitsLocked(m):
		c.initSpaceLocked()
		return Full
	}
	c.appendLocked(m)
	return Queued
}

// Push queues m for a stream shared with other calls, which must not block. If there is no
// space, the oldest progress notifications are dropped first, then log messages; if that
// does not suffice, m is dropped.
func (c *Call) Push(m *mcp.Message) Delivery {
	d, o := c.push(m)
	if o != nil {
		o.OnMessage()
	}
	return d
}

// push returns the observer to notify that there is a message to take.
func (c *Call) push(m *mcp.Message) (d Delivery, o Observer) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	switch {
	case c.ended:
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
	if c.detached && !c.draining {
		c.draining = true
		return Queued, c.observer
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

// mergeLocked reports whether an equal change notification is already queued. A change is a
// level, not an edge: many that were not taken are one. The receiver of the queued one
// reads the state at that time.
//
// The status of a task is complete, so that the newest replaces an older one.
func (c *Call) mergeLocked(m *mcp.Message) bool {
	field := mcp.FieldURI
	switch m.Method {
	case "notifications/tools/list_changed", "notifications/prompts/list_changed",
		"notifications/resources/list_changed", "notifications/resources/updated":
	case "notifications/tasks":
		field = mcp.FieldTaskID
	default:
		return false
	}
	i := slices.IndexFunc(c.inbox, func(old *mcp.Message) bool {
		return old.Method == m.Method && bytes.Equal(old.Params.Raw(field), m.Params.Raw(field))
	})
	if i < 0 {
		return false
	}
	c.table.stats.Merged++
	if field == mcp.FieldTaskID {
		c.dropLocked(i)
		return false
	}
	return true
}

// shedLocked drops the oldest message that may be dropped.
func (c *Call) shedLocked() bool {
	for _, method := range [...]string{"notifications/progress", "notifications/message"} {
		if i := slices.IndexFunc(c.inbox, func(m *mcp.Message) bool { return m.Method == method }); i >= 0 {
			c.dropLocked(i)
			c.table.stats.Dropped++
			return true
		}
	}
	return false
}

func (c *Call) dropLocked(i int) {
	c.size -= len(c.inbox[i].Raw)
	c.inbox = slices.Delete(c.inbox, i, i+1)
}
