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

// When a server that refuses everything is probed again: after so many refusals in a
// row, over so long a time.
const (
	refusalsInRow = 3
	refusalTime   = 10 * time.Second
)

// refusals are the requests in a row that a server has refused, in whatever way, since
// the last one that worked. The zero value is ready.
type refusals struct {
	some atomic.Bool // whether n is not 0: what works asks nothing else

	mu    sync.Mutex
	n     int
	first time.Time
}

// worked notes a request that had a result.
func (r *refusals) worked() {
	if r.some.Load() {
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
	r.some.Store(false)
}

// refused notes a refusal, and reports whether the server is to be probed. The count
// begins anew then.
func (r *refusals) refused(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.n == 0 {
		r.first = now
		r.some.Store(true)
	}
	r.n++
	if r.n < refusalsInRow || now.Sub(r.first) < refusalTime {
		return false
	}
	r.resetLocked()
	return true
}

// isOfServer reports whether an error is the server's answer to a request, or a broken
// one, and may mean that it speaks another era now. That a server is busy or wants other
// credentials is said before the message is looked at, in either era.
func isOfServer(ctx context.Context, err error) bool {
	f, isFault := unwrap(err).(*mcp.Fault) //nolint:errorlint // only what is a Fault itself
	switch {
	case ctx.Err() != nil:
		return false
	case !isFault:
		return true
	}
	if r, ok := f.Cause.(*refusal); ok { //nolint:errorlint // as it was made in refused
		return !r.isBeforeMessage()
	}
	return f.Code == mcp.CodeBackendFailed
}

// recheck probes the server in the background, where it has refused everything for a
// while. Requests go on meanwhile as before. One probe runs at a time.
func (c *Client) recheck() {
	sp := c.beginRecheck()
	if sp == nil {
		return
	}
	// Bounded by the limits of a probe and of a handshake; waited for by Close.
	if _, ok := c.group.start(func(ctx context.Context) { c.endRecheck(ctx, sp, c.proven(ctx, sp)) }); !ok {
		c.replace(sp, nil)
	}
}

// beginRecheck returns the protocol to look behind, nil where there is none, or that is
// done already.
func (c *Client) beginRecheck() *activeProtocol {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur == nil || c.rechecking {
		return nil
	}
	c.rechecking = true
	return c.cur
}

// proven returns the protocol of another era that the server speaks now, or nil. A server
// in trouble answers a probe with an error too, so that the other era has to work.
func (c *Client) proven(ctx context.Context, sp *activeProtocol) protocol {
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

// endRecheck has all further requests use another protocol, if there is one.
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

// replace reports whether the protocol is in use now, and whether the old one serves
// nothing any more.
func (c *Client) replace(old *activeProtocol, p protocol) (isIdle, isReplaced bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rechecking = false
	if p == nil || c.cur != old {
		return false, false // another request has found out
	}
	old.retired = true
	c.useLocked(p)
	return old.users == 0, true
}
