// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// recheck probes the server in the background. Requests continue meanwhile. One probe
// runs at a time.
func (c *Client) recheck() {
	sp := c.beginRecheck()
	if sp == nil {
		return
	}
	// Bounded by the time limits of a probe and of a handshake; waited for by Close.
	if _, ok := c.group.Start(func(ctx context.Context) { c.endRecheck(ctx, sp, c.probeOtherEra(ctx, sp)) }); !ok {
		c.replace(sp, nil)
	}
}

// beginRecheck returns the protocol to check. It returns nil before the first request,
// and while a check is in progress.
func (c *Client) beginRecheck() *activeProtocol {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur == nil || c.rechecking {
		return nil
	}
	c.rechecking = true
	return c.cur
}

// probeOtherEra returns the protocol of another era if the server speaks that now,
// otherwise nil. A server in trouble may answer a probe with an error of either era, so
// a request must succeed.
func (c *Client) probeOtherEra(ctx context.Context, sp *activeProtocol) protocol {
	p, err := c.link.detect(ctx)
	if err != nil {
		return nil
	}
	if p.Era() != sp.Era() {
		_, err = p.Serve(ctx, &mcp.Request{Method: call.MethodDiscover, Client: c.setup.Self()}, call.NoCaller{})
		if err == nil {
			return p
		}
	}
	p.Close(ctx)
	return nil
}

// endRecheck makes further requests use p, if it is not nil.
func (c *Client) endRecheck(ctx context.Context, old *activeProtocol, p protocol) {
	isIdle, isReplaced := c.replace(old, p)
	switch {
	case !isReplaced && p != nil:
		p.Close(ctx)
	case isReplaced:
		c.setup.Log.InfoContext(ctx, "backend speaks another era of the protocol now")
		c.discovery.forget()
	}
	if isReplaced && isIdle {
		c.dispose(old)
	}
}

// replace makes further requests use p. It reports whether it has done so, and whether
// the old protocol is idle.
func (c *Client) replace(old *activeProtocol, p protocol) (isIdle, isReplaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rechecking = false
	if p == nil || c.cur != old {
		return false, false // another request has replaced it
	}
	old.retired = true
	c.useLocked(p)
	return old.users == 0, true
}
