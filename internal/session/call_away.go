// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import "github.com/signalbox-mcp/signalbox/mcp"

// Away says that whoever made the call does not look after what arrives, because he
// is about something that may take its time: he sends the request, and reads the
// answer. Until he calls Next,
//
//   - comes is called when there is a message that nobody takes. Whoever is called
//     has it taken with Take, and is called again only when Take has found nothing;
//   - ended is called when the call has its terminal, but by its own Respond: what
//     he is about is to be broken off.
//
// Both are called by whoever brings that, holding no lock, and must not wait. Either
// may be called before Away returns.
func (c *Call) Away(comes, ended func()) {
	waits, over := c.leave(comes, ended)
	if waits {
		comes()
	}
	if over {
		ended()
	}
}

func (c *Call) leave(comes, ended func()) (waits, over bool) {
	c.table.mu.Lock()
	defer c.table.mu.Unlock()
	c.away, c.comes, c.ended = true, comes, ended
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
