// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/signalbox-mcp/signalbox/mcp"
)

// A server that refuses everything is probed again after so many consecutive refusals,
// over at least so long a time.
const (
	refusalsInRow = 3
	refusalTime   = 10 * time.Second
)

// refusals counts the consecutive requests that a server has refused since the last
// success. The zero value is ready.
type refusals struct {
	any atomic.Bool // n > 0: spares successful requests the lock

	mu    sync.Mutex
	n     int
	first time.Time
}

// worked records a request that had a result.
func (r *refusals) worked() {
	if r.any.Load() {
		r.reset()
	}
}

func (r *refusals) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.resetLocked()
}

func (r *refusals) resetLocked() {
	r.n = 0
	r.any.Store(false)
}

// refused records a refusal. It reports whether the server must be probed, and then
// resets the count.
func (r *refusals) refused(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.first = now
		r.any.Store(true)
	}
	r.n++
	if r.n < refusalsInRow || now.Sub(r.first) < refusalTime {
		return false
	}
	r.resetLocked()
	return true
}

// isOfServer reports whether an error is the server's answer to a request, or a
// malformed one, and may mean that the server has changed its era. A server that is
// busy or rejects the credentials answers before it looks at the message, in either
// era.
func isOfServer(ctx context.Context, err error) bool {
	f, isFault := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case ctx.Err() != nil:
		return false
	case !isFault:
		return true
	}
	if r, ok := f.Cause.(*refusal); ok { //nolint:errorlint // set unwrapped by endpoint.refused
		return !r.isBeforeMessage()
	}
	return f.Code == mcp.CodeBackendFailed
}

// recheck probes the server in the background. Requests continue meanwhile. One probe
// runs at a time.
func (c *Client) recheck() {
	sp := c.beginRecheck()
	if sp == nil {
		return
	}
	// Bounded by the time limits of a probe and of a handshake; waited for by Close.
	if _, ok := c.group.start(func(ctx context.Context) { c.endRecheck(ctx, sp, c.probeOtherEra(ctx, sp)) }); !ok {
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
	if p.era() != sp.era() {
		_, err = p.serve(ctx, &mcp.Request{Method: methodDiscover, Client: c.self()}, noCaller{})
		if err == nil {
			return p
		}
	}
	p.close(ctx)
	return nil
}

// endRecheck makes further requests use p, if it is not nil.
func (c *Client) endRecheck(ctx context.Context, old *activeProtocol, p protocol) {
	isIdle, isReplaced := c.replace(old, p)
	switch {
	case !isReplaced && p != nil:
		p.close(ctx)
	case isReplaced:
		c.log.InfoContext(ctx, "backend speaks another era of the protocol now")
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
