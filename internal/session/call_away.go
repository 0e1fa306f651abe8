// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Detach says that whoever made the call does not look after what arrives, because he
// is about something that may take its time: he sends the request, and reads the
// answer. Until he calls Next, the absent is told of what happens.
func (c *Call) Detach(who Observer) {
	waits, over := c.leave(who)
	if waits {
		who.OnMessage()
	}
	if over {
		who.OnEnd()
	}
}

// Observer is whoever is to be told of what comes for a call by other ways. Both methods
// are called by whoever brings that, holding no lock, and must not wait. Either may be
// called before Away returns.
type Observer interface {
	// OnMessage is called when there is a message that nobody takes. Whoever is called
	// has it taken with Take, and is called again only when Take has found nothing.
	OnMessage()

	// Ended is called when the call has its terminal, but by its own Respond: what the
	// absent is about is to be broken off.
	OnEnd()
}

func (c *Call) leave(who Observer) (waits, over bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.away, c.absent = true, who
	c.taken = len(c.inbox) > 0
	return c.taken, c.over
}

// Respond ends the call with the response that came on its own stream. It is
// Calls.Respond by whoever went away to read that stream, who need not be told.
func (c *Call) Respond(end Terminal) bool {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if c.over {
		c.table.stats.Late++
		return false
	}
	c.table.endLocked(c, end)
	return true
}

// Take takes the next message for whoever takes them while the caller is away, and
// returns nil when none is left. Then it is not for him to take them any more.
func (c *Call) Take() *mcp.Message {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	if len(c.inbox) > 0 {
		return c.takeLocked()
	}
	c.taken = false
	signal(c.wake)
	return nil
}
