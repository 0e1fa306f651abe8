// Copyright The Signalbox Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"sync"
	"time"

	"github.com/signalbox-mcp/signalbox/client/internal/call"
	"github.com/signalbox-mcp/signalbox/internal/backoff"
	"github.com/signalbox-mcp/signalbox/mcp"
)

// serve sends a request until it has its terminal or must not be sent again. If a
// protocol turns out to be the wrong one, no other request uses it any more.
func (c *Client) serve(ctx context.Context, req *mcp.Request, caller mcp.Caller) (*mcp.Result, error) {
	tries := map[call.RetryDecision]int{}
	for {
		var res *mcp.Result
		sp, err := c.protocol(ctx, caller)
		if err == nil {
			res, err = sp.Serve(ctx, req, caller)
			c.release(sp, call.IsRejected(err, call.WrongEra) || call.IsRejected(err, call.NeverSpoke))
		}
		if err == nil {
			return res, nil
		}
		v := call.Classify(req, err)
		if v == call.GiveUp || tries[v] >= limitOf(v) {
			return nil, call.Unwrap(err)
		}
		tries[v]++
		wait := call.ResendDelay(tries[v])
		if v == call.Reprobe {
			wait = 0 // the server is available; only the protocol was wrong
		}
		if !c.grantRetry(ctx, wait) {
			return nil, call.Unwrap(err)
		}
	}
}

// awaitRetry implements call.Setup.AwaitRetry.
func (c *Client) awaitRetry(ctx context.Context, n int) bool {
	return c.grantRetry(ctx, call.ResendDelay(n))
}

// grantRetry waits before another attempt. It reports false if the budget or ctx
// forbids one.
func (c *Client) grantRetry(ctx context.Context, wait time.Duration) bool {
	if ctx.Err() != nil || !c.budget.take(c.servingNow()) {
		return false
	}
	defer c.budget.giveBack()
	c.retries.Add(1)
	return wait == 0 || backoff.Sleep(ctx, wait)
}

// limitOf limits each kind of attempt separately: one request may meet a restarting
// server that is gone, then of another era, then busy.
func limitOf(v call.RetryDecision) int {
	if v == call.Resend {
		return call.MaxResend
	}
	return 1
}

// budget limits how many requests wait to be resent, so that retries do not overload a
// backend in trouble. The zero value is ready.
type budget struct {
	mu   sync.Mutex
	used int
}

// minBudget is how many requests may be resent at a time, however few are in progress.
const minBudget = 3

// take reports whether one more of the active requests may be resent. If so, the caller
// must call giveBack.
func (b *budget) take(active int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used >= max(minBudget, active/10) {
		return false
	}
	b.used++
	return true
}

// giveBack is called before the attempt, not after it: the budget limits the requests
// that wait for a retry, and a resent call may take an hour.
func (b *budget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used--
}

func (c *Client) servingNow() int {
	_, n := c.current()
	return n
}
