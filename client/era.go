// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// activeProtocol is a protocol with a count of its users. A protocol found to be the
// wrong one is closed when its last request ends, because that may still be answered.
type activeProtocol struct {
	protocol

	ending  call.CloseOnce
	opening call.Opening

	// The fields below are guarded by Client.mu.
	users   int
	retired bool
}

// end closes the protocol once. It returns when the protocol is closed.
func (ap *activeProtocol) end(ctx context.Context) { ap.ending.Once(func() { ap.Close(ctx) }) }

// protocol returns the protocol in use for a request, after a probe if necessary. The caller
// must release it. The limits of asker are paused during the probe, which has its own.
func (c *Client) protocol(ctx context.Context, req *mcp.Request, asker mcp.Caller) (*activeProtocol, error) {
	for {
		ap, det, err := c.acquire(req)
		if ap != nil || err != nil {
			return ap, err
		}
		err = c.awaitDetection(ctx, asker, det)
		if err != nil && (ctx.Err() != nil || det.concerns(req)) {
			return nil, err
		}
	}
}

func (c *Client) awaitDetection(ctx context.Context, asker mcp.Caller, det *detection) error {
	limits := asker.Extension()
	limits.Pause(true)
	defer limits.Pause(false)
	select {
	case <-det.done:
		return det.err
	case <-ctx.Done():
		return c.setup.GivenUp(ctx, mcp.NotDispatched)
	}
}

// acquire returns the protocol in use, or a probe to wait for, started if necessary on behalf
// of the sender of a request.
func (c *Client) acquire(req *mcp.Request) (*activeProtocol, *detection, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cur != nil {
		c.cur.users++
		return c.cur, nil, nil
	}
	if c.detecting != nil {
		return nil, c.detecting, nil
	}
	det := &detection{done: make(chan struct{}), perPrincipal: c.setup.IsPerPrincipal(), principal: req.Principal}
	// Close waits for it. The link's limits bound it.
	if _, ok := c.group.Start(func(ctx context.Context) { c.detect(ctx, req, det) }); !ok {
		return nil, nil, c.setup.Closed()
	}
	c.detecting = det
	return nil, det, nil
}

// detection is one probe, which several requests may wait for.
type detection struct {
	done chan struct{}
	err  error // set before done is closed

	perPrincipal bool   // Credentials differ
	principal    string // it is on behalf of
}

// concerns reports whether the failure of the probe is that of a request. One that Credentials
// have ended may be about another principal, and its text is for that one.
func (d *detection) concerns(req *mcp.Request) bool {
	return !d.perPrincipal || d.principal == req.Principal || !call.IsRejected(d.err, call.NoCredential)
}

// detect probes the server, stores the protocol, and then wakes the waiting requests.
// After a failed probe the next request probes again.
func (c *Client) detect(ctx context.Context, of *mcp.Request, det *detection) {
	began := time.Now()
	p, err := c.link.detect(ctx, of)
	var opening call.Opening
	if err == nil {
		opening = openingOf(p, began)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(det.done)
	c.detecting = nil
	det.err = err
	if err == nil {
		c.useLocked(p)
		c.cur.opening = opening
	}
}

// openingOf returns the times of a protocol that was determined just now, by a probe that
// began then. A legacy server on a pipe has them for each of its sessions.
func openingOf(p protocol, began time.Time) call.Opening {
	o := call.Opening{Responded: began, Ready: time.Now()}
	switch p := p.(type) {
	case interface{ Opening() (call.Opening, bool) }:
		if of, ok := p.Opening(); ok {
			o = of
		}
	case interface{ HasPipes() bool }:
		if p.HasPipes() {
			return call.Opening{}
		}
	}
	return o
}

// useLocked makes p the protocol for further requests.
func (c *Client) useLocked(p protocol) {
	if c.pipes != nil {
		c.used.Store(time.Now().UnixNano())
	}
	c.cur = &activeProtocol{protocol: p}
	if c.known == nil {
		c.known = make(map[*activeProtocol]struct{})
	}
	c.known[c.cur] = struct{}{}
}

// release returns a protocol that acquire returned, after a request with the error. If
// that reports the protocol to be the wrong one, no further request uses it.
func (c *Client) release(ap *activeProtocol, err error) {
	if c.decRef(ap, call.IsRejected(err, call.WrongEra) || call.IsRejected(err, call.NeverSpoke)) {
		c.dispose(ap)
	}
}

// decRef reports whether the caller must close the protocol. The first caller that
// reports it wrong retires it. A protocol that has replaced it meanwhile is not
// touched.
func (c *Client) decRef(ap *activeProtocol, wrong bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	ap.users--
	if wrong {
		ap.retired = true
		if c.cur == ap {
			c.cur = nil
		}
	}
	return ap.retired && ap.users == 0
}

// dispose closes a protocol in the background. Close waits for the goroutine, or closes
// the protocol itself. The cached server/discover result is dropped as well: the next
// server may be another program.
func (c *Client) dispose(ap *activeProtocol) {
	c.discovered.Store(nil)
	c.group.Start(func(ctx context.Context) { // bounded by the protocol's close
		ap.end(ctx)
		c.forget(ap)
	})
}

func (c *Client) forget(ap *activeProtocol) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, ap)
}

// recheck probes the server in the background, and makes further requests use another
// era if the server speaks that now. Requests continue meanwhile. One probe runs at a
// time.
func (c *Client) recheck(of *mcp.Request) {
	old := c.beginRecheck()
	if old == nil {
		return
	}
	// Bounded by the time limits of a probe and of a handshake; waited for by Close.
	c.group.Start(func(ctx context.Context) {
		p := c.probeOtherEra(ctx, of, old)
		isReplaced, isIdle := c.endRecheck(old, p)
		if !isReplaced {
			if p != nil {
				p.Close(ctx)
			}
			return
		}
		c.setup.Log.InfoContext(ctx, "backend speaks another era of the protocol now")
		c.discovered.Store(nil)
		if isIdle {
			c.dispose(old)
		}
	})
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
func (c *Client) probeOtherEra(ctx context.Context, of *mcp.Request, ap *activeProtocol) protocol {
	p, err := c.link.detect(ctx, of)
	if err != nil {
		return nil
	}
	if p.Era() != ap.Era() {
		_, err = p.Serve(ctx, c.setup.OnBehalfOf(of, call.MethodDiscover), call.NoCaller{})
		if err == nil {
			return p
		}
	}
	p.Close(ctx)
	return nil
}

// endRecheck makes further requests use p, unless it is nil. It reports whether it has
// done so, and whether the old protocol is idle.
func (c *Client) endRecheck(old *activeProtocol, p protocol) (isReplaced, isIdle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rechecking = false
	if p == nil || c.cur != old {
		return false, false // another request has replaced it
	}
	old.retired = true
	c.useLocked(p)
	return true, old.users == 0
}
