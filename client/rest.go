// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/legacy"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// Rest ends the processes that were started and last used by a client before the time,
// and that nothing needs: no request, also none that waits for input of a client, no
// subscription, no task and, unless Config.RestSessions is set, no session in which a
// client has made calls. Requests of the gateway itself, in a scope without a caller for
// unrelated messages, are no use. The next request starts a process. Rest has no effect
// on a client of an HTTP server. It does not wait for the processes.
//
// A server without sessions (the modern era) may work on a task that no request waits
// for. The caller must know its tasks.
func (c *Client) Rest(since time.Time) {
	if c.pipes == nil {
		return
	}
	ap, _ := c.current()
	if ap == nil {
		return
	}
	if l, ok := ap.protocol.(*legacy.Protocol); ok {
		l.Rest(since)
		c.group.Start(func(context.Context) { c.pipes.closeSpare() }) // bounded by the process's end; waited for by Close
		return
	}
	if c.retireIdle(ap, since) {
		c.dispose(ap)
	}
}

// retireIdle makes further requests use another process, if there is no request in
// progress, and the last one has not ended after the time. It reports whether the caller
// must close the protocol.
func (c *Client) retireIdle(ap *activeProtocol, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != ap || c.serving > 0 || c.used.Load() > since.UnixNano() || c.input.any() || c.rechecking || c.draining {
		return false
	}
	c.cur, ap.retired = nil, true
	return ap.users == 0
}

// KeepsState reports whether a process is open that Rest leaves because of what a client
// has begun in it.
func (c *Client) KeepsState() bool {
	l := c.legacy()
	return l != nil && l.KeepsState() || c.input.any()
}

// InSession reports whether a session is open that a legacy server keeps for a single
// client.
func (c *Client) InSession() bool {
	l := c.legacy()
	return l != nil && l.InSession()
}

// SharesProcess reports whether one process serves all clients, and the gateway's own
// requests as well. It is false while the server's era is not known.
func (c *Client) SharesProcess() bool {
	ap, _ := c.current()
	return c.pipes != nil && (c.setup.Share || ap != nil && ap.Era() == mcp.EraModern)
}

// legacy returns the protocol in use if it is legacy, or nil.
func (c *Client) legacy() *legacy.Protocol {
	ap, _ := c.current()
	if ap == nil {
		return nil
	}
	l, _ := ap.protocol.(*legacy.Protocol)
	return l
}

// RetryStart makes the next request start a process even if others have exited shortly
// before.
func (c *Client) RetryStart() {
	if c.pipes != nil && c.pipes.launcher != nil {
		c.pipes.launcher.Retry()
	}
}
