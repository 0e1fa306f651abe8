// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serve sends a request until it has its terminal or must not be sent again. If a
// protocol turns out to be the wrong one, no other request uses it any more.
func (c *Client) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	// Each kind of attempt is limited separately: one request may meet a restarting
	// server that is gone, then of another era, then busy.
	tries := map[call.RetryDecision]int{}
	for {
		var res *mcp.Result
		req.Timeline.Attempt()
		ap, err := c.protocol(ctx, req, caller)
		if err == nil {
			ap.opening.Note(req.Timeline)
			if ap.Era() == mcp.EraModern { // otherwise a session is leased
				req.Timeline.Mark(mcp.StageLeased)
			}
			res, err = ap.Serve(ctx, req, caller)
			c.release(ap, err)
		}
		if err == nil {
			return res, nil
		}
		v, limit := call.Classify(req, err), 1
		if v == call.Resend {
			limit = call.MaxResend
		}
		if v == call.GiveUp || tries[v] >= limit {
			return nil, call.Unwrap(err)
		}
		tries[v]++
		wait := call.ResendDelay(tries[v])
		if v == call.Reprobe {
			wait = 0 // the server is available; only the protocol was wrong
		}
		if !c.awaitRetry(ctx, wait) {
			return nil, call.Unwrap(err)
		}
	}
}

// awaitRetry waits before another attempt. It reports false if ctx or the number of
// requests that wait already forbids one.
func (c *Client) awaitRetry(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil || !c.beginRetry() {
		return false
	}
	// Before the attempt, not after it: a resent call may take an hour.
	defer c.endRetry()
	c.retries.Add(1)
	return wait == 0 || backoff.Sleep(ctx, wait)
}

// minResending is how many requests may wait to be resent at a time, however few are in
// progress.
const minResending = 3

// beginRetry reports whether one more request may wait to be resent. If so, the caller
// must call endRetry. The limit keeps retries from overloading a backend in trouble.
func (c *Client) beginRetry() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.resending >= max(minResending, c.serving/10) {
		return false
	}
	c.resending++
	return true
}

func (c *Client) endRetry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resending--
}
